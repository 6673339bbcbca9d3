//! Rotary scaling of Llama 3.1, which is a tensor and not a key.

use crate::ArchError;
use crate::config::Rope;
use crate::error::bad;

/// Dimensions of a head beyond which a config is broken; known models have 256 at most.
const MAX_ROTARY_DIM: u64 = 1 << 16;

/// The divisor of each rotated pair, shape `[dim / 2]`, if the rotary parameters are of
/// type `llama3`. `dim`, the number of dimensions that are rotated, is computed only then.
///
/// Source: `LlamaModel.generate_extra_tensors` in `conversion/llama.py`.
///
/// # Errors
///
/// [`ArchError::BadKey`].
pub fn rope_llama3(
    rope: Rope<'_>,
    dim: impl FnOnce() -> Result<u64, ArchError>,
) -> Result<Option<Vec<f32>>, ArchError> {
    if !rope.kind().is_some_and(|kind| kind.eq_ignore_ascii_case("llama3")) {
        return Ok(None);
    }
    let scaling = Llama3 {
        theta: rope.f64_or("rope_theta", 10_000.0)?,
        factor: rope.f64_or("factor", 8.0)?,
        low_freq_factor: rope.f64_or("low_freq_factor", 1.0)?,
        high_freq_factor: rope.f64_or("high_freq_factor", 4.0)?,
        old_length: rope.f64_or("original_max_position_embeddings", 8192.0)?,
    };
    let dim = dim()?;
    if dim > MAX_ROTARY_DIM {
        return Err(bad("head_dim", &dim.into(), "at most 65536"));
    }
    Ok(Some(scaling.factors(dim)))
}

/// Rotary scaling of Llama 3.1: low frequencies are slowed down by `factor`, high ones are left
/// alone, and those between are blended.
struct Llama3 {
    theta: f64,
    factor: f64,
    low_freq_factor: f64,
    high_freq_factor: f64,
    old_length: f64,
}

impl Llama3 {
    /// One divisor for each rotated pair, shape `[dim / 2]`.
    ///
    /// The arithmetic follows torch: a number with a tensor of single precision is rounded to
    /// single precision first, and number / tensor is the tensor's reciprocal times the number.
    /// The power is the one step that torch leaves to a vector library, which is off by one
    /// unit in the last place for 1 input in 220; we round it correctly. On the scalings of
    /// published models (dim 64, 80, 128; theta 500000; length 8192) no divisor differs.
    fn factors(&self, dim: u64) -> Vec<f32> {
        // With d dimensions, base b and original length L, pair i has
        //   frequency   f_i = b^(-2i/d),   wavelength  w_i = 2 pi / f_i
        //   divisor     1                                  where w_i < L / high_freq_factor
        //               factor                             where w_i > L / low_freq_factor
        //               1 / ((1 - s) / factor + s)         between, with
        //   s = (L / w_i - low_freq_factor) / (high_freq_factor - low_freq_factor)
        // llama.cpp divides f_i by it: fast pairs stay, slow ones become `factor` times slower.
        let theta = self.theta as f32;
        let (low, factor, length) = (self.low_freq_factor as f32, self.factor as f32, self.old_length as f32);
        let longest = (self.old_length / self.low_freq_factor) as f32;
        let shortest = (self.old_length / self.high_freq_factor) as f32;
        let span = (self.high_freq_factor - self.low_freq_factor) as f32;
        (0..dim)
            .step_by(2)
            .map(|at| {
                let exponent = at as f32 / dim as f32;
                let power = f64::from(theta).powf(exponent.into()) as f32;
                let frequency = 1.0 / power;
                let wavelength = (1.0 / frequency) * std::f64::consts::TAU as f32;
                if wavelength < shortest {
                    1.0
                } else if wavelength > longest {
                    factor
                } else {
                    let smooth = ((1.0 / wavelength) * length - low) / span;
                    1.0 / ((1.0 - smooth) / factor + smooth)
                }
            })
            .collect()
    }
}
