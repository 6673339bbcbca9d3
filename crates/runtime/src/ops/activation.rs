//! The functions between the two halves of a feed-forward part.

use rayon::prelude::*;

use super::{Rows, vectorize};

/// An element-wise function.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Activation {
    /// `x * sigmoid(x)`.
    Silu,
    /// `x / 2 * (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))`, the approximation of GELU by tanh.
    GeluTanh,
    /// `x / 2 * (1 + erf(x / sqrt(2)))`, GELU itself.
    GeluErf,
    /// `x * sigmoid(1.702 x)`, the approximation of GELU by a sigmoid.
    GeluQuick,
    /// `tanh(x)`.
    Tanh,
    /// `max(x, 0)`.
    Relu,
    /// `max(x, 0)^2`.
    ReluSquared,
    /// gpt-oss: `g * sigmoid(1.702 g) * (u + 1)` with the gate `g = min(gate, 7)` and `u = clamp(up, -7, 7)`.
    ClampedSwish,
    /// `sigmoid(x)`.
    Sigmoid,
    /// `ln(1 + exp(x))`.
    Softplus,
    /// `log2(1 + 2^x)`.
    Softplus2,
    /// `min(x * sigmoid(x), bound)`, times what it gates within the bound on both sides (Step 3.5).
    BoundedSilu(f32),
    /// Like this, with `min(x, bound)` for `x`, instead of the bound of the result (DeepSeek 4).
    SiluOfBounded(f32),
    /// `beta tanh(x / beta) sigmoid(x)`, times `linear_beta tanh(up / linear_beta)`, or `up` if that is 0 (Kimi K3).
    Situ {
        /// Bound of the gate.
        beta: f32,
        /// Bound of what it gates.
        linear_beta: f32,
    },
    /// `alpha_p x^2 + beta x` above 0, below it `alpha_n (exp(min(x, epsilon)) - 1 - x) + beta x` (arXiv 2411.13010).
    Xielu {
        /// Factor of the exponential part, for negative numbers.
        alpha_n: f32,
        /// Factor of the square, for positive numbers.
        alpha_p: f32,
        /// Factor of the linear part.
        beta: f32,
        /// Largest argument of the exponential part.
        epsilon: f32,
    },
}

impl Activation {
    /// `gate <- f(gate)`.
    pub fn apply(self, gate: &mut Rows) {
        let width = gate.ncols().max(1);
        gate.as_mut_slice().par_chunks_mut(width * 8).for_each(|gate| self.map(gate));
    }

    /// `gate <- f(gate) * up`.
    pub fn apply_gated(self, gate: &mut Rows, up: &Rows) {
        let width = gate.ncols().max(1);
        let up = up.as_slice().par_chunks(width * 8);
        gate.as_mut_slice().par_chunks_mut(width * 8).zip(up).for_each(|(gate, up)| self.combine(gate, up));
    }

    /// `out[.., i] <- f(rows[.., i]) * rows[.., n_ff + i]`, or with the halves the other way round:
    /// rows (n, 2 n_ff), out (n, n_ff).
    pub fn apply_halves(self, rows: &Rows, gate_first: bool, out: &mut Rows) {
        let half = out.ncols();
        let rows = rows.as_slice().par_chunks(half * 2);
        out.as_mut_slice().par_chunks_mut(half).zip(rows).for_each(|(out, row)| {
            let (first, second) = row.split_at(half);
            let (gate, up) = if gate_first { (first, second) } else { (second, first) };
            out.copy_from_slice(gate);
            self.combine(out, up);
        });
    }

    /// `gate <- f(gate) * up`.
    fn combine(self, gate: &mut [f32], up: &[f32]) {
        self.map(gate);
        match self {
            Activation::ClampedSwish => {
                // And what it gates on both sides; one more than it, so that up = 0 passes the gate on.
                gate.iter_mut().zip(up).for_each(|(gate, up)| *gate *= up.clamp(-7.0, 7.0) + 1.0);
            }
            Activation::BoundedSilu(bound) | Activation::SiluOfBounded(bound) => {
                gate.iter_mut().zip(up).for_each(|(gate, up)| *gate *= up.clamp(-bound, bound));
            }
            Activation::Situ { linear_beta, .. } if linear_beta > 0.0 => {
                gate.iter_mut().zip(up).for_each(|(gate, up)| {
                    *gate *= linear_beta * libm::tanhf(up / linear_beta);
                });
            }
            _ => multiply(gate, up),
        }
    }

    /// True if the backward pass supports the function.
    pub fn has_slope(self) -> bool {
        self.value_and_slope(0.0).is_some()
    }

    /// `f(x)` and its derivative, where that is known.
    #[inline(always)]
    fn value_and_slope(self, x: f32) -> Option<(f32, f32)> {
        Some(match self {
            Activation::Silu => {
                let s = 1.0 / (1.0 + exp(-x));
                (x * s, s * (1.0 + x * (1.0 - s)))
            }
            Activation::GeluTanh => {
                // f(x) = x sigmoid(2 u), like in `map`.
                let u = 0.797_884_6 * x * (1.0 + 0.044_715 * x * x);
                let s = 1.0 - 1.0 / (exp(2.0 * u) + 1.0);
                let slope_u = 0.797_884_6 * (1.0 + 3.0 * 0.044_715 * x * x);
                (x * s, s + x * s * (1.0 - s) * 2.0 * slope_u)
            }
            Activation::GeluErf => {
                let s = 0.5 * (1.0 + erf(x * std::f32::consts::FRAC_1_SQRT_2));
                // 0.398... is 1 / sqrt(2 pi): the density of what `s` is the distribution of.
                (x * s, s + x * 0.398_942_3 * exp(-0.5 * x * x))
            }
            Activation::Relu => (x.max(0.0), if x > 0.0 { 1.0 } else { 0.0 }),
            Activation::ReluSquared => (x.max(0.0) * x.max(0.0), 2.0 * x.max(0.0)),
            Activation::Sigmoid => {
                let s = sigmoid(x);
                (s, s * (1.0 - s))
            }
            Activation::Softplus => (softplus(x), sigmoid(x)),
            Activation::Softplus2 => (softplus2(x), sigmoid(x * std::f32::consts::LN_2)),
            _ => return None,
        })
    }

    /// Backward pass through [`Activation::apply_gated`]: `gate` becomes its own gradient, `grad_y` that of
    /// `up`. Both stay unchanged without slopes.
    pub fn backward_gated(self, gate: &mut Rows, up: &Rows, grad_y: &mut Rows) {
        let width = grad_y.ncols().max(1);
        let rows = grad_y.as_mut_slice().par_chunks_mut(width).zip(up.as_slice().par_chunks(width));
        rows.zip(gate.as_mut_slice().par_chunks_mut(width))
            .for_each(|((grad_y, up), gate)| self.backward_combined(gate, up, grad_y));
    }

    /// Backward pass through [`Activation::apply_halves`]: `both` (n, 2 n_ff) becomes its own gradient;
    /// `grad_y` (n, n_ff) is overwritten.
    pub fn backward_halves(self, both: &mut Rows, gate_first: bool, grad_y: &mut Rows) {
        let width = grad_y.ncols().max(1);
        let rows = grad_y.as_mut_slice().par_chunks_mut(width);
        rows.zip(both.as_mut_slice().par_chunks_mut(2 * width)).for_each(|(grad_y, both)| {
            let (first, second) = both.split_at_mut(width);
            let (gate, up) = if gate_first { (first, second) } else { (second, first) };
            self.backward_combined(gate, up, grad_y);
            // The gate has its gradient in its own place already.
            up.copy_from_slice(grad_y);
        });
    }

    /// Backward pass through [`Activation::apply`] of `x`: `grad_y` becomes the gradient of `x`.
    pub fn backward(self, x: &Rows, grad_y: &mut Rows) {
        let width = x.ncols().max(1);
        let rows = grad_y.as_mut_slice().par_chunks_mut(width).zip(x.as_slice().par_chunks(width));
        rows.for_each(|(grad_y, x)| {
            for (grad_y, x) in grad_y.iter_mut().zip(x) {
                if let Some((_, slope)) = self.value_and_slope(*x) {
                    *grad_y *= slope;
                }
            }
        });
    }

    /// Backward pass through `y = f(gate) * up` of a row.
    fn backward_combined(self, gate: &mut [f32], up: &[f32], grad_y: &mut [f32]) {
        for ((gate, up), grad_y) in gate.iter_mut().zip(up).zip(grad_y) {
            if let Some((value, slope)) = self.value_and_slope(*gate) {
                (*gate, *grad_y) = (*grad_y * up * slope, *grad_y * value);
            }
        }
    }

    fn map(self, values: &mut [f32]) {
        let over = |values: &mut [f32], f: fn(f32) -> f32| values.iter_mut().for_each(|x| *x = f(*x));
        match self {
            Activation::Silu => vectorize(
                #[inline(always)]
                || values.iter_mut().for_each(|x| *x /= 1.0 + exp(-*x)),
            ),
            Activation::GeluTanh => vectorize(
                #[inline(always)]
                || {
                    values.iter_mut().for_each(|x| {
                        // 0.797... is sqrt(2 / pi); with tanh(u) = 1 - 2 / (exp(2 u) + 1) the half is taken in.
                        let u = 0.797_884_6 * *x * (1.0 + 0.044_715 * *x * *x);
                        *x *= 1.0 - 1.0 / (exp(2.0 * u) + 1.0);
                    });
                },
            ),
            Activation::GeluErf => vectorize(
                #[inline(always)]
                || {
                    values
                        .iter_mut()
                        .for_each(|x| *x *= 0.5 * (1.0 + erf(*x * std::f32::consts::FRAC_1_SQRT_2)))
                },
            ),
            Activation::GeluQuick => vectorize(
                #[inline(always)]
                || values.iter_mut().for_each(|x| *x /= 1.0 + exp(-1.702 * *x)),
            ),
            Activation::Tanh => over(values, libm::tanhf),
            Activation::Relu => over(values, |x| x.max(0.0)),
            Activation::ClampedSwish => values.iter_mut().for_each(|x| {
                // gpt-oss bounds the gate from above only, before the function (`limit` 7, `alpha` 1.702).
                *x = x.min(7.0);
                *x /= 1.0 + exp(-1.702 * *x);
            }),
            Activation::Sigmoid => over(values, sigmoid),
            Activation::Softplus => over(values, softplus),
            Activation::Softplus2 => over(values, softplus2),
            Activation::BoundedSilu(bound) => {
                Activation::Silu.map(values);
                values.iter_mut().for_each(|x| *x = x.min(bound));
            }
            Activation::SiluOfBounded(bound) => {
                values.iter_mut().for_each(|x| *x = x.min(bound));
                Activation::Silu.map(values);
            }
            Activation::Xielu { alpha_n, alpha_p, beta, epsilon } => values.iter_mut().for_each(|x| {
                let curve =
                    if *x > 0.0 { alpha_p * *x * *x } else { alpha_n * (libm::expm1f(x.min(epsilon)) - *x) };
                *x = curve + beta * *x;
            }),
            Activation::Situ { beta, .. } => {
                values.iter_mut().for_each(|x| *x = beta * libm::tanhf(*x / beta) / (1.0 + libm::expf(-*x)))
            }
            Activation::ReluSquared => over(values, |x| x.max(0.0) * x.max(0.0)),
        }
    }
}

/// `1 / (1 + exp(-x))`.
fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + libm::expf(-x))
}

/// `ln(1 + exp(x))`.
fn softplus(x: f32) -> f32 {
    x.max(0.0) + libm::log1pf(libm::expf(-x.abs()))
}

/// `log2(1 + 2^x)`.
fn softplus2(x: f32) -> f32 {
    x.max(0.0) + libm::log1pf(libm::exp2f(-x.abs())) * std::f32::consts::LOG2_E
}

/// `to <- to * by`.
fn multiply(to: &mut [f32], by: &[f32]) {
    vectorize(
        #[inline(always)]
        || to.iter_mut().zip(by).for_each(|(to, by)| *to *= by),
    );
}

/// The exponential function to about 1 part in 10^7, in arithmetic that compilers turn into vectors
/// even without instructions that round.
///
/// `exp(x) = 2^n exp(r)` with `r` within half of ln 2; the Taylor polynomial of degree 7 in `r`.
#[inline(always)]
pub fn exp(x: f32) -> f32 {
    // Below, exp(x) is no normal number any more (2^-126 is exp(-87.34)); above, n would be 128, which the exponent's
    // eight bits cannot represent.
    let x = x.clamp(-87.3, 88.3);
    // 1.5 * 2^23: floats of this size are 1 apart, so that adding it leaves the nearest integer in the low bits.
    const TO_INTEGER: f32 = 12_582_912.0;
    let shifted = x * std::f32::consts::LOG2_E + TO_INTEGER;
    let n = shifted - TO_INTEGER;
    // ln 2 in two parts, so that r keeps its digits.
    let r = (x - n * 0.693_359_4) - n * -2.121_944_4e-4;
    // Horner's rule for sum of r^k / k! up to k = 7; the first term left out is (ln 2 / 2)^8 / 8! = 5e-9.
    let p = 1.0 / 5040.0;
    let p = p * r + 1.0 / 720.0;
    let p = p * r + 1.0 / 120.0;
    let p = p * r + 1.0 / 24.0;
    let p = p * r + 1.0 / 6.0;
    let p = p * r + 0.5;
    let p = p * r + 1.0;
    let p = p * r + 1.0;
    // The bits of 2^n p: n is added to the exponent of p, which is within a factor of two of 1.
    f32::from_bits(p.to_bits().wrapping_add(shifted.to_bits() << 23))
}

/// The largest of some values; smaller than any of none.
#[inline(always)]
pub fn largest(values: &[f32]) -> f32 {
    // In lanes, because no compiler may know that the order does not matter.
    let mut lanes = [f32::NEG_INFINITY; 32];
    let (chunks, rest) = values.as_chunks::<32>();
    for chunk in chunks {
        for lane in 0..32 {
            lanes[lane] = if chunk[lane] > lanes[lane] { chunk[lane] } else { lanes[lane] };
        }
    }
    for (lane, value) in rest.iter().enumerate() {
        lanes[lane] = if *value > lanes[lane] { *value } else { lanes[lane] };
    }
    // Halves against each other: a single sum would wait for each.
    for half in [16, 8, 4, 2, 1] {
        for lane in 0..half {
            lanes[lane] = if lanes[lane + half] > lanes[lane] { lanes[lane + half] } else { lanes[lane] };
        }
    }
    lanes[0]
}

/// The smallest of some values; larger than any of none.
#[inline(always)]
pub fn smallest(values: &[f32]) -> f32 {
    let mut lanes = [f32::INFINITY; 32];
    let (chunks, rest) = values.as_chunks::<32>();
    for chunk in chunks {
        for lane in 0..32 {
            lanes[lane] = if chunk[lane] < lanes[lane] { chunk[lane] } else { lanes[lane] };
        }
    }
    lanes.iter().chain(rest).copied().fold(f32::INFINITY, f32::min)
}

/// A sum in sixteen lanes: faster than in order, and nearer to the true one.
#[inline(always)]
pub fn sum(values: &[f32], term: impl Fn(f32) -> f32) -> f32 {
    let mut lanes = [0.0f32; 16];
    let (chunks, rest) = values.as_chunks::<16>();
    for chunk in chunks {
        for lane in 0..16 {
            lanes[lane] += term(chunk[lane]);
        }
    }
    lanes.iter().sum::<f32>() + rest.iter().map(|x| term(*x)).sum::<f32>()
}

/// `x_i <- exp(x_i - max)`, and their sum as [`sum`] adds up.
#[inline(always)]
pub fn exp_and_sum(values: &mut [f32], max: f32) -> f32 {
    let mut lanes = [0.0f32; 16];
    let (chunks, rest) = values.as_chunks_mut::<16>();
    for chunk in chunks {
        for lane in 0..16 {
            chunk[lane] = exp(chunk[lane] - max);
            lanes[lane] += chunk[lane];
        }
    }
    // A complete vector of the last few too.
    let mut last = [max; 16];
    last[..rest.len()].copy_from_slice(rest);
    for x in &mut last {
        *x = exp(*x - max);
    }
    rest.copy_from_slice(&last[..rest.len()]);
    lanes.iter().sum::<f32>() + rest.iter().sum::<f32>()
}

/// The largest value of a row, and the logarithm of the sum of `exp(x - largest)`.
pub fn log_sum_exp(row: &[f32]) -> (f32, f64) {
    vectorize(
        #[inline(always)]
        || {
            let max = largest(row);
            // Sums of 1024 terms at a time are exact enough in single precision.
            let mut total = 0.0;
            // A loop, because iterators' sums are compiled without the level's instructions.
            for part in row.chunks(1024) {
                total += f64::from(sum(
                    part,
                    #[inline(always)]
                    |x| exp(x - max),
                ));
            }
            (max, libm::log(total))
        },
    )
}

/// The error function to 3 parts in 10^7 of 1, in arithmetic that compilers turn into vectors.
///
/// Source: formula 7.1.26 of Abramowitz and Stegun, Handbook of Mathematical Functions.
#[inline(always)]
fn erf(x: f32) -> f32 {
    let a = x.abs();
    // erf(a) = 1 - (p_1 t + .. + p_5 t^5) exp(-a^2) for a >= 0, by Horner's rule; the function is odd.
    let t = 1.0 / (1.0 + 0.327_591_1 * a);
    let p = 1.061_405_4;
    let p = p * t - 1.453_152_1;
    let p = p * t + 1.421_413_8;
    let p = p * t - 0.284_496_75;
    let p = p * t + 0.254_829_6;
    (1.0 - p * t * exp(-a * a)).copysign(x)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The error function by its series and its continued fraction, in double precision: the oracle for the
    /// fast one.
    fn slow_erf(x: f64) -> f64 {
        let a = x.abs();
        let value = if a < 2.5 {
            // 2/sqrt(pi) * sum of (-1)^n x^(2n+1) / (n! (2n+1))
            let (mut term, mut sum) = (a, a);
            for n in 1..60 {
                term *= -a * a / f64::from(n);
                let add = term / f64::from(2 * n + 1);
                sum += add;
                if add.abs() < 1e-12 {
                    break;
                }
            }
            sum * std::f64::consts::FRAC_2_SQRT_PI
        } else {
            // 1 - exp(-x^2) / (x sqrt(pi)) * 1 / (1 + 1/(2x^2) / (1 + 2/(2x^2) / (1 + ...)))
            let q = 1.0 / (2.0 * a * a);
            let fraction = (1..30).rev().fold(1.0, |fraction, n| 1.0 + f64::from(n) * q / fraction);
            1.0 - (-a * a).exp() * std::f64::consts::FRAC_2_SQRT_PI / (2.0 * a * fraction)
        };
        value.copysign(x)
    }

    #[test]
    fn gradients_match_finite_differences() {
        let known = [
            Activation::Silu,
            Activation::GeluTanh,
            Activation::GeluErf,
            Activation::Relu,
            Activation::ReluSquared,
            Activation::Sigmoid,
            Activation::Softplus,
            Activation::Softplus2,
        ];
        for function in known {
            for i in -60..60 {
                // Never 0, where Relu has no slope.
                let x = (i as f32 + 0.5) * 0.1;
                let at = |x: f32| {
                    let mut values = [x];
                    function.map(&mut values);
                    f64::from(values[0])
                };
                // The difference over 2 h is wrong by h^2 / 6 of the third derivative, below 2 here, and by two last bits of
                // values up to 36, 2e-6, over 2 h.
                let h = 1.0 / 64.0;
                let (value, slope) = function.value_and_slope(x).unwrap();
                assert!((at(x) - f64::from(value)).abs() < 2e-6 * (1.0 + at(x).abs()), "{function:?} {x}");
                let expected = (at(x + h) - at(x - h)) / (2.0 * f64::from(h));
                assert!((f64::from(slope) - expected).abs() < 3e-4, "{function:?} {x}: {slope} {expected}");
            }
        }
        assert!(!Activation::ClampedSwish.has_slope());
    }

    #[test]
    fn softplus2_matches_hand_computed_values() {
        // log2(1 + 1) = 1, log2(1 + 2^3) = log2(9), log2(1 + 2^-2) = log2(1.25); far from 0 it is 0 or x.
        let mut values = [0.0, 3.0, -2.0, -200.0, 200.0];
        Activation::Softplus2.map(&mut values);
        for (found, expected) in values.into_iter().zip([1.0, 3.169_925, 0.321_928_1, 0.0, 200.0]) {
            assert!((found - expected).abs() < 1e-6, "{found} {expected}");
        }
    }

    #[test]
    fn exp_and_erf_are_accurate() {
        for i in -870..880 {
            let x = i as f32 * 0.1;
            let (found, expected) = (f64::from(exp(x)), f64::from(x).exp());
            assert!((found / expected - 1.0).abs() < 4e-7, "{x}: {found} {expected}");
        }
        assert_eq!(exp(-1e9), exp(-87.3));
        // Values of the error function from tables.
        for (x, expected) in
            [(0.0, 0.0), (0.5, 0.520_499_88), (1.0, 0.842_700_79), (2.0, 0.995_322_27), (3.0, 0.999_977_91)]
        {
            assert!((slow_erf(x) - expected).abs() < 1e-8, "{x}");
        }
        for i in -700..=700 {
            let x = i as f32 * 0.01;
            let (found, expected) = (f64::from(erf(x)), slow_erf(f64::from(x)));
            assert!((found - expected).abs() < 3e-7, "{x}: {found} {expected}");
        }
    }
}
