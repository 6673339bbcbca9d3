//! Type search under a byte budget: assigns each matrix a type so that a file of a given size diverges least.
//!
//! Divergences of single matrices add up (predicted 0.0539 together, measured 0.0546), so this is a knapsack
//! problem: one offer per matrix, a bound on the bytes, the smallest sum of costs. The caller provides the
//! table of costs.

mod fill;

use std::cmp::Ordering;

use gguf_types::DType;

/// A type for a matrix.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Offer {
    /// Type in the file.
    pub dtype: DType,
    /// Bytes of the matrix in the file, padding included.
    pub n_bytes: u64,
    /// KL divergence, in nats, of the model with only this matrix at this type.
    pub cost: f64,
}

/// A matrix and its possible types.
#[derive(Debug, Clone, PartialEq)]
pub struct Item {
    /// Name of the tensor.
    pub name: String,
    /// At least one type, in any order.
    pub offers: Vec<Offer>,
}

/// A choice.
#[derive(Debug, Clone, PartialEq)]
pub struct Chosen {
    /// Index of the chosen offer for each item.
    pub picks: Vec<usize>,
    /// Bytes of all chosen offers.
    pub n_bytes: u64,
    /// Sum of the chosen costs.
    pub cost: f64,
}

/// A budget that cannot be met, or an invalid table.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages explain the fields")]
pub enum BudgetError {
    /// The smallest types are too large.
    #[error("the target size is too small: {budget} bytes for matrices that need at least {least}")]
    TooSmall {
        /// Bytes of the smallest offers.
        least: u64,
        budget: u64,
    },
    /// A matrix without offers.
    #[error("tensor `{name}`: no type is allowed")]
    NoOffer { name: String },
    /// A cost that is not finite.
    #[error("tensor `{name}` as {dtype}: KL divergence {cost} is not finite")]
    NotFinite { name: String, dtype: DType, cost: f64 },
}

/// Predicts the divergence at one type from the one `measured` at another. For small errors it is a quadratic
/// form, so it scales with the mean squared errors: `target` of the predicted type, `probed` of the measured
/// one.
pub fn predicted(measured: f64, target: f64, probed: f64) -> f64 {
    // The measured divergence of an insensitive matrix can be negative by rounding.
    let measured = measured.max(0.0);
    // If the probed type is lossless, the measurement is noise.
    if target.is_finite() && probed > 0.0 { measured * target / probed } else { measured }
}

/// Chooses one offer per item, at most `budget` bytes together, with a small sum of costs.
///
/// First by Lagrangian relaxation: with a price per byte every item decides independently, and lowering the
/// price walks the lower convex hulls of all items, steepest step first. The result is optimal for the bytes
/// that it takes. Then the remaining room is filled by exchanging one or two items while that helps. The
/// choice is deterministic.
///
/// # Errors
/// [`BudgetError`].
pub fn choose(items: &[Item], budget: u64) -> Result<Chosen, BudgetError> {
    for item in items {
        if let Some(offer) = item.offers.iter().find(|offer| !offer.cost.is_finite()) {
            let (name, dtype, cost) = (item.name.clone(), offer.dtype, offer.cost);
            return Err(BudgetError::NotFinite { name, dtype, cost });
        }
        if item.offers.is_empty() {
            return Err(BudgetError::NoOffer { name: item.name.clone() });
        }
    }
    let hulls: Vec<Vec<usize>> = items.iter().map(|item| hull(&item.offers)).collect();
    let mut picks: Vec<usize> = hulls.iter().map(|hull| hull[0]).collect();
    let bytes_of =
        |picks: &[usize]| items.iter().zip(picks).map(|(item, pick)| item.offers[*pick].n_bytes).sum::<u64>();
    let mut n_bytes = bytes_of(&picks);
    if n_bytes > budget {
        return Err(BudgetError::TooSmall { least: n_bytes, budget });
    }
    // Steps of all hulls by savings per byte. On a hull the savings decrease, so the steps of one item stay
    // in order.
    let mut steps: Vec<(f64, usize, usize)> = Vec::new();
    for (index, (item, hull)) in items.iter().zip(&hulls).enumerate() {
        for (at, pair) in hull.windows(2).enumerate() {
            let (from, to) = (&item.offers[pair[0]], &item.offers[pair[1]]);
            steps.push(((from.cost - to.cost) / (to.n_bytes - from.n_bytes) as f64, index, at + 1));
        }
    }
    steps.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)).then(a.2.cmp(&b.2)));
    for (_, index, at) in steps {
        let (offers, to) = (&items[index].offers, hulls[index][at]);
        // A step that does not fit ends the item, because its later steps are larger.
        let room = budget - n_bytes;
        let is_next = picks[index] == hulls[index][at - 1];
        let more = offers[to].n_bytes - offers[picks[index]].n_bytes.min(offers[to].n_bytes);
        if is_next && more <= room {
            picks[index] = to;
            n_bytes += more;
        }
    }
    fill::fill(items, &mut picks, budget);
    let cost = items.iter().zip(&picks).map(|(item, pick)| item.offers[*pick].cost).sum();
    Ok(Chosen { n_bytes: bytes_of(&picks), cost, picks })
}

/// Indices of the offers on the lower convex hull of (bytes, cost), from the smallest to the cheapest.
fn hull(offers: &[Offer]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..offers.len()).collect();
    let by_size = |a: &usize, b: &usize| -> Ordering {
        let (a, b) = (&offers[*a], &offers[*b]);
        a.n_bytes.cmp(&b.n_bytes).then(a.cost.total_cmp(&b.cost))
    };
    order.sort_by(by_size);
    let mut hull: Vec<usize> = Vec::new();
    for index in order {
        let point = |at: usize| (offers[at].n_bytes as f64, offers[at].cost);
        // Larger and not cheaper: dominated.
        if hull.last().is_some_and(|last| offers[*last].cost <= offers[index].cost) {
            continue;
        }
        while let [.., before, last] = hull[..] {
            let ((x0, y0), (x1, y1), (x2, y2)) = (point(before), point(last), point(index));
            // The middle point is on or above the line between its neighbors.
            if (y1 - y0) * (x2 - x0) >= (y2 - y0) * (x1 - x0) {
                hull.pop();
            } else {
                break;
            }
        }
        hull.push(index);
    }
    hull
}

#[cfg(test)]
mod tests;
