//! Types under a budget: which type each matrix gets, so that a file of a given size diverges least.
//!
//! Divergences of single matrices add up (predicted 0.0539 together, measured 0.0546), so the problem is a knapsack: of each
//! matrix one offer is taken, the bytes have a bound, and the sum of the costs is least. What is given is a table of costs;
//! where they come from is not known here but for how one measured divergence says those of other types.

mod fill;

use std::cmp::Ordering;

use tensor::DType;

/// One type that a matrix may have.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Offer {
    /// The type.
    pub dtype: DType,
    /// Bytes of the matrix in the file, padding included.
    pub n_bytes: u64,
    /// What it costs: the divergence that the matrix alone makes at this type, in nats.
    pub cost: f64,
}

/// A matrix and the types that it may have.
#[derive(Debug, Clone, PartialEq)]
pub struct Item {
    /// Its name.
    pub name: String,
    /// At least one type, in any order.
    pub offers: Vec<Offer>,
}

/// What was chosen.
#[derive(Debug, Clone, PartialEq)]
pub struct Chosen {
    /// For each item the index of its offer.
    pub picks: Vec<usize>,
    /// Bytes of all of them.
    pub n_bytes: u64,
    /// The sum of their costs.
    pub cost: f64,
}

/// Why nothing can be chosen.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum BudgetError {
    /// The smallest types are too large.
    #[error("the smallest types make {least} bytes of matrices, {budget} are allowed")]
    TooSmall {
        /// Bytes of the smallest offers.
        least: u64,
        /// The budget.
        budget: u64,
    },
    /// A matrix that may have no type.
    #[error("tensor `{name}` may have no type at all")]
    NoOffer {
        /// Its name.
        name: String,
    },
    /// A cost that is no number.
    #[error("tensor `{name}` as {dtype}: its divergence is {cost}")]
    NotFinite {
        /// The matrix.
        name: String,
        /// The type.
        dtype: DType,
        /// The cost.
        cost: f64,
    },
}

/// The divergence of a matrix at a type, by the one `measured` at another: for small errors it is a quadratic form of them, so that it goes
/// as their mean squares do, `wanted` at the one type and `probed` at the other.
pub fn predicted(measured: f64, wanted: f64, probed: f64) -> f64 {
    // A probe of a matrix that hardly matters can come out below zero by rounding.
    let measured = measured.max(0.0);
    // What the probed type lost nothing of was measured as the noise of the run.
    if wanted.is_finite() && probed > 0.0 { measured * wanted / probed } else { measured }
}

/// Takes one offer of each item, at most `budget` bytes together, so that the sum of costs is small.
///
/// Lagrange first: with a price for each byte every item decides alone, and the picks for a falling price are the steps of the
/// lower convex hulls of all items, the steepest first; where they end is optimal for the bytes that they take. What room is
/// left then is filled by exchanges of one or two items as long as any helps. The same table gives the same choice.
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
    // Steps of all hulls by what a byte of each saves; on a hull it falls from step to step, so that the steps of one item stay
    // in their order.
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
        // A step that does not fit ends the item: a later one of it would be larger.
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

/// Offers on the lower convex hull of (bytes, cost), from the smallest to the cheapest: their indices.
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
        // Larger and no cheaper: nobody takes it.
        if hull.last().is_some_and(|last| offers[*last].cost <= offers[index].cost) {
            continue;
        }
        while let [.., before, last] = hull[..] {
            let ((x0, y0), (x1, y1), (x2, y2)) = (point(before), point(last), point(index));
            // The middle point lies on or above the line from the one before it to this one.
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
