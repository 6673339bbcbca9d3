//! Towers of D1-Omni: that of LFM2-VL, and the Conformer of LFM2-Audio with a residual block after its projection.
//!
//! Config keys: those of both.
//!
//! Transforms: those of both.
//!
//! Source: `D1OmniMmprojModel` in `conversion/lfm2.py` of llama.cpp build 11549, which is newer than the pinned one.

use super::{audio, vl};
use crate::families::siglip::projector as siglip;
use gguf_layout::projector::prelude::*;

pub const D1_OMNI: Projector = Projector {
    name: "d1-omni",
    classes: &["D1OmniModel"],
    example: "LiquidAI/d1-omni-600M",
    audio: Some(AUDIO),
    tensors: &[
        vl::EMBEDDINGS,
        siglip::LAYERS,
        vl::PROJECTION,
        RESIDUAL,
        audio::ENDS,
        audio::LAYERS,
        audio::NORM,
    ],
    owns: |_, name| name.starts_with("vision.") || name.starts_with("audio."),
    drops: audio::LFM2AUDIO.drops,
    rename: |hparams, name| {
        if let Some(rest) = name.strip_prefix("vision.tower.") {
            return siglip::rename(hparams, &format!("vision_tower.{rest}"));
        }
        let (part, rest) = name.split_once('.')?.1.split_once('.')?;
        let part = match part {
            "projector" => "multi_modal_projector",
            "encoder" => "conformer",
            "adapter" | "residual" => {
                let (module, ending) = rest.split_once('.')?;
                let number = MODULES.iter().find(|(name, _)| *name == (part, module))?.1;
                return Some(format!("audio_adapter.model.{number}.{ending}"));
            }
            _ => return None,
        };
        Some(format!("{part}.{rest}"))
    },
    needs_preprocessor: false,
    prepare: |towers| {
        // Images may have any size; the reference writes this one, and pixels from -1 to 1.
        towers.vision_mut()?.set("image_size", 256.into());
        for key in ["image_mean", "image_std"] {
            towers.preprocessor.set(key, vec![0.5; 3].into());
        }
        let audio = towers.audio_mut()?;
        let factor = audio.need_u64(&["ff_expansion_factor"])?;
        audio::rename_sizes(audio, factor)
    },
    keys: |towers, keys| {
        tower_keys(towers, keys)?;
        keys.set_prefixed("vision.projector_type", "d1omni_v".into());
        vl::vision_keys(towers, keys)?;
        keys.set_prefixed("audio.projector_type", "d1omni_a".into());
        audio::audio_keys(towers, keys, "audio_config")
    },
    ..BASE
};

/// Modules after the encoder of sound by their order: norm, two matrices; norm, two matrices of the residual block.
const MODULES: &[((&str, &str), u8)] = &[
    (("adapter", "norm"), 0),
    (("adapter", "linear_1"), 1),
    (("adapter", "linear_2"), 3),
    (("residual", "ln"), 4),
    (("residual", "down"), 5),
    (("residual", "up"), 6),
];

const RESIDUAL: &[TensorRule] = &[
    TensorRule::copy(&["audio_adapter.model.4"], "mm.a.mlp.4"),
    TensorRule::copy(&["audio_adapter.model.5"], "mm.a.mlp.5"),
    TensorRule::copy(&["audio_adapter.model.6"], "mm.a.mlp.6"),
];
