//! Metadata: keys and values in file order, with typed reads.

use std::{borrow::Cow, collections::HashMap};

use crate::{Array, Strings, Value};

/// An ordered map from key to value, in file order; keys are unique.
#[derive(Debug, Clone, Default)]
pub struct Metadata {
    entries: Vec<(String, Value)>,
    /// Index of each key in `entries`.
    index: HashMap<Box<str>, usize>,
}

/// A key does not meet its reader's requirements.
#[derive(Debug, Clone, PartialEq, thiserror::Error, gguf_types::Fields)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages explain the fields")]
pub enum KeyError {
    #[error("missing metadata key `{key}`")]
    Missing { key: String },
    /// The value has another type or is out of range.
    #[error("metadata key `{key}`: expected {expected}, found {found}")]
    Value { key: String, expected: String, found: String },
}

impl gguf_types::Problem for KeyError {}

/// Maximum characters of a value in an error.
const SHOWN_CHARS: usize = 60;

impl KeyError {
    /// Error for a missing key.
    pub fn missing(key: impl Into<String>) -> Self {
        KeyError::Missing { key: key.into() }
    }

    /// Error for a key whose value is not `expected`. Long values are shortened: an array is shown by its
    /// length, anything else by its first characters.
    pub fn value(key: impl Into<String>, expected: impl Into<String>, found: &Value) -> Self {
        let found = match found {
            Value::Array(array) => format!("an array of {} items", array.len()),
            other => other.to_string().chars().take(SHOWN_CHARS).collect(),
        };
        KeyError::Value { key: key.into(), expected: expected.into(), found }
    }
}

impl Metadata {
    /// Metadata without keys.
    pub fn new() -> Self {
        Self::default()
    }

    /// Number of keys.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// True if there are no keys.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Keys and values in order.
    pub fn iter(&self) -> std::slice::Iter<'_, (String, Value)> {
        self.entries.iter()
    }

    /// Keys and values in order, with mutable values.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (&str, &mut Value)> {
        self.entries.iter_mut().map(|(key, value)| (key.as_str(), value))
    }

    /// True if the key exists.
    pub fn contains(&self, key: &str) -> bool {
        self.index.contains_key(key)
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.index.get(key).map(|&at| &self.entries[at].1)
    }

    /// Sets a key: an existing one keeps its position, a new one is appended (`GGUFWriter.add_key_value` in
    /// gguf-py).
    pub fn set(&mut self, key: impl Into<String>, value: impl Into<Value>) {
        let (key, value) = (key.into(), value.into());
        match self.index.get(key.as_str()) {
            Some(&at) => self.entries[at].1 = value,
            None => self.push(key, value),
        }
    }

    /// Sets a key and moves it to the end (`gguf_set_kv` in ggml).
    pub fn set_last(&mut self, key: impl Into<String>, value: impl Into<Value>) {
        let key = key.into();
        self.remove(&key);
        self.push(key, value.into());
    }

    /// Sets a key before position `at`, or at the end if there are fewer keys. An existing key moves.
    pub fn set_at(&mut self, at: usize, key: impl Into<String>, value: impl Into<Value>) {
        let key = key.into();
        self.remove(&key);
        let at = at.min(self.entries.len());
        self.entries.insert(at, (key, value.into()));
        self.index_from(at);
    }

    /// Removes a key; the others keep their order.
    pub fn remove(&mut self, key: &str) -> Option<Value> {
        let at = self.index.remove(key)?;
        let (_, value) = self.entries.remove(at);
        self.index_from(at);
        Some(value)
    }

    /// Keeps the keys for which `keep` returns true, in order.
    pub fn retain(&mut self, mut keep: impl FnMut(&str, &Value) -> bool) {
        self.entries.retain(|(key, value)| keep(key, value));
        self.index.clear();
        self.index_from(0);
    }

    fn push(&mut self, key: String, value: Value) {
        self.index.insert(key.as_str().into(), self.entries.len());
        self.entries.push((key, value));
    }

    /// Updates the index of the entries from `at` on.
    fn index_from(&mut self, at: usize) {
        for (place, (key, _)) in self.entries.iter().enumerate().skip(at) {
            self.index.insert(key.as_str().into(), place);
        }
    }

    /// Value of a required key.
    ///
    /// # Errors
    /// [`KeyError::Missing`].
    pub fn need(&self, key: &str) -> Result<&Value, KeyError> {
        self.get(key).ok_or_else(|| KeyError::missing(key))
    }

    /// Value of a key as converted by `take`, if the key exists.
    ///
    /// # Errors
    /// [`KeyError::Value`] with `expected`, if `take` returns `None`.
    pub fn read<'a, T>(
        &'a self,
        key: &str,
        expected: &str,
        take: impl FnOnce(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, KeyError> {
        let Some(value) = self.get(key) else { return Ok(None) };
        take(value).map(Some).ok_or_else(|| KeyError::value(key, expected, value))
    }

    /// Text of a key, if it exists.
    ///
    /// # Errors
    /// [`KeyError::Value`] for another type and for bytes that are not UTF-8.
    pub fn text(&self, key: &str) -> Result<Option<&str>, KeyError> {
        self.read(key, "text", Value::as_str)
    }

    /// Non-negative integer of any width of a key, if it exists.
    ///
    /// # Errors
    /// [`KeyError::Value`] for another type and for negative numbers.
    pub fn count(&self, key: &str) -> Result<Option<u64>, KeyError> {
        self.read(key, "an integer of 0 or more", Value::as_u64)
    }

    /// Number of a key, if it exists; integers count as numbers.
    ///
    /// # Errors
    /// [`KeyError::Value`] for another type.
    pub fn number(&self, key: &str) -> Result<Option<f64>, KeyError> {
        self.read(key, "a number", |value| value.as_f64().or_else(|| value.as_u64().map(|n| n as f64)))
    }

    /// Boolean of a key, if it exists.
    ///
    /// # Errors
    /// [`KeyError::Value`] for another type.
    pub fn flag(&self, key: &str) -> Result<Option<bool>, KeyError> {
        self.read(key, "a boolean", |value| match value {
            Value::Bool(flag) => Some(*flag),
            _ => None,
        })
    }

    /// Strings of a key, as bytes, if it exists. An empty array of any type has no strings.
    ///
    /// # Errors
    /// [`KeyError::Value`] for another type.
    pub fn texts(&self, key: &str) -> Result<Option<Cow<'_, Strings>>, KeyError> {
        self.read(key, "a list of texts", |value| match value.as_array()? {
            Array::String(items) => Some(Cow::Borrowed(items)),
            array if array.is_empty() => Some(Cow::Owned(Strings::new())),
            _ => None,
        })
    }
}

/// Equal keys and values in the same order.
impl PartialEq for Metadata {
    fn eq(&self, other: &Self) -> bool {
        self.entries == other.entries
    }
}

/// Duplicate keys keep the first position and the last value, like in [`Metadata::set`].
impl FromIterator<(String, Value)> for Metadata {
    fn from_iter<I: IntoIterator<Item = (String, Value)>>(entries: I) -> Self {
        let mut metadata = Metadata::new();
        metadata.extend(entries);
        metadata
    }
}

impl Extend<(String, Value)> for Metadata {
    fn extend<I: IntoIterator<Item = (String, Value)>>(&mut self, entries: I) {
        for (key, value) in entries {
            self.set(key, value);
        }
    }
}

impl From<Vec<(String, Value)>> for Metadata {
    fn from(entries: Vec<(String, Value)>) -> Self {
        entries.into_iter().collect()
    }
}

impl<const N: usize> From<[(String, Value); N]> for Metadata {
    fn from(entries: [(String, Value); N]) -> Self {
        entries.into_iter().collect()
    }
}

impl IntoIterator for Metadata {
    type Item = (String, Value);
    type IntoIter = std::vec::IntoIter<(String, Value)>;

    fn into_iter(self) -> Self::IntoIter {
        self.entries.into_iter()
    }
}

impl<'a> IntoIterator for &'a Metadata {
    type Item = &'a (String, Value);
    type IntoIter = std::slice::Iter<'a, (String, Value)>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn three() -> Metadata {
        Metadata::from([
            ("a".to_owned(), 1u32.into()),
            ("b".to_owned(), "two".into()),
            ("c".to_owned(), true.into()),
        ])
    }

    fn keys(metadata: &Metadata) -> String {
        metadata.iter().map(|(key, _)| key.as_str()).collect()
    }

    /// True if the index finds every key.
    fn consistent(metadata: &Metadata) -> bool {
        metadata.iter().all(|(key, value)| metadata.get(key) == Some(value))
    }

    #[test]
    fn set_keeps_position_or_moves() {
        let mut metadata = three();
        metadata.set("a", 7u32);
        assert_eq!((keys(&metadata).as_str(), metadata.get("a")), ("abc", Some(&Value::U32(7))));
        metadata.set_last("a", 8u32);
        assert_eq!((keys(&metadata).as_str(), metadata.get("a")), ("bca", Some(&Value::U32(8))));
        metadata.set_at(1, "d", 9u32);
        metadata.set_at(0, "a", 1u32);
        metadata.set_at(99, "z", 1u32);
        assert_eq!(keys(&metadata), "abdcz");
        assert!(consistent(&metadata));
    }

    #[test]
    fn removal_keeps_order() {
        let mut metadata = three();
        assert_eq!(metadata.remove("b"), Some("two".into()));
        assert_eq!(metadata.remove("b"), None);
        assert!(!metadata.contains("b") && consistent(&metadata));
        let mut metadata = three();
        metadata.retain(|key, _| key != "a");
        assert_eq!((keys(&metadata).as_str(), metadata.get("a")), ("bc", None));
        assert!(consistent(&metadata));
    }

    #[test]
    fn repeated_key_keeps_place_and_last_value() {
        let mut metadata = three();
        metadata.extend([("a".to_owned(), 2u32.into())]);
        assert_eq!((keys(&metadata).as_str(), metadata.count("a")), ("abc", Ok(Some(2))));
    }

    #[test]
    fn typed_reads_name_the_key_and_both_types() {
        let metadata = three();
        assert_eq!(metadata.text("b"), Ok(Some("two")));
        assert_eq!(metadata.number("a"), Ok(Some(1.0)));
        assert_eq!(metadata.flag("c"), Ok(Some(true)));
        assert_eq!(metadata.text("none"), Ok(None));
        let error = metadata.count("b").unwrap_err().to_string();
        assert_eq!(error, "metadata key `b`: expected an integer of 0 or more, found two");
        let error = metadata.need("none").unwrap_err().to_string();
        assert_eq!(error, "missing metadata key `none`");
    }
}
