//! Audio encoder of Qwen 3 ASR and Qwen 3 Omni: three convolutions over time and frequency, and Whisper's layers.
//!
//! ```text
//! x = W c(c(c(s))) + p_t             c(x) = gelu(convolution with stride 2); s 100 frames, x 13 rows
//! y = W_2 gelu(W_1 n(x) + b_1) + b_2
//! ```
//!
//! Parts of 100 frames are convolved separately, and their rows have the positions `p` 0 to 12. Rows of the same 800 frames attend
//! to each other.
//!
//! Source: `Qwen3ASREncoder`, `Qwen3ASRMultiModalProjector` and `Qwen3ASRFeatureExtractor` of transformers 5.23.

use gguf_runtime::graphs::{
    Activation, Activations, Embedding, Error, Keys, Linear, Norm, Pass, Rows, Seen, Weights,
    audio::{EncoderKind, Inner, Layers, Listener, Listening, LogMel, PlaneConvolution, RATE, n_mels},
};

use crate::families::whisper::audio::two_matrices;

pub const ENCODERS: &[EncoderKind] = &[EncoderKind { name: "qwen3a", open }];

/// Frames of a part.
const PART: usize = 100;

/// Parts whose rows attend to each other.
const N_PARTS: usize = 8;

/// Minimum number of samples. Shorter sounds are padded with silence.
const MIN_SAMPLES: usize = 8000;

struct Qwen3a {
    mel: LogMel,
    convolutions: [PlaneConvolution; 3],
    join: Linear,
    /// (ROWS, n_embd): positions of a part.
    positions: Rows,
    layers: Layers,
    norm: Norm,
    projector: [Linear; 2],
}

/// Length after three halvings, each rounded up.
fn halved(n: usize) -> usize {
    n.div_ceil(2).div_ceil(2).div_ceil(2)
}

fn open(keys: &Keys<'_>, weights: &mut Weights<'_>, n_out: usize) -> Result<Listening, Error> {
    let layers = Layers::open(keys, weights, None)?;
    let (n_embd, n_mels) = (layers.n_embd, n_mels(keys)?);
    let mut convolution =
        |i: usize, n_in: usize| PlaneConvolution::open(weights, &format!("a.conv2d.{i}"), n_in, Inner::Time);
    let first = convolution(1, 1)?;
    let second = convolution(2, first.n_out())?;
    let third = convolution(3, second.n_out())?;
    let n_joined = halved(n_mels).saturating_mul(third.n_out());
    let join = Linear::need(weights, "a.conv_out", n_joined, n_embd)?;
    let name = "a.position_embd.weight";
    let n_positions = weights.shape(name).map_or(0, |shape| shape.dim(1) as usize);
    if n_positions < halved(PART) {
        return Err(Error::MissingTensor { name: name.to_owned() });
    }
    let positions = weights.need_matrix(name, n_embd, n_positions)?;
    let places: Vec<u32> = (0..halved(PART) as u32).collect();
    let positions = Pass::over_rows(0, Activations::F32).rows_of(&positions, &places).detached();
    let norm = layers.norm(weights, "a.post_ln", n_embd)?;
    let first_matrix = Linear::need(weights, "mm.a.mlp.1", n_embd, n_embd)?;
    let projector = [first_matrix, Linear::need(weights, "mm.a.mlp.2", n_embd, n_out)?];
    let mel = LogMel::whisper(n_mels);
    let convolutions = [first, second, third];
    let listener = Box::new(Qwen3a { mel, convolutions, join, positions, layers, norm, projector });
    Ok(Listening { listener, rate: RATE, max_samples: None, marks: ("<|audio_start|>", "<|audio_end|>") })
}

impl Qwen3a {
    /// Rows of a part of a spectrogram: `frames (PART, n_mels) -> (ROWS, frequencies * channels)`, channels first.
    fn convolve(&self, frames: Rows) -> Rows {
        let mut x = frames;
        for convolution in &self.convolutions {
            x = convolution.run(&x);
            Activation::GeluErf.apply(&mut x);
        }
        let n_channels = self.convolutions[2].n_out();
        let n_frequencies = x.ncols() / n_channels;
        let mut out = Rows::zeros(x.nrows(), x.ncols());
        for (from, mut to) in x.rows().into_iter().zip(out.rows_mut()) {
            for (i, value) in from.iter().enumerate() {
                to[i % n_channels * n_frequencies + i / n_channels] = *value;
            }
        }
        out
    }
}

impl Listener for Qwen3a {
    fn run(&self, samples: &[f32], activations: Activations) -> Result<Embedding, Error> {
        let mut samples = samples.to_vec();
        samples.resize(samples.len().max(MIN_SAMPLES), 0.0);
        let frames = self.mel.run(&samples);
        let n_mels = frames.ncols();
        let mut values = Vec::new();
        for part in frames.as_slice().chunks(PART * n_mels) {
            let n_rows = halved(part.len() / n_mels);
            let mut part = part.to_vec();
            part.resize(PART * n_mels, 0.0);
            let x = self.convolve(Rows::from_vec(PART, n_mels, part));
            let mut x = self.join.run(&x, &mut Pass::over_rows(x.nrows(), activations));
            x.add_scaled(1.0, &self.positions);
            values.extend_from_slice(&x.as_slice()[..n_rows * x.ncols()]);
        }
        let n_embd = self.layers.n_embd;
        let x = Rows::from_vec(values.len() / n_embd, n_embd, values);
        let mut pass = Pass::over_windows(x.nrows(), N_PARTS * halved(PART), activations);
        let mut x = self.layers.run(x, &mut pass);
        self.norm.apply(&mut x);
        let rows = two_matrices(&x, &self.projector, &mut pass).detached();
        Ok(Embedding { rows, deep: Vec::new(), grid: None, seen: Seen::Before })
    }
}
