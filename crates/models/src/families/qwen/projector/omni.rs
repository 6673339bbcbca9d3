//! Vision towers and audio encoders of Qwen 2.5 Omni and Qwen 3 Omni, and the audio encoder of Qwen 3 ASR.
//!
//! Config keys: those of the towers of Qwen 2.5 VL and Qwen 3 VL, and those of Whisper's encoder.
//!
//! Transforms: those of the vision towers. Positions of the audio encoder are computed. Kernels of convolutions over sound are F16
//! in every file; biases get dimensions of one.
//!
//! Source: `Qwen25OmniModel` in `conversion/qwenvl.py`, `Qwen3OmniMmprojModel` and `Qwen3ASRMmprojModel` in
//! `conversion/qwen3vl.py`.

use super::{qwen2vl, qwen3vl};
use crate::families::whisper::projector as whisper;
use crate::parts::patch_tower;
use crate::parts::sinusoids::sinusoids;
use gguf_layout::projector::prelude::*;

/// Positions of sound; a chunk of 30 seconds has 1500.
const N_POSITIONS: u16 = 1500;

/// The row of Qwen 2.5 Omni.
pub const QWEN25OMNI: Projector = Projector {
    name: "qwen2.5omni",
    classes: &["Qwen2_5OmniModel"],
    example: "Qwen/Qwen2.5-Omni-3B",
    vision: Some(Tower {
        at: &["thinker_config.vision_config"],
        classes: &[ConfigClass::new("qwen2_5_omni_vision_encoder")],
        ..AUDIO
    }),
    audio: Some(Tower {
        at: &["thinker_config.audio_config"],
        classes: &[ConfigClass::new("qwen2_5_omni_audio_encoder")],
        ..AUDIO
    }),
    tensors: &[
        parts::FRAMES,
        parts::LAYERS_OF_QWEN,
        &[
            TensorRule::copy(&["visual.blocks.{bid}.attn.q"], "v.blk.{bid}.attn_q"),
            TensorRule::copy(&["visual.blocks.{bid}.attn.k"], "v.blk.{bid}.attn_k"),
            TensorRule::copy(&["visual.blocks.{bid}.attn.v"], "v.blk.{bid}.attn_v"),
        ],
        parts::GATED_OF_QWEN,
        qwen2vl::MERGER,
        whisper::CONVOLUTIONS,
        &SOUND_LAYERS,
        &[TensorRule::copy(&["audio_tower.proj"], "mm.a.fc")],
    ],
    owns,
    drops: |_, name| {
        name.contains("audio_bos_eos_token")
            .then_some("embeddings of tokens around sound, which no model uses")
    },
    rename: |_, name| Some(renamed(name)),
    prepare: |towers| {
        qwen2vl::prepare(towers)?;
        whisper::renamed(towers.audio_mut()?);
        Ok(())
    },
    keys: |towers, keys| {
        tower_keys(towers, keys)?;
        sound_keys(towers, keys)?;
        parts::kind(keys, "qwen2.5o");
        keys.set_prefixed("use_silu", Value::Bool(true));
        let pattern = qwen2vl::window_pattern(towers.vision()?)?;
        keys.set_prefixed("vision.n_wa_pattern", Value::U32(pattern));
        parts::epsilon(keys, "rms_norm_eps", &towers.whole, 1e-6)
    },
    computed: positions,
    ..BASE
};

/// The row of Qwen 3 Omni.
pub const QWEN3OMNI: Projector = Projector {
    name: "qwen3omni",
    classes: &["Qwen3OmniMoeForConditionalGeneration"],
    example: "Qwen/Qwen3-Omni-30B-A3B-Instruct",
    vision: Some(Tower {
        at: &["thinker_config.vision_config"],
        classes: &[ConfigClass::new("qwen3_omni_moe_vision_encoder")],
        ..AUDIO
    }),
    audio: Some(Tower {
        at: &["thinker_config.audio_config"],
        classes: &[ConfigClass::new("qwen3_omni_moe_audio_encoder")],
        ..AUDIO
    }),
    tensors: &[
        parts::FRAMES,
        parts::LAYERS_OF_QWEN,
        patch_tower::LAYERS,
        qwen3vl::MERGERS,
        CONVOLUTIONS,
        &SOUND_LAYERS,
        TWO_MATRICES,
    ],
    owns,
    rename: rename_qwen3,
    prepare: |towers| {
        qwen3vl::prepare(towers)?;
        whisper::renamed(towers.audio_mut()?);
        Ok(())
    },
    keys: |towers, keys| {
        tower_keys(towers, keys)?;
        sound_keys(towers, keys)?;
        qwen3vl::vision_keys(towers, keys)?;
        keys.set_prefixed("vision.projector_type", "qwen3vl_merger".into());
        keys.set_prefixed("audio.projector_type", "qwen3a".into());
        Ok(())
    },
    computed: positions,
    ..BASE
};

/// The row of Qwen 3 ASR.
pub const QWEN3ASR: Projector = Projector {
    name: "qwen3asr",
    classes: &["Qwen3ASRForConditionalGeneration"],
    example: "Qwen/Qwen3-ASR-0.6B",
    vision: None,
    audio: Some(Tower {
        at: &["thinker_config.audio_config", "audio_config"],
        classes: &[ConfigClass::new("qwen3_asr_encoder")],
        ..AUDIO
    }),
    tensors: &[CONVOLUTIONS, &SOUND_LAYERS, TWO_MATRICES],
    owns: |_, name| name.contains("audio_tower.") || name.starts_with("model.multi_modal_projector."),
    // transformers has the two matrices outside the tower.
    rename: |_, name| Some(renamed(name).replace("multi_modal_projector.linear_", "audio_tower.proj")),
    prepare: |towers| {
        whisper::renamed(towers.audio_mut()?);
        Ok(())
    },
    keys: |towers, keys| {
        tower_keys(towers, keys)?;
        sound_keys(towers, keys)?;
        keys.set_prefixed("audio.projector_type", "qwen3a".into());
        Ok(())
    },
    computed: positions,
    ..BASE
};

/// Three convolutions over time and frequency, and a matrix that joins their outputs over all frequencies.
const CONVOLUTIONS: &[TensorRule] = &[
    kernel(&["audio_tower.conv2d1.weight"], "a.conv2d.1"),
    bias(&["audio_tower.conv2d1.bias"], "a.conv2d.1"),
    kernel(&["audio_tower.conv2d2.weight"], "a.conv2d.2"),
    bias(&["audio_tower.conv2d2.bias"], "a.conv2d.2"),
    kernel(&["audio_tower.conv2d3.weight"], "a.conv2d.3"),
    bias(&["audio_tower.conv2d3.bias"], "a.conv2d.3"),
    TensorRule::copy(&["audio_tower.conv_out"], "a.conv_out").float(FloatType::F16),
];

const fn kernel(hf: &'static [&'static str], gguf: &'static str) -> TensorRule {
    TensorRule::copy(hf, gguf).bare(".weight").float(FloatType::F16)
}

/// (out) as (out, 1, 1), which is added to (out, frequencies, frames).
const fn bias(hf: &'static [&'static str], gguf: &'static str) -> TensorRule {
    TensorRule::copy(hf, gguf).bare(".bias").shape(PLANES)
}

/// A vector with two inner dimensions of one.
const PLANES: Reshape = Reshape {
    forward: |_, dims| Ok([&[1, 1], dims].concat()),
    inverse: |dims| dims.iter().skip(2).copied().collect(),
};

/// Whisper's layers, without positions, and the norm after them under another name.
const SOUND_LAYERS: [TensorRule; 10] = {
    let mut rules = whisper::layers(Need::Optional);
    rules[9] = TensorRule::copy(&["audio_tower.ln_post"], "a.post_ln");
    rules
};

const TWO_MATRICES: &[TensorRule] = &[
    TensorRule::copy(&["audio_tower.proj1"], "mm.a.mlp.1"),
    TensorRule::copy(&["audio_tower.proj2"], "mm.a.mlp.2"),
];

fn owns(_: &Hparams, name: &str) -> bool {
    let name = name.strip_prefix("thinker.").unwrap_or(name);
    name.starts_with("visual.") || name.starts_with("audio_tower.")
}

fn renamed(name: &str) -> String {
    let name = name.strip_prefix("thinker.").unwrap_or(name);
    name.strip_prefix("model.").unwrap_or(name).to_owned()
}

/// Mergers have the names of Qwen 2.
fn rename_qwen3(hparams: &Hparams, name: &str) -> Option<String> {
    let mut name = renamed(name);
    if name.contains(".merger.") || name.contains(".merger_list.") {
        for (from, to) in [
            (".merger_list.", ".deepstack_merger_list."),
            (".ln_q", ".norm"),
            (".mlp.0", ".linear_fc1"),
            (".mlp.2", ".linear_fc2"),
        ] {
            name = name.replace(from, to);
        }
    }
    qwen3vl::rename(hparams, &name)
}

fn sound_keys(towers: &Towers, keys: &mut Keys) -> Result<(), ArchError> {
    let audio = towers.audio()?;
    count(keys, "audio.num_mel_bins", audio, "audio_config", &["num_mel_bins"])?;
    let epsilon = audio.get_f64("layer_norm_eps")?.unwrap_or(1e-5);
    keys.set_prefixed("audio.attention.layer_norm_epsilon", Value::F32(epsilon as f32));
    Ok(())
}

/// The table of positions of sound, which checkpoints do not have.
fn positions(towers: &Towers) -> Result<Vec<gguf_layout::projector::Table>, ArchError> {
    let width = towers.audio()?.need_u64(&["hidden_size"])?;
    let table = sinusoids("audio_config.d_model", N_POSITIONS, width)?;
    Ok(vec![("a.position_embd.weight", vec![width, N_POSITIONS.into()], table)])
}
