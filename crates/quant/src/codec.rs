//! The table of codecs and the dispatch over it.

use gguf_types::DType;

use crate::Level;

/// Rows to encode.
#[derive(Debug, Clone, Copy)]
pub struct Rows<'a> {
    /// (rows, row_elems) f32, row-major.
    pub values: &'a [f32],
    /// Elements in a row, a multiple of the type's block.
    pub row_elems: usize,
    /// (row_elems) importance weights that all these rows share; `None` for the format's search without
    /// weights.
    pub weights: Option<&'a [f32]>,
}

/// Encodes complete rows: `(level, rows, out)`; `out` has room for exactly these rows.
pub type EncodeFn = fn(Level, Rows<'_>, &mut [u8]);

/// Decodes complete blocks: `(level, blocks, out)`; lengths agree.
pub type DecodeFn = fn(Level, &[u8], &mut [f32]);

/// Encoder and decoder of a dtype.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Codec {
    /// The dtype.
    pub dtype: DType,
    /// True if the reference's kernel refuses to run without importance weights
    /// (`ggml_quantize_requires_imatrix`).
    pub needs_weights: bool,
    /// When encoding searches for the best scale.
    pub search: Search,
    /// Encodes rows to blocks. `None` for types that can only be read. Q8_1 and Q8_K have one too, although
    /// files never contain them: file writers check [`DType::is_encodable`] first.
    pub encode: Option<EncodeFn>,
    /// Blocks to rows.
    pub decode: DecodeFn,
}

/// Cases in which a kernel tries several scales for a block and keeps the best. Deriving one from the largest
/// values instead takes little more time than reading the values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Search {
    /// In no case.
    Never,
    /// If there are importance weights.
    Weighted,
    /// In all cases.
    Always,
}

impl Search {
    /// True if scales are searched, with or without importance weights.
    pub fn is_made(self, has_weights: bool) -> bool {
        match self {
            Search::Never => false,
            Search::Weighted => has_weights,
            Search::Always => true,
        }
    }
}

/// All codecs.
pub const CODECS: &[Codec] = &[
    crate::f32::CODEC,
    crate::f16::CODEC,
    crate::bf16::CODEC,
    crate::q4_0::CODEC,
    crate::q4_1::CODEC,
    crate::q5_0::CODEC,
    crate::q5_1::CODEC,
    crate::q8_0::CODEC,
    crate::q2_k::CODEC,
    crate::q3_k::CODEC,
    crate::q4_k::CODEC,
    crate::q5_k::CODEC,
    crate::q6_k::CODEC,
    crate::iq1_s::CODEC,
    crate::iq1_m::CODEC,
    crate::iq2_xxs::CODEC,
    crate::iq2_xs::CODEC,
    crate::iq2_s::CODEC,
    crate::iq3_xxs::CODEC,
    crate::iq3_s::CODEC,
    crate::iq4_nl::CODEC,
    crate::iq4_xs::CODEC,
    crate::q8_1::CODEC,
    crate::q8_k::CODEC,
    crate::tq1_0::CODEC,
    crate::tq2_0::CODEC,
    crate::mxfp4::CODEC,
    crate::nvfp4::CODEC,
    crate::q1_0::CODEC,
    crate::q2_0::CODEC,
];

/// Reason that rows cannot be encoded or decoded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, gguf_types::Fields)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages explain the fields")]
pub enum CodecError {
    /// There is no codec for this dtype and direction.
    #[error("cannot {verb} {dtype}")]
    NoCodec { dtype: DType, verb: &'static str },
    /// The type needs importance weights, which are missing.
    #[error("{dtype} cannot be encoded without importance weights")]
    #[fact(expected = "importance weights")]
    NeedsWeights { dtype: DType },
    /// Lengths of input, weights or output do not agree.
    #[error("{quantity}: expected {expected}, found {found} ({dtype})")]
    Length {
        /// Item with the wrong length, with its unit.
        quantity: &'static str,
        found: usize,
        expected: usize,
        dtype: DType,
    },
}

impl gguf_types::Problem for CodecError {}

/// The codec of a dtype.
pub fn codec(dtype: DType) -> Option<&'static Codec> {
    CODECS.iter().find(|codec| codec.dtype == dtype)
}

/// Encodes rows into `out`.
///
/// # Errors
/// [`CodecError`] if there is no codec, weights are missing, or lengths disagree. `out` is then unchanged.
pub fn encode(dtype: DType, level: Level, rows: Rows<'_>, out: &mut [u8]) -> Result<(), CodecError> {
    let no_codec = || CodecError::NoCodec { dtype, verb: "encode" };
    let codec = codec(dtype).ok_or_else(no_codec)?;
    let encode = codec.encode.ok_or_else(no_codec)?;
    if codec.needs_weights && rows.weights.is_none() {
        return Err(CodecError::NeedsWeights { dtype });
    }
    // Kernels rely on lengths, so all are checked here, once per call.
    let block_elems = dtype.block_elems() as usize;
    let length = |quantity, found, expected| Err(CodecError::Length { quantity, found, expected, dtype });
    if rows.row_elems == 0 || !rows.row_elems.is_multiple_of(block_elems) {
        return length(
            "row length in elements",
            rows.row_elems,
            rows.row_elems.next_multiple_of(block_elems).max(block_elems),
        );
    }
    if !rows.values.len().is_multiple_of(rows.row_elems) {
        return length(
            "values in elements",
            rows.values.len(),
            rows.values.len().next_multiple_of(rows.row_elems),
        );
    }
    if let Some(weights) = rows.weights
        && weights.len() != rows.row_elems
    {
        return length("weights in elements", weights.len(), rows.row_elems);
    }
    let out_bytes = rows.values.len() / block_elems * dtype.block_bytes() as usize;
    if out.len() != out_bytes {
        return length("output in bytes", out.len(), out_bytes);
    }
    encode(level, rows, out);
    Ok(())
}

/// Decodes complete blocks into `out`.
///
/// # Errors
/// [`CodecError`] if there is no codec or lengths disagree. `out` is then unchanged.
pub fn decode(dtype: DType, level: Level, blocks: &[u8], out: &mut [f32]) -> Result<(), CodecError> {
    let codec = codec(dtype).ok_or(CodecError::NoCodec { dtype, verb: "decode" })?;
    let (block_elems, block_bytes) = (dtype.block_elems() as usize, dtype.block_bytes() as usize);
    let length = |quantity, found, expected| Err(CodecError::Length { quantity, found, expected, dtype });
    if !blocks.len().is_multiple_of(block_bytes) {
        return length("blocks in bytes", blocks.len(), blocks.len().next_multiple_of(block_bytes));
    }
    if out.len() != blocks.len() / block_bytes * block_elems {
        return length("output in elements", out.len(), blocks.len() / block_bytes * block_elems);
    }
    (codec.decode)(level, blocks, out);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A scale that follows from the values does not depend on weights; a searched one does.
    #[test]
    fn importance_changes_only_searched_scales() {
        let values: Vec<f32> = (0..4 * 1024).map(|index| gguf_testkit::normal(7, index)).collect();
        let weights: Vec<f32> = (0..1024).map(|at| 0.01 + ((at * 7919) % 101) as f32).collect();
        for codec in CODECS.iter().filter(|codec| codec.encode.is_some() && !codec.needs_weights) {
            let dtype = codec.dtype;
            let encoded = |weights| {
                let rows = Rows { values: &values, row_elems: 1024, weights };
                let mut out =
                    vec![0; values.len() / dtype.block_elems() as usize * dtype.block_bytes() as usize];
                encode(dtype, Level::Scalar, rows, &mut out).unwrap();
                out
            };
            let is_changed = encoded(None) != encoded(Some(&weights[..]));
            assert_eq!(is_changed, codec.search.is_made(true), "{dtype}");
            assert!(codec.search.is_made(true) || !codec.search.is_made(false), "{dtype}");
        }
        assert!(CODECS.iter().all(|codec| !codec.needs_weights || codec.search == Search::Always));
    }
}
