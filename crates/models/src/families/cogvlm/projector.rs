//! Tower of CogVLM.
//!
//! Config keys: those of every tower.
//!
//! Source: `CogVLMVisionModel` in `conversion/cogvlm.py`.

use gguf_layout::projector::prelude::*;

pub const COGVLM: Projector = Projector {
    name: "cogvlm",
    classes: &["CogVLMForCausalLM"],
    example: "zai-org/cogvlm-chat-hf",
    tensors: &[TOWER, LAYERS, PROJECTION],
    owns: |_, name| name.starts_with("model.vision."),
    keys: |towers, keys| {
        tower_keys(towers, keys)?;
        parts::epsilon(keys, "layer_norm_eps", towers.vision()?, 1e-6)?;
        parts::kind(keys, "cogvlm");
        Ok(())
    },
    ..BASE
};

const TOWER: &[TensorRule] = &[
    // Parameters whose names have no ending, here and in the file.
    TensorRule::copy(&["model.vision.boi"], "v.boi").bare(""),
    TensorRule::copy(&["model.vision.eoi"], "v.eoi").bare(""),
    TensorRule::copy(&["model.vision.patch_embedding.cls_embedding"], "v.class_embd").bare(""),
    TensorRule::copy(&["model.vision.patch_embedding.proj"], "v.patch_embd"),
    TensorRule::copy(&["model.vision.patch_embedding.position_embedding"], "v.position_embd"),
];

const LAYERS: &[TensorRule] = &[
    TensorRule::copy(&["model.vision.transformer.layers.{bid}.input_layernorm"], "v.blk.{bid}.ln1"),
    TensorRule::copy(&["model.vision.transformer.layers.{bid}.post_attention_layernorm"], "v.blk.{bid}.ln2"),
    TensorRule::copy(
        // (3 in, in): queries, keys and values stay one matrix.
        &["model.vision.transformer.layers.{bid}.attention.query_key_value"],
        "v.blk.{bid}.attn_qkv",
    ),
    TensorRule::copy(&["model.vision.transformer.layers.{bid}.attention.dense"], "v.blk.{bid}.attn_out"),
    TensorRule::copy(&["model.vision.transformer.layers.{bid}.mlp.fc1"], "v.blk.{bid}.ffn_up"),
    TensorRule::copy(&["model.vision.transformer.layers.{bid}.mlp.fc2"], "v.blk.{bid}.ffn_down"),
];

const PROJECTION: &[TensorRule] = &[
    TensorRule::copy(&["model.vision.linear_proj.linear_proj"], "mm.model.fc"),
    TensorRule::copy(&["model.vision.linear_proj.norm1"], "mm.post_fc_norm"),
    // After the norm, a gated feed-forward part: down (act(gate x) * up x).
    TensorRule::copy(&["model.vision.linear_proj.gate_proj"], "mm.gate"),
    TensorRule::copy(&["model.vision.linear_proj.dense_h_to_4h"], "mm.up"),
    TensorRule::copy(&["model.vision.linear_proj.dense_4h_to_h"], "mm.down"),
];
