//! What an architecture makes of a checkpoint: metadata, and for each output tensor where
//! its rows come from. A layout is data; nothing in it reads a weight.

use gguf::Metadata;
use tensor::Shape;

/// A resolved model.
#[derive(Debug, Clone, PartialEq)]
pub struct Layout {
    /// The name that `general.architecture` holds (`llama`).
    pub architecture: &'static str,
    /// Keys in the order of the reference converter, all but `general.file_type` and
    /// `general.quantization_version`, which belong to the recipe. Where the reference puts
    /// those two is marked by [`Layout::file_type_at`].
    pub metadata: Metadata,
    /// Index into [`Layout::metadata`] before which the reference converter writes
    /// `general.file_type`.
    pub file_type_at: usize,
    /// Index into [`Layout::metadata`] before which the reference converter writes
    /// `general.quantization_version`.
    pub quantization_version_at: usize,
    /// Output tensors in the order of the reference converter.
    pub tensors: Vec<OutTensor>,
    /// Source tensors that are not used, each with the reason.
    pub dropped: Vec<Dropped>,
    /// Things a person should know, each one line.
    pub notes: Vec<String>,
}

/// A source tensor that has no place in the output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dropped {
    /// Its name in the checkpoint.
    pub name: String,
    /// Why it is not needed.
    pub reason: &'static str,
}

/// One tensor of the output.
#[derive(Debug, Clone, PartialEq)]
pub struct OutTensor {
    /// Its GGUF name.
    pub name: String,
    /// Its shape, row length first.
    pub shape: Shape,
    /// Where its rows come from.
    pub data: Data,
    /// Whether the reference converter keeps it in f32 whatever the file type.
    pub keep_f32: bool,
}

/// How the elements of a tensor fall into the rows that a [`RowMap`] speaks of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowView {
    /// Number of rows.
    pub n_rows: u64,
    /// Elements in a row.
    pub row_elems: u64,
}

impl OutTensor {
    /// The rows that this tensor's [`RowMap`] speaks of. A matrix has the rows of its shape. A
    /// vector whose rows move (the bias of Q or K) is a column of rows of one element each;
    /// any other vector is one row.
    pub fn row_view(&self) -> RowView {
        let moves = matches!(&self.data, Data::Rows { rows, .. } if *rows != RowMap::Concat);
        if self.shape.n_dims() <= 1 && moves {
            RowView { n_rows: self.shape.n_elems(), row_elems: 1 }
        } else {
            RowView { n_rows: self.shape.n_rows(), row_elems: self.shape.row_elems() }
        }
    }
}

/// Where the values of an output tensor come from.
#[derive(Debug, Clone, PartialEq)]
pub enum Data {
    /// Rows of source tensors.
    Rows {
        /// Source tensors by name; [`RowMap`] says which row of which one.
        sources: Vec<String>,
        /// Output row to source row.
        rows: RowMap,
        /// What happens to each element.
        element: ElementMap,
    },
    /// Values that the architecture computes from the config (`rope_freqs.weight`).
    Computed(Vec<f32>),
}

/// Output row -> (source, source row). Rows run over all outer dimensions; the rows of a vector
/// are its elements ([`OutTensor::row_view`] says how to count them).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowMap {
    /// The rows of the sources one after the other; with one source, itself.
    Concat,
    /// The rows `start ..` of the only source.
    Slice {
        /// The first source row.
        start: u64,
    },
    /// The interleaving of rotary halves that llama needs: rows of each of `n_head` groups go
    /// from (half, position) to (position, half). The inverse of the permutation with which
    /// Hugging Face stores Q and K.
    ///
    /// Source: `LlamaModel.permute` in `conversion/llama.py`.
    RopePermute {
        /// Number of heads that the rows are divided into.
        n_head: u64,
    },
}

impl RowMap {
    /// Source row for output row `row` of a tensor with `n_rows` rows ([`OutTensor::row_view`]),
    /// for maps of one source. [`RowMap::Concat`] gives the row itself; the caller finds the
    /// source by row counts. For [`RowMap::RopePermute`], `n_rows` must be a multiple of twice
    /// `n_head`, which `resolve` has checked.
    pub fn source_row(&self, row: u64, n_rows: u64) -> u64 {
        match *self {
            RowMap::Concat => row,
            RowMap::Slice { start } => start + row,
            RowMap::RopePermute { n_head } => {
                let head_rows = n_rows / n_head;
                let (head, within) = (row / head_rows, row % head_rows);
                let (position, half) = (within / 2, within % 2);
                head * head_rows + half * (head_rows / 2) + position
            }
        }
    }
}

impl RowMap {
    /// The way back: the output row to which source row `row` went, for maps of one source whose
    /// output has `n_rows` rows. [`RowMap::source_row`] of it is `row` again.
    pub fn output_row(&self, row: u64, n_rows: u64) -> u64 {
        match *self {
            RowMap::Concat => row,
            RowMap::Slice { start } => row - start,
            RowMap::RopePermute { n_head } => {
                let head_rows = n_rows / n_head;
                let (head, within) = (row / head_rows, row % head_rows);
                let (half, position) = (within / (head_rows / 2), within % (head_rows / 2));
                head * head_rows + position * 2 + half
            }
        }
    }
}

/// What happens to each element on the way, in f32.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ElementMap {
    /// Nothing.
    Identity,
}
