//! Janus, by DeepSeek: the vision projector for a model of the llama family.

pub mod projector;
pub mod vision;

use crate::family::Family;
use gguf_layout::Wrapper;

pub const FAMILY: Family = Family {
    projectors: &[projector::JANUS],
    wrappers: &[Wrapper { model_type: "janus", usual_text: "llama" }],
    towers: vision::TOWERS,
    ..Family::EMPTY
};
