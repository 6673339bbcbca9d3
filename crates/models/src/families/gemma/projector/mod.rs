//! Projectors of this family, one file for each.

/// Matrices, each with the bounds of what goes in and comes out if it is clipped.
macro_rules! clipped {
    ($(($hf:literal, $gguf:literal)),* $(,)?) => {
        &[$(
            TensorRule::copy(&[$hf], $gguf),
            gguf_layout::projector::parts::bound(&[concat!($hf, ".input_max")], $gguf, ".input_max"),
            gguf_layout::projector::parts::bound(&[concat!($hf, ".input_min")], $gguf, ".input_min"),
            gguf_layout::projector::parts::bound(&[concat!($hf, ".output_max")], $gguf, ".output_max"),
            gguf_layout::projector::parts::bound(&[concat!($hf, ".output_min")], $gguf, ".output_min"),
        )*]
    };
}

pub mod gemma3;
pub mod gemma3n;
pub mod gemma4;
pub mod gemma4_audio;
pub mod gemma4_unified;
