//! Forms in which options hold values of other crates: names instead of variants.

/// A data type by its lowercase name, such as `q4_k`.
pub mod dtype {
    use gguf_types::DType;
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    /// Writes the name.
    pub fn serialize<S: Serializer>(dtype: &DType, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&dtype.name().to_lowercase())
    }

    /// Reads a name in either case.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<DType, D::Error> {
        DType::from_name(&String::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

/// A byte order: `little` or `big`.
pub mod endian {
    use gguf_container::Endian;
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    /// Writes the name.
    pub fn serialize<S: Serializer>(endian: &Endian, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(endian)
    }

    /// Reads the name.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Endian, D::Error> {
        match String::deserialize(deserializer)?.as_str() {
            "little" => Ok(Endian::Little),
            "big" => Ok(Endian::Big),
            other => Err(D::Error::custom(format_args!("expected `little` or `big`, found `{other}`"))),
        }
    }
}

/// A metadata value that may be absent, with its type, as [`crate::metadata_json::entry`] writes it.
pub mod value {
    use gguf_container::Value;
    use serde::{Serialize, Serializer};

    use crate::metadata_json::entry;

    /// Writes type and value, or null.
    pub fn serialize<S: Serializer>(value: &Option<Value>, serializer: S) -> Result<S::Ok, S::Error> {
        value.as_ref().map(entry).serialize(serializer)
    }
}
