//! A GGUF file's keys and tensors, as the rows of [`crate::Families::arches`] read them backwards for an export.

use gguf_container::{Array, Metadata, Value};
use gguf_tokenizer::keys as token_keys;
use gguf_types::Shape;
use serde_json::{Map, Value as Json, json};

/// Keys of a file below its architecture's name, and its tensors. A value of another type than requested
/// counts as missing: an export is converted again before it is written, so an incomplete config is refused.
#[derive(Debug, Clone, Copy)]
pub struct FileKeys<'a> {
    architecture: &'static str,
    metadata: &'a Metadata,
    tensors: &'a [(String, Shape)],
}

impl<'a> FileKeys<'a> {
    /// Keys of a file of `architecture`.
    pub fn new(
        architecture: &'static str,
        metadata: &'a Metadata,
        tensors: &'a [(String, Shape)],
    ) -> FileKeys<'a> {
        FileKeys { architecture, metadata, tensors }
    }

    /// A value, whatever it is.
    pub fn value(&self, key: &str) -> Option<&'a Value> {
        self.metadata.get(&format!("{}.{key}", self.architecture))
    }

    /// True if a key exists.
    pub fn has(&self, key: &str) -> bool {
        self.value(key).is_some()
    }

    /// A count.
    pub fn count(&self, key: &str) -> Option<u64> {
        self.value(key)?.as_u64()
    }

    /// The id of a special token (`eos`).
    pub fn token_id(&self, of: &str) -> Option<u64> {
        self.metadata.get(&token_keys::special_id(of))?.as_u64()
    }

    /// A number, as the shortest decimal that means it.
    pub fn number(&self, key: &str) -> Option<f64> {
        match self.value(key)? {
            Value::F32(number) => number.to_string().parse().ok(),
            value => value.as_f64(),
        }
    }

    /// Value of a flag.
    pub fn flag(&self, key: &str) -> Option<bool> {
        match self.value(key)? {
            Value::Bool(flag) => Some(*flag),
            _ => None,
        }
    }

    /// A list of counts, one for each layer.
    pub fn counts(&self, key: &str) -> Option<Vec<u64>> {
        match self.value(key)? {
            Value::Array(Array::I32(counts)) => {
                counts.iter().map(|count| u64::try_from(*count).ok()).collect()
            }
            Value::Array(Array::U32(counts)) => Some(counts.iter().map(|count| u64::from(*count)).collect()),
            _ => None,
        }
    }

    /// A list of numbers, one for each layer.
    pub fn numbers(&self, key: &str) -> Option<&'a [f32]> {
        match self.value(key)? {
            Value::Array(Array::F32(numbers)) => Some(numbers),
            _ => None,
        }
    }

    /// A list of numbers as a config has it, each the shortest decimal that means it.
    pub fn decimals(&self, key: &str) -> Option<Json> {
        let decimal = |number: &f32| number.to_string().parse::<f64>().map_or(Json::Null, Json::from);
        Some(self.numbers(key)?.iter().map(decimal).collect())
    }

    /// A list of truth values, one for each layer before those of a prediction; of counts, whether they are not 0.
    pub fn flags(&self, key: &str) -> Option<Vec<bool>> {
        let mut flags = match self.value(key)? {
            Value::Array(Array::Bool(flags)) => flags.clone(),
            _ => self.counts(key)?.into_iter().map(|count| count != 0).collect(),
        };
        flags.truncate(self.n_layers());
        Some(flags)
    }

    /// Layers before those of a prediction; not more than there are tensors, whatever the file says.
    pub fn n_layers(&self) -> usize {
        let predicted = self.count("nextn_predict_layers").unwrap_or(0);
        let n_layers = self.count("block_count").unwrap_or(0).saturating_sub(predicted);
        usize::try_from(n_layers).unwrap_or(usize::MAX).min(self.tensors.len())
    }

    /// The shape of a tensor.
    pub fn shape(&self, name: &str) -> Option<Shape> {
        self.tensors.iter().find(|(other, _)| other == name).map(|(_, shape)| *shape)
    }

    /// True if a layer has a tensor (`attn_v.weight`).
    pub fn layer_has(&self, layer: usize, name: &str) -> bool {
        self.shape(&format!("blk.{layer}.{name}")).is_some()
    }

    /// For each layer before those of a prediction whether it has a tensor.
    pub fn layers_with(&self, name: &str) -> Vec<bool> {
        (0..self.n_layers()).map(|layer| self.layer_has(layer, name)).collect()
    }

    /// From a list with a count per layer, the count of the first layer where `of` is `is`; a single count
    /// applies to all layers.
    pub fn count_where(&self, key: &str, of: &[bool], is: bool) -> Option<u64> {
        match self.counts(key) {
            Some(counts) => counts.into_iter().zip(of).find(|(_, flag)| **flag == is).map(|(count, _)| count),
            None => self.count(key),
        }
    }

    /// Lengths of the parts of a head in latent attention: rotated part, plain part, values.
    pub fn latent_lengths(&self, config: &mut Map<String, Json>) {
        let rotated = self.count("rope.dimension_count");
        // A key is a plain part and a rotated one; absorbed keys have their lengths under other names.
        let keys = self.count("attention.key_length_mla").or(self.count("attention.key_length"));
        let values = self.count("attention.value_length_mla").or(self.count("attention.value_length"));
        let plain = keys.zip(rotated).and_then(|(keys, rotated)| keys.checked_sub(rotated));
        for (name, count) in [
            ("q_lora_rank", self.count("attention.q_lora_rank")),
            ("kv_lora_rank", self.count("attention.kv_lora_rank")),
            ("qk_rope_head_dim", rotated),
            ("qk_nope_head_dim", plain),
            ("v_head_dim", values),
        ] {
            config.insert(name.into(), count.into());
        }
    }

    /// Rotary parameters of full and of sliding layers apart, of those that stand flat in a config, if the file has a
    /// base for sliding layers.
    pub fn rope_by_kind(&self, config: &mut Map<String, Json>) {
        let Some(base) = config.remove("rope_local_base_freq") else { return };
        let mut full = match config.remove("rope_scaling") {
            Some(Json::Object(scaling)) => scaling,
            _ => Map::from_iter([("rope_type".to_owned(), "default".into())]),
        };
        full.insert("rope_theta".into(), config.remove("rope_theta").unwrap_or_default());
        if let Some(part) = config.remove("partial_rotary_factor") {
            full.insert("partial_rotary_factor".into(), part);
        }
        let mut sliding = json!({"rope_type": "default", "rope_theta": base});
        let head = self.count("attention.key_length_swa").or(self.count("attention.key_length"));
        if let (Some(rotated), Some(head)) = (self.count("rope.dimension_count_swa"), head)
            && head > 0
        {
            sliding["partial_rotary_factor"] = (rotated as f64 / head as f64).into();
        }
        let rope = json!({"full_attention": full, "sliding_attention": sliding});
        config.insert("rope_parameters".into(), rope);
    }
}

/// The kinds of layers by name: the first if a flag is set, else the second.
pub fn kinds(flags: &[bool], [if_so, if_not]: [&str; 2]) -> Json {
    flags.iter().map(|flag| if *flag { if_so } else { if_not }).collect()
}

/// Sets a key that a file has a count for.
pub fn set(config: &mut Map<String, Json>, name: &str, count: Option<u64>) {
    if let Some(count) = count {
        config.insert(name.into(), count.into());
    }
}
