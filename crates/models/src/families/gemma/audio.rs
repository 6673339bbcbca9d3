//! Audio encoder of Gemma 4: a conformer (E2B, E4B), or one matrix over frames of samples (12B).
//!
//! Two convolutions over time and frequency with stride 2 turn a log-mel spectrogram into one row per 40 ms. A layer has two
//! feed-forward parts F whose outputs are halved, attention A and a convolution over time C:
//!
//! ```text
//! x += F_1(x) / 2        F(x) = n(W_2 silu(W_1 n(x)))
//! x += n(W A(n x))       score(i, j) = 50 tanh((q_i . k_j + q_i . r_(i - j)) / 50)     0 <= i - j < 12
//! x += W_4 silu(n(C(u sigmoid(g))))       (u, g) = W_3 n(x); C over the last 5 rows, each element by itself
//! x  = n(x + F_2(x) / 2)
//! y  = W_6 rms(W_5 x + b)                 after the last layer
//! ```
//!
//! Queries are multiplied by `softplus(s) / (ln(2) sqrt(width))`, keys by `ln(1 + e) / ln(2)`; the file contains `softplus(s)` for each
//! element of a head. `r_d` is a matrix times sines and cosines of the distance `d`.
//!
//! Source: `Gemma4AudioModel`, `Gemma4AudioFeatureExtractor` and `Gemma4UnifiedModel` of transformers 5.23. Clamping to 1e10
//! between parts of a layer is omitted.

use gguf_runtime::graphs::{
    Activation, Activations, Embedding, Error, Keys, Norm, NormKind, Pass, Rows, Seen, Weights,
    audio::{
        Bands, Dft, EncoderKind, HOP, Inner, Listener, Listening, PlaneConvolution, RATE, htk_bands,
        in_bands, n_mels,
    },
    vision::Matrix,
};

pub const ENCODERS: &[EncoderKind] =
    &[EncoderKind { name: "gemma4a", open: conformer }, EncoderKind { name: "gemma4ua", open: frames }];

/// Special tokens around a sound.
const MARKS: (&str, &str) = ("<|audio>", "<audio|>");

/// Maximum number of samples of a sound: 30 seconds.
const MAX_SAMPLES: usize = 30 * RATE as usize;

/// Samples of a window of the spectrogram, and of its transform.
const WINDOW: (usize, usize) = (320, 512);

/// Rows that a row attends to: itself and the rows before it.
const N_SEEN: usize = 12;

/// Bound of scores.
const CAP: f32 = 50.0;

/// A convolution, a norm over channels, and a rectifier.
struct Subsampling {
    convolution: PlaneConvolution,
    norm: Norm,
}

struct Layer {
    first: FeedForward,
    attention_norm: Norm,
    query: Matrix,
    key: Matrix,
    value: Matrix,
    /// Projection of the sines and cosines of distances.
    relative: Matrix,
    /// (head_width): factors of a query.
    query_scale: Vec<f32>,
    output: Matrix,
    attention_post_norm: Norm,
    convolution_norm: Norm,
    start: Matrix,
    /// (n_embd, n_kernel).
    kernel: Vec<f32>,
    kernel_norm: Norm,
    end: Matrix,
    second: FeedForward,
    norm: Norm,
}

struct FeedForward {
    norm: Norm,
    up: Matrix,
    down: Matrix,
    post_norm: Norm,
}

struct Conformer {
    bands: Bands,
    dft: Dft,
    subsampling: [Subsampling; 2],
    input: Matrix,
    n_head: usize,
    layers: Vec<Layer>,
    output: Matrix,
    projector: Projector,
}

/// A norm without weights and a matrix.
struct Projector {
    norm: Norm,
    matrix: Matrix,
}

impl Projector {
    fn open(weights: &mut Weights<'_>, epsilon: f32, n_in: usize, n_out: usize) -> Result<Projector, Error> {
        let norm = Norm { kind: NormKind::Rms, epsilon, weight: None, bias: None };
        Ok(Projector { norm, matrix: Matrix::need(weights, "mm.a.input_projection", n_in, n_out)? })
    }

    fn run(&self, mut x: Rows, pass: &mut Pass<'_, '_>) -> Embedding {
        self.norm.apply(&mut x);
        let rows = self.matrix.run(&x, pass).detached();
        Embedding { rows, deep: Vec::new(), grid: None, seen: Seen::Before }
    }
}

fn norm(
    weights: &mut Weights<'_>,
    kind: NormKind,
    epsilon: f32,
    name: &str,
    n: usize,
) -> Result<Norm, Error> {
    let weight = Some(weights.need_vector(&format!("{name}.weight"), n)?);
    Ok(Norm { kind, epsilon, weight, bias: None })
}

/// Reads the conformer.
fn conformer(keys: &Keys<'_>, weights: &mut Weights<'_>, n_out: usize) -> Result<Listening, Error> {
    let n_embd = keys.need_count("audio.embedding_length")?;
    let n_ff = keys.need_count("audio.feed_forward_length")?;
    let n_layer = keys.need_count("audio.block_count")?;
    if n_layer > weights.n_tensors() {
        return Err(keys.wrong("audio.block_count", "at most the number of tensors"));
    }
    let n_head = keys.need_count("audio.attention.head_count")?;
    if n_head == 0 || n_embd == 0 || !n_embd.is_multiple_of(n_head) {
        return Err(keys.wrong("audio.attention.head_count", "a part of the embedding's length"));
    }
    let n_mels = n_mels(keys)?;
    let epsilon = keys.need_float("audio.attention.layer_norm_epsilon")?;
    let mut subsampling = |i: usize, n_in: usize| -> Result<Subsampling, Error> {
        let convolution = PlaneConvolution::open(weights, &format!("a.conv1d.{i}"), n_in, Inner::Frequency)?;
        let name = format!("a.conv1d.{i}.norm");
        let norm = norm(weights, NormKind::Layer, epsilon, &name, convolution.n_out())?;
        Ok(Subsampling { convolution, norm })
    };
    let first = subsampling(0, 1)?;
    let second = subsampling(1, first.convolution.n_out())?;
    let n_channels = second.convolution.n_out();
    let subsampling = [first, second];
    let n_flat = n_mels.div_ceil(2).div_ceil(2).saturating_mul(n_channels);
    let input = Matrix::need(weights, "a.input_projection", n_flat, n_embd)?;
    let layers = (0..n_layer).map(|i| Layer::open(weights, i, n_embd, n_ff, n_embd / n_head, epsilon));
    let layers = layers.collect::<Result<Vec<_>, Error>>()?;
    let n_inner = weights.shape("a.pre_encode.out.weight").map_or(0, |shape| shape.dim(1) as usize);
    let output = Matrix::need(weights, "a.pre_encode.out", n_embd, n_inner)?;
    let projector = Projector::open(weights, epsilon, n_inner, n_out)?;
    let dft = Dft::hann(WINDOW.1, WINDOW.0);
    let bands = htk_bands(n_mels, dft.n_bins(), f64::from(RATE));
    let listener = Box::new(Conformer { bands, dft, subsampling, input, n_head, layers, output, projector });
    Ok(Listening { listener, rate: RATE, max_samples: Some(MAX_SAMPLES), marks: MARKS })
}

impl Subsampling {
    /// `x (n_time, n_frequency * n_in) -> (n_time / 2, n_frequency / 2 * n_out)`, each rounded up.
    fn run(&self, x: &Rows) -> Rows {
        let mut out = self.convolution.run(x);
        self.norm.apply_groups(&mut out, self.convolution.n_out());
        out.map(|x| x.max(0.0));
        out
    }
}

impl FeedForward {
    fn open(
        weights: &mut Weights<'_>,
        blk: &str,
        end: &str,
        [n_embd, n_ff]: [usize; 2],
        epsilon: f32,
    ) -> Result<FeedForward, Error> {
        let name = |part: &str| format!("{blk}.{part}{end}");
        Ok(FeedForward {
            norm: norm(weights, NormKind::Rms, epsilon, &name("ffn_norm"), n_embd)?,
            up: Matrix::need(weights, &name("ffn_up"), n_embd, n_ff)?,
            down: Matrix::need(weights, &name("ffn_down"), n_ff, n_embd)?,
            post_norm: norm(weights, NormKind::Rms, epsilon, &name("ffn_post_norm"), n_embd)?,
        })
    }

    /// Adds half of its output to `x` (n, n_embd).
    fn run(&self, x: &mut Rows, pass: &mut Pass<'_, '_>) {
        let mut h = pass.scratch(x.nrows(), x.ncols());
        self.norm.apply_into(x, &mut h);
        let mut inner = self.up.run(&h, pass);
        Activation::Silu.apply(&mut inner);
        let mut made = self.down.run(&inner, pass);
        self.post_norm.apply(&mut made);
        x.add_scaled(0.5, &made);
    }
}

/// Sines and cosines of distances 0 to `N_SEEN - 1`: (N_SEEN, n_embd).
fn positions(n_embd: usize) -> Rows {
    let half = n_embd / 2;
    let step = libm::logf(10000.0) / (half.max(2) - 1) as f32;
    let mut rows = Rows::zeros(N_SEEN, n_embd);
    for (distance, mut row) in rows.rows_mut().into_iter().enumerate() {
        for i in 0..half {
            let (sin, cos) = libm::sincosf(distance as f32 * libm::expf(-step * i as f32));
            (row[i], row[half + i]) = (sin, cos);
        }
    }
    rows
}

impl Layer {
    fn open(
        weights: &mut Weights<'_>,
        i: usize,
        n_embd: usize,
        n_ff: usize,
        head_width: usize,
        epsilon: f32,
    ) -> Result<Layer, Error> {
        let blk = format!("a.blk.{i}");
        let name = |part: &str| format!("{blk}.{part}");
        let scale = 1.0 / ((head_width as f32).sqrt() * std::f32::consts::LN_2);
        let query_scale = weights.need_vector(&name("per_dim_scale.weight"), head_width)?;
        let kernel = name("conv_dw.weight");
        let n_kernel = weights.shape(&kernel).map_or(0, |shape| shape.dim(0) as usize);
        if n_kernel == 0 || n_kernel > 64 {
            return Err(Error::MissingTensor { name: kernel });
        }
        let rms = |weights: &mut Weights<'_>, part: &str| {
            norm(weights, NormKind::Rms, epsilon, &format!("{blk}.{part}"), n_embd)
        };
        Ok(Layer {
            first: FeedForward::open(weights, &blk, "", [n_embd, n_ff], epsilon)?,
            attention_norm: rms(weights, "attn_pre_norm")?,
            query: Matrix::need(weights, &name("attn_q"), n_embd, n_embd)?,
            key: Matrix::need(weights, &name("attn_k"), n_embd, n_embd)?,
            value: Matrix::need(weights, &name("attn_v"), n_embd, n_embd)?,
            relative: Matrix::need(weights, &name("attn_k_rel"), n_embd, n_embd)?,
            query_scale: query_scale.into_iter().map(|factor| factor * scale).collect(),
            output: Matrix::need(weights, &name("attn_out"), n_embd, n_embd)?,
            attention_post_norm: rms(weights, "attn_post_norm")?,
            convolution_norm: rms(weights, "conv_norm")?,
            start: Matrix::need(weights, &name("conv_pw1"), n_embd, n_embd.saturating_mul(2))?,
            kernel: weights.need_vector(&kernel, n_kernel.saturating_mul(n_embd))?,
            kernel_norm: rms(weights, "norm_conv")?,
            end: Matrix::need(weights, &name("conv_pw2"), n_embd, n_embd)?,
            second: FeedForward::open(weights, &blk, "_1", [n_embd, n_ff], epsilon)?,
            norm: rms(weights, "ln2")?,
        })
    }

    /// Replaces `x` (n, n_embd) by the output of the layer.
    fn run(&self, n_head: usize, positions: &Rows, x: &mut Rows, pass: &mut Pass<'_, '_>) {
        self.first.run(x, pass);
        let mut h = pass.scratch(x.nrows(), x.ncols());
        self.attention_norm.apply_into(x, &mut h);
        let attended = self.attend(n_head, positions, &h, pass);
        let mut mixed = self.output.run(&attended, pass);
        self.attention_post_norm.apply(&mut mixed);
        x.add_scaled(1.0, &mixed);

        self.convolution_norm.apply_into(x, &mut h);
        let both = self.start.run(&h, pass);
        let mut gated = pass.scratch(x.nrows(), x.ncols());
        Activation::Sigmoid.apply_halves(&both, false, &mut gated);
        let mut mixed = self.convolve(&gated);
        self.kernel_norm.apply(&mut mixed);
        Activation::Silu.apply(&mut mixed);
        x.add_scaled(1.0, &self.end.run(&mixed, pass));

        self.second.run(x, pass);
        self.norm.apply(x);
    }

    /// Attention of each row to the last `N_SEEN`: `h (n, n_embd) -> (n, n_embd)`.
    fn attend(&self, n_head: usize, positions: &Rows, h: &Rows, pass: &mut Pass<'_, '_>) -> Rows {
        let [query, key, value] = [&self.query, &self.key, &self.value].map(|matrix| matrix.run(h, pass));
        let (n, width) = (h.nrows(), h.ncols() / n_head.max(1));
        let key_scale = libm::log1pf(std::f32::consts::E) / std::f32::consts::LN_2;
        let mut out = pass.zeros(n, h.ncols());
        let (query, key, value) = (query.as_slice(), key.as_slice(), value.as_slice());
        let relative = self.relative.run(positions, pass);
        let relative = relative.as_slice();
        let all = h.ncols();
        for (i, row) in out.as_mut_slice().chunks_exact_mut(all.max(1)).enumerate() {
            for (head, out) in row.chunks_exact_mut(width.max(1)).enumerate() {
                let part = |rows: usize| rows * all + head * width..rows * all + (head + 1) * width;
                let own = query[part(i)].iter().zip(&self.query_scale);
                let own: Vec<f32> = own.map(|(q, scale)| q * scale).collect();
                let n_seen = N_SEEN.min(i + 1);
                let score = |distance: usize| {
                    let keys = key[part(i - distance)].iter().zip(&relative[part(distance)]);
                    let sum: f32 = own.iter().zip(keys).map(|(q, (k, r))| q * (k * key_scale + r)).sum();
                    CAP * libm::tanhf(sum / CAP)
                };
                let mut scores: Vec<f32> = (0..n_seen).map(score).collect();
                let most = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
                scores.iter_mut().for_each(|score| *score = libm::expf(*score - most));
                let total: f32 = scores.iter().sum();
                for (distance, score) in scores.iter().enumerate() {
                    let values = &value[part(i - distance)];
                    out.iter_mut().zip(values).for_each(|(out, value)| *out += score / total * value);
                }
            }
        }
        out
    }

    /// The convolution over the last rows: `x (n, n_embd) -> (n, n_embd)`.
    fn convolve(&self, x: &Rows) -> Rows {
        let n_kernel = self.kernel.len() / x.ncols().max(1);
        let mut out = Rows::zeros(x.nrows(), x.ncols());
        for (t, mut row) in out.rows_mut().into_iter().enumerate() {
            for (k, from) in
                (0..n_kernel).filter_map(|k| (t + k + 1).checked_sub(n_kernel).map(|from| (k, from)))
            {
                for (channel, value) in row.iter_mut().enumerate() {
                    *value += self.kernel[channel * n_kernel + k] * x[[from, channel]];
                }
            }
        }
        out
    }
}

impl Conformer {
    /// Logarithms of magnitudes in mel bands: `samples (n) -> (n_frames, n_mels)`. Half a window of silence precedes the sound. A
    /// frame exists if at least one sample follows its window.
    fn spectrogram(&self, samples: &[f32]) -> Rows {
        let before = WINDOW.0 / 2;
        let n_frames = match (samples.len() + before).checked_sub(WINDOW.0 + 1) {
            None => 0,
            Some(rest) => rest / HOP + 1,
        };
        let mut values = Vec::with_capacity(n_frames * self.bands.len());
        for t in 0..n_frames {
            let sample = |i: usize| {
                let at = (t * HOP + i).checked_sub(before);
                at.and_then(|at| samples.get(at)).map_or(0.0, |sample| f64::from(*sample))
            };
            let magnitudes: Vec<f64> = self.dft.power(sample).iter().map(|power| power.sqrt()).collect();
            values.extend(in_bands(&magnitudes, &self.bands).map(|sum| libm::log(sum + 1e-3) as f32));
        }
        Rows::from_vec(n_frames, self.bands.len(), values)
    }
}

impl Listener for Conformer {
    fn run(&self, samples: &[f32], activations: Activations) -> Result<Embedding, Error> {
        let [first, second] = &self.subsampling;
        let x = second.run(&first.run(&self.spectrogram(samples)));
        let mut pass = Pass::over_rows(x.nrows(), activations);
        let mut x = self.input.run(&x, &mut pass);
        let positions = positions(x.ncols());
        for layer in &self.layers {
            layer.run(self.n_head, &positions, &mut x, &mut pass);
        }
        let x = self.output.run(&x, &mut pass);
        Ok(self.projector.run(x, &mut pass))
    }
}

/// Frames of samples, each of which is an embedding.
struct Frames {
    n_samples: usize,
    projector: Projector,
}

/// Reads the matrix of frames.
fn frames(keys: &Keys<'_>, weights: &mut Weights<'_>, n_out: usize) -> Result<Listening, Error> {
    let epsilon = keys.need_float("audio.attention.layer_norm_epsilon")?;
    let n_samples = keys.need_count("audio.embedding_length")?;
    if n_samples == 0 {
        return Err(keys.wrong("audio.embedding_length", "1 or more"));
    }
    let projector = Projector::open(weights, epsilon, n_samples, n_out)?;
    let listener = Box::new(Frames { n_samples, projector });
    Ok(Listening { listener, rate: RATE, max_samples: None, marks: MARKS })
}

impl Listener for Frames {
    fn run(&self, samples: &[f32], activations: Activations) -> Result<Embedding, Error> {
        let n = samples.len().div_ceil(self.n_samples);
        let mut values = samples.to_vec();
        values.resize(n * self.n_samples, 0.0);
        let x = Rows::from_vec(n, self.n_samples, values);
        Ok(self.projector.run(x, &mut Pass::over_rows(n, activations)))
    }
}
