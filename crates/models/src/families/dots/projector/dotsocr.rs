//! Tower of dots.ocr.
//!
//! Config keys: those of every tower; how many patches of a side are merged; the smallest and the largest image.
//!
//! Source: `DotsOCRVisionModel` in `conversion/dotsocr.py`.

use gguf_layout::projector::prelude::*;

pub const DOTSOCR: Projector = Projector {
    name: "dotsocr",
    classes: &["DotsOCRForCausalLM"],
    example: "rednote-hilab/dots.ocr",
    tensors: &[TOWER, LAYERS, MERGER],
    owns: |_, name| name.starts_with("vision_tower."),
    prepare: |towers| {
        // Images may have any size.
        towers.vision_mut()?.set("image_size", 0.into());
        Ok(())
    },
    keys,
    ..BASE
};

const TOWER: &[TensorRule] = &[
    TensorRule::copy(&["vision_tower.patch_embed.patchifier.proj"], "v.patch_embd"),
    TensorRule::copy(&["vision_tower.patch_embed.patchifier.norm"], "v.pre_ln"),
    TensorRule::copy(&["vision_tower.post_trunk_norm"], "mm.post_norm"),
];

const LAYERS: &[TensorRule] = &[
    TensorRule::copy(&["vision_tower.blocks.{bid}.norm1"], "v.blk.{bid}.ln1"),
    TensorRule::copy(&["vision_tower.blocks.{bid}.norm2"], "v.blk.{bid}.ln2"),
    TensorRule::copy(&["vision_tower.blocks.{bid}.attn.qkv"], "v.blk.{bid}.attn_qkv"),
    TensorRule::copy(&["vision_tower.blocks.{bid}.attn.proj"], "v.blk.{bid}.attn_out"),
    // fc2(silu(fc1 x) fc3 x)
    TensorRule::copy(&["vision_tower.blocks.{bid}.mlp.fc1"], "v.blk.{bid}.ffn_gate"),
    TensorRule::copy(&["vision_tower.blocks.{bid}.mlp.fc2"], "v.blk.{bid}.ffn_down"),
    TensorRule::copy(&["vision_tower.blocks.{bid}.mlp.fc3"], "v.blk.{bid}.ffn_up"),
];

const MERGER: &[TensorRule] = &[
    TensorRule::copy(&["vision_tower.merger.ln_q"], "mm.input_norm"),
    TensorRule::copy(&["vision_tower.merger.mlp.0"], "mm.0"),
    TensorRule::copy(&["vision_tower.merger.mlp.2"], "mm.2"),
];

fn keys(towers: &Towers, keys: &mut Keys) -> Result<(), ArchError> {
    tower_keys(towers, keys)?;
    let vision = towers.vision()?;
    parts::kind(keys, "dots_ocr");
    parts::pixels(
        keys,
        towers,
        [("vision.image_min_pixels", "min_pixels"), ("vision.image_max_pixels", "max_pixels")],
    )?;
    let epsilon = vision.need_f64("rms_norm_eps")? as f32;
    keys.set_prefixed("vision.attention.layer_norm_epsilon", Value::F32(epsilon));
    // Per side: its square is the number of patches that become one.
    let factor = vision.need_u64(&["spatial_merge_size"])?;
    keys.set_derived("vision.projector.scale_factor", "spatial_merge_size", factor)?;
    keys.set_prefixed("use_silu", Value::Bool(true));
    Ok(())
}
