//! Who wants to see the inputs of products.

/// Which part of a tensor was multiplied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// All of it.
    Whole,
    /// One of a stack of matrices, with the rows that were routed to it.
    Expert {
        /// Which, from 0.
        index: usize,
        /// Matrices in the stack.
        n: usize,
    },
    /// One of a stack of matrices that belong to heads; each sees every row, in its head's part.
    Head {
        /// Which, from 0.
        index: usize,
        /// Matrices in the stack.
        n: usize,
    },
}

/// Sees what weights are multiplied with: importance matrices are made of it.
pub trait Observer: Send {
    /// A part of `tensor` was multiplied with `input` (n_rows, n_in), row-major. An expert may have got no rows.
    fn mul_mat(&mut self, tensor: &str, part: Part, input: &[f32], n_in: usize);
}
