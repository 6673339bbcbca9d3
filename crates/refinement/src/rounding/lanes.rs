//! One column of sixteen rows at a time: a vector lane is a row.
//!
//! Plain loops over sixteen numbers, which the compiler vectorizes inside `Level::vectorize`; loops over
//! columns around them are written with vectors. Products and sums are never contracted, so all levels give
//! the same bits.

use fearless_simd::{Select, Simd, SimdBase, f32x16};
use gguf_quant::{Level, Vectors, frozen::Points};

/// Number of rows that are rounded in parallel.
pub const LANES: usize = 16;

pub type Lanes = [f32; LANES];

/// The lanes from `at` on.
#[inline(always)]
pub fn lanes(values: &[f32], at: usize) -> &Lanes {
    values[at..].first_chunk().expect("tiles are whole lanes")
}

/// The lanes from `at` on, writable.
#[inline(always)]
pub fn lanes_mut(values: &mut [f32], at: usize) -> &mut Lanes {
    values[at..].first_chunk_mut().expect("tiles are whole lanes")
}

/// `sums[k] += factors[k] * x` for the remaining columns `k`, with two roundings.
#[inline(always)]
pub fn add_products(level: Level, sums: &mut [Lanes], factors: &[f32], x: &Lanes) {
    level.run(Products { sums, factors, x });
}

/// `to[k] = from[k]` in the lanes in which `cost` is less than `least`.
#[inline(always)]
pub fn take_where_less(level: Level, (cost, least): (&Lanes, &Lanes), from: &[Lanes], to: &mut [Lanes]) {
    level.run(Taken { cost, least, from, to });
}

/// [`add_products`]. Loops over columns with sixteen lanes inside are written with vectors: the compiler
/// vectorized plain loops across columns, with gathers and scatters, which took twenty times as long.
struct Products<'a> {
    sums: &'a mut [Lanes],
    factors: &'a [f32],
    x: &'a Lanes,
}

impl Vectors for Products<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let x = f32x16::from_slice(simd, self.x);
        for (sums, factor) in self.sums.iter_mut().zip(self.factors) {
            let sum = f32x16::from_slice(simd, sums) + f32x16::splat(simd, *factor) * x;
            sum.store_slice(sums);
        }
    }

    fn scalar(self) {
        for (sums, factor) in self.sums.iter_mut().zip(self.factors) {
            for (sum, x) in sums.iter_mut().zip(self.x) {
                *sum += factor * x;
            }
        }
    }
}

/// [`take_where_less`].
struct Taken<'a> {
    cost: &'a Lanes,
    least: &'a Lanes,
    from: &'a [Lanes],
    to: &'a mut [Lanes],
}

impl Vectors for Taken<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let is_less = f32x16::from_slice(simd, self.cost).simd_lt(f32x16::from_slice(simd, self.least));
        for (from, to) in self.from.iter().zip(self.to) {
            let taken = is_less.select(f32x16::from_slice(simd, from), f32x16::from_slice(simd, to));
            taken.store_slice(to);
        }
    }

    fn scalar(self) {
        for (from, to) in self.from.iter().zip(self.to) {
            for lane in (0..LANES).filter(|lane| self.cost[*lane] < self.least[*lane]) {
                to[lane] = from[lane];
            }
        }
    }
}

/// Finds the nearest point of a type.
pub trait Nearest: Sync {
    /// Nearest point to each number; arbitrary for ties and for NaN.
    fn nearest(&self, target: &Lanes) -> Lanes;
}

#[derive(Debug)]
pub struct Steps {
    lowest: f32,
    highest: f32,
}

impl Steps {
    /// Points of a type whose levels are consecutive integers.
    pub fn new(zero: u8, lowest: u8, highest: u8) -> Steps {
        let points = Points::Steps { zero, lowest, highest };
        Steps { lowest: points.point(lowest), highest: points.point(highest) }
    }
}

/// `3 * 2^22`: adding and subtracting this rounds a small number to the nearest integer, ties to even.
const MAGIC: f32 = 12_582_912.0;

impl Nearest for Steps {
    #[inline(always)]
    fn nearest(&self, target: &Lanes) -> Lanes {
        let mut points = *target;
        for point in &mut points {
            // In this order NaN becomes the lowest point.
            let bounded = if *point > self.lowest { *point } else { self.lowest };
            let bounded = if bounded < self.highest { bounded } else { self.highest };
            *point = (bounded + MAGIC) - MAGIC;
        }
        points
    }
}

#[derive(Debug)]
pub struct Table {
    first: f32,
    /// Midpoint of each pair of neighbors, and the distance between them; both are exact.
    middles: [f32; 15],
    gaps: [f32; 15],
}

impl Table {
    /// Points of a type whose levels are entries of an increasing table.
    pub fn new(table: &[i8; 16]) -> Table {
        let entry = |i: usize| f32::from(table[i]);
        Table {
            first: entry(0),
            middles: std::array::from_fn(|i| (entry(i) + entry(i + 1)) / 2.0),
            gaps: std::array::from_fn(|i| entry(i + 1) - entry(i)),
        }
    }
}

impl Nearest for Table {
    #[inline(always)]
    fn nearest(&self, target: &Lanes) -> Lanes {
        // Starts at the first entry; each lower midpoint adds the gap after it.
        let mut points = [self.first; LANES];
        for (middle, gap) in self.middles.iter().zip(&self.gaps) {
            for lane in 0..LANES {
                points[lane] += if target[lane] > *middle { *gap } else { 0.0 };
            }
        }
        points
    }
}

/// A scale and an offset for each of sixteen rows.
#[derive(Debug, Clone, Copy)]
pub struct Scale {
    pub scales: Lanes,
    pub offsets: Lanes,
}

/// Inputs for rounding a column of sixteen rows.
#[derive(Debug, Clone, Copy)]
pub struct Column<'a> {
    pub weights: &'a Lanes,
    /// Scales of their groups; zero if the level stays.
    pub scales: &'a Lanes,
    pub offsets: &'a Lanes,
}

impl Column<'_> {
    /// The points whose values are nearest to `target`, and the resulting errors `weight - value`. A row with
    /// scale zero keeps its point.
    #[inline(always)]
    pub fn nearest(self, nearest: &impl Nearest, target: &Lanes, points: &Lanes) -> (Lanes, Lanes) {
        let mut steps = [0.0; LANES];
        for lane in 0..LANES {
            steps[lane] = (target[lane] - self.offsets[lane]) / self.scales[lane];
        }
        let mut found = nearest.nearest(&steps);
        let mut errors = [0.0; LANES];
        for lane in 0..LANES {
            found[lane] = if self.scales[lane] != 0.0 { found[lane] } else { points[lane] };
            // The decoder's arithmetic: a product, then a sum.
            errors[lane] = self.weights[lane] - (self.scales[lane] * found[lane] + self.offsets[lane]);
        }
        (found, errors)
    }
}
