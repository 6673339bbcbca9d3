//! Conformer of Granite Speech, and a Q-former that compresses its output.
//!
//! Config keys: sizes of `encoder_config`; the window and the rate of the Q-former; for Granite Speech Plus, the layers whose
//! outputs are concatenated.
//!
//! Transforms: keys and values are split; the batch norm becomes a factor and a summand; kernels lose their dimension of one
//! and stay F32.
//!
//! Source: `GraniteSpeechMmprojModel` and `GraniteSpeechPlusMmprojModel` in `conversion/granite.py`.

use super::qformer;
use gguf_layout::projector::prelude::*;
use gguf_layout::rules::{SQUEEZE_ANY, first_half, second_half};

pub const GRANITE_SPEECH: Projector = Projector {
    name: "granite-speech",
    classes: &["GraniteSpeechForConditionalGeneration", "GraniteSpeechPlusForConditionalGeneration"],
    example: "ibm-granite/granite-speech-3.3-2b",
    vision: None,
    audio: Some(Tower {
        at: &["encoder_config"],
        classes: &[
            ConfigClass::new("granite_speech_encoder"),
            ConfigClass::new("granite_speech_plus_encoder"),
        ],
        ..AUDIO
    }),
    tensors: &[ENDS, LAYERS, NORM, QFORMER],
    owns: |_, name| name.starts_with("encoder.") || name.starts_with("projector."),
    drops: |_, name| match name {
        name if name.contains("attention_dists") => Some("distances are computed from the config"),
        name if name.contains("num_batches_tracked") => Some("a counter of training"),
        _ => None,
    },
    prepare,
    keys,
    ..BASE
};

const ENDS: &[TensorRule] = &[
    TensorRule::copy(&["encoder.input_linear"], "a.input_projection"),
    TensorRule::copy(&["encoder.out"], "a.enc_ctc_out"),
    TensorRule::copy(&["encoder.out_mid"], "a.enc_ctc_out_mid"),
    TensorRule::copy(&["projector.query"], "a.proj_query").bare(""),
    TensorRule::copy(&["projector.linear"], "a.proj_linear"),
    TensorRule::copy(&["projector.qformer.layernorm"], "a.proj_norm"),
];

const LAYERS: &[TensorRule] = &[
    TensorRule::copy(&["encoder.layers.{bid}.ff1.pre_norm"], "a.blk.{bid}.ffn_norm"),
    TensorRule::copy(&["encoder.layers.{bid}.ff1.up_proj"], "a.blk.{bid}.ffn_up"),
    TensorRule::copy(&["encoder.layers.{bid}.ff1.down_proj"], "a.blk.{bid}.ffn_down"),
    TensorRule::copy(&["encoder.layers.{bid}.attn.pre_norm"], "a.blk.{bid}.ln1"),
    TensorRule::copy(&["encoder.layers.{bid}.attn.to_q"], "a.blk.{bid}.attn_q"),
    // (2 width, width): keys, then values.
    TensorRule::part(&["encoder.layers.{bid}.attn.to_kv"], "a.blk.{bid}.attn_k", first_half),
    TensorRule::part(&["encoder.layers.{bid}.attn.to_kv"], "a.blk.{bid}.attn_v", second_half),
    TensorRule::copy(&["encoder.layers.{bid}.attn.to_out"], "a.blk.{bid}.attn_out"),
    // Its name in the reference has no ending, so it stays F32.
    TensorRule::copy(&["encoder.layers.{bid}.attn.rel_pos_emb.weight"], "a.blk.{bid}.attn_rel_pos_emb")
        .bare(""),
    TensorRule::copy(&["encoder.layers.{bid}.conv.norm"], "a.blk.{bid}.norm_conv"),
    kernel(&["encoder.layers.{bid}.conv.up_conv"], "a.blk.{bid}.conv_pw1"),
    kernel(&["encoder.layers.{bid}.conv.depth_conv.conv"], "a.blk.{bid}.conv_dw"),
    kernel(&["encoder.layers.{bid}.conv.down_conv"], "a.blk.{bid}.conv_pw2"),
    TensorRule::copy(&["encoder.layers.{bid}.ff2.pre_norm"], "a.blk.{bid}.ffn_norm_1"),
    TensorRule::copy(&["encoder.layers.{bid}.ff2.up_proj"], "a.blk.{bid}.ffn_up_1"),
    TensorRule::copy(&["encoder.layers.{bid}.ff2.down_proj"], "a.blk.{bid}.ffn_down_1"),
    TensorRule::copy(&["encoder.layers.{bid}.post_norm"], "a.blk.{bid}.ln2"),
];

/// The batch norm as a factor and a summand. The reference names them after the variance.
const NORM: &[TensorRule] = &[
    TensorRule::copy(
        &["encoder.layers.{bid}.conv.batch_norm.weight", "encoder.layers.{bid}.conv.batch_norm.running_var"],
        "a.blk.{bid}.conv_norm_var",
    )
    .bare(".weight")
    .rows(RowRule::Combine(Combination::NormScale { epsilon: 1e-5 })),
    TensorRule::copy(
        &[
            "encoder.layers.{bid}.conv.batch_norm.bias",
            "encoder.layers.{bid}.conv.batch_norm.running_mean",
            "encoder.layers.{bid}.conv.batch_norm.weight",
            "encoder.layers.{bid}.conv.batch_norm.running_var",
        ],
        "a.blk.{bid}.conv_norm_var",
    )
    .bare(".bias")
    .rows(RowRule::Combine(Combination::NormShift { epsilon: 1e-5 })),
];

const QFORMER: &[TensorRule] = qformer::layers!(
    "projector.qformer.encoder.layer.{bid}.",
    "a.proj_blk.{bid}.",
    Need::If(is_of_qformer),
    Need::If(|hparams, layer| {
        is_of_qformer(hparams, layer)
            && super::qformer::has_cross_attention(hparams.get("projector_config"), layer)
    })
);

fn is_of_qformer(hparams: &Hparams, layer: u64) -> bool {
    let n_layers = hparams.get("projector_config").and_then(|config| config.get("num_hidden_layers"));
    n_layers.and_then(Json::as_u64).is_some_and(|n_layers| layer < n_layers)
}

fn prepare(towers: &mut Towers) -> Result<(), ArchError> {
    let projector = towers.whole.get("projector_config").cloned().unwrap_or_default();
    let audio = towers.audio_mut()?;
    audio.set("projector_config", projector);
    let width = audio.need_u64(&["hidden_dim"])?;
    let factor = audio.need_u64(&["feedforward_mult"])?;
    audio.set("hidden_size", width.into());
    audio.set("intermediate_size", width.saturating_mul(factor).into());
    for (from, to) in [("num_heads", "num_attention_heads"), ("num_layers", "num_hidden_layers")] {
        let count = audio.need_u64(&[from])?;
        audio.set(to, count.into());
    }
    Ok(())
}

fn keys(towers: &Towers, keys: &mut Keys) -> Result<(), ArchError> {
    tower_keys(towers, keys)?;
    let audio = towers.audio()?;
    parts::kind(keys, "granite_speech");
    count(keys, "audio.num_mel_bins", audio, "encoder_config", &["input_dim"])?;
    keys.set_prefixed("audio.attention.layer_norm_epsilon", Value::F32(1e-5));
    count(keys, "audio.chunk_size", audio, "encoder_config", &["context_size"])?;
    count(keys, "audio.conv_kernel_size", audio, "encoder_config", &["conv_kernel_size"])?;
    count(keys, "audio.max_pos_emb", audio, "encoder_config", &["max_pos_emb"])?;
    for (key, name) in [
        ("audio.projector.window_size", "window_size"),
        ("audio.projector.downsample_rate", "downsample_rate"),
    ] {
        keys.set_derived(key, name, towers.whole.need_u64(&[name])?)?;
    }
    let heads = towers.whole.get("projector_config").and_then(|config| config.get("num_attention_heads"));
    let heads = heads.ok_or_else(|| missing("projector_config.num_attention_heads"))?;
    let heads = to_u32("projector_config.num_attention_heads", heads)?;
    keys.set_prefixed("audio.projector.head_count", Value::U32(heads));
    feature_layers(towers, keys)
}

/// Layers whose outputs are concatenated with the last one, which the Q-former attends to.
fn feature_layers(towers: &Towers, keys: &mut Keys) -> Result<(), ArchError> {
    const KEY: &str = "encoder_config.cat_hidden_layers";
    let audio = towers.audio()?;
    let Some(value) = audio.get("cat_hidden_layers") else { return Ok(()) };
    let layers = value.as_array().ok_or_else(|| bad(KEY, value, "a list of layers"))?;
    if layers.is_empty() {
        return Ok(());
    }
    let layers = layers.iter().map(|layer| to_i32(KEY, layer)).collect::<Result<Vec<_>, _>>()?;
    let width = audio.need_u64(&["hidden_dim"])?.saturating_mul(layers.len() as u64 + 1);
    let place = "projector_config.encoder_hidden_size";
    let found = towers.whole.get("projector_config").and_then(|config| config.get("encoder_hidden_size"));
    let found = found.ok_or_else(|| missing(place))?;
    if found.as_u64() != Some(width) {
        return Err(bad(place, found, "the width of the encoder times the number of concatenated outputs"));
    }
    keys.set_prefixed("audio.feature_layer", Value::Array(Array::I32(layers)));
    Ok(())
}

/// A kernel without its dimension of one, which stays F32 in every file.
const fn kernel(hf: &'static [&'static str], gguf: &'static str) -> TensorRule {
    TensorRule::copy(hf, gguf).shape(SQUEEZE_ANY).float(FloatType::F32)
}
