//! Llama and Mistral as their authors publish them: `params.json` and `consolidated.*` instead of Hugging
//! Face's files.
//!
//! Config keys: Mistral's `params.json` under its own names, which the reference looks for next to Hugging
//! Face's, with `yarn` and `llama_4_scaling`. Meta's has too few keys: a transformers config is built from it
//! and from the shapes, and the rest follows llama, so the file equals that of Hugging Face's copy of the
//! same weights.
//!
//! Transforms: none except stacked experts. Rows of Q and K are in ggml's order; Hugging Face's copy moved
//! them.
//!
//! Source: `MistralModel` in `conversion/mistral.py`; names of Meta's tensors in
//! `gguf-py/gguf/tensor_mapping.py` (llama-pth); context lengths in `examples/convert_legacy_llama.py`
//! (`Params.loadOriginalParamsJson`).

use crate::families::llama::convert::llama::{self, LLAMA};
use crate::families::llama::convert::vocab;
use crate::prelude::*;

/// tekken.json or a versioned SentencePiece model.
pub const MISTRAL_ROUTE: Route =
    Route { counts_tokens: true, ..Route::new("mistral", |writer| writer.tekken(true)) };

/// Mistral's layout.
pub const MISTRAL_PARAMS: Arch = Arch {
    name: "mistral-params",
    written: Some("llama"),
    classes: &[Class::new("MistralParams")],
    example: "mistralai/Mistral-Nemo-Instruct-2407",
    configs: &[],
    raw_config: true,
    needs: &["dim", "n_layers", "n_heads"],
    tensors: TENSORS,
    keys: mistral_keys,
    drops,
    vocab: MISTRAL_ROUTE,
    export: Export::NotExportable("exported in the Hugging Face layout, as architecture `llama`"),
    ..LLAMA
};

/// Mistral's layout, of models whose queries are scaled beyond the length that they were trained with.
pub const MISTRAL3_PARAMS: Arch = Arch {
    name: "mistral3-params",
    written: Some("mistral3"),
    classes: &[Class::new("Mistral3Params")],
    example: "mistralai/Ministral-3-14B-Instruct-2512",
    ..MISTRAL_PARAMS
};

/// Mixtral in Mistral's layout, which the reference takes for another architecture and does not read: the file is that of
/// Hugging Face's copy, with the tokenizer of this layout.
pub const MIXTRAL_PARAMS: Arch = Arch {
    name: "mixtral-params",
    classes: &[Class::new("MixtralParams")],
    example: "mistralai/Mixtral-8x22B-Instruct-v0.3",
    vocab: MISTRAL_ROUTE,
    ..META_PARAMS
};

/// Meta's layout.
pub const META_PARAMS: Arch = Arch {
    name: "meta-params",
    classes: &[Class::new("MetaParams")],
    example: "meta-llama/Llama-3.1-8B",
    // Under two spellings: `meta_config` looks for them.
    needs: &[],
    prepare: meta_config,
    keys: llama::keys,
    vocab: ROUTE,
    ..MISTRAL_PARAMS
};

/// Llama's tokenizer, with bos and eos from tokenizer.model, because the checkpoint has no config.
const ROUTE: Route = Route::new("meta_llama", |writer| {
    vocab::write_keys(writer)?;
    writer.write_model_ids()
});

const TENSORS: &[&[TensorRule]] = &[&[
    TensorRule::copy(&["tok_embeddings"], "token_embd"),
    TensorRule::copy(&["norm"], "output_norm"),
    TensorRule::copy(&["output"], "output").need(Need::Optional),
    TensorRule::copy(&["layers.{bid}.attention_norm"], "blk.{bid}.attn_norm"),
    TensorRule::copy(&["layers.{bid}.ffn_norm"], "blk.{bid}.ffn_norm"),
    TensorRule::copy(&["layers.{bid}.attention.wq"], "blk.{bid}.attn_q"),
    TensorRule::copy(&["layers.{bid}.attention.wk"], "blk.{bid}.attn_k"),
    TensorRule::copy(&["layers.{bid}.attention.wv"], "blk.{bid}.attn_v"),
    TensorRule::copy(&["layers.{bid}.attention.wo"], "blk.{bid}.attn_output"),
    TensorRule::copy(&["layers.{bid}.feed_forward.w1"], "blk.{bid}.ffn_gate").need(Need::Dense),
    TensorRule::copy(&["layers.{bid}.feed_forward.w2"], "blk.{bid}.ffn_down").need(Need::Dense),
    TensorRule::copy(&["layers.{bid}.feed_forward.w3"], "blk.{bid}.ffn_up").need(Need::Dense),
    TensorRule::copy(&["layers.{bid}.feed_forward.gate"], "blk.{bid}.ffn_gate_inp").need(Need::Experts),
    TensorRule::stack(&["layers.{bid}.feed_forward.experts.{xid}.w1"], "blk.{bid}.ffn_gate_exps")
        .need(Need::Experts),
    TensorRule::stack(&["layers.{bid}.feed_forward.experts.{xid}.w2"], "blk.{bid}.ffn_down_exps")
        .need(Need::Experts),
    TensorRule::stack(&["layers.{bid}.feed_forward.experts.{xid}.w3"], "blk.{bid}.ffn_up_exps")
        .need(Need::Experts),
]];

fn drops(_: &Hparams, name: &str) -> Option<&'static str> {
    // One tensor for all layers, or one for each layer.
    let is_frequencies = name == "rope.freqs" || name.ends_with(".inner_attention.rope.freqs");
    is_frequencies.then_some("rotary frequencies are computed from the config")
}

/// `MistralModel.set_gguf_parameters`. The size of the vocabulary comes from the tokenizer.
fn mistral_keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    text_keys(hparams, keys)?;
    let share = |dim: u64, heads: u64| dim.checked_div(heads);
    let head_dim = match hparams.get_u64("head_dim")? {
        Some(dim) => dim,
        None => share(hparams.need_u64(&["dim"])?, hparams.n_heads()?)
            .ok_or_else(|| bad("n_heads", &0.into(), "an integer above 0"))?,
    };
    keys.set_derived("rope.dimension_count", "head_dim", head_dim)?;
    if keys.prefixed("context_length").is_none() {
        keys.depart(&LENGTH, Value::U32(DEFAULT_LENGTH), None);
    }
    scaling_keys(hparams, keys)
}

/// Context length of models whose `params.json` does not state it: Mistral 7B v0.2 and v0.3, and what is trained from them.
const DEFAULT_LENGTH: u32 = 32_768;

/// Context length.
pub const LENGTH: Departure = Departure {
    subject: "context_length",
    files: "`llama` (`params.json` of Mistral without a length)",
    reason: "params.json states no length: using 32768, that of Mistral 7B; llama.cpp does not load a file without the key",
};

/// `MistralModel.set_mistral_config`: how rotation and queries are scaled beyond the length of the training.
pub fn scaling_keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    let part = |of: &str| hparams.get(of).and_then(Json::as_object).cloned();
    let need = |of: &str, map: &Map<String, Json>, key: &str| {
        map.get(key).cloned().ok_or_else(|| missing(&format!("{of}.{key}")))
    };
    if let Some(yarn) = part("yarn") {
        let number = |key: &str| to_f32(&format!("yarn.{key}"), &need("yarn", &yarn, key)?);
        keys.set_prefixed("rope.scaling.type", "yarn".into());
        keys.set_prefixed("rope.scaling.factor", Value::F32(number("factor")?));
        keys.set_prefixed("rope.scaling.yarn_beta_fast", Value::F32(number("beta")?));
        keys.set_prefixed("rope.scaling.yarn_beta_slow", Value::F32(number("alpha")?));
        let scales = need("yarn", &yarn, "apply_scale")? != Json::Bool(false);
        keys.set_prefixed("rope.scaling.yarn_log_multiplier", Value::F32(if scales { 0.0 } else { 1.0 }));
        let length = "original_max_position_embeddings";
        let original = to_u32(&format!("yarn.{length}"), &need("yarn", &yarn, length)?)?;
        keys.set_prefixed("rope.scaling.original_context_length", Value::U32(original));
    }
    if let Some(scaling) = part("llama_4_scaling") {
        let beta = to_f32("llama_4_scaling.beta", &need("llama_4_scaling", &scaling, "beta")?)?;
        keys.set_prefixed("attention.temperature_scale", Value::F32(beta));
    }
    Ok(())
}

/// The config of transformers that says what Meta's `params.json` and the shapes of its tensors say.
fn meta_config(params: Hparams, tensors: &[SourceTensor]) -> Result<Hparams, ArchError> {
    let shape = |name: &str| tensors.iter().find(|tensor| tensor.name == name).map(|tensor| tensor.shape);
    let rows = |name: &str| shape(name).map(|shape| shape.n_rows());
    // The first Mixtral has the keys of transformers.
    let (dim, n_heads) = (params.need_u64(&["hidden_size", "dim"])?, params.n_heads()?);
    let head_dim = dim.checked_div(n_heads).ok_or_else(|| bad("n_heads", &0.into(), "an integer above 0"))?;
    let n_kv_heads =
        params.get_u64("n_kv_heads")?.or(params.get_u64("num_key_value_heads")?).unwrap_or(n_heads);
    // Split over more parts than heads, they would have to be repeated, in an unspecified way.
    for name in ["layers.0.attention.wk.weight", "layers.0.attention.wv.weight"] {
        let expected = n_kv_heads.saturating_mul(head_dim);
        if let Some(found) = shape(name).filter(|shape| shape.n_rows() != expected) {
            let expected = format!("{expected} rows of {n_kv_heads} heads");
            return Err(ArchError::TensorShape { name: name.into(), found, expected });
        }
    }
    let (n_experts, n_used) = ("num_experts", "num_experts_per_tok");
    let experts = params.get("moe").and_then(Json::as_object).cloned().or_else(|| {
        let mut experts = Map::new();
        experts.insert(n_experts.to_owned(), params.get("num_local_experts")?.clone());
        experts.extend(params.get(n_used).map(|used| (n_used.to_owned(), used.clone())));
        Some(experts)
    });
    let theta = params.get_f64("rope_theta")?.unwrap_or(if experts.is_some() { 1e6 } else { 1e4 });
    let epsilon = params.get_f64("norm_eps")?.or(params.get_f64("rms_norm_eps")?);
    let is_scaled = params.is_true("use_scaled_rope");
    // Feed-forward width and vocabulary follow from the shapes; `params.json` has a formula and a -1.
    let expert_tensor = experts.as_ref().map(|_| "layers.0.feed_forward.experts.0.w1.weight");
    let width = rows(expert_tensor.unwrap_or("layers.0.feed_forward.w1.weight"));
    // The length is not stated anywhere: that of the family, by what tells families apart. Llama 3.1 and later, Llama 3,
    // Mixtral, Code Llama, Llama 2, Llama 1.
    let length = match () {
        () if is_scaled => 131_072,
        () if theta == 500_000.0 => 8192,
        () if experts.is_some() => 32_768,
        () if theta == 1_000_000.0 => 16_384,
        () if epsilon == Some(1e-5) => 4096,
        () => 2048,
    };
    let mut config = json!({
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": dim,
        "num_hidden_layers": params.n_layers()?,
        "num_attention_heads": n_heads,
        "num_key_value_heads": n_kv_heads,
        "intermediate_size": width.or(params.get_u64("hidden_dim")?),
        "vocab_size": rows("tok_embeddings.weight").or(params.get_u64("vocab_size").unwrap_or_default()),
        "rms_norm_eps": epsilon.unwrap_or(1e-5),
        "rope_theta": theta,
        "max_position_embeddings": length,
        "tie_word_embeddings": rows("tok_embeddings.weight").is_some() && rows("output.weight").is_none(),
    });
    if is_scaled {
        let factor = params.get_f64("rope_scaling_factor")?.unwrap_or(8.0);
        config["rope_scaling"] = json!({
            "rope_type": "llama3", "factor": factor, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
            "original_max_position_embeddings": 8192
        });
    }
    let mut class = ConfigClass::new("llama");
    if let Some(experts) = experts {
        class = ConfigClass::new("mixtral");
        for (key, name) in [("num_local_experts", n_experts), (n_used, n_used)] {
            config[key] = experts.get(name).cloned().ok_or_else(|| missing(&format!("moe.{name}")))?;
        }
    }
    let mut hparams = Hparams::load(&config, Some(&class))?;
    hparams.note(format!(
        "missing context length in params.json; using {length} tokens, as in models with these parameters"
    ));
    Ok(hparams)
}
