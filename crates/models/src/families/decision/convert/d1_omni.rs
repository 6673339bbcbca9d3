//! D1-Omni: the layers of LFM2 as an encoder, and a head that scores the options of a question.
//!
//! Config keys: those of LFM2; layers of the head, temperatures. Lengths of texts are constants of llama.cpp.
//!
//! Transforms: those of LFM2; layers of the head follow those of the encoder.
//!
//! Source: `D1OmniModel` in `conversion/lfm2.py` of llama.cpp build 11549, which is newer than the pinned one.

use super::scorer;
use crate::families::lfm2::convert::lfm2::{self, LFM2};
use crate::prelude::*;

pub const D1_OMNI: Arch = Arch {
    name: "d1-omni",
    written: Some("lfm2"),
    classes: &[Class::wrapper("D1OmniModel")],
    example: "LiquidAI/d1-omni-600M",
    configs: &[],
    needs: &["hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size", HEAD_LAYERS],
    tensors: &[ENDS, scorer::ENDS, LAYERS, lfm2::CONVOLUTION, lfm2::ATTENTION],
    keys,
    rename: |hparams, name| {
        if let Some(rest) = name.strip_prefix("encoder.") {
            return Some(format!("model.{rest}"));
        }
        let name = name.strip_prefix("head.")?;
        scorer::rename(hparams, name).or_else(|| Some(name.to_owned()))
    },
    prepare: |hparams, _| {
        // The encoder has the length of LFM2, whether or not the config asks for it.
        let adjusted = hparams.with("block_auto_adjust_ff_dim", true.into()).without("block_ff_dim");
        let length = lfm2::forward_length(&adjusted)?;
        let n_head_layers = scorer::layers(&hparams, HEAD_LAYERS)?.head;
        let of_head = |value: Json| vec![value; n_head_layers];
        let key_heads = [lfm2::heads_by_layer(&hparams)?, of_head(hparams.n_heads()?.into())].concat();
        let types = hparams.get("layer_types").and_then(Json::as_array).cloned().unwrap_or_default();
        let types = [types, of_head(lfm2::IN_HEAD.into())].concat();
        let hparams = hparams.with("num_key_value_heads", key_heads.into()).with("layer_types", types.into());
        scorer::prepare(hparams, HEAD_LAYERS, length)
    },
    vocab: Route::new("d1_omni", |writer| {
        writer.gpt2(&BpeStyle::GPT2)?;
        // The template writes the token, after images and sound.
        writer.set_last(token_keys::ADD_BOS, false);
        scorer::finish_vocab(writer, include_str!("../d1_omni.jinja"));
        Ok(())
    }),
    export: Export::NotExportable("the length of the feed-forward part is computed"),
    ..LFM2
};

const HEAD_LAYERS: &str = "head_layers";

const ENDS: &[TensorRule] = &[
    TensorRule::copy(&["model.embed_tokens"], "token_embd"),
    TensorRule::copy(&["model.embedding_norm"], "token_embd_norm"),
];

const LAYERS: &[TensorRule] = &[
    TensorRule::copy(&["model.layers.{bid}.operator_norm", "head.layers.{bid}.norm1"], "blk.{bid}.attn_norm"),
    TensorRule::copy(&["model.layers.{bid}.ffn_norm", "head.layers.{bid}.norm2"], "blk.{bid}.ffn_norm"),
    TensorRule::copy(&["model.layers.{bid}.feed_forward.w1"], "blk.{bid}.ffn_gate").need(scorer::IN_ENCODER),
    TensorRule::copy(
        &["model.layers.{bid}.feed_forward.w2", "head.layers.{bid}.linear2"],
        "blk.{bid}.ffn_down",
    ),
    TensorRule::copy(
        &["model.layers.{bid}.feed_forward.w3", "head.layers.{bid}.linear1"],
        "blk.{bid}.ffn_up",
    ),
    TensorRule::copy(&["head.layers.{bid}.self_attn.in_proj"], "blk.{bid}.attn_qkv").need(scorer::IN_HEAD),
    TensorRule::copy(&["head.layers.{bid}.self_attn.out_proj"], "blk.{bid}.attn_output")
        .need(scorer::IN_HEAD),
];

/// Numbers of tokens to which llama.cpp's server cuts texts: alone, next to images, and next to sound.
const LENGTHS: [(&str, u64, &str); 3] = [
    ("max_length", 16384, "16384, a constant of llama.cpp"),
    ("image_text_length", 896, "896, a constant of llama.cpp"),
    ("audio_text_length", 15360, "15360, a constant of llama.cpp"),
];

fn keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    for (key, length, expected) in LENGTHS {
        let found = hparams.get(key).ok_or_else(|| missing(key))?;
        if found.as_u64() != Some(length) {
            return Err(bad(key, found, expected));
        }
    }
    text_keys(hparams, keys)?;
    keys.vocab_size(hparams)?;
    keys.needed("shortconv.l_cache", hparams, &["conv_L_cache"])?;
    // The default of `torch.nn.LayerNorm`, in the head.
    keys.set_prefixed("attention.layer_norm_epsilon", Value::F32(1e-5));
    keys.set_prefixed("attention.causal", Value::Bool(false));
    keys.set_prefixed("decision.type", "lfm2-d1-omni".into());
    keys.needed("decision.block_count", hparams, &[HEAD_LAYERS])?;
    let temperatures = hparams.get("temperatures").ok_or_else(|| missing("temperatures"))?;
    let of_kinds = temperatures.as_object().ok_or_else(|| bad("temperatures", temperatures, "an object"))?;
    scorer::temperatures(keys, of_kinds.iter().map(|(name, value)| (name.as_str(), value)))
}
