//! Tensors of a checkpoint: their position in the files, and their bytes.

use std::{
    borrow::Cow,
    collections::HashMap,
    ops::{Deref, Range},
    sync::Arc,
};

use gguf_container::Advice;
use gguf_types::{GGML_MAX_DIMS, Shape, ShapeError};

use crate::{Dtype, Error, Part, ReadError, Span, Stored};

/// Location and type of a tensor. Offsets are checked against the file.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Tensor {
    /// Name of the tensor.
    pub name: String,
    /// Type of its values: F32 for decoded ones.
    pub dtype: Dtype,
    /// Dimensions in torch's order, row length last; empty for a scalar.
    pub shape: Vec<u64>,
    /// Index into [`Checkpoint::parts`](crate::Checkpoint::parts).
    pub part: usize,
    /// First byte in the file.
    pub begin: u64,
    /// End in the file.
    pub end: u64,
    /// Decoder of its values, if they are not contiguous plain values in the file; the bytes above are then
    /// those of its codes.
    pub stored: Option<Arc<dyn Stored>>,
}

/// Last name components of integer tensors with two or more dimensions that are not codes: masks, positions,
/// tables of ids.
const COUNTED: &[&str] = &[
    "bias",
    "masked_bias",
    "mask",
    "attn_mask",
    "attention_mask",
    "causal_mask",
    "position_ids",
    "token_type_ids",
    "relative_position_index",
    "tid2eid",
];

/// A tensor with its bytes.
#[derive(Debug, Clone)]
pub struct View<'a> {
    /// Name of the tensor.
    pub name: &'a str,
    /// Type of its elements.
    pub dtype: Dtype,
    /// Dimensions in torch's order, row length last.
    pub shape: &'a [u64],
    /// Elements, little endian, row-major, at any alignment.
    pub bytes: Cow<'a, [u8]>,
}

/// All tensors of a checkpoint: a slice in the order of the reference, and an index by name.
#[derive(Debug, Clone, Default)]
pub struct Tensors {
    all: Vec<Tensor>,
    by_name: HashMap<Box<str>, usize>,
}

impl View<'_> {
    /// Elements in a row; 1 for a scalar.
    pub fn row_elems(&self) -> u64 {
        self.shape.last().copied().unwrap_or(1)
    }

    /// Rows over all outer dimensions; 1 for a vector and a scalar.
    pub fn n_rows(&self) -> u64 {
        self.shape.split_last().map_or(1, |(_, outer)| outer.iter().product())
    }
}

impl Tensor {
    /// A tensor whose values are computed, or stored outside of the checkpoint's files.
    pub fn computed(name: String, shape: Vec<u64>, stored: Arc<dyn Stored>) -> Tensor {
        Tensor { name, dtype: Dtype::F32, shape, part: 0, begin: 0, end: 0, stored: Some(stored) }
    }

    /// Copy for a list of weights files that begins with `n` other files.
    #[must_use]
    pub fn after_parts(mut self, n: usize) -> Tensor {
        self.part += n;
        if let Some(moved) = self.stored.as_ref().and_then(|stored| stored.after_parts(n)) {
            self.stored = Some(moved);
        }
        self
    }

    /// Shape in ggml's order, row length first.
    ///
    /// # Errors
    /// [`ShapeError`]: checkpoints have tensors of more than five dimensions.
    pub fn shape(&self) -> Result<Shape, ShapeError> {
        Shape::from_row_major(&self.shape)
    }

    /// Last component of the name.
    pub fn ending(&self) -> &str {
        self.name.rsplit('.').next().unwrap_or_default()
    }

    /// True if type and shape are those of codes, which a method has to decode. Integer vectors are lists of
    /// ids or counters; no known format stores codes as I64 or BOOL.
    pub fn is_code(&self) -> bool {
        use Dtype::{BF16, BOOL, C64, F16, F32, F64, I64, U64};
        let is_number = matches!(self.dtype, F64 | F32 | F16 | BF16 | I64 | U64 | BOOL | C64);
        self.stored.is_none() && !is_number && self.shape.len() >= 2 && !COUNTED.contains(&self.ending())
    }

    /// True if its values are decoded from 8-bit floats with scales.
    pub fn is_fp8(&self) -> bool {
        let codes = self.stored.as_ref().and_then(|stored| stored.codes());
        matches!(codes, Some(Dtype::F8_E4M3 | Dtype::F8_E5M2))
    }

    /// Error for a weight whose codes were not decoded.
    pub fn undecoded(&self) -> Error {
        let (tensor, dtype, shape) = (self.name.clone(), self.dtype, self.shape.clone());
        Error::CodesOfNoMethod { tensor, dtype, shape }
    }

    /// Like [`Tensor::shape`], but outer dimensions beyond ggml's limit are merged, and the innermost merged
    /// one is returned too. Kernels over time, height and width have five; text models leave them out.
    ///
    /// # Errors
    /// [`ShapeError`].
    pub fn folded_shape(&self) -> Result<(Shape, Option<u64>), ShapeError> {
        let Some(n_outer) = self.shape.len().checked_sub(GGML_MAX_DIMS - 1).filter(|n| *n > 1) else {
            return Ok((self.shape()?, None));
        };
        let (outer, inner) = self.shape.split_at(n_outer);
        let product = outer.iter().fold(1, |product: u64, dim| product.saturating_mul(*dim));
        Ok((Shape::from_row_major(&[&[product], inner].concat())?, outer.last().copied()))
    }

    /// Bytes in the file; those of its codes if values are decoded.
    pub fn span(&self) -> Span {
        Span { part: self.part, bytes: self.begin..self.end }
    }

    /// Byte ranges of rows `rows`, by its own row length; those of its codes if values are decoded.
    pub fn spans(&self, rows: Range<u64>) -> Vec<Span> {
        match &self.stored {
            Some(stored) => stored.spans(rows),
            None => {
                let row_bytes = self.row_elems() * self.dtype.bits() / 8;
                vec![self.span().part_of(rows.start * row_bytes..rows.end * row_bytes)]
            }
        }
    }

    /// Number of neighboring rows to read together: [`Stored::panel_rows`], or 1 if rows are contiguous in
    /// the file.
    pub fn panel_rows(&self) -> u64 {
        self.stored.as_ref().map_or(1, |stored| stored.panel_rows())
    }

    /// Elements in a row; 1 for a scalar.
    pub fn row_elems(&self) -> u64 {
        self.shape.last().copied().unwrap_or(1)
    }

    /// Rows over all outer dimensions; 1 for a vector and a scalar.
    pub fn n_rows(&self) -> u64 {
        self.shape.split_last().map_or(1, |(_, outer)| outer.iter().product())
    }

    /// Storage form for reports: `bf16`, or its decoder's description.
    pub fn stored_as(&self) -> String {
        let description = self.stored.as_ref().and_then(|stored| stored.description());
        description.unwrap_or_else(|| self.dtype.name().to_ascii_lowercase())
    }

    /// Bytes in the file.
    pub fn n_bytes(&self) -> u64 {
        self.end - self.begin
    }
}

impl Tensors {
    /// The tensor with this name, found by an index: a mixture of experts has tens of thousands.
    pub fn get(&self, name: &str) -> Option<&Tensor> {
        self.by_name.get(name).map(|&index| &self.all[index])
    }
}

impl From<Vec<Tensor>> for Tensors {
    fn from(all: Vec<Tensor>) -> Tensors {
        let by_name = all.iter().enumerate().map(|(i, tensor)| (tensor.name.as_str().into(), i)).collect();
        Tensors { all, by_name }
    }
}

impl Deref for Tensors {
    type Target = [Tensor];

    fn deref(&self) -> &[Tensor] {
        &self.all
    }
}

impl<'a> IntoIterator for &'a Tensors {
    type Item = &'a Tensor;
    type IntoIter = std::slice::Iter<'a, Tensor>;

    fn into_iter(self) -> Self::IntoIter {
        self.all.iter()
    }
}

impl Part {
    /// Bytes `range` of a tensor of this file, counted from its start.
    pub fn bytes_of(&self, tensor: &Tensor, range: Range<u64>) -> Result<Cow<'_, [u8]>, ReadError> {
        let place = |byte: u64| (tensor.begin.saturating_add(byte)).min(tensor.end);
        self.slice(place(range.start)..place(range.end))
    }

    /// Advises the system about the use of bytes `range` of a tensor, counted from its start. After
    /// [`Advice::DoneWith`] their pages no longer count as this process's memory.
    pub fn advise(&self, tensor: &Tensor, range: Range<u64>, advice: Advice) {
        let place = |byte: u64| tensor.begin + byte.min(tensor.n_bytes());
        self.advise_bytes(advice, place(range.start)..place(range.end));
    }
}
