//! config.json and generation_config.json.
//!
//! The config is spelled so that transformers 4 and 5 and the reference's converter, with and
//! without transformers, read the same out of it: rotary parameters in `rope_parameters`, and
//! flat beside it. Keys that only state transformers' defaults are left out, except where an
//! older version has another default.
//!
//! Inverse of `TextModel.set_gguf_parameters` in `conversion/base.py` and of
//! `LlamaModel.set_gguf_parameters` and `generate_extra_tensors` in `conversion/llama.py` of
//! llama.cpp, as vendored in llama-cpp-python 0.3.36.

use serde_json::{Map, Value as Json, json};
use tensor::Shape;

use super::{ExportError, GgufInput, Keys};
use crate::arch::Arch;
use crate::registry;

/// The tensor that Llama 3's rotary scaling becomes.
const ROPE_FREQS: &str = "rope_freqs.weight";

/// What the rest of the way needs to know of the config, and the config.
pub struct Model {
    /// config.json.
    pub config: Json,
    /// Other files that say something of the model.
    pub files: Vec<(String, Vec<u8>)>,
    /// Layers.
    pub n_layers: u64,
    /// Query heads.
    pub n_head: u64,
    /// Key and value heads.
    pub n_head_kv: u64,
    /// Rows of a head.
    pub head_dim: u64,
    /// Experts, 0 for a dense model.
    pub n_experts: u64,
    /// Rows of the embedding.
    pub vocab_size: u64,
}

impl Model {
    /// Whether a tensor of the file has gone into the config.
    pub fn uses(&self, tensor: &str) -> bool {
        tensor == ROPE_FREQS
    }

    /// Reads the hyperparameters.
    pub fn read(
        keys: &Keys<'_>,
        arch: &Arch,
        input: &GgufInput<'_>,
        notes: &mut Vec<String>,
    ) -> Result<Model, ExportError> {
        let own = |key: &str| format!("{}.{key}", arch.name);
        let shape = |name: &str| input.tensors.iter().find(|(have, _)| have == name).map(|(_, shape)| *shape);
        let has = |part: &str| input.tensors.iter().any(|(name, _)| name.ends_with(part));
        let n_layers = keys.need_count(&own("block_count"))?;
        let hidden = keys.need_count(&own("embedding_length"))?;
        let n_head = keys.need_count(&own("attention.head_count"))?;
        let n_head_kv = keys.count(&own("attention.head_count_kv"))?.unwrap_or(n_head);
        let n_experts = keys.count(&own("expert_count"))?.unwrap_or(0);
        let head_dim = head_dim(keys, &own, hidden, n_head)?;
        let vocab_size = embedding_rows(arch, shape(arch.embedding), hidden)?;
        let (attention_bias, mlp_bias) = (has(".attn_q.bias"), has(".ffn_up.bias"));

        let mistral = ["general.name", "general.basename"]
            .iter()
            .any(|key| matches!(keys.text(key), Ok(Some(name)) if name.to_lowercase().contains("mistral")));
        let window = keys.count(&own("attention.sliding_window"))?;
        let class = match (n_experts > 0, mistral || window.is_some()) {
            (true, _) => ("MixtralForCausalLM", "mixtral"),
            (false, true) if !attention_bias && !mlp_bias => ("MistralForCausalLM", "mistral"),
            (false, _) => ("LlamaForCausalLM", "llama"),
        };
        let epsilon_key = own("attention.layer_norm_rms_epsilon");
        let epsilon = keys.number(&epsilon_key)?.ok_or(ExportError::MissingKey { key: epsilon_key })?;

        let mut config = Map::new();
        let mut set = |key: &str, value: Json| config.insert(key.to_owned(), value);
        set("architectures", json!([class.0]));
        set("model_type", class.1.into());
        if class.1 == "llama" {
            set("attention_bias", attention_bias.into());
            set("mlp_bias", mlp_bias.into());
        } else {
            set("sliding_window", window.into());
        }
        for (key, of) in [("bos_token_id", "bos"), ("eos_token_id", "eos"), ("pad_token_id", "padding")] {
            set(key, keys.count(&format!("tokenizer.ggml.{of}_token_id"))?.into());
        }
        set("head_dim", head_dim.into());
        set("hidden_act", "silu".into());
        set("hidden_size", hidden.into());
        set("intermediate_size", keys.need_count(&own("feed_forward_length"))?.into());
        set("max_position_embeddings", keys.need_count(&own("context_length"))?.into());
        set("num_attention_heads", n_head.into());
        set("num_hidden_layers", n_layers.into());
        set("num_key_value_heads", n_head_kv.into());
        if n_experts > 0 {
            set("num_local_experts", n_experts.into());
            set("num_experts_per_tok", keys.need_count(&own("expert_used_count"))?.into());
        }
        set("rms_norm_eps", epsilon.into());
        set("tie_word_embeddings", shape("output.weight").is_none().into());
        // `dtype` is read by transformers 5, `torch_dtype` by 4.
        set("dtype", input.dtype.into());
        set("torch_dtype", input.dtype.into());
        set("vocab_size", vocab_size.into());
        rope(keys, arch, input, &mut config)?;
        note_unknown(keys, arch, notes);
        let config = Json::Object(config);
        Ok(Model { config, files: Vec::new(), n_layers, n_head, n_head_kv, head_dim, n_experts, vocab_size })
    }
}

fn head_dim(
    keys: &Keys<'_>,
    own: &impl Fn(&str) -> String,
    hidden: u64,
    n_head: u64,
) -> Result<u64, ExportError> {
    let share = hidden.checked_div(n_head).unwrap_or(0);
    let head_dim = keys.count(&own("attention.key_length"))?.unwrap_or(share);
    for key in ["attention.value_length", "rope.dimension_count"] {
        if let Some(found) = keys.count(&own(key))?
            && found != head_dim
        {
            return Err(ExportError::NotExpressible {
                what: format!("`{}` {found} with heads of {head_dim}", own(key)),
            });
        }
    }
    if head_dim == 0 || !head_dim.is_multiple_of(2) {
        let (key, expected) = (own("attention.head_count"), "heads of an even number of rows".to_owned());
        return Err(ExportError::BadKey {
            key,
            expected,
            found: format!("{n_head} heads of {head_dim} rows"),
        });
    }
    Ok(head_dim)
}

fn embedding_rows(arch: &Arch, shape: Option<Shape>, hidden: u64) -> Result<u64, ExportError> {
    let name = arch.embedding.to_owned();
    match shape {
        None => Err(ExportError::MissingTensors { names: vec![name] }),
        Some(shape) if shape.row_elems() != hidden => Err(ExportError::TensorShape {
            name,
            found: shape,
            expected: format!("rows of {hidden} elements"),
        }),
        Some(shape) => Ok(shape.n_rows()),
    }
}

/// Rotary parameters, in both spellings.
pub fn rope(
    keys: &Keys<'_>,
    arch: &Arch,
    input: &GgufInput<'_>,
    config: &mut Map<String, Json>,
) -> Result<(), ExportError> {
    let own = |key: &str| format!("{}.rope.{key}", arch.written());
    let theta = keys.number(&own("freq_base"))?.unwrap_or(10_000.0);
    let mut scaling = Map::new();
    let kind = keys.text(&own("scaling.type"))?;
    // Before types were written there was only the linear one.
    let factor = match keys.number(&own("scaling.factor"))? {
        None => keys.number(&own("scale_linear"))?,
        factor => factor,
    };
    let mut set = |key: &str, value: Json| scaling.insert(key.to_owned(), value);
    if let Some([long, short]) = &input.rope_factors {
        let factors = |factors: &[f32]| -> Json {
            factors.iter().map(|factor| factor.to_string().parse::<f64>().unwrap_or(1.0)).collect()
        };
        set("rope_type", "longrope".into());
        set("long_factor", factors(long));
        set("short_factor", factors(short));
        if let Some(length) = keys.count(&own("scaling.original_context_length"))? {
            set("original_max_position_embeddings", length.into());
            config.insert("original_max_position_embeddings".to_owned(), length.into());
        }
    }
    match (kind.as_deref(), factor) {
        _ if input.rope_factors.is_some() => {}
        (None | Some("none"), None) => {}
        (None | Some("linear"), Some(factor)) => {
            set("rope_type", "linear".into());
            set("factor", factor.into());
        }
        (Some("yarn"), Some(factor)) => {
            set("rope_type", "yarn".into());
            set("factor", factor.into());
            set(
                "original_max_position_embeddings",
                keys.need_count(&own("scaling.original_context_length"))?.into(),
            );
            for (key, of) in [
                ("extrapolation_factor", "scaling.yarn_ext_factor"),
                ("attention_factor", "scaling.yarn_attn_factor"),
                ("beta_fast", "scaling.yarn_beta_fast"),
                ("beta_slow", "scaling.yarn_beta_slow"),
            ] {
                if let Some(value) = keys.number(&own(of))? {
                    set(key, value.into());
                }
            }
        }
        (kind, _) => {
            let what = format!("rotary scaling of type `{}`", kind.unwrap_or("none"));
            return Err(ExportError::NotExpressible { what });
        }
    }
    config.insert("rope_theta".to_owned(), theta.into());
    if let Some(freqs) = input.rope_freqs.as_deref().filter(|freqs| freqs.iter().any(|freq| *freq != 1.0)) {
        if !scaling.is_empty() {
            return Err(ExportError::NotExpressible {
                what: "`rope_freqs.weight` beside rotary scaling".to_owned(),
            });
        }
        scaling = llama3(arch, config, freqs)?;
    }
    put_rope(config, scaling);
    Ok(())
}

fn put_rope(config: &mut Map<String, Json>, scaling: Map<String, Json>) {
    let theta = config.get("rope_theta").cloned().unwrap_or_default();
    let mut parameters = scaling.clone();
    if parameters.is_empty() {
        parameters.insert("rope_type".to_owned(), "default".into());
    }
    parameters.insert("rope_theta".to_owned(), theta);
    config.insert("rope_parameters".to_owned(), Json::Object(parameters));
    // Transformers 4 reads this one; 5 takes it, with the flat theta, as the same.
    config.insert(
        "rope_scaling".to_owned(),
        if scaling.is_empty() { Json::Null } else { Json::Object(scaling) },
    );
}

/// The parameters whose divisors are exactly these.
///
/// Divisors are 1 for short waves and `factor` for long ones; between, 1/divisor is linear in
/// 1/wavelength: `1/d = (1 - s) / factor + s`, `s = (length / wave - low) / (high - low)`. Scaling
/// length, low and high together changes nothing, so low is 1, as in every published model, and
/// a line through two divisors gives the other two. The parameters of published models are
/// tried first. Whatever is tried must give every divisor back, to the last bit or nearly so.
fn llama3(arch: &Arch, config: &Map<String, Json>, freqs: &[f32]) -> Result<Map<String, Json>, ExportError> {
    let factor = f64::from(freqs.iter().copied().fold(1.0f32, f32::max));
    let theta = config.get("rope_theta").and_then(Json::as_f64).unwrap_or(10_000.0);
    let mut candidates: Vec<(f64, f64)> = (4..=24).map(|log| (4.0, f64::from(1u32 << log))).collect();
    let n = freqs.len() as f64;
    let points: Vec<(f64, f64)> = freqs
        .iter()
        .enumerate()
        .filter(|(_, d)| f64::from(**d) > 1.0 && f64::from(**d) < factor)
        .map(|(i, d)| {
            let inverse_wave = theta.powf(-(i as f64) / n) / std::f64::consts::TAU;
            (inverse_wave, (1.0 / f64::from(*d) - 1.0 / factor) / (1.0 - 1.0 / factor))
        })
        .collect();
    // With one divisor between there is a line only if high is 4, as in every published model.
    candidates.extend(points.iter().map(|(x, s)| (4.0, ((3.0 * s + 1.0) / x).round())));
    if let [(x0, s0), .., (x1, s1)] = points[..] {
        let slope = (s1 - s0) / (x1 - x0);
        let at_zero = s0 - slope * x0;
        let high = (1.0 - 1.0 / at_zero).round();
        candidates.push((high, (slope * (high - 1.0)).round()));
    }
    let mut best: Option<(u32, Map<String, Json>)> = None;
    for (high, length) in candidates.into_iter().filter(|(high, length)| *high > 1.0 && *length >= 1.0) {
        let scaling = json!({
            "rope_type": "llama3",
            "factor": factor,
            "low_freq_factor": 1.0,
            "high_freq_factor": high,
            "original_max_position_embeddings": length as u64,
        });
        let Json::Object(scaling) = scaling else { continue };
        let mut tried = config.clone();
        put_rope(&mut tried, scaling.clone());
        let computed =
            registry::hparams(arch, &Json::Object(tried)).and_then(|hparams| (arch.computed)(&hparams));
        let Ok(computed) = computed else { continue };
        let Some((_, computed)) = computed.into_iter().find(|(name, _)| *name == ROPE_FREQS) else {
            continue;
        };
        if computed.len() == freqs.len() {
            let worst =
                computed.iter().zip(freqs).map(|(a, b)| a.to_bits().abs_diff(b.to_bits())).max().unwrap_or(0);
            if best.as_ref().is_none_or(|(least, _)| worst < *least) {
                best = Some((worst, scaling));
            }
        }
    }
    // The reference computes with a vector library whose last bits are its own.
    const NEARLY: u32 = 64;
    match best {
        Some((worst, scaling)) if worst <= NEARLY => Ok(scaling),
        _ => Err(ExportError::NotExpressible {
            what: format!("`{ROPE_FREQS}` with {} divisors up to {factor}", freqs.len()),
        }),
    }
}

/// Notes keys of the architecture that have no place in the config.
fn note_unknown(keys: &Keys<'_>, arch: &Arch, notes: &mut Vec<String>) {
    const KNOWN: &[&str] = &[
        "block_count",
        "context_length",
        "embedding_length",
        "feed_forward_length",
        "attention.head_count",
        "attention.head_count_kv",
        "attention.key_length",
        "attention.value_length",
        "attention.layer_norm_rms_epsilon",
        "attention.sliding_window",
        "expert_count",
        "expert_used_count",
        "vocab_size",
        "rope.dimension_count",
        "rope.freq_base",
        "rope.scale_linear",
        "rope.scaling.type",
        "rope.scaling.factor",
        "rope.scaling.original_context_length",
        "rope.scaling.finetuned",
        "rope.scaling.yarn_ext_factor",
        "rope.scaling.yarn_attn_factor",
        "rope.scaling.yarn_beta_fast",
        "rope.scaling.yarn_beta_slow",
    ];
    for (key, _) in keys.metadata {
        let own = key.strip_prefix(arch.name).and_then(|rest| rest.strip_prefix('.'));
        if own.is_some_and(|own| !KNOWN.contains(&own)) {
            notes.push(format!("metadata key `{key}` has no counterpart in a config and is left out"));
        }
    }
}

/// generation_config.json: where to stop, and how to sample if the file says so.
pub fn generation(keys: &Keys<'_>) -> Result<Json, ExportError> {
    let id = |of: &str| keys.count(&format!("tokenizer.ggml.{of}_token_id"));
    let mut config = Map::new();
    let mut set = |key: &str, value: Json| config.insert(key.to_owned(), value);
    set("_from_model_config", true.into());
    if let Some(bos) = id("bos")? {
        set("bos_token_id", bos.into());
    }
    let mut ends: Vec<u64> = Vec::new();
    for of in ["eos", "eot", "eom"] {
        ends.extend(id(of)?.filter(|end| !ends.contains(end)));
    }
    match ends[..] {
        [] => {}
        [end] => drop(set("eos_token_id", end.into())),
        _ => drop(set("eos_token_id", ends.into())),
    }
    if let Some(pad) = id("padding")? {
        set("pad_token_id", pad.into());
    }
    for (key, of) in [("top_k", "top_k"), ("penalty_last_n", "penalty_last_n"), ("mirostat", "mirostat")] {
        if let Some(value) =
            keys.get(&format!("general.sampling.{of}")).and_then(|v| v.to_string().parse::<i64>().ok())
        {
            set(key, value.into());
            set("do_sample", true.into());
        }
    }
    for (key, of) in [
        ("top_p", "top_p"),
        ("min_p", "min_p"),
        ("temperature", "temp"),
        ("repetition_penalty", "penalty_repeat"),
        ("xtc_probability", "xtc_probability"),
        ("xtc_threshold", "xtc_threshold"),
        ("mirostat_tau", "mirostat_tau"),
        ("mirostat_eta", "mirostat_eta"),
    ] {
        if let Some(value) = keys.number(&format!("general.sampling.{of}"))? {
            set(key, value.into());
            set("do_sample", true.into());
        }
    }
    if let Some(sequence) = keys.text("general.sampling.sequence")? {
        set("sequence", sequence.into());
    }
    Ok(Json::Object(config))
}
