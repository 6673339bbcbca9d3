//! A model's hyperparameters: `config.json` as the reference converter comes to see it.
//!
//! The reference reads the file through transformers' `AutoConfig`, whose classes fill in keys
//! that are absent and move rotary keys about ([`classes`], `rope`). Where that class refuses
//! the file (an unknown `model_type`, a float if it wants an integer), the reference falls
//! back to the file as it stands. Both ways give different keys, so both are followed.
//!
//! Source: `ModelBase.load_hparams` and `TextModel.__init__` in `conversion/base.py`.

pub mod adjust;
pub mod classes;
mod read_keys;
mod rope;

use std::sync::Arc;

use serde_json::{Map, Value as Json};

use crate::ArchError;
use crate::error::{bad, missing};
use crate::input::Target;
use crate::text_part::{text_config, text_key};
use classes::ConfigClass;
use read_keys::ReadKeys;

pub use rope::full_name;

/// Spellings of the number of layers, in the order in which the reference looks for them.
pub const N_LAYERS: &[&str] = &["n_layers", "num_hidden_layers", "n_layer", "num_layers"];

/// The hyperparameters of a model, defaults filled in.
#[derive(Debug, Clone)]
pub struct Hparams {
    map: Map<String, Json>,
    rope: Map<String, Json>,
    notes: Vec<String>,
    read_keys: ReadKeys,
    target: Option<Arc<Target>>,
    /// Values derived from other files or from the tensors.
    pub derived: Derived,
}

/// Hyperparameters that stand under no key of `config.json`.
#[derive(Debug, Clone, Copy, Default)]
pub struct Derived {
    /// The number of `pooling_type`: how sentence-transformers combines the vectors of the tokens.
    pub pooling: Option<u32>,
    /// Ids of the tokens whose rows of the output are a reranker's answers.
    pub answers: Option<[u64; 2]>,
    /// True if the final matrices of sentence-transformers are requested.
    pub dense_modules: bool,
    /// The number of layers without those that predict more than the next token, if the usual number
    /// counts these as well.
    pub trunk_layers: Option<u64>,
    /// The number of layers of the encoder, if the usual number counts those of a head as well.
    pub encoder_layers: Option<u64>,
    /// True if only the layers that predict more than the next token are written.
    pub is_prediction: bool,
}

impl Hparams {
    /// Reads a config, fills in the defaults of `class` (if that class would reject the file, the raw file is
    /// used, with a note), and flattens a `text_config` into it.
    ///
    /// # Errors
    ///
    /// [`ArchError::BadKey`] if it is not an object, or its RoPE parameters are invalid.
    pub fn load(config: &Json, class: Option<&ConfigClass>) -> Result<Hparams, ArchError> {
        let raw = config.as_object().ok_or_else(|| bad("", config, "an object"))?;
        let standardized = class.map(|class| classes::standardize(raw, class));
        let (map, refused) = match standardized {
            Some(Ok(map)) => (map, None),
            Some(Err(reason)) => (raw.clone(), Some(reason)),
            None => (raw.clone(), None),
        };
        // `ModelBase.load_hparams`: keys of the text part win over those of the model.
        let map = {
            let whole = Json::Object(map);
            let text = text_config(&whole).and_then(Json::as_object).cloned().unwrap_or_default();
            let Json::Object(mut map) = whole else { return Err(bad("", config, "an object")) };
            map.extend(text);
            map
        };
        let rope = rope::mirror(&map)?;
        let (notes, read_keys, derived) = (Vec::new(), ReadKeys::default(), Derived::default());
        let mut hparams = Hparams { map, rope, notes, read_keys, target: None, derived };
        if let Some(reason) = refused {
            hparams.note_no_defaults(&reason);
        }
        Ok(hparams)
    }

    /// The hyperparameters of a part of a model, as they stand.
    pub fn of_part(map: Map<String, Json>) -> Hparams {
        let (notes, read_keys, derived) = (Vec::new(), ReadKeys::default(), Derived::default());
        Hparams { map, rope: Map::new(), notes, read_keys, derived, target: None }
    }

    /// Sets a key.
    pub fn set(&mut self, key: &str, value: Json) {
        self.map.insert(key.into(), value);
    }

    /// These hyperparameters of a draft with the model that it drafts for.
    pub fn with_target(self, target: Option<Arc<Target>>) -> Hparams {
        Hparams { target, ..self }
    }

    /// The config of the model that this one drafts for, keys of its text part before those of the whole.
    pub fn target(&self, key: &str) -> Option<&Json> {
        text_key(&self.target.as_ref()?.config, key)
    }

    /// The number of tokens of the model that this one drafts for.
    ///
    /// # Errors
    ///
    /// [`ArchError::MissingKey`].
    pub fn target_vocab_size(&self) -> Result<u64, ArchError> {
        self.target("vocab_size").and_then(Json::as_u64).ok_or_else(|| missing("vocab_size"))
    }

    /// These hyperparameters with those of an inner object instead.
    ///
    /// # Errors
    ///
    /// [`ArchError::BadKey`] if its RoPE parameters are invalid.
    pub fn with_inner(&self, key: &str) -> Result<Hparams, ArchError> {
        let Some(Json::Object(inner)) = self.get(key) else { return Ok(self.clone()) };
        let mut hparams = self.clone();
        hparams.map.extend(inner.clone());
        hparams.rope = rope::mirror(&hparams.map)?;
        Ok(hparams)
    }

    /// Notes that no defaults were filled in, and why.
    pub fn note_no_defaults(&mut self, reason: &str) {
        self.notes.push(format!("config.json is used without defaults: {reason}"));
    }

    /// Notes what a person should know of how the config was read.
    pub fn note(&mut self, note: String) {
        self.notes.push(note);
    }

    /// Notes about reading the config, one per line.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// These hyperparameters without a key.
    pub fn without(&self, key: &str) -> Hparams {
        let mut hparams = self.clone();
        hparams.map.remove(key);
        hparams
    }

    /// These hyperparameters with another value of a key.
    pub fn with(&self, key: &str, value: Json) -> Hparams {
        let mut hparams = self.clone();
        hparams.map.insert(key.into(), value);
        hparams
    }

    /// True if a key was read; RoPE parameters have the prefix `rope_parameters.`.
    pub fn was_asked(&self, key: &str) -> bool {
        self.read_keys.has(key)
    }

    /// These hyperparameters with another rotary parameter.
    pub fn with_rope(&self, key: &str, value: Json) -> Hparams {
        let mut hparams = self.clone();
        hparams.rope.insert(key.into(), value);
        hparams
    }

    /// The value of a key; an absent key and `null` are the same.
    pub fn get(&self, key: &str) -> Option<&Json> {
        self.read_keys.note(&[key]);
        self.map.get(key).filter(|value| !value.is_null())
    }

    /// Keys that start with a prefix, without it, and their values.
    pub fn under(&self, prefix: &str) -> Vec<(&str, &Json)> {
        let found = self.map.iter().filter_map(|(key, value)| Some((key, key.strip_prefix(prefix)?, value)));
        found.inspect(|(key, ..)| self.read_keys.note(&[key])).map(|(_, rest, value)| (rest, value)).collect()
    }

    /// The value of the first of `keys` that is present, unless that one is `null`.
    ///
    /// Source: `ModelBase.find_hparam`.
    pub fn find(&self, keys: &[&'static str]) -> Option<(&'static str, &Json)> {
        self.read_keys.note(keys);
        // The first key that is present decides, even if it is null: the reference asks `key in
        // hparams`.
        let (key, value) = keys.iter().find_map(|key| Some((*key, self.map.get(*key)?)))?;
        (!value.is_null()).then_some((key, value))
    }

    /// A count that must be there, under the first of `keys` that is. The last of `keys` is the
    /// spelling that people know.
    ///
    /// # Errors
    ///
    /// [`ArchError::MissingKey`] naming the last spelling, [`ArchError::BadKey`].
    pub fn need_u64(&self, keys: &[&'static str]) -> Result<u64, ArchError> {
        match self.find(keys) {
            Some((key, value)) => value.as_u64().ok_or_else(|| bad(key, value, "an integer of 0 or more")),
            None => Err(missing(keys.last().copied().unwrap_or_default())),
        }
    }

    /// Number of layers.
    pub fn n_layers(&self) -> Result<u64, ArchError> {
        match self.find(N_LAYERS) {
            Some((key, value)) => value.as_u64().ok_or_else(|| bad(key, value, "an integer of 0 or more")),
            None => Err(missing("num_hidden_layers")),
        }
    }

    /// Number of attention heads.
    pub fn n_heads(&self) -> Result<u64, ArchError> {
        self.need_u64(&["n_heads", "num_attention_heads"])
    }

    /// Number of key heads: that of all heads if the key is there and `null`.
    pub fn n_kv_heads(&self) -> Result<u64, ArchError> {
        let keys = ["n_kv_heads", "num_key_value_heads"];
        self.read_keys.note(&keys);
        match keys.iter().find_map(|key| self.map.get(*key)) {
            // Multi-head attention: transformers writes null and computes the number on loading.
            Some(Json::Null) => self.n_heads(),
            _ => self.need_u64(&keys),
        }
    }

    /// Number of experts that the config states, 0 if the key is missing.
    ///
    /// # Errors
    ///
    /// [`ArchError::BadKey`].
    pub fn n_experts(&self) -> Result<u64, ArchError> {
        match self.find(&["num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts"]) {
            Some((key, _)) => Ok(self.get_u64(key)?.unwrap_or(0)),
            None => Ok(0),
        }
    }

    /// A head's share of the model's width.
    ///
    /// # Errors
    ///
    /// As [`Hparams::need_u64`]; [`ArchError::BadKey`] for no heads.
    pub fn head_share(&self) -> Result<u64, ArchError> {
        let (hidden, heads) = (self.need_u64(&["hidden_size"])?, self.need_u64(&["num_attention_heads"])?);
        hidden.checked_div(heads).ok_or_else(|| bad("num_attention_heads", &0.into(), "an integer above 0"))
    }

    /// `head_dim`, or a head's share of the model's width.
    pub fn head_dim(&self) -> Result<u64, ArchError> {
        self.get_u64("head_dim")?.map_or_else(|| self.head_share(), Ok)
    }

    /// The number of dimensions that are rotated of `dims`: the integer part of the share that the
    /// rotary parameters state, or `default` if they state none.
    ///
    /// # Errors
    ///
    /// [`ArchError::BadKey`]; [`ArchError::MissingKey`] without a default.
    pub fn rotated(&self, dims: u64, default: Option<f64>) -> Result<u64, ArchError> {
        let key = "partial_rotary_factor";
        match (self.rope().get(key), default) {
            (None, None) => Err(missing(&format!("rope_parameters.{key}"))),
            // Python truncates: `int(factor * dims)`.
            (_, default) => Ok((self.rope().f64_or(key, default.unwrap_or(1.0))? * dims as f64) as u64),
        }
    }

    /// A number that may be absent.
    ///
    /// # Errors
    ///
    /// [`ArchError::BadKey`].
    pub fn get_f64(&self, key: &str) -> Result<Option<f64>, ArchError> {
        self.get(key).map(|value| value.as_f64().ok_or_else(|| bad(key, value, "a number"))).transpose()
    }

    /// True if a flag is set; false if it is missing.
    pub fn is_true(&self, key: &str) -> bool {
        self.get(key) == Some(&Json::Bool(true))
    }

    /// A number that must be there.
    ///
    /// # Errors
    ///
    /// [`ArchError::MissingKey`], [`ArchError::BadKey`].
    pub fn need_f64(&self, key: &'static str) -> Result<f64, ArchError> {
        self.get_f64(key)?.ok_or_else(|| missing(key))
    }

    /// For each layer, true if its attention has a sliding window, according to `layer_types`.
    pub fn sliding_layers(&self) -> Option<Vec<bool>> {
        let types = self.get("layer_types")?.as_array()?;
        Some(types.iter().map(|kind| kind == "sliding_attention").collect())
    }

    /// A count that may be absent.
    ///
    /// # Errors
    ///
    /// [`ArchError::BadKey`].
    pub fn get_u64(&self, key: &str) -> Result<Option<u64>, ArchError> {
        self.get(key)
            .map(|value| value.as_u64().ok_or_else(|| bad(key, value, "an integer of 0 or more")))
            .transpose()
    }

    /// The rotary parameters: of full attention if a config gives each kind of layer its
    /// own, else the only ones.
    pub fn rope(&self) -> Rope<'_> {
        let values = match self.rope.get("full_attention") {
            Some(Json::Object(inner)) => inner,
            _ => &self.rope,
        };
        Rope { values, read_keys: &self.read_keys }
    }

    /// The rotary parameters of layers with a sliding window, where they are given apart.
    pub fn rope_sliding(&self) -> Option<Rope<'_>> {
        let values = self.rope.get("sliding_attention").and_then(Json::as_object)?;
        Some(Rope { values, read_keys: &self.read_keys })
    }
}

/// One set of rotary parameters.
#[derive(Debug, Clone, Copy)]
pub struct Rope<'a> {
    values: &'a Map<String, Json>,
    read_keys: &'a ReadKeys,
}

impl<'a> Rope<'a> {
    /// The value of a key; an absent key and `null` are the same.
    pub fn get(&self, key: &str) -> Option<&'a Json> {
        self.read_keys.note(&[&format!("rope_parameters.{key}")]);
        self.values.get(key).filter(|value| !value.is_null())
    }

    /// `rope_type`, if there is one.
    pub fn kind(&self) -> Option<&'a str> {
        self.get("rope_type").and_then(Json::as_str)
    }

    /// A number, or `default` if the key is absent.
    ///
    /// # Errors
    ///
    /// [`ArchError::BadKey`].
    pub fn f64_or(&self, key: &str, default: f64) -> Result<f64, ArchError> {
        match self.get(key) {
            Some(value) => {
                value.as_f64().ok_or_else(|| bad(&format!("rope_parameters.{key}"), value, "a number"))
            }
            None => Ok(default),
        }
    }
}
