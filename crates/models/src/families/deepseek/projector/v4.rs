//! Tower of DeepSeek V4 Vision, whose sizes are keys of the text model's config.
//!
//! Config keys: `vision_n_layers` and the others with this prefix.
//!
//! Transforms: the matrix of patches becomes kernels; gate and up are split.
//!
//! Source: `DeepseekV4FlashVisionModel` in `conversion/deepseek.py`.

use gguf_layout::projector::prelude::*;
use gguf_layout::rules::{first_half, second_half};

pub const DEEPSEEK4: Projector = Projector {
    name: "deepseek4",
    classes: &["DeepseekV4ForCausalLM"],
    example: "deepseek-ai/DeepSeek-V4-Flash-Vision-Exp",
    vision: Some(Tower { at: &[""], ..VISION }),
    tensors: &[ENDS, LAYERS],
    owns: |_, name| ["vision.", "aligner.", "image_"].iter().any(|start| name.starts_with(start)),
    needs_preprocessor: false,
    prepare,
    keys,
    ..BASE
};

const ENDS: &[TensorRule] = &[
    TensorRule::copy(&["vision.patch_embed.proj"], "v.patch_embd").shape(KERNEL),
    TensorRule::copy(&["vision.norm"], "v.post_ln"),
    TensorRule::copy(&["aligner.w1"], "mm.1"),
    TensorRule::copy(&["aligner.w2"], "mm.2"),
    TensorRule::copy(&["image_newline"], "v.image_newline").bare(""),
    TensorRule::copy(&["image_start"], "v.token_embd.img_start").bare(""),
    TensorRule::copy(&["image_end"], "v.token_embd.img_end").bare(""),
    TensorRule::copy(&["image_pad"], "v.token_embd.img_pad").bare(""),
];

const LAYERS: &[TensorRule] = &[
    TensorRule::copy(&["vision.blocks.{bid}.norm1"], "v.blk.{bid}.ln1"),
    TensorRule::copy(&["vision.blocks.{bid}.norm2"], "v.blk.{bid}.ln2"),
    TensorRule::copy(&["vision.blocks.{bid}.attn.wqkv"], "v.blk.{bid}.attn_qkv"),
    TensorRule::copy(&["vision.blocks.{bid}.attn.wo"], "v.blk.{bid}.attn_out"),
    // (2 n, width): gate, then up.
    TensorRule::part(&["vision.blocks.{bid}.mlp.w1"], "v.blk.{bid}.ffn_gate", first_half),
    TensorRule::part(&["vision.blocks.{bid}.mlp.w1"], "v.blk.{bid}.ffn_up", second_half),
    TensorRule::copy(&["vision.blocks.{bid}.mlp.w2"], "v.blk.{bid}.ffn_down"),
];

/// (out, 3 patch patch) as (out, 3, patch, patch); a bias stays a vector.
const KERNEL: Reshape = Reshape {
    forward: |hparams, dims| match dims {
        [_] => Ok(dims.to_vec()),
        _ => parts::kernel(dims, hparams.need_u64(&["patch_size"])?),
    },
    inverse: parts::unkernel,
};

fn prepare(towers: &mut Towers) -> Result<(), ArchError> {
    let vision = towers.vision_mut()?;
    let n_layers = vision.get_u64("vision_n_layers")?.unwrap_or(0);
    if n_layers == 0 {
        return Err(missing("vision_n_layers"));
    }
    for key in ["n_layers", "n_layer", "num_layers", "depth", "layers"] {
        *vision = vision.without(key);
    }
    for (from, to) in [
        ("vision_n_layers", "num_hidden_layers"),
        ("vision_dim", "hidden_size"),
        ("vision_n_heads", "num_attention_heads"),
        ("vision_inter_dim", "intermediate_size"),
        ("vision_patch_size", "patch_size"),
    ] {
        let value = vision.need_u64(&[from])?;
        vision.set(to, value.into());
    }
    // Images may have any size; llama.cpp uses this one for its warm-up.
    let size = vision.need_u64(&["vision_patch_size"])?;
    let size = size.saturating_mul(vision.need_u64(&["vision_downsample_ratio"])?).saturating_mul(16);
    vision.set("image_size", size.into());
    // llama.cpp's graph has these values built in.
    for (key, expected) in [("vision_max_n_token", "384"), ("vision_max_wh_ratio", "8")] {
        let found = vision.need_u64(&[key])?;
        if found.to_string() != expected {
            return Err(bad(key, &found.into(), expected));
        }
    }
    // No file of the checkpoint states these; both are in the model's code.
    for key in ["image_mean", "image_std"] {
        if towers.preprocessor.get(key).is_none() {
            towers.preprocessor.set(key, vec![0.5; 3].into());
        }
    }
    Ok(())
}

fn keys(towers: &Towers, keys: &mut Keys) -> Result<(), ArchError> {
    tower_keys(towers, keys)?;
    let vision = towers.vision()?;
    parts::kind(keys, "deepseek4v");
    // The default of torch, not the text model's.
    keys.set_prefixed("vision.attention.layer_norm_epsilon", Value::F32(1e-6));
    keys.set_prefixed("use_silu", Value::Bool(true));
    let ratio = vision.need_u64(&["vision_downsample_ratio"])?;
    keys.set_derived("vision.projector.scale_factor", "vision_downsample_ratio", ratio)?;
    let pixels = vision.need_u64(&["vision_min_pixels"])?;
    keys.set_derived("vision.image_min_pixels", "vision_min_pixels", pixels)
}
