//! Phi 3, 3.5 and 4.
//!
//! Config keys: those of every text model in their own order, the original context length, `sliding_window`
//! (0 without one: Phi 4).
//!
//! Transforms: Q, K and V stay one matrix, and so do gate and up. Factors of `longrope` scaling become
//! the computed tensors `rope_factors_long` and `rope_factors_short`.
//!
//! Source: `Phi3MiniModel` in `conversion/phi.py`.

use crate::prelude::*;

pub const PHI3: Arch = Arch {
    name: "phi3",
    // Text parts: Phi 4 with vision, and with vision and sound.
    classes: &[
        Class::new("Phi3ForCausalLM"),
        Class::new("Phi4ForCausalLMV"),
        Class::new("Phi4MultimodalForCausalLM"),
    ],
    example: "microsoft/Phi-3-mini-4k-instruct",
    configs: &[PHI3_CONFIG, ConfigClass::new("phi4_multimodal").adjusted(config)],
    tensors: &[rules::DECODER_ENDS, rules::PRE_NORMS, ATTENTION, rules::FUSED_MLP],
    keys,
    computed,
    drops: |_, name| name.starts_with("model.embed_tokens_extend.").then_some(drops::TOWER),
    vocab: ROUTE,
    built_in: &[HAS_NO_WINDOW],
    ..DECODER
};

/// Phi 3: tokenizer.model with added tokens from three files. Phi 4 has its class and GPT-4's tokens; only the
/// tokenizer's class tells them apart.
///
/// Source: `Phi3MiniModel.set_vocab` in `conversion/phi.py`.
pub const ROUTE: Route = Route {
    class: |kind| (kind == "gpt2").then_some("GPT2Tokenizer"),
    ..Route::new("phi3", |writer| match writer.tokenizer_class().as_str() {
        "GPT2Tokenizer" => writer.gpt2(&BpeStyle::GPT2),
        _ => writer.spm(SpmStyle::Merged),
    })
};

const ATTENTION: &[TensorRule] = &[
    TensorRule::copy(&["model.layers.{bid}.self_attn.qkv_proj"], "blk.{bid}.attn_qkv"),
    TensorRule::copy(&["model.layers.{bid}.self_attn.o_proj"], "blk.{bid}.attn_output"),
];

/// `Phi3Config`.
const PHI3_CONFIG: ConfigClass = ConfigClass::new("phi3").adjusted(config);

/// The original length is stored next to the RoPE parameters, and `yarn` means `longrope`. The older name
/// `su` is not accepted.
fn config(map: &mut Map<String, Json>) -> Result<(), String> {
    // `Phi3Config._rope_parameters_adjustment`: the length stands at the top of the file.
    let length = map.get("original_max_position_embeddings").cloned().unwrap_or(Json::Null);
    for key in ["rope_scaling", "rope_parameters"] {
        let Some(Json::Object(scaling)) = map.get_mut(key).filter(|scaling| scaling.is_object()) else {
            continue;
        };
        let kind =
            scaling.get("rope_type").or(scaling.get("type")).and_then(Json::as_str).unwrap_or("default");
        match kind {
            "default" => {}
            "yarn" | "longrope" => {
                scaling.insert("rope_type".into(), "longrope".into());
                scaling.insert("original_max_position_embeddings".into(), length.clone());
            }
            kind => return Err(format!("this class does not support rotary scaling of type `{kind}`")),
        }
    }
    Ok(())
}

const CONTEXT: &[&str] = &["n_positions", "max_position_embeddings"];

/// The keys.
pub fn keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    // `generate_extra_tensors` sets this key, and runs before `set_gguf_parameters`.
    if let Some(factor) = attention_factor(hparams)? {
        keys.set_early("rope.scaling.attn_factor", Value::F32(factor as f32));
    }
    keys.needed("context_length", hparams, CONTEXT)?;
    let length = original_length(hparams)? as u64;
    keys.set_derived("rope.scaling.original_context_length", "original_max_position_embeddings", length)?;
    keys.needed("embedding_length", hparams, &["hidden_size"])?;
    keys.needed("feed_forward_length", hparams, &["intermediate_size"])?;
    keys.set_derived("block_count", "num_hidden_layers", hparams.n_layers()?)?;
    keys.needed("attention.head_count", hparams, &["num_attention_heads"])?;
    keys.needed("attention.head_count_kv", hparams, &["num_key_value_heads"])?;
    keys.needed_number("attention.layer_norm_rms_epsilon", hparams, &["rms_norm_eps"])?;
    keys.set_derived("rope.dimension_count", "hidden_size", rotated(hparams)?)?;
    keys.rope_number("rope.freq_base", hparams.rope(), &["rope_theta"])?;
    keys.file_type_here();
    // llama.cpp tells Phi 4, which has no window, from Phi 3 by the 0.
    let window = hparams.get_u64("sliding_window")?.unwrap_or(0);
    keys.set_derived("attention.sliding_window", "sliding_window", window)
}

fn rotated(hparams: &Hparams) -> Result<u64, ArchError> {
    // `int(rot_pct * n_embd) // n_head`
    let heads = hparams.n_heads()?.max(1);
    Ok(hparams.rotated(hparams.need_u64(&["hidden_size"])?, Some(1.0))? / heads)
}

fn original_length(hparams: &Hparams) -> Result<f64, ArchError> {
    let key = "original_max_position_embeddings";
    let value = hparams.rope().get(key).ok_or_else(|| missing(key))?;
    value.as_f64().filter(|length| *length >= 1.0).ok_or_else(|| bad(key, value, "a length"))
}

/// Attention factor for longer contexts, if there are scaling factors.
fn attention_factor(hparams: &Hparams) -> Result<Option<f64>, ArchError> {
    let rope = hparams.rope();
    if rope.get("long_factor").is_none() {
        return Ok(None);
    }
    let length = original_length(hparams)?;
    // With L the trained length, C the context and s = C / L:
    //   longrope  sqrt(1 + ln s / ln L)
    //   yarn      0.1 ln s + 1
    // Phi 3 mini 128k: L = 4096, C = 131072, factor 1.19. 1 if the context is no longer than L.
    let scale = hparams.need_u64(CONTEXT)? as f64 / length;
    match rope.kind().unwrap_or_default().to_lowercase().as_str() {
        "su" | "longrope" | "yarn" if scale <= 1.0 => Ok(Some(1.0)),
        "su" | "longrope" => Ok(Some((1.0 + scale.ln() / length.ln()).sqrt())),
        "yarn" => Ok(Some(0.1 * scale.ln() + 1.0)),
        kind => Err(bad("rope_scaling.type", &kind.into(), "su, longrope or yarn")),
    }
}

/// The factors of `longrope` scaling, if there are any.
pub fn computed(hparams: &Hparams) -> Result<Vec<Computed>, ArchError> {
    if hparams.rope().get("long_factor").is_none() {
        return Ok(Vec::new());
    }
    long_factors(hparams, rotated(hparams)?)
}

/// The factors of `longrope` scaling, `dims / 2` of each kind.
pub fn long_factors(hparams: &Hparams, dims: u64) -> Result<Vec<Computed>, ArchError> {
    let factors = |key: &'static str| {
        let key_in_file = format!("rope_scaling.{key}");
        let value = hparams.rope().get(key).ok_or_else(|| missing(&key_in_file))?;
        let factors: Option<Vec<f32>> =
            value.as_array().and_then(|items| items.iter().map(|item| Some(item.as_f64()? as f32)).collect());
        // One divisor for each rotated pair; another number would be read out of bounds.
        factors
            .filter(|factors| factors.len() as u64 * 2 == dims)
            .ok_or_else(|| bad(&key_in_file, value, "a number for each rotated pair"))
    };
    Ok(vec![
        ("rope_factors_long.weight", factors("long_factor")?),
        ("rope_factors_short.weight", factors("short_factor")?),
    ])
}
