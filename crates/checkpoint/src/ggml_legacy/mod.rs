//! LLaMA models of llama.cpp from before GGUF: the containers ggml, ggmf and ggjt 1 to 3, in one file or in parts.
//!
//! [`open_legacy`] reads headers and the vocabulary; data stays in memory maps until rows are read. Models
//! above 7B came in parts `x.bin`, `x.bin.1`, ..: each contains some columns of the embedding, `wo` and `w2`,
//! some rows of the other matrices, and all vectors.

mod blocks;
mod error;
mod file;

use std::{
    borrow::Cow,
    ffi::OsString,
    fs::File,
    io::Read,
    ops::Range,
    path::{Path, PathBuf},
};

use gguf_container::{Advice, Mapped, Strings};
use gguf_types::DType;

use crate::{Part, ReadError, Span};

use self::file::{FileTensor, Header};

pub use self::{
    blocks::{Blocks, LegacyBlock},
    error::LegacyError,
    file::{Container, Hyperparameters},
};

/// Tensor whose number of columns gives the number of parts.
const EMBEDDING: &str = "tok_embeddings.weight";

/// A model, opened.
#[derive(Debug)]
#[non_exhaustive]
pub struct LegacyModel {
    /// The container of its files.
    pub container: Container,
    /// Hyperparameters in the header.
    pub hyperparameters: Hyperparameters,
    /// Text of each token.
    pub tokens: Strings,
    /// Score of each token; 0 in ggml files, which do not store scores.
    pub scores: Vec<f32>,
    /// Files of the model.
    pub parts: Vec<Part>,
    /// Paths of the files.
    pub paths: Vec<PathBuf>,
    /// Tensors in file order.
    pub tensors: Vec<LegacyTensor>,
}

/// A tensor of such a model.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct LegacyTensor {
    /// Name in Meta's convention.
    pub name: String,
    /// Elements in a row.
    pub row_elems: u64,
    /// Number of rows; `None` for a vector.
    pub n_rows: Option<u64>,
    /// Block format of its elements.
    pub blocks: Blocks,
    /// Current type with bit-exact values, if any.
    pub current_dtype: Option<DType>,
    /// Location of its pieces, part by part.
    pieces: Vec<Span>,
    /// True if pieces are columns rather than rows.
    by_columns: bool,
}

/// True if the magic of the file at `path` is that of a format before GGUF, including those that are refused.
pub fn is_legacy(path: &Path) -> bool {
    let mut start = [0; 4];
    path.is_file()
        && File::open(path).and_then(|mut file| file.read_exact(&mut start)).is_ok()
        && file::is_legacy(&start)
}

/// Description of the whisper.cpp model at `path`, `None` for any other file. Pipes are not read.
pub fn whisper_cpp_model(path: &Path) -> Option<&'static str> {
    if !path.is_file() {
        return None;
    }
    let mut start = Vec::new();
    File::open(path).ok()?.take(file::MAX_START as u64).read_to_end(&mut start).ok()?;
    file::whisper_cpp_model(&start)
}

/// Opens a model by its first file.
///
/// # Errors
/// [`LegacyError`]: the missing or invalid item, with the file's name.
pub fn open_legacy(path: &Path) -> Result<LegacyModel, LegacyError> {
    let map = |path: &Path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        match Mapped::open(path) {
            Ok(bytes) => Ok(Part::mapped(name, bytes)),
            Err(error) => Err(LegacyError::Io { file: name, error }),
        }
    };
    let (mut parts, mut paths) = (vec![map(path)?], vec![path.to_owned()]);
    let first = header_of(&parts[0])?;
    for index in 1..n_parts(&parts[0].file, &first)? {
        let mut name = OsString::from(path);
        name.push(format!(".{index}"));
        paths.push(name.into());
        parts.push(map(&paths[index as usize])?);
    }
    joined(first, parts, paths)
}

/// Parses a model in memory, from all of its parts.
///
/// # Errors
/// [`LegacyError`].
pub fn parse_legacy(parts: Vec<(String, Vec<u8>)>) -> Result<LegacyModel, LegacyError> {
    let part = |(file, bytes): (String, Vec<u8>)| Part::mapped(file, bytes.into());
    let parts: Vec<Part> = parts.into_iter().map(part).collect();
    let Some(part) = parts.first() else {
        let (file, item) = (String::new(), "the magic");
        return Err(LegacyError::Truncated { file, item, offset: 0, needed: 4, left: 0 });
    };
    let first = header_of(part)?;
    if n_parts(&part.file, &first)? != parts.len() as u64 {
        return Err(LegacyError::PartHeader { file: part.file.clone(), item: "the number of parts" });
    }
    joined(first, parts, Vec::new())
}

fn header_of(part: &Part) -> Result<Header, LegacyError> {
    file::parse(&part.file, part.local().map_or(&[], |bytes| bytes))
}

/// Number of parts that a model was divided into.
fn n_parts(file: &str, first: &Header) -> Result<u64, LegacyError> {
    let n_embd = u64::from(first.hyperparameters.n_embd);
    // The caller checks that there is an embedding.
    let columns = first
        .tensors
        .iter()
        .find(|tensor| tensor.name == EMBEDDING)
        .map_or(n_embd, |embedding| embedding.dims[0]);
    // ggjt files are never split: a problem with their embedding is unrelated to parts.
    if first.container.name == "ggjt" || columns >= n_embd {
        return Ok(1);
    }
    if !n_embd.is_multiple_of(columns) {
        return Err(LegacyError::PartCount { file: file.to_owned(), n_embd, found: columns });
    }
    Ok(n_embd / columns)
}

/// Joins the parts of a model.
fn joined(first: Header, parts: Vec<Part>, paths: Vec<PathBuf>) -> Result<LegacyModel, LegacyError> {
    let mut tensors: Vec<LegacyTensor> =
        first.tensors.iter().map(|tensor| from_file(tensor, parts.len())).collect();
    for (index, part) in parts.iter().enumerate().skip(1) {
        let header = header_of(part)?;
        let differs = |item| Err(LegacyError::PartHeader { file: part.file.clone(), item });
        if (header.container, header.hyperparameters) != (first.container, first.hyperparameters) {
            return differs("container or hyperparameters");
        }
        if header.tensors.len() != first.tensors.len() {
            return differs("tensors");
        }
        for ((found, expected), tensor) in header.tensors.iter().zip(&first.tensors).zip(&mut tensors) {
            let differs = |item| {
                Err(LegacyError::PartsDiffer { file: part.file.clone(), tensor: expected.name.clone(), item })
            };
            if found.name != expected.name {
                return differs("its position in the file");
            }
            if (&found.dims, found.blocks) != (&expected.dims, expected.blocks) {
                return differs("its shape or type");
            }
            // Every part contains the full vector.
            if tensor.n_rows.is_none() {
                let bytes = |part: &Part, tensor: &FileTensor| {
                    part.slice(tensor.begin..tensor.begin + tensor.n_bytes).map(Cow::into_owned)
                };
                if bytes(part, found).ok() != bytes(&parts[0], expected).ok() {
                    return differs("its values");
                }
                continue;
            }
            tensor.pieces.push(span(index, found));
        }
    }
    let Header { container, hyperparameters, tokens, scores, .. } = first;
    let mut model = LegacyModel { container, hyperparameters, tokens, scores, parts, paths, tensors };
    let current_dtype: Vec<Option<DType>> =
        model.tensors.iter().map(|tensor| model.current_dtype(tensor)).collect();
    model
        .tensors
        .iter_mut()
        .zip(current_dtype)
        .for_each(|(tensor, current_dtype)| tensor.current_dtype = current_dtype);
    Ok(model)
}

fn span(part: usize, tensor: &FileTensor) -> Span {
    Span { part, bytes: tensor.begin..tensor.begin + tensor.n_bytes }
}

/// Creates a tensor from its entry in the first of `n_parts` files.
fn from_file(tensor: &FileTensor, n_parts: usize) -> LegacyTensor {
    let by_columns = [EMBEDDING, ".attention.wo.weight", ".feed_forward.w2.weight"]
        .iter()
        .any(|ending| tensor.name.ends_with(ending));
    let (columns, rows) = if by_columns { (n_parts as u64, 1) } else { (1, n_parts as u64) };
    let n_rows = tensor.dims.get(1).map(|n_rows| n_rows * rows);
    LegacyTensor {
        name: tensor.name.clone(),
        row_elems: tensor.dims[0] * if n_rows.is_some() { columns } else { 1 },
        n_rows,
        blocks: tensor.blocks,
        current_dtype: None,
        pieces: vec![span(0, tensor)],
        by_columns,
    }
}

impl LegacyTensor {
    /// Bytes of a row, over all parts.
    pub fn row_bytes(&self) -> u64 {
        self.row_elems / self.blocks.n_elems() * self.blocks.n_bytes()
    }

    /// File ranges of rows `rows`, in row order if parts contain rows.
    fn spans(&self, rows: Range<u64>) -> Vec<Span> {
        let n_pieces = self.pieces.len() as u64;
        if self.by_columns {
            // Every part contains a run of columns of each row.
            let row_bytes = self.row_bytes() / n_pieces;
            let piece_span = |piece: &Span| piece.part_of(rows.start * row_bytes..rows.end * row_bytes);
            return self.pieces.iter().map(piece_span).collect();
        }
        let (rows_of_part, row_bytes) = (self.n_rows.unwrap_or(1) / n_pieces, self.row_bytes());
        let piece_span = |(index, piece): (u64, &Span)| {
            let first = index * rows_of_part;
            let within = |row: u64| row.clamp(first, first + rows_of_part) - first;
            piece.part_of(within(rows.start) * row_bytes..within(rows.end) * row_bytes)
        };
        let spans = (0..).zip(&self.pieces).map(piece_span);
        spans.filter(|span| !span.bytes.is_empty()).collect()
    }
}

impl LegacyModel {
    /// Blocks of rows `rows` of a tensor of this model, row by row.
    ///
    /// # Errors
    /// [`ReadError`]; never for valid rows.
    pub fn blocks(&self, tensor: &LegacyTensor, rows: Range<u64>) -> Result<Cow<'_, [u8]>, ReadError> {
        let n_rows = (rows.end - rows.start) as usize;
        let mut pieces: Vec<Cow<'_, [u8]>> =
            tensor.spans(rows).iter().map(|span| span.of(&self.parts)).collect::<Result<_, _>>()?;
        if pieces.len() == 1 {
            return Ok(pieces.remove(0));
        }
        if !tensor.by_columns {
            return Ok(Cow::Owned(pieces.concat()));
        }
        // A row consists of its columns in the first part, then those in the second, and so on.
        let row_bytes = tensor.row_bytes() as usize / pieces.len().max(1);
        let mut blocks = Vec::with_capacity(n_rows * row_bytes * pieces.len());
        for row in 0..n_rows {
            pieces.iter().for_each(|piece| blocks.extend_from_slice(&piece[row * row_bytes..][..row_bytes]));
        }
        Ok(Cow::Owned(blocks))
    }

    /// Blocks of rows `rows` in [`LegacyTensor::current_dtype`]; `None` if there is no such type.
    pub fn current_blocks(
        &self,
        tensor: &LegacyTensor,
        rows: Range<u64>,
    ) -> Result<Option<Cow<'_, [u8]>>, ReadError> {
        let blocks = self.blocks(tensor, rows)?;
        Ok(match (tensor.current_dtype, tensor.blocks) {
            (None, _) => None,
            (Some(_), Blocks::Today(_)) => Some(blocks),
            (Some(_), Blocks::Old(old)) => {
                let mut repacked = Vec::with_capacity(blocks.len());
                old.repack(&blocks, &mut repacked);
                Some(Cow::Owned(repacked))
            }
        })
    }

    /// Advises the system about the use of rows `rows`.
    pub fn advise(&self, tensor: &LegacyTensor, rows: Range<u64>, advice: Advice) {
        for span in tensor.spans(rows) {
            if let Some(part) = self.parts.get(span.part) {
                part.advise_bytes(advice, span.bytes);
            }
        }
    }

    /// Current type with bit-exact values. Searches old blocks for a scale that does not fit; in nearly every
    /// file that is the first one.
    fn current_dtype(&self, tensor: &LegacyTensor) -> Option<DType> {
        let old = match tensor.blocks {
            Blocks::Today(dtype) => return Some(dtype),
            Blocks::Old(old) => old,
        };
        let fits = |piece: &Span| piece.of(&self.parts).is_ok_and(|blocks| old.fits(&blocks));
        old.current_dtype().filter(|_| tensor.pieces.iter().all(fits))
    }
}
