//! Idefics 3 and SmolVLM, by Hugging Face: vision projectors for models of the llama family.

pub mod projector;
pub mod vision;

use crate::family::Family;
use gguf_layout::Wrapper;

pub const FAMILY: Family = Family {
    projectors: &[projector::IDEFICS3],
    wrappers: &[
        Wrapper { model_type: "idefics3", usual_text: "llama" },
        Wrapper { model_type: "smolvlm", usual_text: "llama" },
    ],
    towers: vision::TOWERS,
    ..Family::EMPTY
};
