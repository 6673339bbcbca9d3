//! DeepSeek, and models of other vendors with the same classes; images in DeepSeek-OCR.

pub mod convert;
pub mod graph;
pub mod projector;

use crate::family::Family;

pub const FAMILY: Family = Family {
    arches: &[
        convert::deepseek::DEEPSEEK,
        convert::deepseek2::DEEPSEEK2,
        convert::deepseek2_ocr::DEEPSEEK2_OCR,
        convert::deepseek32::DEEPSEEK32,
        convert::deepseek4::DEEPSEEK4,
        convert::deepseek4::DEEPSEEK4_DSPARK,
    ],
    projectors: &[
        projector::v4::DEEPSEEK4,
        projector::ocr::DEEPSEEKOCR,
        projector::ocr::DEEPSEEKOCR2,
        projector::ocr::UNLIMITEDOCR,
    ],
    graphs: graph::GRAPHS,
    ..Family::EMPTY
};
