//! Gains of refinement: base, plain result and refined result over the same text.

use std::{path::Path, sync::atomic::Ordering};

use gguf_runtime::{
    Model,
    chunks::Chunk,
    compare::{Base, Step, run},
    stats::{Comparison, Estimate, Position},
};
use serde::Serialize;

use crate::{error::Error, events::Events, progress_line::ProgressLine};

/// Number of most likely tokens that are compared.
const TOP_K: usize = 10;

/// Divergences of two files from their base, paired.
#[derive(Debug, Clone, Serialize)]
pub struct Gain {
    /// Chunks that were read.
    pub chunks: usize,
    /// Mean divergence of the stock result, in nats.
    pub kl_stock: Estimate,
    /// Mean divergence of the refined result.
    pub kl: Estimate,
    /// Divergence of the refined result divided by that of the stock result. The error is that of paired chunks.
    pub ratio: Estimate,
    /// 99.9th percentile of the divergence, for the stock and the refined result.
    pub p99_9: (f64, f64),
    /// Share of positions with the same most likely token as the base, for the stock and the refined result.
    pub same_top: (f64, f64),
}

/// Runs the three models over windows.
///
/// # Errors
/// As the comparison of the crate `gguf_runtime`; an interruption.
pub fn compare(
    base: &Model,
    path: &Path,
    others: &[Model; 2],
    windows: &[Chunk],
    events: &dyn Events,
) -> Result<Gain, Error> {
    let cancel = events.cancel();
    let mut progress = ProgressLine::new("chunks", windows.len());
    let mut watch = |step: Step<'_>| {
        if let Step::Compared { n_chunks, found } = step {
            let mean = |found: &Vec<Position>| Estimate::mean(found.iter().map(|position| position.kl)).value;
            progress.update(events, n_chunks, || {
                let [stock, ours] = [0, 1].map(|index| found.get(index).map_or(0.0, mean));
                format!("KL divergence {stock:.5} -> {ours:.5}")
            });
        }
        !cancel.load(Ordering::Relaxed)
    };
    let all = (windows, 0..windows.len());
    let found = run(&Base::Model(base), others, all, TOP_K, None, &mut watch)
        .map_err(|error| Error::at(path, error))?;
    if cancel.load(Ordering::Relaxed) {
        return Err(Error::interrupted());
    }
    let [stock, ours] = &found[..] else { return Err(Error::new("the two files are compared")) };
    Ok(Gain::of(stock, ours, windows.len()))
}

impl Gain {
    /// Gain from the positions of two files over the same chunks.
    fn of(stock: &[Position], ours: &[Position], n_windows: usize) -> Gain {
        let figures = [stock, ours].map(|positions| Comparison::of(positions, TOP_K));
        let mean = |positions: &[Position]| Estimate::mean(positions.iter().map(|position| position.kl));
        let by_window = |positions: &[Position]| -> Vec<f64> {
            let of_a_window = positions.len() / n_windows.max(1);
            positions.chunks(of_a_window.max(1)).map(|window| mean(window).value).collect()
        };
        Gain {
            chunks: n_windows,
            kl_stock: mean(stock),
            kl: mean(ours),
            ratio: ratio(&by_window(ours), &by_window(stock)),
            p99_9: (figures[0].kl_quantiles.p99_9, figures[1].kl_quantiles.p99_9),
            same_top: (share_of_same_top(stock), share_of_same_top(ours)),
        }
    }

    /// In a sentence.
    pub fn line(&self) -> String {
        let Gain { kl_stock, kl, ratio, .. } = self;
        format!(
            "KL divergence {kl_stock} -> {kl}, ratio {ratio}; 99.9 % of positions below {:.3} -> {:.3}; same top token \
                {:.2} % -> {:.2} %",
            self.p99_9.0,
            self.p99_9.1,
            100.0 * self.same_top.0,
            100.0 * self.same_top.1,
        )
    }
}

fn share_of_same_top(positions: &[Position]) -> f64 {
    positions.iter().filter(|position| position.same_top).count() as f64 / positions.len().max(1) as f64
}

/// The ratio of two sums over the same windows, and its error by the spread of the residuals: with `R = sum a / sum b` the
/// variance of R is `n / (n - 1) * sum (a_i - R b_i)^2 / (sum b)^2`.
fn ratio(a: &[f64], b: &[f64]) -> Estimate {
    let (sum_a, sum_b): (f64, f64) = (a.iter().sum(), b.iter().sum());
    if sum_b <= 0.0 {
        return Estimate { value: 1.0, error: 0.0 };
    }
    let (value, n) = (sum_a / sum_b, a.len() as f64);
    let residuals: f64 = a.iter().zip(b).map(|(a, b)| (a - value * b).powi(2)).sum();
    let error = if n > 1.0 { (residuals * n / (n - 1.0)).sqrt() / sum_b } else { 0.0 };
    Estimate { value, error }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_match_hand_computed() {
        // Half of it in every window: no spread at all.
        assert_eq!(ratio(&[1.0, 2.0, 3.0], &[2.0, 4.0, 6.0]), Estimate { value: 0.5, error: 0.0 });
        // R = 4 / 4; residuals -1 and 1: sqrt(2 * 2 / 1) / 4.
        let found = ratio(&[1.0, 3.0], &[2.0, 2.0]);
        assert_eq!((found.value, found.error), (1.0, 0.5));
        assert_eq!(ratio(&[0.0], &[0.0]).value, 1.0);
    }
}
