//! Products of one row with stored blocks, for the most frequent types: levels are not written to memory.
//!
//! Eight rows of weights at a time: a lane of the last steps is a row, so that the chains of fused additions
//! of eight rows run in parallel. Sums inside a block are exact, so their order is free. Bytes are multiplied
//! directly, `w` unsigned and `x` signed, and pairs of products are added in 16 bits, which suffice: levels
//! are at most 63, or 128 without their sign.

use fearless_simd::{
    Bytes, Simd, SimdBase, SimdCvtFloat, SimdFloat, SimdIntWiden, f32x8, i8x16, i8x32, i16x16, i32x8,
    prelude::*, u8x16, u8x32, u16x16, u32x8,
};
use fearless_simd_macros::simd;

use super::{bytes_256, few::Single};

/// Number of rows of weights that are multiplied at once.
const ROWS: usize = 8;

/// Blocks of `E` elements in `B` bytes.
pub(super) trait Stored<const E: usize, const B: usize> {
    /// Position of the scale, a half.
    const SCALE: usize;
    /// Position of the half-precision scale of the minima, which is subtracted, if there are any.
    const MIN_SCALE: Option<usize>;

    /// True if a byte of each cache line is read first. With few instructions per byte, the processor's own
    /// prefetching is too late.
    const IS_TOUCHED: bool;

    /// Sums over the elements, distributed over lanes arbitrarily, without the offset of the levels if
    /// [`Stored::has_start`].
    fn dot<S: Simd>(simd: S, block: &[u8; B], x: &Part<'_, E>) -> i32x8<S>;

    /// True if sums start at the correction for the offset of the levels.
    fn has_start<S: Simd>(simd: S) -> bool;

    /// Negated minima, by groups.
    fn minima(block: &[u8; B]) -> [i32; 8];
}

pub(super) struct Part<'a, const E: usize> {
    values: &'a [i8; E],
    /// Sums of the elements that share an integer scale.
    subs: &'a [i16],
}

pub(super) struct Q8_0;
pub(super) struct Q4_0;
pub(super) struct Q4K;
pub(super) struct Q6K;

/// Sums of one block of eight rows.
#[derive(Clone, Copy, Default)]
struct Sums {
    /// One row each, distributed over lanes.
    lanes: [[i32; 8]; ROWS],
    halves: [u32; ROWS],
}

/// `x (k) @ w^T -> out (n)`.
#[simd]
pub(super) fn multiply<S: Simd, T: Stored<E, B>, const E: usize, const B: usize>(
    simd: S,
    x: &Single,
    weights: &[u8],
    out: &mut [f32],
) {
    let values = x.bytes.as_chunks::<E>().0;
    let n_blocks = values.len();
    if n_blocks == 0 {
        return out.fill(0.0);
    }
    let (weights, scales) = (weights.as_chunks::<B>().0, &x.scales[..n_blocks]);
    let (starts, n_subs) = (&x.starts[..], x.subs.len() / n_blocks);
    let sums = x.sums.as_chunks::<8>().0;
    let mut main = vec![Sums::default(); n_blocks];
    let mut minima = vec![Sums::default(); if T::MIN_SCALE.is_some() { n_blocks } else { 0 }];
    for (out, weights) in out.chunks_mut(ROWS).zip(weights.chunks(ROWS * n_blocks)) {
        if T::IS_TOUCHED {
            touch(weights.as_flattened());
        }
        // Row by row in storage order: one long stream, which processors prefetch, unlike eight short ones.
        for (r, row) in weights.chunks_exact(n_blocks).enumerate() {
            for p in 0..n_blocks {
                let part = Part { values: &values[p], subs: &x.subs[p * n_subs..(p + 1) * n_subs] };
                T::dot(simd, &row[p], &part).store_slice(&mut main[p].lanes[r]);
                main[p].halves[r] = half(&row[p], T::SCALE);
                if let Some(at) = T::MIN_SCALE {
                    let products =
                        i32x8::from_slice(simd, &sums[p]) * i32x8::from_slice(simd, &T::minima(&row[p]));
                    products.store_slice(&mut minima[p].lanes[r]);
                    minima[p].halves[r] = half(&row[p], at);
                }
            }
        }
        let mut totals = f32x8::splat(simd, 0.0);
        for p in 0..n_blocks {
            let scale = f32x8::splat(simd, scales[p]);
            let mut block_sums = sum_of_each(simd, &main[p].lanes);
            if T::has_start(simd) {
                block_sums += i32x8::splat(simd, starts[p]);
            }
            let factor = scale * floats(simd, main[p].halves);
            totals = factor.mul_add_precise(f32x8::float_from(block_sums), totals);
            if let Some(minima) = minima.get(p) {
                let factor = scale * floats(simd, minima.halves);
                totals = factor.mul_add_precise(f32x8::float_from(sum_of_each(simd, &minima.lanes)), totals);
            }
        }
        let mut wide = [0.0; ROWS];
        totals.store_slice(&mut wide);
        out.copy_from_slice(&wide[..out.len()]);
    }
}

/// Reads a byte of each cache line, in order.
#[inline(always)]
fn touch(bytes: &[u8]) {
    std::hint::black_box(bytes.iter().step_by(64).fold(0, |all, byte| all | byte));
}

#[inline(always)]
fn half<const B: usize>(block: &[u8; B], at: usize) -> u32 {
    u16::from_le_bytes([block[at], block[at + 1]]).into()
}

/// [`gguf_types::half::f16_to_f32`] of eight numbers.
#[inline(always)]
fn floats<S: Simd>(simd: S, halves: [u32; ROWS]) -> f32x8<S> {
    let bits = u32x8::from_slice(simd, &halves) << 16;
    let (sign, magnitude) = (bits & u32x8::splat(simd, 0x8000_0000), bits << 1);
    let normal: f32x8<S> = ((magnitude >> 4) + u32x8::splat(simd, 0xe0 << 23)).bitcast();
    let normal = normal * f32x8::splat(simd, f32::from_bits(0x0780_0000));
    let subnormal: f32x8<S> = ((magnitude >> 17) | u32x8::splat(simd, 126 << 23)).bitcast();
    let subnormal = subnormal - f32x8::splat(simd, 0.5);
    let is_subnormal = magnitude.simd_lt(u32x8::splat(simd, 1 << 27));
    let number: u32x8<S> = is_subnormal.select(subnormal, normal).bitcast();
    (sign | number).bitcast()
}

/// Lane `r` of the result: the sum of all lanes of row `r`.
#[inline(always)]
fn sum_of_each<S: Simd>(simd: S, lanes: &[[i32; 8]; ROWS]) -> i32x8<S> {
    // Each step interleaves two vectors and halves their number.
    #[inline(always)]
    fn join<S: Simd>(a: i32x8<S>, b: i32x8<S>) -> i32x8<S> {
        a.zip_low(b) + a.zip_high(b)
    }
    let mut v = [i32x8::splat(simd, 0); ROWS];
    for r in 0..ROWS {
        v[r] = i32x8::from_slice(simd, &lanes[r]);
    }
    let four = [join(v[0], v[4]), join(v[1], v[5]), join(v[2], v[6]), join(v[3], v[7])];
    let two = [join(four[0], four[2]), join(four[1], four[3])];
    join(two[0], two[1])
}

/// 32 bytes of a block.
#[inline(always)]
fn load<S: Simd>(simd: S, bytes: &[u8]) -> u8x32<S> {
    u8x32::from_slice(simd, bytes)
}

/// Sums of neighboring products; `w` is unsigned.
#[inline(always)]
fn pairs<S: Simd>(simd: S, w: u8x32<S>, x: &[i8]) -> i16x16<S> {
    bytes_256::pair_products(simd, w, i8x32::from_slice(simd, x))
}

/// `(bytes >> bits) & mask` or, for a negative number of bits, `(bytes << -bits) & mask`: shifts of 16 bits, so the mask must leave out the
/// bits that the other byte of a pair loses.
#[inline(always)]
fn shifted<S: Simd>(simd: S, bytes: u8x32<S>, bits: i32, mask: u8) -> u8x32<S> {
    let words: u16x16<S> = bytes.bitcast();
    let words = if bits < 0 { words << bits.unsigned_abs() } else { words >> bits as u32 };
    let moved: u8x32<S> = words.bitcast();
    moved & u8x32::splat(simd, mask)
}

impl Stored<32, 34> for Q8_0 {
    const IS_TOUCHED: bool = true;
    const SCALE: usize = 0;
    const MIN_SCALE: Option<usize> = None;

    #[inline(always)]
    fn dot<S: Simd>(simd: S, block: &[u8; 34], x: &Part<'_, 32>) -> i32x8<S> {
        let (w, x) = (load(simd, &block[2..]), i8x32::from_slice(simd, x.values));
        if let Some(sums) = bytes_256::quad_products(simd, w ^ u8x32::splat(simd, 0x80), x) {
            return sums;
        }
        // |w| times x with the sign of the product: |w| is at most 128, so that no sum of two products saturates.
        let w: i8x32<S> = w.bitcast();
        let products = bytes_256::pair_products(simd, w.abs().bitcast(), bytes_256::with_sign_of(simd, x, w));
        products.pairwise_dot_product(i16x16::splat(simd, 1))
    }

    #[inline(always)]
    fn has_start<S: Simd>(simd: S) -> bool {
        bytes_256::has_quad_products(simd)
    }

    #[inline(always)]
    fn minima(_: &[u8; 34]) -> [i32; 8] {
        [0; 8]
    }
}

impl Stored<32, 18> for Q4_0 {
    const IS_TOUCHED: bool = false;
    const SCALE: usize = 0;
    const MIN_SCALE: Option<usize> = None;

    #[inline(always)]
    fn dot<S: Simd>(simd: S, block: &[u8; 18], x: &Part<'_, 32>) -> i32x8<S> {
        let bytes = u8x16::from_slice(simd, &block[2..]);
        let low_bits = u8x16::splat(simd, 15);
        let levels = (bytes & low_bits).combine((bytes >> 4) & low_bits);
        pairs(simd, levels, x.values).pairwise_dot_product(i16x16::splat(simd, 1))
    }

    #[inline(always)]
    fn has_start<S: Simd>(_: S) -> bool {
        true
    }

    #[inline(always)]
    fn minima(_: &[u8; 18]) -> [i32; 8] {
        [0; 8]
    }
}

/// Scales and minima of Q4_K, a byte each.
#[inline(always)]
fn scales_and_minima(block: &[u8; 144]) -> ([u8; 8], [u8; 8]) {
    #[inline(always)]
    fn word(block: &[u8; 144], at: usize) -> u32 {
        u32::from_le_bytes([block[at], block[at + 1], block[at + 2], block[at + 3]])
    }
    #[inline(always)]
    fn join(low: u32, high: u32) -> [u8; 8] {
        (u64::from(high) << 32 | u64::from(low)).to_le_bytes()
    }
    let (a, b, c) = (word(block, 4), word(block, 8), word(block, 12));
    let (six, four, two) = (0x3f3f_3f3f, 0x0f0f_0f0f, 0x0303_0303);
    (join(a & six, c & four | (a >> 6 & two) << 4), join(b & six, c >> 4 & four | (b >> 6 & two) << 4))
}

impl Stored<256, 144> for Q4K {
    const IS_TOUCHED: bool = false;
    const SCALE: usize = 0;
    const MIN_SCALE: Option<usize> = Some(2);

    #[inline(always)]
    fn dot<S: Simd>(simd: S, block: &[u8; 144], x: &Part<'_, 256>) -> i32x8<S> {
        let (scales, _) = scales_and_minima(block);
        // Both halves of each word, read together.
        let mut words = [0i32; 8];
        for i in 0..8 {
            words[i] = i32::from(scales[i]) * 0x1_0001;
        }
        let mut sum = i32x8::splat(simd, 0);
        for j in 0..4 {
            let bytes = load(simd, &block[16 + 32 * j..48 + 32 * j]);
            let levels = [bytes & u8x32::splat(simd, 15), shifted(simd, bytes, 4, 15)];
            for half in 0..2 {
                let sub = 2 * j + half;
                let scale: i16x16<S> = i32x8::splat(simd, words[sub]).bitcast();
                let products = pairs(simd, levels[half], &x.values[32 * sub..32 * sub + 32]);
                sum += products.pairwise_dot_product(scale);
            }
        }
        sum
    }

    #[inline(always)]
    fn has_start<S: Simd>(_: S) -> bool {
        false
    }

    #[inline(always)]
    fn minima(block: &[u8; 144]) -> [i32; 8] {
        scales_and_minima(block).1.map(
            #[inline(always)]
            |minimum| -i32::from(minimum),
        )
    }
}

impl Stored<256, 210> for Q6K {
    const IS_TOUCHED: bool = false;
    const SCALE: usize = 208;
    const MIN_SCALE: Option<usize> = None;

    #[inline(always)]
    fn dot<S: Simd>(simd: S, block: &[u8; 210], x: &Part<'_, 256>) -> i32x8<S> {
        let scale_bytes: i8x16<S> = u8x16::from_slice(simd, &block[192..208]).bitcast();
        let widened = |bytes: i8x16<S>| {
            let (low, high) = bytes.widen();
            low.combine(high)
        };
        // Levels without their offset of 32: sum_g s_g (sum w x - 32 sum x).
        let mut sum = -(widened(scale_bytes).pairwise_dot_product(i16x16::from_slice(simd, x.subs)) << 5);
        for h in 0..2 {
            let upper = load(simd, &block[128 + 32 * h..160 + 32 * h]);
            let lower =
                [load(simd, &block[64 * h..64 * h + 32]), load(simd, &block[64 * h + 32..64 * h + 64])];
            for quarter in 0..4 {
                let low = match quarter / 2 {
                    0 => lower[quarter % 2] & u8x32::splat(simd, 15),
                    _ => shifted(simd, lower[quarter % 2], 4, 15),
                };
                // Two bits of `upper`, moved to bits 4 and 5.
                let high = shifted(simd, upper, 2 * quarter as i32 - 4, 0x30);
                let group = 4 * h + quarter;
                let products = pairs(simd, low | high, &x.values[32 * group..32 * group + 32]);
                // Each half of the elements has its scale.
                let mut places = [2 * group as u8; 16];
                places[8..].fill(2 * group as u8 + 1);
                let scales = scale_bytes.swizzle_dyn(u8x16::from_slice(simd, &places));
                sum += products.pairwise_dot_product(widened(scales));
            }
        }
        sum
    }

    #[inline(always)]
    fn has_start<S: Simd>(_: S) -> bool {
        false
    }

    #[inline(always)]
    fn minima(_: &[u8; 210]) -> [i32; 8] {
        [0; 8]
    }
}
