//! Tower of HunyuanVL and HunyuanOCR.
//!
//! Config keys: those of every tower; how many patches of a side are merged; the smallest and the largest image.
//!
//! Transforms: the position of the token of the entire image, which the tower does not have, is left out.
//!
//! Source: `HunyuanVLVisionModel` in `conversion/hunyuan.py`.

use gguf_layout::projector::prelude::*;

pub const HUNYUANVL: Projector = Projector {
    name: "hunyuanvl",
    classes: &["HunYuanVLForConditionalGeneration"],
    example: "tencent/HunyuanOCR",
    tensors: &[TOWER, LAYERS, MERGER],
    owns: |_, name| name.starts_with("vit."),
    prepare: |towers| {
        let vision = towers.vision_mut()?;
        // `tower_keys` asks for a size; a config may state the largest one only.
        if vision.get("image_size").is_none() {
            let size = vision.get("max_image_size").cloned().unwrap_or_else(|| 2048.into());
            vision.set("image_size", size);
        }
        Ok(())
    },
    keys,
    ..BASE
};

const TOWER: &[TensorRule] = &[
    TensorRule::copy(&["vit.embeddings.patch_embedding"], "v.patch_embd"),
    TensorRule::part(&["vit.embeddings.position_embedding"], "v.position_embd", |_, _| {
        // Row 0 is the position of the token of the entire image.
        Ok(RowMap::Slice { start: 1 })
    }),
];

const LAYERS: &[TensorRule] = &[
    TensorRule::copy(&["vit.layers.{bid}.input_layernorm"], "v.blk.{bid}.ln1"),
    TensorRule::copy(&["vit.layers.{bid}.post_attention_layernorm"], "v.blk.{bid}.ln2"),
    TensorRule::copy(&["vit.layers.{bid}.self_attn.q_proj"], "v.blk.{bid}.attn_q"),
    TensorRule::copy(&["vit.layers.{bid}.self_attn.k_proj"], "v.blk.{bid}.attn_k"),
    TensorRule::copy(&["vit.layers.{bid}.self_attn.v_proj"], "v.blk.{bid}.attn_v"),
    TensorRule::copy(&["vit.layers.{bid}.self_attn.o_proj"], "v.blk.{bid}.attn_out"),
    TensorRule::copy(&["vit.layers.{bid}.mlp.dense_h_to_4h"], "v.blk.{bid}.ffn_up"),
    TensorRule::copy(&["vit.layers.{bid}.mlp.dense_4h_to_h"], "v.blk.{bid}.ffn_down"),
];

const MERGER: &[TensorRule] = &[
    TensorRule::copy(&["vit.perceive.before_rms"], "mm.pre_norm"),
    // Convolutions, whose kernels are F16 at most.
    TensorRule::copy(&["vit.perceive.proj.0"], "mm.0").float(FloatType::F16OrF32),
    TensorRule::copy(&["vit.perceive.proj.2"], "mm.2").float(FloatType::F16OrF32),
    TensorRule::copy(&["vit.perceive.mlp"], "mm.model.fc"),
    TensorRule::copy(&["vit.perceive.after_rms"], "mm.post_norm"),
    TensorRule::copy(&["vit.perceive.image_newline"], "v.image_newline").bare(""),
    TensorRule::copy(&["vit.perceive.image_begin"], "mm.image_begin").bare(""),
    TensorRule::copy(&["vit.perceive.image_end"], "mm.image_end").bare(""),
    // The file has this spelling.
    TensorRule::copy(&["vit.perceive.image_sep"], "v.view_seperator").bare("").need(Need::Optional),
];

fn keys(towers: &Towers, keys: &mut Keys) -> Result<(), ArchError> {
    tower_keys(towers, keys)?;
    let vision = towers.vision()?;
    parts::kind(keys, "hunyuanvl");
    keys.set_prefixed("use_gelu", Value::Bool(true));
    parts::epsilon(keys, "rms_norm_eps", vision, 1e-5)?;
    let size = vision.get_u64("spatial_merge_size")?.unwrap_or(2);
    keys.set_derived("vision.spatial_merge_size", "spatial_merge_size", size)?;
    parts::pixels(
        keys,
        towers,
        [("vision.image_min_pixels", "min_pixels"), ("vision.image_max_pixels", "max_pixels")],
    )
}
