//! Fit of the half-precision factors of a block, for given levels and codes.
//!
//! The values of a block are `d a + m b`: `d` multiplies all its scales, `m` all its offsets, and `a` and `b`
//! are the decoded values for `d = 1` and `m = 1`. With `g = H e`, changing `d` by `x` and `m` by `y` changes
//! the row's `e H e^T` by
//!
//! ```text
//! x^2 (a H a) + 2 x y (a H b) + y^2 (b H b) - 2 x (a g) - 2 y (b g)
//! ```
//!
//! The half-precision numbers with the smallest change are taken if it is negative, so `tr(E H E^T)` never
//! rises. The 6-bit codes were chosen individually before; this step fits their common factor.

use gguf_products::matmul;
use gguf_quant::{
    Level,
    frozen::{Codes, FrozenCodec},
    round::{f16_to_f32, f32_to_f16},
};
use ndarray::{Array2, s};

use super::{metric::Metric, tile::Tile};

/// 1.0 in half precision.
const ONE: u16 = 0x3c00;
/// All bits of a half except the sign.
const SIZE: u16 = 0x7fff;
const INFINITY: u16 = 0x7c00;

/// Sums over a block of one row (see the module documentation).
#[derive(Debug, Default)]
struct Sums {
    aa: f64,
    ab: f64,
    bb: f64,
    ag: f64,
    bg: f64,
}

impl Sums {
    fn change(&self, x: f64, y: f64) -> f64 {
        x * (x * self.aa + 2.0 * (y * self.ab - self.ag)) + y * (y * self.bb - 2.0 * self.bg)
    }

    /// The best numbers, if they differ from `[d, m]`. Signs stay, because encoders rely on them; an offset
    /// that no code multiplies (`free`) may have either sign.
    fn best(&self, [d, m]: [u16; 2], free: bool) -> Option<[u16; 2]> {
        let value = |half: u16| f64::from(f16_to_f32(half));
        let is_scale = |half: u16| half & SIZE != 0 && half & SIZE < INFINITY;
        if !is_scale(d) || m & SIZE >= INFINITY {
            return None;
        }
        // Both together, or only the scale if offsets are redundant.
        let determinant = self.aa * self.bb - self.ab * self.ab;
        let step = if determinant > 1e-6 * self.aa * self.bb {
            (self.ag * self.bb - self.bg * self.ab) / determinant
        } else {
            self.ag / self.aa
        };
        let near = f32_to_f16((value(d) + step) as f32);
        // The nearest pair need not be the best if scale and offset are nearly redundant.
        let mut best = (0.0, None);
        for scale in [d].into_iter().chain(near.wrapping_sub(2)..=near.wrapping_add(2)) {
            if !is_scale(scale) || (scale ^ d) & !SIZE != 0 {
                continue;
            }
            let x = value(scale) - value(d);
            let step = if self.bb > 0.0 { (self.bg - x * self.ab) / self.bb } else { 0.0 };
            let near = f32_to_f16((value(m) + step) as f32);
            let near = if free || (near ^ m) & !SIZE == 0 { near } else { m & !SIZE };
            for offset in [m, near] {
                if offset & SIZE >= INFINITY {
                    continue;
                }
                let change = self.change(x, value(offset) - value(m));
                if change < best.0 {
                    best = (change, Some([scale, offset]));
                }
            }
        }
        best.1
    }
}

/// One sweep over all blocks of a tile, in file order.
pub fn sweep(level: Level, codec: &FrozenCodec, metric: &Metric, tile: &mut Tile, blocks: &mut [u8]) {
    let (elems, n_lanes) = (codec.dtype.block_elems() as usize, tile.n_lanes());
    let mut gradients = Array2::<f32>::zeros((elems, n_lanes));
    // a and b, and H a and H b: (elems, n_lanes) each.
    let mut slopes = vec![gradients.clone(); codec.halves.len()];
    let mut products = slopes.clone();
    let mut unit = vec![0; codec.dtype.block_bytes() as usize];
    for first in (0..tile.n_columns()).step_by(elems) {
        let h = metric.h().slice(s![first..first + elems, ..]);
        matmul(level, false, 1.0, h, tile.errors().view(), gradients.view_mut());
        for lane in 0..n_lanes {
            let block = tile.block(codec, blocks, first, lane);
            match block {
                None => slopes.iter_mut().for_each(|slopes| slopes.column_mut(lane).fill(0.0)),
                Some((block, _)) => {
                    unit.copy_from_slice(block);
                    codec.halves.iter().for_each(|at| put(&mut unit, *at, ONE));
                    fill(codec, &unit, tile, (first, lane), &mut slopes);
                }
            }
        }
        let within = h.slice(s![.., first..first + elems]);
        for (slopes, products) in slopes.iter().zip(&mut products) {
            matmul(level, false, 1.0, within, slopes.view(), products.view_mut());
        }
        for lane in 0..n_lanes {
            let Some((block, _)) = tile.block(codec, blocks, first, lane) else { continue };
            let now = std::array::from_fn(|half| codec.halves.get(half).map_or(0, |at| at_half(block, *at)));
            let sums = sums(&slopes, &products, &gradients, lane);
            let Some(found) = sums.best(now, codec.codes[1] == Codes::Halves) else { continue };
            let block = tile.block_mut(codec, blocks, first, lane);
            codec.halves.iter().zip(found).for_each(|(at, half)| put(block, *at, half));
            for (group, column) in (first..first + elems).step_by(codec.group).enumerate() {
                let [scale, offset] = (codec.scale_of)(block, (codec.codes_of)(block, group));
                tile.move_scale(column, lane, scale, offset);
            }
        }
    }
}

/// Writes `a` and `b` of one row's block for its codes.
fn fill(
    codec: &FrozenCodec,
    unit: &[u8],
    tile: &Tile,
    (first, lane): (usize, usize),
    slopes: &mut [Array2<f32>],
) {
    for (group, at) in (0..slopes[0].nrows()).step_by(codec.group).enumerate() {
        let [scale, offset] = (codec.scale_of)(unit, (codec.codes_of)(unit, group));
        let points = tile.points(first + at..first + at + codec.group, lane);
        for (column, point) in (at..).zip(points) {
            slopes[0][[column, lane]] = scale * point;
            if let Some(slopes) = slopes.get_mut(1) {
                slopes[[column, lane]] = offset;
            }
        }
    }
}

/// Sums of one row, from the first column to the last.
fn sums(slopes: &[Array2<f32>], products: &[Array2<f32>], gradients: &Array2<f32>, lane: usize) -> Sums {
    let dot = |a: &Array2<f32>, b: &Array2<f32>| -> f64 {
        let pairs = a.column(lane).into_iter().zip(b.column(lane));
        pairs.map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
    };
    let (a, ha) = (&slopes[0], &products[0]);
    let mut sums = Sums { aa: dot(a, ha), ag: dot(a, gradients), ..Sums::default() };
    if let ([_, b], [_, hb]) = (slopes, products) {
        (sums.ab, sums.bb, sums.bg) = (dot(b, ha), dot(b, hb), dot(b, gradients));
    }
    sums
}

fn at_half(block: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([block[at], block[at + 1]])
}

fn put(block: &mut [u8], at: usize, half: u16) {
    block[at..at + 2].copy_from_slice(&half.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use gguf_quant::{Rows, frozen::FROZEN};
    use gguf_testkit::{Data, normal};

    use super::*;
    use crate::{Gram, RoundingOptions};

    const N: usize = 256;

    fn metric() -> Metric {
        let x: Vec<f32> =
            (0..N * 400).map(|i| normal(3, i as u64) * 20.0 + normal(4, (i / 5) as u64) * 40.0).collect();
        let moment = |i: usize, j: usize| (0..400).map(|t| x[t * N + i] * x[t * N + j]).sum::<f32>();
        let sums = (0..N * N).map(|at| moment(at / N, at % N)).collect();
        Metric::new(&Gram::from_sums(N, 400, sums).unwrap(), &RoundingOptions::default()).unwrap()
    }

    /// `e H e` of a row in double precision.
    fn cost(metric: &Metric, codec: &FrozenCodec, weights: &[f32], blocks: &[u8]) -> f64 {
        let mut values = vec![0.0; N];
        gguf_quant::decode(codec.dtype, Level::Scalar, blocks, &mut values).unwrap();
        let errors: Vec<f64> = weights.iter().zip(&values).map(|(w, v)| f64::from(w - v)).collect();
        let row = |i: usize| (0..N).map(|j| f64::from(metric.h()[[i, j]]) * errors[j]).sum::<f64>();
        (0..N).map(|i| errors[i] * row(i)).sum()
    }

    /// No nearby half-precision numbers cost less, block by block.
    #[test]
    fn no_neighbor_is_better() {
        let metric = metric();
        let mut n_moved = 0;
        for codec in FROZEN {
            let weights = Data::Normal.values(7, 3 * N);
            let row_bytes = N / codec.dtype.block_elems() as usize * codec.dtype.block_bytes() as usize;
            let mut blocks = vec![0; 3 * row_bytes];
            let ones = [1.0; N];
            let rows = Rows { values: &weights, row_elems: N, weights: Some(&ones) };
            gguf_quant::encode(codec.dtype, Level::detect(), rows, &mut blocks).unwrap();
            let stock = blocks.clone();
            let mut tile = Tile::read(codec, &weights, &blocks, N);
            sweep(Level::detect(), codec, &metric, &mut tile, &mut blocks);
            let after = Tile::read(codec, &weights, &blocks, N);
            assert_eq!(tile.errors(), after.errors(), "{}: what the tile says is in the blocks", codec.dtype);
            n_moved += usize::from(stock != blocks);
            // The last block was fitted last, so all others are final.
            let last = row_bytes - codec.dtype.block_bytes() as usize;
            for row in 0..3 {
                let (weights, blocks) = (&weights[row * N..][..N], &blocks[row * row_bytes..][..row_bytes]);
                let least = cost(&metric, codec, weights, blocks);
                let before = cost(&metric, codec, weights, &stock[row * row_bytes..][..row_bytes]);
                assert!(least <= before * (1.0 + 1e-6), "{}: {before} to {least}", codec.dtype);
                for (d, m) in (-3..=3).flat_map(|d| (-3..=3).map(move |m| (d, m))) {
                    let mut near = blocks.to_vec();
                    let mut by = |half: usize, steps: i32| {
                        if let Some(at) = codec.halves.get(half) {
                            let now = i32::from(at_half(&near, last + at));
                            // Signs stay.
                            let to = (now & 0x8000) | ((now & 0x7fff) + steps).clamp(0, 0x7bff);
                            put(&mut near, last + at, to as u16);
                        }
                    };
                    by(0, d);
                    by(1, m);
                    let cost = cost(&metric, codec, weights, &near);
                    // Some pairs near the best one are tried; they can only win by rounding to half
                    // precision.
                    let room = if codec.halves.len() == 1 { 1e-5 } else { 5e-4 };
                    assert!(cost >= least * (1.0 - room), "{} {d} {m}: {least} to {cost}", codec.dtype);
                }
            }
        }
        // For the finest types, no half-precision number may beat the encoder's.
        assert!(n_moved >= 10, "{n_moved} of {} types", FROZEN.len());
    }

    #[test]
    fn invalid_scales_are_unchanged() {
        let sums = Sums { aa: 1.0, ag: 100.0, bb: 1.0, bg: 100.0, ab: 0.0 };
        for d in [0, 0x8000, INFINITY, 0xfc00, 0x7e00] {
            assert_eq!(sums.best([d, ONE], true), None);
        }
        assert_eq!(sums.best([ONE, INFINITY], true), None);
        assert_eq!(Sums::default().best([ONE, ONE], true), None);
        let nan = Sums { aa: f64::NAN, ag: f64::NAN, ..Sums::default() };
        assert_eq!(nan.best([ONE, ONE], false), None);
        // A scale never changes its sign, and an offset that codes multiply stops at zero.
        let back = Sums { aa: 1.0, ag: -3.0, bb: 1.0, bg: -3.0, ab: 0.0 };
        assert_eq!(back.best([ONE, ONE], false), Some([ONE, 0]));
        assert_eq!(back.best([ONE, ONE], true), Some([ONE, 0xc000]));
    }
}
