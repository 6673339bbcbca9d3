//! Products of one row with blocks as they are stored, for the most frequent types: no level is written to memory.
//!
//! Eight rows of weights at a time: a lane of the last steps is a row, so that the chains of fused additions of eight rows run side by
//! side. Sums inside a block are exact, so their order is free.

use fearless_simd::{
    Simd, SimdBase, SimdCvtFloat, SimdFloat, SimdIntWiden, f32x8, i8x32, i16x16, i32x8, prelude::*, u8x32,
    u16x16, u32x8,
};
use fearless_simd_macros::simd;

use super::few::Single;

/// Rows of weights that are multiplied at once.
const ROWS: usize = 8;

/// Blocks of `E` elements in `B` bytes.
pub(super) trait Stored<const E: usize, const B: usize> {
    /// Position of the scale, a half.
    const SCALE: usize;
    /// Position of the scale of the minima, a half that is subtracted, if there are any.
    const MIN_SCALE: Option<usize>;

    /// Sums over the elements, spread over lanes in any way.
    fn dot<S: Simd>(simd: S, block: &[u8; B], x: &[i16; E]) -> i32x8<S>;

    /// Minima, negated, by groups.
    fn minima(block: &[u8; B]) -> [i32; 8];
}

pub(super) struct Q8_0;
pub(super) struct Q4_0;
pub(super) struct Q4K;
pub(super) struct Q6K;

/// `x (k) @ w^T -> out (n)`.
#[simd]
pub(super) fn multiply<S: Simd, T: Stored<E, B>, const E: usize, const B: usize>(
    simd: S,
    x: &Single,
    weights: &[u8],
    out: &mut [f32],
) {
    let values = x.values.as_chunks::<E>().0;
    let n_blocks = values.len();
    if n_blocks == 0 {
        return out.fill(0.0);
    }
    let (weights, scales) = (weights.as_chunks::<B>().0, &x.scales[..n_blocks]);
    let sums = x.sums.as_chunks::<8>().0;
    for (out, weights) in out.chunks_mut(ROWS).zip(weights.chunks(ROWS * n_blocks)) {
        touch(weights.as_flattened());
        let mut rows = [&[][..]; ROWS];
        for r in 0..ROWS {
            // The last row stands in for those that are missing.
            let row = r.min(out.len() - 1);
            rows[r] = &weights[row * n_blocks..(row + 1) * n_blocks];
        }
        let mut totals = f32x8::splat(simd, 0.0);
        for p in 0..n_blocks {
            let mut lanes = [i32x8::splat(simd, 0); ROWS];
            let mut halves = [0; ROWS];
            for r in 0..ROWS {
                let block = &rows[r][p];
                lanes[r] = T::dot(simd, block, &values[p]);
                halves[r] = half(block, T::SCALE);
            }
            let scale = f32x8::splat(simd, scales[p]);
            let factor = scale * floats(simd, halves);
            totals = factor.mul_add_precise(f32x8::float_from(sum_of_each(lanes)), totals);
            if let Some(at) = T::MIN_SCALE {
                let sums = i32x8::from_slice(simd, &sums[p]);
                for r in 0..ROWS {
                    let block = &rows[r][p];
                    lanes[r] = sums * i32x8::from_slice(simd, &T::minima(block));
                    halves[r] = half(block, at);
                }
                let factor = scale * floats(simd, halves);
                totals = factor.mul_add_precise(f32x8::float_from(sum_of_each(lanes)), totals);
            }
        }
        let mut wide = [0.0; ROWS];
        totals.store_slice(&mut wide);
        out.copy_from_slice(&wide[..out.len()]);
    }
}

/// Reads a byte of each cache line, in order. Eight rows side by side are eight short streams, which processors do not fetch ahead of
/// time as they do one long stream.
#[inline(always)]
fn touch(bytes: &[u8]) {
    std::hint::black_box(bytes.iter().step_by(64).fold(0, |all, byte| all | byte));
}

#[inline(always)]
fn half<const B: usize>(block: &[u8; B], at: usize) -> u32 {
    u16::from_le_bytes([block[at], block[at + 1]]).into()
}

/// [`gguf_types::half::f16_to_f32`] of eight.
#[inline(always)]
fn floats<S: Simd>(simd: S, halves: [u32; ROWS]) -> f32x8<S> {
    use fearless_simd::Bytes;
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

/// Lane `r` of the result: the sum of all lanes of vector `r`.
#[inline(always)]
fn sum_of_each<S: Simd>(v: [i32x8<S>; ROWS]) -> i32x8<S> {
    // Each step interleaves two vectors and halves their number.
    #[inline(always)]
    fn join<S: Simd>(a: i32x8<S>, b: i32x8<S>) -> i32x8<S> {
        a.zip_low(b) + a.zip_high(b)
    }
    let four = [join(v[0], v[4]), join(v[1], v[5]), join(v[2], v[6]), join(v[3], v[7])];
    let two = [join(four[0], four[2]), join(four[1], four[3])];
    join(two[0], two[1])
}

/// Sums of neighbouring products of 16 elements.
#[inline(always)]
fn pairs<S: Simd>(simd: S, w: i16x16<S>, x: &[i16]) -> i32x8<S> {
    w.pairwise_dot_product(i16x16::from_slice(simd, x))
}

/// 32 bytes without a sign as 16-bit integers.
#[inline(always)]
fn widened<S: Simd>(simd: S, bytes: &[u8]) -> [u16x16<S>; 2] {
    let (low, high) = u8x32::from_slice(simd, bytes).widen();
    [low, high]
}

#[inline(always)]
fn signed<S: Simd>(x: u16x16<S>) -> i16x16<S> {
    fearless_simd::Bytes::bitcast(x)
}

impl Stored<32, 34> for Q8_0 {
    const SCALE: usize = 0;
    const MIN_SCALE: Option<usize> = None;

    #[inline(always)]
    fn dot<S: Simd>(simd: S, block: &[u8; 34], x: &[i16; 32]) -> i32x8<S> {
        let bytes: i8x32<S> = fearless_simd::Bytes::bitcast(u8x32::from_slice(simd, &block[2..]));
        let (low, high) = bytes.widen();
        pairs(simd, low, &x[..16]) + pairs(simd, high, &x[16..])
    }

    #[inline(always)]
    fn minima(_: &[u8; 34]) -> [i32; 8] {
        [0; 8]
    }
}

impl Stored<32, 18> for Q4_0 {
    const SCALE: usize = 0;
    const MIN_SCALE: Option<usize> = None;

    #[inline(always)]
    fn dot<S: Simd>(simd: S, block: &[u8; 18], x: &[i16; 32]) -> i32x8<S> {
        let bytes: [u16; 16] = std::array::from_fn(
            #[inline(always)]
            |i| block[2 + i].into(),
        );
        let (bytes, eight) = (u16x16::from_slice(simd, &bytes), i16x16::splat(simd, 8));
        let low = signed(bytes & u16x16::splat(simd, 15)) - eight;
        let high = signed(bytes >> 4) - eight;
        pairs(simd, low, &x[..16]) + pairs(simd, high, &x[16..])
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
    const SCALE: usize = 0;
    const MIN_SCALE: Option<usize> = Some(2);

    #[inline(always)]
    fn dot<S: Simd>(simd: S, block: &[u8; 144], x: &[i16; 256]) -> i32x8<S> {
        let (scales, _) = scales_and_minima(block);
        let low_bits = u16x16::splat(simd, 15);
        let mut sum = i32x8::splat(simd, 0);
        for j in 0..4 {
            let [a, b] = widened(simd, &block[16 + 32 * j..48 + 32 * j]);
            let x = &x[64 * j..64 * j + 64];
            let low =
                pairs(simd, signed(a & low_bits), &x[..16]) + pairs(simd, signed(b & low_bits), &x[16..32]);
            let high = pairs(simd, signed(a >> 4), &x[32..48]) + pairs(simd, signed(b >> 4), &x[48..]);
            sum += low * i32x8::splat(simd, scales[2 * j].into())
                + high * i32x8::splat(simd, scales[2 * j + 1].into());
        }
        sum
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
    const SCALE: usize = 208;
    const MIN_SCALE: Option<usize> = None;

    #[inline(always)]
    fn dot<S: Simd>(simd: S, block: &[u8; 210], x: &[i16; 256]) -> i32x8<S> {
        let (low_bits, high_bits, offset) =
            (u16x16::splat(simd, 15), u16x16::splat(simd, 0x30), i16x16::splat(simd, 32));
        let mut sum = i32x8::splat(simd, 0);
        for h in 0..2 {
            let upper = widened(simd, &block[128 + 32 * h..160 + 32 * h]);
            let lower =
                [widened(simd, &block[64 * h..64 * h + 32]), widened(simd, &block[64 * h + 32..64 * h + 64])];
            for quarter in 0..4 {
                for side in 0..2 {
                    let sub = 8 * h + 2 * quarter + side;
                    let low = (lower[quarter % 2][side] >> (4 * (quarter as u32 / 2))) & low_bits;
                    // Two bits of `upper`, moved to bits 4 and 5.
                    let high = ((upper[side] << 4) >> (2 * quarter as u32)) & high_bits;
                    let level = signed(low | high) - offset;
                    let scale = i32x8::splat(simd, i32::from(block[192 + sub] as i8));
                    sum += pairs(simd, level, &x[16 * sub..16 * sub + 16]) * scale;
                }
            }
        }
        sum
    }

    #[inline(always)]
    fn minima(_: &[u8; 210]) -> [i32; 8] {
        [0; 8]
    }
}
