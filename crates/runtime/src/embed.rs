//! Vectors of texts: rows of a model pooled into one, and the scores of classifiers.
//!
//! Source: `llm_graph_context::build_pooling` in `src/llama-graph.cpp` of llama.cpp
//! (llama-cpp-python 0.3.36).

pub use crate::pooling::Pooling;
use crate::{Error, Model, Sequence, nonfinite::not_finite};

/// The names of the scores that a model's classifier gives, in order; `None` if the file does not name them.
pub fn labels(model: &Model) -> &[String] {
    model.classifier().map_or(&[], |classifier| &classifier.labels)
}

/// The way of pooling that is wanted, or that the file states.
///
/// # Errors
/// [`Error::NoPooling`] where neither says one.
pub fn pooling(model: &Model, outputs: Option<Pooling>) -> Result<Pooling, Error> {
    let no_pooling = || Error::NoPooling { key: format!("{}.pooling_type", model.architecture()) };
    outputs.or(model.pooling()).ok_or_else(no_pooling)
}

/// Vectors of texts, given as their tokens: for each text (n_rows, width) f32, row-major, where
/// there is one row, or with [`Pooling::None`] one for each token. The width is
/// [`Model::vector_width`], or with [`Pooling::Rank`] the number of scores.
///
/// # Errors
/// [`Error::NoVectors`], [`Error::TooShort`] for a text without tokens, [`Error::NoClassifier`],
/// [`Error::NotFiniteResult`], and as [`Model::run`].
pub fn embed(model: &Model, texts: &[Vec<u32>], pooling: Pooling) -> Result<Vec<Vec<f32>>, Error> {
    let row = match (pooling, model.classifier()) {
        (Pooling::Rank, None) => return Err(Error::NoClassifier),
        (Pooling::Rank, Some(classifier)) => classifier.row,
        (other, _) => other,
    };
    if model.is_encoder_decoder() {
        return Err(Error::NoVectors { architecture: model.architecture().to_owned() });
    }
    if texts.iter().any(Vec::is_empty) {
        return Err(Error::TooShort { found: 0, needed: 1 });
    }
    let mut vectors = vec![Vec::new(); texts.len()];
    // Texts of about the same length run together.
    let mut order: Vec<usize> = (0..texts.len()).collect();
    // The longest first: it decides how many run together. The results go back to the order of the call by index.
    order.sort_by_key(|i| std::cmp::Reverse(texts[*i].len()));
    let mut rest = order.as_slice();
    while let Some(longest) = rest.first().map(|i| texts[*i].len()) {
        let (batch, after) = rest.split_at(model.sequences_at_once(longest).min(rest.len()));
        rest = after;
        let sequences: Vec<Sequence<'_>> = batch.iter().map(|i| sequence(&texts[*i], row)).collect();
        let hidden = model.run(&sequences, None)?;
        for (at, i) in batch.iter().enumerate() {
            let rows = hidden.rows_of(at);
            let vector = match row {
                Pooling::None => rows.flat_map(|row| hidden.row(row).iter().copied()).collect(),
                Pooling::Mean => mean(rows.map(|row| hidden.row(row)), model.n_embd()),
                _ => hidden.row(rows.start).to_vec(),
            };
            vectors[*i] = match (pooling, model.classifier()) {
                (Pooling::Rank, Some(classifier)) => model.install(|| classifier.run(&vector)),
                _ => model.install(|| model.dense().run(vector)),
            };
            if vectors[*i].iter().any(|value| !value.is_finite()) {
                return Err(not_finite(model, format!("text {}", i + 1)));
            }
        }
    }
    Ok(vectors)
}

/// A text of at least one token, with the rows that a way of pooling looks at.
fn sequence(tokens: &[u32], row: Pooling) -> Sequence<'_> {
    let n = tokens.len();
    let outputs = match row {
        Pooling::Cls => 0..1,
        Pooling::Last => n - 1..n,
        _ => 0..n,
    };
    Sequence { tokens, outputs }
}

fn mean<'a>(rows: impl ExactSizeIterator<Item = &'a [f32]>, width: usize) -> Vec<f32> {
    // Sums in f64: the mean of thousands of rows would lose digits in f32.
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
    // x / sqrt(sum x^2).
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
    fn pooling_selects_required_rows() {
        let tokens = [5, 6, 7];
        assert_eq!(sequence(&tokens, Pooling::Cls).outputs, 0..1);
        assert_eq!(sequence(&tokens, Pooling::Last).outputs, 2..3);
        assert_eq!(sequence(&tokens, Pooling::Mean).outputs, 0..3);
        assert_eq!(mean([&[1.0, 4.0][..], &[3.0, 0.0][..]].into_iter(), 2), [2.0, 2.0]);
    }
}
