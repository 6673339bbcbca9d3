//! Metrics of a comparison as text: the same names and digits on the command line and in the report.

use super::{Comparison, Estimate};

/// One metric, formatted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Metric {
    /// Name of the metric.
    pub name: String,
    /// Its value with its unit.
    pub value: String,
    /// One standard error with its sign and unit; empty if unknown.
    pub error: String,
}

impl Comparison {
    /// Every metric except the percentiles, the most informative first.
    pub fn metrics(&self) -> Vec<Metric> {
        let number = |name: &str, estimate: Estimate| metric(name, estimate, 1.0, "");
        let percent = |name: &str, estimate: Estimate| metric(name, estimate, 100.0, " %");
        vec![
            number("KL divergence, mean", self.kl),
            number("perplexity", self.perplexity),
            number("perplexity of the base", self.base_perplexity),
            number("perplexity / base", self.perplexity_ratio),
            number("ln(perplexity / base)", self.ln_perplexity_ratio),
            number("perplexity - base", self.perplexity_difference),
            Metric {
                name: "correlation of log-likelihoods".to_owned(),
                value: format!("{} %", fixed(self.correlation * 100.0, 4)),
                error: String::new(),
            },
            percent("same top token", self.same_top),
            percent(&format!("shared top {} tokens", self.k), self.same_top_k),
            percent("change in probability, mean", self.p_diff),
            percent("change in probability, RMS", self.p_diff_rms),
        ]
    }
}

/// An estimate as text; `factor` converts it to `unit`.
pub(crate) fn metric(name: &str, estimate: Estimate, factor: f64, unit: &str) -> Metric {
    Metric {
        name: name.to_owned(),
        value: format!("{}{unit}", fixed(estimate.value * factor, 6)),
        error: format!("± {}{unit}", fixed(estimate.error * factor, 6)),
    }
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
}
