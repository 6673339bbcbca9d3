//! Serialization of types that have names: each module is for `#[serde(with = "by_name::MODULE")]`.

use gguf_conversion::{
    imatrix::MissingPolicy,
    recipes::{Recipe, TensorType},
};
use gguf_models::Prediction;
use gguf_quant::Level;
use gguf_refinement::Steps;
use gguf_types::DType;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

fn dtype<E: serde::de::Error>(name: &str) -> Result<DType, E> {
    DType::from_name(name).map_err(E::custom)
}

/// A dtype.
pub(crate) mod single_dtype {
    use crate::by_name::*;

    pub fn serialize<S: Serializer>(dtype: &DType, serializer: S) -> Result<S::Ok, S::Error> {
        dtype.name().serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<DType, D::Error> {
        dtype(&String::deserialize(deserializer)?)
    }
}

/// A dtype or none.
pub(crate) mod optional_dtype {
    use crate::by_name::*;

    pub fn serialize<S: Serializer>(dtype: &Option<DType>, serializer: S) -> Result<S::Ok, S::Error> {
        dtype.map(DType::name).serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<DType>, D::Error> {
        Option::<String>::deserialize(deserializer)?.map(|name| dtype(&name)).transpose()
    }
}

/// A list of dtypes.
pub(crate) mod dtypes {
    use crate::by_name::*;

    pub fn serialize<S: Serializer>(dtypes: &[DType], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(dtypes.iter().map(|dtype| dtype.name()))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<DType>, D::Error> {
        Vec::<String>::deserialize(deserializer)?.iter().map(|name| dtype(name)).collect()
    }
}

fn recipe<E: serde::de::Error>(name: &str) -> Result<&'static Recipe, E> {
    Recipe::from_name(name).map_err(E::custom)
}

/// A recipe or none.
pub(crate) mod optional_recipe {
    use crate::by_name::*;

    pub fn serialize<S: Serializer>(
        recipe: &Option<&'static Recipe>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        recipe.map(|recipe| recipe.name.to_ascii_lowercase()).serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<&'static Recipe>, D::Error> {
        Option::<String>::deserialize(deserializer)?.map(|name| recipe(&name)).transpose()
    }
}

/// A list of recipes.
pub(crate) mod recipes {
    use crate::by_name::*;

    pub fn serialize<S: Serializer>(recipes: &[&'static Recipe], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(recipes.iter().map(|recipe| recipe.name.to_ascii_lowercase()))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<&'static Recipe>, D::Error> {
        Vec::<String>::deserialize(deserializer)?.iter().map(|name| recipe(name)).collect()
    }
}

/// Treatment of tensors without importance data.
pub(crate) mod policy {
    use crate::by_name::*;

    pub fn serialize<S: Serializer>(policy: &MissingPolicy, serializer: S) -> Result<S::Ok, S::Error> {
        policy.name().serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<MissingPolicy, D::Error> {
        let name = String::deserialize(deserializer)?;
        MissingPolicy::from_name(&name)
            .ok_or_else(|| D::Error::custom(format_args!("unknown policy `{name}`")))
    }
}

/// Types of tensors, as `REGEX=DTYPE` each.
pub(crate) mod tensor_types {
    use crate::by_name::*;

    pub fn serialize<S: Serializer>(types: &[TensorType], serializer: S) -> Result<S::Ok, S::Error> {
        let texts = types.iter().map(|rule| format!("{}={}", rule.pattern.as_str(), rule.dtype.name()));
        serializer.collect_seq(texts)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<TensorType>, D::Error> {
        let texts = Vec::<String>::deserialize(deserializer)?;
        texts.iter().map(|text| TensorType::parse(text).map_err(D::Error::custom)).collect()
    }
}

/// A CPU level or none.
pub(crate) mod optional_level {
    use crate::by_name::*;

    pub fn serialize<S: Serializer>(level: &Option<Level>, serializer: S) -> Result<S::Ok, S::Error> {
        level.map(Level::name).serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Level>, D::Error> {
        let level = |name: String| {
            Level::from_name(&name)
                .ok_or_else(|| D::Error::custom(format_args!("CPU level `{name}` is not supported")))
        };
        Option::<String>::deserialize(deserializer)?.map(level).transpose()
    }
}

/// A value of a short list, each with its name.
fn named<T: Copy, E: serde::de::Error>(names: &[(&'static str, T)], name: &str) -> Result<T, E> {
    let found = names.iter().find(|(known, _)| *known == name).map(|(_, value)| *value);
    found.ok_or_else(|| {
        let known: Vec<&str> = names.iter().map(|(known, _)| *known).collect();
        E::custom(format_args!("expected one of {}, found `{name}`", known.join(", ")))
    })
}

/// Treatment of multi-token prediction layers: `with`, `without` or `only`.
pub(crate) mod prediction {
    use crate::by_name::*;

    const NAMES: [(&str, Prediction); 3] =
        [("with", Prediction::With), ("without", Prediction::Without), ("only", Prediction::Only)];

    pub fn serialize<S: Serializer>(prediction: &Prediction, serializer: S) -> Result<S::Ok, S::Error> {
        let name = NAMES.iter().find(|(_, value)| value == prediction).map(|(name, _)| *name);
        name.unwrap_or_default().serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Prediction, D::Error> {
        named(&NAMES, &String::deserialize(deserializer)?)
    }
}

/// The last step of the rounding.
pub(crate) mod steps {
    use crate::by_name::*;

    pub fn serialize<S: Serializer>(steps: &Steps, serializer: S) -> Result<S::Ok, S::Error> {
        steps.name().serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Steps, D::Error> {
        named(&Steps::ALL.map(|steps| (steps.name(), steps)), &String::deserialize(deserializer)?)
    }
}
