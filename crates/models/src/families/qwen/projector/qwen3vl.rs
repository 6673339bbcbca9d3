//! Towers of Qwen 3 VL, Qwen 3.5 to 3.8 and Qwen 4.
//!
//! Config keys: those of every tower; the number of position embeddings, of which the size of images follows; the
//! layers whose features go into early layers of the text model.
//!
//! Transforms: the kernel of patches, which sees two frames, becomes two tensors. Mergers of features that are numbered
//! in order get the number of their layer.
//!
//! Source: `Qwen3VLVisionModel` in `conversion/qwen3vl.py`.

use crate::parts::patch_tower;
use gguf_layout::projector::prelude::*;

pub const QWEN3VL: Projector = Projector {
    name: "qwen3vl",
    classes: &[
        "Qwen3VLForConditionalGeneration",
        "Qwen3VLMoeForConditionalGeneration",
        "Qwen3_5ForConditionalGeneration",
        "Qwen3_5MoeForConditionalGeneration",
        "Qwen4ExpForConditionalGeneration",
        "ClefModel",
        "OpenJevModel",
    ],
    example: "Qwen/Qwen3-VL-4B-Instruct",
    vision: Some(Tower {
        classes: &[
            ConfigClass::new("qwen3_vl_vision"),
            ConfigClass::new("qwen3_vl_moe_vision"),
            ConfigClass::new("qwen3_5_vision"),
            ConfigClass::new("qwen3_5_moe_vision"),
            ConfigClass::new("qwen4_exp_vision"),
        ],
        ..VISION
    }),
    tensors: &[parts::FRAMES, parts::LAYERS_OF_QWEN, patch_tower::LAYERS, MERGERS],
    owns: |_, name| name.starts_with("visual.") || name.starts_with("model.visual."),
    rename,
    prepare,
    keys,
    ..BASE
};

/// Two matrices after the tower, and two after some of its layers.
pub const MERGERS: &[TensorRule] = &[
    TensorRule::copy(&["visual.merger.linear_fc1"], "mm.0"),
    TensorRule::copy(&["visual.merger.linear_fc2"], "mm.2"),
    // The file stores the merger's norm as the one after all layers.
    TensorRule::copy(&["visual.merger.norm"], "v.post_ln"),
    TensorRule::copy(&["visual.deepstack.{bid}.norm"], "v.deepstack.{bid}.norm").need(HAS_MERGER),
    TensorRule::copy(&["visual.deepstack.{bid}.linear_fc1"], "v.deepstack.{bid}.fc1").need(HAS_MERGER),
    TensorRule::copy(&["visual.deepstack.{bid}.linear_fc2"], "v.deepstack.{bid}.fc2").need(HAS_MERGER),
];

const HAS_MERGER: Need = Need::If(|hparams, bid| deepstack(hparams).contains(&bid));

/// The layers whose features are merged, in the order of their mergers.
fn deepstack(hparams: &Hparams) -> Vec<u64> {
    let layers = hparams.get("deepstack_visual_indexes").and_then(Json::as_array);
    layers.into_iter().flatten().filter_map(Json::as_u64).collect()
}

/// Name in the table: mergers are numbered by their layers.
pub fn rename(hparams: &Hparams, name: &str) -> Option<String> {
    let name = name.strip_prefix("model.").unwrap_or(name);
    let Some((number, rest)) =
        name.strip_prefix("visual.deepstack_merger_list.").and_then(|rest| rest.split_once('.'))
    else {
        return Some(name.to_owned());
    };
    // The checkpoint counts mergers 0, 1, 2; the file has their layers, as 8, 16, 24.
    let layer = deepstack(hparams).get(number.parse::<usize>().ok()?).copied()?;
    Some(format!("visual.deepstack.{layer}.{rest}"))
}

/// Checks the layers that are merged, and derives the size of images.
pub fn prepare(towers: &mut Towers) -> Result<(), ArchError> {
    let vision = towers.vision_mut()?;
    let n_layers = vision.get_u64("depth")?.ok_or_else(|| missing("vision_config.depth"))?;
    if let Some(layer) = deepstack(vision).into_iter().find(|layer| *layer >= n_layers) {
        return Err(bad("vision_config.deepstack_visual_indexes", &layer.into(), "numbers below `depth`"));
    }
    patch_tower::prepare(towers)
}

fn keys(towers: &Towers, keys: &mut Keys) -> Result<(), ArchError> {
    tower_keys(towers, keys)?;
    parts::kind(keys, "qwen3vl_merger");
    vision_keys(towers, keys)
}

/// Writes the keys of the vision tower other than its sizes.
pub fn vision_keys(towers: &Towers, keys: &mut Keys) -> Result<(), ArchError> {
    let vision = towers.vision()?;
    keys.set_prefixed("use_gelu", Value::Bool(true));
    patch_tower::merge_size_and_epsilon(towers, keys)?;
    let n_layers = vision.get_u64("depth")?.unwrap_or(0);
    let merged = deepstack(vision);
    let flags: Vec<bool> = (0..n_layers.min(1 << 16)).map(|layer| merged.contains(&layer)).collect();
    if !flags.is_empty() {
        keys.set_prefixed("vision.is_deepstack_layers", Value::Array(Array::Bool(flags)));
    }
    Ok(())
}
