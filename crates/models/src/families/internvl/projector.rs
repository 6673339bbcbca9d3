//! Towers of InternVL and Intern-S1, in both of their spellings.
//!
//! Config keys: those of every tower; the ratio by which patches are merged; the numbers of tiles of an image.
//!
//! Transforms: queries, keys and values come apart where they are one matrix.
//!
//! Source: `InternVisionModel` in `conversion/internvl.py`. It finds nothing in what transformers 5 saves without `model.`
//! before its names, and writes a file of no tensors.

use gguf_layout::projector::prelude::*;

pub const INTERNVL: Projector = Projector {
    name: "internvl",
    classes: &["InternVisionModel", "InternVLForConditionalGeneration"],
    example: "OpenGVLab/InternVL3-2B",
    vision: Some(Tower { classes: &[ConfigClass::new("internvl_vision")], ..VISION }),
    tensors: &[EMBEDDINGS, LAYERS, PROJECTION],
    owns: |_, name| {
        let name = name.strip_prefix("model.").unwrap_or(name);
        ["vision_model.", "mlp1.", "vision_tower.", "multi_modal_projector."]
            .iter()
            .any(|start| name.starts_with(start))
    },
    rename: |_, name| parts::without("model.", name),
    prepare,
    keys,
    ..BASE
};

/// Each under its name in the authors' code and in transformers.
const EMBEDDINGS: &[TensorRule] = &[
    TensorRule::copy(
        &["vision_model.embeddings.class_embedding", "vision_tower.embeddings.cls_token"],
        "v.class_embd",
    )
    .bare(""),
    TensorRule::copy(
        &["vision_model.embeddings.patch_embedding", "vision_tower.embeddings.patch_embeddings.projection"],
        "v.patch_embd",
    ),
    TensorRule::copy(
        &["vision_model.embeddings.position_embedding", "vision_tower.embeddings.position_embeddings"],
        "v.position_embd",
    )
    .bare(".weight"),
];

const LAYERS: &[TensorRule] = &[
    TensorRule::copy(
        &["vision_model.encoder.layers.{bid}.norm1", "vision_tower.encoder.layer.{bid}.layernorm_before"],
        "v.blk.{bid}.ln1",
    ),
    TensorRule::copy(
        &["vision_model.encoder.layers.{bid}.norm2", "vision_tower.encoder.layer.{bid}.layernorm_after"],
        "v.blk.{bid}.ln2",
    ),
    // (3 n, n) in the authors' code: queries, keys, values. In transformers they are three matrices.
    TensorRule::part(
        &["vision_model.encoder.layers.{bid}.attn.qkv"],
        "v.blk.{bid}.attn_q",
        parts::third::<0>,
    )
    .need(Need::Optional),
    TensorRule::part(
        &["vision_model.encoder.layers.{bid}.attn.qkv"],
        "v.blk.{bid}.attn_k",
        parts::third::<1>,
    )
    .need(Need::Optional),
    TensorRule::part(
        &["vision_model.encoder.layers.{bid}.attn.qkv"],
        "v.blk.{bid}.attn_v",
        parts::third::<2>,
    )
    .need(Need::Optional),
    TensorRule::copy(&["vision_tower.encoder.layer.{bid}.attention.q_proj"], "v.blk.{bid}.attn_q"),
    TensorRule::copy(&["vision_tower.encoder.layer.{bid}.attention.k_proj"], "v.blk.{bid}.attn_k"),
    TensorRule::copy(&["vision_tower.encoder.layer.{bid}.attention.v_proj"], "v.blk.{bid}.attn_v"),
    TensorRule::copy(
        &[
            "vision_model.encoder.layers.{bid}.attn.q_norm",
            "vision_tower.encoder.layer.{bid}.attention.q_norm",
        ],
        "v.blk.{bid}.attn_q_norm",
    )
    .need(Need::Optional),
    TensorRule::copy(
        &[
            "vision_model.encoder.layers.{bid}.attn.k_norm",
            "vision_tower.encoder.layer.{bid}.attention.k_norm",
        ],
        "v.blk.{bid}.attn_k_norm",
    )
    .need(Need::Optional),
    TensorRule::copy(
        &[
            "vision_model.encoder.layers.{bid}.attn.proj",
            "vision_tower.encoder.layer.{bid}.attention.projection_layer",
        ],
        "v.blk.{bid}.attn_out",
    ),
    TensorRule::copy(
        &["vision_model.encoder.layers.{bid}.ls1", "vision_tower.encoder.layer.{bid}.lambda_1"],
        "v.blk.{bid}.ls1",
    )
    .bare(".weight"),
    TensorRule::copy(
        &["vision_model.encoder.layers.{bid}.ls2", "vision_tower.encoder.layer.{bid}.lambda_2"],
        "v.blk.{bid}.ls2",
    )
    .bare(".weight"),
    TensorRule::copy(
        &["vision_model.encoder.layers.{bid}.mlp.fc1", "vision_tower.encoder.layer.{bid}.mlp.fc1"],
        "v.blk.{bid}.ffn_up",
    ),
    TensorRule::copy(
        &["vision_model.encoder.layers.{bid}.mlp.fc2", "vision_tower.encoder.layer.{bid}.mlp.fc2"],
        "v.blk.{bid}.ffn_down",
    ),
];

const PROJECTION: &[TensorRule] = &[
    TensorRule::copy(&["mlp1.0", "multi_modal_projector.layer_norm"], "mm.model.mlp.0"),
    TensorRule::copy(&["mlp1.1", "multi_modal_projector.linear_1"], "mm.model.mlp.1"),
    // `mlp1.2` has no weights.
    TensorRule::copy(&["mlp1.3", "multi_modal_projector.linear_2"], "mm.model.mlp.3"),
];

fn prepare(towers: &mut Towers) -> Result<(), ArchError> {
    let vision = towers.vision_mut()?;
    // A size for each side.
    for key in ["image_size", "patch_size"] {
        if let Some(first) = vision.get(key).and_then(|size| size.get(0)).cloned() {
            vision.set(key, first);
        }
    }
    Ok(())
}

fn keys(towers: &Towers, keys: &mut Keys) -> Result<(), ArchError> {
    tower_keys(towers, keys)?;
    let (whole, vision) = (&towers.whole, towers.vision()?);
    parts::kind(keys, "internvl");
    let epsilon = vision.need_f64("layer_norm_eps")?;
    keys.set_prefixed("vision.attention.layer_norm_epsilon", Value::F32(epsilon as f32));
    parts::activation(keys, vision, "hidden_act")?;
    // transformers' config class knows this ratio if the file does not say it.
    let ratio = match whole.get_f64("downsample_ratio")? {
        None if whole.get("model_type").is_some_and(|model_type| model_type == "internvl") => 0.5,
        ratio => ratio.ok_or_else(|| missing("downsample_ratio"))?,
    };
    // A ratio of 0.5 by side makes one of 2 x 2 patches: the key says 2.
    parts::inverse(keys, "downsample_ratio", ratio)?;
    for (key, name) in
        [("preproc_min_tiles", "min_dynamic_patch"), ("preproc_max_tiles", "max_dynamic_patch")]
    {
        if let Some(n_tiles) = whole.get_u64(name)?.filter(|n_tiles| *n_tiles > 0) {
            keys.set_derived(&format!("vision.{key}"), name, n_tiles)?;
        }
    }
    Ok(())
}
