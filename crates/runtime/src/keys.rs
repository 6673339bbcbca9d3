//! Hyperparameters from metadata, each with what its absence means.

use gguf_container::{Array, KeyError, Metadata, Value};

use crate::Error;

/// Smallest permitted value of a key, by the end of its name; other numbers need only be finite. Angles are
/// powers of the RoPE base, which must be positive. A negative epsilon would take the root of a negative
/// number.
const LOWEST: &[(&str, f32)] =
    &[("freq_base", f32::MIN_POSITIVE), ("freq_base_swa", f32::MIN_POSITIVE), ("epsilon", 0.0)];

/// The metadata of a file, read with its architecture's prefix.
pub struct Keys<'a> {
    /// The value of `general.architecture`.
    pub architecture: String,
    metadata: &'a Metadata,
}

impl<'a> Keys<'a> {
    /// The keys of a file.
    ///
    /// # Errors
    /// [`Error::Key`] without `general.architecture`.
    pub fn new(metadata: &'a Metadata) -> Result<Self, Error> {
        let key = "general.architecture";
        let architecture = metadata.text(key)?.ok_or_else(|| KeyError::missing(key))?.to_owned();
        Ok(Keys { architecture, metadata })
    }

    /// The full key of a name without the prefix.
    pub fn name(&self, key: &str) -> String {
        format!("{}.{key}", self.architecture)
    }

    fn value(&self, key: &str) -> Option<&'a Value> {
        self.metadata.get(&self.name(key))
    }

    /// The error of a key that is not there.
    pub fn missing(&self, key: &str) -> Error {
        KeyError::missing(self.name(key)).into()
    }

    /// The error of a key whose value is not `expected`.
    pub fn wrong(&self, key: &str, expected: &str) -> Error {
        match self.value(key) {
            None => self.missing(key),
            Some(value) => KeyError::value(self.name(key), expected, value).into(),
        }
    }

    /// A count below 2^32 that may be absent.
    pub fn count(&self, key: &str) -> Result<Option<usize>, Error> {
        let Some(count) = self.metadata.count(&self.name(key))? else { return Ok(None) };
        // Hyperparameters are 32 bits in the reference; products of two cannot overflow then.
        let count = u32::try_from(count).map_err(|_| self.wrong(key, "an integer from 0 to 2^32 - 1"))?;
        Ok(Some(count as usize))
    }

    /// A count below 2^32.
    pub fn need_count(&self, key: &str) -> Result<usize, Error> {
        self.count(key)?.ok_or_else(|| self.missing(key))
    }

    /// A finite number that may be absent, in its key's range.
    pub fn float(&self, key: &str) -> Result<Option<f32>, Error> {
        let Some(number) = self.metadata.number(&self.name(key))? else { return Ok(None) };
        let number = number as f32;
        let lowest =
            LOWEST.iter().find(|(end, _)| key.ends_with(end)).map_or(f32::MIN, |(_, lowest)| *lowest);
        if number.is_finite() && number >= lowest {
            Ok(Some(number))
        } else if lowest > 0.0 {
            Err(self.wrong(key, "a number above 0"))
        } else if lowest == 0.0 {
            Err(self.wrong(key, "a number from 0"))
        } else {
            Err(self.wrong(key, "a finite number"))
        }
    }

    /// A number.
    pub fn need_float(&self, key: &str) -> Result<f32, Error> {
        self.float(key)?.ok_or_else(|| self.missing(key))
    }

    /// A flag, with what its absence means.
    pub fn flag(&self, key: &str, default: bool) -> Result<bool, Error> {
        Ok(self.metadata.flag(&self.name(key))?.unwrap_or(default))
    }

    /// A text that may be absent.
    pub fn text(&self, key: &str) -> Result<Option<&'a str>, Error> {
        Ok(self.metadata.text(&self.name(key))?)
    }

    /// A list of texts; empty if it is absent.
    pub fn texts(&self, key: &str) -> Result<Vec<String>, Error> {
        let Some(texts) = self.metadata.texts(&self.name(key))? else { return Ok(Vec::new()) };
        Ok(texts.iter().map(|text| String::from_utf8_lossy(text).into_owned()).collect())
    }

    /// A count for each of `n` layers: one for all, or a list of at least as many.
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

    /// A list of counts of any length, if the key exists.
    ///
    /// # Errors
    /// [`Error::Key`] for another type.
    pub fn list(&self, key: &str) -> Result<Option<Vec<usize>>, Error> {
        match self.value(key) {
            None => Ok(None),
            Some(Value::Array(array)) => self.counts(key, array.len()),
            Some(_) => Err(self.wrong(key, "a list of counts")),
        }
    }

    /// The mask token (`tokenizer.ggml.mask_token_id`).
    ///
    /// # Errors
    /// [`Error::Key`].
    pub fn mask_token(&self) -> Result<u32, Error> {
        let key = "tokenizer.ggml.mask_token_id";
        let id = self.metadata.count(key)?.ok_or_else(|| KeyError::missing(key.to_owned()))?;
        Ok(u32::try_from(id).unwrap_or(u32::MAX))
    }

    /// A number for each of `n` layers, from a list of at least as many; infinite ones among them, but no NaN.
    pub fn floats(&self, key: &str, n: usize) -> Result<Option<Vec<f32>>, Error> {
        self.floats_of(&self.name(key), n)
    }

    /// Like this, under a full key, which some are stored under without the prefix.
    pub fn floats_of(&self, key: &str, n: usize) -> Result<Option<Vec<f32>>, Error> {
        match self.metadata.get(key) {
            None => Ok(None),
            Some(Value::Array(Array::F32(v))) if v.len() >= n && v.iter().all(|x| !x.is_nan()) => {
                Ok(Some(v[..n].to_vec()))
            }
            Some(value) => Err(KeyError::value(key, format!("{n} numbers"), value).into()),
        }
    }

    /// A flag for each of `n` layers, from a list of at least as many, where numbers mean that they are not 0; `None` where
    /// there is no such list.
    pub fn flags(&self, key: &str, n: usize) -> Result<Option<Vec<bool>>, Error> {
        match self.value(key) {
            Some(Value::Array(Array::Bool(flags))) if flags.len() >= n => Ok(Some(flags[..n].to_vec())),
            Some(Value::Array(Array::Bool(_))) => Err(self.wrong(key, &format!("{n} booleans"))),
            Some(Value::Array(_)) => {
                let counts = self.counts(key, n)?;
                Ok(counts.map(|counts| counts.iter().map(|count| *count != 0).collect()))
            }
            _ => Ok(None),
        }
    }
}
