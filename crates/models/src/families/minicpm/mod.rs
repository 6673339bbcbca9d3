//! MiniCPM, by OpenBMB: text, and images in MiniCPM-V.

pub mod convert;
pub mod graph;
pub mod projector;
pub mod vision;

use crate::family::Family;
use gguf_layout::Wrapper;

pub const FAMILY: Family = Family {
    arches: &[convert::minicpm::MINICPM, convert::minicpm3::MINICPM3],
    projectors: &[projector::MINICPMV],
    wrappers: &[Wrapper { model_type: "minicpmv4_6", usual_text: "qwen3_5_text" }],
    graphs: graph::GRAPHS,
    towers: vision::TOWERS,
    ..Family::EMPTY
};
