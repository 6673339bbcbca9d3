//! PLaMo 3.
//!
//! Config keys: those of every text model, the window and which layers have it.
//!
//! Transforms: norms are stored as their distance from one, or from a smaller number if they end a part. Q, K and V
//! stay one matrix, as do gate and up.
//!
//! Source: `Plamo3Model` in `conversion/plamo.py`.

use crate::prelude::*;

pub const PLAMO3: Arch = Arch {
    name: "plamo3",
    classes: &[Class::new("Plamo3ForCausalLM"), Class::new("PLaMo3ForCausalLM")],
    example: "pfnet/plamo-3-nict-2b-base",
    tensors: &[rules::NORM1P_ENDS, NORMS, LAYERS],
    keys,
    prepare: |hparams, _| yarn(hparams),
    vocab: Route::new("plamo3", |writer| writer.json_lines_with_template(&TOKENS)),
    from_file,
    ..DECODER
};

/// Marks of tool calls are read as text by the models.
const TOKENS: JsonLines =
    JsonLines { turn_end: "<|plamo:tag|>", normal: &["<|plamo:begin_", "<|plamo:end_", ":plamo|>"] };

/// 1 / 5, what norms after the mixer are stored as distances from.
const AFTER_MIXER: f32 = 0.2;
/// 1 / 5^1.5, the same of norms after the feed-forward part.
const AFTER_MLP: f32 = 0.089_442_72;

/// Norms before and after the parts of a layer.
pub const NORMS: &[TensorRule] = &[
    // w + 1 before a part, w + 1 / 5 after the mixer, w + 1 / 5^1.5 after the feed-forward part.
    TensorRule::norm1p(&["model.layers.layers.{bid}.pre_mixer_norm"], "blk.{bid}.attn_norm"),
    // Without an ending in the file, as llama.cpp reads them for this architecture.
    TensorRule::copy(&["model.layers.layers.{bid}.post_mixer_norm.weight"], "blk.{bid}.post_attention_norm")
        .bare("")
        .element(ElementMap::Add(AFTER_MIXER)),
    TensorRule::norm1p(&["model.layers.layers.{bid}.pre_mlp_norm"], "blk.{bid}.ffn_norm"),
    TensorRule::copy(&["model.layers.layers.{bid}.post_mlp_norm.weight"], "blk.{bid}.post_ffw_norm")
        .bare("")
        .element(ElementMap::Add(AFTER_MLP)),
];

const LAYERS: &[TensorRule] = &[
    TensorRule::copy(&["model.layers.layers.{bid}.mixer.qkv_proj"], "blk.{bid}.attn_qkv"),
    TensorRule::norm1p(&["model.layers.layers.{bid}.mixer.q_norm"], "blk.{bid}.attn_q_norm"),
    TensorRule::norm1p(&["model.layers.layers.{bid}.mixer.k_norm"], "blk.{bid}.attn_k_norm"),
    TensorRule::copy(&["model.layers.layers.{bid}.mixer.o_proj"], "blk.{bid}.attn_output"),
    // Gate and up in one matrix, under the name of up.
    TensorRule::copy(&["model.layers.layers.{bid}.mlp.gate_up_proj"], "blk.{bid}.ffn_up"),
    TensorRule::copy(&["model.layers.layers.{bid}.mlp.down_proj"], "blk.{bid}.ffn_down"),
];

/// Rotary parameters of the model's code, where flat keys ask for scaling.
fn yarn(hparams: Hparams) -> Result<Hparams, ArchError> {
    let factor = hparams.get_f64("rope_scaling_factor")?.unwrap_or(1.0);
    // A factor of 1 has no effect, and scaling that is stated goes before the flat keys.
    if factor == 1.0 || hparams.rope().kind().is_some() {
        return Ok(hparams);
    }
    let length = hparams.need_u64(&["initial_context_length"])?;
    Ok(hparams
        .with_rope("rope_type", "yarn".into())
        .with_rope("factor", factor.into())
        .with_rope("original_max_position_embeddings", length.into())
        .with_rope("beta_fast", 32.0.into())
        .with_rope("beta_slow", 1.0.into()))
}

fn keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    text_keys(hparams, keys)?;
    keys.vocab_size(hparams)?;
    let window = hparams.find(&["window_size", "sliding_window"]);
    if window.is_none() {
        return Ok(());
    }
    keys.count("attention.sliding_window", hparams, &["window_size", "sliding_window"])?;
    let name = "sliding_window_pattern";
    match hparams.get(name).ok_or_else(|| missing(name))? {
        Json::Array(flags) => {
            let flags = flags.iter().map(|flag| *flag == true).collect();
            keys.set_prefixed("attention.sliding_window_pattern", Value::Array(Array::Bool(flags)));
        }
        other => keys.set_prefixed("attention.sliding_window_pattern", Value::U32(to_u32(name, other)?)),
    }
    Ok(())
}

/// Windows, and the scaling under the flat keys that the model's code has for it.
fn from_file(file: &FileKeys<'_>, config: &mut Map<String, Json>) {
    set(config, "window_size", file.count("attention.sliding_window"));
    config.remove("sliding_window");
    let pattern = "attention.sliding_window_pattern";
    let flags = file.flags(pattern).map(Json::from);
    let pattern = flags.or_else(|| file.count(pattern).map(Json::from));
    config.extend(pattern.map(|pattern| ("sliding_window_pattern".to_owned(), pattern)));
    if let Some(factor) = file.number("rope.scaling.factor") {
        config.insert("rope_scaling_factor".into(), factor.into());
        set(config, "initial_context_length", file.count("rope.scaling.original_context_length"));
    }
    if let Some(base) = config.remove("rope_local_base_freq") {
        config.insert("rope_local_theta".into(), base);
    }
    for key in ["rope_scaling", "rope_parameters"] {
        config.remove(key);
    }
}
