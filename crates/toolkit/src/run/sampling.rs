//! The sampling that a file recommends.

use gguf_container::{Metadata, Value};
use gguf_runtime::generate::Sampling;

/// Sampling for chats: the values that the file recommends in `general.sampling.*`, which a conversion takes from
/// `generation_config.json`. The others are llama.cpp's defaults, except for the temperature: at 0.3 instead of 0.8, small models
/// answer factual questions far more often. [`Sampling::check`] finds values that are out of range.
///
/// Source: `common_init_sampler_from_model` in `common/common.cpp` and `common_params_sampling` in `common/common.h` of
/// llama.cpp, as vendored in llama-cpp-python 0.3.36.
///
/// # Examples
/// ```
/// use gguf_toolkit::{Metadata, run::recommended_sampling};
///
/// let mut metadata = Metadata::new();
/// metadata.set("general.sampling.temp", 0.6f32);
/// let sampling = recommended_sampling(&metadata);
/// assert_eq!((sampling.temperature, sampling.top_k), (0.6, 40));
/// ```
pub fn recommended_sampling(metadata: &Metadata) -> Sampling {
    let value = |key: &str| metadata.get(&format!("general.sampling.{key}"));
    let float = |key: &str, default: f32| value(key).and_then(Value::as_f64).map_or(default, |v| v as f32);
    let integer = |key: &str| value(key).and_then(|value| value.to_string().parse::<i64>().ok());
    Sampling {
        temperature: float("temp", 0.3),
        // 0 and less: all tokens.
        top_k: integer("top_k").map_or(40, |k| usize::try_from(k).unwrap_or(0)),
        top_p: float("top_p", 0.95),
        min_p: float("min_p", 0.05),
        repeat_penalty: float("penalty_repeat", 1.0),
        repeat_last_n: integer("penalty_last_n").map_or(64, |n| i32::try_from(n).unwrap_or(-1)),
        seed: 0,
    }
}
