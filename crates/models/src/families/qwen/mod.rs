//! Qwen, by Alibaba: text, and images and audio in Qwen VL, Omni and ASR.

pub mod audio;
pub mod convert;
pub mod graph;
pub mod projector;
pub mod vision;

use crate::families::decision::convert::{clef, lev, nimble, openjev, pplx_decider};
use crate::family::Family;
use gguf_checkpoint::FamilyForm;
use gguf_layout::{Quantization, Wrapper};

pub const FAMILY: Family = Family {
    arches: &[
        convert::qwen::QWEN,
        convert::qwen2::QWEN2,
        convert::qwen2::MUSIC_FLAMINGO,
        convert::qwen2moe::QWEN2MOE,
        convert::qwen2vl::QWEN2VL,
        convert::qwen3::QWEN3,
        convert::qwen3::QWEN3_RERANKER,
        convert::qwen35::MINICPMV,
        convert::qwen35::QWEN35,
        convert::qwen35::QWEN35MOE,
        convert::qwen35::QWEN35_TEXT,
        convert::qwen3moe::QWEN3MOE,
        convert::qwen3next::QWEN3NEXT,
        convert::qwen3vl::QWEN3ASR,
        convert::qwen3vl::QWEN3OMNI,
        convert::qwen3vl::QWEN3VL,
        convert::qwen3vl::QWEN3VL_RERANKER,
        convert::qwen3vl::QWEN3VLMOE,
        convert::qwen4exp::QWEN4EXP,
    ],
    projectors: &[
        projector::omni::QWEN25OMNI,
        projector::qwen2vl::QWEN2VL,
        projector::omni::QWEN3ASR,
        projector::omni::QWEN3OMNI,
        projector::tts::QWEN3TTS,
        projector::qwen3vl::QWEN3VL,
    ],
    foreign: &[],
    quantization: &[Quantization { architecture: "qwen2", layers_of_70b: Some(80), ..Quantization::USUAL }],
    departures: &[],
    wrappers: &[
        Wrapper { model_type: "audioflamingo3", usual_text: "qwen2" },
        Wrapper { model_type: "qwen2_audio", usual_text: "qwen2" },
        Wrapper { model_type: "qwen3_asr", usual_text: "qwen3" },
    ],
    graphs: graph::GRAPHS,
    drafts: &[],
    towers: vision::TOWERS,
    encoders: audio::ENCODERS,
    forms: FORMS,
};

/// Files of mlx-lm 0.32.2.
const FORMS: &[FamilyForm] = &[
    FamilyForm::refused(&["qwen3_vl_moe"], Some(".gate_proj."), "its experts are split and transposed"),
    FamilyForm {
        model_types: &["qwen3_next", "qwen3_5", "qwen3_5_moe", "qwen3_5_text", "qwen3_5_moe_text"],
        mlx_norms: &[
            ".input_layernorm.weight",
            ".post_attention_layernorm.weight",
            "model.norm.weight",
            ".q_norm.weight",
            ".k_norm.weight",
        ],
        marked: &[clef::MARKED, pplx_decider::MARKED, openjev::MARKED],
        adapters: &[lev::MARKED, nimble::MARKED],
        ..FamilyForm::USUAL
    },
];
