//! DeepSeek-OCR 1 and 2, Unlimited-OCR: text parts, with plain attention instead of DeepSeek 2's.
//!
//! Config keys: those of DeepSeek 2 except those of latent attention; a sliding window; a template that
//! contains only the messages.
//!
//! Transforms: experts become one tensor.
//!
//! Source: `DeepseekV2Model` in `conversion/deepseek.py`.

use crate::parts::latent::{self, LATENT};
use crate::prelude::*;

pub const DEEPSEEK2_OCR: Arch = Arch {
    name: "deepseek2-ocr",
    classes: &[
        Class::new("DeepseekOCRForCausalLM"),
        Class::new("UnlimitedOCRForCausalLM"),
        // The classes of transformers.
        Class::new("DeepseekOcr2ForConditionalGeneration"),
        Class::new("UnlimitedOcrForConditionalGeneration"),
        // Class name of the text part of the others.
        Class::new("DeepseekV2ForCausalLM"),
    ],
    fits: Some(|input| {
        let class =
            input.config.get("architectures").and_then(|classes| classes.get(0)).and_then(Json::as_str);
        class.is_some_and(|class| CLASSES.contains(&class))
    }),
    example: "deepseek-ai/DeepSeek-OCR",
    configs: &[],
    needs: &["hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size"],
    tensors: &[
        rules::DECODER_ENDS,
        rules::PRE_NORMS,
        rules::ATTENTION,
        &rules::gated_mlp(Need::If(|hparams, bid| !latent::is_mixture(hparams, bid))),
        &rules::qwen_experts(Need::If(latent::is_mixture)),
        &rules::shared_experts(Need::If(latent::has_shared)),
        latent::CORRECTION,
    ],
    keys,
    drops: |hparams, name| {
        let is_tower = ["sam_model", "qwen2_model"].iter().any(|part| name.contains(part));
        let tower = is_tower.then_some("part of an image, sound or speech model");
        tower.or_else(|| (LATENT.drops)(hparams, name))
    },
    prepare: |hparams, _| prepare(hparams),
    from_file,
    harmless: &["hidden_act=silu", "layer_types"],
    built_in: &[HAS_NO_WINDOW, HAS_NO_WINDOW_SIZE],
    ..LATENT
};

const CLASSES: &[&str] = &[
    "DeepseekOCRForCausalLM",
    "DeepseekOCR2ForCausalLM",
    "UnlimitedOCRForCausalLM",
    "DeepseekOcr2ForConditionalGeneration",
    "UnlimitedOcrForConditionalGeneration",
];

/// transformers lists the kinds of the layers instead of counting those without experts.
fn prepare(hparams: Hparams) -> Result<Hparams, ArchError> {
    let Some(kinds) = hparams.get("mlp_layer_types").filter(|kinds| kinds.is_array()) else {
        return Ok(hparams);
    };
    let listed: Vec<bool> = kinds.as_array().into_iter().flatten().map(|kind| kind == "dense").collect();
    let dense = listed.iter().take_while(|is_dense| **is_dense).count();
    if listed.iter().skip(dense).any(|is_dense| *is_dense) {
        return Err(bad("mlp_layer_types", kinds, "dense layers before all others"));
    }
    Ok(hparams.with("first_k_dense_replace", dense.into()))
}

fn keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    // Messages in order, without roles or marks.
    keys.set_early_whole(token_keys::CHAT_TEMPLATE, "{% for m in messages %}{{m['content']}}{% endfor %}");
    match hparams.get("rms_norm_eps") {
        Some(_) => text_keys(hparams, keys)?,
        None => text_keys(&hparams.with("rms_norm_eps", 1e-6.into()), keys)?,
    }
    latent::dense_keys(hparams, keys)?;
    latent::expert_keys(hparams, keys)?;
    let rotated = hparams.get_u64("qk_rope_head_dim")?.unwrap_or(0);
    keys.set_derived("rope.dimension_count", "qk_rope_head_dim", rotated)?;
    // The window has two names; 0 means no window.
    let window = |key| hparams.get_u64(key).map(|window| window.filter(|window| *window > 0));
    keys.derived_from("attention.sliding_window", &["sliding_window"]);
    if let Some(window) =
        window("sliding_window_size")?.map_or_else(|| window("sliding_window"), |w| Ok(Some(w)))?
    {
        keys.set_derived("attention.sliding_window", "sliding_window", window)?;
    }
    Ok(())
}

/// Plain attention has none of the lengths that DeepSeek 2's has.
fn from_file(file: &FileKeys<'_>, config: &mut Map<String, Json>) {
    for (name, key) in [
        ("n_routed_experts", "expert_count"),
        ("n_shared_experts", "expert_shared_count"),
        ("first_k_dense_replace", "leading_dense_block_count"),
        ("moe_intermediate_size", "expert_feed_forward_length"),
    ] {
        set(config, name, file.count(key));
    }
    config.remove("num_local_experts");
    for name in ["qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim"] {
        config.insert(name.into(), 0.into());
    }
    config.insert("use_mla".into(), false.into());
    config.insert("kv_lora_rank".into(), Json::Null);
}
