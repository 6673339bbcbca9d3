//! ChatGLM 2 and 3, GLM 4 9B under its older class, and GLM of transformers.
//!
//! Config keys: two spellings of everything; the rotary base is 10000 times `rope_ratio`, and the
//! context length is `seq_length`. The newer spelling has `rope_theta`, `max_position_embeddings` and `rms_norm_eps`.
//! The reference does not know these keys and writes constants and the width.
//!
//! Transforms: gate and up stay one matrix, as do Q, K and V of the older spelling.
//!
//! Source: `ChatGLMModel` in `conversion/chatglm.py`.

use crate::prelude::*;
use gguf_layout::built_in::no_length;

pub const CHATGLM: Arch = Arch {
    name: "chatglm",
    classes: &[
        Class { spelling: 1, ..Class::new("ChatGLMModel") },
        Class { spelling: 1, ..Class::new("ChatGLMForConditionalGeneration") },
        Class::new("GlmForCausalLM"),
    ],
    example: "zai-org/glm-4-9b-chat-hf",
    configs: &[ConfigClass::new("glm")],
    needs: &["hidden_size", "num_attention_heads"],
    tensors: &[ENDS, LAYERS, ATTENTION],
    keys,
    drops: |_, name| {
        name.ends_with(".rotary_pos_emb.inv_freq")
            .then_some("rotary frequencies are computed from the config")
    },
    vocab: ROUTE,
    ..DECODER
};

/// ChatGLM 3 (tokenizer.model, or the same model as tokenizer.json) and GLM 4 (byte-level BPE) under their older class.
///
/// Source: `ChatGLMModel.set_vocab` in `conversion/chatglm.py`.
const ROUTE: Route = Route::new("chatglm", |writer| {
    let hf = if writer.has_spm() { None } else { writer.read_json()? };
    if !writer.has_spm() && !hf.as_ref().is_some_and(|hf| hf.is_llama()) {
        return writer.gpt2_of(
            hf,
            &BpeStyle {
                by_text: &[("eos", "<|endoftext|>"), ("eot", "<|user|>"), ("unk", "<|endoftext|>")],
                ..BpeStyle::GPT2
            },
        );
    }
    // ChatGLM 3's config has its vocabulary's size under another name.
    let padded = writer.input.config.get("padded_vocab_size").and_then(Json::as_u64);
    writer.ctx.vocab_size = padded.or(writer.ctx.vocab_size);
    writer.spm_or_json(hf, SpmStyle::SpecialsAfterPieces(&CHATGLM3))
});

/// The model calls its first three pieces `<unk>`, `<s>`, `</s>`; the family's code does not.
const CHATGLM3: SpecialsAfterPieces = SpecialsAfterPieces {
    pre: "chatglm-spm",
    first: &["<unk>", "<bos>", "<eos>"],
    specials: &[
        "[MASK]",
        "[gMASK]",
        "[sMASK]",
        "sop",
        "eop",
        "<|system|>",
        "<|user|>",
        "<|assistant|>",
        "<|observation|>",
    ],
};

const ENDS: &[TensorRule] = &[
    TensorRule::copy(&["model.embed_tokens", "transformer.embedding.word_embeddings"], "token_embd"),
    TensorRule::copy(&["model.norm", "transformer.encoder.final_layernorm"], "output_norm"),
    TensorRule::copy(&["lm_head", "transformer.output_layer"], "output").need(Need::Optional),
];

const LAYERS: &[TensorRule] = &[
    TensorRule::copy(
        &["model.layers.{bid}.input_layernorm", "transformer.encoder.layers.{bid}.input_layernorm"],
        "blk.{bid}.attn_norm",
    ),
    TensorRule::copy(
        &[
            "model.layers.{bid}.post_attention_layernorm",
            "transformer.encoder.layers.{bid}.post_attention_layernorm",
        ],
        "blk.{bid}.ffn_norm",
    ),
    TensorRule::copy(
        &["model.layers.{bid}.mlp.gate_up_proj", "transformer.encoder.layers.{bid}.mlp.dense_h_to_4h"],
        "blk.{bid}.ffn_up",
    ),
    TensorRule::copy(
        &["model.layers.{bid}.mlp.down_proj", "transformer.encoder.layers.{bid}.mlp.dense_4h_to_h"],
        "blk.{bid}.ffn_down",
    ),
];

/// Q, K and V are apart in the newer spelling only.
const ATTENTION: &[TensorRule] = &[
    TensorRule::copy(
        &["transformer.encoder.layers.{bid}.self_attention.query_key_value"],
        "blk.{bid}.attn_qkv",
    )
    .need(Need::If(|hparams, _| !is_newer(hparams))),
    TensorRule::copy(&["model.layers.{bid}.self_attn.q_proj"], "blk.{bid}.attn_q").need(APART),
    TensorRule::copy(&["model.layers.{bid}.self_attn.k_proj"], "blk.{bid}.attn_k").need(APART),
    TensorRule::copy(&["model.layers.{bid}.self_attn.v_proj"], "blk.{bid}.attn_v").need(APART),
    TensorRule::copy(
        &["model.layers.{bid}.self_attn.o_proj", "transformer.encoder.layers.{bid}.self_attention.dense"],
        "blk.{bid}.attn_output",
    ),
];

const APART: Need = Need::If(|hparams, _| is_newer(hparams));

/// True if the checkpoint uses transformers' spelling.
fn is_newer(hparams: &Hparams) -> bool {
    hparams.get("model_type").is_some_and(|kind| kind == "glm")
}

/// Context length.
pub const LENGTH: Departure = Departure {
    subject: "context_length",
    files: "`chatglm` (GLM 4 in the spelling of transformers)",
    reason: "`max_position_embeddings` of the config; the converter writes `hidden_size`",
};

/// Epsilon of norms.
pub const EPSILON: Departure = Departure {
    subject: "attention.layer_norm_rms_epsilon",
    reason: "`rms_norm_eps` of the config; the converter writes 1e-5",
    ..LENGTH
};

/// Rotated part of a head.
pub const ROTATED: Departure = Departure {
    subject: "rope.dimension_count",
    reason: "a part of `head_dim`; the converter takes hidden_size / num_attention_heads for the head size",
    ..LENGTH
};

fn keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    // The first spelling is that of ChatGLM, the second that of `GlmConfig` in transformers.
    let first = |names: &[&str]| names.iter().find_map(|name| hparams.get_u64(name).transpose()).transpose();
    let width = hparams.need_u64(&["hidden_size"])?;
    let heads = hparams.need_u64(&["n_head", "num_attention_heads"])?;
    // `multi_query_group_num` counts groups of queries, each of which shares one key head.
    let kv_heads = first(&["multi_query_group_num", "num_key_value_heads"])?.unwrap_or(heads);
    let forward = first(&["ffn_hidden_size", "intermediate_size"])?.unwrap_or(width.saturating_mul(4));
    // The reference knows `seq_length` alone and writes the width if it is missing, like in every config of transformers.
    let length = first(&["seq_length", "max_position_embeddings"])?;
    keys.derived_from("context_length", &["max_position_embeddings"]);
    if length.is_none() {
        keys.notes.push(no_length(width));
    }
    keys.set_derived("context_length", "seq_length", length.unwrap_or(width))?;
    if let Some(length) = length.filter(|_| hparams.get("seq_length").is_none()) {
        keys.depart(
            &LENGTH,
            Value::U32(to_u32("max_position_embeddings", &length.into())?),
            Some(&Value::U32(to_u32("hidden_size", &width.into())?)),
        );
    }
    keys.set_derived("embedding_length", "hidden_size", width)?;
    // `set_derived` below records the older spelling; these lines record the newer, for export.
    keys.derived_from("rope.freq_base", &["rope_ratio"]);
    keys.derived_from("feed_forward_length", &["intermediate_size"]);
    keys.derived_from("attention.head_count_kv", &["num_key_value_heads"]);
    keys.derived_from("attention.layer_norm_rms_epsilon", &["layernorm_epsilon"]);
    keys.set_derived("feed_forward_length", "ffn_hidden_size", forward)?;
    keys.set_derived("block_count", "num_layers", hparams.n_layers()?)?;
    keys.set_derived("attention.head_count", "num_attention_heads", heads)?;
    keys.set_derived("attention.head_count_kv", "multi_query_group_num", kv_heads)?;
    keys.derived_from("attention.layer_norm_rms_epsilon", &["rms_norm_eps"]);
    let epsilon = match hparams.get_f64("layernorm_epsilon")? {
        Some(epsilon) => epsilon,
        // The reference writes 1e-5 here, which is not what the class of transformers computes with.
        None => hparams.get_f64("rms_norm_eps")?.unwrap_or(1e-5),
    } as f32;
    let theirs = hparams.get_f64("layernorm_epsilon")?.unwrap_or(1e-5) as f32;
    keys.depart(&EPSILON, Value::F32(epsilon), Some(&Value::F32(theirs)));
    keys.file_type_here();
    // Half of the head is rotated: `attention_dim` or the share of a head, times 0.5.
    let dims = first(&["attention_dim"])?.map_or_else(|| hparams.head_dim(), Ok)?;
    keys.derived_from("rope.dimension_count", &["attention_dim"]);
    let theirs = first(&["attention_dim"])?.map_or_else(|| hparams.head_share(), Ok)?;
    let rotated = |dims| {
        Ok::<_, ArchError>(Value::U32(to_u32("attention_dim", &hparams.rotated(dims, Some(0.5))?.into())?))
    };
    keys.depart(&ROTATED, rotated(dims)?, Some(&rotated(theirs)?));
    // The reference writes this among the hyperparameters; the tokenizer adds no bos, [gMASK]<sop>
    // comes from the template.
    keys.set(token_keys::ADD_BOS, Value::Bool(false));
    // GLM 4 9B 1M has `rope_ratio` 10000: base 1e8.
    let base = match hparams.get_f64("rope_ratio")? {
        Some(ratio) => 10_000.0 * ratio,
        None => hparams.rope().f64_or("rope_theta", 10_000.0)?,
    };
    keys.set_prefixed("rope.freq_base", Value::F32(base as f32));
    Ok(())
}
