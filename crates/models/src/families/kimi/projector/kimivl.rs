//! Tower of Kimi VL: MoonViT and two matrices.
//!
//! Config keys: those of every tower.
//!
//! Transforms: queries, keys and values come apart; positions, which are stored by row and column, are one list.
//!
//! Source: `KimiVLModel` in `conversion/kimivl.py`.

use gguf_layout::projector::prelude::*;

pub const KIMIVL: Projector = Projector {
    name: "kimivl",
    classes: &["KimiVLForConditionalGeneration"],
    example: "moonshotai/Kimi-VL-A3B-Instruct",
    tensors: &[TOWER, QKV, PROJECTION],
    owns: |_, name| name.contains("vision_tower") || name.contains("multi_modal_projector"),
    prepare: |towers| {
        // Images may have any size; the reference writes the one that positions are learned for.
        towers.vision_mut()?.set("image_size", (64 * 14).into());
        Ok(())
    },
    keys: |towers, keys| {
        tower_keys(towers, keys)?;
        parts::kind(keys, "kimivl");
        keys.set_prefixed("use_gelu", Value::Bool(true));
        // 2 * 2 patches become one embedding.
        keys.set_prefixed("vision.projector.scale_factor", Value::U32(2));
        parts::epsilon(keys, "layer_norm_eps", towers.vision()?, 1e-5)
    },
    ..BASE
};

const TOWER: &[TensorRule] = &[
    TensorRule::copy(&["vision_tower.patch_embed.proj"], "v.patch_embd"),
    // (rows, columns, width) becomes (rows * columns, width).
    TensorRule::copy(&["vision_tower.patch_embed.pos_emb"], "v.position_embd").shape(Reshape {
        forward: |_, dims| Ok(gguf_layout::tensors::rules::flat_rows(dims)),
        inverse: <[u64]>::to_vec,
    }),
    TensorRule::copy(&["vision_tower.encoder.blocks.{bid}.norm0"], "v.blk.{bid}.ln1"),
    TensorRule::copy(&["vision_tower.encoder.blocks.{bid}.norm1"], "v.blk.{bid}.ln2"),
    TensorRule::copy(&["vision_tower.encoder.blocks.{bid}.wo"], "v.blk.{bid}.attn_out"),
    TensorRule::copy(&["vision_tower.encoder.blocks.{bid}.mlp.fc0"], "v.blk.{bid}.ffn_up"),
    TensorRule::copy(&["vision_tower.encoder.blocks.{bid}.mlp.fc1"], "v.blk.{bid}.ffn_down"),
    TensorRule::copy(&["vision_tower.encoder.final_layernorm"], "v.post_ln"),
];

const QKV: &[TensorRule] = &[
    // (3 in, in): queries above keys above values, a third of the rows each.
    TensorRule::part(&["vision_tower.encoder.blocks.{bid}.wqkv"], "v.blk.{bid}.attn_q", parts::third::<0>),
    TensorRule::part(&["vision_tower.encoder.blocks.{bid}.wqkv"], "v.blk.{bid}.attn_k", parts::third::<1>),
    TensorRule::part(&["vision_tower.encoder.blocks.{bid}.wqkv"], "v.blk.{bid}.attn_v", parts::third::<2>),
];

const PROJECTION: &[TensorRule] = &[
    TensorRule::copy(&["multi_modal_projector.pre_norm"], "mm.input_norm"),
    TensorRule::copy(&["multi_modal_projector.linear_1"], "mm.1"),
    TensorRule::copy(&["multi_modal_projector.linear_2"], "mm.2"),
];
