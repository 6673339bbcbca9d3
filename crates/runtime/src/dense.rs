//! Final matrices of sentence-transformers, applied to the embedding of a text after pooling.
//!
//! ```text
//! y = W_3 (W_2 x + b_2)     x (n_embd), each step if its matrix is there
//! ```
//!
//! Source: `llm_graph_context::build_dense_out` in `src/llama-graph.cpp` of llama.cpp (llama-cpp-python
//! 0.3.36).

use crate::{Error, graph::Head, ops::Rows, weights::Weights};

/// The linear functions of a file, in order; none in most.
pub(crate) struct Dense {
    layers: Vec<Head>,
}

impl Dense {
    /// Reads the matrices of a file.
    pub fn open(weights: &mut Weights<'_>, n_embd: usize) -> Result<Dense, Error> {
        let mut n = n_embd;
        let mut layers = Vec::new();
        // Each takes the output of the previous one, if that exists.
        for name in ["dense_2", "dense_3"] {
            if let Some(layer) = Head::layer(weights, name, n)? {
                n = layer.weight.n_out;
                layers.push(layer);
            }
        }
        Ok(Dense { layers })
    }

    /// Elements of what comes out, if there is any function.
    pub fn width(&self) -> Option<usize> {
        self.layers.last().map(|layer| layer.weight.n_out)
    }

    /// `rows (n, n_embd)`, row-major `-> (n, width)`.
    pub fn run(&self, rows: Vec<f32>) -> Vec<f32> {
        self.layers.iter().fold(rows, |rows, layer| {
            let n = layer.weight.n_in.max(1);
            layer.apply(&Rows::from_vec(rows.len() / n, n, rows)).as_slice().to_vec()
        })
    }
}
