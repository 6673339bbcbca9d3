//! Vision towers of decision models whose processor limits the size of images.
//!
//! Config keys: those of Qwen 3 VL; limits of the number of pixels.
//!
//! Source: `PplxDeciderVisionModel` in `conversion/pplx_decider.py` of llama.cpp build 11549, which is newer than the pinned
//! one.

use crate::families::qwen::projector::qwen3vl::QWEN3VL;
use gguf_layout::projector::prelude::*;

pub const PPLX_DECIDER: Projector = Projector {
    name: "pplx-decider",
    classes: &["PplxDeciderModel"],
    example: "perplexity-ai/pplx-decider-v1-27b",
    keys: |towers, keys| {
        (QWEN3VL.keys)(towers, keys)?;
        let size = towers.preprocessor.get("size");
        // The sides of the processor's limits are numbers of pixels.
        for (key, name) in [("image_min_pixels", "shortest_edge"), ("image_max_pixels", "longest_edge")] {
            let limit =
                size.and_then(|size| size.get(name)).ok_or_else(|| missing_in(PREPROCESSORS[0], name))?;
            keys.set_prefixed(&format!("vision.{key}"), Value::U32(to_u32(name, limit)?));
        }
        Ok(())
    },
    ..QWEN3VL
};
