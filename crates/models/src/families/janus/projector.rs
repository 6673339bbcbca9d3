//! Vision tower of Janus Pro; the image generator is left out.
//!
//! Config keys: those of every tower; the width of the feed-forward part follows from a ratio.
//!
//! Source: `JanusProVisionModel` in `conversion/januspro.py`.

use crate::families::siglip::projector as siglip;
use gguf_layout::projector::prelude::*;

pub const JANUS: Projector = Projector {
    name: "janus_pro",
    classes: &["JanusForConditionalGeneration"],
    example: "deepseek-community/Janus-Pro-1B",
    vision: Some(Tower { classes: &[ConfigClass::new("janus_vision_model")], ..VISION }),
    tensors: &[siglip::EMBEDDINGS, siglip::LAYERS, ALIGNER],
    owns: |_, name| {
        let name = name.strip_prefix("model.").unwrap_or(name);
        name.starts_with("vision_model.") || name.starts_with("aligner.")
    },
    rename: |_, name| {
        let name = name.strip_prefix("model.").unwrap_or(name);
        Some(name.replace(".self_attn.projection_layer.", ".self_attn.out_proj."))
    },
    prepare: |towers| {
        let vision = towers.vision_mut()?;
        if vision.get("intermediate_size").is_some() {
            return Ok(());
        }
        // width = round(ratio * hidden)
        if let (Some(ratio), Some(hidden)) = (vision.get_f64("mlp_ratio")?, vision.get_f64("hidden_size")?) {
            vision.set("intermediate_size", ((ratio * hidden).round_ties_even() as u64).into());
        }
        Ok(())
    },
    keys: |towers, keys| {
        tower_keys(towers, keys)?;
        parts::kind(keys, "janus_pro");
        parts::epsilon(keys, "layer_norm_eps", towers.vision()?, 1e-6)?;
        // Other activations have no key, like the reference.
        let vision = towers.vision()?;
        match vision.get("hidden_act").and_then(Json::as_str) {
            Some("gelu" | "silu") => parts::activation(keys, vision, "hidden_act"),
            _ => Ok(()),
        }
    },
    ..BASE
};

/// The first matrix, followed by numbered ones: `mm.0`, `mm.1`, ....
const ALIGNER: &[TensorRule] = &[
    TensorRule::copy(&["aligner.fc1"], "mm.0"),
    // Released models have one more.
    TensorRule::copy(&["aligner.hidden_layers.0"], "mm.1").need(Need::Optional),
    TensorRule::copy(&["aligner.hidden_layers.1"], "mm.2").need(Need::Optional),
];
