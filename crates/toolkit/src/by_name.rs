//! JSON forms of values that have names: `#[serde(with = "by_name::single")]`, and [`optional`], [`list`] and [`map`].

use gguf_container::Endian;
use gguf_conversion::{
    imatrix::MissingPolicy,
    recipes::{Recipe, TensorType},
};
use gguf_imatrix::Format;
use gguf_layout::ForeignFormat;
use gguf_quant::Level;
use gguf_refinement::Steps;
use gguf_types::DType;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

/// A value that is serialized as its name.
pub(crate) trait Named: Sized {
    /// The name.
    fn name(&self) -> String;

    /// The value with a name, or a message about the name.
    fn from_name(name: &str) -> Result<Self, String>;
}

/// A value.
pub(crate) mod single {
    use crate::by_name::*;

    pub fn serialize<T: Named, S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
        value.name().serialize(serializer)
    }

    pub fn deserialize<'de, T: Named, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
        T::from_name(&String::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

/// A value or none.
pub(crate) mod optional {
    use crate::by_name::*;

    pub fn serialize<T: Named, S: Serializer>(value: &Option<T>, serializer: S) -> Result<S::Ok, S::Error> {
        value.as_ref().map(T::name).serialize(serializer)
    }

    pub fn deserialize<'de, T: Named, D: Deserializer<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
        let name = Option::<String>::deserialize(deserializer)?;
        name.map(|name| T::from_name(&name).map_err(D::Error::custom)).transpose()
    }
}

/// A list of values.
pub(crate) mod list {
    use crate::by_name::*;

    pub fn serialize<T: Named, S: Serializer>(values: &[T], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(values.iter().map(T::name))
    }

    pub fn deserialize<'de, T: Named, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<T>, D::Error> {
        let names = Vec::<String>::deserialize(deserializer)?;
        names.iter().map(|name| T::from_name(name).map_err(D::Error::custom)).collect()
    }
}

/// Values by text keys.
pub(crate) mod map {
    use std::collections::BTreeMap;

    use crate::by_name::*;

    pub fn serialize<T: Named, S: Serializer>(
        values: &BTreeMap<String, T>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_map(values.iter().map(|(key, value)| (key, value.name())))
    }

    pub fn deserialize<'de, T: Named, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<BTreeMap<String, T>, D::Error> {
        let names = BTreeMap::<String, String>::deserialize(deserializer)?;
        let named = |(key, name): (String, String)| Ok((key, T::from_name(&name).map_err(D::Error::custom)?));
        names.into_iter().map(named).collect()
    }
}

impl Named for DType {
    fn name(&self) -> String {
        DType::name(*self).to_owned()
    }

    fn from_name(name: &str) -> Result<DType, String> {
        DType::from_name(name).map_err(|error| error.to_string())
    }
}

impl Named for &'static Recipe {
    fn name(&self) -> String {
        self.name.to_ascii_lowercase()
    }

    fn from_name(name: &str) -> Result<&'static Recipe, String> {
        Recipe::from_name(name).map_err(|error| error.to_string())
    }
}

/// `REGEX=DTYPE`.
impl Named for TensorType {
    fn name(&self) -> String {
        format!("{}={}", self.pattern.as_str(), self.dtype.name())
    }

    fn from_name(text: &str) -> Result<TensorType, String> {
        TensorType::parse(text).map_err(|error| error.to_string())
    }
}

impl Named for MissingPolicy {
    fn name(&self) -> String {
        MissingPolicy::name(*self).to_owned()
    }

    fn from_name(name: &str) -> Result<MissingPolicy, String> {
        MissingPolicy::from_name(name).ok_or_else(|| format!("unknown policy `{name}`"))
    }
}

impl Named for Level {
    fn name(&self) -> String {
        Level::name(*self).to_owned()
    }

    fn from_name(name: &str) -> Result<Level, String> {
        Level::from_name(name).ok_or_else(|| format!("CPU level `{name}` is not supported"))
    }
}

impl Named for Endian {
    fn name(&self) -> String {
        self.to_string()
    }

    fn from_name(name: &str) -> Result<Endian, String> {
        match name {
            "little" => Ok(Endian::Little),
            "big" => Ok(Endian::Big),
            other => Err(format!("expected `little` or `big`, found `{other}`")),
        }
    }
}

impl Named for Format {
    fn name(&self) -> String {
        name_in(Format::ALL, self)
    }

    fn from_name(name: &str) -> Result<Format, String> {
        let row = Format::ALL.iter().find(|(known, _)| *known == name);
        row.map(|(_, format)| *format).ok_or_else(|| format!("unknown format `{name}`"))
    }
}

impl Named for &'static ForeignFormat {
    fn name(&self) -> String {
        self.name.to_owned()
    }

    fn from_name(name: &str) -> Result<&'static ForeignFormat, String> {
        let known = || gguf_models::FAMILIES.foreign.iter().map(|format| format.name);
        let unknown =
            || format!("expected one of {}, found `{name}`", known().collect::<Vec<_>>().join(", "));
        gguf_models::FAMILIES.foreign(name).ok_or_else(unknown)
    }
}

impl Named for Steps {
    fn name(&self) -> String {
        Steps::name(*self).to_owned()
    }

    fn from_name(name: &str) -> Result<Steps, String> {
        find_in(&Steps::ALL.map(|steps| (steps.name(), steps)), name)
    }
}

/// Name of a value in a table of all values.
pub(crate) fn name_in<T: PartialEq>(names: &[(&str, T)], value: &T) -> String {
    names.iter().find(|(_, known)| known == value).map_or("", |(name, _)| name).to_owned()
}

/// The value with a name in a short table.
pub(crate) fn find_in<T: Copy>(names: &[(&str, T)], name: &str) -> Result<T, String> {
    let found = names.iter().find(|(known, _)| *known == name).map(|(_, value)| *value);
    found.ok_or_else(|| {
        let known: Vec<&str> = names.iter().map(|(known, _)| *known).collect();
        format!("expected one of {}, found `{name}`", known.join(", "))
    })
}
