//! Hyperparameters from metadata, each with what its absence means.

use gguf::{Array, Metadata, Value};

use crate::Error;

/// The metadata of a file, read with its architecture's prefix.
pub(crate) struct Keys<'a> {
    /// The value of `general.architecture`.
    pub architecture: String,
    metadata: &'a Metadata,
}

impl<'a> Keys<'a> {
    pub fn new(metadata: &'a Metadata) -> Result<Self, Error> {
        let key = "general.architecture";
        let value = metadata.get(key);
        let value = value.ok_or_else(|| Error::MissingKey { key: key.to_owned() })?;
        let architecture = value.as_str().ok_or_else(|| bad(key, "text", value))?.to_owned();
        Ok(Keys { architecture, metadata })
    }

    /// The whole key of a name without the prefix.
    pub fn name(&self, key: &str) -> String {
        format!("{}.{key}", self.architecture)
    }

    pub fn value(&self, key: &str) -> Option<&'a Value> {
        self.metadata.get(&self.name(key))
    }

    pub fn missing(&self, key: &str) -> Error {
        Error::MissingKey { key: self.name(key) }
    }

    pub fn wrong(&self, key: &str, expected: &str) -> Error {
        match self.value(key) {
            None => self.missing(key),
            Some(value) => bad(&self.name(key), expected, value),
        }
    }

    /// A count that may be absent.
    pub fn count(&self, key: &str) -> Result<Option<usize>, Error> {
        let Some(value) = self.value(key) else { return Ok(None) };
        let count = value.as_u64().and_then(|n| u32::try_from(n).ok());
        count.map(|n| Some(n as usize)).ok_or_else(|| self.wrong(key, "a count"))
    }

    /// A count that must be there.
    pub fn need_count(&self, key: &str) -> Result<usize, Error> {
        self.count(key)?.ok_or_else(|| self.missing(key))
    }

    /// A number that may be absent.
    pub fn float(&self, key: &str) -> Result<Option<f32>, Error> {
        let Some(value) = self.value(key) else { return Ok(None) };
        let number = value.as_f64().or_else(|| value.as_u64().map(|n| n as f64));
        number.map(|number| Some(number as f32)).ok_or_else(|| self.wrong(key, "a number"))
    }

    /// A number that must be there.
    pub fn need_float(&self, key: &str) -> Result<f32, Error> {
        self.float(key)?.ok_or_else(|| self.missing(key))
    }

    /// A flag, with what its absence means.
    pub fn flag(&self, key: &str, default: bool) -> Result<bool, Error> {
        match self.value(key) {
            None => Ok(default),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(_) => Err(self.wrong(key, "a boolean")),
        }
    }

    /// A text that may be absent.
    pub fn text(&self, key: &str) -> Result<Option<&'a str>, Error> {
        let Some(value) = self.value(key) else { return Ok(None) };
        value.as_str().map(Some).ok_or_else(|| self.wrong(key, "text"))
    }

    /// A list of texts; empty where it is absent.
    pub fn texts(&self, key: &str) -> Result<Vec<String>, Error> {
        match self.value(key) {
            None => Ok(Vec::new()),
            Some(Value::Array(Array::String(texts))) => {
                Ok(texts.iter().map(|text| String::from_utf8_lossy(text).into_owned()).collect())
            }
            Some(_) => Err(self.wrong(key, "a list of texts")),
        }
    }

    /// A count for each of `n` layers: one for all, or a list.
    pub fn counts(&self, key: &str, n: usize) -> Result<Option<Vec<usize>>, Error> {
        match self.value(key) {
            None => Ok(None),
            Some(Value::Array(array)) => {
                let expected = || self.wrong(key, &format!("{n} counts"));
                let counts: Option<Vec<usize>> = match array {
                    Array::U32(v) => v.iter().map(|n| usize::try_from(*n).ok()).collect(),
                    Array::I32(v) => v.iter().map(|n| usize::try_from(*n).ok()).collect(),
                    Array::U64(v) => v.iter().map(|n| usize::try_from(*n).ok()).collect(),
                    Array::I64(v) => v.iter().map(|n| usize::try_from(*n).ok()).collect(),
                    _ => None,
                };
                let counts = counts.ok_or_else(expected)?;
                if counts.len() < n { Err(expected()) } else { Ok(Some(counts[..n].to_vec())) }
            }
            Some(_) => Ok(Some(vec![self.need_count(key)?; n])),
        }
    }

    /// A flag for each of `n` layers, from a list.
    pub fn flags(&self, key: &str, n: usize) -> Result<Option<Vec<bool>>, Error> {
        match self.value(key) {
            Some(Value::Array(Array::Bool(flags))) if flags.len() >= n => Ok(Some(flags[..n].to_vec())),
            Some(Value::Array(Array::Bool(_))) => Err(self.wrong(key, &format!("{n} booleans"))),
            _ => Ok(None),
        }
    }
}

fn bad(key: &str, expected: &str, value: &Value) -> Error {
    let mut found = value.to_string();
    if found.chars().count() > 80 {
        found = found.chars().take(80).chain("...".chars()).collect();
    }
    Error::BadKey { key: key.to_owned(), expected: expected.to_owned(), found: format!("`{found}`") }
}
