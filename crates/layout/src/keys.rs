//! Builds metadata in order, with the value types of the reference's writer.

use gguf_container::{Array, Metadata, Value};
use serde_json::Value as Json;

use crate::ArchError;
use crate::config::{Hparams, Rope};
use crate::departure::{Departed, Departure, SIGMOID};
use crate::error::{bad, missing};

/// Metadata in the making. A key that is set twice keeps its first place and takes the last value, like in
/// the reference's writer.
#[derive(Debug)]
pub struct Keys {
    arch: &'static str,
    early: Metadata,
    entries: Metadata,
    /// Notes about values that could not be written, one per line.
    pub notes: Vec<String>,
    /// Reasons why results will differ from transformers, one per line.
    pub warnings: Vec<String>,
    sources: Vec<KeySource>,
    departed: Vec<Departed>,
}

/// Config keys that a metadata key is read from. Export reads this backwards: the value of the metadata key
/// belongs under these names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeySource {
    /// The metadata key without the architecture's name in front (`rope.freq_base`).
    pub key: String,
    /// Config keys of which one gives the value, whether this config has them or not. Nested keys are
    /// dotted (`rope_parameters.rope_theta`).
    pub names: Vec<String>,
}

/// The keys of a file, in order.
#[derive(Debug)]
pub struct FinishedKeys {
    /// The metadata. `general.file_type` and `general.quantization_version` are 0: the recipe sets them.
    pub metadata: Metadata,
    /// Notes about values that could not be written, one per line.
    pub notes: Vec<String>,
    /// Reasons why results will differ from transformers, one per line.
    pub warnings: Vec<String>,
    /// Sources of the values, in reading order.
    pub sources: Vec<KeySource>,
    /// Differences from the reference's converter.
    pub departed: Vec<Departed>,
}

impl Keys {
    /// Starts with `general.architecture`.
    pub fn new(arch: &'static str) -> Keys {
        Keys {
            arch,
            early: Metadata::from([("general.architecture".to_owned(), arch.into())]),
            entries: Metadata::new(),
            notes: Vec::new(),
            warnings: Vec::new(),
            sources: Vec::new(),
            departed: Vec::new(),
        }
    }

    /// The value of `general.architecture`.
    pub fn architecture(&self) -> &'static str {
        self.arch
    }

    /// All keys that were set, in their order, and `general.quantization_version` without a value.
    pub fn finish(self) -> FinishedKeys {
        let mut metadata = self.early;
        metadata.extend(self.entries);
        metadata.set_last("general.quantization_version", 0u32);
        let Keys { notes, warnings, sources, departed, .. } = self;
        FinishedKeys { metadata, notes, warnings, sources, departed }
    }

    /// Checks the numbers that every graph computes with. Other values are errors, because the file would
    /// produce only NaN.
    ///
    /// # Errors
    ///
    /// [`ArchError::BadNumber`].
    pub fn check_numbers(&self) -> Result<(), ArchError> {
        for (key, value) in self.early.iter().chain(self.entries.iter()) {
            let Value::F32(number) = *value else { continue };
            let name = key.strip_prefix(self.arch).and_then(|key| key.strip_prefix('.')).unwrap_or_default();
            // Angles are position / base^(2i/d); norms divide by sqrt(mean + epsilon).
            let (fits, expected) = match name {
                "rope.freq_base" | "rope.freq_base_swa" => (number > 0.0, "a number above 0"),
                "attention.layer_norm_epsilon" | "attention.layer_norm_rms_epsilon" => {
                    (number >= 0.0, "0 or a number above 0")
                }
                _ => (true, "a finite number"),
            };
            if !fits || !number.is_finite() {
                return Err(ArchError::BadNumber { key: key.clone(), found: number, expected });
            }
        }
        Ok(())
    }

    /// Sets a key by its full name.
    pub fn set(&mut self, key: impl Into<String>, value: Value) {
        let key = key.into();
        // A key keeps the place of its first setting, in whichever group that was.
        let group = if self.early.contains(&key) { &mut self.early } else { &mut self.entries };
        group.set(key, value);
    }

    /// Sets a text key by its full name. An empty text is left out, like the reference.
    pub fn set_text(&mut self, key: impl Into<String>, text: &str) {
        if !text.is_empty() {
            self.set(key, text.into());
        }
    }

    /// Sets a key that begins with the architecture's name (`rope.freq_base` for `llama.rope.freq_base`).
    pub fn set_prefixed(&mut self, key: &str, value: Value) {
        self.set(format!("{}.{key}", self.arch), value);
    }

    /// As [`Keys::set_prefixed`], for a key that the reference sets while it still goes through the tensors:
    /// these come right after `general.architecture`, before all others.
    pub fn set_early(&mut self, key: &str, value: Value) {
        self.early.set(format!("{}.{key}", self.arch), value);
    }

    /// As [`Keys::set_early`], by the full name: also for what the reference sets when a model is opened.
    pub fn set_early_whole(&mut self, key: &str, value: impl Into<Value>) {
        self.early.set(key, value);
    }

    /// The value of a key that begins with the architecture's name, if it was set.
    pub fn prefixed(&self, key: &str) -> Option<&Value> {
        let key = format!("{}.{key}", self.arch);
        self.early.get(&key).or_else(|| self.entries.get(&key))
    }

    /// Sets `key` at the position of `old`, which is removed, or appends it if `old` is missing.
    pub fn replace(&mut self, old: &str, key: &str, value: Value) {
        let (old, key) = (format!("{}.{old}", self.arch), format!("{}.{key}", self.arch));
        match self.entries.iter().position(|(name, _)| *name == old) {
            Some(at) => {
                self.entries.remove(&old);
                self.entries.set_at(at, key, value);
            }
            None => self.entries.set(key, value),
        }
    }

    /// Sets a key that the reference's converter omits (`theirs` is `None`) or writes with the value `theirs`.
    pub fn depart(&mut self, row: &'static Departure, value: Value, theirs: Option<&Value>) {
        if theirs != Some(&value) {
            self.departs(row);
        }
        self.set_prefixed(row.subject, value);
    }

    /// Records a difference from the reference's converter.
    pub fn departs(&mut self, row: &'static Departure) {
        let is_whole = row.subject.starts_with("general.") || row.subject.starts_with("cls.");
        let name = if is_whole { row.subject.to_owned() } else { format!("{}.{}", self.arch, row.subject) };
        self.departs_at(name, row);
    }

    /// Like [`Keys::departs`], for a key with this name.
    pub fn departs_at(&mut self, name: String, row: &'static Departure) {
        self.departed.push(Departed { name, row });
    }

    /// Sets a key that begins with the architecture's name, if it was not set.
    fn set_missing(&mut self, key: &str, value: Value) {
        if self.prefixed(key).is_none() {
            self.set_prefixed(key, value);
        }
    }

    /// States that positions are not scaled, unless the config scales them: llama.cpp takes a missing key for linear
    /// scaling.
    pub fn unscaled_by_default(&mut self) {
        self.set_missing("rope.scaling.type", "none".into());
    }

    /// States that experts are weighted by sigmoids, unless the config states the function. Configs of transformers 5 do not,
    /// because their classes have only one.
    pub fn sigmoid_by_default(&mut self) {
        if self.prefixed(SIGMOID.subject).is_none() {
            // `ExpertGatingFuncType` in `gguf-py/gguf/constants.py`.
            self.depart(&SIGMOID, Value::U32(2), None);
        }
    }

    /// Puts `general.file_type` here, without a value: the recipe sets it.
    pub fn file_type_here(&mut self) {
        self.entries.set_last("general.file_type", 0u32);
    }

    /// Sets `key` to the count under the first of `names` that the config has, if it has one.
    ///
    /// # Errors
    ///
    /// [`ArchError::BadKey`].
    pub fn count(&mut self, key: &str, hparams: &Hparams, names: &[&'static str]) -> Result<(), ArchError> {
        self.derived_from(key, names);
        if let Some((name, value)) = hparams.find(names) {
            self.set_prefixed(key, Value::U32(to_u32(name, value)?));
        }
        Ok(())
    }

    /// Records that `key` is derived from one of the config keys `names`. Use this if the value is
    /// computed by hand; nested keys are dotted (`rope_parameters.rope_theta`).
    pub fn derived_from(&mut self, key: &str, names: &[&str]) {
        let names = names.iter().map(|name| (*name).into()).collect();
        self.sources.push(KeySource { key: key.into(), names });
    }

    /// Sets `key` to whether the config has `true` under `name`.
    pub fn flag(&mut self, key: &str, hparams: &Hparams, name: &'static str) {
        self.derived_from(key, &[name]);
        self.set_prefixed(key, Value::Bool(hparams.is_true(name)));
    }

    /// As [`Keys::count`], but a list (one count for each layer) becomes an array of 32-bit integers.
    ///
    /// # Errors
    ///
    /// [`ArchError::BadKey`].
    pub fn counts(&mut self, key: &str, hparams: &Hparams, names: &[&'static str]) -> Result<(), ArchError> {
        self.derived_from(key, names);
        match hparams.find(names) {
            Some((name, Json::Array(items))) => {
                let items = items.iter().map(|item| to_i32(name, item)).collect::<Result<Vec<_>, _>>()?;
                // gguf-py writes no empty arrays: they would have no type.
                if !items.is_empty() {
                    self.set_prefixed(key, Value::Array(Array::I32(items)));
                }
            }
            Some((name, value)) => self.set_prefixed(key, Value::U32(to_u32(name, value)?)),
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
        self.derived_from(key, names);
        if let Some((name, value)) = hparams.find(names) {
            self.set_prefixed(key, Value::F32(to_f32(name, value)?));
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
            self.set_prefixed(key, Value::F32(to_f32(&format!("rope_parameters.{name}"), value)?));
        }
        Ok(())
    }

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
        self.derived_from(key, names);
        // A list is not a count: the reference reads required keys as one number too.
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
        self.derived_from(key, names);
        if hparams.find(names).is_none() {
            return Err(missing(names.last().copied().unwrap_or_default()));
        }
        self.number(key, hparams, names)
    }

    /// Sets `key` to a count that was computed from the config key `from`; an empty `from` stands for a count
    /// that no config has a say in.
    ///
    /// # Errors
    ///
    /// [`ArchError::BadKey`] with `from`.
    pub fn set_derived(&mut self, key: &str, from: &str, count: u64) -> Result<(), ArchError> {
        if !from.is_empty() {
            self.derived_from(key, &[from]);
        }
        self.set_prefixed(key, Value::U32(to_u32(from, &count.into())?));
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
pub fn to_u32(name: &str, value: &Json) -> Result<u32, ArchError> {
    value
        .as_u64()
        .and_then(|value| u32::try_from(value).ok())
        .ok_or_else(|| bad(name, value, "an integer from 0 to 2^32 - 1"))
}

/// A JSON number as a signed 32-bit integer.
pub fn to_i32(name: &str, value: &Json) -> Result<i32, ArchError> {
    value
        .as_i64()
        .and_then(|value| i32::try_from(value).ok())
        .ok_or_else(|| bad(name, value, "an integer of 32 bits"))
}

/// A JSON number, rounded to single precision.
pub fn to_f32(name: &str, value: &Json) -> Result<f32, ArchError> {
    value
        .as_f64()
        .map(|number| number as f32)
        .filter(|number| number.is_finite())
        .ok_or_else(|| bad(name, value, "a number within single precision"))
}
