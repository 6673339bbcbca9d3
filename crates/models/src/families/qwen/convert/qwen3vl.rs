//! Text parts of Qwen 3 VL, dense and mixture.
//!
//! Config keys: those of Qwen 3 (or its mixture), and the number of layers of the vision tower that are added to early
//! layers of the text part.
//!
//! Transforms: experts are stored stacked, gate before up in one tensor; transposed in the Hub's files and as they are computed in
//! those that transformers 5 saves of a model that it has made anew. The reference transposes both, which leaves the second with
//! matrices that llama.cpp refuses.
//!
//! Source: `Qwen3VLTextModel` and `Qwen3VLMoeTextModel` in `conversion/qwen3vl.py`.

use crate::families::gpt_oss::convert as gpt_oss;
use crate::families::llama::convert::llama4;
use crate::families::qwen::convert::{qwen2, qwen2moe, qwen3};
use crate::prelude::*;

pub const QWEN3VL: Arch = Arch {
    name: "qwen3vl",
    classes: &[Class::new("Qwen3VLForConditionalGeneration")],
    example: "Qwen/Qwen3-VL-4B-Instruct",
    configs: &[CONFIG],
    tensors: &[rules::DECODER_ENDS, rules::PRE_NORMS, rules::ATTENTION, rules::QK_NORMS, rules::GATED_MLP],
    rename,
    keys: |hparams, keys| {
        qwen2::keys(hparams, keys)?;
        deepstack_key(hparams, keys)
    },
    vocab: Route::SENTENCE_PIECE_OR_GPT2,
    harmless: &["hidden_act=silu", "rope_parameters.mrope_interleaved=true"],
    built_in: &[ROTATES_ALL_PAIRS],
    ..DECODER
};

pub const QWEN3VL_RERANKER: Arch = Arch {
    name: "qwen3vl-reranker",
    written: Some("qwen3vl"),
    fits: Some(qwen3::is_reranker),
    example: "Qwen/Qwen3-VL-Reranker-2B",
    configs: &[],
    tensors: &[qwen3::ANSWERS, rules::PRE_NORMS, rules::ATTENTION, rules::QK_NORMS, rules::GATED_MLP],
    rename: |hparams, name| {
        let renamed = rename(hparams, name);
        qwen3::tied(hparams, renamed.as_deref().unwrap_or(name)).or(renamed)
    },
    keys: |hparams, keys| {
        qwen2::keys(hparams, keys)?;
        qwen3::answer_keys(keys);
        deepstack_key(hparams, keys)
    },
    answers: qwen3::QWEN3_RERANKER.answers,
    export: qwen3::QWEN3_RERANKER.export,
    ..QWEN3VL
};

pub const QWEN3VLMOE: Arch = Arch {
    name: "qwen3vlmoe",
    classes: &[Class::new("Qwen3VLMoeForConditionalGeneration")],
    example: "Qwen/Qwen3-VL-30B-A3B-Instruct",
    configs: &[MOE_CONFIG],
    tensors: &[rules::DECODER_ENDS, rules::PRE_NORMS, rules::ATTENTION, rules::QK_NORMS, EXPERTS],
    rename,
    keys: |hparams, keys| {
        qwen2moe::keys(hparams, keys)?;
        deepstack_key(hparams, keys)
    },
    prepare: |hparams, tensors| Ok(prepare(hparams, tensors)),
    harmless: QWEN3VL.harmless,
    built_in: &[NORMALIZES_EXPERTS, ROTATES_ALL_PAIRS],
    ..DECODER
};

/// The row of models that hear: no layer of a tower feeds the text part.
pub const QWEN3ASR: Arch = Arch {
    name: "qwen3-asr",
    written: Some("qwen3vl"),
    classes: &[Class::new("Qwen3ASRForConditionalGeneration")],
    example: "Qwen/Qwen3-ASR-0.6B-hf",
    configs: &[],
    keys: |hparams, keys| {
        qwen2::keys(hparams, keys)?;
        keys.set_prefixed("n_deepstack_layers", Value::U32(0));
        Ok(())
    },
    vocab: Route::new("qwen3_asr", |writer| turn_end_vocab(writer, Some(CHATML))),
    ..QWEN3VL
};

/// The row of mixtures that see and hear, whose experts are stored one by one.
pub const QWEN3OMNI: Arch = Arch {
    name: "qwen3-omni-moe",
    written: Some("qwen3vlmoe"),
    classes: &[
        Class::new("Qwen3OmniMoeForConditionalGeneration"),
        Class::new("Qwen3OmniMoeThinkerForConditionalGeneration"),
    ],
    example: "Qwen/Qwen3-Omni-30B-A3B-Instruct",
    configs: &[OMNI_CONFIG, THINKER_CONFIG, ConfigClass::new("qwen3_omni_moe_text")],
    harmless: &["hidden_act=silu", "norm_topk_prob=true", "rope_parameters.interleaved=true"],
    needs: &["hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size"],
    tensors: &[rules::DECODER_ENDS, rules::PRE_NORMS, rules::ATTENTION, rules::QK_NORMS, rules::QWEN_EXPERTS],
    keys: |hparams, keys| {
        qwen2moe::keys(hparams, keys)?;
        keys.set_prefixed("n_deepstack_layers", Value::U32(0));
        Ok(())
    },
    vocab: Route::new("qwen3_omni", |writer| turn_end_vocab(writer, None)),
    ..QWEN3VLMOE
};

/// The template that the reference gives Qwen 3 ASR, whose own is for sound.
const CHATML: &str = "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' + \
    message['content'] + '<|im_end|>' + '\\n'}}{% endfor %}{% if add_generation_prompt %}{{ \
    '<|im_start|>assistant\\n' }}{% endif %}";

/// tokenizer.model or byte-level BPE, where texts begin and end with the end of a turn.
///
/// Source: `Qwen3ASRTextModel.set_vocab` and `Qwen3OmniMoeTextModel.set_vocab` in `conversion/qwen3vl.py`.
fn turn_end_vocab(writer: &mut TokenizerWriter<'_>, template: Option<&str>) -> Result<(), VocabError> {
    writer.spm_or_gpt2()?;
    if let Some(template) = template {
        writer.set(token_keys::CHAT_TEMPLATE, template);
    }
    let config = writer.tokenizer_config()?;
    let listed = config.get("added_tokens_decoder").and_then(Json::as_object);
    let is_im_end = |token: &Json| token.get("content").and_then(Json::as_str) == Some("<|im_end|>");
    let turn_end = listed.and_then(|listed| listed.iter().find(|(_, token)| is_im_end(token)));
    if let Some(id) = turn_end.and_then(|(id, _)| id.parse::<u32>().ok()) {
        writer.set(token_keys::BOS_ID, id);
        writer.set(token_keys::EOS_ID, id);
    }
    Ok(())
}

/// Experts of shape (experts, in, out), unlike those of Qwen 3, which are (experts, out, in), unless their
/// shape says otherwise.
const EXPERTS: &[TensorRule] = &[
    TensorRule::copy(&["model.layers.{bid}.mlp.gate"], "blk.{bid}.ffn_gate_inp"),
    TensorRule::copy(&["model.layers.{bid}.mlp.experts.gate_up_proj"], "blk.{bid}.ffn_gate_exps")
        .rows(RowRule::AsShape(|hparams, _| {
            if hparams.is_true(OUT_IN) {
                RowRule::Part(rules::first_half)
            } else {
                RowRule::Transposed(|_, shape| Ok(gpt_oss::transposed(shape, llama4::half(shape, 0))))
            }
        }))
        .bare(".weight"),
    TensorRule::copy(&["model.layers.{bid}.mlp.experts.gate_up_proj"], "blk.{bid}.ffn_up_exps")
        .rows(RowRule::AsShape(|hparams, _| {
            if hparams.is_true(OUT_IN) {
                RowRule::Part(rules::second_half)
            } else {
                RowRule::Transposed(|_, shape| Ok(gpt_oss::transposed(shape, llama4::half(shape, 1))))
            }
        }))
        .bare(".weight"),
    TensorRule::copy(&["model.layers.{bid}.mlp.experts.down_proj"], "blk.{bid}.ffn_down_exps")
        .rows(RowRule::AsShape(|hparams, _| {
            if hparams.is_true(OUT_IN) {
                RowRule::Copy
            } else {
                RowRule::Transposed(|_, shape| Ok(gpt_oss::transposed(shape, RowMap::Concat)))
            }
        }))
        .bare(".weight"),
];

/// Width of the model and of an expert, if the config says both.
fn sizes(hparams: &Hparams) -> Option<(u64, u64)> {
    let size = |key| hparams.get_u64(key).ok().flatten();
    Some((size("hidden_size")?, size("moe_intermediate_size")?))
}

/// The name under which the hyperparameters state that experts are (experts, out, in).
const OUT_IN: &str = "experts_out_in";

/// Finds the orientation of experts: gate and up (experts, 2 f, width), down (experts, width, f) or their transposes. One of the
/// two is square at some sizes; the other one decides.
fn prepare(hparams: Hparams, tensors: &[SourceTensor]) -> Hparams {
    let Some((width, n_ff)) = sizes(&hparams) else { return hparams };
    let is_out_in = |tensor: &SourceTensor| {
        // Row length first.
        let dims = match tensor.name.rsplit('.').next() {
            Some("gate_up_proj") => [width, n_ff.saturating_mul(2)],
            Some("down_proj") => [n_ff, width],
            _ => return None,
        };
        let is_expert = tensor.name.contains(".mlp.experts.") && dims[0] != dims[1];
        is_expert.then(|| tensor.shape.dims().starts_with(&dims))
    };
    match tensors.iter().find_map(is_out_in) {
        Some(is_out_in) => hparams.with(OUT_IN, is_out_in.into()),
        None => hparams,
    }
}

fn rename(_: &Hparams, name: &str) -> Option<String> {
    name.contains("thinker.").then(|| name.replace("thinker.", ""))
}

/// Number of vision tower layers that feed early layers of the text part.
fn deepstack_key(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    let thinker = hparams.get("thinker_config").and_then(|thinker| thinker.get("vision_config"));
    let vision =
        thinker.or_else(|| hparams.get("vision_config").filter(|_| hparams.get("thinker_config").is_none()));
    let layers = vision.and_then(|vision| vision.get("deepstack_visual_indexes")).and_then(Json::as_array);
    let n_layers = layers.map_or(0, Vec::len) as u64;
    keys.set_derived("n_deepstack_layers", "vision_config.deepstack_visual_indexes", n_layers)
}

/// `Qwen3OmniMoeConfig`: thinker and talker.
const OMNI_CONFIG: ConfigClass =
    ConfigClass::new("qwen3_omni_moe").adjusted(|map| match map.get_mut("thinker_config") {
        Some(Json::Object(thinker)) => adjust::text_config(thinker, &ConfigClass::new("qwen3_omni_moe_text")),
        _ => Ok(()),
    });

/// `Qwen3OmniMoeThinkerConfig`.
const THINKER_CONFIG: ConfigClass = ConfigClass::new("qwen3_omni_moe_thinker")
    .adjusted(|map| adjust::text_config(map, &ConfigClass::new("qwen3_omni_moe_text")));

/// `Qwen3VLConfig`: text and images.
const CONFIG: ConfigClass = ConfigClass::new("qwen3_vl").adjusted(|map| {
    // `Qwen3VLVisionConfig`: defaults of a tower.
    adjust::sub_default(map, "vision_config", "deepstack_visual_indexes", json!([8, 16, 24]));
    adjust::text_config(map, &ConfigClass::new("qwen3_vl_text"))
});

/// `Qwen3VLMoeConfig`.
const MOE_CONFIG: ConfigClass = ConfigClass::new("qwen3_vl_moe").adjusted(|map| {
    adjust::sub_default(map, "vision_config", "deepstack_visual_indexes", json!([8, 16, 24]));
    adjust::text_config(map, &ConfigClass::new("qwen3_vl_moe_text"))
});
