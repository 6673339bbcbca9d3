//! PaddleOCR-VL, the text part.
//!
//! Config keys: those of every text model, among them the sections of the rotated dimensions (time, height, width).
//!
//! Source: `PaddleOCRModel` in `conversion/ernie.py`.

use crate::families::ernie::convert::ernie4_5::ERNIE4_5;
use crate::prelude::*;

pub const PADDLEOCR: Arch = Arch {
    name: "paddleocr",
    classes: &[Class::new("PaddleOCRVLForConditionalGeneration")],
    example: "PaddlePaddle/PaddleOCR-VL",
    configs: &[PADDLEOCR_VL_CONFIG],
    harmless: &["hidden_act=silu"],
    ..ERNIE4_5
};

/// `PaddleOCRVLConfig`: text and images.
const PADDLEOCR_VL_CONFIG: ConfigClass = ConfigClass::new("paddleocr_vl").adjusted(|map| {
    // The text part may be nested or flat.
    adjust::text_config_or_flat(map, &ConfigClass::new("paddleocr_vl_text"))
});
