//! Columns of a checkpoint's tensor as rows of the output: transposition by panels.
//!
//! A job reads neighboring columns of a matrix, a panel: a short run of elements of each row. So a job needs
//! memory for its own output only, whatever the size of the matrix, and jobs of one matrix run in parallel.
//! Each run has at least [`PANEL_COLUMNS`] elements, a cache line of bf16, so no line is fetched partially,
//! except at the edges.

use std::ops::Range;

use gguf_container::Advice;
use gguf_layout::{Matrix, RowView, SourceRows};
use gguf_quant::Level;

use super::{Granularity, RowSource, RowsFor, elements::map_elements};
use crate::error::Error;

/// Minimum number of columns per job: 64 bytes of bf16 in each row.
const PANEL_COLUMNS: u64 = 32;

/// Number of rows of a matrix that are read before they are transposed: 16 elements of f32, a cache line of
/// the output.
const TILE_ROWS: usize = 16;

/// Columns of a tensor, moved by a [`RowMap`](gguf_layout::RowMap) and changed by an
/// [`ElementMap`](gguf_layout::ElementMap).
#[derive(Debug, Clone)]
pub struct ColumnRows<'a> {
    request: RowsFor<'a>,
    source_rows: SourceRows,
    tensor: &'a gguf_checkpoint::Tensor,
    /// Columns of a matrix. The number of its rows is the length of an output row.
    n_columns: u64,
    /// Rows of the source that form a matrix.
    matrix: Matrix,
    /// Bytes of the tensor in its file.
    n_bytes: u64,
}

impl<'a> ColumnRows<'a> {
    /// Columns of the tensor `name`.
    ///
    /// # Errors
    /// [`Error::NoSuchTensor`]; [`Error::RowsDiffer`] if the source does not have matrices of the required
    /// size.
    pub fn new(request: RowsFor<'a>, name: &str, matrix: Matrix) -> Result<ColumnRows<'a>, Error> {
        let tensor = request.source(name)?;
        let differs = |found, expected, unit| request.differs(name, found, expected, unit);
        // All outer dimensions together are rows: experts are matrices one below the other.
        let [.., n_columns] = tensor.shape[..] else {
            return Err(differs(tensor.shape.len() as u64, 2, "dimensions"));
        };
        let n_rows: u64 = tensor.shape.iter().rev().skip(1).product();
        // `group` rows of the source are a matrix, of which `row_elems` rows from `start` on are required.
        let Matrix { group, start } = matrix;
        let is_outside = start.saturating_add(request.view.row_elems) > group;
        if group == 0 || !n_rows.is_multiple_of(group) || is_outside {
            return Err(differs(n_rows, group, "rows in whole matrices"));
        }
        let n_matrices = n_rows / group;
        let source_rows = request.source_rows();
        let n_taken = source_rows.n_source_rows();
        if n_taken != n_matrices * n_columns {
            return Err(differs(n_matrices * n_columns, n_taken, "columns"));
        }
        let n_bytes = request.checkpoint.stored_bytes(tensor);
        Ok(ColumnRows { request, source_rows, tensor, n_columns, matrix, n_bytes })
    }

    /// Runs of neighboring columns of one matrix for output rows `rows`, in output order; columns are counted
    /// through all matrices.
    fn panels(&self, rows: Range<u64>) -> Vec<Range<u64>> {
        let mut panels: Vec<Range<u64>> = Vec::new();
        for row in rows {
            let column = self.source_rows.source_row(row);
            match panels.last_mut() {
                // The first column of a matrix is not adjacent to the last one of the previous matrix.
                Some(last) if last.end == column && !column.is_multiple_of(self.n_columns) => last.end += 1,
                _ => panels.push(column..column + 1),
            }
        }
        panels
    }

    /// Reads columns of one matrix into `out`, which is (columns, row_elems).
    fn read_panel(&self, columns: Range<u64>, out: &mut [f32]) -> Result<(), Error> {
        let row_elems = self.request.view.row_elems as usize;
        let width = (columns.end - columns.start) as usize;
        let (matrix, first) = (columns.start / self.n_columns, columns.start % self.n_columns);
        let checkpoint = self.request.checkpoint;
        // (TILE_ROWS, width): read by source rows, written by output rows, so that both move complete cache
        // lines and only the tile is accessed across.
        let mut tile = vec![0.0; TILE_ROWS.min(row_elems) * width];
        for first_row in (0..row_elems).step_by(TILE_ROWS) {
            let n_rows = TILE_ROWS.min(row_elems - first_row);
            let row = matrix * self.matrix.group + self.matrix.start + first_row as u64;
            let (rows, columns) = (row..row + n_rows as u64, first..first + width as u64);
            let values = &mut tile[..n_rows * width];
            checkpoint.read_columns(self.tensor, rows, columns, values).map_err(Error::Read)?;
            // out[column][first_row + row] = tile[row][column]
            for (column, out) in out.chunks_exact_mut(row_elems).enumerate() {
                for (row, out) in out[first_row..first_row + n_rows].iter_mut().enumerate() {
                    *out = tile[row * width + column];
                }
            }
        }
        Ok(())
    }
}

impl RowSource for ColumnRows<'_> {
    fn view(&self) -> RowView {
        self.request.view
    }

    fn read(&self, rows: Range<u64>, _: Level, out: &mut [f32]) -> Result<(), Error> {
        let row_elems = self.request.view.row_elems as usize;
        let mut left = &mut *out;
        for panel in self.panels(rows.clone()) {
            let n_columns = (panel.end - panel.start) as usize;
            let (now, later) = left.split_at_mut(n_columns * row_elems);
            self.read_panel(panel, now)?;
            left = later;
        }
        let half = self.tensor.dtype == gguf_checkpoint::Dtype::F16;
        map_elements(self.request.element, half, rows.start, self.request.view.row_elems, out);
        Ok(())
    }

    /// Every panel touches all pages of its matrix. A fetched matrix is announced for every panel and
    /// released after the last.
    fn advise(&self, _: Range<u64>, advice: Advice) {
        if self.is_fetched() {
            self.request.checkpoint.advise_whole(self.tensor, advice);
        }
    }

    fn all_done(&self) {
        if !self.is_fetched() {
            self.request.checkpoint.advise_whole(self.tensor, Advice::DoneWith);
        }
    }

    fn is_fetched(&self) -> bool {
        self.request.checkpoint.is_fetched()
    }

    fn input_bytes(&self, n_rows: u64) -> u64 {
        (u128::from(self.n_bytes) * u128::from(n_rows) / u128::from(self.request.view.n_rows.max(1))) as u64
    }

    fn granularity(&self) -> Granularity {
        Granularity { least_rows: PANEL_COLUMNS, ..Granularity::ROW }
    }
}

#[cfg(test)]
mod tests {
    use gguf_checkpoint::Checkpoint;
    use gguf_layout::{ElementMap, RowMap};

    use super::*;

    /// Request for rows of the tensor `out` with unchanged elements.
    fn request(checkpoint: &Checkpoint, map: RowMap, view: RowView) -> RowsFor<'_> {
        RowsFor { checkpoint, tensor: "out", view, map, element: ElementMap::Identity, stored_dtype: None }
    }

    /// A folder with one tensor `t` of f32, whose elements are their own indices.
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
        let checkpoint = gguf_checkpoint::open(folder.path()).expect("a checkpoint");
        (folder, checkpoint)
    }

    #[test]
    fn panels_match_transposed_matrices() {
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
            let columns = ColumnRows::new(request(&checkpoint, map, view), "t", matrix).expect("fits");
            let expected: Vec<f32> = (0..view.n_rows)
                .map(|row| map.source_rows(view.n_rows).source_row(row))
                .flat_map(|column| {
                    let (matrix, column) = (column / n_columns, column % n_columns);
                    (0..n_rows).map(move |row| ((matrix * n_rows + row) * n_columns + column) as f32)
                })
                .collect();
            for start in 0..view.n_rows {
                for end in start..=view.n_rows {
                    let places = (start * n_rows) as usize..(end * n_rows) as usize;
                    let mut values = vec![f32::NAN; places.len()];
                    columns.read(start..end, Level::Scalar, &mut values).expect("readable");
                    assert_eq!(values, expected[places], "{shape:?} {start} {end}");
                }
            }
        }
    }

    #[test]
    fn part_of_every_group_is_transposed() {
        // Three groups of 5 rows of 4 columns; rows 1 to 3 of each group, every other column.
        let (_folder, checkpoint) = checkpoint(&[15, 4]);
        for (matrix, map, n_columns) in [
            (Matrix { group: 5, start: 1 }, RowMap::Concat, 4),
            (Matrix { group: 5, start: 1 }, RowMap::Groups { group: 2, start: 1, rows: 1, n_head: 0 }, 2),
        ] {
            let view = RowView { n_rows: 3 * n_columns, row_elems: 3 };
            let columns = ColumnRows::new(request(&checkpoint, map, view), "t", matrix).expect("fits");
            let expected: Vec<f32> = (0..3)
                .flat_map(|group| (0..n_columns).map(move |column| (group, column)))
                .flat_map(|(group, column)| {
                    let column = if n_columns == 4 { column } else { 2 * column + 1 };
                    (1..4).map(move |row| ((group * 5 + row) * 4 + column) as f32)
                })
                .collect();
            let mut values = vec![f32::NAN; expected.len()];
            columns.read(0..view.n_rows, Level::Scalar, &mut values).expect("readable");
            assert_eq!(values, expected, "{map:?}");
        }
    }

    #[test]
    fn missing_columns_are_refused() {
        let (_folder, checkpoint) = checkpoint(&[4, 6]);
        let make = |name, n_rows, row_elems| {
            let view = RowView { n_rows, row_elems };
            let matrix = Matrix { group: 4, start: 0 };
            ColumnRows::new(request(&checkpoint, RowMap::Concat, view), name, matrix)
        };
        assert!(make("t", 6, 4).is_ok());
        assert!(matches!(make("t", 4, 6), Err(Error::RowsDiffer { found: 4, expected: 4, .. })));
        assert!(matches!(make("t", 5, 4), Err(Error::RowsDiffer { found: 6, expected: 5, .. })));
        assert!(matches!(make("u", 6, 4), Err(Error::NoSuchTensor { .. })));
    }
}
