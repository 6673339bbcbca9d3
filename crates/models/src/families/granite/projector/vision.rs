//! SigLIP of Granite 4 Vision, with several Q-formers that attend to the features of different layers.
//!
//! Config keys: those of every tower; `deepstack_layer_map` and `spatial_target_layers`, which name the layer of the tower and
//! that of the text model for each Q-former.
//!
//! Transforms: Q-formers are numbered by the layers of the text model that they feed.
//!
//! Source: `Granite4VisionMmprojModel` in `conversion/granite.py`.

use super::qformer;
use gguf_layout::projector::prelude::*;

pub const GRANITE4_VISION: Projector = Projector {
    name: "granite4-vision",
    classes: &["Granite4VisionForConditionalGeneration"],
    example: "ibm-granite/granite-4.0-3b-vision",
    vision: Some(Tower { classes: &[ConfigClass::new("siglip_vision_model")], ..VISION }),
    tensors: &[TOWER, LAYERS, PROJECTORS, QFORMERS],
    owns: |_, name| {
        [
            "model.vision_tower.",
            "model.layerwise_projectors.",
            "model.spatial_projectors.",
            "model.image_newline",
        ]
        .iter()
        .any(|start| name.starts_with(start))
    },
    drops: |_, name| {
        let name = name.strip_prefix("model.vision_tower.").unwrap_or_default();
        let name = name.strip_prefix("vision_model.").unwrap_or(name);
        name.starts_with("head.").then_some("the head of SigLIP, which no projector uses")
    },
    rename,
    prepare,
    keys,
    ..BASE
};

const TOWER: &[TensorRule] = &[
    TensorRule::copy(&["model.image_newline"], "v.image_newline").bare(""),
    TensorRule::copy(&["tower.embeddings.patch_embedding"], "v.patch_embd"),
    TensorRule::copy(&["tower.embeddings.position_embedding"], "v.position_embd"),
    TensorRule::copy(&["tower.post_layernorm"], "v.post_ln"),
];

const LAYERS: &[TensorRule] = &[
    TensorRule::copy(&["tower.encoder.layers.{bid}.layer_norm1"], "v.blk.{bid}.ln1"),
    TensorRule::copy(&["tower.encoder.layers.{bid}.layer_norm2"], "v.blk.{bid}.ln2"),
    TensorRule::copy(&["tower.encoder.layers.{bid}.self_attn.q_proj"], "v.blk.{bid}.attn_q"),
    TensorRule::copy(&["tower.encoder.layers.{bid}.self_attn.k_proj"], "v.blk.{bid}.attn_k"),
    TensorRule::copy(&["tower.encoder.layers.{bid}.self_attn.v_proj"], "v.blk.{bid}.attn_v"),
    TensorRule::copy(&["tower.encoder.layers.{bid}.self_attn.out_proj"], "v.blk.{bid}.attn_out"),
    TensorRule::copy(&["tower.encoder.layers.{bid}.mlp.fc1"], "v.blk.{bid}.ffn_up"),
    TensorRule::copy(&["tower.encoder.layers.{bid}.mlp.fc2"], "v.blk.{bid}.ffn_down"),
];

const PROJECTORS: &[TensorRule] = &[
    TensorRule::copy(&["projectors.{bid}.image_positions"], "v.proj_blk.{bid}.img_pos").bare("").need(EXISTS),
    TensorRule::copy(&["projectors.{bid}.query"], "v.proj_blk.{bid}.query").bare("").need(EXISTS),
    TensorRule::copy(&["projectors.{bid}.norm"], "v.proj_blk.{bid}.norm").need(EXISTS),
    TensorRule::copy(&["projectors.{bid}.out_linear"], "v.proj_blk.{bid}.linear").need(EXISTS),
    TensorRule::copy(&["projectors.{bid}.qformer.layernorm"], "v.proj_blk.{bid}.post_norm").need(EXISTS),
];

/// Each has one layer: the file has no number for a second.
const QFORMERS: &[TensorRule] =
    qformer::layers!("projectors.{bid}.qformer.encoder.layer.0.", "v.proj_blk.{bid}.", EXISTS, EXISTS);

const EXISTS: Need = Need::If(|hparams, number| {
    hparams.get(NAMES).and_then(Json::as_array).is_some_and(|names| number < names.len() as u64)
});

/// Key for the names of Q-formers in the checkpoint, in the order of the file.
const NAMES: &str = "projectors";

fn rename(hparams: &Hparams, name: &str) -> Option<String> {
    if let Some(rest) = name.strip_prefix("model.vision_tower.") {
        return Some(format!("tower.{}", rest.strip_prefix("vision_model.").unwrap_or(rest)));
    }
    let rest = name.strip_prefix("model.")?;
    let names = hparams.get(NAMES).and_then(Json::as_array)?;
    let found = names.iter().enumerate().find_map(|(number, known)| {
        let rest = rest.strip_prefix(known.as_str()?)?.strip_prefix('.')?;
        Some(format!("projectors.{number}.{rest}"))
    });
    Some(found.unwrap_or_else(|| name.to_owned()))
}

/// One Q-former.
struct Seeing {
    /// Layer of the tower whose output it attends to.
    layer: i32,
    /// Layer of the text model that gets its output.
    target: i32,
    /// The name in the checkpoint.
    name: String,
    /// Index of its offset in a square of patches; -1 without an offset.
    offset: i32,
}

/// Q-formers in the order of the file.
fn seeing(towers: &Towers) -> Result<Vec<Seeing>, ArchError> {
    // Negative numbers count from the end.
    let count = |config: &Hparams, place: &str| {
        let n_layers = config.get("num_hidden_layers").ok_or_else(|| missing(place))?;
        to_i32(place, n_layers)
    };
    let n_vision = count(towers.vision()?, "vision_config.num_hidden_layers")?;
    let n_text = count(&towers.text, "text_config.num_hidden_layers")?;
    let layer = |key: &str, value: &Json, n_layers: i32| {
        let layer = to_i32(key, value)?;
        let layer = if layer < 0 { n_layers.saturating_add(layer) } else { layer };
        if (0..n_layers).contains(&layer) { Ok(layer) } else { Err(bad(key, value, "a layer")) }
    };
    let list = |key: &str| -> Result<Vec<Json>, ArchError> {
        match towers.whole.get(key) {
            None => Ok(Vec::new()),
            Some(Json::Array(items)) => Ok(items.clone()),
            Some(other) => Err(bad(key, other, "a list")),
        }
    };
    let mut pairs = Vec::new();
    for item in list("deepstack_layer_map")? {
        let wrong = || bad("deepstack_layer_map", &item, "pairs of layers");
        let Some([from, to]) = item.as_array().and_then(|pair| <&[Json; 2]>::try_from(pair.as_slice()).ok())
        else {
            return Err(wrong());
        };
        pairs.push((to_i32("deepstack_layer_map", from)?, to_i32("deepstack_layer_map", to)?));
    }
    // As the checkpoint numbers them: before negative numbers are resolved.
    pairs.sort_unstable();
    let mut all = Vec::new();
    for (number, (from, to)) in pairs.into_iter().enumerate() {
        all.push(Seeing {
            layer: layer("deepstack_layer_map", &from.into(), n_vision)?,
            target: layer("deepstack_layer_map", &to.into(), n_text)?,
            name: format!("layerwise_projectors.{number}"),
            offset: -1,
        });
    }
    let spatial = list("spatial_target_layers")?;
    let spatial_layer = towers.whole.get("spatial_vision_layer").cloned().unwrap_or_else(|| (-1).into());
    for (number, target) in (0i32..).zip(&spatial) {
        all.push(Seeing {
            layer: layer("spatial_vision_layer", &spatial_layer, n_vision)?,
            target: to_i32("spatial_target_layers", target)?,
            name: format!("spatial_projectors.{number}"),
            offset: number,
        });
    }
    all.sort_by_key(|one| one.target);
    Ok(all)
}

fn prepare(towers: &mut Towers) -> Result<(), ArchError> {
    let names: Vec<Json> = seeing(towers)?.into_iter().map(|one| one.name.into()).collect();
    towers.vision_mut()?.set(NAMES, names.into());
    Ok(())
}

fn keys(towers: &Towers, keys: &mut Keys) -> Result<(), ArchError> {
    tower_keys(towers, keys)?;
    let vision = towers.vision()?;
    parts::kind(keys, "granite4_vision");
    parts::epsilon(keys, "layer_norm_eps", vision, 1e-6)?;
    keys.set_prefixed("use_gelu", Value::Bool(true));
    keys.set_derived(
        "vision.preproc_image_size",
        "image_size",
        vision.get_u64("image_size")?.unwrap_or(384),
    )?;
    let rate = towers.whole.get("downsample_rate").cloned().unwrap_or_default();
    let sides = rate.as_str().and_then(|rate| rate.split_once('/'));
    let sides = sides.and_then(|(query, window)| Some((query.parse().ok()?, window.parse().ok()?)));
    let sides = sides.filter(|(query, window): &(u32, u32)| *query > 0 && *window > 0);
    let (query, window) = sides.ok_or_else(|| bad("downsample_rate", &rate, "two numbers, as in `4/8`"))?;
    keys.set_prefixed("vision.projector.query_side", Value::U32(query));
    keys.set_prefixed("vision.projector.window_side", Value::U32(window));
    let all = seeing(towers)?;
    let (layers, offsets) = all.iter().map(|one| (one.layer, one.offset)).unzip();
    keys.set_prefixed("vision.feature_layer", Value::Array(Array::I32(layers)));
    keys.set_prefixed("vision.projector.spatial_offsets", Value::Array(Array::I32(offsets)));
    pinpoints(towers, keys)
}

/// Sizes of images, (height, width) in the config and (width, height) in the file.
fn pinpoints(towers: &Towers, keys: &mut Keys) -> Result<(), ArchError> {
    const KEY: &str = "image_grid_pinpoints";
    let Some(value) = towers.whole.get(KEY) else { return Ok(()) };
    let wrong = || bad(KEY, value, "pairs of sizes");
    let mut sizes = Vec::new();
    for item in value.as_array().ok_or_else(wrong)? {
        let pair = item.as_array().filter(|pair| pair.len() == 2).ok_or_else(wrong)?;
        for size in pair.iter().rev() {
            sizes.push(to_i32(KEY, size)?);
        }
    }
    if !sizes.is_empty() {
        keys.set_prefixed("vision.image_grid_pinpoints", Value::Array(Array::I32(sizes)));
    }
    Ok(())
}
