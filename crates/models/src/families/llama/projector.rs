//! Tower of Llama 4.
//!
//! Config keys: those of every tower; the ratio by which patches are merged.
//!
//! Source: `Llama4VisionModel` in `conversion/llama4.py`. The reference's table has the norm before the feed-forward part
//! twice, and calls it by Gemma 4's name of another one, which llama.cpp then applies to what comes out of attention; here
//! it has its own name, like in files of earlier versions.

use gguf_layout::projector::prelude::*;

pub const LLAMA4: Projector = Projector {
    name: "llama4",
    classes: &["Llama4ForConditionalGeneration"],
    example: "unsloth/Llama-4-Scout-17B-16E-Instruct",
    vision: Some(Tower { classes: &[ConfigClass::new("llama4_vision_model")], ..VISION }),
    tensors: &[TOWER, PROJECTION],
    owns: |_, name| name.contains("multi_modal_projector") || name.contains("vision_model"),
    rename: |_, name| parts::without("model.", name),
    keys,
    ..BASE
};

const TOWER: &[TensorRule] = &[
    TensorRule::copy(&["vision_model.class_embedding"], "v.class_embd").bare(""),
    TensorRule::copy(&["vision_model.patch_embedding.linear"], "v.patch_embd"),
    TensorRule::copy(&["vision_model.positional_embedding_vlm"], "v.position_embd").bare(".weight"),
    TensorRule::copy(&["vision_model.layernorm_pre"], "v.pre_ln"),
    TensorRule::copy(&["vision_model.layernorm_post"], "v.post_ln"),
    TensorRule::copy(&["vision_model.model.layers.{bid}.input_layernorm"], "v.blk.{bid}.ln1"),
    // The norm before the feed-forward part, not one of what comes out of attention.
    TensorRule::copy(&["vision_model.model.layers.{bid}.post_attention_layernorm"], "v.blk.{bid}.ln2"),
    TensorRule::copy(&["vision_model.model.layers.{bid}.self_attn.q_proj"], "v.blk.{bid}.attn_q"),
    TensorRule::copy(&["vision_model.model.layers.{bid}.self_attn.k_proj"], "v.blk.{bid}.attn_k"),
    TensorRule::copy(&["vision_model.model.layers.{bid}.self_attn.v_proj"], "v.blk.{bid}.attn_v"),
    TensorRule::copy(&["vision_model.model.layers.{bid}.self_attn.o_proj"], "v.blk.{bid}.attn_out"),
    TensorRule::copy(&["vision_model.model.layers.{bid}.mlp.fc1"], "v.blk.{bid}.ffn_up"),
    TensorRule::copy(&["vision_model.model.layers.{bid}.mlp.fc2"], "v.blk.{bid}.ffn_down"),
];

const PROJECTION: &[TensorRule] = &[
    TensorRule::copy(&["vision_model.vision_adapter.mlp.fc1"], "mm.model.mlp.1"),
    TensorRule::copy(&["vision_model.vision_adapter.mlp.fc2"], "mm.model.mlp.2"),
    TensorRule::copy(&["multi_modal_projector.linear_1.weight"], "mm.model.fc").bare(".weight"),
];

fn keys(towers: &Towers, keys: &mut Keys) -> Result<(), ArchError> {
    tower_keys(towers, keys)?;
    let vision = towers.vision()?;
    parts::kind(keys, "llama4");
    let epsilon = vision.need_f64("norm_eps")?;
    keys.set_prefixed("vision.attention.layer_norm_epsilon", Value::F32(epsilon as f32));
    // A ratio of 0.5 becomes a factor of 2.
    parts::inverse(keys, "vision_config.pixel_shuffle_ratio", vision.need_f64("pixel_shuffle_ratio")?)?;
    match vision.get("hidden_act").and_then(Json::as_str) {
        Some("gelu") => keys.set_prefixed("use_gelu", Value::Bool(true)),
        _ => {
            return Err(bad(
                "vision_config.hidden_act",
                &vision.get("hidden_act").cloned().unwrap_or_default(),
                "gelu",
            ));
        }
    }
    Ok(())
}
