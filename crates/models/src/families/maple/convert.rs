//! Maple: a mixture of experts with windows.
//!
//! Config keys: those of every text model, the rotated dimensions, the window and which layers have it, the length of the
//! experts; the limit of their activations, which is in the model's code.
//!
//! Transforms: experts become one tensor.
//!
//! Source: `MapleModel` in `conversion/maple.py`.

use crate::prelude::*;

pub const MAPLE: Arch = Arch {
    name: "maple",
    classes: &[Class::new("MapleForCausalLM")],
    example: "deepgrove/maple-preview",
    needs: &["hidden_size", "num_hidden_layers", "num_attention_heads", "num_experts", "vocab_size"],
    tensors: &[rules::DECODER_ENDS, rules::PRE_NORMS, rules::ATTENTION, rules::QK_NORMS, rules::QWEN_EXPERTS],
    keys,
    from_file: |file, config| {
        let slides = file.flags("attention.sliding_window_pattern").unwrap_or_default();
        config.insert("layer_types".into(), kinds(&slides, ["sliding_attention", "full_attention"]));
        // Values that `keys` requires.
        for (name, only) in [("norm_topk_prob", json!(true)), ("nope_on_global_attention", json!(true))] {
            config.insert(name.into(), only);
        }
        config.extend([("hidden_act".into(), json!("silu")), ("num_shared_experts".into(), json!(0))]);
        set(config, "num_experts", file.count("expert_count"));
        set(config, "moe_intermediate_size", file.count("expert_feed_forward_length"));
        config.remove("num_local_experts");
    },
    ..DECODER
};

/// Limit of gate and up.
const LIMIT: f32 = 7.0;

fn keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    text_keys(hparams, keys)?;
    // llama.cpp's graph is only for these values.
    for (name, only, default) in [
        ("hidden_act", json!("silu"), json!("silu")),
        ("num_shared_experts", json!(0), json!(0)),
        ("norm_topk_prob", json!(true), json!(true)),
        // Absent means false, and is refused: layers that use full attention must not be rotated.
        ("nope_on_global_attention", json!(true), json!(false)),
    ] {
        let found = hparams.get(name).unwrap_or(&default);
        keys.derived_from("nope", &[name]);
        if *found != only {
            return Err(bad(name, found, "what the model is published with"));
        }
    }
    keys.vocab_size(hparams)?;
    let rotated = hparams.rotated(hparams.head_dim()?, Some(1.0))?;
    keys.set_derived("rope.dimension_count", "head_dim", rotated)?;
    keys.needed("attention.sliding_window", hparams, &["sliding_window"])?;
    let slides = hparams.sliding_layers().ok_or_else(|| missing("layer_types"))?;
    keys.set_prefixed("attention.sliding_window_pattern", Value::Array(Array::Bool(slides)));
    keys.needed("expert_feed_forward_length", hparams, &["moe_intermediate_size"])?;
    // The key has a limit for each layer; all are the same here.
    let n_layers = hparams.n_layers()?.min(10_000) as usize;
    keys.set_prefixed("swiglu_clamp_exp", Value::Array(Array::F32(vec![LIMIT; n_layers])));
    Ok(())
}
