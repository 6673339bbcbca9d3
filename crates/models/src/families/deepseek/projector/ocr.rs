//! Vision towers of DeepSeek-OCR 1 and 2 and Unlimited-OCR: SAM followed by CLIP, or by Qwen 2 as an encoder.
//!
//! Config keys: those of every tower, grouped by tower under `width`; those of SAM; numbers of tiles.
//!
//! Transforms: the separator between views becomes a row.
//!
//! Source: `DeepseekOCRVisionModel`, `UnlimitedOCRVisionModel` and `DeepseekOCR2VisionModel` in
//! `conversion/deepseek.py`.

use crate::families::siglip::projector as siglip;
use gguf_layout::projector::prelude::*;

/// The row of the first release.
pub const DEEPSEEKOCR: Projector = Projector {
    name: "deepseekocr",
    classes: &["DeepseekOCRForCausalLM"],
    example: "deepseek-ai/DeepSeek-OCR",
    tensors: &[ENDS, SAM, siglip::F32_EMBEDDINGS, CLIP],
    owns: |_, name| {
        let starts =
            ["sam_model.", "vision_model.", "qwen2_model.", "projector.", "image_newline", "view_seperator"];
        name.strip_prefix("model.").is_some_and(|name| starts.iter().any(|start| name.starts_with(start)))
    },
    rename: |_, name| parts::without("model.", name),
    prepare,
    keys: |towers, keys| self::keys(towers, keys, "deepseekocr", 9),
    ..BASE
};

/// The row of Unlimited-OCR.
pub const UNLIMITEDOCR: Projector = Projector {
    name: "unlimitedocr",
    classes: &["UnlimitedOCRForCausalLM"],
    example: "baidu/Unlimited-OCR",
    keys: |towers, keys| self::keys(towers, keys, "deepseekocr", 32),
    ..DEEPSEEKOCR
};

/// The row of the second release.
pub const DEEPSEEKOCR2: Projector = Projector {
    name: "deepseekocr2",
    classes: &["DeepseekOCR2ForCausalLM"],
    example: "deepseek-ai/DeepSeek-OCR-2",
    tensors: &[ENDS, SAM, QWEN2],
    prepare: prepare_qwen2,
    keys: |towers, keys| {
        self::keys(towers, keys, "deepseekocr2", 6)?;
        // Seven of the 14 query heads share one key head.
        keys.set_derived("vision.attention.head_count_kv", "", 2)
    },
    ..DEEPSEEKOCR
};

const ENDS: &[TensorRule] = &[
    TensorRule::copy(&["projector.layers"], "mm.model.fc"),
    // At the end of a row of patches, and between two views.
    TensorRule::copy(&["image_newline"], "v.image_newline").bare("").need(Need::Optional),
    // (width) as (1, width)
    TensorRule::copy(&["view_seperator"], "v.view_seperator").bare("").shape(ROW).float(FloatType::F32),
];

const ROW: Reshape = Reshape {
    forward: |_, dims| Ok([dims, &[1]].concat()),
    inverse: |dims| dims.iter().take(1).copied().collect(),
};

/// Whatever the reference takes for positions or convolutions by its name stays F32.
const SAM: &[TensorRule] = &[
    TensorRule::copy(&["sam_model.pos_embed"], "v.sam.pos_embd").bare(".weight").float(FloatType::F32),
    TensorRule::copy(&["sam_model.patch_embed.proj"], "v.sam.patch_embd"),
    TensorRule::copy(&["sam_model.blocks.{bid}.norm1"], "v.sam.blk.{bid}.pre_ln").need(IN_SAM),
    TensorRule::copy(&["sam_model.blocks.{bid}.norm2"], "v.sam.blk.{bid}.post_ln").need(IN_SAM),
    TensorRule::copy(&["sam_model.blocks.{bid}.attn.qkv"], "v.sam.blk.{bid}.attn.qkv").need(IN_SAM),
    TensorRule::copy(&["sam_model.blocks.{bid}.attn.proj"], "v.sam.blk.{bid}.attn.out").need(IN_SAM),
    TensorRule::copy(&["sam_model.blocks.{bid}.attn.rel_pos_h"], "v.sam.blk.{bid}.attn.pos_h")
        .bare(".weight")
        .float(FloatType::F32)
        .need(IN_SAM),
    TensorRule::copy(&["sam_model.blocks.{bid}.attn.rel_pos_w"], "v.sam.blk.{bid}.attn.pos_w")
        .bare(".weight")
        .float(FloatType::F32)
        .need(IN_SAM),
    TensorRule::copy(&["sam_model.blocks.{bid}.mlp.lin1"], "v.sam.blk.{bid}.mlp.lin1").need(IN_SAM),
    TensorRule::copy(&["sam_model.blocks.{bid}.mlp.lin2"], "v.sam.blk.{bid}.mlp.lin2").need(IN_SAM),
    // Convolution, norm, convolution, norm; then two convolutions that halve each side.
    TensorRule::copy(&["sam_model.neck.{bid}"], "v.sam.neck.{bid}").float(FloatType::F32).need(IN_NECK),
    TensorRule::copy(&["sam_model.net_2"], "v.sam.net_2").float(FloatType::F32),
    TensorRule::copy(&["sam_model.net_3"], "v.sam.net_3").float(FloatType::F32),
];

/// SAM has fewer layers than the tower after it, whose layers the file counts.
const IN_SAM: Need = Need::If(|hparams, bid| {
    let layers = hparams.get("sam").and_then(|sam| sam.get("layers")).and_then(Json::as_u64);
    layers.is_some_and(|layers| bid < layers)
});
const IN_NECK: Need = Need::If(|_, bid| bid < 4);

const CLIP: &[TensorRule] = &[
    TensorRule::copy(&["vision_model.embeddings.class_embedding"], "v.class_embd").bare(""),
    // The checkpoint's own spelling.
    TensorRule::copy(&["vision_model.pre_layrnorm"], "v.pre_ln"),
    TensorRule::copy(&["vision_model.transformer.layers.{bid}.layer_norm1"], "v.blk.{bid}.ln1"),
    TensorRule::copy(&["vision_model.transformer.layers.{bid}.layer_norm2"], "v.blk.{bid}.ln2"),
    TensorRule::copy(&["vision_model.transformer.layers.{bid}.self_attn.qkv_proj"], "v.blk.{bid}.attn_qkv"),
    TensorRule::copy(&["vision_model.transformer.layers.{bid}.self_attn.out_proj"], "v.blk.{bid}.attn_out"),
    TensorRule::copy(&["vision_model.transformer.layers.{bid}.mlp.fc1"], "v.blk.{bid}.ffn_up"),
    TensorRule::copy(&["vision_model.transformer.layers.{bid}.mlp.fc2"], "v.blk.{bid}.ffn_down"),
];

const QWEN2: &[TensorRule] = &[
    TensorRule::copy(&["qwen2_model.model.model.layers.{bid}.input_layernorm"], "v.blk.{bid}.ln1"),
    TensorRule::copy(&["qwen2_model.model.model.layers.{bid}.post_attention_layernorm"], "v.blk.{bid}.ln2"),
    TensorRule::copy(&["qwen2_model.model.model.layers.{bid}.self_attn.q_proj"], "v.blk.{bid}.attn_q"),
    TensorRule::copy(&["qwen2_model.model.model.layers.{bid}.self_attn.k_proj"], "v.blk.{bid}.attn_k"),
    TensorRule::copy(&["qwen2_model.model.model.layers.{bid}.self_attn.v_proj"], "v.blk.{bid}.attn_v"),
    TensorRule::copy(&["qwen2_model.model.model.layers.{bid}.self_attn.o_proj"], "v.blk.{bid}.attn_out"),
    TensorRule::copy(&["qwen2_model.model.model.layers.{bid}.mlp.gate_proj"], "v.blk.{bid}.ffn_gate"),
    TensorRule::copy(&["qwen2_model.model.model.layers.{bid}.mlp.up_proj"], "v.blk.{bid}.ffn_up"),
    TensorRule::copy(&["qwen2_model.model.model.layers.{bid}.mlp.down_proj"], "v.blk.{bid}.ffn_down"),
    TensorRule::copy(&["qwen2_model.model.model.norm"], "v.post_ln"),
    // Queries for images of either size.
    TensorRule::copy(&["qwen2_model.query_768"], "v.resample_query_768"),
    TensorRule::copy(&["qwen2_model.query_1024"], "v.resample_query_1024"),
];

/// `width` contains a config for each tower; those of CLIP win over what stands around them.
fn prepare(towers: &mut Towers) -> Result<(), ArchError> {
    let vision = towers.vision_mut()?;
    let by_tower = vision.get("width").cloned().unwrap_or_default();
    let sam = by_tower.get("sam_vit_b").cloned().ok_or_else(|| missing("vision_config.width.sam_vit_b"))?;
    vision.set("sam", sam);
    if let Some(Json::Object(clip)) = by_tower.get("clip-l-14-224") {
        for (key, value) in clip {
            vision.set(key, value.clone());
        }
    }
    if let Some(width) = vision.get("width").filter(|width| width.is_u64()).cloned() {
        vision.set("hidden_size", width);
    }
    if let Some(heads) = vision.get_u64("heads")? {
        vision.set("num_heads", heads.into());
        // The reference's value; CLIP's feed-forward part has the length of its tensors.
        vision.set("intermediate_size", heads.saturating_mul(4).into());
    }
    Ok(())
}

/// The sizes of Qwen 2 as an encoder are in the model's code.
fn prepare_qwen2(towers: &mut Towers) -> Result<(), ArchError> {
    prepare(towers)?;
    let vision = towers.vision_mut()?;
    let width = vision.get("width").and_then(|by_tower| by_tower.get("qwen2-0-5b")?.get("dim")).cloned();
    vision.set("hidden_size", width.ok_or_else(|| missing("vision_config.width.qwen2-0-5b.dim"))?);
    for (key, value) in
        [("layers", 24), ("patch_size", 16), ("intermediate_size", 4864), ("num_attention_heads", 14)]
    {
        if vision.get(key).is_none() {
            vision.set(key, value.into());
        }
    }
    Ok(())
}

fn keys(towers: &Towers, keys: &mut Keys, kind: &str, most_tiles: u64) -> Result<(), ArchError> {
    tower_keys(towers, keys)?;
    let vision = towers.vision()?;
    parts::kind(keys, kind);
    parts::epsilon(keys, "layer_norm_eps", vision, 1e-6)?;
    keys.set_prefixed("use_gelu", Value::Bool(true));
    // Patches on a side for each token on a side.
    let length = towers.preprocessor.get_f64("image_seq_length")?.unwrap_or(256.0);
    let patches = vision.need_u64(&["image_size"])?.checked_div(vision.need_u64(&["patch_size"])?);
    let scale = patches.and_then(|patches| patches.checked_div(length.sqrt() as u64));
    let scale = scale.ok_or_else(|| bad("image_seq_length", &length.into(), "an integer above 0"))?;
    // llama.cpp's default is 4.
    if scale > 0 && scale != 4 {
        keys.set_derived("vision.projector.scale_factor", "", scale)?;
    }
    keys.set_derived("vision.window_size", "window_size", vision.get_u64("window_size")?.unwrap_or(14))?;
    keys.set_derived("vision.preproc_min_tiles", "", 2)?;
    keys.set_derived("vision.preproc_max_tiles", "", most_tiles)?;
    for (key, name) in [
        ("vision.sam.block_count", "layers"),
        ("vision.sam.embedding_length", "width"),
        ("vision.sam.head_count", "heads"),
    ] {
        let count = vision.get("sam").and_then(|sam| sam.get(name)).and_then(Json::as_u64);
        let count = count.ok_or_else(|| missing(&format!("vision_config.width.sam_vit_b.{name}")))?;
        keys.set_derived(key, name, count)?;
    }
    Ok(())
}
