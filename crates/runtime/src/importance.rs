//! Importance matrices: statistics of the inputs of a model's matrices over a text.
//!
//! Source: `IMatrixCollector::collect_imatrix` and `compute_imatrix` in `tools/imatrix/imatrix.cpp` of
//! llama.cpp as vendored in llama-cpp-python 0.3.36. It adds squares in f32, one token after the other, so
//! that in a long text small ones vanish; here sums are exact until they are written, so parts of a text add
//! up to all.

use std::collections::BTreeMap;

use gguf_imatrix::{Entry, Sums};

use crate::{
    Error, Model, Multiplied, Observer, Part,
    chunks::Chunk,
    exact_sum::{ExactSums, Squares},
};

/// Adds up the squares of what goes into each column.
#[derive(Debug, Clone, Default)]
pub struct Collector {
    tensors: BTreeMap<String, Totals>,
    with_output: bool,
}

#[derive(Debug, Clone)]
struct Totals {
    /// (n_matrices, row_elems).
    sums: ExactSums,
    counts: Vec<i64>,
}

impl Totals {
    fn new(n_matrices: usize, row_elems: usize, n_counts: usize) -> Totals {
        Totals { sums: ExactSums::new(n_matrices * row_elems), counts: vec![0; n_counts] }
    }

    /// Adds the squares of rows (n_rows, row_elems) that went into one matrix.
    fn add(&mut self, matrix: usize, squares: &Squares, n_rows: usize, row_elems: usize) {
        // sum_j += x_ij^2 over the rows i: with the count, the mean square of what column j of the matrix is multiplied with,
        // which is the weight of its rounding error in the output. The square is f32 like the reference, the sum is not.
        self.sums.add_squares(matrix * row_elems, squares);
        if let Some(count) = self.counts.get_mut(matrix) {
            *count += n_rows as i64;
        }
    }
}

impl Collector {
    /// Collects for the matrices of the layers, and for the output matrix on request: its input is the same
    /// for every token of the vocabulary, and it is rarely quantized to few bits.
    pub fn new(with_output: bool) -> Collector {
        Collector { with_output, ..Collector::default() }
    }

    /// Runs chunks with all of their positions, not only the counted ones, and adds up what goes into the
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

    /// Sums so far, in chunks of `chunk_tokens` tokens.
    ///
    /// # Errors
    /// [`Error::NotFinite`] with the first sum that is not finite, as the reference refuses it.
    pub fn sums(&self, chunk_tokens: u32) -> Result<Sums, Error> {
        let mut sums = Sums::new(chunk_tokens);
        for (name, totals) in &self.tensors {
            let values: Vec<f32> =
                (0..totals.sums.len()).map(|index| totals.sums.value(index) as f32).collect();
            if let Some(index) = values.iter().position(|sum| !sum.is_finite()) {
                return Err(Error::NotFinite { tensor: name.clone(), index });
            }
            sums.entries.insert(name.clone(), Entry { sums: values, counts: totals.counts.clone() });
        }
        sums.count_chunks();
        Ok(sums)
    }

    /// Exact sums, for [`Collector::add_part`].
    ///
    /// ```text
    /// for each tensor: u64 name_bytes, name
    ///                  u64 n_counts, i64 counts[n_counts]
    ///                  u64 n_sums, and for each: u64 n, f64 parts[n]       a sum is that of its parts
    /// ```
    ///
    /// Little-endian.
    pub fn to_part(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let number = |bytes: &mut Vec<u8>, n: usize| bytes.extend((n as u64).to_le_bytes());
        for (name, totals) in &self.tensors {
            number(&mut bytes, name.len());
            bytes.extend(name.as_bytes());
            number(&mut bytes, totals.counts.len());
            bytes.extend(totals.counts.iter().flat_map(|count| count.to_le_bytes()));
            number(&mut bytes, totals.sums.len());
            for index in 0..totals.sums.len() {
                // Zeros do not count; most sums need one float or two.
                let parts = || totals.sums.parts(index).filter(|part| *part != 0.0);
                number(&mut bytes, parts().count());
                bytes.extend(parts().flat_map(f64::to_le_bytes));
            }
        }
        bytes
    }

    /// Adds the result of [`Collector::to_part`] for other chunks of the same model.
    ///
    /// # Errors
    /// [`Error::ImportancePart`]; earlier additions stay.
    pub fn add_part(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let bad = |problem| Error::ImportancePart { problem };
        let mut rest = bytes;
        while !rest.is_empty() {
            let n_name = number(&mut rest)?;
            let name = take(&mut rest, n_name, 1)?;
            let name = std::str::from_utf8(name).map_err(|_| bad("a name is not valid UTF-8"))?;
            let n_counts = number(&mut rest)?;
            let counts = take(&mut rest, n_counts, 8)?.as_chunks::<8>().0;
            let n_sums = number(&mut rest)?;
            // Each sum has a count of its parts in 8 bytes at least, so that no more is allocated than there is.
            if n_sums > rest.len() / 8 {
                return Err(bad("unexpected end inside the sums"));
            }
            let totals = self
                .tensors
                .entry(name.to_owned())
                .or_insert_with(|| Totals { sums: ExactSums::new(n_sums), counts: vec![0; counts.len()] });
            if totals.sums.len() != n_sums || totals.counts.len() != counts.len() {
                return Err(bad(
                    "a tensor has a different number of columns or experts than in another part",
                ));
            }
            for (total, count) in totals.counts.iter_mut().zip(counts) {
                let sum = total.checked_add(i64::from_le_bytes(*count));
                *total = sum.ok_or(bad("the sum of two counts exceeds 64 bits"))?;
            }
            for index in 0..n_sums {
                let n_parts = number(&mut rest)?;
                let parts = take(&mut rest, n_parts, 8)?.as_chunks::<8>().0;
                totals.sums.add_parts(index, parts.iter().map(|part| f64::from_le_bytes(*part)));
            }
        }
        Ok(())
    }
}

/// The next `n` items of this many bytes.
fn take<'a>(bytes: &mut &'a [u8], n: usize, item_bytes: usize) -> Result<&'a [u8], Error> {
    let n_bytes = n.checked_mul(item_bytes).filter(|n_bytes| *n_bytes <= bytes.len());
    let n_bytes = n_bytes.ok_or(Error::ImportancePart { problem: "unexpected end inside a tensor" })?;
    let (taken, rest) = bytes.split_at(n_bytes);
    *bytes = rest;
    Ok(taken)
}

fn number(bytes: &mut &[u8]) -> Result<usize, Error> {
    let number = take(bytes, 1, 8)?;
    let number = u64::from_le_bytes(std::array::from_fn(|i| number[i]));
    usize::try_from(number).map_err(|_| Error::ImportancePart { problem: "a number is out of range" })
}

impl Observer for Collector {
    fn mul_mat(&mut self, tensor: &str, part: Part, input: &[f32], n_in: usize) {
        self.multiplied(&Multiplied { by: &[(tensor, part)], rows: input, n_in, tokens: None });
    }

    fn multiplied(&mut self, call: &Multiplied<'_>) {
        let Multiplied { by, rows, n_in, .. } = *call;
        let with_output = self.with_output;
        let is_wanted = |tensor: &str| with_output || is_of_a_layer(tensor);
        if n_in == 0 || !by.iter().any(|(tensor, _)| is_wanted(tensor)) {
            return;
        }
        // Queries, keys and values see the same rows, as do gate and up: their squares are added up once.
        let (squares, n_rows) = (Squares::new(rows, n_in), rows.len() / n_in);
        for &(tensor, part) in by.iter().filter(|(tensor, _)| is_wanted(tensor)) {
            // An expert has its own rows and its own count. The heads of one tensor see the same tokens, so
            // one count serves all; their sums are separate, because each head has its own columns.
            let (matrix, n_matrices, n_counts) = match part {
                Part::Whole => (0, 1, 1),
                Part::Expert { index, n } => (index, n, n),
                Part::Head { index, n } => (index, n, 1),
            };
            if !self.tensors.contains_key(tensor) {
                self.tensors.insert(tensor.to_owned(), Totals::new(n_matrices, n_in, n_counts));
            }
            if let Some(totals) = self.tensors.get_mut(tensor) {
                totals.add(matrix, &squares, n_rows, n_in);
            }
        }
    }
}

/// True if a tensor belongs to a layer, of a decoder (`blk.0.`) or of an encoder-decoder (`enc.blk.0.`).
fn is_of_a_layer(tensor: &str) -> bool {
    ["blk.", "enc.blk.", "dec.blk."].iter().any(|start| tensor.starts_with(start))
}

/// Matrices of a model that an importance matrix says nothing about, or not enough.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gap {
    /// The tensor.
    pub tensor: String,
    /// Experts without data, from 0; empty if all lack it.
    pub experts: Vec<usize>,
}

/// The matrices of a model's layers that importance matrices are to cover, in the order of its file.
pub fn matrices(model: &Model) -> Vec<String> {
    let is_wanted = |info: &&gguf_container::TensorInfo| {
        let is_matrix = info.shape.n_dims_effective() > 1 && info.name.ends_with(".weight");
        is_matrix && is_of_a_layer(&info.name) && model.is_multiplied(&info.name)
    };
    model.file().tensors().map(|(_, info)| info).filter(is_wanted).map(|info| info.name.clone()).collect()
}

/// Entries missing from `sums` for the [`matrices`] of a model: those that the forward pass does not reach
/// (MTP layers), and experts that received no tokens.
pub fn gaps(matrices: &[String], sums: &Sums) -> Vec<Gap> {
    let mut gaps = Vec::new();
    for tensor in matrices {
        let experts = match sums.entries.get(tensor) {
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
        gaps.push(Gap { tensor: tensor.clone(), experts });
    }
    gaps
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn squares_are_summed_by_column_and_expert() {
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
    fn parts_add_up_to_whole() {
        let rows: Vec<f32> =
            (0..600).map(|index| gguf_testkit::normal(1, index) * 1e6f32.powi(index as i32 % 3)).collect();
        let collect = |rows: &[f32]| {
            let mut collector = Collector::new(false);
            for (index, row) in rows.chunks(30).enumerate() {
                collector.mul_mat("blk.0.ffn_up.weight", Part::Whole, row, 3);
                collector.mul_mat(
                    "blk.0.ffn_up_exps.weight",
                    Part::Expert { index: index % 2, n: 3 },
                    row,
                    3,
                );
            }
            collector
        };
        let whole = collect(&rows);
        let mut merged = Collector::new(false);
        for part in [&rows[..300], &rows[300..]] {
            merged.add_part(&collect(part).to_part()).unwrap();
        }
        assert_eq!(merged.sums(20).unwrap(), whole.sums(20).unwrap());

        let bytes = whole.to_part();
        let n_read =
            (1..bytes.len()).filter(|end| Collector::new(false).add_part(&bytes[..*end]).is_ok()).count();
        assert_eq!(n_read, 1, "only a cut between the two tensors leaves what can be read");
        let mut huge = bytes.clone();
        huge[..8].fill(0xff);
        assert!(Collector::new(false).add_part(&huge).is_err());
        let mut other = Collector::new(false);
        other.mul_mat("blk.0.ffn_up.weight", Part::Whole, &[1.0; 4], 4);
        assert!(merged.add_part(&other.to_part()).is_err());
    }

    #[test]
    fn nan_input_is_refused() {
        let mut collector = Collector::new(true);
        collector.mul_mat("output.weight", Part::Whole, &[1.0, f32::NAN], 2);
        assert!(matches!(collector.sums(1), Err(Error::NotFinite { index: 1, .. })));
    }
}
