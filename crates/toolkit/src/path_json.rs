//! Paths as JSON without loss: a text, or the units of a path that is not Unicode.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use serde_json::{Value, json};

/// A path as JSON: `"a/b"`, or `{"units": [...]}` (bytes on Unix, 16 bits each on Windows).
pub fn to_json(path: &Path) -> Value {
    match path.to_str() {
        Some(text) => Value::from(text),
        None => json!({"units": units(path)}),
    }
}

/// The path that [`to_json`] wrote. `None` for another value.
pub fn of_json(value: &Value) -> Option<PathBuf> {
    match value.as_str() {
        Some(text) => Some(text.into()),
        None => of_units(&Vec::<u16>::deserialize(value.get("units")?).ok()?),
    }
}

#[cfg(windows)]
fn units(path: &Path) -> Vec<u16> {
    use std::os::windows::ffi::OsStrExt;
    path.as_os_str().encode_wide().collect()
}

#[cfg(windows)]
fn of_units(units: &[u16]) -> Option<PathBuf> {
    use std::os::windows::ffi::OsStringExt;
    Some(std::ffi::OsString::from_wide(units).into())
}

#[cfg(not(windows))]
fn units(path: &Path) -> Vec<u16> {
    path.as_os_str().as_encoded_bytes().iter().map(|byte| (*byte).into()).collect()
}

#[cfg(unix)]
fn of_units(units: &[u16]) -> Option<PathBuf> {
    use std::os::unix::ffi::OsStringExt;
    let bytes = units.iter().map(|unit| u8::try_from(*unit).ok()).collect::<Option<_>>()?;
    Some(std::ffi::OsString::from_vec(bytes).into())
}

#[cfg(not(any(unix, windows)))]
fn of_units(units: &[u16]) -> Option<PathBuf> {
    String::from_utf16(units).ok().map(PathBuf::from)
}

/// A path in a structure: `#[serde(with = "path_json::one")]`.
pub mod one {
    use crate::path_json::*;

    /// Writes a path.
    pub fn serialize<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
        to_json(path).serialize(serializer)
    }

    /// Reads a path.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PathBuf, D::Error> {
        of_json(&Value::deserialize(deserializer)?).ok_or_else(|| D::Error::custom("not a path"))
    }
}

/// Paths in a structure: `#[serde(with = "path_json::many")]`.
pub mod many {
    use crate::path_json::*;

    /// Writes paths.
    pub fn serialize<S: Serializer>(paths: &[PathBuf], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(paths.iter().map(|path| to_json(path)))
    }

    /// Reads paths.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<PathBuf>, D::Error> {
        let values = Vec::<Value>::deserialize(deserializer)?;
        let paths = values.iter().map(of_json).collect::<Option<_>>();
        paths.ok_or_else(|| D::Error::custom("expected a list of paths"))
    }
}

/// A path or none in a structure: `#[serde(with = "path_json::optional")]`.
pub mod optional {
    use crate::path_json::*;

    /// Writes a path, or null.
    pub fn serialize<S: Serializer>(path: &Option<PathBuf>, serializer: S) -> Result<S::Ok, S::Error> {
        path.as_deref().map(to_json).serialize(serializer)
    }

    /// Reads a path, or null.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<PathBuf>, D::Error> {
        let value = Option::<Value>::deserialize(deserializer)?.filter(|value| !value.is_null());
        let path = |value: Value| of_json(&value).ok_or_else(|| D::Error::custom("expected a path"));
        value.map(path).transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_paths_stay_text() {
        let json = to_json(Path::new("a/ü"));
        assert_eq!(json, "a/ü");
        assert_eq!(of_json(&json).as_deref(), Some(Path::new("a/ü")));
        assert_eq!(of_json(&json!(7)), None);
    }

    #[cfg(unix)]
    #[test]
    fn non_utf8_paths_round_trip() {
        use std::{ffi::OsStr, os::unix::ffi::OsStrExt};
        let path = Path::new(OsStr::from_bytes(b"p\xffub/x.gguf"));
        assert_eq!(of_json(&to_json(path)).as_deref(), Some(path));
        assert_eq!(of_json(&json!({"units": [256]})), None);
    }
}
