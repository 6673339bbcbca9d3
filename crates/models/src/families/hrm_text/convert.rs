//! HRM Text: two stacks of layers that run in cycles.
//!
//! Config keys: those of every text model with a layer for each run, the rotated dimensions, the scale of the embedding, how
//! often the stacks run.
//!
//! Transforms: gate, queries, keys and values are one matrix, as are gate and up of the feed-forward part; both are taken
//! apart. The layers of the second stack, H, follow those of the first, L.
//!
//! Source: `HrmTextModel` in `conversion/hrm_text.py`.

use crate::prelude::*;

pub const HRM_TEXT: Arch = Arch {
    name: "hrm_text",
    classes: &[Class::new("HrmTextForCausalLM")],
    example: "sapientinc/HRM-Text-1B",
    configs: &[HRM_TEXT_CONFIG],
    tensors: &[ENDS, LAYERS],
    keys,
    rename,
    export_name,
    prepare,
    export: Export::NotExportable("its layer count is the number of layer groups"),
    ..DECODER
};

const ENDS: &[TensorRule] = &[
    TensorRule::copy(&["model.embed_tokens"], "token_embd"),
    TensorRule::copy(&["lm_head"], "output").need(Need::Optional),
    TensorRule::copy(&["model.z_L_init"], "hrm.z_l_init").bare(""),
];

const GQKV: &str = "model.layers.{bid}.attn.gqkv_proj";
const GATE_UP: &str = "model.layers.{bid}.mlp.gate_up_proj";

const LAYERS: &[TensorRule] = &[
    // (4 * heads * head_dim, in): gate, queries, keys, values. Equal parts: each head has its own keys.
    TensorRule::part(&[GQKV], "blk.{bid}.attn_gate", |_, shape| quarter(shape, 0)),
    TensorRule::part(&[GQKV], "blk.{bid}.attn_q", |_, shape| quarter(shape, 1)),
    TensorRule::part(&[GQKV], "blk.{bid}.attn_k", |_, shape| quarter(shape, 2)),
    TensorRule::part(&[GQKV], "blk.{bid}.attn_v", |_, shape| quarter(shape, 3)),
    TensorRule::copy(&["model.layers.{bid}.attn.o_proj"], "blk.{bid}.attn_output"),
    // (2 f, in): gate above up.
    TensorRule::part(&[GATE_UP], "blk.{bid}.ffn_gate", rules::first_half),
    TensorRule::part(&[GATE_UP], "blk.{bid}.ffn_up", rules::second_half),
    TensorRule::copy(&["model.layers.{bid}.mlp.down_proj"], "blk.{bid}.ffn_down"),
];

fn quarter(shape: &Shape, part: u64) -> Result<RowMap, ArchError> {
    let rows = shape.n_rows() / 4;
    Ok(RowMap::Groups { group: rows * 4, start: rows * part, rows, n_head: 0 })
}

/// Layers of a stack: newer files count all runs under the usual key, and these under their own.
const PER_STACK: &str = "num_layers_per_stack";

/// Counts the layers that a checkpoint has: of both stacks.
fn prepare(hparams: Hparams, _: &[SourceTensor]) -> Result<Hparams, ArchError> {
    let stack = match hparams.get_u64(PER_STACK)?.filter(|stack| *stack > 0) {
        Some(stack) => stack,
        None => hparams.n_layers()?,
    };
    Ok(hparams.with(PER_STACK, stack.into()).with("num_hidden_layers", stack.saturating_mul(2).into()))
}

fn rename(hparams: &Hparams, name: &str) -> Option<String> {
    let (stack, rest) = name.strip_prefix("model.")?.split_once("_module.layers.")?;
    let (layer, rest) = rest.split_once('.')?;
    let first = match stack {
        "L" => 0,
        // Layers of H are numbered after those of L: layer i of H is stack + i.
        "H" => hparams.get(PER_STACK)?.as_u64()?,
        _ => return None,
    };
    Some(format!("model.layers.{}.{rest}", first.checked_add(layer.parse().ok()?)?))
}

fn export_name(hparams: &Hparams, _: Class, name: &str) -> Option<String> {
    let (layer, rest) = name.strip_prefix("model.layers.")?.split_once('.')?;
    let (layer, stack) = (layer.parse::<u64>().ok()?, hparams.get(PER_STACK)?.as_u64()?);
    Some(match layer.checked_sub(stack) {
        None => format!("model.L_module.layers.{layer}.{rest}"),
        Some(layer) => format!("model.H_module.layers.{layer}.{rest}"),
    })
}

fn keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    let stack = hparams.need_u64(&[PER_STACK])?;
    let (high, low) = (hparams.need_u64(&["H_cycles"])?, hparams.need_u64(&["L_cycles"])?);
    // A place in the cache for each run of each layer.
    // For each cycle of H, L runs L_cycles times and H once: 2 * (3 + 1) runs by the config's defaults.
    let runs = stack.saturating_mul(high).saturating_mul(low.saturating_add(1));
    text_keys(&hparams.with("num_hidden_layers", runs.into()), keys)?;
    keys.set_derived("rope.dimension_count", "head_dim", hparams.head_dim()?)?;
    keys.needed_number("embedding_scale", hparams, &["embedding_scale"])?;
    keys.needed("hrm.layers_per_stack", hparams, &[PER_STACK])?;
    keys.needed("hrm.h_cycles", hparams, &["H_cycles"])?;
    keys.needed("hrm.l_cycles", hparams, &["L_cycles"])?;
    keys.flag("hrm.prefix_lm", hparams, "prefix_lm");
    Ok(())
}

/// `HrmTextConfig`.
const HRM_TEXT_CONFIG: ConfigClass = ConfigClass::new("hrm_text").adjusted(|map| {
    if map.get("embedding_scale").is_none_or(Json::is_null) {
        // The scale undoes the deviation that embeddings start with: 1 / 0.02 = 50.
        let range = map.get("initializer_range").and_then(Json::as_f64).unwrap_or(0.02);
        map.insert("embedding_scale".into(), (1.0 / range).into());
    }
    Ok(())
});
