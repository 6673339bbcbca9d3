//! SigLIP 2 of Phi-4 with images, and two matrices.
//!
//! Config keys: those of every tower; the smallest and the largest number of patches.
//!
//! Transforms: the matrix of patches becomes kernels, channels first. The last layer is dropped, because the text model uses the
//! output of the layer before it.
//!
//! Source: `Phi4VisionMmprojModel` in `conversion/phi.py`.

use gguf_layout::projector::prelude::*;

pub const PHI4: Projector = Projector {
    name: "phi4",
    classes: &["Phi4ForCausalLMV"],
    example: "microsoft/Phi-4-reasoning-vision-15B",
    vision: Some(Tower { classes: &[ConfigClass::new("siglip2_vision_model")], ..VISION }),
    tensors: &[TOWER, LAYERS, MATRICES],
    owns: |_, name| {
        let name = name.strip_prefix("model.").unwrap_or(name);
        name.starts_with("vision_tower.") || name.starts_with("mm_projector.")
    },
    drops,
    rename: |_, name| {
        let name = name.strip_prefix("model.").unwrap_or(name);
        Some(name.replacen("vision_tower.vision_tower.", "vision_tower.", 1))
    },
    asks_shape: |name| name.ends_with(POSITIONS),
    prepare,
    keys,
    ..BASE
};

const POSITIONS: &str = "vision_model.embeddings.position_embedding.weight";

const TOWER: &[TensorRule] = &[
    TensorRule::part(
        &["vision_tower.vision_model.embeddings.patch_embedding.weight"],
        "v.patch_embd",
        |hparams, _| Ok(parts::channels_first(hparams.need_u64(&["patch_size"])?)),
    )
    .bare(".weight")
    .shape(Reshape {
        forward: |hparams, dims| parts::kernel(dims, hparams.need_u64(&["patch_size"])?),
        inverse: parts::unkernel,
    }),
    TensorRule::copy(&["vision_tower.vision_model.embeddings.patch_embedding.bias"], "v.patch_embd")
        .bare(".bias"),
    TensorRule::copy(&["vision_tower.vision_model.embeddings.position_embedding"], "v.position_embd"),
];

const LAYERS: &[TensorRule] = &[
    TensorRule::copy(&["vision_tower.vision_model.encoder.layers.{bid}.layer_norm1"], "v.blk.{bid}.ln1"),
    TensorRule::copy(&["vision_tower.vision_model.encoder.layers.{bid}.layer_norm2"], "v.blk.{bid}.ln2"),
    TensorRule::copy(
        &["vision_tower.vision_model.encoder.layers.{bid}.self_attn.q_proj"],
        "v.blk.{bid}.attn_q",
    ),
    TensorRule::copy(
        &["vision_tower.vision_model.encoder.layers.{bid}.self_attn.k_proj"],
        "v.blk.{bid}.attn_k",
    ),
    TensorRule::copy(
        &["vision_tower.vision_model.encoder.layers.{bid}.self_attn.v_proj"],
        "v.blk.{bid}.attn_v",
    ),
    TensorRule::copy(
        &["vision_tower.vision_model.encoder.layers.{bid}.self_attn.out_proj"],
        "v.blk.{bid}.attn_out",
    ),
    TensorRule::copy(&["vision_tower.vision_model.encoder.layers.{bid}.mlp.fc1"], "v.blk.{bid}.ffn_up"),
    TensorRule::copy(&["vision_tower.vision_model.encoder.layers.{bid}.mlp.fc2"], "v.blk.{bid}.ffn_down"),
];

const MATRICES: &[TensorRule] =
    &[TensorRule::copy(&["mm_projector.0"], "mm.0"), TensorRule::copy(&["mm_projector.2"], "mm.2")];

fn drops(hparams: &Hparams, name: &str) -> Option<&'static str> {
    if name.contains(".vision_model.head.") {
        return Some("the head of SigLIP, which no projector uses");
    }
    if name.contains(".vision_model.post_layernorm.") {
        return Some("a norm after the last layer, whose output is not used");
    }
    let n_layers = hparams.n_layers().ok()?;
    let (_, rest) = name.split_once(".encoder.layers.")?;
    let layer: u64 = rest.split('.').next()?.parse().ok()?;
    (layer == n_layers).then_some("the last layer, whose output is not used")
}

fn prepare(towers: &mut Towers) -> Result<(), ArchError> {
    let patch = towers.preprocessor.get("patch_size");
    let patch = patch.ok_or_else(|| missing_in(PREPROCESSORS[0], "patch_size"))?;
    let patch = u64::from(to_u32("patch_size", patch)?);
    let positions = towers.shapes.first().ok_or_else(|| ArchError::MissingTensors {
        names: vec![format!("model.vision_tower.vision_tower.{POSITIONS}")],
    })?;
    let n_positions = positions.1.n_rows();
    let side = n_positions.isqrt();
    if side * side != n_positions {
        return Err(ArchError::TensorShape {
            name: positions.0.clone(),
            found: positions.1,
            expected: "a square number of positions".into(),
        });
    }
    let vision = towers.vision_mut()?;
    vision.set("patch_size", patch.into());
    vision.set("image_size", side.saturating_mul(patch).into());
    let n_layers = vision.need_u64(&["num_hidden_layers"])?;
    if n_layers < 2 {
        return Err(bad("vision_config.num_hidden_layers", &n_layers.into(), "at least 2"));
    }
    vision.set("num_hidden_layers", (n_layers - 1).into());
    Ok(())
}

fn keys(towers: &Towers, keys: &mut Keys) -> Result<(), ArchError> {
    tower_keys(towers, keys)?;
    let vision = towers.vision()?;
    parts::kind(keys, "phi4");
    let patch = vision.need_u64(&["patch_size"])?;
    for (key, name) in
        [("vision.image_min_pixels", "min_num_patches"), ("vision.image_max_pixels", "max_num_patches")]
    {
        let value = towers.preprocessor.get(name).or_else(|| towers.whole.get(name));
        let value = u64::from(to_u32(name, value.ok_or_else(|| missing_in(PREPROCESSORS[0], name))?)?);
        keys.set_derived(key, name, value.saturating_mul(patch).saturating_mul(patch))?;
    }
    keys.set_prefixed("use_gelu", Value::Bool(true));
    parts::epsilon(keys, "layer_norm_eps", vision, 1e-6)
}
