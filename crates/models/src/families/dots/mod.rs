//! dots, by rednote: text, and images in dots.ocr.

pub mod convert;
pub mod graph;
pub mod projector;

use crate::family::Family;

pub const FAMILY: Family = Family {
    arches: &[convert::dots1::DOTS1, convert::dots3::DOTS3NOTE],
    projectors: &[projector::dots3note::DOTS3NOTE, projector::dotsocr::DOTSOCR],
    graphs: graph::GRAPHS,
    ..Family::EMPTY
};
