//! Tower of Youtu-VL: SigLIP 2 with windows.
//!
//! Config keys: those of every tower; how many patches of a side are merged; the window of attention, and the layers
//! without one.
//!
//! Source: `YoutuVLVisionModel` in `conversion/youtuvl.py`.

use crate::families::siglip::projector as siglip;
use gguf_layout::projector::prelude::*;

pub const YOUTUVL: Projector = Projector {
    name: "youtuvl",
    classes: &["YoutuVLForConditionalGeneration"],
    example: "tencent/Youtu-VL-4B-Instruct",
    tensors: &[siglip::EMBEDDINGS_IF_POSITIONS, siglip::LAYERS, MERGER],
    owns: |_, name| name.starts_with("siglip2.") || name.starts_with("merger."),
    drops: |_, name| name.contains("vision_model.head.").then_some("a head that the projector does not use"),
    rename: |_, name| parts::without("siglip2.", name),
    prepare: |towers| {
        let vision = towers.vision_mut()?;
        if vision.get("image_size").is_none() {
            vision.set("image_size", 560.into());
        }
        Ok(())
    },
    keys,
    ..BASE
};

const MERGER: &[TensorRule] = &[
    TensorRule::copy(&["merger.ln_q"], "mm.input_norm"),
    // Linear, activation, linear: the activation in the middle, `mlp.1`, has no weights.
    TensorRule::copy(&["merger.mlp.0"], "mm.0"),
    TensorRule::copy(&["merger.mlp.2"], "mm.2"),
];

fn keys(towers: &Towers, keys: &mut Keys) -> Result<(), ArchError> {
    tower_keys(towers, keys)?;
    let vision = towers.vision()?;
    parts::kind(keys, "youtuvl");
    parts::epsilon(keys, "layer_norm_eps", vision, 1e-6)?;
    match vision.get("hidden_act").and_then(Json::as_str).map(str::to_lowercase).as_deref() {
        // All kinds of GELU, exact or approximate, have one flag.
        None | Some("gelu" | "gelu_pytorch_tanh" | "gelu_fast" | "gelu_new" | "gelu_accurate") => {
            keys.set_prefixed("use_gelu", Value::Bool(true));
        }
        _ => parts::activation(keys, vision, "hidden_act")?,
    }
    let size = vision.get_u64("spatial_merge_size")?.unwrap_or(2);
    keys.set_derived("vision.spatial_merge_size", "spatial_merge_size", size)?;
    if let Some(window) = vision.get_u64("window_size")? {
        keys.set_derived("vision.window_size", "window_size", window)?;
    }
    let layers =
        vision.get("fullatt_block_indexes").ok_or_else(|| missing("vision_config.fullatt_block_indexes"))?;
    let items = layers.as_array().filter(|items| !items.is_empty());
    let items =
        items.ok_or_else(|| bad("vision_config.fullatt_block_indexes", layers, "a list of layers"))?;
    let items =
        items.iter().map(|item| to_i32("fullatt_block_indexes", item)).collect::<Result<Vec<_>, _>>()?;
    // In spite of the key's name, the layers that attend without a window.
    keys.set_prefixed("vision.wa_layer_indexes", Value::Array(Array::I32(items)));
    Ok(())
}
