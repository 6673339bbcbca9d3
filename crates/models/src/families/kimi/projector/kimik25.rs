//! Towers of Kimi K2.5 to K2.7 and of GLM-5.2 Vision: MoonViT for images and films, two matrices.
//!
//! Config keys: those of every tower; the grid that positions are learned for; the smallest and the largest image.
//!
//! Transforms: within each head of queries and keys, pairs of rows that are rotated by height and by width in turns are put
//! into halves.
//!
//! Source: `KimiK25Model` and `Glm5vModel` in `conversion/kimivl.py`.

use gguf_layout::projector::prelude::*;

/// The row of Kimi K2.5.
pub const KIMIK25: Projector = Projector {
    name: "kimik25",
    classes: &["KimiK25ForConditionalGeneration", "Glm5vForConditionalGeneration"],
    example: "moonshotai/Kimi-K2.5",
    tensors: &[TOWER, LAYERS, PROJECTION],
    owns: |_, name| name.contains("vision_tower") || name.contains("mm_projector"),
    prepare: |towers| {
        let vision = towers.vision_mut()?;
        // 64 * 14 = 896 pixels if the config says nothing
        let (height, patch) = (grid(vision, "init_pos_emb_height", 64)?, patch(vision)?);
        vision.set("image_size", height.saturating_mul(patch).into());
        Ok(())
    },
    keys,
    ..BASE
};

const TOWER: &[TensorRule] = &[
    TensorRule::copy(&["vision_tower.patch_embed.proj"], "v.patch_embd"),
    TensorRule::copy(&["vision_tower.patch_embed.pos_emb"], "v.position_embd"),
    TensorRule::copy(&["vision_tower.encoder.final_layernorm"], "v.post_ln"),
];

const LAYERS: &[TensorRule] = &[
    TensorRule::copy(&["vision_tower.encoder.blocks.{bid}.norm0"], "v.blk.{bid}.ln1"),
    TensorRule::copy(&["vision_tower.encoder.blocks.{bid}.norm1"], "v.blk.{bid}.ln2"),
    TensorRule::part(
        &["vision_tower.encoder.blocks.{bid}.wqkv"],
        "v.blk.{bid}.attn_qkv",
        |hparams, shape| {
            // Queries and keys are the first two thirds of the rows.
            let n_rows = if shape.n_dims() > 1 { shape.dim(1) } else { shape.dim(0) };
            let n_heads = hparams.get_u64("num_attention_heads")?.unwrap_or(16);
            // Each of 2 * heads is put into halves; values, the last third, stay as they are.
            Ok(RowMap::PairHalves {
                n_heads: 2 * n_heads,
                rows: (n_rows / 3).checked_div(n_heads).unwrap_or(0),
            })
        },
    ),
    TensorRule::copy(&["vision_tower.encoder.blocks.{bid}.wo"], "v.blk.{bid}.attn_out"),
    TensorRule::copy(&["vision_tower.encoder.blocks.{bid}.mlp.fc0"], "v.blk.{bid}.ffn_up"),
    TensorRule::copy(&["vision_tower.encoder.blocks.{bid}.mlp.fc1"], "v.blk.{bid}.ffn_down"),
];

const PROJECTION: &[TensorRule] = &[
    TensorRule::copy(&["mm_projector.pre_norm"], "mm.input_norm"),
    TensorRule::copy(&["mm_projector.proj.0", "mm_projector.proj.linear_1", "mm_projector.linear_1"], "mm.1"),
    TensorRule::copy(&["mm_projector.proj.2", "mm_projector.proj.linear_2", "mm_projector.linear_2"], "mm.2"),
];

fn grid(vision: &Hparams, key: &str, default: u64) -> Result<u64, ArchError> {
    Ok(vision.get_u64(key)?.unwrap_or(default))
}

fn patch(vision: &Hparams) -> Result<u64, ArchError> {
    grid(vision, "patch_size", 14)
}

fn keys(towers: &Towers, keys: &mut Keys) -> Result<(), ArchError> {
    tower_keys(towers, keys)?;
    let vision = towers.vision()?;
    parts::kind(keys, "kimik25");
    // Without the name of the architecture, as the reference has them.
    for (key, name, default) in [
        ("vision.pos_emb_height", "init_pos_emb_height", 64),
        ("vision.pos_emb_width", "init_pos_emb_width", 64),
        ("vision.pos_emb_time", "init_pos_emb_time", 4),
    ] {
        keys.set(key, Value::U32(to_u32(name, &grid(vision, name, default)?.into())?));
    }
    let act = vision.get("projector_hidden_act").is_none_or(|act| act == "gelu");
    keys.set_prefixed("use_gelu", Value::Bool(act));
    parts::epsilon(keys, "projector_ln_eps", vision, 1e-5)?;
    let merged =
        vision.get("merge_kernel_size").and_then(|sizes| sizes.get(0)).cloned().unwrap_or_else(|| 2.into());
    keys.set_prefixed("vision.projector.scale_factor", Value::U32(to_u32("merge_kernel_size", &merged)?));
    let patch = patch(vision)?;
    // Limits are counted in patches, 8 at least; the keys contain pixels.
    let pixels = patch.saturating_mul(patch);
    let most = towers.preprocessor.get_u64("in_patch_limit")?.unwrap_or(16384);
    keys.set_derived("vision.image_min_pixels", "", pixels.saturating_mul(8))?;
    keys.set_derived("vision.image_max_pixels", "", pixels.saturating_mul(most))
}
