//! Rows that go into the products of one layer.

use std::{collections::BTreeMap, sync::Arc};

use gguf_runtime::{Multiplied, Observer, Part};

/// Rows that a matrix was multiplied with.
#[derive(Debug, Clone)]
pub struct Kept {
    /// (n_tokens, width).
    pub rows: Arc<Vec<f32>>,
    pub width: usize,
}

impl Kept {
    /// Number of rows.
    pub fn n_tokens(&self) -> usize {
        self.rows.len() / self.width.max(1)
    }
}

/// Keeps the rows of every matrix that sees all tokens. Matrices with a common input share them.
#[derive(Debug, Default)]
pub struct KeptRows {
    kept: BTreeMap<String, Kept>,
}

impl KeptRows {
    pub fn get(&self, tensor: &str) -> Option<&Kept> {
        self.kept.get(tensor)
    }

    /// All rows, by matrix.
    pub fn into_kept(self) -> BTreeMap<String, Kept> {
        self.kept
    }
}

impl Observer for KeptRows {
    fn mul_mat(&mut self, tensor: &str, part: Part, input: &[f32], n_in: usize) {
        self.multiplied(&Multiplied { by: &[(tensor, part)], rows: input, n_in, tokens: None });
    }

    fn multiplied(&mut self, call: &Multiplied<'_>) {
        let whole = || call.by.iter().filter(|(_, part)| *part == Part::Whole && call.tokens.is_none());
        if whole().next().is_none() {
            return;
        }
        let kept = Kept { rows: Arc::new(call.rows.to_vec()), width: call.n_in };
        for (tensor, _) in whole() {
            self.kept.insert((*tensor).to_owned(), kept.clone());
        }
    }
}
