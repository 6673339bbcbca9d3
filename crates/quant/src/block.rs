//! Views of bytes as blocks, and the loops over rows and blocks that all formats share.
//!
//! A block of a format with `E` elements and `B` bytes is a `[u8; B]`, its values are a `[f32; E]`. Fields
//! are read and written at fixed offsets, little endian; after inlining the bounds checks are gone, so no
//! cast and no unsafe code is needed.

use gguf_types::DType;

use crate::{
    Rows,
    round::{f16_to_f32, f32_to_f16},
};

/// Fails the build if a format's constants differ from the dtype table. For use as
/// `const _: () = assert_sizes(DType::Q4_K, ELEMS, BYTES);`.
pub const fn assert_sizes(dtype: DType, elems: usize, bytes: usize) {
    assert!(dtype.block_elems() == elems as u64, "elements in a block");
    assert!(dtype.block_bytes() == bytes as u64, "bytes of a block");
}

/// The `N` items at `at`. Offsets are constants of a format, so a wrong one fails in the first test.
#[inline(always)]
pub fn array_at<const N: usize, T>(items: &[T], at: usize) -> &[T; N] {
    items[at..].first_chunk().expect("a format's offsets lie within its block")
}

#[inline(always)]
pub fn array_at_mut<const N: usize, T>(items: &mut [T], at: usize) -> &mut [T; N] {
    items[at..].first_chunk_mut().expect("a format's offsets lie within its block")
}

#[inline(always)]
pub fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(*array_at(bytes, at))
}

#[inline(always)]
pub fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(*array_at(bytes, at))
}

/// The half-precision number at byte `at`.
#[inline(always)]
pub fn f16_at(bytes: &[u8], at: usize) -> f32 {
    f16_to_f32(u16_at(bytes, at))
}

#[inline(always)]
pub fn put_u16(bytes: &mut [u8], at: usize, value: u16) {
    *array_at_mut(bytes, at) = value.to_le_bytes();
}

#[inline(always)]
pub fn put_u32(bytes: &mut [u8], at: usize, value: u32) {
    *array_at_mut(bytes, at) = value.to_le_bytes();
}

/// Rounds `value` to half precision, writes it at byte `at`, and returns the value that a reader will see.
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

/// Encodes block after block with the importance weights of its columns, if any:
/// `encode_block(values, importance, block)`.
#[inline(always)]
pub fn encode_rows<const E: usize, const B: usize>(
    rows: Rows<'_>,
    out: &mut [u8],
    encode_block: impl Fn(&[f32; E], Option<&[f32; E]>, &mut [u8; B]),
) {
    let weights = rows.weights.map(|weights| weights.as_chunks().0);
    for (index, (values, block)) in rows.values.as_chunks().0.iter().zip(out.as_chunks_mut().0).enumerate() {
        // `weights` is one row, which all rows share.
        encode_block(values, weights.map(|weights| &weights[index % weights.len()]), block);
    }
}

/// The row `CODEC` of a type, built from its modules, and the check of its sizes: elements and bytes of a
/// block. [`encoder`] and [`decoder`] list the kinds of both.
macro_rules! codec {
    (
        $dtype:ident [$elems:expr, $bytes:expr],
        needs_weights: $needs_weights:literal,
        search: $search:ident,
        encode: $encode:ident,
        decode: $decode:ident
    ) => {
        const _: () = $crate::block::assert_sizes(gguf_types::DType::$dtype, $elems, $bytes);

        pub const CODEC: $crate::Codec = $crate::Codec {
            dtype: gguf_types::DType::$dtype,
            needs_weights: $needs_weights,
            search: $crate::Search::$search,
            encode: Some($crate::block::encoder!($encode)),
            decode: $crate::block::decoder!($decode),
        };
    };
}
pub(crate) use codec;

/// The encoder of a type, built from its modules: `lanes` at the vector levels, otherwise `scalar`.
macro_rules! encoder {
    // The scale follows from the values only, so importance weights have no effect.
    (lanes) => {
        |level, rows, out| {
            $crate::level::at_level!(
                level,
                simd => lanes::encode(simd, rows.values, out),
                $crate::block::encode_blocks(rows.values, out, scalar::encode)
            )
        }
    };
    // One source for all levels: the compiler vectorizes the plain loops.
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
    // The search examines a block, with its importance weights if any.
    (blocks) => {
        |level, rows, out| {
            $crate::level::at_level!(
                level,
                simd => lanes::encode(simd, rows, out),
                $crate::block::encode_rows(rows, out, scalar::encode)
            )
        }
    };
    // One element per lane: the search for the nearest value is slow and depends on only one element.
    (e2m1) => {
        |level, rows, out| {
            $crate::level::at_level!(
                level,
                simd => $crate::block::encode_blocks(
                    rows.values,
                    out,
                    #[inline(always)]
                    |values, block| scalar::encode(
                        values,
                        block,
                        #[inline(always)]
                        |numbers, scale| $crate::e2m1::nearest_lanes(simd, numbers, scale),
                    ),
                ),
                $crate::block::encode_blocks(rows.values, out, |values, block| {
                    scalar::encode(values, block, $crate::e2m1::nearest);
                })
            )
        }
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
}
pub(crate) use encoder;

/// The decoder of a type, built from its modules. Decodes block after block with the instructions of a level.
macro_rules! decoder {
    // One source for all levels: elements are decoded independently, so the compiler vectorizes the plain
    // loops, which are limited by memory bandwidth. `scalar::decode` must be `#[inline(always)]`.
    (loops) => {
        |level, blocks, out| {
            $crate::level::at_level!(
                level,
                _simd => $crate::block::decode_blocks(blocks, out, scalar::decode),
                $crate::block::decode_blocks(blocks, out, scalar::decode)
            )
        }
    };
    // IQ2 and IQ3, described by `Block` of the type.
    (codebook) => {
        |level, blocks, out| {
            $crate::level::at_level!(
                level,
                simd => $crate::block::decode_blocks(
                    blocks,
                    out,
                    #[inline(always)]
                    |block, values| $crate::codebook::decode_lanes::<_, Block, BYTES>(simd, block, values)
                ),
                $crate::block::decode_blocks(blocks, out, $crate::codebook::decode::<Block, BYTES>)
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
    // A loop, because compilers do not vectorize `map` over this many bytes.
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
