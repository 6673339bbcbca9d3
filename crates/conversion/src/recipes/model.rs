//! Facts about a model for recipes, from its metadata.

use gguf_container::{Array, KeyError, Metadata, Ranks, Value};
use gguf_types::DType;

use gguf_layout::{CountedLayers, DiffusionFile, Families, Quantization};

use super::{FileType, RecipeError, TensorFacts, requires_imatrix};

/// Facts about a model for recipes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ModelFacts {
    /// `general.architecture`.
    pub architecture: String,
    /// Number of layers, including MTP layers.
    pub n_layer: u32,
    /// Number of experts; 0 or 1 in dense models.
    pub n_expert: u32,
    /// Query heads of the first layer.
    pub n_head: u32,
    /// Key-value heads of the first layer.
    pub n_head_kv: u32,
    /// True if the reference treats the model as a 70B, see [`is_70b`].
    pub is_70b: bool,
    /// Facts about its architecture.
    pub quantization: &'static Quantization,
    /// Set for a diffusion model, whose layers and heads are not counted.
    pub diffusion: Option<DiffusionFile>,
}

/// True if the reference treats a model as a 70B. `n_layer_trunk` counts layers without MTP layers.
pub fn is_70b(facts: &Quantization, n_layer_trunk: u32, n_expert: u32, n_head: u32, n_head_kv: u32) -> bool {
    facts.layers_of_70b == Some(n_layer_trunk)
        && (!facts.only_grouped_70b || (n_expert != 8 && n_head != n_head_kv))
}

impl ModelFacts {
    /// Query heads per key-value head; 0 without key-value heads.
    pub fn n_gqa(&self) -> u32 {
        self.n_head.checked_div(self.n_head_kv).unwrap_or(0)
    }

    /// Ranks of tensors in files made from this model.
    pub fn ranks(&self) -> Ranks {
        if self.diffusion.is_some() { Ranks::Stored } else { Ranks::Ggml }
    }

    /// True if a tensor cannot be encoded to `dtype` without an importance matrix.
    pub fn requires_imatrix(&self, name: &str, dtype: DType, file_type: FileType) -> bool {
        match self.diffusion {
            Some(_) => dtype.needs_imatrix(),
            None => requires_imatrix(name, dtype, file_type),
        }
    }

    /// Reads the facts of a GGUF file, or of a planned one, from its metadata and the names and shapes of its tensors.
    pub fn of_file(
        families: &Families,
        metadata: &Metadata,
        tensors: &[TensorFacts<'_>],
    ) -> Result<ModelFacts, RecipeError> {
        let shapes = tensors.iter().map(|tensor| (tensor.name, tensor.shape));
        let Some(file) = families.diffusion_file(metadata, shapes) else {
            return ModelFacts::from_metadata(families, metadata);
        };
        let architecture = metadata.text("general.architecture")?.unwrap_or_default().to_owned();
        Ok(ModelFacts { architecture, diffusion: Some(file), ..ModelFacts::default() })
    }

    /// Parses the facts of a text model from its metadata.
    ///
    /// Source: `llama_model_base::load_hparams` in `src/llama-model.cpp`, and the `load_arch_hparams` of
    /// `granite-switch.cpp` and `nanbeige.cpp`, which count layers that have no tensors.
    ///
    /// # Errors
    /// [`RecipeError::Key`] without architecture or block count, and for an invalid count.
    pub fn from_metadata(families: &Families, metadata: &Metadata) -> Result<ModelFacts, RecipeError> {
        let key = "general.architecture";
        let architecture = metadata.text(key)?.ok_or_else(|| KeyError::missing(key))?.to_owned();
        // A multimodal projector has no such keys; the reference counts no layers for it.
        if architecture == "clip" {
            return Ok(ModelFacts { architecture, ..ModelFacts::default() });
        }
        let count = |suffix: &str| count(metadata, &format!("{architecture}.{suffix}"));
        // An encoder-decoder model may count its layers there.
        let n_block = match count("block_count")? {
            None => count("encoder.block_count")?
                .map(|n| n.max(count("decoder.block_count").ok().flatten().unwrap_or(0))),
            stated => stated,
        };
        let n_block = n_block.ok_or_else(|| KeyError::missing(format!("{architecture}.block_count")))?;
        let n_next = count("nextn_predict_layers")?.unwrap_or(0);
        // MTP layers come last and count as layers, but not for recognizing a 70B model.
        let n_trunk = n_block.checked_sub(n_next).ok_or_else(|| {
            let key = format!("{architecture}.nextn_predict_layers");
            KeyError::value(key, "no more than the block count", &Value::U32(n_next))
        })?;
        let mut n_expert = count("expert_count")?.unwrap_or(0);
        let quantization = families.quantization(&architecture);
        if n_expert <= 1 && quantization.one_expert_is_none {
            n_expert = 0;
        }
        let n_head = count("attention.head_count")?.unwrap_or(0);
        // Without key-value heads, every query head has one.
        let n_head_kv = count("attention.head_count_kv")?.unwrap_or(n_head);
        let n_layer = match quantization.layers {
            CountedLayers::Blocks => n_block,
            CountedLayers::OneMore => n_trunk.saturating_add(1),
            CountedLayers::Repeated(key) => match count(key)?.unwrap_or(1) {
                0 | 1 => n_block,
                n_times => n_trunk.saturating_mul(n_times),
            },
        };
        let is_70b = is_70b(quantization, n_trunk, n_expert, n_head, n_head_kv);
        let diffusion = None;
        Ok(ModelFacts { architecture, n_layer, n_expert, n_head, n_head_kv, is_70b, quantization, diffusion })
    }
}

/// A count, or the first of a per-layer array of counts.
fn count(metadata: &Metadata, key: &str) -> Result<Option<u32>, KeyError> {
    let count = |value: &Value| {
        let first = match value {
            Value::Array(Array::U32(items)) => items.first().map(|&item| u64::from(item)),
            Value::Array(Array::I32(items)) => items.first().and_then(|&item| item.try_into().ok()),
            Value::Array(Array::U64(items)) => items.first().copied(),
            Value::Array(Array::I64(items)) => items.first().and_then(|&item| item.try_into().ok()),
            // An empty list has no first layer, and lists of other types are not counts.
            Value::Array(_) => None,
            value => value.as_u64(),
        };
        u32::try_from(first?).ok()
    };
    metadata.read(key, "an integer of 0 or more", count)
}

#[cfg(test)]
mod tests {
    use gguf_models::FAMILIES;

    use super::*;

    fn metadata(architecture: &str, rest: &[(&str, Value)]) -> Metadata {
        let mut metadata = Metadata::from([("general.architecture".to_owned(), architecture.into())]);
        metadata.extend(rest.iter().map(|(key, value)| (format!("{architecture}.{key}"), value.clone())));
        metadata
    }

    #[test]
    fn llama_facts_are_read() {
        let heads = [("block_count", Value::U32(80)), ("attention.head_count", Value::U32(64))];
        let facts = ModelFacts::from_metadata(&FAMILIES, &metadata("llama", &heads)).unwrap();
        assert_eq!((facts.n_layer, facts.n_head_kv, facts.n_gqa(), facts.is_70b), (80, 64, 1, false));
        let mut grouped = heads.to_vec();
        grouped.push(("attention.head_count_kv", Value::Array(Array::I32(vec![8; 80]))));
        let facts = ModelFacts::from_metadata(&FAMILIES, &metadata("llama", &grouped)).unwrap();
        assert_eq!((facts.n_gqa(), facts.is_70b), (8, true));
    }

    #[test]
    fn models_of_70b_are_recognized() {
        assert!(is_70b(FAMILIES.quantization("qwen2"), 80, 0, 64, 64));
        assert!(!is_70b(FAMILIES.quantization("llama"), 80, 8, 64, 8));
        assert!(!is_70b(FAMILIES.quantization("qwen3"), 80, 0, 64, 8));
    }

    #[test]
    fn layers_without_tensors_are_counted() {
        let keys = [("block_count", Value::U32(12)), ("num_loops", Value::U32(3))];
        assert_eq!(ModelFacts::from_metadata(&FAMILIES, &metadata("nanbeige", &keys)).unwrap().n_layer, 36);
        assert_eq!(
            ModelFacts::from_metadata(&FAMILIES, &metadata("graniteswitch", &keys)).unwrap().n_layer,
            13
        );
    }

    #[test]
    fn unreadable_models_are_refused() {
        let missing = ModelFacts::from_metadata(&FAMILIES, &metadata("llama", &[])).unwrap_err();
        assert_eq!(missing, RecipeError::Key(KeyError::missing("llama.block_count")));
        let none = ModelFacts::from_metadata(&FAMILIES, &Metadata::new()).unwrap_err();
        assert_eq!(none, RecipeError::Key(KeyError::missing("general.architecture")));
        for wrong in [Value::I32(-1), Value::F32(1.0), Value::Array(Array::U32(vec![])), Value::U64(1 << 40)]
        {
            let error = ModelFacts::from_metadata(&FAMILIES, &metadata("llama", &[("block_count", wrong)]))
                .unwrap_err();
            assert!(
                matches!(&error, RecipeError::Key(KeyError::Value { expected, .. }) if expected == "an integer of 0 or more"),
                "{error}"
            );
        }
        let layers = [("encoder.block_count", Value::U32(2)), ("decoder.block_count", Value::U32(4))];
        assert_eq!(ModelFacts::from_metadata(&FAMILIES, &metadata("whisper", &layers)).unwrap().n_layer, 4);
        let keys = [("block_count", Value::U32(1)), ("nextn_predict_layers", Value::U32(2))];
        assert!(ModelFacts::from_metadata(&FAMILIES, &metadata("llama", &keys)).is_err());
    }
}
