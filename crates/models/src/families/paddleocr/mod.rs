//! PaddleOCR-VL, by Baidu: text and images.

pub mod convert;
pub mod graph;
pub mod projector;
pub mod vision;

use crate::family::Family;

pub const FAMILY: Family = Family {
    arches: &[convert::PADDLEOCR],
    projectors: &[projector::PADDLEOCR],
    graphs: graph::GRAPHS,
    towers: vision::TOWERS,
    ..Family::EMPTY
};
