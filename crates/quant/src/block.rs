//! Views of bytes as blocks, and the loops over rows and blocks that all formats share.
//!
//! A block of a format with `E` elements and `B` bytes is a `[u8; B]`, its values are a `[f32; E]`. Fields
//! are read and written at fixed offsets, little endian; after inlining the bounds checks are gone, so no
//! cast and no unsafe code is needed.

use tensor::DType;

use crate::{
    Rows,
    round::{f16_to_f32, f32_to_f16},
};

/// Stops the build when a format's constants differ from the dtype table.
/// For use as `const _: () = assert_sizes(DType::Q4_K, ELEMS, BYTES);`.
pub const fn assert_sizes(dtype: DType, elems: usize, bytes: usize) {
    assert!(dtype.block_elems() == elems as u64, "elements in a block");
    assert!(dtype.block_bytes() == bytes as u64, "bytes of a block");
}

/// The `N` items at `at`. Offsets are constants of a format, so a wrong one fails in the first test.
#[inline(always)]
pub fn array_at<const N: usize, T>(items: &[T], at: usize) -> &[T; N] {
    items[at..].first_chunk().expect("a format's offsets lie within its block")
}

/// The `N` items at `at`, writable.
#[inline(always)]
pub fn array_at_mut<const N: usize, T>(items: &mut [T], at: usize) -> &mut [T; N] {
    items[at..].first_chunk_mut().expect("a format's offsets lie within its block")
}

/// The `u16` at byte `at`.
#[inline(always)]
pub fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(*array_at(bytes, at))
}

/// The `u32` at byte `at`.
#[inline(always)]
pub fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(*array_at(bytes, at))
}

/// The half-precision number at byte `at`.
#[inline(always)]
pub fn f16_at(bytes: &[u8], at: usize) -> f32 {
    f16_to_f32(u16_at(bytes, at))
}

/// Writes a `u16` at byte `at`.
#[inline(always)]
pub fn put_u16(bytes: &mut [u8], at: usize, value: u16) {
    *array_at_mut(bytes, at) = value.to_le_bytes();
}

/// Writes a `u32` at byte `at`.
#[inline(always)]
pub fn put_u32(bytes: &mut [u8], at: usize, value: u32) {
    *array_at_mut(bytes, at) = value.to_le_bytes();
}

/// Rounds `value` to half precision, writes it at byte `at`, and gives back what a reader will see.
#[inline(always)]
pub fn put_f16(bytes: &mut [u8], at: usize, value: f32) -> f32 {
    let half = f32_to_f16(value);
    put_u16(bytes, at, half);
    f16_to_f32(half)
}

/// Encodes block after block: `encode_block(values, block)`.
#[inline(always)]
pub fn encode_blocks<const E: usize, const B: usize>(
    values: &[f32],
    out: &mut [u8],
    mut encode_block: impl FnMut(&[f32; E], &mut [u8; B]),
) {
    for (values, block) in values.as_chunks().0.iter().zip(out.as_chunks_mut().0) {
        encode_block(values, block);
    }
}

/// Encodes block after block with the importance weights of its columns:
/// `encode_block(values, weights, block)`. `weights` holds one row.
#[inline(always)]
pub fn encode_weighted_blocks<const E: usize, const B: usize>(
    rows: Rows<'_>,
    weights: &[f32],
    out: &mut [u8],
    mut encode_block: impl FnMut(&[f32; E], &[f32; E], &mut [u8; B]),
) {
    encode_weighted_rows(
        rows,
        weights,
        out,
        |_| (),
        |(), values, weights, block| encode_block(values, weights, block),
    );
}

/// As [`encode_weighted_blocks`], for formats whose search looks at the whole row first:
/// `encode_block(of_row(row), values, weights, block)`.
#[inline(always)]
pub fn encode_weighted_rows<const E: usize, const B: usize, S: Copy>(
    rows: Rows<'_>,
    weights: &[f32],
    out: &mut [u8],
    of_row: impl Fn(&[f32]) -> S,
    mut encode_block: impl FnMut(S, &[f32; E], &[f32; E], &mut [u8; B]),
) {
    let row_bytes = rows.row_elems / E * B;
    let weights = weights.as_chunks().0;
    for (row, out) in rows.values.chunks_exact(rows.row_elems).zip(out.chunks_exact_mut(row_bytes)) {
        // Once for the row, and not once for each block.
        let of_row = of_row(row);
        for ((values, weights), block) in row.as_chunks().0.iter().zip(weights).zip(out.as_chunks_mut().0) {
            encode_block(of_row, values, weights, block);
        }
    }
}

/// The encoder of a type, made of its modules: `lanes` at the vector levels and `scalar` elsewhere.
macro_rules! encoder {
    // The scale follows from the values alone, so importance weights change nothing.
    (lanes) => {
        |level, rows, out| {
            $crate::level::at_level!(
                level,
                simd => lanes::encode(simd, rows.values, out),
                $crate::block::encode_blocks(rows.values, out, scalar::encode)
            )
        }
    };
    // The same, with one source for all levels: the compiler makes vectors of the plain loops.
    (loops) => {
        |level, rows, out| {
            $crate::level::at_level!(
                level,
                _simd => $crate::block::encode_blocks(
                    rows.values,
                    out,
                    #[inline(always)]
                    |values, block| { scalar::encode(values, block); },
                ),
                $crate::block::encode_blocks(rows.values, out, scalar::encode)
            )
        }
    };
    // The search with importance weights examines a block.
    (weighted blocks) => {
        |level, rows, out| $crate::block::encoder!(
            @ level, rows, out,
            $crate::block::encode_blocks(rows.values, out, scalar::encode),
            weights => $crate::block::encode_weighted_blocks(rows, weights, out, scalar::encode_weighted)
        )
    };
    // The search with importance weights needs the mean square of the row.
    (weighted rows) => {
        |level, rows, out| $crate::block::encoder!(
            @ level, rows, out,
            $crate::block::encode_blocks(rows.values, out, scalar::encode),
            weights => $crate::block::encode_weighted_rows(
                rows,
                weights,
                out,
                $crate::fit::mean_square,
                scalar::encode_weighted,
            )
        )
    };
    // One scalar search serves with and without importance weights.
    (optional weights) => {
        |level, rows, out| $crate::block::encoder!(
            @ level, rows, out,
            scalar::encode(rows, out),
            _weights => scalar::encode(rows, out)
        )
    };
    // `recipe` and `pack` of the type describe the search of IQ2 and IQ3.
    (codebook) => {
        |level, rows, out| {
            static POINTS: std::sync::OnceLock<$crate::iq_fit::lanes::Points> = std::sync::OnceLock::new();
            let recipe = scalar::recipe();
            $crate::level::at_level!(
                level,
                simd => $crate::iq_fit::lanes::encode(simd, &recipe, &POINTS, rows, out, scalar::pack),
                recipe.encode(rows, out, scalar::pack)
            )
        }
    };
    (@ $level:ident, $rows:ident, $out:ident, $plain:expr, $weights:ident => $weighted:expr) => {
        match $rows.weights {
            None => $crate::level::at_level!(
                $level,
                simd => lanes::encode(simd, $rows.values, $out),
                $plain
            ),
            Some($weights) => $crate::level::at_level!(
                $level,
                simd => lanes::encode_weighted(simd, $rows, $weights, $out),
                $weighted
            ),
        }
    };
}
pub(crate) use encoder;

/// The decoder of a type, made of its modules. Decodes block after block with the instructions of a level.
macro_rules! decoder {
    // One source for all levels: each element is decoded by itself, so the compiler makes vectors of the plain
    // loops, and they are as fast as the memory. `scalar::decode` must be `#[inline(always)]`.
    (loops) => {
        |level, blocks, out| {
            $crate::level::at_level!(
                level,
                _simd => $crate::block::decode_blocks(blocks, out, scalar::decode),
                $crate::block::decode_blocks(blocks, out, scalar::decode)
            )
        }
    };
    // With a lane kernel.
    (lanes) => {
        |level, blocks, out| {
            $crate::level::at_level!(
                level,
                simd => $crate::block::decode_blocks(
                    blocks,
                    out,
                    #[inline(always)]
                    |block, values| decode::decode(simd, block, values)
                ),
                $crate::block::decode_blocks(blocks, out, scalar::decode)
            )
        }
    };
}
pub(crate) use decoder;

/// Signed bytes, each times the scale.
#[inline(always)]
pub fn decode_signed<const N: usize>(levels: &[u8; N], scale: f32, values: &mut [f32; N]) {
    // A loop, because compilers make no vectors of `map` over so many bytes.
    for (value, level) in values.iter_mut().zip(levels) {
        *value = f32::from(*level as i8) * scale;
    }
}

/// The loop of [`decoder`].
#[inline(always)]
pub fn decode_blocks<const E: usize, const B: usize>(
    blocks: &[u8],
    out: &mut [f32],
    mut decode_block: impl FnMut(&[u8; B], &mut [f32; E]),
) {
    for (block, values) in blocks.as_chunks().0.iter().zip(out.as_chunks_mut().0) {
        decode_block(block, values);
    }
}
