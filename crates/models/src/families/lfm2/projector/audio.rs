//! Conformer of LFM2-Audio.
//!
//! Config keys: sizes of `encoder`.
//!
//! Transforms: the batch norm becomes a factor and a summand; kernels lose their dimension of one, biases of the first
//! convolutions become planes. Kernels stay F32. Parts that generate sound are dropped.
//!
//! Source: `LFM2AudioModel` in `conversion/lfm2.py` and `ConformerAudioModel` in `conversion/gemma.py`.

use gguf_layout::projector::prelude::*;
use gguf_layout::rules::SQUEEZE_ANY;

pub const LFM2AUDIO: Projector = Projector {
    name: "lfm2audio",
    classes: &["Lfm2AudioForConditionalGeneration"],
    example: "LiquidAI/LFM2-Audio-1.5B",
    vision: None,
    audio: Some(Tower { at: &["encoder"], ..VISION }),
    tensors: &[EMBEDDING, ENDS, LAYERS, NORM],
    owns: |_, name| !name.starts_with("lfm.") && !name.contains("language_model."),
    drops: |_, name| match name {
        name if name.contains("num_batches_tracked") || name.contains("audio_loss_weight") => {
            Some("only training uses it")
        }
        name if ["codebook_offsets", "depth_embeddings", "depth_linear", "depthformer"]
            .iter()
            .any(|part| name.contains(part)) =>
        {
            Some("part of a model that generates sound")
        }
        _ => None,
    },
    prepare: |towers| rename_sizes(towers.audio_mut()?, 1),
    keys: |towers, keys| {
        tower_keys(towers, keys)?;
        parts::kind(keys, "lfm2a");
        audio_keys(towers, keys, "encoder")
    },
    ..BASE
};

/// Sizes of a Conformer under their usual names, with a feed-forward part `factor` times as wide as it.
pub fn rename_sizes(audio: &mut Hparams, factor: u64) -> Result<(), ArchError> {
    let (width, heads) = (audio.need_u64(&["d_model"])?, audio.need_u64(&["n_heads"])?);
    for (key, value) in [
        ("hidden_size", width),
        ("intermediate_size", width.saturating_mul(factor)),
        ("num_attention_heads", heads),
    ] {
        audio.set(key, value.into());
    }
    Ok(())
}

/// Keys of the sound, whose config is at `place`.
pub fn audio_keys(towers: &Towers, keys: &mut Keys, place: &str) -> Result<(), ArchError> {
    count(keys, "audio.num_mel_bins", towers.audio()?, place, &["feat_in"])?;
    keys.set_prefixed("audio.attention.layer_norm_epsilon", Value::F32(1e-5));
    Ok(())
}

const EMBEDDING: &[TensorRule] = &[
    TensorRule::copy(&["audio_embedding.embedding"], "a.position_embd"),
    TensorRule::copy(&["audio_embedding.embedding_norm"], "a.position_embd_norm"),
    TensorRule::copy(&["audio_embedding.to_logits"], "a.embd_to_logits"),
];

pub const ENDS: &[TensorRule] = &[
    TensorRule::copy(&["audio_adapter.model.0"], "mm.a.mlp.0"),
    TensorRule::copy(&["audio_adapter.model.1"], "mm.a.mlp.1"),
    TensorRule::copy(&["audio_adapter.model.3"], "mm.a.mlp.3"),
    first(&["conformer.pre_encode.conv.0"], "a.conv1d.0"),
    first(&["conformer.pre_encode.conv.2"], "a.conv1d.2"),
    first(&["conformer.pre_encode.conv.3"], "a.conv1d.3"),
    first(&["conformer.pre_encode.conv.5"], "a.conv1d.5"),
    first(&["conformer.pre_encode.conv.6"], "a.conv1d.6"),
    TensorRule::copy(&["conformer.pre_encode.out"], "a.pre_encode.out"),
];

/// A convolution over time and frequency, whose bias (out) becomes (out, 1, 1).
const fn first(hf: &'static [&'static str], gguf: &'static str) -> TensorRule {
    TensorRule::copy(hf, gguf).float(FloatType::F32).shape(Reshape {
        forward: |_, dims| match dims {
            [n] => Ok(vec![1, 1, *n]),
            _ => Ok(dims.to_vec()),
        },
        inverse: <[u64]>::to_vec,
    })
}

/// A kernel without its dimension of one.
const fn kernel(hf: &'static [&'static str], gguf: &'static str) -> TensorRule {
    TensorRule::copy(hf, gguf).float(FloatType::F32).shape(SQUEEZE_ANY)
}

pub const LAYERS: &[TensorRule] = &[
    TensorRule::copy(&["conformer.layers.{bid}.norm_feed_forward1"], "a.blk.{bid}.ffn_norm"),
    TensorRule::copy(&["conformer.layers.{bid}.feed_forward1.linear1"], "a.blk.{bid}.ffn_up"),
    TensorRule::copy(&["conformer.layers.{bid}.feed_forward1.linear2"], "a.blk.{bid}.ffn_down"),
    TensorRule::copy(&["conformer.layers.{bid}.norm_self_att"], "a.blk.{bid}.ln1"),
    TensorRule::copy(&["conformer.layers.{bid}.self_attn.linear_q"], "a.blk.{bid}.attn_q"),
    TensorRule::copy(&["conformer.layers.{bid}.self_attn.linear_k"], "a.blk.{bid}.attn_k"),
    TensorRule::copy(&["conformer.layers.{bid}.self_attn.linear_v"], "a.blk.{bid}.attn_v"),
    TensorRule::copy(&["conformer.layers.{bid}.self_attn.linear_out"], "a.blk.{bid}.attn_out"),
    TensorRule::copy(&["conformer.layers.{bid}.self_attn.linear_pos"], "a.blk.{bid}.linear_pos"),
    TensorRule::copy(&["conformer.layers.{bid}.self_attn.pos_bias_u"], "a.blk.{bid}.pos_bias_u").bare(""),
    TensorRule::copy(&["conformer.layers.{bid}.self_attn.pos_bias_v"], "a.blk.{bid}.pos_bias_v").bare(""),
    TensorRule::copy(&["conformer.layers.{bid}.norm_conv"], "a.blk.{bid}.norm_conv"),
    kernel(&["conformer.layers.{bid}.conv.pointwise_conv1"], "a.blk.{bid}.conv_pw1"),
    kernel(&["conformer.layers.{bid}.conv.depthwise_conv"], "a.blk.{bid}.conv_dw"),
    kernel(&["conformer.layers.{bid}.conv.pointwise_conv2"], "a.blk.{bid}.conv_pw2"),
    TensorRule::copy(&["conformer.layers.{bid}.norm_feed_forward2"], "a.blk.{bid}.ffn_norm_1"),
    TensorRule::copy(&["conformer.layers.{bid}.feed_forward2.linear1"], "a.blk.{bid}.ffn_up_1"),
    TensorRule::copy(&["conformer.layers.{bid}.feed_forward2.linear2"], "a.blk.{bid}.ffn_down_1"),
    TensorRule::copy(&["conformer.layers.{bid}.norm_out"], "a.blk.{bid}.ln2"),
];

/// The batch norm as a factor and a summand.
pub const NORM: &[TensorRule] = &[
    TensorRule::copy(
        &[
            "conformer.layers.{bid}.conv.batch_norm.weight",
            "conformer.layers.{bid}.conv.batch_norm.running_var",
        ],
        "a.blk.{bid}.conv_norm",
    )
    .bare(".weight")
    .rows(RowRule::Combine(Combination::NormScale { epsilon: 1e-5 })),
    TensorRule::copy(
        &[
            "conformer.layers.{bid}.conv.batch_norm.bias",
            "conformer.layers.{bid}.conv.batch_norm.running_mean",
            "conformer.layers.{bid}.conv.batch_norm.weight",
            "conformer.layers.{bid}.conv.batch_norm.running_var",
        ],
        "a.blk.{bid}.conv_norm",
    )
    .bare(".bias")
    .rows(RowRule::Combine(Combination::NormShift { epsilon: 1e-5 })),
];
