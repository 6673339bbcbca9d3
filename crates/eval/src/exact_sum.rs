//! Sums of floats without any rounding, so that parts of a sum add up to the same bits in whatever order they come.
//!
//! A sum is kept as `high + low`, exactly: what an addition to `high` rounds off goes to `low`, and what an addition to that
//! rounds off, which takes values some 10^15 apart, to a list of floats that do not overlap. Only reading a sum rounds it, once.
//!
//! Source: "two-sum" of Knuth, The Art of Computer Programming 2, 4.2.2; lists that do not overlap and their rounding: Shewchuk,
//! Adaptive Precision Floating-Point Arithmetic (1997), as in `math.fsum` of CPython.

use std::collections::BTreeMap;

/// Exact sums, one for each column.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct ExactSums {
    high: Vec<f64>,
    low: Vec<f64>,
    /// By column, what neither of the two holds: floats that do not overlap, the smallest first.
    rest: BTreeMap<usize, Vec<f64>>,
}

/// `a + b` rounded, and what rounding took off: both together are the sum.
#[inline(always)]
fn two_sum(a: f64, b: f64) -> (f64, f64) {
    let sum = a + b;
    let b_in_sum = sum - a;
    (sum, (a - (sum - b_in_sum)) + (b - b_in_sum))
}

/// Adds a value to floats that do not overlap.
fn grow(parts: &mut Vec<f64>, value: f64) {
    let (mut carried, mut kept) = (value, 0);
    for index in 0..parts.len() {
        let (sum, lost) = two_sum(parts[index], carried);
        if lost != 0.0 {
            parts[kept] = lost;
            kept += 1;
        }
        carried = sum;
    }
    parts.truncate(kept);
    if carried != 0.0 {
        parts.push(carried);
    }
}

/// The sum of floats that do not overlap, the smallest first, rounded once to the nearest and to even between two.
fn rounded(parts: &[f64]) -> f64 {
    let (mut sum, mut lost, mut n) = (0.0, 0.0, parts.len());
    while n > 0 && lost == 0.0 {
        n -= 1;
        (sum, lost) = two_sum(sum, parts[n]);
    }
    // Exactly between two floats, what comes further down says to which side.
    if n > 0 && lost != 0.0 && (lost < 0.0) == (parts[n - 1] < 0.0) {
        let doubled = 2.0 * lost;
        let other = sum + doubled;
        if other - sum == doubled {
            sum = other;
        }
    }
    sum
}

impl ExactSums {
    /// So many sums of nothing.
    pub(crate) fn new(n: usize) -> ExactSums {
        ExactSums { high: vec![0.0; n], low: vec![0.0; n], rest: BTreeMap::new() }
    }

    /// Number of columns.
    pub(crate) fn len(&self) -> usize {
        self.high.len()
    }

    /// Adds values to the columns from `first` on: the square of each of `row`, in f32. `lost` is a buffer.
    ///
    /// # Panics
    /// When there are fewer columns.
    pub(crate) fn add_squares(&mut self, first: usize, row: &[f32], lost: &mut Vec<f64>) {
        lost.resize(row.len(), 0.0);
        let high = &mut self.high[first..][..row.len()];
        let low = &mut self.low[first..][..row.len()];
        let mut is_any_lost = false;
        for ((high, low), (&value, lost)) in high.iter_mut().zip(low).zip(row.iter().zip(lost.iter_mut())) {
            let (sum, lost_of_sum) = two_sum(*high, f64::from(value * value));
            *high = sum;
            (*low, *lost) = two_sum(*low, lost_of_sum);
            is_any_lost |= *lost != 0.0;
        }
        // Apart from the loop above, which has no branch and so works on several columns at once.
        if is_any_lost {
            for (index, &lost) in lost.iter().enumerate() {
                self.keep(first + index, lost);
            }
        }
    }

    /// Keeps what an addition to `low` rounded off. After an infinity that is no number, and `high` says so.
    fn keep(&mut self, index: usize, lost: f64) {
        if lost != 0.0 && lost.is_finite() {
            grow(self.rest.entry(index).or_default(), lost);
        }
    }

    /// Adds a value to one column.
    fn add(&mut self, index: usize, value: f64) {
        let (sum, lost_of_sum) = two_sum(self.high[index], value);
        self.high[index] = sum;
        let (low, lost) = two_sum(self.low[index], lost_of_sum);
        self.low[index] = low;
        self.keep(index, lost);
    }

    /// The sum of a column, rounded once. Not finite after a value that was not.
    pub(crate) fn value(&self, index: usize) -> f64 {
        let (high, low) = (self.high[index], self.low[index]);
        if !high.is_finite() {
            return high;
        }
        match self.rest.get(&index) {
            // One addition rounds once.
            None => high + low,
            Some(parts) => {
                let mut parts = parts.clone();
                grow(&mut parts, low);
                grow(&mut parts, high);
                rounded(&parts)
            }
        }
    }

    /// The floats of a column that add up to its sum.
    pub(crate) fn parts(&self, index: usize) -> impl Iterator<Item = f64> {
        let rest = self.rest.get(&index).into_iter().flatten().copied();
        [self.high[index], self.low[index]].into_iter().chain(rest)
    }

    /// Adds the floats of a column of other sums.
    ///
    /// # Panics
    /// When there is no such column.
    pub(crate) fn add_parts(&mut self, index: usize, parts: impl IntoIterator<Item = f64>) {
        parts.into_iter().for_each(|part| self.add(index, part));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Squares that are 60 powers of two apart and more.
    fn nasty() -> Vec<f32> {
        let mut values: Vec<f32> = (0..400).map(|index| testkit::normal(5, index)).collect();
        for (index, value) in values.iter_mut().enumerate() {
            *value *= [1.0, 1e-18, 3e12, 1e-9, 7e18][index % 5];
        }
        values
    }

    #[test]
    fn sums_do_not_depend_on_order_or_on_parts() {
        let values = nasty();
        let sum = |order: &mut dyn Iterator<Item = &f32>| {
            let mut sums = ExactSums::new(1);
            order.for_each(|value| sums.add_squares(0, &[*value], &mut Vec::new()));
            sums
        };
        let whole = sum(&mut values.iter());
        assert!(!whole.rest.is_empty(), "the values should not fit into two floats");
        let expected = whole.value(0);
        assert_eq!(sum(&mut values.iter().rev()).value(0), expected);
        for cut in [0, 1, 77, 399, 400] {
            let (mut a, b) = (sum(&mut values[..cut].iter()), sum(&mut values[cut..].iter()));
            a.add_parts(0, b.parts(0));
            assert_eq!(a.value(0), expected, "{cut}");
        }
    }

    #[test]
    fn the_sum_is_that_of_integers() {
        // Squares that are whole numbers below 2^24 and their multiples by 2^80: the sum as an integer, rounded by hand.
        let mut sums = ExactSums::new(1);
        let mut exact = 0u128;
        for i in 0u32..2000 {
            let root = i % 4096;
            sums.add_squares(0, &[root as f32], &mut Vec::new());
            sums.add_squares(0, &[root as f32 * 2f32.powi(40)], &mut Vec::new());
            exact += u128::from(root * root) + (u128::from(root * root) << 80);
        }
        // `as` rounds integers to the nearest float.
        assert_eq!(sums.value(0), exact as f64);
    }

    #[test]
    fn halves_are_rounded_by_what_comes_after_them() {
        let half = 2f64.powi(-53);
        assert_eq!(rounded(&[half, 1.0]), 1.0);
        assert_eq!(rounded(&[1e-40, half, 1.0]), 1.0 + f64::EPSILON);
        assert_eq!(rounded(&[-1e-40, half, 1.0]), 1.0);
        assert_eq!(rounded(&[-1e-40, half, 1.0 + f64::EPSILON]), 1.0 + f64::EPSILON);
        assert_eq!(rounded(&[]), 0.0);
    }

    #[test]
    fn what_is_not_finite_stays_so() {
        let mut sums = ExactSums::new(2);
        sums.add_squares(0, &[f32::INFINITY, 1.0], &mut Vec::new());
        sums.add_squares(0, &[1.0, 1.0], &mut Vec::new());
        assert!(!sums.value(0).is_finite());
        assert_eq!(sums.value(1), 2.0);
    }
}
