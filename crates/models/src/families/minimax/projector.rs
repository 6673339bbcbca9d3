//! The tower of MiniMax M3.
//!
//! Config keys: those of every tower; how many patches of a side are merged.
//!
//! Transforms: the kernel of patches, which sees two frames, becomes two tensors. Within each head of queries and keys the
//! parts that are rotated by time, height and width are put together.
//!
//! Source: `MiniMaxM3VisionModel` in `conversion/minimax.py`.

use crate::families::siglip::projector as siglip;
use gguf_layout::projector::prelude::*;

pub const MINIMAXM3: Projector = Projector {
    name: "minimaxm3",
    classes: &["MiniMaxM3SparseForConditionalGeneration", "MiniMaxM3VLForConditionalGeneration"],
    example: "MiniMaxAI/MiniMax-M3",
    vision: Some(Tower { classes: &[ConfigClass::new("minimax_m3_vl_vision")], ..VISION }),
    tensors: &[PATCHES, LAYERS, PROJECTION],
    owns: |_, name| {
        let starts = ["vision_tower.", "multi_modal_projector.", "patch_merge_mlp."];
        let name = name.strip_prefix("model.").unwrap_or(name);
        starts.iter().any(|start| name.starts_with(start))
    },
    rename: siglip::rename,
    keys: |towers, keys| {
        tower_keys(towers, keys)?;
        let vision = towers.vision()?;
        parts::kind(keys, "minimax_m3");
        keys.set_prefixed("use_gelu", Value::Bool(true));
        parts::epsilon(keys, "layer_norm_eps", vision, 1e-5)?;
        let merged =
            vision.get("img_token_compression_config").and_then(|config| config.get("spatial_merge_size"));
        let merged = merged.map_or(Ok(2), |size| to_u32("spatial_merge_size", size))?;
        keys.set_prefixed("vision.spatial_merge_size", Value::U32(merged));
        Ok(())
    },
    ..BASE
};

const PATCHES: &[TensorRule] = &[
    // (out, in, 2, h, w) as two kernels (out, in, h, w), one for each frame.
    TensorRule::copy(&["vision_model.embeddings.patch_embedding.weight"], "v.patch_embd")
        .bare(".weight")
        .rows(RowRule::Frame(0)),
    TensorRule::copy(&["vision_model.embeddings.patch_embedding.weight"], "v.patch_embd")
        .bare(".weight.1")
        .rows(RowRule::Frame(1)),
    // The checkpoint's own spelling.
    TensorRule::copy(&["vision_model.pre_layrnorm"], "v.pre_ln"),
];

const LAYERS: &[TensorRule] = &[
    TensorRule::copy(&["vision_model.encoder.layers.{bid}.layer_norm1"], "v.blk.{bid}.ln1"),
    TensorRule::copy(&["vision_model.encoder.layers.{bid}.layer_norm2"], "v.blk.{bid}.ln2"),
    TensorRule::part(&["vision_model.encoder.layers.{bid}.self_attn.q_proj"], "v.blk.{bid}.attn_q", by_axis),
    TensorRule::part(&["vision_model.encoder.layers.{bid}.self_attn.k_proj"], "v.blk.{bid}.attn_k", by_axis),
    TensorRule::copy(&["vision_model.encoder.layers.{bid}.self_attn.v_proj"], "v.blk.{bid}.attn_v"),
    TensorRule::copy(&["vision_model.encoder.layers.{bid}.self_attn.out_proj"], "v.blk.{bid}.attn_out"),
    TensorRule::copy(&["vision_model.encoder.layers.{bid}.mlp.fc1"], "v.blk.{bid}.ffn_up"),
    TensorRule::copy(&["vision_model.encoder.layers.{bid}.mlp.fc2"], "v.blk.{bid}.ffn_down"),
];

const PROJECTION: &[TensorRule] = &[
    TensorRule::copy(&["multi_modal_projector.linear_1"], "mm.1"),
    TensorRule::copy(&["multi_modal_projector.linear_2"], "mm.2"),
    TensorRule::copy(&["patch_merge_mlp.linear_1"], "mm.merger.fc1"),
    TensorRule::copy(&["patch_merge_mlp.linear_2"], "mm.merger.fc2"),
];

fn by_axis(hparams: &Hparams, shape: &Shape) -> Result<RowMap, ArchError> {
    let heads = hparams.need_u64(&["num_attention_heads"])?;
    // Rows of a matrix, elements of a bias.
    let n_rows = if shape.n_dims() > 1 { shape.dim(1) } else { shape.dim(0) };
    let head = n_rows.checked_div(heads).filter(|head| *head > 0 && n_rows.is_multiple_of(*head));
    let head = head.ok_or_else(|| bad("num_attention_heads", &heads.into(), "a divisor of the rows"))?;
    // A third of each half rotates by one axis; 80 rows have halves of three times 13, plus two rows.
    let rows = (2 * (head / 2) / 3) / 2;
    Ok(RowMap::HalvesByAxis { head, rows })
}
