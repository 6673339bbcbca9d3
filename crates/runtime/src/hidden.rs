//! Hidden rows: the output of a graph, one step before the logits.

use std::ops::Range;

use crate::ops::Rows;

/// Output of a graph for sequences: a hidden row for every requested position, one step before the logits.
#[derive(Debug, Clone)]
pub struct Hidden {
    /// (n_rows, n_embd).
    rows: Rows,
    /// End of each sequence's rows.
    ends: Vec<usize>,
}

impl Hidden {
    /// Rows (n_rows, n_embd) of sequences, with the end of each.
    pub(crate) fn new(rows: Rows, ends: Vec<usize>) -> Hidden {
        Hidden { rows, ends }
    }

    /// Rows of one sequence.
    pub(crate) fn of_rows(rows: Rows) -> Hidden {
        let ends = vec![rows.nrows()];
        Hidden { rows, ends }
    }

    /// Rows in all.
    pub fn n_rows(&self) -> usize {
        self.rows.nrows()
    }

    /// The rows that belong to the wanted positions of a sequence, in order.
    pub fn rows_of(&self, sequence: usize) -> Range<usize> {
        let start = if sequence == 0 { 0 } else { self.ends[sequence - 1] };
        start..self.ends[sequence]
    }

    /// All rows: (n_rows, n_embd).
    pub(crate) fn rows(&self) -> &Rows {
        &self.rows
    }

    /// One row: (n_embd).
    pub fn row(&self, row: usize) -> &[f32] {
        let width = self.rows.ncols();
        &self.rows.as_slice()[row * width..(row + 1) * width]
    }
}
