//! Tower of Muse Glimmer, and three matrices.
//!
//! Config keys: those of every tower; the grid of the learned positions; the number of patches of a side that are merged.
//!
//! Transforms: rotary halves of queries and keys are interleaved. A patch spans two frames; their kernels are summed, because
//! both frames of an image are equal.
//!
//! Source: `MuseGlimmerVisionModel` in `conversion/muse_glimmer.py`.

use gguf_layout::projector::prelude::*;

pub const MUSE_GLIMMER: Projector = Projector {
    name: "muse-glimmer",
    classes: &["MuseGlimmerForConditionalGeneration"],
    example: "meta-models/Muse-Glimmer-30B",
    vision: Some(Tower { classes: &[ConfigClass::new("muse_glimmer_vision")], ..VISION }),
    tensors: &[TOWER, LAYERS, MATRICES],
    owns: |_, name| {
        ["model.vision_tower.", "model.vision_adapter.", "model.vision_projection."]
            .iter()
            .any(|start| name.starts_with(start))
    },
    prepare,
    keys,
    ..BASE
};

const TOWER: &[TensorRule] = &[
    TensorRule::copy(&["model.vision_tower.patch_embedder.patch_embedding"], "v.patch_embd")
        .rows(RowRule::SumSlabs(|hparams| hparams.get_u64("patch_temporal").ok().flatten().unwrap_or(2)))
        .shape(KERNEL),
    TensorRule::copy(&["model.vision_tower.patch_embedder.position_embedding_table"], "v.position_embd"),
    TensorRule::copy(&["model.vision_tower.ln_pre"], "v.pre_ln"),
    TensorRule::copy(&["model.vision_tower.ln_post"], "v.post_ln"),
];

const LAYERS: &[TensorRule] = &[
    TensorRule::copy(&["model.vision_tower.layers.{bid}.norm1"], "v.blk.{bid}.ln1"),
    TensorRule::copy(&["model.vision_tower.layers.{bid}.norm2"], "v.blk.{bid}.ln2"),
    TensorRule::copy(&["model.vision_tower.layers.{bid}.attn.q_proj"], "v.blk.{bid}.attn_q")
        .rows(RowRule::PermuteQ),
    // As many heads as of queries.
    TensorRule::copy(&["model.vision_tower.layers.{bid}.attn.k_proj"], "v.blk.{bid}.attn_k")
        .rows(RowRule::PermuteQ),
    TensorRule::copy(&["model.vision_tower.layers.{bid}.attn.v_proj"], "v.blk.{bid}.attn_v"),
    TensorRule::copy(&["model.vision_tower.layers.{bid}.attn.proj"], "v.blk.{bid}.attn_out"),
    TensorRule::copy(&["model.vision_tower.layers.{bid}.mlp.fc1"], "v.blk.{bid}.ffn_up"),
    TensorRule::copy(&["model.vision_tower.layers.{bid}.mlp.fc2"], "v.blk.{bid}.ffn_down"),
];

const MATRICES: &[TensorRule] = &[
    TensorRule::copy(&["model.vision_adapter.fc1"], "mm.0"),
    TensorRule::copy(&["model.vision_adapter.fc2"], "mm.1"),
    TensorRule::copy(&["model.vision_projection"], "mm.2"),
];

/// (out, 3 patch patch) as (out, 3, patch, patch)
const KERNEL: Reshape = Reshape {
    forward: |hparams, dims| parts::kernel(dims, hparams.need_u64(&["patch_size"])?),
    inverse: parts::unkernel,
};

fn prepare(towers: &mut Towers) -> Result<(), ArchError> {
    let vision = towers.vision_mut()?;
    let mut size = 1u64;
    for key in ["pos_emb_height", "patch_size", "merge_size"] {
        size = size.saturating_mul(vision.need_u64(&[key])?);
    }
    vision.set("image_size", size.into());
    let frames = vision.get_u64("patch_temporal")?.unwrap_or(2);
    if frames != 2 {
        // The last bits of a longer sum would depend on its order.
        return Err(bad("vision_config.patch_temporal", &frames.into(), "2"));
    }
    Ok(())
}

fn keys(towers: &Towers, keys: &mut Keys) -> Result<(), ArchError> {
    tower_keys(towers, keys)?;
    let vision = towers.vision()?;
    parts::kind(keys, "muse-glimmer");
    let epsilon = vision.need_f64("layer_norm_eps")? as f32;
    keys.set_prefixed("vision.attention.layer_norm_epsilon", Value::F32(epsilon));
    count(keys, "vision.spatial_merge_size", vision, "vision_config", &["merge_size"])
}
