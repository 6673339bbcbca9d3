//! MXFP4 that a checkpoint holds as codes and scales apart, as the blocks of ggml.
//!
//! Nothing is rounded: bits move. Source: `GptOssModel.repack_mxfp4` and `transform_nibble_layout`
//! in `conversion/gpt_oss.py` (llama.cpp as vendored in llama-cpp-python 0.3.36).

use std::{borrow::Cow, ops::Range};

use arch::RowView;
use gguf::Advice;
use quant::Level;
use source::Dtype;
use tensor::DType;

use super::{RowSource, RowsFor};
use crate::error::Error;

/// Elements of a block.
const BLOCK_ELEMS: u64 = 32;
/// Bytes of its codes, which hold two elements each.
const CODE_BYTES: usize = 16;
/// Bytes of a block of ggml: the scale and the codes.
const BLOCK_BYTES: usize = 1 + CODE_BYTES;

/// Rows of blocks, moved by a [`RowMap`](arch::RowMap).
#[derive(Debug, Clone)]
pub struct PackedRows<'a> {
    wanted: RowsFor<'a>,
    codes: Part<'a>,
    scales: Part<'a>,
    /// Blocks of a row.
    n_blocks: usize,
}

/// A tensor of bytes.
#[derive(Debug, Clone, Copy)]
struct Part<'a> {
    file: &'a source::Part,
    tensor: &'a source::Tensor,
    /// Bytes of a block that are in it.
    block_bytes: usize,
}

impl<'a> PackedRows<'a> {
    /// Blocks made of the tensors `[codes, scales]`, as many rows as are wanted.
    ///
    /// # Errors
    /// [`Error::NoSuchTensor`]; [`Error::NotBytes`]; [`Error::RowsDiffer`] where there are not as
    /// many codes or scales as the rows need.
    pub fn new(wanted: RowsFor<'a>, [codes, scales]: [&str; 2]) -> Result<PackedRows<'a>, Error> {
        let n_rows = wanted.n_source_rows();
        let n_blocks = wanted.view.row_elems / BLOCK_ELEMS;
        let part = |name: &str, block_bytes: usize| {
            let tensor = wanted.source(name)?;
            if tensor.dtype != Dtype::U8 {
                let (tensor_name, source_name) = (wanted.tensor.to_owned(), name.to_owned());
                return Err(Error::NotBytes { tensor: tensor_name, source_name, found: tensor.dtype });
            }
            let file = wanted.checkpoint.part_of(tensor);
            let expected = n_rows.saturating_mul(n_blocks).saturating_mul(block_bytes as u64);
            if !wanted.view.row_elems.is_multiple_of(BLOCK_ELEMS) || tensor.n_bytes() != expected {
                return Err(wanted.differs(name, tensor.n_bytes(), expected, "bytes in whole blocks"));
            }
            Ok(Part { file, tensor, block_bytes })
        };
        let (codes, scales) = (part(codes, CODE_BYTES)?, part(scales, 1)?);
        Ok(PackedRows { wanted, codes, scales, n_blocks: n_blocks as usize })
    }

    /// The blocks of rows `rows`: a scale, then the codes in ggml's order.
    fn blocks(&self, rows: Range<u64>) -> Result<Vec<u8>, Error> {
        let mut out = Vec::with_capacity(self.input_bytes(rows.end - rows.start) as usize);
        for row in rows {
            // codes: (n_rows, n_blocks, 16) bytes, scales: (n_rows, n_blocks) bytes; a block of ggml is its scale, then its codes.
            let row = self.wanted.source_row(row);
            let (scales, codes) = (self.scales.row(row, self.n_blocks)?, self.codes.row(row, self.n_blocks)?);
            let (codes, _) = codes.as_chunks::<CODE_BYTES>();
            for (scale, codes) in scales.iter().zip(codes) {
                out.push(*scale);
                out.extend_from_slice(&reorder(codes));
            }
        }
        Ok(out)
    }
}

impl<'a> Part<'a> {
    /// The bytes of one row of blocks.
    fn row(&self, row: u64, n_blocks: usize) -> Result<&'a [u8], Error> {
        let row_bytes = (n_blocks * self.block_bytes) as u64;
        self.file.bytes_of(self.tensor, row * row_bytes..(row + 1) * row_bytes).map_err(Error::Read)
    }
}

impl RowSource for PackedRows<'_> {
    fn view(&self) -> RowView {
        self.wanted.view
    }

    fn read(&self, rows: Range<u64>, level: Level, out: &mut [f32]) -> Result<(), Error> {
        quant::decode(DType::MXFP4, level, &self.blocks(rows)?, out)
            .map_err(|error| Error::Encode { tensor: self.wanted.tensor.to_owned(), error })
    }

    fn stored(&self, dtype: DType, rows: Range<u64>) -> Result<Option<Cow<'_, [u8]>>, Error> {
        if dtype != DType::MXFP4 {
            return Ok(None);
        }
        Ok(Some(Cow::Owned(self.blocks(rows)?)))
    }

    /// Of all groups that the rows are in, where a group is shared out: rows of gates and of what they gate
    /// alternate in the source, so that both outputs read the same pages.
    fn advise(&self, rows: Range<u64>, advice: Advice) {
        if rows.is_empty() {
            return;
        }
        let (first, end) = (self.wanted.source_row(rows.start), self.wanted.source_row(rows.end - 1) + 1);
        for part in [&self.codes, &self.scales] {
            let row_bytes = (self.n_blocks * part.block_bytes) as u64;
            part.file.advise(part.tensor, first * row_bytes..end * row_bytes, advice);
        }
    }

    fn input_bytes(&self, n_rows: u64) -> u64 {
        n_rows * (self.n_blocks * BLOCK_BYTES) as u64
    }
}

/// From two neighbours a byte, the first in the low half, to elements `i` and `i + 16` in byte `i`.
fn reorder(codes: &[u8; CODE_BYTES]) -> [u8; CODE_BYTES] {
    // In the checkpoint byte i holds elements 2i and 2i + 1, in ggml elements i and i + 16.
    let code = |element: usize| (codes[element / 2] >> (4 * (element % 2))) & 0x0f;
    std::array::from_fn(|i| code(i) | code(i + CODE_BYTES) << 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_of_a_block_share_bytes() {
        // Element i has the code i % 16.
        let neighbours: [u8; 16] = std::array::from_fn(|i| {
            let first = (2 * i % 16) as u8;
            first | (first + 1) << 4
        });
        let halves: [u8; 16] = std::array::from_fn(|i| i as u8 | (i as u8) << 4);
        assert_eq!(reorder(&neighbours), halves);
        assert_eq!(reorder(&[0x21; 16]), std::array::from_fn(|i| if i % 2 == 0 { 0x11 } else { 0x22 }));
    }
}
