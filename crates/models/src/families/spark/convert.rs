//! Spark X2.5.
//!
//! Config keys: those of every text model, the window and which layers have it, the rotated dimensions of both kinds of
//! layers.
//!
//! Transforms: Q, K and V stay one matrix. Attention has a gate for each head.
//!
//! Source: `Spark2_5Model` in `conversion/spark2_5.py`.

use crate::prelude::*;

pub const SPARK2_5: Arch = Arch {
    name: "spark2_5",
    classes: &[Class::new("Spark2_5ForCausalLM")],
    example: "XHToken/Spark-X2.5-1.7B",
    tensors: &[rules::DECODER_ENDS, rules::PRE_NORMS, ATTENTION, rules::GATED_MLP],
    keys,
    from_file: |file, config| {
        let slides = file.flags("attention.sliding_window_pattern").unwrap_or_default();
        config.insert("layer_types".into(), kinds(&slides, ["sliding_attention", "full_attention"]));
        // Value that `keys` requires.
        config.insert("gate_attn_act_mode".into(), "sigmoid".into());
        config.insert("headwise_attn_output_gate".into(), true.into());
        config.insert("hidden_act".into(), "gelu".into());
        config.entry("partial_rotary_factor").or_insert(json!(1.0));
        file.rope_by_kind(config);
    },
    ..DECODER
};

const ATTENTION: &[TensorRule] = &[
    TensorRule::copy(&["model.layers.{bid}.self_attn.q_k_v_proj"], "blk.{bid}.attn_qkv"),
    // A number for each head: its output times sigmoid(g x).
    TensorRule::copy(&["model.layers.{bid}.self_attn.g_proj"], "blk.{bid}.attn_gate"),
    TensorRule::copy(&["model.layers.{bid}.self_attn.o_proj"], "blk.{bid}.attn_output"),
];

fn keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    text_keys(hparams, keys)?;
    // llama.cpp's graph is only for these values.
    for (name, only) in [
        ("gate_attn_act_mode", json!("sigmoid")),
        ("headwise_attn_output_gate", json!(true)),
        ("hidden_act", json!("gelu")),
    ] {
        keys.derived_from("attention.sliding_window", &[name]);
        let found = hparams.get(name).ok_or_else(|| missing(name))?;
        if *found != only {
            return Err(bad(name, found, "what the model is published with"));
        }
    }
    keys.vocab_size(hparams)?;
    keys.needed("attention.sliding_window", hparams, &["sliding_window"])?;
    let slides = hparams.sliding_layers().ok_or_else(|| missing("layer_types"))?;
    keys.set_prefixed("attention.sliding_window_pattern", Value::Array(Array::Bool(slides)));
    let dim = hparams.need_u64(&["head_dim"])?;
    keys.set_derived("rope.dimension_count", "head_dim", hparams.rotated(dim, None)?)?;
    let sliding = hparams.rope_sliding().ok_or_else(|| missing("rope_parameters.sliding_attention"))?;
    let share = sliding.f64_or("partial_rotary_factor", 1.0)?;
    keys.set_derived("rope.dimension_count_swa", "head_dim", (dim as f64 * share) as u64)
}
