//! LightOnOCR, by LightOn: the vision projector for a model of the qwen family.

pub mod projector;
pub mod vision;

use crate::family::Family;
use gguf_layout::Wrapper;

pub const FAMILY: Family = Family {
    projectors: &[projector::LIGHTONOCR],
    wrappers: &[Wrapper { model_type: "lighton_ocr", usual_text: "qwen3" }],
    towers: vision::TOWERS,
    ..Family::EMPTY
};
