//! Towers of Pixtral and of Mistral 3, as transformers has them.
//!
//! Config keys: those of every tower; how many patches of a side are merged.
//!
//! Transforms: rotary halves of queries and keys are interleaved, as llama's. The embedding of the token that ends a row of
//! patches comes from the text model.
//!
//! Source: `LlavaVisionModel` in `conversion/llava.py`. It looks for that embedding among names without `language_model.`
//! alone, which no checkpoint has any more; llama.cpp does not load a file without it.

use gguf_layout::projector::prelude::*;

pub const PIXTRAL: Projector = Projector {
    name: "pixtral",
    classes: &["LlavaForConditionalGeneration", "Mistral3ForConditionalGeneration"],
    example: "mistralai/Mistral-Small-3.1-24B-Instruct-2503",
    vision: Some(Tower { classes: &[ConfigClass::new("pixtral")], ..VISION }),
    tensors: &[TOWER, PROJECTION, ROW_END],
    owns,
    rename,
    asks_tokens: true,
    prepare,
    keys,
    ..BASE
};

/// The tower.
pub const TOWER: &[TensorRule] = &[
    TensorRule::copy(&["vision_tower.patch_conv"], "v.patch_embd"),
    TensorRule::copy(&["vision_tower.ln_pre"], "v.pre_ln"),
    TensorRule::copy(&["vision_tower.transformer.layers.{bid}.attention_norm"], "v.blk.{bid}.ln1"),
    TensorRule::copy(&["vision_tower.transformer.layers.{bid}.ffn_norm"], "v.blk.{bid}.ln2"),
    TensorRule::copy(&["vision_tower.transformer.layers.{bid}.attention.q_proj"], "v.blk.{bid}.attn_q")
        .rows(RowRule::PermuteQ),
    // This tower has as many key heads as heads: keys are permuted like queries.
    TensorRule::copy(&["vision_tower.transformer.layers.{bid}.attention.k_proj"], "v.blk.{bid}.attn_k")
        .rows(RowRule::PermuteQ),
    TensorRule::copy(&["vision_tower.transformer.layers.{bid}.attention.v_proj"], "v.blk.{bid}.attn_v"),
    TensorRule::copy(&["vision_tower.transformer.layers.{bid}.attention.o_proj"], "v.blk.{bid}.attn_out"),
    TensorRule::copy(
        &["vision_tower.transformer.layers.{bid}.feed_forward.gate_proj"],
        "v.blk.{bid}.ffn_gate",
    ),
    TensorRule::copy(&["vision_tower.transformer.layers.{bid}.feed_forward.up_proj"], "v.blk.{bid}.ffn_up"),
    TensorRule::copy(
        &["vision_tower.transformer.layers.{bid}.feed_forward.down_proj"],
        "v.blk.{bid}.ffn_down",
    ),
];

/// Norm, merger of patches (both of Mistral 3 alone) and two matrices.
pub const PROJECTION: &[TensorRule] = &[
    TensorRule::copy(&["multi_modal_projector.norm"], "mm.input_norm").need(Need::Optional),
    TensorRule::copy(&["multi_modal_projector.patch_merger.merging_layer"], "mm.patch_merger")
        .need(Need::Optional),
    TensorRule::copy(&["multi_modal_projector.linear_1"], "mm.1"),
    TensorRule::copy(&["multi_modal_projector.linear_2"], "mm.2"),
];

const ROW_END: &[TensorRule] = &[TensorRule::copy(&["embed_tokens.weight"], "v.token_embd.img_break")
    .bare("")
    .rows(RowRule::TokenRow(|hparams| hparams.get_u64(BREAK).ok().flatten().unwrap_or(0)))
    .need(Need::If(|hparams, _| hparams.get(BREAK).is_some()))];

/// Key next to the tower's config that contains the token id.
const BREAK: &str = "image_break_token_id";

fn owns(hparams: &Hparams, name: &str) -> bool {
    let inner = name.strip_prefix("model.").unwrap_or(name);
    inner.starts_with("vision_tower.")
        || inner.starts_with("multi_modal_projector.")
        || (hparams.get(BREAK).is_some() && name.ends_with("embed_tokens.weight"))
}

fn rename(_: &Hparams, name: &str) -> Option<String> {
    if name.ends_with("embed_tokens.weight") {
        // The text model's (vocab, width), whatever stands before its name: one row is taken.
        return Some("embed_tokens.weight".to_owned());
    }
    parts::without("model.", name)
}

fn prepare(towers: &mut Towers) -> Result<(), ArchError> {
    let token = towers.token("[IMG_BREAK]");
    let vision = towers.vision_mut()?;
    if vision.get("model_type").is_none_or(|model_type| model_type != "pixtral") {
        let model_type = vision.get("model_type").cloned().unwrap_or_default();
        return Err(bad("vision_config.model_type", &model_type, "pixtral"));
    }
    let token = token.ok_or_else(|| missing_token("[IMG_BREAK]"))?;
    // The first token cannot be it.
    if token > 0 {
        vision.set(BREAK, token.into());
    }
    Ok(())
}

fn keys(towers: &Towers, keys: &mut Keys) -> Result<(), ArchError> {
    pixtral_keys(towers, keys, "pixtral")
}

/// Keys of a tower of Pixtral.
pub fn pixtral_keys(towers: &Towers, keys: &mut Keys, kind: &str) -> Result<(), ArchError> {
    tower_keys(towers, keys)?;
    let vision = towers.vision()?;
    parts::kind(keys, kind);
    parts::epsilon(keys, "layer_norm_eps", vision, 1e-5)?;
    parts::activation(keys, vision, "hidden_act")?;
    // Mistral 3 merges patches, Pixtral does not.
    if let Some(size) = towers.whole.get("spatial_merge_size") {
        let size = to_u32("spatial_merge_size", size)?;
        keys.set_prefixed("vision.spatial_merge_size", Value::U32(size));
    }
    Ok(())
}
