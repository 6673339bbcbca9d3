//! Importance matrices: what goes into each column of a model's matrices while it reads a text.
//!
//! Source: `IMatrixCollector::collect_imatrix` and `compute_imatrix` in
//! `tools/imatrix/imatrix.cpp` of llama.cpp as vendored in llama-cpp-python 0.3.36. It adds
//! squares in f32, one token after the other, so that in a long text small ones get lost against
//! the sum; here sums are f64 until they are written.

use std::collections::BTreeMap;

use imatrix::{Entry, Sums};

use crate::{Error, Model, Observer, Part, chunks::Chunk};

/// Adds up the squares of what goes into each column.
#[derive(Debug, Clone, Default)]
pub struct Collector {
    tensors: BTreeMap<String, Totals>,
    with_output: bool,
}

#[derive(Debug, Clone)]
struct Totals {
    /// (n_matrices, row_elems).
    sums: Vec<f64>,
    counts: Vec<i64>,
}

impl Totals {
    fn new(n_matrices: usize, row_elems: usize, n_counts: usize) -> Totals {
        Totals { sums: vec![0.0; n_matrices * row_elems], counts: vec![0; n_counts] }
    }

    /// Adds the squares of rows (n, row_elems) that went into one matrix.
    fn add(&mut self, matrix: usize, rows: &[f32], row_elems: usize) {
        let is_counted = matrix < self.counts.len();
        let sums = &mut self.sums[matrix * row_elems..][..row_elems];
        for row in rows.chunks_exact(row_elems) {
            for (sum, &value) in sums.iter_mut().zip(row) {
                // sum_j += x_ij^2 over the rows i: with the count, the mean square of what column j of the matrix is multiplied with,
                // which is the weight of its rounding error in the output. The square is f32 as in the reference, the sum is not.
                *sum += f64::from(value * value);
            }
        }
        if is_counted {
            self.counts[matrix] += (rows.len() / row_elems) as i64;
        }
    }
}

impl Collector {
    /// Collects for the matrices of the layers, and for the output matrix on request: what goes
    /// into it is the same for every token of the vocabulary, and few quantize it low.
    pub fn new(with_output: bool) -> Collector {
        Collector { tensors: BTreeMap::new(), with_output }
    }

    /// Runs chunks with all of their positions, not the counted ones alone, and adds up what goes into the
    /// matrices.
    ///
    /// # Errors
    /// As [`Model::run`] and [`Model::logits`].
    pub fn add(&mut self, model: &Model, chunks: &[Chunk]) -> Result<(), Error> {
        let whole: Vec<Chunk> =
            chunks.iter().map(|chunk| Chunk { counted: 0..chunk.tokens.len(), ..chunk.clone() }).collect();
        let mut logits = Vec::new();
        let mut batches = model.logit_batches(&whole);
        while let Some(batch) = batches.next(Some(self))? {
            // The layers were observed while the rows were made. The output matrix is multiplied for logits only,
            // which are of no further use here.
            if self.with_output {
                batch.logits(0, Some(self), &mut logits)?;
            }
        }
        Ok(())
    }

    /// What was added up since the beginning, in chunks of `chunk_tokens` tokens.
    ///
    /// # Errors
    /// [`Error::NotFinite`] with the first sum that is no number, as the reference refuses it.
    pub fn sums(&self, chunk_tokens: u32) -> Result<Sums, Error> {
        let mut sums = Sums::new(chunk_tokens);
        for (name, totals) in &self.tensors {
            let values: Vec<f32> = totals.sums.iter().map(|sum| *sum as f32).collect();
            if let Some(index) = values.iter().position(|sum| !sum.is_finite()) {
                return Err(Error::NotFinite { tensor: name.clone(), index });
            }
            sums.entries.insert(name.clone(), Entry { sums: values, counts: totals.counts.clone() });
        }
        sums.count_chunks();
        Ok(sums)
    }
}

impl Observer for Collector {
    fn mul_mat(&mut self, tensor: &str, part: Part, input: &[f32], n_in: usize) {
        let is_of_a_layer = is_of_a_layer(tensor);
        if !is_of_a_layer && !self.with_output {
            return;
        }
        // An expert has its own rows and its own count. The heads of one tensor see the same tokens, so that one count serves all;
        // their sums are kept apart, because each head has columns of its own.
        let (matrix, n_matrices, n_counts) = match part {
            Part::Whole => (0, 1, 1),
            Part::Expert { index, n } => (index, n, n),
            Part::Head { index, n } => (index, n, 1),
        };
        if !self.tensors.contains_key(tensor) {
            self.tensors.insert(tensor.to_owned(), Totals::new(n_matrices, n_in, n_counts));
        }
        if let Some(totals) = self.tensors.get_mut(tensor) {
            totals.add(matrix, input, n_in);
        }
    }
}

/// Whether a tensor belongs to a layer, of a decoder (`blk.0.`) or of one side of two (`enc.blk.0.`).
fn is_of_a_layer(tensor: &str) -> bool {
    ["blk.", "enc.blk.", "dec.blk."].iter().any(|start| tensor.starts_with(start))
}

/// Matrices of a model that an importance matrix says nothing about, or not enough.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gap {
    /// The tensor.
    pub tensor: String,
    /// Experts without data, from 0; empty where the whole tensor has none.
    pub experts: Vec<usize>,
}

/// What `sums` do not cover of the matrices of a model's layers: those that the forward pass does
/// not reach (heads that predict further tokens), and experts that no token was routed to.
pub fn gaps(model: &Model, sums: &Sums) -> Vec<Gap> {
    let mut gaps = Vec::new();
    for (_, info) in model.file().tensors() {
        let is_matrix = info.shape.n_dims_effective() > 1 && info.name.ends_with(".weight");
        if !is_matrix || !is_of_a_layer(&info.name) || !model.is_multiplied(&info.name) {
            continue;
        }
        let experts = match sums.entries.get(&info.name) {
            None => Vec::new(),
            Some(entry) => {
                let unseen = entry.counts.iter().enumerate().filter(|(_, count)| **count <= 0);
                let unseen: Vec<usize> = unseen.map(|(expert, _)| expert).collect();
                if unseen.is_empty() {
                    continue;
                }
                unseen
            }
        };
        gaps.push(Gap { tensor: info.name.clone(), experts });
    }
    gaps
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn squares_by_column_and_expert() {
        let mut collector = Collector::new(false);
        collector.mul_mat("blk.0.ffn_up.weight", Part::Whole, &[1.0, 2.0, 3.0, 4.0], 2);
        collector.mul_mat("blk.0.ffn_up.weight", Part::Whole, &[2.0, 0.0], 2);
        collector.mul_mat("blk.0.ffn_up_exps.weight", Part::Expert { index: 2, n: 3 }, &[3.0, 1.0], 2);
        collector.mul_mat("output.weight", Part::Whole, &[1.0, 1.0], 2);
        let sums = collector.sums(3).unwrap();
        let dense = &sums.entries["blk.0.ffn_up.weight"];
        assert_eq!((&dense.sums[..], &dense.counts[..]), (&[14.0, 20.0][..], &[3][..]));
        let experts = &sums.entries["blk.0.ffn_up_exps.weight"];
        assert_eq!(experts.sums, [0.0, 0.0, 0.0, 0.0, 9.0, 1.0]);
        assert_eq!((&experts.counts[..], sums.n_chunks), (&[0, 0, 1][..], 1));
        assert_eq!(sums.entries.len(), 2);
    }

    #[test]
    fn heads_are_counted_once() {
        let mut collector = Collector::new(false);
        for index in 0..2 {
            let part = Part::Head { index, n: 2 };
            collector.mul_mat("blk.0.attn_k_b.weight", part, &[1.0, 2.0, 3.0, index as f32], 2);
        }
        let sums = collector.sums(2).unwrap();
        let heads = &sums.entries["blk.0.attn_k_b.weight"];
        assert_eq!((&heads.sums[..], &heads.counts[..]), (&[10.0, 4.0, 10.0, 5.0][..], &[2][..]));
    }

    #[test]
    fn what_is_no_number_is_refused() {
        let mut collector = Collector::new(true);
        collector.mul_mat("output.weight", Part::Whole, &[1.0, f32::NAN], 2);
        assert!(matches!(collector.sums(1), Err(Error::NotFinite { index: 1, .. })));
    }
}
