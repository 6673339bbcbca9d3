//! Whisper's encoder before a text model: Ultravox, Voxtral, Qwen 2 Audio, Audio Flamingo 3.
//!
//! Config keys: those of every tower of sound; the number of frequency bands; how many frames are stacked.
//!
//! Transforms: biases of the convolutions become columns; kernels stay F16 in every file.
//!
//! Source: `WhisperEncoderModel` and its like in `conversion/ultravox.py`.

use gguf_layout::projector::prelude::*;

/// The row of Qwen 2 Audio.
pub const QWEN2AUDIO: Projector = Projector {
    name: "qwen2audio",
    classes: &["Qwen2AudioForConditionalGeneration"],
    example: "Qwen/Qwen2-Audio-7B-Instruct",
    audio: Some(Tower { classes: &[ConfigClass::new("qwen2_audio_encoder")], ..AUDIO }),
    tensors: &[CONVOLUTIONS, LAYERS, &[TensorRule::copy(&["audio.multi_modal_projector.linear"], "mm.a.fc")]],
    keys: |towers, keys| audio_keys(towers, keys, "qwen2a"),
    ..WHISPER
};

/// The row of Audio Flamingo 3 and Music Flamingo.
pub const AUDIOFLAMINGO3: Projector = Projector {
    name: "audioflamingo3",
    classes: &["AudioFlamingo3ForConditionalGeneration"],
    example: "nvidia/audio-flamingo-3-hf",
    audio: Some(Tower { classes: &[ConfigClass::new("audioflamingo3_encoder")], ..AUDIO }),
    tensors: &[F32_CONVOLUTIONS, LAYERS, TWO_MATRICES],
    keys: |towers, keys| {
        audio_keys(towers, keys, "qwen2a")?;
        // Replaces the kind that `audio_keys` writes.
        parts::kind(keys, "musicflamingo");
        Ok(())
    },
    ..WHISPER
};

/// The row of Ultravox.
pub const ULTRAVOX: Projector = Projector {
    name: "ultravox",
    classes: &["UltravoxModel"],
    example: "fixie-ai/ultravox-v0_5-llama-3_2-1b",
    tensors: &[CONVOLUTIONS, LAYERS, ULTRAVOX_MATRICES],
    keys: |towers, keys| {
        audio_keys(towers, keys, "qwen2a")?;
        parts::kind(keys, "ultravox");
        let factor = towers.whole.need_u64(&["stack_factor"])?;
        keys.set_derived("audio.projector.stack_factor", "stack_factor", factor)
    },
    ..WHISPER
};

/// The row of Voxtral.
pub const VOXTRAL: Projector = Projector {
    name: "voxtral",
    classes: &["VoxtralForConditionalGeneration"],
    example: "mistralai/Voxtral-Mini-3B-2507",
    audio: Some(Tower { classes: &[ConfigClass::new("voxtral_encoder")], ..AUDIO }),
    tensors: &[CONVOLUTIONS, LAYERS, TWO_MATRICES],
    keys: |towers, keys| {
        audio_keys(towers, keys, "qwen2a")?;
        parts::kind(keys, "voxtral");
        // Four frames become one; no config key states this.
        keys.set_derived("audio.projector.stack_factor", "", 4)
    },
    ..WHISPER
};

/// Common parts.
const WHISPER: Projector = Projector {
    vision: None,
    audio: Some(AUDIO),
    owns: |_, name| {
        let name = name.strip_prefix("model.").unwrap_or(name);
        name.starts_with("audio_tower.") || name.starts_with("multi_modal_projector.")
    },
    rename: |_, name| {
        let name = name.strip_prefix("model.").unwrap_or(name);
        // Towers of images have a projector of this name too.
        Some(if name.starts_with("multi_modal_projector.") {
            format!("audio.{name}")
        } else {
            name.to_owned()
        })
    },
    prepare,
    ..BASE
};

/// Convolutions whose kernels are F16.
pub const CONVOLUTIONS: &[TensorRule] = &convolutions(FloatType::F16);

/// Convolutions whose kernels are F32.
const F32_CONVOLUTIONS: &[TensorRule] = &convolutions(FloatType::F32);

const fn convolutions(float: FloatType) -> [TensorRule; 4] {
    [
        TensorRule::copy(&["audio_tower.conv1.weight"], "a.conv1d.1").bare(".weight").float(float),
        // (out) as (out, 1), which is added to (out, frames).
        TensorRule::copy(&["audio_tower.conv1.bias"], "a.conv1d.1").bare(".bias").shape(COLUMN),
        TensorRule::copy(&["audio_tower.conv2.weight"], "a.conv1d.2").bare(".weight").float(float),
        TensorRule::copy(&["audio_tower.conv2.bias"], "a.conv1d.2").bare(".bias").shape(COLUMN),
    ]
}

/// Positions, layers and the final norm.
pub const LAYERS: &[TensorRule] = &layers(Need::Always);

/// [`LAYERS`], of which some have no learned positions.
pub const fn layers(positions: Need) -> [TensorRule; 10] {
    [
        TensorRule::copy(&["audio_tower.embed_positions"], "a.position_embd").need(positions),
        TensorRule::copy(&["audio_tower.layers.{bid}.self_attn_layer_norm"], "a.blk.{bid}.ln1"),
        // Final within its layer, before fc1; the norm after all layers is `layer_norm`.
        TensorRule::copy(&["audio_tower.layers.{bid}.final_layer_norm"], "a.blk.{bid}.ln2"),
        TensorRule::copy(&["audio_tower.layers.{bid}.self_attn.q_proj"], "a.blk.{bid}.attn_q"),
        TensorRule::copy(&["audio_tower.layers.{bid}.self_attn.k_proj"], "a.blk.{bid}.attn_k"),
        TensorRule::copy(&["audio_tower.layers.{bid}.self_attn.v_proj"], "a.blk.{bid}.attn_v"),
        TensorRule::copy(&["audio_tower.layers.{bid}.self_attn.out_proj"], "a.blk.{bid}.attn_out"),
        TensorRule::copy(&["audio_tower.layers.{bid}.fc1"], "a.blk.{bid}.ffn_up"),
        TensorRule::copy(&["audio_tower.layers.{bid}.fc2"], "a.blk.{bid}.ffn_down"),
        TensorRule::copy(&["audio_tower.layer_norm"], "a.post_ln"),
    ]
}

const TWO_MATRICES: &[TensorRule] = &[
    TensorRule::copy(&["audio.multi_modal_projector.linear_1"], "mm.a.mlp.1"),
    TensorRule::copy(&["audio.multi_modal_projector.linear_2"], "mm.a.mlp.2"),
];

/// Ultravox has one norm: before the matrices in early releases, between them in later ones.
const ULTRAVOX_MATRICES: &[TensorRule] = &[
    TensorRule::copy(&["audio.multi_modal_projector.ln_pre"], "mm.a.norm_pre").need(Need::Optional),
    TensorRule::copy(&["audio.multi_modal_projector.ln_mid"], "mm.a.norm_mid").need(Need::Optional),
    TensorRule::copy(&["audio.multi_modal_projector.linear_1"], "mm.a.mlp.1"),
    TensorRule::copy(&["audio.multi_modal_projector.linear_2"], "mm.a.mlp.2"),
];

/// Takes sizes from under the names of Whisper, if the usual ones are not there.
pub fn prepare(towers: &mut Towers) -> Result<(), ArchError> {
    let audio = towers.audio_mut()?;
    // Voxtral and Audio Flamingo 3 have the usual names, Qwen 2 Audio has Whisper's.
    if audio.get("hidden_size").is_some() || audio.get("intermediate_size").is_some() {
        return Ok(());
    }
    renamed(audio);
    Ok(())
}

/// Takes the sizes of Whisper's encoder from under its own names.
pub fn renamed(audio: &mut Hparams) {
    for (from, to) in [
        ("d_model", "hidden_size"),
        ("encoder_ffn_dim", "intermediate_size"),
        ("encoder_attention_heads", "num_attention_heads"),
    ] {
        let value = audio.get(from).cloned().unwrap_or_default();
        audio.set(to, value);
    }
}

/// Keys of a tower of Whisper.
pub fn audio_keys(towers: &Towers, keys: &mut Keys, kind: &str) -> Result<(), ArchError> {
    tower_keys(towers, keys)?;
    let audio = towers.audio()?;
    parts::kind(keys, kind);
    count(keys, "audio.num_mel_bins", audio, "audio_config", &["num_mel_bins"])?;
    let epsilon = audio.get_f64("layer_norm_eps")?.unwrap_or(1e-5);
    keys.set_prefixed("audio.attention.layer_norm_epsilon", Value::F32(epsilon as f32));
    Ok(())
}
