//! Exact sums of floats, so that parts of a sum add up to the same bits in any order.
//!
//! A sum is kept as `high + low`, exactly: the rounding error of an addition to `high` goes to `low`, and
//! that of an addition to `low`, which needs values about 10^15 apart, to a list of non-overlapping floats.
//! Only reading a sum rounds it, once.
//!
//! Source: "two-sum" of Knuth, The Art of Computer Programming 2, 4.2.2; non-overlapping lists and their
//! rounding: Shewchuk, Adaptive Precision Floating-Point Arithmetic (1997), like in `math.fsum` of CPython.

use std::collections::BTreeMap;

use gguf_quant::Level;
use rayon::prelude::*;

/// Exact sums, one for each column.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct ExactSums {
    high: Vec<f64>,
    low: Vec<f64>,
    /// By column, what remains of both: floats that do not overlap, the smallest first.
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
    let (mut carried, mut n_parts) = (value, 0);
    // From the smallest up: the rounding error of an addition replaces the part that it was added to.
    for index in 0..parts.len() {
        let (sum, lost) = two_sum(parts[index], carried);
        if lost != 0.0 {
            parts[n_parts] = lost;
            n_parts += 1;
        }
        carried = sum;
    }
    parts.truncate(n_parts);
    if carried != 0.0 {
        parts.push(carried);
    }
}

/// The sum of floats that do not overlap, the smallest first, rounded once to the nearest and to even between two.
fn rounded(parts: &[f64]) -> f64 {
    let (mut sum, mut lost, mut n) = (0.0, 0.0, parts.len());
    // From the largest down: the first that is rounded off anything decides, as all further ones are smaller than that.
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

/// Rows whose squares are added up before they are added to exact sums.
const BLOCK_ROWS: usize = 16;

/// Squares of rows in f32, added up by column without rounding, for several [`ExactSums`].
pub(crate) struct Squares {
    width: usize,
    /// (n_blocks, width): sums of blocks of rows; 0 if they may be rounded.
    sums: Vec<f64>,
    /// Columns and squares of what is 0 there.
    overflows: Vec<(usize, f32)>,
}

impl Squares {
    /// Squares of rows (n_rows, width), row-major.
    pub(crate) fn new(rows: &[f32], width: usize) -> Squares {
        let block_elems = BLOCK_ROWS * width.max(1);
        let mut sums = vec![0.0; rows.len().div_ceil(block_elems) * width];
        let blocks = rows.par_chunks(block_elems).zip(sums.par_chunks_mut(width.max(1)));
        let overflows = blocks.map(|(rows, sums)| {
            Level::detect().vectorize(
                #[inline(always)]
                || block_sums(rows, sums),
            );
            // Columns of mixed sizes are seldom: they are added value by value, which is exact whatever the sizes.
            let mut overflows = Vec::new();
            for (column, sum) in sums.iter_mut().enumerate().filter(|(_, sum)| sum.is_nan()) {
                overflows.extend(rows[column..].iter().step_by(width).map(|value| (column, value * value)));
                *sum = 0.0;
            }
            overflows
        });
        let overflows: Vec<_> = overflows.collect();
        Squares { width, sums, overflows: overflows.concat() }
    }
}

/// The sums of squares of at most [`BLOCK_ROWS`] rows by column, NaN if they may be rounded: rows (n, sums.len()).
#[inline(always)]
fn block_sums(rows: &[f32], sums: &mut [f64]) {
    let (width, n_whole) = (sums.len(), sums.len() / LANES * LANES);
    let (whole, rest) = sums.split_at_mut(n_whole);
    for (first, out) in (0..).step_by(LANES).zip(whole.as_chunks_mut().0) {
        *out = lane_sums(
            rows.chunks_exact(width),
            #[inline(always)]
            |row| row[first..].first_chunk().copied().unwrap_or_default(),
        );
    }
    if !rest.is_empty() {
        // A last run of fewer columns is filled up with zeros.
        let sums = lane_sums(
            rows.chunks_exact(width),
            #[inline(always)]
            |row| {
                let mut values = [0.0; LANES];
                values[..width - n_whole].copy_from_slice(&row[n_whole..]);
                values
            },
        );
        rest.copy_from_slice(&sums[..width - n_whole]);
    }
}

/// Columns whose squares are added up side by side.
const LANES: usize = 16;

/// Like this, for some columns, of which `values` takes those of a row.
#[inline(always)]
fn lane_sums<'r>(
    rows: impl Iterator<Item = &'r [f32]>,
    values: impl Fn(&[f32]) -> [f32; LANES],
) -> [f64; LANES] {
    let (mut sums, mut most, mut least) = ([0.0f64; LANES], [0.0f32; LANES], [f32::INFINITY; LANES]);
    for row in rows {
        let values = values(row);
        for i in 0..LANES {
            let square = values[i] * values[i];
            sums[i] += f64::from(square);
            most[i] = if square > most[i] { square } else { most[i] };
            // Zeros do not count, however small.
            least[i] = if square < least[i] && square > 0.0 { square } else { least[i] };
        }
    }
    for i in 0..LANES {
        // All squares are multiples of 2^-23 times the power of two in the least. Their sum is below 2^5 times the power in the
        // largest, so that it has 53 bits or fewer if the two are at most 2^25 apart.
        let is_exact = f64::from(most[i]) <= f64::from(least[i]) * f64::from(1u32 << 24);
        sums[i] = if is_exact && sums[i].is_finite() { sums[i] } else { f64::NAN };
    }
    sums
}

impl ExactSums {
    /// This number of empty sums.
    pub(crate) fn new(n: usize) -> ExactSums {
        ExactSums { high: vec![0.0; n], low: vec![0.0; n], rest: BTreeMap::new() }
    }

    /// Number of columns.
    pub(crate) fn len(&self) -> usize {
        self.high.len()
    }

    /// Adds sums of squares to the columns from `first` on.
    ///
    /// # Panics
    /// When there are fewer columns.
    pub(crate) fn add_squares(&mut self, first: usize, squares: &Squares) {
        let mut lost = vec![0.0; squares.width];
        for block in squares.sums.chunks_exact(squares.width.max(1)) {
            self.add_values(first, block, &mut lost);
        }
        for &(column, square) in &squares.overflows {
            self.add(first + column, f64::from(square));
        }
    }

    /// Adds a value to each of the columns from `first` on. `lost` is a buffer as long as they are.
    fn add_values(&mut self, first: usize, values: &[f64], lost: &mut [f64]) {
        let high = &mut self.high[first..][..values.len()];
        let low = &mut self.low[first..][..values.len()];
        let is_any_lost = Level::detect().vectorize(
            #[inline(always)]
            || {
                let mut is_any_lost = false;
                for ((high, low), (value, lost)) in
                    high.iter_mut().zip(low).zip(values.iter().zip(&mut *lost))
                {
                    let (sum, lost_of_sum) = two_sum(*high, *value);
                    *high = sum;
                    (*low, *lost) = two_sum(*low, lost_of_sum);
                    is_any_lost |= *lost != 0.0;
                }
                is_any_lost
            },
        );
        // Apart from the loop above, which has no branch and so works on several columns at once.
        if is_any_lost {
            for (index, &lost) in lost.iter().enumerate() {
                self.keep(first + index, lost);
            }
        }
    }

    /// Keeps the rounding error of an addition to `low`. After an infinity it is NaN, which `high` shows.
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
        let mut values: Vec<f32> = (0..400).map(|index| gguf_testkit::normal(5, index)).collect();
        for (index, value) in values.iter_mut().enumerate() {
            *value *= [1.0, 1e-18, 3e12, 1e-9, 7e18][index % 5];
        }
        values
    }

    #[test]
    fn sums_do_not_depend_on_order() {
        let values = nasty();
        let sum = |order: &mut dyn Iterator<Item = &f32>| {
            let mut sums = ExactSums::new(1);
            order.for_each(|value| sums.add_squares(0, &Squares::new(&[*value], 1)));
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
    fn sum_matches_integer_sum() {
        // Squares that are integers below 2^24 and their multiples by 2^80: the sum as an integer, rounded by hand.
        let mut sums = ExactSums::new(1);
        let mut exact = 0u128;
        for i in 0u32..2000 {
            let root = i % 4096;
            sums.add_squares(0, &Squares::new(&[root as f32], 1));
            sums.add_squares(0, &Squares::new(&[root as f32 * 2f32.powi(40)], 1));
            exact += u128::from(root * root) + (u128::from(root * root) << 80);
        }
        // `as` rounds integers to the nearest float.
        assert_eq!(sums.value(0), exact as f64);
    }

    #[test]
    fn ties_are_rounded_by_remainder() {
        let half = 2f64.powi(-53);
        assert_eq!(rounded(&[half, 1.0]), 1.0);
        assert_eq!(rounded(&[1e-40, half, 1.0]), 1.0 + f64::EPSILON);
        assert_eq!(rounded(&[-1e-40, half, 1.0]), 1.0);
        assert_eq!(rounded(&[-1e-40, half, 1.0 + f64::EPSILON]), 1.0 + f64::EPSILON);
        assert_eq!(rounded(&[]), 0.0);
    }

    #[test]
    fn non_finite_sums_stay_non_finite() {
        let mut sums = ExactSums::new(2);
        sums.add_squares(0, &Squares::new(&[f32::INFINITY, 1.0], 2));
        sums.add_squares(0, &Squares::new(&[1.0, 1.0], 2));
        assert!(!sums.value(0).is_finite());
        assert_eq!(sums.value(1), 2.0);
    }

    /// Rows at once against one row after the other: the same sums, and so the same parts.
    #[test]
    fn batched_rows_match_single_rows() {
        for (n_rows, width) in [(1, 1), (15, 7), (16, 16), (17, 33), (100, 40)] {
            let nasty = nasty();
            let rows: Vec<f32> = (0..n_rows * width)
                .map(|i| match gguf_testkit::mix(3, i as u64) % 9 {
                    0 => 0.0,
                    1 => nasty[i % nasty.len()],
                    2 => f32::from_bits(gguf_testkit::mix(4, i as u64) as u32 & 0x007f_ffff),
                    _ => gguf_testkit::normal(6, i as u64),
                })
                .collect();
            let (mut together, mut single) = (ExactSums::new(width + 2), ExactSums::new(width + 2));
            together.add_squares(1, &Squares::new(&rows, width));
            for row in rows.chunks(width) {
                for (column, value) in row.iter().enumerate() {
                    single.add(1 + column, f64::from(value * value));
                }
            }
            for column in 0..width + 2 {
                assert_eq!(together.value(column), single.value(column), "{n_rows} x {width}, {column}");
            }
        }
    }

    /// Just inside and just outside of what 53 bits can represent: 15 squares of 4095 and one so small that its last bit counts.
    #[test]
    fn sums_of_blocks_are_exact_at_the_bound() {
        for power in 8..16 {
            let small = f32::from_bits(0x3f7f_ffff - 0x0080_0000 * power);
            let mut rows = vec![4095.0f32 / 4096.0; 15];
            rows.push(small);
            let mut sums = ExactSums::new(1);
            sums.add_squares(0, &Squares::new(&rows, 1));
            // In units of 2^-72, in which all are integers.
            let unit = 2f64.powi(72);
            let units = |value: f32| (f64::from(value * value) * unit) as u128;
            let exact: u128 = rows.iter().map(|value| units(*value)).sum();
            let parts: i128 = sums.parts(0).map(|part| (part * unit) as i128).sum();
            assert_eq!(parts, exact as i128, "{power}");
        }
    }
}
