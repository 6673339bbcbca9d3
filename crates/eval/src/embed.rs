//! Vectors of texts: rows of a model pooled into one, and the scores of classifiers.
//!
//! Source: `llm_graph_context::build_pooling` in `src/llama-graph.cpp` of llama.cpp
//! (llama-cpp-python 0.3.36).

use crate::{
    Activations, Error, Model, Window,
    graph::Head,
    keys::Keys,
    ops::{Activation, Norm, NormKind, Rows, softmax},
    weights::Weights,
};

/// How the rows of a text become one vector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Pooling {
    /// They do not: a vector for each token.
    None,
    /// Their mean.
    Mean,
    /// The first of them.
    Cls,
    /// The last of them.
    Last,
    /// The scores that the file's classifier gives to one of them.
    Rank,
}

impl Pooling {
    /// Every way.
    pub const ALL: [Pooling; 5] = [Pooling::None, Pooling::Mean, Pooling::Cls, Pooling::Last, Pooling::Rank];

    /// Its name, as `llama-embedding --pooling` has it.
    pub fn name(self) -> &'static str {
        match self {
            Pooling::None => "none",
            Pooling::Mean => "mean",
            Pooling::Cls => "cls",
            Pooling::Last => "last",
            Pooling::Rank => "rank",
        }
    }

    /// What `pooling_type` says; its values count [`Pooling::ALL`].
    pub(crate) fn of_file(keys: &Keys<'_>) -> Result<Option<Pooling>, Error> {
        let Some(n) = keys.count("pooling_type")? else { return Ok(None) };
        let pooling = Pooling::ALL.get(n).copied();
        pooling.map(Some).ok_or_else(|| keys.wrong("pooling_type", "a number from 0 to 4"))
    }
}

/// What makes scores of a row.
pub(crate) struct Classifier {
    dense: Option<Head>,
    activation: Activation,
    norm: Option<Norm>,
    output: Option<Head>,
    /// Which row it is given.
    row: Pooling,
    /// Whether scores become probabilities.
    is_softmax: bool,
    labels: Vec<String>,
}

impl Classifier {
    /// The classifier of a file, if it has one.
    pub fn open(
        keys: &Keys<'_>,
        weights: &mut Weights<'_>,
        n_embd: usize,
    ) -> Result<Option<Classifier>, Error> {
        let dense = layer(weights, "cls", n_embd)?;
        let n = dense.as_ref().map_or(n_embd, |dense| dense.weight.n_out);
        let output = layer(weights, "cls.output", n)?;
        if dense.is_none() && output.is_none() {
            return Ok(None);
        }
        let is_modern = keys.architecture == "modern-bert";
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
        // The reference takes the mean where a ModernBERT says nothing, and means the first row where
        // it says "cls".
        let row = match (keys.count("classifier.pooling_type")?, is_modern) {
            (Some(1), _) | (None, true) => Pooling::Mean,
            _ if keys.flag("attention.causal", true)? => Pooling::Last,
            _ => Pooling::Cls,
        };
        Ok(Some(Classifier {
            dense,
            activation: if is_modern { Activation::GeluErf } else { Activation::Tanh },
            norm,
            output,
            row,
            is_softmax: matches!(keys.architecture.as_str(), "qwen3" | "qwen3vl"),
            labels: keys.texts("classifier.output_labels")?,
        }))
    }

    /// `row (n_embd) -> (n_scores)`.
    fn run(&self, row: &[f32]) -> Vec<f32> {
        let mut x = Rows::from_shape_vec((1, row.len()), row.to_vec()).expect("a row is as long as it is");
        if let Some(dense) = &self.dense {
            x = apply(dense, &x);
            self.activation.apply(&mut x);
            if let Some(norm) = &self.norm {
                norm.apply(&mut x);
            }
        }
        if let Some(output) = &self.output {
            x = apply(output, &x);
        }
        let mut scores = x.into_raw_vec_and_offset().0;
        if self.is_softmax {
            softmax(&mut scores, None);
        }
        scores
    }
}

/// `NAME.weight` with as many rows as are stored, and `NAME.bias`.
fn layer(weights: &mut Weights<'_>, name: &str, n_in: usize) -> Result<Option<Head>, Error> {
    let stored = format!("{name}.weight");
    let n_out = weights.shape(&stored).map_or(0, |shape| shape.dim(1) as usize);
    let Some(weight) = weights.matrix(&stored, n_in, n_out)? else { return Ok(None) };
    let bias = weights.vector(&format!("{name}.bias"), n_out)?;
    Ok(Some(Head { weight, bias, scale: 1.0, soft_cap: None }))
}

fn apply(layer: &Head, x: &Rows) -> Rows {
    let mut out = Rows::zeros((x.nrows(), layer.weight.n_out));
    layer.run(x.view(), Activations::F32, out.view_mut());
    out
}

/// The names of the scores that a model's classifier gives, in order; none where the file names none.
pub fn labels(model: &Model) -> &[String] {
    model.classifier().map_or(&[], |classifier| &classifier.labels)
}

/// The way of pooling that is wanted, or that the file states.
///
/// # Errors
/// [`Error::NoPooling`] where neither says one.
pub fn pooling(model: &Model, wanted: Option<Pooling>) -> Result<Pooling, Error> {
    let no_pooling = || Error::NoPooling { key: format!("{}.pooling_type", model.architecture()) };
    wanted.or(model.pooling()).ok_or_else(no_pooling)
}

/// Vectors of texts, given as their tokens: for each text (n_rows, width) f32, row-major, where
/// there is one row, or with [`Pooling::None`] one for each token. The width is
/// [`Model::n_embd`], or with [`Pooling::Rank`] the number of scores.
///
/// # Errors
/// [`Error::NoVectors`], [`Error::TooShort`] for a text without tokens, [`Error::NoClassifier`], and as [`Model::run`].
pub fn embed(model: &Model, texts: &[Vec<u32>], pooling: Pooling) -> Result<Vec<Vec<f32>>, Error> {
    let row = match (pooling, model.classifier()) {
        (Pooling::Rank, None) => return Err(Error::NoClassifier),
        (Pooling::Rank, Some(classifier)) => classifier.row,
        (other, _) => other,
    };
    if model.answers() {
        return Err(Error::NoVectors { architecture: model.architecture().to_owned() });
    }
    if texts.iter().any(Vec::is_empty) {
        return Err(Error::TooShort { found: 0, needed: 1 });
    }
    let mut vectors = vec![Vec::new(); texts.len()];
    // Texts of about the same length run together.
    let mut order: Vec<usize> = (0..texts.len()).collect();
    order.sort_by_key(|i| std::cmp::Reverse(texts[*i].len()));
    let mut rest = order.as_slice();
    while let Some(longest) = rest.first().map(|i| texts[*i].len()) {
        let (batch, behind) = rest.split_at(model.windows_at_once(longest).min(rest.len()));
        rest = behind;
        let windows: Vec<Window<'_>> = batch.iter().map(|i| window(&texts[*i], row)).collect();
        let hidden = model.run(&windows, None)?;
        for (at, i) in batch.iter().enumerate() {
            let rows = hidden.rows_of(at);
            let vector = match row {
                Pooling::None => rows.flat_map(|row| hidden.row(row).iter().copied()).collect(),
                Pooling::Mean => mean(rows.map(|row| hidden.row(row)), model.n_embd()),
                _ => hidden.row(rows.start).to_vec(),
            };
            vectors[*i] = match (pooling, model.classifier()) {
                (Pooling::Rank, Some(classifier)) => model.install(|| classifier.run(&vector)),
                _ => vector,
            };
        }
    }
    Ok(vectors)
}

/// A text of at least one token, with the rows that a way of pooling looks at.
fn window(tokens: &[u32], row: Pooling) -> Window<'_> {
    let n = tokens.len();
    let wanted = match row {
        Pooling::Cls => 0..1,
        Pooling::Last => n - 1..n,
        _ => 0..n,
    };
    Window { tokens, wanted }
}

fn mean<'a>(rows: impl ExactSizeIterator<Item = &'a [f32]>, width: usize) -> Vec<f32> {
    let n = rows.len().max(1) as f64;
    let mut sums = vec![0.0f64; width];
    for row in rows {
        sums.iter_mut().zip(row).for_each(|(sum, x)| *sum += f64::from(*x));
    }
    sums.into_iter().map(|sum| (sum / n) as f32).collect()
}

/// Makes the root of the sum of squares 1; zeros stay.
pub fn normalize(vector: &mut [f32]) {
    let square: f64 = vector.iter().map(|x| f64::from(*x) * f64::from(*x)).sum();
    if square > 0.0 {
        let scale = 1.0 / square.sqrt();
        vector.iter_mut().for_each(|x| *x = (f64::from(*x) * scale) as f32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn normalized_vectors_have_length_one() {
        let (mut vector, mut zeros) = (vec![3.0, -4.0], vec![0.0; 3]);
        normalize(&mut vector);
        normalize(&mut zeros);
        assert_eq!(vector, [0.6, -0.8]);
        assert_eq!(zeros, [0.0; 3]);
    }

    #[test]
    fn windows_ask_for_the_rows_that_count() {
        let tokens = [5, 6, 7];
        assert_eq!(window(&tokens, Pooling::Cls).wanted, 0..1);
        assert_eq!(window(&tokens, Pooling::Last).wanted, 2..3);
        assert_eq!(window(&tokens, Pooling::Mean).wanted, 0..3);
        assert_eq!(mean([&[1.0, 4.0][..], &[3.0, 0.0][..]].into_iter(), 2), [2.0, 2.0]);
    }
}
