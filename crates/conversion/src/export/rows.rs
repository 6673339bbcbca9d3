//! Rows of a checkpoint tensor, read from the GGUF tensors that store them.

use std::{borrow::Cow, ops::Range};

use gguf_container::{Advice, Endian, TensorInfo};
use gguf_layout::{
    ElementMap, RowMap, RowView, SourceRows,
    export::{ExportPart, ExportTensor},
};
use gguf_quant::Level;
use gguf_types::DType;

use crate::{Error, GgufRows, Granularity, RowSource};

/// Minimum number of rows per job of a transposed checkpoint tensor: the longest block.
const PANEL_ROWS: u64 = 256;

/// Rows of a checkpoint tensor, read from the positions that the [`RowMap`] of each part gave them.
#[derive(Debug, Clone)]
pub struct ExportRows<'a> {
    parts: Vec<Part<'a>>,
    view: RowView,
    /// All values, if they are not in the file.
    values: Vec<f32>,
}

/// Rows that are in one GGUF tensor.
#[derive(Debug, Clone)]
struct Part<'a> {
    file: &'a gguf_container::File,
    tensor: &'a TensorInfo,
    rows: GgufRows<'a>,
    part: ExportPart,
    source_rows: SourceRows,
}

impl<'a> ExportRows<'a> {
    /// Rows of `exported`, from tensors of `file`.
    ///
    /// # Errors
    /// [`Error::NoSuchTensor`].
    pub fn new(file: &'a gguf_container::File, exported: &ExportTensor) -> Result<ExportRows<'a>, Error> {
        let view = RowView { n_rows: exported.shape.n_rows(), row_elems: exported.shape.row_elems() };
        let part = |part: &ExportPart| {
            let missing =
                || Error::NoSuchTensor { name: part.source.clone(), wanted_by: exported.name.clone() };
            let tensor = file.tensor(&part.source).ok_or_else(missing)?;
            let (rows, source_rows) = (GgufRows::new(file, tensor), part.rows.source_rows(part.n_rows));
            Ok(Part { file, tensor, rows, part: part.clone(), source_rows })
        };
        let parts = exported.parts.iter().map(part).collect::<Result<_, Error>>()?;
        Ok(ExportRows { parts, view, values: exported.values.clone() })
    }

    /// The only part, if its rows are in checkpoint order.
    fn plain(&self) -> Option<&Part<'a>> {
        match &self.parts[..] {
            [part] if part.is_plain() && part.part.row_elems == self.view.row_elems => Some(part),
            _ => None,
        }
    }

    /// The only part, if ranges of rows are contiguous in the file, possibly in another order.
    fn in_order(&self) -> Option<&Part<'a>> {
        match &self.parts[..] {
            [part] if part.part.matrix.is_none() && part.part.row_elems == self.view.row_elems => Some(part),
            _ => None,
        }
    }
}

impl RowSource for ExportRows<'_> {
    /// A vector is one row, even if its elements move.
    fn view(&self) -> RowView {
        self.view
    }

    fn granularity(&self) -> Granularity {
        // Rows move within their head.
        let group_rows = match self.parts.first().map(|part| part.part.rows) {
            Some(RowMap::RopePermute { n_head }) => (self.view.n_rows / n_head.max(1)).max(1),
            _ => 1,
        };
        // For a transposed tensor, a job covers one block of every row of the file.
        let is_transposed = self.parts.iter().any(|part| part.part.matrix.is_some());
        Granularity { group_rows, least_rows: if is_transposed { PANEL_ROWS } else { 1 } }
    }

    fn input_bytes(&self, n_rows: u64) -> u64 {
        let n_elems =
            self.parts.iter().map(|part| part.part.n_rows * part.part.row_elems).sum::<u64>().max(1);
        let n_bytes: u64 = self
            .parts
            .iter()
            .map(|part| {
                let tensor_elems = part.tensor.shape.n_elems().max(1);
                let elems = part.part.n_rows * part.part.row_elems;
                (u128::from(part.tensor.n_bytes) * u128::from(elems) / u128::from(tensor_elems)) as u64
            })
            .sum();
        (u128::from(n_bytes) * u128::from(n_rows * self.view.row_elems) / u128::from(n_elems)) as u64
    }

    fn stored(&self, dtype: DType, rows: Range<u64>) -> Result<Option<Cow<'_, [u8]>>, Error> {
        match self.plain().filter(|part| part.part.element == ElementMap::Identity) {
            Some(part) => part.rows.stored(dtype, part.at(rows)),
            None => Ok(None),
        }
    }

    fn read(&self, rows: Range<u64>, level: Level, out: &mut [f32]) -> Result<(), Error> {
        if let Some(part) = self.plain() {
            return part.read(rows, level, out);
        }
        let row_elems = self.view.row_elems.max(1);
        if !self.values.is_empty() {
            let range = (rows.start * row_elems) as usize..(rows.end * row_elems) as usize;
            if let Some(values) = self.values.get(range).filter(|values| values.len() == out.len()) {
                out.copy_from_slice(values);
            }
        }
        for part in &self.parts {
            if part.part.matrix.is_some() {
                part.read_columns(rows.clone(), row_elems, level, out)?;
            } else if part.part.rows.pieces() > 1 && part.part.row_elems == row_elems {
                part.read_pieces(rows.clone(), row_elems, level, out)?;
            } else if part.part.row_elems == row_elems {
                for (row, out) in rows.clone().zip(out.chunks_exact_mut(row_elems as usize)) {
                    if let Some(row) = part.source_rows.output_row(row) {
                        part.read(row..row + 1, level, out)?;
                    }
                }
            } else {
                part.read_elements(rows.start * row_elems..rows.end * row_elems, level, out)?;
            }
        }
        Ok(())
    }

    /// Rows of complete heads are contiguous in the file, in a different order.
    fn advise(&self, rows: Range<u64>, advice: Advice) {
        if let Some(part) = self.in_order() {
            part.rows.advise(part.at(rows), advice);
        }
    }

    /// Parts that are read out of order are finished together with the tensor.
    fn all_done(&self) {
        if self.in_order().is_none() {
            for part in &self.parts {
                part.rows.advise(0..part.tensor.shape.n_rows(), Advice::DoneWith);
            }
        }
    }
}

impl Part<'_> {
    fn is_plain(&self) -> bool {
        self.part.rows == RowMap::Concat && self.part.matrix.is_none()
    }

    fn at(&self, rows: Range<u64>) -> Range<u64> {
        self.part.first_row + rows.start..self.part.first_row + rows.end
    }

    fn read(&self, rows: Range<u64>, level: Level, out: &mut [f32]) -> Result<(), Error> {
        self.rows.read(self.at(rows.clone()), level, out)?;
        for (row, values) in rows.zip(out.chunks_mut(self.part.row_elems.max(1) as usize)) {
            self.invert(row, values);
        }
        Ok(())
    }

    /// Reverts the changes to elements of an output row.
    fn invert(&self, row: u64, values: &mut [f32]) {
        let element = self.part.element;
        if element != ElementMap::Identity {
            values.iter_mut().for_each(|value| *value = element.undo(row, *value));
        }
    }

    /// Reads elements that move one by one, or whose rows in the file differ from those in the checkpoint.
    /// `range` counts elements of the checkpoint; `out` begins with the first.
    fn read_elements(&self, range: Range<u64>, level: Level, out: &mut [f32]) -> Result<(), Error> {
        let row_elems = self.tensor.shape.row_elems().max(1);
        let by_element = self.part.row_elems == 1;
        // Rows of the part have `part.row_elems` elements (1 if single elements move), rows of the file
        // `row_elems`, rows of the checkpoint their own length: all three number the same elements. With
        // part.row_elems = 2, row_elems = 4 and a map that swaps the rows of the part:
        //
        //     checkpoint  0 1 | 2 3          element 2 is (row 1, within 0) of the part, which the map puts into
        //     file        2 3   0 1          output row 0: element 0 of the file
        //
        // Returns the position in the file of a checkpoint element, if it belongs to this part.
        let place = |element: u64| {
            let (row, within) = (element / self.part.row_elems, element % self.part.row_elems);
            let row = self.source_rows.output_row(row)?;
            Some((row, (self.part.first_row + row) * self.part.row_elems + within))
        };
        let mut values = vec![0.0; row_elems as usize];
        // Neighbors are mostly in one row of the file, which is decoded once.
        let mut current = None;
        for (element, out) in range.zip(out) {
            let Some((row, at)) = place(element) else { continue };
            let stored_row = at / row_elems;
            // Neighbors are mostly in one row of the file, which is decoded once.
            if current != Some(stored_row) {
                self.rows.read(stored_row..stored_row + 1, level, &mut values)?;
                current = Some(stored_row);
            }
            *out = values[(at % row_elems) as usize];
            self.invert(if by_element { 0 } else { row }, std::slice::from_mut(out));
        }
        Ok(())
    }

    /// Reads rows of the file and moves their pieces back to their places.
    fn read_pieces(
        &self,
        rows: Range<u64>,
        row_elems: u64,
        level: Level,
        out: &mut [f32],
    ) -> Result<(), Error> {
        let pieces = self.part.rows.pieces();
        let map = self.part.rows.source_rows(pieces);
        self.read(rows, level, out)?;
        let mut row = vec![0.0; row_elems as usize];
        let piece_elems = (row_elems / pieces) as usize;
        for out in out.chunks_exact_mut(row_elems as usize) {
            row.copy_from_slice(out);
            for (piece, out) in (0..pieces).zip(out.chunks_exact_mut(piece_elems)) {
                // Each piece of the row is taken.
                let from = map.output_row(piece).unwrap_or(piece) as usize * piece_elems;
                out.copy_from_slice(&row[from..from + piece_elems]);
            }
        }
        Ok(())
    }

    /// Reads rows of a checkpoint tensor whose columns are the rows of the file: a few neighboring elements
    /// of each row, decoded together with the rest of their blocks.
    fn read_columns(
        &self,
        rows: Range<u64>,
        n_columns: u64,
        level: Level,
        out: &mut [f32],
    ) -> Result<(), Error> {
        // The conversion transposed the matrix. With `e` counted from the first row taken from a matrix:
        //
        //   checkpoint: row index * group + start + e, column c   <->   file: row index * n_columns + c, element e
        //
        // So a run of rows of the checkpoint is, in each row of the file, the run of elements `elements`.
        let Some(matrix) = self.part.matrix else { return Ok(()) };
        // A matrix of the checkpoint with groups of `matrix.group` rows, and its rows in the file, for
        // n_columns = 3, matrix.start = 1, row_elems = 3:
        //
        //     checkpoint, matrix `index`         file, row `index * n_columns + column`
        //     row 0   .  .  .                    column 0   a d g
        //     row 1   a  b  c                    column 1   b e h
        //     row 2   d  e  f          <-        column 2   c f i
        //     row 3   g  h  i
        //
        // Row r of the matrix is element `r - matrix.start` of each row of the file. So a job for rows 2 and
        // 3 reads elements 1 and 2 of all n_columns rows: the run `d g`, then `e h`, then `f i`.
        let mut row = rows.start;
        while row < rows.end {
            let (index, within) = (row / matrix.group, row % matrix.group);
            // Stop at the end of this matrix; the next iteration continues.
            let end = rows.end.min((index + 1) * matrix.group);
            // Requested rows of this matrix that the file has, counted within the matrix.
            let taken =
                matrix.start.max(within)..(matrix.start + self.part.row_elems).min(within + end - row);
            if taken.start < taken.end {
                let elements = taken.start - matrix.start..taken.end - matrix.start;
                let mut run = vec![0.0; (elements.end - elements.start) as usize];
                for column in 0..n_columns {
                    // Its row before the row map moved it; other parts have the remaining columns.
                    let line = index * n_columns + column;
                    let Some(line) = self.source_rows.output_row(line) else { continue };
                    self.read_run(line, elements.clone(), level, &mut run)?;
                    self.invert(line, &mut run);
                    let first = (row - rows.start) + (taken.start - within);
                    // A run goes down one column of `out`, which is (rows, n_columns).
                    for (i, value) in run.iter().enumerate() {
                        out[((first + i as u64) * n_columns + column) as usize] = *value;
                    }
                }
            }
            row = end;
        }
        Ok(())
    }

    /// Elements `elements` of a row of the file.
    fn read_run(&self, row: u64, elements: Range<u64>, level: Level, out: &mut [f32]) -> Result<(), Error> {
        let (row_elems, dtype) = (self.tensor.shape.row_elems(), self.tensor.dtype);
        let block = dtype.block_elems().max(1);
        // The blocks that contain these elements:
        //
        //     blocks of the row   |   first   |           |   last - 1 |
        //     elements                   [start ............ end)
        //     skip                 <--->
        let (first, last) = (elements.start / block, elements.end.div_ceil(block));
        let row = self.part.first_row + row;
        // Big-endian blocks are swapped in complete rows, and rows that end within a block have no separate
        // blocks.
        if self.file.endian() != Endian::Little || !row_elems.is_multiple_of(block) {
            let mut values = vec![0.0; row_elems as usize];
            self.rows.read(row..row + 1, level, &mut values)?;
            out.copy_from_slice(&values[elements.start as usize..elements.end as usize]);
            return Ok(());
        }
        let bytes = self.file.data(self.tensor)?;
        let block_bytes = dtype.block_bytes();
        let begin = row * (row_elems / block) + first;
        let bytes = &bytes[(begin * block_bytes) as usize..((begin + last - first) * block_bytes) as usize];
        let mut values = vec![0.0; ((last - first) * block) as usize];
        gguf_quant::decode(dtype, level, bytes, &mut values)
            .map_err(|error| Error::Encode { tensor: self.tensor.name.clone(), error })?;
        // Elements before the first requested one are decoded and dropped.
        let skip = (elements.start - first * block) as usize;
        out.copy_from_slice(&values[skip..skip + out.len()]);
        Ok(())
    }
}
