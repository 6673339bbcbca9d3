//! Final matrices of sentence-transformers, applied to the embedding of a text after pooling.
//!
//! ```text
//! y = W_3 (W_2 (W_out x) + b_2)     x (n_embd), each step if its matrix is there
//! ```
//!
//! `W_out` is the output matrix of an encoder that states the length of its embeddings. llama.cpp applies it to each token before
//! pooling, with the same result, because pooling is linear.
//!
//! Source: `llm_graph_context::build_dense_out` in `src/llama-graph.cpp` of llama.cpp (llama-cpp-python
//! 0.3.36).

use crate::{Error, graph::Head, keys::Keys, ops::Rows, weights::Weights};

/// The linear functions of a file, in order; none in most.
pub(crate) struct Dense {
    layers: Vec<Head>,
}

impl Dense {
    /// Reads the matrices of a file. `has_head` is true if the output matrix predicts tokens.
    pub fn open(
        keys: &Keys<'_>,
        weights: &mut Weights<'_>,
        n_embd: usize,
        has_head: bool,
    ) -> Result<Dense, Error> {
        let mut n = n_embd;
        let mut layers = Vec::new();
        let length = if has_head { None } else { keys.count("embedding_length_out")? };
        let n_rows = weights.shape("output.weight").map(|shape| shape.dim(1) as usize);
        let output = length.filter(|_| n_rows == length).map(|_| "output");
        // Each takes the output of the previous one, if that exists.
        for name in output.into_iter().chain(["dense_2", "dense_3"]) {
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
