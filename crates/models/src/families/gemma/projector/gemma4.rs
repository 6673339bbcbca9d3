//! Towers of Gemma 4: of images, and of sound in its small models.
//!
//! Config keys: those of every tower.
//!
//! Transforms: the matrix of patches, whose columns are (height, width, channel), becomes a kernel of (channel, height,
//! width). Bounds of clipped matrices are vectors of one number. Scales of the dimensions of a head are stored as what
//! softplus is taken of.
//!
//! Source: `Gemma4VisionAudioModel` in `conversion/gemma.py`.

use crate::families::gemma::projector::gemma4_audio;
use gguf_layout::projector::prelude::*;

pub const GEMMA4: Projector = Projector {
    name: "gemma4",
    classes: &["Gemma4ForConditionalGeneration", "EmbeddingGemma2Model"],
    example: "google/gemma-4-31B-it",
    vision: Some(Tower { classes: &[ConfigClass::new("gemma4_vision")], ..VISION }),
    audio: Some(Tower { classes: &[ConfigClass::new("gemma4_audio")], ..AUDIO }),
    tensors: &[
        EMBEDDINGS,
        NORMS,
        MATRICES,
        PROJECTION,
        gemma4_audio::ENDS,
        gemma4_audio::LAYERS,
        gemma4_audio::MATRICES,
    ],
    owns: |_, name| {
        let name = name.strip_prefix("model.").unwrap_or(name);
        ["vision_tower.", "embed_vision.", "audio_tower.", "embed_audio."]
            .iter()
            .any(|start| name.starts_with(start))
    },
    rename,
    prepare,
    keys,
    ..BASE
};

const MATRICES: &[TensorRule] = clipped![
    ("layers.{bid}.self_attn.q_proj", "v.blk.{bid}.attn_q"),
    ("layers.{bid}.self_attn.k_proj", "v.blk.{bid}.attn_k"),
    ("layers.{bid}.self_attn.v_proj", "v.blk.{bid}.attn_v"),
    ("layers.{bid}.self_attn.o_proj", "v.blk.{bid}.attn_out"),
    ("layers.{bid}.mlp.gate_proj", "v.blk.{bid}.ffn_gate"),
    ("layers.{bid}.mlp.up_proj", "v.blk.{bid}.ffn_up"),
    ("layers.{bid}.mlp.down_proj", "v.blk.{bid}.ffn_down"),
];

const EMBEDDINGS: &[TensorRule] = &[
    // (hidden, height * width * 3) becomes (hidden, 3, height, width).
    TensorRule::part(&["vision_tower.patch_embedder.input_proj.weight"], "v.patch_embd", |_, shape| {
        Ok(parts::channels_first(patch_of(shape.dim(0))))
    })
    .bare(".weight")
    .shape(Reshape {
        forward: |_, dims| parts::kernel(dims, patch_of(dims.first().copied().unwrap_or(0))),
        inverse: parts::unkernel,
    }),
    TensorRule::copy(&["vision_tower.patch_embedder.position_embedding_table"], "v.position_embd")
        .bare(".weight")
        .float(FloatType::F32),
    TensorRule::copy(&["vision_tower.std_bias"], "v.std_bias").bare("").need(Need::Optional),
    TensorRule::copy(&["vision_tower.std_scale"], "v.std_scale").bare("").need(Need::Optional),
];

/// Height and width of a patch of this many numbers of three channels.
fn patch_of(row_elems: u64) -> u64 {
    // row_elems = 3 * side^2
    (row_elems / 3).isqrt()
}

const NORMS: &[TensorRule] = &[
    TensorRule::copy(&["layers.{bid}.input_layernorm"], "v.blk.{bid}.ln1"),
    TensorRule::copy(&["layers.{bid}.post_attention_layernorm"], "v.blk.{bid}.attn_post_norm"),
    TensorRule::copy(&["layers.{bid}.pre_feedforward_layernorm"], "v.blk.{bid}.ln2"),
    TensorRule::copy(&["layers.{bid}.post_feedforward_layernorm"], "v.blk.{bid}.ffn_post_norm"),
    TensorRule::copy(&["layers.{bid}.self_attn.q_norm"], "v.blk.{bid}.attn_q_norm"),
    TensorRule::copy(&["layers.{bid}.self_attn.k_norm"], "v.blk.{bid}.attn_k_norm"),
    TensorRule::copy(&["layers.{bid}.layer_scalar"], "v.blk.{bid}.out_scale")
        .bare(".weight")
        .need(Need::Optional),
];

const PROJECTION: &[TensorRule] =
    &[TensorRule::copy(&["embed_vision.embedding_projection"], "mm.input_projection")];

fn rename(_: &Hparams, name: &str) -> Option<String> {
    let name = name.strip_prefix("model.").unwrap_or(name);
    let name = name.strip_prefix("vision_tower.encoder.").unwrap_or(name);
    // Clipped matrices have their weight one module deeper, in `linear`.
    Some(name.replace(".linear.", "."))
}

fn prepare(towers: &mut Towers) -> Result<(), ArchError> {
    let has_audio = towers.audio.is_some();
    if let Some(audio) = &mut towers.audio
        && let Some(width) = audio.get_u64("hidden_size")?
    {
        // The feed-forward part is four times as wide as the tower of sound.
        audio.set("intermediate_size", width.saturating_mul(4).into());
    }
    towers.vision_mut()?.set(gemma4_audio::HAS_AUDIO, has_audio.into());
    // Images may have any size; the reference writes this one.
    towers.vision_mut()?.set("image_size", 224.into());
    Ok(())
}

fn keys(towers: &Towers, keys: &mut Keys) -> Result<(), ArchError> {
    tower_keys(towers, keys)?;
    keys.set_prefixed("vision.projector_type", "gemma4v".into());
    parts::epsilon(keys, "layer_norm_eps", towers.vision()?, 1e-6)?;
    if let Some(audio) = &towers.audio {
        keys.set_prefixed("audio.projector_type", "gemma4a".into());
        let n_bands = audio.get_u64("input_feat_size")?.unwrap_or(128);
        keys.set_derived("audio.num_mel_bins", "input_feat_size", n_bands)?;
        let epsilon = audio.get_f64("layer_norm_eps")?.unwrap_or(1e-6) as f32;
        keys.set_prefixed("audio.attention.layer_norm_epsilon", Value::F32(epsilon));
    }
    Ok(())
}
