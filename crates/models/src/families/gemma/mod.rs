//! Gemma, by Google: text, and images and audio from Gemma 3 on.
//!
//! `convert/` converts a checkpoint to a file, and `projector/` its towers to a second file (`mmproj`). `graph.rs` runs the first
//! file; `vision/` and `audio.rs` turn pictures and sounds into input rows. `golden.py` makes the small checkpoints that tests
//! use.

pub mod audio;
pub mod convert;
pub mod graph;
pub mod projector;
pub mod vision;

use crate::family::Family;
use gguf_checkpoint::FamilyForm;

pub const FAMILY: Family = Family {
    arches: &[
        convert::gemma::GEMMA,
        convert::gemma2::GEMMA2,
        convert::gemma3::GEMMA3,
        convert::gemma3n::GEMMA3N,
        convert::gemma4::GEMMA4,
        convert::gemma4_assistant::GEMMA4_ASSISTANT,
        convert::gemma4_unified::GEMMA4_UNIFIED,
        convert::gemma_embedding::GEMMA_EMBEDDING,
        convert::gemma_embedding2::GEMMA_EMBEDDING2,
        convert::vaultgemma::VAULTGEMMA,
    ],
    projectors: &[
        projector::gemma3::GEMMA3,
        projector::gemma3n::GEMMA3N,
        projector::gemma4::GEMMA4,
        projector::gemma4_unified::GEMMA4_UNIFIED,
    ],
    graphs: graph::GRAPHS,
    towers: vision::TOWERS,
    encoders: audio::ENCODERS,
    forms: FORMS,
    ..Family::EMPTY
};

/// Files of mlx-lm 0.32.2.
const FORMS: &[FamilyForm] = &[
    FamilyForm::refused(&["recurrent_gemma"], None, "its layout is that of MLX"),
    FamilyForm::refused(&["gemma4", "gemma4_text"], Some(".switch_glu."), "its gate and up are split"),
];
