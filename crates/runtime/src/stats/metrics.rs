//! Metrics of a comparison as text: the same names and digits on the command line and in the report.

use std::fmt;

use super::{Comparison, Estimate};

/// One metric, formatted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Metric {
    /// Name of the metric.
    pub name: String,
    /// Its value and standard error with their unit.
    pub value: String,
}

impl Comparison {
    /// Every metric except the percentiles, the most informative first.
    pub fn metrics(&self) -> Vec<Metric> {
        vec![
            metric("perplexity / base", self.perplexity_ratio),
            metric("KL divergence, mean", self.kl),
            metric("same top token", self.same_top.percent()),
            metric("perplexity", self.perplexity),
            metric("perplexity of the base", self.base_perplexity),
            metric("ln(perplexity / base)", self.ln_perplexity_ratio),
            metric("perplexity - base", self.perplexity_difference),
            metric(
                "correlation of log-likelihoods",
                format_args!("{} %", fixed(self.correlation * 100.0, 4)),
            ),
            metric(format_args!("shared top {} tokens", self.k), self.same_top_k.percent()),
            metric("change in probability, mean", self.p_diff.percent()),
            metric("change in probability, RMS", self.p_diff_rms.percent()),
        ]
    }
}

pub(crate) fn metric(name: impl fmt::Display, value: impl fmt::Display) -> Metric {
    Metric { name: name.to_string(), value: value.to_string() }
}

/// `61.18 ± 14.97`: two significant digits of the error, and at least two decimals. Without an error, the value has four
/// significant digits.
impl fmt::Display for Estimate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Estimate { value, error } = *self;
        if !(error > 0.0 && error.is_finite()) {
            return f.write_str(&significant(value, 4));
        }
        let digits = decimals(error, 2).max(2);
        write!(f, "{} ± {}", fixed(value, digits), fixed(error, digits))
    }
}

impl Estimate {
    /// A share as text: `97.06 ± 0.75 %`.
    pub fn percent(self) -> String {
        let percent = Estimate { value: self.value * 100.0, error: self.error * 100.0 };
        format!("{percent} %")
    }
}

/// Decimals that show this number of significant digits; nine at most.
fn decimals(value: f64, digits: i32) -> usize {
    // A power of ten more for each digit before the first: 0.0123 has its first digit at the second decimal.
    (digits - 1 - libm::log10(value.abs()).floor() as i32).clamp(0, 9) as usize
}

/// A number with this many significant digits, without an exponent.
///
/// # Examples
/// ```
/// assert_eq!(gguf_runtime::stats::significant(0.001_234, 2), "0.0012");
/// ```
pub fn significant(value: f64, digits: i32) -> String {
    if value == 0.0 { "0".to_owned() } else { fixed(value, decimals(value, digits)) }
}

/// A number with this many digits after the point. A value that rounds to zero has no sign, so that `-0.000`
/// is never printed.
pub fn fixed(value: f64, digits: usize) -> String {
    let text = format!("{value:.digits$}");
    match text.strip_prefix('-') {
        Some(rest) if rest.bytes().all(|byte| matches!(byte, b'0' | b'.')) => rest.to_owned(),
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_is_printed_without_sign() {
        for (value, digits, text) in [
            (-0.0004, 3, "0.000"),
            (-0.0006, 3, "-0.001"),
            (-0.0, 0, "0"),
            (-0.4, 0, "0"),
            (12.345_678, 2, "12.35"),
            (f64::NEG_INFINITY, 2, "-inf"),
        ] {
            assert_eq!(fixed(value, digits), text);
        }
    }

    #[test]
    fn values_have_the_digits_of_their_error() {
        for (value, error, text) in [
            (61.179_924, 14.971_267, "61.18 ± 14.97"),
            (0.006_421_9, 0.000_173, "0.00642 ± 0.00017"),
            (1.002_34, 0.001_96, "1.0023 ± 0.0020"),
            (-0.000_000_4, 0.000_5, "0.00000 ± 0.00050"),
            (0.000_01, 0.009_96, "0.0000 ± 0.0100"),
            (1e-14, 1e-15, "0.000000000 ± 0.000000000"),
            (15.388_288, 0.0, "15.39"),
            (0.0, 0.0, "0"),
            (f64::NAN, f64::NAN, "NaN"),
            (f64::INFINITY, 1.0, "inf ± 1.00"),
        ] {
            assert_eq!(Estimate { value, error }.to_string(), text);
        }
        assert_eq!(Estimate { value: 0.970_6, error: 0.007_5 }.percent(), "97.06 ± 0.75 %");
    }
}
