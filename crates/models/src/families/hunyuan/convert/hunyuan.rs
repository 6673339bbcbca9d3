//! Hunyuan: dense models, mixtures of experts, and the text part of Hunyuan OCR and VL.
//!
//! Config keys: those of every text model; with RoPE scaling of type `dynamic`, an enlarged base; for
//! mixtures, lengths and counts of experts, which the config lists by layer and which are all equal; for the
//! text part, the sections of the rotated dimensions.
//!
//! Transforms: experts become one tensor. A tied output matrix is left out.
//!
//! Source: `HunYuanModel`, `HunYuanMoEModel` and `HunyuanVLTextModel` in `conversion/hunyuan.py`.

use crate::parts::latent::drop_tied;
use crate::prelude::*;

pub const HUNYUAN_DENSE: Arch = Arch {
    name: "hunyuan-dense",
    classes: &[Class::new("HunYuanDenseV1ForCausalLM")],
    example: "tencent/Hunyuan-4B-Instruct",
    configs: &[ConfigClass::new("hunyuan_v1_dense")],
    tensors: &[rules::DECODER_ENDS, rules::PRE_NORMS, rules::ATTENTION, QK_NORMS, rules::GATED_MLP],
    keys: dense_keys,
    drops: drop_tied,
    vocab: ROUTE,
    from_file,
    harmless: &[
        "cla_share_factor",
        "hidden_act=silu",
        "norm_type=rms",
        "rope_parameters.beta_fast",
        "use_rotary_pos_emb=true",
    ],
    ..DECODER
};

/// Byte-level BPE, with `eod_token_id` of the config as eos and the first eos of generation_config.json, if it has
/// several, as `eot`: other configs are wrong.
///
/// Source: `HunYuanModel.set_vocab` in `conversion/hunyuan.py`.
const ROUTE: Route = Route {
    turn_end_first: true,
    ..Route::new("hunyuan_dense", |writer| {
        writer.gpt2(&BpeStyle::GPT2)?;
        if let Some(id) = writer.ctx.end_of_document.and_then(|id| u32::try_from(id).ok()) {
            writer.set(token_keys::EOS_ID, id);
        }
        let eos = writer.input.generation_config.and_then(|config| config.get("eos_token_id")?.as_array());
        let first = eos.filter(|eos| eos.len() >= 2).and_then(|eos| eos[0].as_u64());
        if let Some(id) = first.and_then(|id| u32::try_from(id).ok()) {
            writer.set(token_keys::EOT_ID, id);
        }
        Ok(())
    })
};

/// The row of the text part of models with eyes.
pub const HUNYUAN_VL: Arch = Arch {
    name: "hunyuan_vl",
    classes: &[Class::new("HunYuanVLForConditionalGeneration")],
    example: "tencent/HunyuanOCR",
    configs: &[VL_CONFIG],
    keys: vl_keys,
    // llama.cpp sets the fourth position of text tokens to 0.
    built_in: &[BuiltIn::unless(
        "rope_parameters.mrope_section",
        "no rotation of the fourth section",
        |_, sections| sections.get(3).is_none_or(|pairs| *pairs == 0),
    )],
    ..HUNYUAN_DENSE
};

pub const HUNYUAN_MOE: Arch = Arch {
    name: "hunyuan-moe",
    classes: &[Class::new("HunYuanMoEV1ForCausalLM")],
    example: "tencent/Hunyuan-A13B-Instruct",
    configs: &[ConfigClass::new("hunyuan_v1_moe")],
    tensors: &[rules::DECODER_ENDS, rules::PRE_NORMS, rules::ATTENTION, QK_NORMS, EXPERTS],
    keys: moe_keys,
    vocab: Route { name: "hunyuan", ..Route::GPT2 },
    built_in: &[NORMALIZES_EXPERTS],
    ..HUNYUAN_DENSE
};

const QK_NORMS: &[TensorRule] = &[
    TensorRule::copy(&["model.layers.{bid}.self_attn.query_layernorm"], "blk.{bid}.attn_q_norm"),
    TensorRule::copy(&["model.layers.{bid}.self_attn.key_layernorm"], "blk.{bid}.attn_k_norm"),
];

const EXPERTS: &[TensorRule] = &[
    // (experts, hidden): scores of the experts; `wg` is a matrix below the gate.
    TensorRule::copy(&["model.layers.{bid}.mlp.gate.wg"], "blk.{bid}.ffn_gate_inp"),
    TensorRule::stack(&["model.layers.{bid}.mlp.experts.{xid}.down_proj"], "blk.{bid}.ffn_down_exps"),
    TensorRule::stack(&["model.layers.{bid}.mlp.experts.{xid}.gate_proj"], "blk.{bid}.ffn_gate_exps"),
    TensorRule::stack(&["model.layers.{bid}.mlp.experts.{xid}.up_proj"], "blk.{bid}.ffn_up_exps"),
    // The shared expert stays three separate matrices.
    TensorRule::copy(&["model.layers.{bid}.mlp.shared_mlp.gate_proj"], "blk.{bid}.ffn_gate_shexp"),
    TensorRule::copy(&["model.layers.{bid}.mlp.shared_mlp.up_proj"], "blk.{bid}.ffn_up_shexp"),
    TensorRule::copy(&["model.layers.{bid}.mlp.shared_mlp.down_proj"], "blk.{bid}.ffn_down_shexp"),
];

/// The length that models with `dynamic` scaling are good for; their configs say less.
const LENGTH: u64 = 256 * 1024;

/// Sets the base of rotary scaling with `alpha` over `dim` dimensions: with base b it becomes b alpha^(dim / (dim - 2)).
fn scaled_base(hparams: &Hparams, keys: &mut Keys, dim: u64, alpha: f64) -> Result<(), ArchError> {
    let rope = hparams.rope();
    let (alpha, base) = (rope.f64_or("alpha", alpha)?, rope.f64_or("rope_theta", 10_000.0)?);
    // The exponent dim / (dim - 2) has no value at 2, and is no enlargement below.
    if dim <= 2 {
        return Err(bad("head_dim", &dim.into(), "more than 2"));
    }
    // Base 10000, alpha 1000, heads of 128: 10000 * 1000^(128 / 126), about 1.116e7.
    let base = base * alpha.powf(dim as f64 / (dim as f64 - 2.0));
    keys.derived_from("rope.freq_base", &["rope_parameters.alpha"]);
    keys.set_prefixed("rope.freq_base", Value::F32(base as f32));
    // All of the scaling is in the base now: llama.cpp must not scale a second time.
    keys.set_prefixed("rope.scaling.type", "none".into());
    keys.set_prefixed("rope.scaling.factor", Value::F32(1.0));
    Ok(())
}

/// Sets the length of files with `dynamic` scaling, after the checks that the reference makes.
fn fixed_length(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    let base = hparams.rope().f64_or("rope_theta", 10_000.0)?;
    if base != 10_000.0 {
        return Err(bad("rope_parameters.rope_theta", &base.into(), "10000 with dynamic scaling"));
    }
    match hparams.need_u64(&["max_position_embeddings"])? {
        // Configs say the first, or the second, which is written in any case.
        32_768 | LENGTH => {}
        other => {
            return Err(bad(
                "max_position_embeddings",
                &other.into(),
                "32768 or 262144 with dynamic scaling",
            ));
        }
    }
    keys.set_derived("rope.scaling.original_context_length", "", LENGTH)?;
    keys.set_derived("context_length", "", LENGTH)
}

fn dense_keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    // Some configs count one expert, which is not a mixture.
    text_keys(&hparams.without("num_experts"), keys)?;
    match hparams.rope().kind() {
        Some("dynamic") => {
            scaled_base(hparams, keys, hparams.need_u64(&["head_dim"])?, 50.0)?;
            fixed_length(hparams, keys)
        }
        _ => Ok(()),
    }
}

fn vl_keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    text_keys(&hparams.without("num_experts"), keys)?;
    let rope = hparams.rope();
    // Two spellings: the second is the one that goes with `xdrope`.
    let sections = rope.get("mrope_section").or(rope.get("xdrope_section"));
    // transformers writes `xdrope` as `dynamic` with sections.
    let (Some("dynamic" | "xdrope"), Some(Json::Array(sections))) = (rope.kind(), sections) else {
        return match rope.kind() {
            Some("dynamic") => {
                scaled_base(hparams, keys, hparams.need_u64(&["head_dim"])?, 50.0)?;
                fixed_length(hparams, keys)
            }
            _ => Ok(()),
        };
    };
    // The scaling is left to llama.cpp here: it gets the base as it is.
    scaled_base(hparams, keys, hparams.need_u64(&["head_dim"])?, 50.0)?;
    let alpha = rope.get("alpha").ok_or_else(|| missing("rope_parameters.alpha"))?;
    keys.rope_number("rope.freq_base", rope, &["rope_theta"])?;
    keys.derived_from("rope.scaling.alpha", &["rope_parameters.alpha"]);
    keys.set_prefixed("rope.scaling.alpha", Value::F32(to_f32("rope_parameters.alpha", alpha)?));
    keys.set_prefixed("rope.scaling.factor", Value::F32(rope.f64_or("factor", 1.0)? as f32));
    keys.count("rope.scaling.original_context_length", hparams, &["max_position_embeddings"])?;
    keys.count("context_length", hparams, &["max_position_embeddings"])?;
    let sections: Result<Vec<i32>, ArchError> =
        sections.iter().map(|item| to_i32("rope_parameters.mrope_section", item)).collect();
    keys.set_prefixed("rope.dimension_sections", Value::Array(Array::I32(sections?)));
    Ok(())
}

fn moe_keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    // Published configs say `false` for no groups, which Python counts as 0.
    let mut counted = hparams.clone();
    for key in ["n_group", "topk_group"] {
        if counted.get(key) == Some(&Json::Bool(false)) {
            counted = counted.with(key, 0.into());
        }
    }
    text_keys(&counted, keys)?;
    keys.needed("expert_shared_feed_forward_length", hparams, &["intermediate_size"])?;
    // transformers builds experts of the dense length, and one that all tokens pass, and says neither.
    let length = same_in_all_layers(hparams, "moe_intermediate_size")?;
    let length = length.map_or_else(|| hparams.need_u64(&["intermediate_size"]), Ok)?;
    keys.set_derived("expert_feed_forward_length", "moe_intermediate_size", length)?;
    let used = same_in_all_layers(hparams, "moe_topk")?.ok_or_else(|| missing("moe_topk"))?;
    keys.set_derived("expert_used_count", "moe_topk", used)?;
    let shared = same_in_all_layers(hparams, "num_shared_expert")?.unwrap_or(1);
    keys.set_derived("expert_shared_count", "num_shared_expert", shared)?;
    match hparams.rope().kind() {
        Some("dynamic") => {
            // Unlike in the dense models, alpha is 1000 if the config does not state it. The reference takes the share of the width
            // for the size of a head and refuses others than 128; transformers takes `head_dim`.
            scaled_base(hparams, keys, hparams.head_dim()?, 1000.0)?;
            if hparams.head_dim()? != hparams.head_share()? {
                keys.departs(&BASE);
            }
            fixed_length(hparams, keys)
        }
        _ => Ok(()),
    }
}

/// Base of rotation.
pub const BASE: Departure = Departure {
    subject: "rope.freq_base",
    files: "`hunyuan-moe`",
    reason: "scaled by `head_dim`; the converter takes hidden_size / num_attention_heads for the head size",
};

/// Scaling of type `dynamic`, from the resulting base; and keys of mixtures under their own names.
fn from_file(file: &FileKeys<'_>, config: &mut Map<String, Json>) {
    for (name, key) in [
        ("num_experts", "expert_count"),
        ("moe_topk", "expert_used_count"),
        ("moe_intermediate_size", "expert_feed_forward_length"),
        ("num_shared_expert", "expert_shared_count"),
    ] {
        set(config, name, file.count(key));
    }
    set(config, "sep_token_id", file.token_id("seperator"));
    config.remove("num_experts_per_tok");
    let sections = config.get("rope_parameters").and_then(|rope| rope.get("mrope_section")).cloned();
    let alpha = match sections {
        Some(_) => file.number("rope.scaling.alpha"),
        None => {
            let base = config.get("rope_theta").and_then(Json::as_f64);
            let width = file.count("embedding_length").zip(file.count("attention.head_count"));
            let share = || width.and_then(|(width, heads)| width.checked_div(heads));
            let dim = file.count("attention.key_length").or_else(share);
            base.zip(dim).and_then(|(base, dim)| alpha_of(base, dim))
        }
    };
    let (true, Some(alpha)) = (file.has("rope.scaling.factor"), alpha) else { return };
    let mut rope = json!({"rope_type": "dynamic", "alpha": alpha, "factor": 1.0, "rope_theta": 10_000.0});
    if let Some(sections) = sections {
        rope["mrope_section"] = sections;
        rope["rope_theta"] = config.get("rope_theta").cloned().unwrap_or_default();
    }
    config.remove("rope_scaling");
    config.remove("rope_theta");
    config.insert("rope_parameters".into(), rope);
}

/// The shortest alpha of which base 10000 becomes `base`, in single precision.
fn alpha_of(base: f64, dim: u64) -> Option<f64> {
    let power = dim as f64 / dim.checked_sub(2).filter(|rest| *rest > 0)? as f64;
    let exact = (base / 10_000.0).powf(1.0 / power);
    let decimals = (0..12usize).filter_map(|digits| format!("{exact:.digits$}").parse::<f64>().ok());
    decimals.into_iter().find(|alpha| (10_000.0 * alpha.powf(power)) as f32 == base as f32)
}

/// A count that the config states once, or for each layer.
fn same_in_all_layers(hparams: &Hparams, key: &'static str) -> Result<Option<u64>, ArchError> {
    let Some(Json::Array(counts)) = hparams.get(key) else { return hparams.get_u64(key) };
    let first = counts.first().and_then(Json::as_u64);
    // A file has one count for all layers, so lists are taken only where their items are equal.
    match first.filter(|_| counts.windows(2).all(|pair| pair[0] == pair[1])) {
        Some(first) => Ok(Some(first)),
        None => Err(bad(key, &counts.clone().into(), "the same count for all layers")),
    }
}

/// `HunYuanVLTextConfig`.
const VL_TEXT_CONFIG: ConfigClass = ConfigClass::new("hunyuan_vl_text").adjusted(|map| {
    for key in ["rope_scaling", "rope_parameters"] {
        let Some(Json::Object(rope)) = map.get_mut(key) else { continue };
        if let Some(sections) = rope.remove("xdrope_section") {
            // The usual name has the last word if a config has both.
            rope.entry("mrope_section").or_insert(sections);
        }
        let kind = rope.get("rope_type").or_else(|| rope.get("type"));
        if kind.is_some_and(|kind| kind == "xdrope") {
            rope.insert("rope_type".into(), "dynamic".into());
        }
    }
    Ok(())
});

/// `HunYuanVLConfig`: text and images.
const VL_CONFIG: ConfigClass =
    ConfigClass::new("hunyuan_vl").adjusted(|map| adjust::text_config_or_flat(map, &VL_TEXT_CONFIG));
