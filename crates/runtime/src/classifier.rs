//! The classification head of a file: scores of one row.
//!
//! ```text
//! z = norm(f(W_cls x + b_cls))     x (n_embd), z (n_hidden); without `cls.weight`, z = x
//! y = W_out z + b_out              y (n_scores); without `cls.output.weight`, y = z
//! ```
//!
//! Source: `llm_graph_context::build_pooling` in `src/llama-graph.cpp` of llama.cpp (llama-cpp-python 0.3.36); the key of the
//! activation in `llama_model_base::load_hparams` of build 11549.

use crate::{
    Error,
    graph::Head,
    keys::Keys,
    ops::{Activation, Norm, NormKind, Rows, softmax},
    pooling::Pooling,
    weights::Weights,
};

/// Properties of a family's classifier.
#[derive(Debug, Clone, Copy)]
pub struct ClassifierSpec {
    /// Activation after the first matrix, if the file states none.
    pub activation: Activation,
    /// True if the mean of the rows is classified by default.
    pub mean_by_default: bool,
    /// True if scores become probabilities.
    pub is_softmax: bool,
}

impl ClassifierSpec {
    /// The classifier of BERT.
    pub const USUAL: ClassifierSpec =
        ClassifierSpec { activation: Activation::Tanh, mean_by_default: false, is_softmax: false };
}

/// Computes scores from a row.
pub struct Classifier {
    dense: Option<Head>,
    spec: ClassifierSpec,
    norm: Option<Norm>,
    output: Option<Head>,
    /// The row to classify.
    pub row: Pooling,
    /// Names of the scores.
    pub labels: Vec<String>,
}

impl Classifier {
    /// The classifier of a file, if it has one.
    pub fn open(
        spec: ClassifierSpec,
        keys: &Keys<'_>,
        weights: &mut Weights<'_>,
        n_embd: usize,
        is_causal: bool,
    ) -> Result<Option<Classifier>, Error> {
        let dense = Head::layer(weights, "cls", n_embd)?;
        let n = dense.as_ref().map_or(n_embd, |dense| dense.weight.n_out);
        let output = Head::layer(weights, "cls.output", n)?;
        if dense.is_none() && output.is_none() {
            return Ok(None);
        }
        let activation = match keys.text("classifier.activation")? {
            None => spec.activation,
            Some("gelu") => Activation::GeluErf,
            Some("silu") => Activation::Silu,
            Some("tanh") => Activation::Tanh,
            Some(_) => return Err(keys.wrong("classifier.activation", "gelu, silu or tanh")),
        };
        let spec = ClassifierSpec { activation, ..spec };
        let epsilon = match keys.float("attention.layer_norm_epsilon")? {
            Some(epsilon) => epsilon,
            None => keys.float("attention.layer_norm_rms_epsilon")?.unwrap_or(1e-5),
        };
        let norm = weights.vector("cls.norm.weight", n)?.map(|weight| Norm {
            kind: NormKind::Layer,
            epsilon,
            weight: Some(weight),
            bias: None,
        });
        // 1 is the mean in the reference's enum; with any other value it takes the first row, or of a decoder the last,
        // the only one that has seen the entire text.
        let row = match (keys.count("classifier.pooling_type")?, spec.mean_by_default) {
            (Some(1), _) | (None, true) => Pooling::Mean,
            _ if is_causal => Pooling::Last,
            _ => Pooling::Cls,
        };
        let labels = keys.texts("classifier.output_labels")?;
        Ok(Some(Classifier { dense, spec, norm, output, row, labels }))
    }

    /// `row (n_embd) -> (n_scores)`.
    pub fn run(&self, row: &[f32]) -> Vec<f32> {
        let mut x = Rows::from_vec(1, row.len(), row.to_vec());
        if let Some(dense) = &self.dense {
            x = dense.apply(&x);
            self.spec.activation.apply(&mut x);
            if let Some(norm) = &self.norm {
                norm.apply(&mut x);
            }
        }
        if let Some(output) = &self.output {
            x = output.apply(&x);
        }
        let mut scores = x.as_slice().to_vec();
        if self.spec.is_softmax {
            softmax(&mut scores, None);
        }
        scores
    }
}
