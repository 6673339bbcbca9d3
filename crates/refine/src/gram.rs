//! Second moments of what goes into a matrix.

/// `sum over tokens of x x^T` for the rows `x` that went into one matrix, or into one expert of a stack: (n_columns, n_columns),
/// symmetric. The mean square of the output's error that a change E (n_rows, n_columns) of the weights makes is
/// `tr(E G E^T) / n_tokens`.
#[derive(Debug, Clone, PartialEq)]
pub struct Gram {
    n_columns: usize,
    n_tokens: u64,
    /// Row-major, both halves.
    sums: Vec<f32>,
}

impl Gram {
    /// No tokens yet.
    pub fn new(n_columns: usize) -> Gram {
        Gram { n_columns, n_tokens: 0, sums: vec![0.0; n_columns * n_columns] }
    }

    /// Sums (n_columns, n_columns) over so many tokens.
    pub fn from_sums(n_columns: usize, n_tokens: u64, sums: Vec<f32>) -> Option<Gram> {
        (n_columns.checked_mul(n_columns) == Some(sums.len())).then_some(Gram { n_columns, n_tokens, sums })
    }

    /// Columns of the matrix.
    pub fn n_columns(&self) -> usize {
        self.n_columns
    }

    /// Tokens that were added up.
    pub fn n_tokens(&self) -> u64 {
        self.n_tokens
    }

    /// The sums as a matrix: (n_columns, n_columns).
    pub(crate) fn view(&self) -> ndarray::ArrayView2<'_, f32> {
        ndarray::ArrayView2::from_shape((self.n_columns, self.n_columns), &self.sums)
            .expect("as many as there are pairs")
    }

    /// The sums, row-major: (n_columns, n_columns).
    pub fn sums(&self) -> &[f32] {
        &self.sums
    }
}
