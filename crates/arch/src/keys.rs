//! Builds metadata in order, with the value types of the reference's writer.

use gguf::{Array, Metadata, Value};
use serde_json::Value as Json;

use crate::ArchError;
use crate::config::{Hparams, Rope, bad, missing};

/// Metadata in the making. Keys that are set twice keep their first place and take the last
/// value, as in the reference's writer.
#[derive(Debug)]
pub struct Keys {
    arch: &'static str,
    /// What was set so far.
    pub entries: Metadata,
    /// Where `general.file_type` belongs, if [`Keys::file_type_here`] has said so.
    pub file_type_at: Option<usize>,
    /// What a person should know of what could not be written, each one line.
    pub notes: Vec<String>,
    /// Which keys below the architecture's name come of which names in a config, in the order in which
    /// they were asked for, whether the config has them or not: export reads this.
    pub asked: Vec<Asked>,
}

/// A key below the architecture's name, and the names in a config of which one gives it.
pub type Asked = (String, Vec<String>);

impl Keys {
    /// Starts with `general.architecture`.
    pub fn new(arch: &'static str) -> Keys {
        let entries = Metadata::from([("general.architecture".to_owned(), arch.into())]);
        Keys { arch, entries, file_type_at: None, notes: Vec::new(), asked: Vec::new() }
    }

    /// Sets a key by its whole name.
    pub fn set(&mut self, key: impl Into<String>, value: Value) {
        self.entries.set(key, value);
    }

    /// Sets a text key by its whole name; an empty text is left out, as in the reference.
    pub fn set_text(&mut self, key: impl Into<String>, text: &str) {
        if !text.is_empty() {
            self.set(key, text.into());
        }
    }

    /// Sets a key below the architecture's name.
    pub fn own(&mut self, key: &str, value: Value) {
        self.set(format!("{}.{key}", self.arch), value);
    }

    /// Sets a key below the architecture's name before all others, as keys that the reference
    /// sets while it goes through the tensors.
    pub fn own_first(&mut self, key: &str, value: Value) {
        self.entries.set_at(1, format!("{}.{key}", self.arch), value);
        self.file_type_at = self.file_type_at.map(|at| at + 1);
    }

    /// Marks the place of `general.file_type`.
    pub fn file_type_here(&mut self) {
        self.file_type_at = Some(self.entries.len());
    }

    /// Sets `key` to the count under the first of `names` that the config has, if it has one.
    ///
    /// # Errors
    ///
    /// [`ArchError::BadKey`].
    pub fn count(&mut self, key: &str, hparams: &Hparams, names: &[&'static str]) -> Result<(), ArchError> {
        self.ask(key, names);
        if let Some((name, value)) = hparams.find(names) {
            self.own(key, Value::U32(to_u32(name, value)?));
        }
        Ok(())
    }

    /// Says that `key` comes of one of `names` in a config, where no other call says so. An object inside is
    /// named with a point.
    pub fn comes_of(&mut self, key: &str, names: &[&str]) {
        self.ask(key, names);
    }

    /// Sets `key` to whether the config says yes to `name`.
    pub fn flag(&mut self, key: &str, hparams: &Hparams, name: &'static str) {
        self.ask(key, &[name]);
        self.own(key, Value::Bool(hparams.is_true(name)));
    }

    fn ask(&mut self, key: &str, names: &[&str]) {
        self.asked.push((key.into(), names.iter().map(|name| (*name).into()).collect()));
    }

    /// As [`Keys::count`], but a list (one count a layer) becomes an array of 32-bit integers.
    ///
    /// # Errors
    ///
    /// [`ArchError::BadKey`].
    pub fn counts(&mut self, key: &str, hparams: &Hparams, names: &[&'static str]) -> Result<(), ArchError> {
        self.ask(key, names);
        match hparams.find(names) {
            Some((name, Json::Array(items))) => {
                let items = items.iter().map(|item| to_i32(name, item)).collect::<Result<Vec<_>, _>>()?;
                if !items.is_empty() {
                    self.own(key, Value::Array(Array::I32(items)));
                }
            }
            Some((name, value)) => self.own(key, Value::U32(to_u32(name, value)?)),
            None => {}
        }
        Ok(())
    }

    /// Sets `key` to the number under the first of `names` that the config has, if it has one.
    ///
    /// # Errors
    ///
    /// [`ArchError::BadKey`].
    pub fn number(&mut self, key: &str, hparams: &Hparams, names: &[&'static str]) -> Result<(), ArchError> {
        self.ask(key, names);
        if let Some((name, value)) = hparams.find(names) {
            self.own(key, Value::F32(to_f32(name, value)?));
        }
        Ok(())
    }

    /// Sets `key` to the number under the first of `names` that the rotary parameters have.
    ///
    /// # Errors
    ///
    /// [`ArchError::BadKey`].
    pub fn rope_number(
        &mut self,
        key: &str,
        rope: Rope<'_>,
        names: &[&'static str],
    ) -> Result<(), ArchError> {
        if let Some((name, value)) = names.iter().find_map(|name| Some((name, rope.get(name)?))) {
            self.own(key, Value::F32(to_f32(&format!("rope_parameters.{name}"), value)?));
        }
        Ok(())
    }
}

impl Keys {
    /// The size of the vocabulary, which must be known.
    ///
    /// # Errors
    ///
    /// [`ArchError::MissingKey`], [`ArchError::BadKey`].
    pub fn vocab_size(&mut self, hparams: &Hparams) -> Result<(), ArchError> {
        self.needed("vocab_size", hparams, &["vocab_size"])
    }

    /// As [`Keys::count`], for a count that must be there.
    ///
    /// # Errors
    ///
    /// [`ArchError::MissingKey`], [`ArchError::BadKey`].
    pub fn needed(&mut self, key: &str, hparams: &Hparams, names: &[&'static str]) -> Result<(), ArchError> {
        self.ask(key, names);
        hparams.need_u64(names)?;
        self.count(key, hparams, names)
    }

    /// As [`Keys::number`], for a number that must be there.
    ///
    /// # Errors
    ///
    /// [`ArchError::MissingKey`], [`ArchError::BadKey`].
    pub fn needed_number(
        &mut self,
        key: &str,
        hparams: &Hparams,
        names: &[&'static str],
    ) -> Result<(), ArchError> {
        self.ask(key, names);
        if hparams.find(names).is_none() {
            return Err(missing(names.last().copied().unwrap_or_default()));
        }
        self.number(key, hparams, names)
    }

    /// Sets `key` to a count that was computed.
    ///
    /// # Errors
    ///
    /// [`ArchError::BadKey`] with `of`, the key that it was computed from.
    pub fn computed(&mut self, key: &str, of: &str, count: u64) -> Result<(), ArchError> {
        if !of.is_empty() {
            self.ask(key, &[of]);
        }
        self.own(key, Value::U32(to_u32(of, &count.into())?));
        Ok(())
    }

    /// Lengths of a head's keys and values.
    ///
    /// # Errors
    ///
    /// [`ArchError::MissingKey`], [`ArchError::BadKey`].
    pub fn head_lengths(&mut self, hparams: &Hparams) -> Result<(), ArchError> {
        self.needed("attention.key_length", hparams, &["head_dim"])?;
        self.needed("attention.value_length", hparams, &["head_dim"])
    }
}

/// A JSON number as an unsigned 32-bit integer.
pub(crate) fn to_u32(name: &str, value: &Json) -> Result<u32, ArchError> {
    value
        .as_u64()
        .and_then(|value| u32::try_from(value).ok())
        .ok_or_else(|| bad(name, value, "a count below 2^32"))
}

/// A JSON number as a signed 32-bit integer.
pub(crate) fn to_i32(name: &str, value: &Json) -> Result<i32, ArchError> {
    value
        .as_i64()
        .and_then(|value| i32::try_from(value).ok())
        .ok_or_else(|| bad(name, value, "an integer of 32 bits"))
}

/// A JSON number, rounded to single precision.
pub(crate) fn to_f32(name: &str, value: &Json) -> Result<f32, ArchError> {
    value
        .as_f64()
        .map(|number| number as f32)
        .filter(|number| number.is_finite())
        .ok_or_else(|| bad(name, value, "a number within single precision"))
}
