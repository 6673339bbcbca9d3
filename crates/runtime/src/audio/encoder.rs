//! Whisper's encoder in a projector: two convolutions, the second with stride 2, and layers of attention.
//!
//! Positions are learned, or queries and keys are rotated. The final norm is a separate step, because some families pool rows before
//! the norm.
//!
//! Source: `WhisperEncoder` of transformers 5.23; `tools/mtmd/models/whisper-enc.cpp` of llama.cpp (llama-cpp-python
//! 0.3.36).

use crate::{
    Error,
    audio::convolution::Convolution,
    cross_attention::{Heads, Layer, Projections},
    decoder::Mlp,
    keys::Keys,
    ops::{Activation, Mask, Norm, NormKind, Rope, Rows},
    pass::Pass,
    weights::{Weight, Weights},
};

/// Layers of attention.
pub struct Layers {
    /// Elements of a row.
    pub n_embd: usize,
    /// Elements of a head.
    pub head_width: usize,
    /// Epsilon of every norm.
    pub epsilon: f32,
    heads: Heads,
    layers: Vec<Layer>,
}

/// An encoder with its weights.
pub struct Encoder {
    /// Mel bands.
    pub n_mels: usize,
    /// The layers.
    pub layers: Layers,
    /// (n_mels, n_embd), then (n_embd, n_embd) over every other frame.
    convolutions: [Convolution; 2],
    /// (n_positions, n_embd): learned positions.
    positions: Option<Weight>,
}

/// Maximum numbers of mel bands and positions; Whisper has up to 128 and 1500.
const MOST: (usize, usize) = (1024, 1 << 16);

/// Number of mel bands of the encoder's spectrograms, from 1 to 1024.
///
/// # Errors
/// [`Error::Key`].
pub fn n_mels(keys: &Keys<'_>) -> Result<usize, Error> {
    let n_mels = keys.need_count("audio.num_mel_bins")?;
    if (1..=MOST.0).contains(&n_mels) {
        Ok(n_mels)
    } else {
        Err(keys.wrong("audio.num_mel_bins", "a number from 1 to 1024"))
    }
}

impl Layers {
    /// Reads the layers. With `rope`, heads are rotated; its argument is their width.
    ///
    /// # Errors
    /// [`Error::Key`], [`Error::MissingTensor`], [`Error::TensorShape`], [`Error::TensorType`].
    pub fn open(
        keys: &Keys<'_>,
        weights: &mut Weights<'_>,
        rope: Option<fn(usize) -> Rope>,
    ) -> Result<Layers, Error> {
        let n_embd = keys.need_count("audio.embedding_length")?;
        // Tables of the rotation are made before the matrices are looked up.
        if n_embd > weights.longest_row() {
            return Err(keys.wrong("audio.embedding_length", "at most the longest row of a tensor"));
        }
        let n_layer = keys.need_count("audio.block_count")?;
        // The list of layers is allocated before their tensors are looked up.
        if n_layer > weights.n_tensors() {
            return Err(keys.wrong("audio.block_count", "at most the number of tensors"));
        }
        let n_head = keys.need_count("audio.attention.head_count")?;
        if n_head == 0 || n_embd == 0 || !n_embd.is_multiple_of(n_head) {
            return Err(keys.wrong("audio.attention.head_count", "a part of the embedding's length"));
        }
        let head_width = n_embd / n_head;
        let scale = 1.0 / (head_width as f32).sqrt();
        let heads = Heads { n_head, key_width: head_width, value_width: head_width, scale };
        let epsilon = keys.need_float("audio.attention.layer_norm_epsilon")?;
        let rope = rope.map(|rope| rope(head_width));
        let layer = |i: usize| {
            let blk = |name: &str| format!("a.blk.{i}.{name}");
            let names = ["gate", "up", "down"].map(|part| blk(&format!("ffn_{part}")));
            Ok(Layer {
                attention_norm: norm(weights, &blk("ln1"), n_embd, epsilon)?,
                attention: Projections::open(weights, &blk("attn"), "out", n_embd, heads)?,
                rope: rope.clone(),
                cross: None,
                mlp_norm: norm(weights, &blk("ln2"), n_embd, epsilon)?,
                mlp: Mlp::open(Activation::GeluErf, n_embd, weights, names)?,
            })
        };
        let layers = (0..n_layer).map(layer).collect::<Result<Vec<_>, Error>>()?;
        Ok(Layers { n_embd, head_width, epsilon, heads, layers })
    }

    /// Runs the layers over the rows of a pass: `x (n, n_embd) -> (n, n_embd)`. Rows of a span attend to each other.
    pub fn run(&self, mut x: Rows, pass: &mut Pass<'_, '_>) -> Rows {
        let own = self.heads.attention(Mask::All);
        for (i, layer) in self.layers.iter().enumerate() {
            layer.run(i, &mut x, &own, None, pass);
        }
        x
    }

    /// Reads a layer norm over `n` elements, with the epsilon of the layers.
    ///
    /// # Errors
    /// [`Error::MissingTensor`], [`Error::TensorShape`].
    pub fn norm(&self, weights: &mut Weights<'_>, name: &str, n: usize) -> Result<Norm, Error> {
        norm(weights, name, n, self.epsilon)
    }
}

impl Encoder {
    /// Reads the encoder. With `rope`, heads are rotated instead of using learned positions; its argument is their width.
    ///
    /// # Errors
    /// [`Error::Key`], [`Error::MissingTensor`], [`Error::TensorShape`], [`Error::TensorType`].
    pub fn open(
        keys: &Keys<'_>,
        weights: &mut Weights<'_>,
        rope: Option<fn(usize) -> Rope>,
    ) -> Result<Encoder, Error> {
        let layers = Layers::open(keys, weights, rope)?;
        let (n_embd, n_mels) = (layers.n_embd, n_mels(keys)?);
        let convolutions = [
            Convolution::open(weights, "a.conv1d.1", n_mels, n_embd, 1)?,
            Convolution::open(weights, "a.conv1d.2", n_embd, n_embd, 2)?,
        ];
        let name = "a.position_embd.weight";
        let positions = match rope {
            None => {
                let n = weights.shape(name).map_or(0, |shape| shape.dim(1) as usize);
                if n == 0 || n > MOST.1 {
                    return Err(Error::MissingTensor { name: name.to_owned() });
                }
                Some(weights.need_matrix(name, n_embd, n)?)
            }
            Some(_) => {
                // Files of rotated encoders have learned positions, too.
                weights.ignore(name);
                None
            }
        };
        Ok(Encoder { n_mels, layers, convolutions, positions })
    }

    /// Number of frames of a window, if learned positions limit it.
    pub fn n_frames(&self) -> Option<usize> {
        self.positions.as_ref().map(|positions| 2 * positions.n_out)
    }

    /// `frames (n, n_mels) -> (n / 2, n_embd)` with the quotient rounded up: a row for every other frame.
    pub fn convolve(&self, frames: &Rows) -> Rows {
        let [first, second] = &self.convolutions;
        second.run(first.run(frames.view()).view())
    }

    /// Adds learned positions, if there are any, and runs the layers over the rows of a pass: `x (n, n_embd) -> (n, n_embd)`.
    ///
    /// # Errors
    /// [`Error::TooLong`] for more rows than positions.
    pub fn run(&self, mut x: Rows, pass: &mut Pass<'_, '_>) -> Result<Rows, Error> {
        if let Some(positions) = &self.positions {
            x.add_scaled(1.0, &pass.embed_positions(positions)?);
        }
        Ok(self.layers.run(x, pass))
    }
}

fn norm(weights: &mut Weights<'_>, name: &str, n: usize, epsilon: f32) -> Result<Norm, Error> {
    let mut need = |part: &str| weights.need_vector(&format!("{name}.{part}"), n);
    let (weight, bias) = (Some(need("weight")?), Some(need("bias")?));
    Ok(Norm { kind: NormKind::Layer, epsilon, weight, bias })
}

/// Joins each `factor` rows to one, the last one padded with zeros: `x (n, width) -> (ceil(n / factor), factor * width)`.
pub fn stacked(x: &Rows, factor: usize) -> Rows {
    let width = x.ncols().saturating_mul(factor);
    let n = x.nrows().div_ceil(factor.max(1));
    let mut values = x.as_slice().to_vec();
    values.resize(n * width, 0.0);
    Rows::from_vec(n, width, values)
}

/// Means of pairs of rows: `x (n, width) -> (n / 2, width)`. An odd last row is dropped.
pub fn pooled(x: &Rows) -> Rows {
    let width = x.ncols().max(1);
    let pairs = x.as_slice().chunks_exact(2 * width);
    let mean = |pair: &[f32]| -> Vec<f32> {
        let (first, second) = pair.split_at(width);
        first.iter().zip(second).map(|(a, b)| (a + b) / 2.0).collect()
    };
    Rows::from_vec(x.nrows() / 2, x.ncols(), pairs.flat_map(mean).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_stacked_and_pooled() {
        let x = Rows::from_vec(3, 2, vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        assert_eq!(stacked(&x, 2).as_slice(), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 0.0, 0.0]);
        assert_eq!(pooled(&x).as_slice(), [2.0, 3.0]);
    }
}
