//! LFM2, by Liquid AI: text, images in LFM2-VL, and audio in LFM2-Audio.

pub mod convert;
pub mod graph;
pub mod projector;
pub mod vision;

use crate::families::decision::convert::d1;
use crate::family::Family;
use gguf_checkpoint::FamilyForm;
use gguf_layout::Wrapper;

pub const FAMILY: Family = Family {
    arches: &[
        convert::audio_tokenizer::AUDIO_TOKENIZER,
        convert::lfm2::LFM2,
        convert::lfm2_embed::LFM2_EMBED,
        convert::lfm2moe::LFM2MOE,
    ],
    projectors: &[projector::audio::LFM2AUDIO, projector::d1_omni::D1_OMNI, projector::vl::LFM2VL],
    wrappers: &[Wrapper { model_type: "lfm2_vl", usual_text: "lfm2" }],
    graphs: graph::GRAPHS,
    forms: FORMS,
    towers: vision::TOWERS,
    ..Family::EMPTY
};

/// Names of mlx-lm 0.32.2, and models on LFM2-VL.
const FORMS: &[FamilyForm] = &[
    FamilyForm {
        model_types: &["lfm2_moe"],
        mlx_names: &[
            (".gate_proj.weight", ".w1.weight"),
            (".down_proj.weight", ".w2.weight"),
            (".up_proj.weight", ".w3.weight"),
        ],
        ..FamilyForm::USUAL
    },
    FamilyForm { model_types: &["lfm2_vl"], marked: &[d1::MARKED], ..FamilyForm::USUAL },
];
