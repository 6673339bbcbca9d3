//! Gram matrices (Hessians) of the inputs of a matrix.

/// Sum over tokens of `x x^T` for the inputs `x` of one matrix, or of one expert of a stack: (n_columns,
/// n_columns), symmetric. An error E (n_rows, n_columns) of the weights changes the output by a mean square
/// of `tr(E G E^T) / n_tokens`.
#[derive(Debug, Clone, PartialEq)]
pub struct Gram {
    n_columns: usize,
    n_tokens: u64,
    sums: Vec<f32>,
}

impl Gram {
    /// An empty sum.
    pub fn new(n_columns: usize) -> Gram {
        Gram { n_columns, n_tokens: 0, sums: vec![0.0; n_columns * n_columns] }
    }

    /// A Gram matrix from sums (n_columns, n_columns) over `n_tokens` tokens.
    pub fn from_sums(n_columns: usize, n_tokens: u64, sums: Vec<f32>) -> Option<Gram> {
        (n_columns.checked_mul(n_columns) == Some(sums.len())).then_some(Gram { n_columns, n_tokens, sums })
    }

    /// A Gram matrix from its upper triangle, row-major with every value in place. The lower triangle is
    /// overwritten.
    pub fn from_upper(n_columns: usize, n_tokens: u64, mut sums: Vec<f32>) -> Option<Gram> {
        if n_columns.checked_mul(n_columns) != Some(sums.len()) {
            return None;
        }
        const BLOCK: usize = 64;
        for top in (0..n_columns).step_by(BLOCK) {
            for left in (top..n_columns).step_by(BLOCK) {
                for row in top..(top + BLOCK).min(n_columns) {
                    for column in left.max(row + 1)..(left + BLOCK).min(n_columns) {
                        sums[column * n_columns + row] = sums[row * n_columns + column];
                    }
                }
            }
        }
        Some(Gram { n_columns, n_tokens, sums })
    }

    /// Number of columns of the matrix.
    pub fn n_columns(&self) -> usize {
        self.n_columns
    }

    /// Number of tokens in the sums.
    pub fn n_tokens(&self) -> u64 {
        self.n_tokens
    }

    /// The sums as a matrix: (n_columns, n_columns).
    pub(crate) fn view(&self) -> ndarray::ArrayView2<'_, f32> {
        ndarray::ArrayView2::from_shape((self.n_columns, self.n_columns), &self.sums)
            .expect("one sum per pair of columns")
    }

    /// The sums, row-major: (n_columns, n_columns).
    pub fn sums(&self) -> &[f32] {
        &self.sums
    }

    /// Adds sums over other tokens. Returns false without adding if the number of columns differs.
    pub fn add(&mut self, other: &Gram) -> bool {
        if self.n_columns != other.n_columns {
            return false;
        }
        self.sums.iter_mut().zip(&other.sums).for_each(|(sum, more)| *sum += more);
        self.n_tokens = self.n_tokens.saturating_add(other.n_tokens);
        true
    }

    /// Adds `share` of the diagonal's mean to the diagonal.
    pub(crate) fn add_identity(&mut self, share: f32) {
        let n = self.n_columns;
        let squares = (0..n).map(|column| f64::from(self.sums[column * (n + 1)])).sum::<f64>();
        let more = (squares / n.max(1) as f64) as f32 * share;
        (0..n).for_each(|column| self.sums[column * (n + 1)] += more);
    }

    /// Columns whose inputs are all zero.
    pub fn dead_columns(&self) -> Vec<usize> {
        // A sum of squares is zero if every term is zero or underflows.
        (0..self.n_columns).filter(|column| self.sums[column * (self.n_columns + 1)] == 0.0).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lower_half_mirrors_upper() {
        // Several blocks and a partial one.
        let n = 150;
        let upper = |row: usize, column: usize| (row * 1000 + column) as f32;
        let sums = (0..n * n).map(|at| if at / n <= at % n { upper(at / n, at % n) } else { f32::NAN });
        let gram = Gram::from_upper(n, 7, sums.collect()).unwrap();
        for row in 0..n {
            for column in 0..n {
                assert_eq!(gram.sums()[row * n + column], upper(row.min(column), row.max(column)));
            }
        }
        assert_eq!(Gram::from_upper(3, 0, vec![0.0; 8]), None);
    }

    #[test]
    fn damping_adds_share_of_mean_diagonal() {
        let mut gram = Gram::from_sums(2, 1, vec![1.0, 0.5, 0.5, 3.0]).unwrap();
        gram.add_identity(0.25);
        assert_eq!(gram.sums(), [1.5, 0.5, 0.5, 3.5]);
    }

    #[test]
    fn sums_of_another_width_are_refused() {
        let mut gram = Gram::from_sums(2, 1, vec![1.0, 0.0, 0.0, 0.0]).unwrap();
        assert_eq!(gram.dead_columns(), [1]);
        assert!(!gram.add(&Gram::new(3)));
        assert!(gram.add(&gram.clone()));
        assert_eq!((gram.sums(), gram.n_tokens()), (&[2.0, 0.0, 0.0, 0.0][..], 2));
    }
}
