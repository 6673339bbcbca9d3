//! Muse Glimmer, the text part: windows in three of four layers, gated attention, bounded scores of tokens.
//!
//! Config keys: those of every text model, the bound and the factor of the scores, the window and which layers have it.
//!
//! Transforms: one is added to the weights of norms but for the last one; rotary halves of Q and K are interleaved. Queries
//! and keys are normed without weights, which llama.cpp does not know: the file has weights that are all one, for queries
//! all the factor of the config.
//!
//! Source: `MuseGlimmerModel` in `conversion/muse_glimmer.py`.

use crate::prelude::*;

pub const MUSE_GLIMMER: Arch = Arch {
    name: "muse-glimmer",
    classes: &[Class::new("MuseGlimmerForConditionalGeneration")],
    example: "meta-models/Muse-Glimmer-30B",
    configs: &[TEXT_CONFIG, CONFIG],
    tensors: &[rules::DECODER_ENDS, NORMS, QK_NORMS, rules::ATTENTION_PERMUTED, GATE, rules::GATED_MLP],
    keys,
    harmless: &["hidden_activation=silu"],
    built_in: &[BuiltIn::unless(
        "layer_rope_theta",
        "rotation in layers with a window alone",
        rotates_windows,
    )],
    vocab: ROUTE,
    export: Export::NotExportable("the query factor is not stored in a key"),
    ..DECODER
};

/// Byte-level BPE with `<|eot|>`.
const ROUTE: Route = Route::new("muse_glimmer", |writer| {
    writer.gpt2(&BpeStyle::GPT2)?;
    // After all other keys, if nothing set it before.
    if let Some(id) = writer.token_id("<|eot|>") {
        writer.set(token_keys::EOT_ID, id);
    }
    Ok(())
});

const NORMS: &[TensorRule] = &[
    // w = w + 1, as these norms compute with 1 + weight; the last norm, with the ends, stays.
    TensorRule::norm1p(&["model.layers.{bid}.input_layernorm"], "blk.{bid}.attn_norm"),
    TensorRule::norm1p(&["model.layers.{bid}.post_attention_layernorm"], "blk.{bid}.post_attention_norm"),
    TensorRule::norm1p(&["model.layers.{bid}.pre_feedforward_layernorm"], "blk.{bid}.ffn_norm"),
    TensorRule::norm1p(&["model.layers.{bid}.post_feedforward_layernorm"], "blk.{bid}.post_ffw_norm"),
];

/// Made when the projection of the queries is met.
const QK_NORMS: &[TensorRule] = &[
    // factor * norm(q), written as (head) weights that are all the factor.
    TensorRule::copy(&["model.layers.{bid}.self_attn.q_proj"], "blk.{bid}.attn_q_norm").rows(
        RowRule::Values(|hparams| {
            head_values(hparams, hparams.get_f64("qk_scale_factor")?.unwrap_or(1.0) as f32)
        }),
    ),
    // norm(k) alone: all weights are one.
    TensorRule::copy(&["model.layers.{bid}.self_attn.q_proj"], "blk.{bid}.attn_k_norm")
        .rows(RowRule::Values(|hparams| head_values(hparams, 1.0))),
];

const GATE: &[TensorRule] =
    &[TensorRule::copy(&["model.layers.{bid}.self_attn.gate_proj"], "blk.{bid}.attn_gate")];

/// An equal value for each element of a head.
fn head_values(hparams: &Hparams, value: f32) -> Result<Vec<f32>, ArchError> {
    let head = hparams.head_dim()?;
    if head > 1 << 16 {
        return Err(bad("head_dim", &head.into(), "at most 65536"));
    }
    Ok(vec![value; head as usize])
}

fn keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    text_keys(hparams, keys)?;
    keys.needed_number("final_logit_softcapping", hparams, &["final_logit_softcapping"])?;
    keys.needed_number("logit_scale", hparams, &["output_multiplier"])?;
    keys.needed("attention.sliding_window", hparams, &["sliding_window"])?;
    let windows = hparams.sliding_layers().ok_or_else(|| missing("layer_types"))?;
    keys.set_prefixed("attention.sliding_window_pattern", Value::Array(Array::Bool(windows)));
    Ok(())
}

/// Returns true if the layers without a window are those whose base is 0, which transformers does not rotate.
fn rotates_windows(hparams: &Hparams, bases: &Json) -> bool {
    let rotated = bases.as_array().into_iter().flatten().map(|base| base.as_f64() != Some(0.0));
    hparams.sliding_layers().is_some_and(|windows| rotated.eq(windows))
}

/// `MuseGlimmerTextConfig`.
const TEXT_CONFIG: ConfigClass = ConfigClass::new("muse_glimmer_text").adjusted(|map| {
    let n_layers = adjust::count(map, "num_hidden_layers").unwrap_or(0);
    // Every fourth layer uses full attention, counted from the last.
    adjust::layer_types(map, |layer| !n_layers.saturating_sub(1 + layer).is_multiple_of(4))
});

/// `MuseGlimmerConfig`: text and images.
const CONFIG: ConfigClass =
    ConfigClass::new("muse_glimmer").adjusted(|map| adjust::text_config(map, &TEXT_CONFIG));
