//! The results of a comparison, as JSON and as a page.
//!
//! The page is one file without scripts: `templates/report.html` filled in by minijinja, with
//! charts whose places `chart.rs` works out.

mod chart;
mod csv;
mod finding;
mod heat;
mod page;
mod plot;

use serde::Serialize;

use crate::{
    continuations::Continuations,
    stats::{Comparison, Estimate, Metric, Position},
    tensor_error::FileError,
};

pub use csv::csv;
pub use finding::ENOUGH_CHUNKS;
pub use page::{html, labels, page};
pub use plot::{Plotted, size_plot};

/// A comparison of files with their base.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// The base's path as it was given.
    pub base: String,
    /// Bytes of the base's files; `None` for predictions that were saved.
    pub base_bytes: Option<u64>,
    /// The value of `general.architecture`.
    pub architecture: String,
    /// The text's path as it was given; `None` where predictions were saved.
    pub text: Option<String>,
    /// Rounding of the inputs of products: the name of an [`Activations`](crate::Activations).
    pub activations: &'static str,
    /// Tokens in a chunk.
    pub context: usize,
    /// Chunks compared.
    pub chunks: usize,
    /// The files.
    pub files: Vec<FileReport>,
}

/// The results of one file.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FileReport {
    /// Its path as it was given.
    pub file: String,
    /// Bytes of all of its shards.
    pub bytes: u64,
    /// Bits of tensor data for each element.
    pub bits_per_weight: f64,
    /// Predictions compared with the base's; `None` where only tensors were compared.
    pub predictions: Option<Comparison>,
    /// KL divergence minus that of the first file, paired by chunk; `None` for the first file.
    pub kl_difference: Option<Estimate>,
    /// Mean divergence at each counted position of a chunk, in nats.
    pub kl_by_position: Vec<f64>,
    /// Mean divergence in each chunk, in nats.
    pub kl_by_chunk: Vec<f64>,
    /// Agreement of greedy continuations, if it was measured.
    pub continuations: Option<Continuations>,
    /// Tensors compared with the base's, if they were.
    pub tensors: Option<FileError>,
    /// Name of its file type.
    pub file_type: Option<String>,
    /// Methods of its calibration, if it was calibrated.
    pub calibration: Option<String>,
    /// The chunk with the largest mean divergence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub passage: Option<Passage>,
}

impl FileReport {
    /// Every metric of the predictions except the percentiles, then those of the continuations.
    pub fn metrics(&self) -> Vec<Metric> {
        let predictions = self.predictions.iter().flat_map(Comparison::metrics);
        predictions.chain(self.continuations.iter().flat_map(Continuations::metrics)).collect()
    }
}

/// The counted tokens of a chunk.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Passage {
    /// Number of the chunk, from 0.
    pub chunk: usize,
    /// The tokens in their order.
    pub tokens: Vec<PassageToken>,
}

/// A token of the text, and its prediction.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PassageToken {
    /// Text of the token.
    pub text: String,
    /// Divergence of the prediction from the base's, in nats.
    pub kl: f64,
    /// Probability of the token in the base.
    pub p_base: f64,
    /// Probability of the token in the file.
    pub p: f64,
    /// True if both give the highest probability to the same token.
    pub same_top: bool,
}

/// The chunk with the largest mean divergence. `positions` are those of all chunks in their order; `texts` returns the texts
/// of the predicted tokens of a chunk.
pub fn passage(
    positions: &[Position],
    n_chunks: usize,
    texts: impl FnOnce(usize) -> Vec<String>,
) -> Option<Passage> {
    let n = positions.len().checked_div(n_chunks).filter(|n| *n > 0)?;
    let mean = |chunk: &[Position]| Estimate::mean(chunk.iter().map(|p| p.kl)).value;
    let chunks = positions.chunks(n).enumerate();
    let (chunk, found) = chunks.max_by(|(_, a), (_, b)| mean(a).total_cmp(&mean(b)))?;
    let token = |(text, position): (String, &Position)| PassageToken {
        text,
        kl: position.kl,
        p_base: libm::exp(-position.nll_base),
        p: libm::exp(-position.nll),
        same_top: position.same_top,
    };
    Some(Passage { chunk, tokens: texts(chunk).into_iter().zip(found).map(token).collect() })
}

/// Mean divergence at each counted position of a chunk, and in each chunk.
pub fn kl_by_place(positions: &[Position], n_chunks: usize) -> (Vec<f64>, Vec<f64>) {
    let n = positions.len().checked_div(n_chunks).unwrap_or(0);
    if n == 0 {
        return (Vec::new(), Vec::new());
    }
    let mean = |values: &mut dyn Iterator<Item = &Position>| Estimate::mean(values.map(|p| p.kl)).value;
    // Positions are (n_chunks, n), row-major: one position of all chunks is every n-th, one chunk is a row.
    let by_position = (0..n).map(|at| mean(&mut positions[at..].iter().step_by(n))).collect();
    let by_chunk = positions.chunks(n).map(|chunk| mean(&mut chunk.iter())).collect();
    (by_position, by_chunk)
}

/// Short names of the files.
fn labels_of(report: &Report) -> Vec<String> {
    labels(&report.files.iter().map(|file| &file.file[..]).collect::<Vec<_>>())
}

/// Layer and kind of a tensor: `blk.3.attn_q.weight` is layer 3, `attn_q`.
pub fn layer_and_kind(name: &str) -> (Option<u32>, &str) {
    let kind = name.strip_suffix(".weight").unwrap_or(name);
    match gguf_types::layer_and_part(kind) {
        Some((layer, kind)) => (Some(layer), kind),
        None => (None, kind),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn divergence_is_averaged_by_position() {
        let position = |kl| Position { nll_base: 1.0, nll: 1.0, kl, same_top: true, shared_top_k: 1 };
        let positions = [1.0, 2.0, 3.0, 3.0, 4.0, 5.0].map(position);
        assert_eq!(kl_by_place(&positions, 2), (vec![2.0, 3.0, 4.0], vec![2.0, 4.0]));
        assert_eq!(kl_by_place(&[], 2), (vec![], vec![]));
    }

    #[test]
    fn passage_is_the_chunk_that_differs_most() {
        let position = |kl| Position { nll_base: 1.0, nll: 0.0, kl, same_top: true, shared_top_k: 1 };
        let positions = [1.0, 2.0, 3.0, 4.0, 0.0, 5.0].map(position);
        let found = passage(&positions, 3, |chunk| vec![format!("{chunk}a"), format!("{chunk}b")]).unwrap();
        assert_eq!((found.chunk, found.tokens.len()), (1, 2));
        let PassageToken { text, kl, p, .. } = &found.tokens[1];
        assert_eq!((text.as_str(), *kl, *p), ("1b", 4.0, 1.0));
        assert!(passage(&[], 0, |_| Vec::new()).is_none());
    }

    #[test]
    fn names_give_layer_and_kind() {
        assert_eq!(layer_and_kind("blk.12.attn_q.weight"), (Some(12), "attn_q"));
        assert_eq!(layer_and_kind("blk.1.attn_q.bias"), (Some(1), "attn_q.bias"));
        assert_eq!(layer_and_kind("token_embd.weight"), (None, "token_embd"));
    }
}
