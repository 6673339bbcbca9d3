//! Layers of a Q-former: self-attention of queries, cross-attention to the output of a tower, and a feed-forward part.

use gguf_layout::projector::prelude::*;

/// Rules of the layers, for a literal prefix of names in the checkpoint and of names in the file.
macro_rules! layers {
    ($hf:literal, $gguf:literal, $need:expr, $need_cross:expr) => {{
        const RULES: [TensorRule; 13] = [
            TensorRule::copy(&[concat!($hf, "attention.attention.query")], concat!($gguf, "self_attn_q"))
                .need($need),
            TensorRule::copy(&[concat!($hf, "attention.attention.key")], concat!($gguf, "self_attn_k"))
                .need($need),
            TensorRule::copy(&[concat!($hf, "attention.attention.value")], concat!($gguf, "self_attn_v"))
                .need($need),
            TensorRule::copy(&[concat!($hf, "attention.output.dense")], concat!($gguf, "self_attn_out"))
                .need($need),
            TensorRule::copy(&[concat!($hf, "attention.output.LayerNorm")], concat!($gguf, "self_attn_norm"))
                .need($need),
            TensorRule::copy(
                &[concat!($hf, "crossattention.attention.query")],
                concat!($gguf, "cross_attn_q"),
            )
            .need($need_cross),
            TensorRule::copy(&[concat!($hf, "crossattention.attention.key")], concat!($gguf, "cross_attn_k"))
                .need($need_cross),
            TensorRule::copy(
                &[concat!($hf, "crossattention.attention.value")],
                concat!($gguf, "cross_attn_v"),
            )
            .need($need_cross),
            TensorRule::copy(
                &[concat!($hf, "crossattention.output.dense")],
                concat!($gguf, "cross_attn_out"),
            )
            .need($need_cross),
            TensorRule::copy(
                &[concat!($hf, "crossattention.output.LayerNorm")],
                concat!($gguf, "cross_attn_norm"),
            )
            .need($need_cross),
            TensorRule::copy(&[concat!($hf, "intermediate_query.dense")], concat!($gguf, "ffn_up"))
                .need($need),
            TensorRule::copy(&[concat!($hf, "output_query.dense")], concat!($gguf, "ffn_down")).need($need),
            TensorRule::copy(&[concat!($hf, "output_query.LayerNorm")], concat!($gguf, "ffn_norm"))
                .need($need),
        ];
        &RULES
    }};
}
pub(crate) use layers;

/// True for a layer with cross-attention: every `cross_attention_frequency`-th, counted from the first.
pub fn has_cross_attention(qformer: Option<&Json>, layer: u64) -> bool {
    let frequency = qformer.and_then(|config| config.get("cross_attention_frequency")).and_then(Json::as_u64);
    layer.checked_rem(frequency.unwrap_or(1)) == Some(0)
}
