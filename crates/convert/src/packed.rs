//! MXFP4 that a checkpoint holds as codes and scales apart, as the blocks of ggml.
//!
//! Nothing is rounded: bits move. Source: `GptOssModel.repack_mxfp4` and `transform_nibble_layout`
//! in `conversion/gpt_oss.py` (llama.cpp as vendored in llama-cpp-python 0.3.36).

use std::ops::Range;

use arch::{RowMap, RowView};
use gguf::Advice;
use quant::Level;
use source::{Checkpoint, Dtype};
use tensor::DType;

use crate::Error;

/// Elements of a block.
const BLOCK_ELEMS: u64 = 32;
/// Bytes of its codes, which hold two elements each.
const CODE_BYTES: usize = 16;
/// Bytes of a block of ggml: the scale and the codes.
const BLOCK_BYTES: usize = 1 + CODE_BYTES;

/// Rows of blocks, moved by a [`RowMap`].
#[derive(Debug, Clone)]
pub struct PackedRows<'a> {
    checkpoint: &'a Checkpoint,
    tensor_name: String,
    codes: Part<'a>,
    scales: Part<'a>,
    map: RowMap,
    view: RowView,
    /// Blocks of a row.
    n_blocks: usize,
}

/// A tensor of bytes.
#[derive(Debug, Clone, Copy)]
struct Part<'a> {
    tensor: &'a source::Tensor,
    bytes: &'a [u8],
}

impl<'a> PackedRows<'a> {
    /// Blocks made of the tensors `[codes, scales]` of `checkpoint`, as many rows as `view` says.
    ///
    /// # Errors
    /// [`Error::NoSuchTensor`]; [`Error::NotBytes`]; [`Error::RowsDiffer`] where there are not as
    /// many codes or scales as the rows need.
    pub fn new(
        checkpoint: &'a Checkpoint,
        tensor_name: &str,
        [codes, scales]: [&str; 2],
        map: RowMap,
        view: RowView,
    ) -> Result<PackedRows<'a>, Error> {
        let n_rows = map.n_source_rows(view.n_rows);
        let n_blocks = view.row_elems / BLOCK_ELEMS;
        let part = |name: &str, bytes_of_block: u64| {
            let no_such = || Error::NoSuchTensor { name: name.to_owned(), wanted_by: tensor_name.to_owned() };
            let tensor = checkpoint.tensor(name).ok_or_else(no_such)?;
            if tensor.dtype != Dtype::U8 {
                let (tensor_name, source_name) = (tensor_name.to_owned(), name.to_owned());
                return Err(Error::NotBytes { tensor: tensor_name, source_name, found: tensor.dtype });
            }
            let bytes = checkpoint.view(tensor).bytes;
            let expected = n_rows.saturating_mul(n_blocks).saturating_mul(bytes_of_block);
            if !view.row_elems.is_multiple_of(BLOCK_ELEMS) || bytes.len() as u64 != expected {
                return Err(Error::RowsDiffer {
                    tensor: tensor_name.to_owned(),
                    source_names: name.to_owned(),
                    found: bytes.len() as u64,
                    expected,
                    unit: "bytes in whole blocks",
                });
            }
            Ok(Part { tensor, bytes })
        };
        let (codes, scales) = (part(codes, CODE_BYTES as u64)?, part(scales, 1)?);
        let (tensor_name, n_blocks) = (tensor_name.to_owned(), n_blocks as usize);
        Ok(PackedRows { checkpoint, tensor_name, codes, scales, map, view, n_blocks })
    }

    /// How the elements fall into rows.
    pub fn view(&self) -> RowView {
        self.view
    }

    /// Bytes of the input behind `n_rows` rows.
    pub fn input_bytes(&self, n_rows: u64) -> u64 {
        n_rows * (self.n_blocks * BLOCK_BYTES) as u64
    }

    /// The blocks of rows `rows`.
    pub fn raw(&self, rows: Range<u64>) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.input_bytes(rows.end - rows.start) as usize);
        for row in rows {
            let first = self.map.source_row(row, self.view.n_rows) as usize * self.n_blocks;
            let scales = &self.scales.bytes[first..first + self.n_blocks];
            let (codes, _) = self.codes.bytes.as_chunks::<CODE_BYTES>();
            for (scale, codes) in scales.iter().zip(&codes[first..]) {
                out.push(*scale);
                out.extend_from_slice(&reorder(codes));
            }
        }
        out
    }

    /// Reads rows `rows` into `out`, which is (rows, row_elems) f32.
    ///
    /// # Errors
    /// [`Error::Encode`] where `out` has another length.
    pub fn read(&self, rows: Range<u64>, level: Level, out: &mut [f32]) -> Result<(), Error> {
        quant::decode(DType::MXFP4, level, &self.raw(rows), out)
            .map_err(|error| Error::Encode { tensor: self.tensor_name.clone(), error })
    }

    /// Tells the system how the pages behind rows `rows` will be used: of all groups that they are
    /// in, where a group is shared out.
    pub fn advise(&self, rows: Range<u64>, advice: Advice) {
        let source = |row: u64| self.map.source_row(row, self.view.n_rows) as usize;
        if rows.is_empty() {
            return;
        }
        let (first, end) = (source(rows.start), source(rows.end - 1) + 1);
        for (part, bytes_of_block) in [(&self.codes, CODE_BYTES), (&self.scales, 1)] {
            let begin = part.tensor.begin as usize;
            let row_bytes = self.n_blocks * bytes_of_block;
            let range = begin + first * row_bytes..begin + end * row_bytes;
            self.checkpoint.parts[part.tensor.part].bytes.advise(advice, range);
        }
    }
}

/// From two neighbours a byte, the first in the low half, to elements `i` and `i + 16` in byte `i`.
fn reorder(codes: &[u8; CODE_BYTES]) -> [u8; CODE_BYTES] {
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
