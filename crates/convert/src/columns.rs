//! Columns of a checkpoint's tensor as rows of the output: transposition by panels.
//!
//! A job reads some neighbouring columns of a matrix, a panel: of each row of the matrix a short run
//! of elements. So a job needs memory for its own output alone, whatever the size of the matrix,
//! and jobs of one matrix run side by side. What is read of a row at a time is at least
//! [`PANEL_COLUMNS`] elements, a cache line of bf16, so that no line is fetched for a part of it
//! only, save at the edges.

use std::{borrow::Cow, ops::Range};

use arch::{ElementMap, Matrix, RowMap, RowView};
use gguf::Advice;
use source::{Checkpoint, View};

use crate::Error;
use crate::rows::map_elements;

/// Columns that a job takes at least: 64 bytes of bf16 in each row.
pub const PANEL_COLUMNS: u64 = 32;

/// Rows of a matrix that are read before their elements go to their places: 16 elements of f32,
/// a cache line of the output.
const TILE_ROWS: usize = 16;

/// Columns of a tensor, moved by a [`RowMap`] and changed by an [`ElementMap`].
#[derive(Debug, Clone)]
pub struct ColumnRows<'a> {
    checkpoint: &'a Checkpoint,
    tensor: &'a source::Tensor,
    bytes: &'a [u8],
    /// Columns of a matrix; its rows are as many as an output row has elements.
    n_columns: u64,
    /// Which rows of the source are a matrix.
    matrix: Matrix,
    /// Matrices in the source.
    n_matrices: u64,
    map: RowMap,
    element: ElementMap,
    view: RowView,
}

impl<'a> ColumnRows<'a> {
    /// The columns of the tensor `name` of `checkpoint`, as many and as long as `view` says.
    ///
    /// # Errors
    /// [`Error::NoSuchTensor`]; [`Error::RowsDiffer`] where the source does not hold matrices of
    /// such columns.
    pub fn new(
        checkpoint: &'a Checkpoint,
        tensor_name: &str,
        name: &str,
        matrix: Matrix,
        map: RowMap,
        element: ElementMap,
        view: RowView,
    ) -> Result<ColumnRows<'a>, Error> {
        let no_such = || Error::NoSuchTensor { name: name.to_owned(), wanted_by: tensor_name.to_owned() };
        let tensor = checkpoint.tensor(name).ok_or_else(no_such)?;
        let differs = |found, expected, unit| Error::RowsDiffer {
            tensor: tensor_name.to_owned(),
            source_names: name.to_owned(),
            found,
            expected,
            unit,
        };
        let [.., n_columns] = tensor.shape[..] else {
            return Err(differs(tensor.shape.len() as u64, 2, "dimensions"));
        };
        let n_rows: u64 = tensor.shape.iter().rev().skip(1).product();
        let Matrix { group, start } = matrix;
        if group == 0 || !n_rows.is_multiple_of(group) || start.saturating_add(view.row_elems) > group {
            return Err(differs(n_rows, group, "rows in whole matrices"));
        }
        let n_matrices = n_rows / group;
        let n_taken = map.n_source_rows(view.n_rows);
        if n_taken != n_matrices * n_columns {
            return Err(differs(n_matrices * n_columns, n_taken, "columns"));
        }
        let bytes = checkpoint.view(tensor).bytes;
        Ok(ColumnRows { checkpoint, tensor, bytes, n_columns, matrix, n_matrices, map, element, view })
    }

    /// How the elements fall into rows: the columns of the source.
    pub fn view(&self) -> RowView {
        self.view
    }

    /// Bits of an element of the source.
    pub fn elem_bits(&self) -> u64 {
        self.tensor.dtype.bits()
    }

    /// Reads rows `rows` into `out`, which is (rows, row_elems) f32.
    ///
    /// # Errors
    /// [`Error::Read`] where the stored type has no meaning as f32.
    pub fn read(&self, rows: Range<u64>, out: &mut [f32]) -> Result<(), Error> {
        let row_elems = self.view.row_elems as usize;
        let mut left = &mut *out;
        for panel in self.panels(rows.clone()) {
            let n_columns = (panel.end - panel.start) as usize;
            let (now, later) = left.split_at_mut(n_columns * row_elems);
            self.read_panel(panel, now)?;
            left = later;
        }
        let half = self.tensor.dtype == source::Dtype::F16;
        map_elements(self.element, half, rows.start, self.view.row_elems, out);
        Ok(())
    }

    /// Runs of neighbouring columns of one matrix behind output rows `rows`, in output order;
    /// columns are counted through all matrices.
    fn panels(&self, rows: Range<u64>) -> Vec<Range<u64>> {
        let mut panels: Vec<Range<u64>> = Vec::new();
        for row in rows {
            let column = self.map.source_row(row, self.view.n_rows);
            match panels.last_mut() {
                Some(last) if last.end == column && !column.is_multiple_of(self.n_columns) => last.end += 1,
                _ => panels.push(column..column + 1),
            }
        }
        panels
    }

    /// Reads columns of one matrix into `out`, which is (columns, row_elems).
    fn read_panel(&self, columns: Range<u64>, out: &mut [f32]) -> Result<(), Error> {
        let row_elems = self.view.row_elems as usize;
        let width = (columns.end - columns.start) as usize;
        let (matrix, first) = (columns.start / self.n_columns, columns.start % self.n_columns);
        // Every element is a row of its own, so that runs of them can begin anywhere.
        let shape = [self.n_matrices * self.matrix.group * self.n_columns, 1];
        let view =
            View { name: &self.tensor.name, dtype: self.tensor.dtype, shape: &shape, bytes: self.bytes };
        let mut tile = vec![0.0; TILE_ROWS.min(row_elems) * width];
        for first_row in (0..row_elems).step_by(TILE_ROWS) {
            let n_rows = TILE_ROWS.min(row_elems - first_row);
            for (row, values) in (first_row..).zip(tile.chunks_exact_mut(width).take(n_rows)) {
                let row = matrix * self.matrix.group + self.matrix.start + row as u64;
                let begin = row * self.n_columns + first;
                source::read_rows(&view, begin, width as u64, values).map_err(Error::Read)?;
            }
            for (column, out) in out.chunks_exact_mut(row_elems).enumerate() {
                for (row, out) in out[first_row..first_row + n_rows].iter_mut().enumerate() {
                    *out = tile[row * width + column];
                }
            }
        }
        Ok(())
    }

    /// The values of rows `rows` as f32; there are no stored bytes of a column.
    ///
    /// # Errors
    /// As [`ColumnRows::read`].
    pub fn raw(&self, rows: Range<u64>) -> Result<Cow<'a, [u8]>, Error> {
        let mut values = vec![0.0; ((rows.end - rows.start) * self.view.row_elems) as usize];
        self.read(rows, &mut values)?;
        Ok(Cow::Owned(values.iter().flat_map(|value| value.to_le_bytes()).collect()))
    }

    /// Tells the system how the pages behind rows `rows` will be used. Every panel touches all
    /// pages of its matrix, so the pages are given back with the last panel; others that are still
    /// being read come from the disk again.
    pub fn advise(&self, rows: Range<u64>, advice: Advice) {
        if rows.end == self.view.n_rows {
            let begin = self.tensor.begin as usize;
            self.checkpoint.parts[self.tensor.part].bytes.advise(advice, begin..begin + self.bytes.len());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder with one tensor `t` of f32, whose elements are their own places.
    fn checkpoint(shape: &[u64]) -> (tempfile::TempDir, Checkpoint) {
        let folder = tempfile::tempdir().expect("a folder");
        let n_elems: u64 = shape.iter().product();
        let header =
            serde_json::json!({"t": {"dtype": "F32", "shape": shape, "data_offsets": [0, 4 * n_elems]}});
        let header = header.to_string();
        let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
        bytes.extend_from_slice(header.as_bytes());
        bytes.extend((0..n_elems).flat_map(|place| (place as f32).to_le_bytes()));
        std::fs::write(folder.path().join("model.safetensors"), bytes).expect("written");
        std::fs::write(folder.path().join("config.json"), "{}").expect("written");
        let checkpoint = source::open(folder.path()).expect("a checkpoint");
        (folder, checkpoint)
    }

    #[test]
    fn any_panel_is_a_part_of_the_transposed_matrices() {
        for (shape, map) in [
            (vec![1, 1], RowMap::Concat),
            (vec![3, 5], RowMap::Concat),
            (vec![17, 2], RowMap::Concat),
            (vec![16, 70], RowMap::Concat),
            (vec![33, 10], RowMap::Chunks { order: &[3, 1, 2, 0, 4] }),
            (vec![3, 19, 4], RowMap::Concat),
            (vec![5, 4, 7], RowMap::Chunks { order: &[3, 1, 2, 0, 4] }),
        ] {
            let (_folder, checkpoint) = checkpoint(&shape);
            let n = shape.len();
            let (n_rows, n_columns) = (shape[n - 2], shape[n - 1]);
            let n_matrices = if n == 3 { shape[0] } else { 1 };
            let view = RowView { n_rows: n_matrices * n_columns, row_elems: n_rows };
            let matrix = Matrix { group: n_rows, start: 0 };
            let columns = ColumnRows::new(&checkpoint, "out", "t", matrix, map, ElementMap::Identity, view);
            let columns = columns.expect("fits");
            let expected: Vec<f32> = (0..view.n_rows)
                .map(|row| map.source_row(row, view.n_rows))
                .flat_map(|column| {
                    let (matrix, column) = (column / n_columns, column % n_columns);
                    (0..n_rows).map(move |row| ((matrix * n_rows + row) * n_columns + column) as f32)
                })
                .collect();
            for start in 0..view.n_rows {
                for end in start..=view.n_rows {
                    let places = (start * n_rows) as usize..(end * n_rows) as usize;
                    let mut values = vec![f32::NAN; places.len()];
                    columns.read(start..end, &mut values).expect("readable");
                    assert_eq!(values, expected[places], "{shape:?} {start} {end}");
                }
            }
        }
    }

    #[test]
    fn a_part_of_every_group_is_transposed() {
        // Three groups of 5 rows of 4 columns; of each group rows 1 to 3, of those every other
        // column.
        let (_folder, checkpoint) = checkpoint(&[15, 4]);
        for (matrix, map, n_columns) in [
            (Matrix { group: 5, start: 1 }, RowMap::Concat, 4),
            (Matrix { group: 5, start: 1 }, RowMap::Groups { group: 2, start: 1, rows: 1, n_head: 0 }, 2),
        ] {
            let view = RowView { n_rows: 3 * n_columns, row_elems: 3 };
            let columns = ColumnRows::new(&checkpoint, "out", "t", matrix, map, ElementMap::Identity, view);
            let columns = columns.expect("fits");
            let expected: Vec<f32> = (0..3)
                .flat_map(|group| (0..n_columns).map(move |column| (group, column)))
                .flat_map(|(group, column)| {
                    let column = if n_columns == 4 { column } else { 2 * column + 1 };
                    (1..4).map(move |row| ((group * 5 + row) * 4 + column) as f32)
                })
                .collect();
            let mut values = vec![f32::NAN; expected.len()];
            columns.read(0..view.n_rows, &mut values).expect("readable");
            assert_eq!(values, expected, "{map:?}");
        }
    }

    #[test]
    fn what_has_no_such_columns_is_refused() {
        let (_folder, checkpoint) = checkpoint(&[4, 6]);
        let make = |name, n_rows, row_elems| {
            let view = RowView { n_rows, row_elems };
            let matrix = Matrix { group: 4, start: 0 };
            ColumnRows::new(&checkpoint, "out", name, matrix, RowMap::Concat, ElementMap::Identity, view)
        };
        assert!(make("t", 6, 4).is_ok());
        assert!(matches!(make("t", 4, 6), Err(Error::RowsDiffer { found: 4, expected: 4, .. })));
        assert!(matches!(make("t", 5, 4), Err(Error::RowsDiffer { found: 6, expected: 5, .. })));
        assert!(matches!(make("u", 6, 4), Err(Error::NoSuchTensor { .. })));
    }
}
