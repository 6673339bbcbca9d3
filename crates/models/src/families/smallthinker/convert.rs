//! SmallThinker: mixtures of experts whose router precedes attention.
//!
//! Config keys: those of every text model, experts under their own names, the sliding window if any layer has
//! it.
//!
//! Transforms: experts become one tensor.
//!
//! Source: `SmallThinkerModel` in `conversion/smallthinker.py`.

use crate::prelude::*;
use gguf_layout::built_in::context_length;

pub const SMALLTHINKER: Arch = Arch {
    name: "smallthinker",
    classes: &[Class::new("SmallThinkerForCausalLM")],
    example: "PowerInfer/SmallThinker-4BA0.6B-Instruct",
    needs: &[
        "hidden_size",
        "num_hidden_layers",
        "num_attention_heads",
        "moe_num_primary_experts",
        "vocab_size",
    ],
    tensors: &[rules::DECODER_ENDS, rules::PRE_NORMS, rules::ATTENTION, EXPERTS],
    keys,
    // The code that counts experts reads the usual name.
    prepare: |hparams, _| {
        let experts = hparams.get("moe_num_primary_experts").cloned();
        Ok(experts.map(|experts| hparams.with("num_experts", experts)).unwrap_or(hparams))
    },
    from_file,
    built_in: &[
        NORMALIZES_EXPERTS,
        BuiltIn::unless("rope_layout", "no rotation in layers without a window", |hparams, rotates| {
            if has_window(hparams) {
                // The window pattern is written as it is; the graph leaves every fourth layer unrotated.
                rotates.as_array().is_none_or(|flags| {
                    flags.iter().enumerate().all(|(layer, flag)| (*flag != 0) == (layer % 4 != 0))
                })
            } else {
                rotates.as_array().is_none_or(|flags| flags.iter().all(|flag| *flag != 0))
            }
        }),
        BuiltIn::unless("sliding_window_size", "4096", |hparams, window| {
            let window = window.as_u64().unwrap_or(0);
            !has_window(hparams) || window == 4096 || window.min(4096) >= context_length(hparams)
        }),
    ],
    window_pattern: Some(WindowPattern {
        period: 4,
        full_first: true,
        layers: |hparams| {
            let flags = hparams.get("sliding_window_layout")?.as_array()?;
            Some(flags.iter().map(|flag| *flag != 0).collect())
        },
    }),
    ..DECODER
};

const EXPERTS: &[TensorRule] = &[
    TensorRule::copy(&["model.layers.{bid}.block_sparse_moe.primary_router"], "blk.{bid}.ffn_gate_inp"),
    TensorRule::stack(&["model.layers.{bid}.block_sparse_moe.experts.{xid}.down"], "blk.{bid}.ffn_down_exps"),
    TensorRule::stack(&["model.layers.{bid}.block_sparse_moe.experts.{xid}.gate"], "blk.{bid}.ffn_gate_exps"),
    TensorRule::stack(&["model.layers.{bid}.block_sparse_moe.experts.{xid}.up"], "blk.{bid}.ffn_up_exps"),
];

/// True if some layers attend to a window only.
fn has_window(hparams: &Hparams) -> bool {
    let layout = hparams.get("sliding_window_layout").and_then(Json::as_array);
    layout.is_some_and(|flags| flags.iter().any(|flag| *flag != 0))
}

fn keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    // `prepare` lent the usual name; keys are taken from the model's own.
    text_keys(&hparams.without("num_experts"), keys)?;
    keys.count("expert_count", hparams, &["moe_num_primary_experts"])?;
    keys.count("expert_used_count", hparams, &["moe_num_active_primary_experts"])?;
    keys.count("expert_feed_forward_length", hparams, &["moe_ffn_hidden_size"])?;
    // No layer is dense: the length is that of an expert.
    keys.count("feed_forward_length", hparams, &["moe_ffn_hidden_size"])?;
    keys.derived_from("expert_gating_func", &["moe_primary_router_apply_softmax"]);
    let softmax = hparams.is_true("moe_primary_router_apply_softmax");
    // 1 is softmax, 2 is sigmoid.
    keys.set_prefixed("expert_gating_func", Value::U32(if softmax { 1 } else { 2 }));
    if has_window(hparams) && hparams.get_u64("sliding_window_size")?.is_some_and(|window| window > 0) {
        keys.count("attention.sliding_window", hparams, &["sliding_window_size"])?;
    }
    Ok(())
}

fn from_file(file: &FileKeys<'_>, config: &mut Map<String, Json>) {
    for (name, key) in [
        ("moe_num_primary_experts", "expert_count"),
        ("moe_num_active_primary_experts", "expert_used_count"),
        ("moe_ffn_hidden_size", "expert_feed_forward_length"),
        ("sliding_window_size", "attention.sliding_window"),
    ] {
        set(config, name, file.count(key));
    }
    let softmax = file.count("expert_gating_func") == Some(1);
    config.insert("moe_primary_router_apply_softmax".into(), softmax.into());
    // No key has these: in llama.cpp every fourth layer from the first on uses full attention and is not rotated, where there
    // is a window; else all use full attention, rotated.
    let has_window = file.has("attention.sliding_window");
    let layout =
        |flag: fn(usize) -> bool| (0..file.n_layers()).map(|layer| u64::from(flag(layer))).collect::<Json>();
    let (slides, rotates) = if has_window {
        (layout(|layer| layer % 4 != 0), layout(|layer| layer % 4 != 0))
    } else {
        (layout(|_| false), layout(|_| true))
    };
    config.extend([("sliding_window_layout".into(), slides), ("rope_layout".into(), rotates)]);
    for key in ["num_local_experts", "num_experts_per_tok", "intermediate_size", "sliding_window"] {
        config.remove(key);
    }
}
