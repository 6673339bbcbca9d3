//! Clef: Qwen 3.5 with a head that decides all fields of a schema jointly.
//!
//! Config keys: those of Qwen 3.5; layers and heads of `joint_head_config.json`.
//!
//! Transforms: layers of the head follow those that route; queries, keys and values of the head come apart; three numbers become
//! a vector of the values that the head multiplies by.
//!
//! Source: `ClefModel` in `conversion/clef.py` of llama.cpp build 11549, which is newer than the pinned one.

use gguf_checkpoint::{Marked, SideFile};
use gguf_layout::projector::parts::third;

use super::ON_QWEN35;
use crate::families::qwen::convert::{qwen3next, qwen35};
use crate::prelude::*;

pub const CLEF: Arch = Arch {
    name: "clef",
    written: None,
    classes: &[Class::wrapper("ClefModel")],
    // Its base model; the reference does not name a checkpoint.
    example: "Qwen/Qwen3.5-9B",
    tensors: &[
        qwen3next::LAYERS,
        qwen3next::FULL_ATTENTION,
        qwen35::LINEAR_ATTENTION,
        rules::GATED_MLP,
        LAYERS,
        ENDS,
    ],
    decoder_layers: Some(ALL_LAYERS),
    keys: |hparams, keys| {
        super::keys(hparams, keys, "clef")?;
        keys.needed("decision.routing_block_count", hparams, &["decision.routing_layers"])?;
        keys.needed("decision.block_count", hparams, &["decision.layers"])?;
        keys.needed("decision.head_count", hparams, &["decision.heads"])?;
        // The default of `torch.nn.LayerNorm`.
        keys.set_prefixed("attention.layer_norm_epsilon", Value::F32(1e-5));
        Ok(())
    },
    rename,
    prepare: |hparams, tensors| {
        count(&hparams, "heads")?;
        let layers = count(&hparams, "layers")?.saturating_add(count(&hparams, "routing_layers")?);
        (ON_QWEN35.prepare)(hparams.with(ALL_LAYERS, layers.into()), tensors)
    },
    // Its tensors show the sizes.
    harmless: &[
        "decision.dropout",
        "decision.feedforward",
        "decision.width",
        "rope_parameters.mrope_interleaved=true",
    ],
    vocab: Route::new("clef", |writer| super::vocab(writer, include_str!("../clef.jinja"))),
    export: Export::NotExportable("the numbers of the head are stored as the values that they result in"),
    ..ON_QWEN35
};

pub const MARKED: Marked = Marked {
    files: &[CONFIG],
    class: "ClefModel",
    config: Some(SideFile { file: CONFIG, prefix: "decision." }),
    weights: Some(SideFile { file: "joint_head.safetensors", prefix: "joint_head." }),
    ..Marked::PLAIN
};

const CONFIG: &str = "joint_head_config.json";
/// The number of layers of the head with those that route.
const ALL_LAYERS: &str = "decision.all_layers";

/// A number of the head's config.
fn count(hparams: &Hparams, key: &str) -> Result<u64, ArchError> {
    let value = hparams.get(&format!("decision.{key}")).ok_or_else(|| missing_in(CONFIG, key))?;
    value.as_u64().ok_or_else(|| bad_in(CONFIG, key, value, "an integer of 0 or more"))
}

fn routing_layers(hparams: &Hparams) -> u64 {
    count(hparams, "routing_layers").unwrap_or(0)
}

const ROUTES: Need = Need::If(|hparams, bid| bid < routing_layers(hparams));
const DECIDES: Need = Need::If(|hparams, bid| bid >= routing_layers(hparams));

/// Layers that route have only cross-attention and a feed-forward part.
const LAYERS: &[TensorRule] = &[
    TensorRule::copy(&["joint_head.layers.{bid}.norm1"], "dec.blk.{bid}.attn_norm").need(DECIDES),
    TensorRule::part(SELF_ATTENTION, "dec.blk.{bid}.attn_q", third::<0>).need(DECIDES),
    TensorRule::part(SELF_ATTENTION, "dec.blk.{bid}.attn_k", third::<1>).need(DECIDES),
    TensorRule::part(SELF_ATTENTION, "dec.blk.{bid}.attn_v", third::<2>).need(DECIDES),
    TensorRule::copy(&["joint_head.layers.{bid}.self_attn.out_proj"], "dec.blk.{bid}.attn_o").need(DECIDES),
    TensorRule::copy(
        &["joint_head.layers.{bid}.norm2", "joint_head.evidence_layers.{bid}.query_norm"],
        "dec.blk.{bid}.cross_attn_norm",
    ),
    TensorRule::copy(&["joint_head.evidence_layers.{bid}.memory_norm"], "dec.blk.{bid}.cross_attn_norm_kv")
        .need(ROUTES),
    TensorRule::part(CROSS_ATTENTION, "dec.blk.{bid}.cross_attn_q", third::<0>),
    TensorRule::part(CROSS_ATTENTION, "dec.blk.{bid}.cross_attn_k", third::<1>),
    TensorRule::part(CROSS_ATTENTION, "dec.blk.{bid}.cross_attn_v", third::<2>),
    TensorRule::copy(
        &[
            "joint_head.layers.{bid}.multihead_attn.out_proj",
            "joint_head.evidence_layers.{bid}.attention.out_proj",
        ],
        "dec.blk.{bid}.cross_attn_o",
    ),
    TensorRule::copy(
        &["joint_head.layers.{bid}.norm3", "joint_head.evidence_layers.{bid}.feedforward_norm"],
        "dec.blk.{bid}.ffn_norm",
    ),
    TensorRule::copy(
        &["joint_head.layers.{bid}.linear1", "joint_head.evidence_layers.{bid}.feedforward.0"],
        "dec.blk.{bid}.ffn_up",
    ),
    TensorRule::copy(
        &["joint_head.layers.{bid}.linear2", "joint_head.evidence_layers.{bid}.feedforward.3"],
        "dec.blk.{bid}.ffn_down",
    ),
];

const SELF_ATTENTION: &[&str] = &["joint_head.layers.{bid}.self_attn.in_proj"];
const CROSS_ATTENTION: &[&str] =
    &["joint_head.layers.{bid}.multihead_attn.in_proj", "joint_head.evidence_layers.{bid}.attention.in_proj"];

const ENDS: &[TensorRule] = &[
    TensorRule::copy(&["joint_head.type_embedding"], "token_types"),
    TensorRule::copy(&["joint_head.hidden_norm"], "decision.hidden_norm"),
    TensorRule::copy(&["joint_head.memory_projection"], "decision.proj_memory"),
    TensorRule::copy(&["joint_head.question_projection"], "decision.proj_question"),
    TensorRule::copy(&["joint_head.option_question_projection"], "decision.proj_option_question"),
    TensorRule::copy(&["joint_head.global_projection"], "decision.proj_global"),
    TensorRule::copy(&["joint_head.option_context_projection"], "decision.proj_option_context"),
    TensorRule::copy(&["joint_head.option_lexical_projection"], "decision.proj_option_lexical"),
    TensorRule::copy(&["joint_head.option_summary_norm"], "decision.option_summary_norm"),
    TensorRule::copy(&["joint_head.field_norm"], "decision.field_norm"),
    TensorRule::copy(&["joint_head.option_norm"], "decision.option_norm"),
    TensorRule::copy(
        &["joint_head.prior_logit_scale", "joint_head.joint_logit_scale", "joint_head.residual_gate"],
        "decision.scales",
    )
    .rows(RowRule::Scalars(scales))
    .bare(""),
    TensorRule::copy(&["joint_head.residual_scorer.0"], "decision.scorer"),
    TensorRule::copy(&["joint_head.residual_scorer.3"], "decision.scorer_out"),
];

/// Factors of both logits, `exp(min(x, ln 100))`, and of the residual, `1 / (1 + exp(-x))`.
fn scales(numbers: &[f32]) -> Vec<f32> {
    let Some((gate, logits)) = numbers.split_last() else { return Vec::new() };
    let limit = 100.0_f64.ln();
    // Unlike `f64::min`, this keeps a NaN.
    let limited = |x: f64| if x > limit { limit } else { x };
    let factors = logits.iter().map(|x| limited(f64::from(*x)).exp() as f32);
    factors.chain([(1.0 / (1.0 + (-f64::from(*gate)).exp())) as f32]).collect()
}

/// Numbers layers after those that route, and gives joint weights and biases of attention the usual endings.
fn rename(hparams: &Hparams, name: &str) -> Option<String> {
    let Some(head) = name.strip_prefix("joint_head.") else { return (ON_QWEN35.rename)(hparams, name) };
    let layer = head.strip_prefix("layers.").and_then(|rest| rest.split_once('.'));
    let moved = layer.and_then(|(layer, rest)| {
        let layer = layer.parse::<u64>().ok()?.checked_add(routing_layers(hparams))?;
        Some(format!("layers.{layer}.{rest}"))
    });
    let name = moved.unwrap_or_else(|| head.to_owned());
    Some(format!("joint_head.{}", name.replace(".in_proj_", ".in_proj.")))
}
