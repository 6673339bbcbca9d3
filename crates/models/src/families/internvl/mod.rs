//! InternVL, by OpenGVLab: vision projectors for models of other families.

pub mod projector;
pub mod vision;

use crate::family::Family;
use gguf_layout::Wrapper;

pub const FAMILY: Family = Family {
    projectors: &[projector::INTERNVL],
    wrappers: &[Wrapper { model_type: "internvl", usual_text: "qwen2" }],
    towers: vision::TOWERS,
    ..Family::EMPTY
};
