//! Command R7B and Command A.
//!
//! Config keys: those of every text model, `logit_scale`, `sliding_window`, `vocab_size`,
//! `rotary_pct` (the reference stops if the file does not say it; then all dimensions are
//! rotated, as transformers does).
//!
//! Transforms: biases, which are zeros, are left out.
//!
//! Source: `Cohere2Model` in `conversion/command_r.py`.

use crate::prelude::*;

pub const COHERE2: Arch = Arch {
    name: "cohere2",
    classes: &[Class::new("Cohere2ForCausalLM")],
    example: "CohereLabs/c4ai-command-r7b-12-2024",
    configs: &[COHERE2_CONFIG],
    tensors: &[rules::DECODER_ENDS, NORMS, rules::ATTENTION, rules::GATED_MLP],
    keys,
    drops: |_, name| name.ends_with(".bias").then_some(drops::NO_BIAS),
    window_pattern: every(4),
    harmless: &["layer_types", "sliding_window_pattern=4"],
    ..DECODER
};

/// One norm for attention and feed-forward part.
pub const NORMS: &[TensorRule] =
    &[TensorRule::copy(&["model.layers.{bid}.input_layernorm"], "blk.{bid}.attn_norm")];

/// `Cohere2Config`.
pub const COHERE2_CONFIG: ConfigClass = ConfigClass::new("cohere2").adjusted(|map| {
    let width = adjust::count(map, "hidden_size").unwrap_or(0);
    let heads = adjust::count(map, "num_attention_heads").unwrap_or(0);
    // `Cohere2Config.__post_init__` computes it always, whatever the file has.
    map.insert("head_dim".into(), width.checked_div(heads).into());
    // Every fourth layer uses full attention, and is not rotated; llama.cpp knows the latter.
    adjust::layer_pattern(map, 4)
});

fn keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    text_keys(hparams, keys)?;
    keys.needed_number("logit_scale", hparams, &["logit_scale"])?;
    // The window of the sliding layers; that every fourth is full is the graph's.
    keys.needed("attention.sliding_window", hparams, &["sliding_window"])?;
    keys.vocab_size(hparams)?;
    // `rotary_pct` is in the configs on the Hub, not in those that transformers 5 saves.
    let rotated = hparams.get_f64("rotary_pct")?.unwrap_or(1.0) * hparams.head_share()? as f64;
    keys.set_derived("rope.dimension_count", "rotary_pct", rotated as u64)?;
    keys.unscaled_by_default();
    Ok(())
}
