//! Observers of the inputs of products.

/// Multiplied part of a tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// Everything.
    Whole,
    /// One of a stack of matrices, with the rows that were routed to it.
    Expert {
        /// Index, from 0.
        index: usize,
        /// Matrices in the stack.
        n: usize,
    },
    /// One of a stack of matrices that belong to heads; each sees every row, in its head's part.
    Head {
        /// Index, from 0.
        index: usize,
        /// Matrices in the stack.
        n: usize,
    },
}

/// Rows that one matrix or several were multiplied with at once: queries, keys and values share what goes into them.
#[derive(Debug, Clone, Copy)]
pub struct Multiplied<'a> {
    /// Tensors, and which part of each.
    pub by: &'a [(&'a str, Part)],
    /// (n_rows, n_in), row-major. An expert may have got no rows.
    pub rows: &'a [f32],
    /// Columns of the matrices.
    pub n_in: usize,
    /// The token that each row belongs to, counted over the entire batch; `None` where row i is that of token i.
    pub tokens: Option<&'a [usize]>,
}

/// Sees the inputs of all products with weights; importance matrices are collected through it.
pub trait Observer: Send {
    /// A part of `tensor` was multiplied with `input` (n_rows, n_in), row-major. An expert may have got no rows.
    fn mul_mat(&mut self, tensor: &str, part: Part, input: &[f32], n_in: usize);

    /// Called for all matrices that were multiplied with the same rows. The default calls the single-matrix
    /// method for each.
    fn multiplied(&mut self, call: &Multiplied<'_>) {
        for (tensor, part) in call.by {
            self.mul_mat(tensor, *part, call.rows, call.n_in);
        }
    }
}
