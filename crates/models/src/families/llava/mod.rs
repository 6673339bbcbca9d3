//! LLaVA with the vision tower of Pixtral: projectors for models of the llama and mistral families.

pub mod projector;

use crate::family::Family;
use gguf_layout::Wrapper;

pub const FAMILY: Family = Family {
    projectors: &[projector::PIXTRAL],
    wrappers: &[
        Wrapper { model_type: "llava", usual_text: "llama" },
        Wrapper { model_type: "llava_next", usual_text: "llama" },
    ],
    ..Family::EMPTY
};
