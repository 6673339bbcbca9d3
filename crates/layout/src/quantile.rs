//! Quantiles of the normal distribution, which some configs state by the share below them.

/// The number below which a normally distributed one is with probability `share`: `sqrt(2) erfinv(2 share - 1)`, computed
/// as torch does in single precision, each step rounded; minus infinity for 0.
///
/// Source: `Normal.icdf` in `torch/distributions/normal.py`.
pub fn normal_quantile(share: f64) -> f32 {
    let y = 2.0 * share as f32 - 1.0;
    erfinv(y.into()) as f32 * std::f64::consts::SQRT_2 as f32
}

/// The share whose [`normal_quantile`] is `quantile`: the shortest decimal that leads to it; `None` without one.
pub fn normal_share(quantile: f32) -> Option<f64> {
    // Quantiles rise with the share: the interval that holds it is halved until it has no inside.
    let (mut low, mut high) = (0.0f64, 1.0f64);
    for _ in 0..64 {
        let middle = (low + high) / 2.0;
        if normal_quantile(middle) < quantile { low = middle } else { high = middle }
    }
    let decimals = (1..=9usize).filter_map(|digits| format!("{high:.digits$}").parse().ok());
    [0.0].into_iter().chain(decimals).find(|share| normal_quantile(*share) == quantile)
}

/// The x whose error function is `y`, for -1 <= y < 1.
fn erfinv(y: f64) -> f64 {
    if y.abs() >= 1.0 {
        return f64::INFINITY.copysign(y);
    }
    // Below, the sign of zero would be lost.
    if y == 0.0 {
        return y;
    }
    // The error function rises: an interval that holds x is halved until it has no inside.
    // y comes from f32, so |y| <= 1 - 2^-24 and |x| < 4: inside the interval.
    let (mut low, mut high) = (-6.0f64, 6.0f64);
    for _ in 0..200 {
        let middle = (low + high) / 2.0;
        if erf(middle) < y { low = middle } else { high = middle }
    }
    (low + high) / 2.0
}

/// `2 / sqrt(pi) exp(-x^2) sum (2x)^(2n+1) n! / (2 (2n+1)!)`: all terms have one sign, so nothing cancels.
fn erf(x: f64) -> f64 {
    let (mut term, mut sum, mut n) = (x, x, 0.0);
    while term.abs() > 1e-18 * sum.abs() {
        n += 1.0;
        // t(n) = t(n - 1) * 2 x^2 / (2 n + 1), from t(0) = x.
        term *= 2.0 * x * x / (2.0 * n + 1.0);
        sum += term;
    }
    std::f64::consts::FRAC_2_SQRT_PI * (-x * x).exp() * sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_round_trip_through_quantiles() {
        for share in [0.0, 0.5, 0.95, 0.9, 0.975, 0.123_456] {
            assert_eq!(normal_share(normal_quantile(share)), Some(share));
        }
        assert_eq!(normal_share(f32::NAN), None);
    }

    #[test]
    fn quantiles_match_tables() {
        // `torch.distributions.Normal(0, 1).icdf` of torch 2.15.
        for (share, expected) in [(0.95, 1.644_853_5), (0.5, 0.0), (0.975, 1.959_964)] {
            assert!((normal_quantile(share) - expected).abs() < 3e-7, "{share}: {}", normal_quantile(share));
        }
        assert_eq!(normal_quantile(0.5).to_bits(), 0);
        assert_eq!(normal_quantile(0.0), f32::NEG_INFINITY);
        assert_eq!(normal_quantile(0.25), -normal_quantile(0.75));
    }
}
