//! Granite Switch: a dense Granite with built-in adapters; a token of the text selects one.
//!
//! Config keys: those of Granite's mixtures; number and rank of the adapters, the tokens that select them and
//! those that replace them, and the sharpness of the choice.
//!
//! Transforms: rotary halves of Q and K are interleaved, in the fused matrix and in the adapters. Adapters
//! are stacked after one of zeros, which stands for no adapter. The last layer is the switch, which has no
//! weights.
//!
//! Source: `GraniteSwitchModel` in `conversion/granite.py`.

use crate::families::granite::convert::granite::GRANITE;
use crate::families::granite::convert::granitemoe;
use crate::families::llama::convert::vocab;
use crate::prelude::*;

pub const GRANITE_SWITCH: Arch = Arch {
    name: "graniteswitch",
    classes: &[Class::new("GraniteSwitchForCausalLM")],
    example: "ibm-granite/granite-switch-4.1-3b-preview",
    configs: &[],
    needs: &["hidden_size", "num_hidden_layers", "num_attention_heads", "num_adapters", "max_lora_rank"],
    tensors: &[ENDS, rules::PRE_NORMS, ATTENTION, FEED_FORWARD],
    keys,
    drops: |_, name| {
        let is_switch = name.starts_with("model.switch.") || name.starts_with("switch.");
        let end = name.rsplit('.').next().unwrap_or_default();
        match end {
            _ if is_switch => Some("the switch follows from the config"),
            "adapter_token_ids" | "control_to_substitute_lut" => Some("the switch follows from the config"),
            // The table has no rule for an output, because the embedding is the output.
            _ if name == "lm_head.weight" => Some(drops::TIED),
            _ => None,
        }
    },
    prepare: |hparams, _| {
        let n_layers = hparams.n_layers()?;
        // The config counts the switch as a layer, which has no tensors.
        let own = n_layers.checked_sub(1).filter(|own| *own > 0);
        let own = own.ok_or_else(|| {
            bad("num_hidden_layers", &n_layers.into(), "at least one layer besides the switch")
        })?;
        Ok(hparams.with("num_hidden_layers", own.into()))
    },
    vocab: vocab::ROUTE,
    export: Export::NotExportable("it contains adapters"),
    ..GRANITE
};

const ENDS: &[TensorRule] = &[
    TensorRule::copy(&["model.embed_tokens", "embed_tokens"], "token_embd"),
    TensorRule::copy(&["model.norm", "norm"], "output_norm"),
];

const ATTENTION: &[TensorRule] = &[
    TensorRule::part(
        &["model.layers.{bid}.self_attn.qkv_proj.base_layer"],
        "blk.{bid}.attn_qkv",
        |hparams, _| {
            // Rows of queries, keys, values: heads of the first two are permuted.
            let heads = hparams.n_heads()?.saturating_add(hparams.n_kv_heads()?);
            Ok(RowMap::PermuteHeads { heads, rows: head_rows(hparams)? })
        },
    ),
    // Q, K and V are one matrix, but each has its own A (rank, in) and B (out, rank).
    adapter(&["model.layers.{bid}.self_attn.qkv_proj.lora_A_slices.0"], "blk.{bid}.attn_q", ".lora_a", plain),
    adapter(&["model.layers.{bid}.self_attn.qkv_proj.lora_A_slices.1"], "blk.{bid}.attn_k", ".lora_a", plain),
    adapter(&["model.layers.{bid}.self_attn.qkv_proj.lora_A_slices.2"], "blk.{bid}.attn_v", ".lora_a", plain),
    // Rows of B are those of the matrix: heads of Q and K are permuted as there. Rows of A are ranks and stay.
    adapter(
        &["model.layers.{bid}.self_attn.qkv_proj.lora_B_slices.0"],
        "blk.{bid}.attn_q",
        ".lora_b",
        by_head,
    ),
    adapter(
        &["model.layers.{bid}.self_attn.qkv_proj.lora_B_slices.1"],
        "blk.{bid}.attn_k",
        ".lora_b",
        by_head,
    ),
    adapter(&["model.layers.{bid}.self_attn.qkv_proj.lora_B_slices.2"], "blk.{bid}.attn_v", ".lora_b", plain),
    TensorRule::copy(&["model.layers.{bid}.self_attn.o_proj.base_layer"], "blk.{bid}.attn_output"),
    adapter(&["model.layers.{bid}.self_attn.o_proj.lora_A"], "blk.{bid}.attn_output", ".lora_a", plain),
    adapter(&["model.layers.{bid}.self_attn.o_proj.lora_B"], "blk.{bid}.attn_output", ".lora_b", plain),
];

const FEED_FORWARD: &[TensorRule] = &[
    // (2 f, in): gate above up.
    TensorRule::part(
        &["model.layers.{bid}.shared_mlp.input_linear.base_layer"],
        "blk.{bid}.ffn_gate",
        rules::first_half,
    ),
    TensorRule::part(
        &["model.layers.{bid}.shared_mlp.input_linear.base_layer"],
        "blk.{bid}.ffn_up",
        rules::second_half,
    ),
    adapter(
        &["model.layers.{bid}.shared_mlp.input_linear.lora_A_slices.0"],
        "blk.{bid}.ffn_gate",
        ".lora_a",
        plain,
    ),
    adapter(
        &["model.layers.{bid}.shared_mlp.input_linear.lora_A_slices.1"],
        "blk.{bid}.ffn_up",
        ".lora_a",
        plain,
    ),
    adapter(
        &["model.layers.{bid}.shared_mlp.input_linear.lora_B_slices.0"],
        "blk.{bid}.ffn_gate",
        ".lora_b",
        plain,
    ),
    adapter(
        &["model.layers.{bid}.shared_mlp.input_linear.lora_B_slices.1"],
        "blk.{bid}.ffn_up",
        ".lora_b",
        plain,
    ),
    TensorRule::copy(&["model.layers.{bid}.shared_mlp.output_linear.base_layer"], "blk.{bid}.ffn_down"),
    adapter(&["model.layers.{bid}.shared_mlp.output_linear.lora_A"], "blk.{bid}.ffn_down", ".lora_a", plain),
    adapter(&["model.layers.{bid}.shared_mlp.output_linear.lora_B"], "blk.{bid}.ffn_down", ".lora_b", plain),
];

/// (adapters, 1, rows, columns) of the checkpoint as (1 + adapters, rows, columns), the first of zeros.
const fn adapter(
    hf: &'static [&'static str],
    gguf: &'static str,
    ending: &'static str,
    part: rules::Part,
) -> TensorRule {
    TensorRule::part(hf, gguf, part).bare(ending).float(FloatType::OfFile)
}

/// Rows as they are.
fn plain(_: &Hparams, shape: &Shape) -> Result<RowMap, ArchError> {
    // One adapter has as many rows as the one of zeros before it.
    Ok(RowMap::AfterZeros { zeros: shape.dim(1), head: 0 })
}

/// Rows of heads whose rotary halves are interleaved.
fn by_head(hparams: &Hparams, shape: &Shape) -> Result<RowMap, ArchError> {
    Ok(RowMap::AfterZeros { zeros: shape.dim(1), head: head_rows(hparams)? })
}

/// Rows of a head.
fn head_rows(hparams: &Hparams) -> Result<u64, ArchError> {
    match hparams.get_u64("projection_head_dim")?.filter(|rows| *rows > 0) {
        Some(rows) => Ok(rows),
        None => hparams.head_dim(),
    }
}

fn keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    granitemoe::keys(hparams, keys)?;
    // Configs have a number of experts that nothing chooses.
    if hparams.n_experts()? == 0 {
        keys.set_prefixed("expert_used_count", Value::U32(0));
    }
    keys.needed("adapters.count", hparams, &["num_adapters"])?;
    keys.needed("adapters.lora_rank", hparams, &["max_lora_rank"])?;
    for (key, name) in [
        ("adapters.token_ids_activate", "adapter_token_ids"),
        ("adapters.token_ids_substitute", "adapter_substitute_token_ids"),
    ] {
        let ids = hparams.get(name).ok_or_else(|| missing(name))?;
        let ids = ids.as_array().ok_or_else(|| bad(name, ids, "a list of ids"))?;
        let ids = ids.iter().map(|id| to_i32(name, id)).collect::<Result<Vec<i32>, _>>()?;
        keys.set_prefixed(key, Value::Array(Array::I32(ids)));
    }
    let gain = hparams.get_f64("control_token_gain")?.unwrap_or(15.0);
    keys.set_prefixed("adapters.router_gain", Value::F32(gain as f32));
    Ok(())
}
