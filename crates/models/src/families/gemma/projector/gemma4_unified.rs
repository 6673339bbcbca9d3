//! Gemma 4 without towers (12B): patches of images and frames of sound go through one matrix each.
//!
//! Config keys: those of every tower, of which most are 0.
//!
//! Transforms: columns of the matrix of patches and of the norm before it go from (height, width, channel) to (channel,
//! height, width). Positions, a pair for each place, become two tables.
//!
//! Source: `Gemma4UnifiedVisionAudioModel` in `conversion/gemma.py`.

use crate::families::gemma::projector::gemma4::GEMMA4;
use gguf_layout::projector::prelude::*;

pub const GEMMA4_UNIFIED: Projector = Projector {
    name: "gemma4uv",
    classes: &["Gemma4UnifiedForConditionalGeneration"],
    example: "google/gemma-4-12B-it",
    vision: Some(Tower { classes: &[ConfigClass::new("gemma4_unified_vision")], ..VISION }),
    audio: Some(Tower { classes: &[ConfigClass::new("gemma4_unified_audio")], ..AUDIO }),
    tensors: &[PATCHES, PROJECTIONS],
    owns: |_, name| {
        let name = name.strip_prefix("model.").unwrap_or(name);
        ["vision_embedder.", "embed_vision.", "embed_audio."].iter().any(|start| name.starts_with(start))
    },
    rename: |_, name| parts::without("model.", name),
    prepare,
    keys: |towers, keys| {
        (GEMMA4.keys)(towers, keys)?;
        keys.set_prefixed("vision.projector_type", "gemma4uv".into());
        keys.set_prefixed("audio.projector_type", "gemma4ua".into());
        Ok(())
    },
    ..BASE
};

const PATCHES: &[TensorRule] = &[
    // (hidden, side * side * 3): the patch embedding and its norms.
    TensorRule::part(&["vision_embedder.patch_dense.weight"], "v.patch_embd", channels_first)
        .bare(".weight")
        .float(FloatType::F16OrF32),
    TensorRule::copy(&["vision_embedder.patch_dense.bias"], "v.patch_embd").bare(".bias"),
    TensorRule::part(&["vision_embedder.patch_ln1"], "v.patch_norm.1", channels_first),
    TensorRule::copy(&["vision_embedder.patch_ln2"], "v.patch_norm.2"),
    TensorRule::copy(&["vision_embedder.pos_norm"], "v.patch_norm.3"),
    // (places, 2, hidden) becomes (2, places, hidden): a table of rows and one of columns.
    TensorRule::part(&["vision_embedder.pos_embedding"], "v.position_embd", |_, shape| {
        Ok(RowMap::TileHeads { start: 0, groups: shape.dim(2), per_group: shape.dim(1), rows: 1 })
    })
    .bare(".weight")
    .shape(SWAPPED)
    .float(FloatType::F32),
];

const SWAPPED: Reshape = Reshape { forward: |_, dims| Ok(swapped(dims)), inverse: swapped };

fn swapped(dims: &[u64]) -> Vec<u64> {
    match dims {
        [row, inner, outer] => vec![*row, *outer, *inner],
        other => other.to_vec(),
    }
}

const PROJECTIONS: &[TensorRule] = &[
    TensorRule::copy(&["embed_vision.embedding_projection"], "mm.input_projection"),
    TensorRule::copy(&["embed_audio.embedding_projection"], "mm.a.input_projection"),
];

fn channels_first(hparams: &Hparams, _: &Shape) -> Result<RowMap, ArchError> {
    // A patch of the model is several of the config's on a side.
    let side = match hparams.get_u64("model_patch_size")? {
        Some(side) => side,
        None => {
            hparams.need_u64(&["patch_size"])?.saturating_mul(hparams.need_u64(&["pooling_kernel_size"])?)
        }
    };
    Ok(parts::channels_first(side))
}

fn prepare(towers: &mut Towers) -> Result<(), ArchError> {
    let vision = towers.vision_mut()?;
    let width = vision.get("mm_embed_dim").cloned().unwrap_or_default();
    vision.set("hidden_size", width);
    // Images may have any size; the reference writes this one.
    vision.set("image_size", 224.into());
    let audio = towers.audio_mut()?;
    let width = audio.get("audio_embed_dim").cloned().unwrap_or_default();
    audio.set("hidden_size", width);
    // There are no layers and no layer parameters.
    for key in ["intermediate_size", "num_layers", "num_attention_heads"] {
        towers.vision_mut()?.set(key, 0.into());
        towers.audio_mut()?.set(key, 0.into());
    }
    Ok(())
}
