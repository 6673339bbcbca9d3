//! MPT, under its own class name and that of transformers.
//!
//! Config keys: in their own order, without a file type, including those of `attn_config`; the epsilon of
//! norms is 1e-5, whatever the config says.
//!
//! Transforms: scales of an activation-aware quantization are kept next to the weights.
//!
//! Source: `MPTModel` in `conversion/mpt.py`, which does not know the class name `MptForCausalLM` that
//! transformers writes.

use crate::prelude::*;

pub const MPT: Arch = Arch {
    name: "mpt",
    classes: &[Class::new("MPTForCausalLM"), Class::new("MptForCausalLM")],
    example: "mosaicml/mpt-7b",
    configs: &[MPT_CONFIG],
    needs: &["d_model", "n_heads", "n_layers"],
    tensors: &[ENDS, LAYERS],
    keys,
    vocab: ROUTE,
    built_in: &[
        BuiltIn::unless("attn_config.softmax_scale", "1 / sqrt(head size)", |hparams, scale| {
            let count = |key| hparams.get(key).and_then(Json::as_f64).unwrap_or(0.0);
            let built_in = (count("n_heads") / count("d_model")).sqrt();
            scale.as_f64().is_some_and(|scale| (scale - built_in).abs() < 1e-6)
        }),
        BuiltIn::is("layer_norm_epsilon", &["1e-5"]),
    ],
    ..DECODER
};

/// Byte-level BPE, else tokenizer.model with fixed ids. MPT, SEA-LION, Replit, whose file is called `spiece.model`.
///
/// Source: `MPTModel.set_vocab` in `conversion/mpt.py`.
const ROUTE: Route = Route::new("mpt", |writer| {
    if writer.read_json()?.is_some() {
        return writer.gpt2(&BpeStyle::GPT2);
    }
    writer.spm_of_either_name()?;
    // Fixed ids instead of the configs': SEA-LION's, which Replit shares.
    writer.set(token_keys::ADD_BOS, false);
    for (key, id) in [(token_keys::PAD_ID, 3u32), (token_keys::EOS_ID, 1), (token_keys::UNK_ID, 0)] {
        writer.set(key, id);
    }
    Ok(())
});

const ENDS: &[TensorRule] = &[
    TensorRule::copy(&["transformer.wte"], "token_embd"),
    TensorRule::copy(&["transformer.wpe"], "position_embd").need(Need::Optional),
    TensorRule::copy(&["transformer.norm_f"], "output_norm"),
    TensorRule::copy(&["lm_head"], "output").need(Need::Optional),
];

const LAYERS: &[TensorRule] = &[
    TensorRule::copy(&["transformer.blocks.{bid}.norm_1"], "blk.{bid}.attn_norm"),
    TensorRule::copy(&["transformer.blocks.{bid}.attn.Wqkv"], "blk.{bid}.attn_qkv"),
    TensorRule::copy(&["transformer.blocks.{bid}.attn.q_ln"], "blk.{bid}.attn_q_norm").need(Need::Optional),
    TensorRule::copy(&["transformer.blocks.{bid}.attn.k_ln"], "blk.{bid}.attn_k_norm").need(Need::Optional),
    TensorRule::copy(&["transformer.blocks.{bid}.attn.out_proj"], "blk.{bid}.attn_output"),
    TensorRule::copy(&["transformer.blocks.{bid}.norm_2"], "blk.{bid}.ffn_norm"),
    TensorRule::copy(&["transformer.blocks.{bid}.ffn.up_proj"], "blk.{bid}.ffn_up"),
    TensorRule::copy(&["transformer.blocks.{bid}.ffn.act.scales"], "blk.{bid}.ffn.act.scales")
        .bare("")
        .need(Need::Optional),
    TensorRule::copy(&["transformer.blocks.{bid}.ffn.down_proj"], "blk.{bid}.ffn_down"),
];

/// `MptConfig`.
const MPT_CONFIG: ConfigClass = ConfigClass::new("mpt").adjusted(|map| {
    // `MptAttentionConfig` fills in what the nested object leaves out.
    let attention = map.entry("attn_config").or_insert(Json::Null);
    if attention.is_null() {
        *attention = json!({});
    }
    let Json::Object(attention) = attention else { return Err("`attn_config` is not an object".into()) };
    for (key, value) in [("clip_qkv", Json::Null), ("alibi", true.into()), ("alibi_bias_max", 8.into())] {
        attention.entry(key).or_insert(value);
    }
    Ok(())
});

fn keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    let width = hparams.need_u64(&["d_model"])?;
    keys.needed("context_length", hparams, &["max_seq_len"])?;
    keys.needed("embedding_length", hparams, &["d_model"])?;
    keys.set_derived("block_count", "n_layers", hparams.n_layers()?)?;
    keys.set_derived("feed_forward_length", "d_model", width.saturating_mul(4))?;
    keys.needed("attention.head_count", hparams, &["n_heads"])?;
    for (key, name) in [
        ("attention.head_count_kv", "attn_config.kv_n_heads"),
        ("attention.clamp_kqv", "attn_config.clip_qkv"),
        ("attention.max_alibi_bias", "attn_config.alibi_bias_max"),
    ] {
        keys.derived_from(key, &[name]);
    }
    let attention = hparams.get("attn_config").ok_or_else(|| missing("attn_config"))?;
    let attention = attention.as_object().ok_or_else(|| bad("attn_config", attention, "an object"))?;
    let inner = |key: &str| attention.get(key).filter(|value| !value.is_null());
    // Grouped heads only: 0 and null both mean as many as heads.
    if let Some(heads) = inner("kv_n_heads").filter(|heads| heads.as_u64() != Some(0)) {
        keys.set_prefixed("attention.head_count_kv", Value::U32(to_u32("attn_config.kv_n_heads", heads)?));
    }
    // Constant in the reference.
    keys.set_prefixed("attention.layer_norm_epsilon", Value::F32(1e-5));
    if let Some(clip) = inner("clip_qkv") {
        keys.set_prefixed("attention.clamp_kqv", Value::F32(to_f32("attn_config.clip_qkv", clip)?));
    }
    // ALiBi adds m_h (j - i) to the score of query i and key j; the slopes m_h of n heads follow from the maximum b:
    // m_h = 2^(-b h / n). 0 stands for no ALiBi.
    let bias = match (inner("alibi"), inner("alibi_bias_max")) {
        (Some(Json::Bool(true)), Some(bias)) => to_f32("attn_config.alibi_bias_max", bias)?,
        (Some(Json::Bool(true)), None) => return Err(missing("attn_config.alibi_bias_max")),
        _ => 0.0,
    };
    keys.set_prefixed("attention.max_alibi_bias", Value::F32(bias));
    Ok(())
}
