//! Whisper's encoder with the projectors of multimodal models: Qwen 2 Audio, Audio Flamingo 3, Voxtral, Ultravox.
//!
//! ```text
//! y = W n(pool_2(x)) + b                        Qwen 2 Audio; x rows of the encoder's layers, n its final norm
//! y = W_2 gelu(W_1 n(pool_2(x)) + b_1) + b_2    Audio Flamingo 3
//! y = W_2 gelu(W_1 [n(x)]_4)                    Voxtral; [..]_4: four rows as one
//! y = W_2 r(silu(g) u), (u, g) = W_1 r([n(x)]_8)    Ultravox; r an RMS norm
//! ```
//!
//! Families differ in the silence after the end of a sound. In Qwen 2 Audio and Audio Flamingo 3 no row attends to it, Voxtral has
//! embeddings, and Ultravox does not pad a sound.
//!
//! Source: `Qwen2AudioModel`, `AudioFlamingo3Model` and `VoxtralModel` with their processors, of transformers 5.23;
//! `ultravox_model.py` and `ultravox_processing.py` of fixie-ai/ultravox.

use gguf_runtime::graphs::{
    Activation, Activations, Embedding, Error, Keys, Linear, Norm, NormKind, Pass, Rows, Seen, Weights,
    audio::{
        Division, Encoder, EncoderKind, HOP, Listener, Listening, LogMel, RATE, pooled, stacked, windows,
    },
};

pub const ENCODERS: &[EncoderKind] = &[
    EncoderKind { name: "qwen2a", open: qwen2a },
    EncoderKind { name: "musicflamingo", open: musicflamingo },
    EncoderKind { name: "voxtral", open: voxtral },
    EncoderKind { name: "ultravox", open: ultravox },
];

/// Epsilon of Ultravox's norms, which no key states.
const ULTRAVOX_EPSILON: f32 = 1e-6;

/// Rows of silence after the end of a sound.
#[derive(Clone, Copy)]
pub enum Silence {
    /// They are handled like the sound.
    Heard,
    /// They are removed after the convolutions.
    Unseen,
    /// Their embeddings are removed. One embedding has this number of rows.
    Cut(usize),
}

/// Function from the rows of the encoder to embeddings.
pub type Adapter = Box<dyn Fn(Rows, &mut Pass<'_, '_>) -> Rows + Send + Sync>;

/// An encoder with a projector.
pub struct Whisper {
    /// The encoder.
    pub encoder: Encoder,
    /// Frames of a window.
    pub n_frames: usize,
    /// Division of a sound into windows.
    pub division: Division,
    /// Rows after the end of a sound.
    pub silence: Silence,
    /// The projector, with the final norm of the encoder.
    pub adapter: Adapter,
}

impl Whisper {
    /// Result of opening a file: with the maximum number of windows of the family's processor, and the special tokens around a sound.
    pub fn listening(self, max_windows: Option<usize>, marks: (&'static str, &'static str)) -> Listening {
        let mel = LogMel::whisper(self.encoder.n_mels);
        let max_samples = max_windows.map(|n| n * self.n_frames * HOP);
        Listening { listener: Box::new(Hearing(self, mel)), rate: RATE, max_samples, marks }
    }
}

/// An encoder with its spectrogram.
struct Hearing(Whisper, LogMel);

impl Listener for Hearing {
    fn run(&self, samples: &[f32], activations: Activations) -> Result<Embedding, Error> {
        let Hearing(Whisper { encoder, n_frames, division, silence, adapter }, mel) = self;
        let (mut values, mut width) = (Vec::new(), 0);
        for window in windows(samples, mel, *n_frames, *division) {
            let mut x = encoder.convolve(&window.frames);
            let n_heard = window.n_heard.div_ceil(2);
            if let Silence::Unseen = silence {
                x = x.select_rows(&(0..n_heard.min(x.nrows())).collect::<Vec<_>>());
            }
            let mut pass = Pass::over_rows(x.nrows(), activations);
            let x = encoder.run(x, &mut pass)?;
            let made = adapter(x, &mut pass);
            width = made.ncols();
            let n_kept = match silence {
                Silence::Cut(n) => (n_heard / n).min(made.nrows()),
                _ => made.nrows(),
            };
            values.extend_from_slice(&made.as_slice()[..n_kept * width]);
        }
        let rows = Rows::from_vec(values.len() / width.max(1), width, values);
        Ok(Embedding { rows, deep: Vec::new(), grid: None, seen: Seen::Before })
    }
}

/// Reads an encoder with learned positions: the encoder, the number of frames of a window, and the final norm.
pub fn encoder(keys: &Keys<'_>, weights: &mut Weights<'_>) -> Result<(Encoder, usize, Norm), Error> {
    let encoder = Encoder::open(keys, weights, None)?;
    let n_frames = encoder.n_frames().unwrap_or(0);
    let norm = encoder.layers.norm(weights, "a.post_ln", encoder.layers.n_embd)?;
    Ok((encoder, n_frames, norm))
}

/// Number of rows that become one, from 1 to 256.
pub fn stack_factor(keys: &Keys<'_>) -> Result<usize, Error> {
    let key = "audio.projector.stack_factor";
    let factor = keys.need_count(key)?;
    if (1..=256).contains(&factor) { Ok(factor) } else { Err(keys.wrong(key, "a number from 1 to 256")) }
}

/// The product with one matrix, GELU, and the product with another.
pub fn two_matrices(x: &Rows, [first, second]: &[Linear; 2], pass: &mut Pass<'_, '_>) -> Rows {
    let mut inner = first.run(x, pass);
    Activation::GeluErf.apply(&mut inner);
    second.run(&inner, pass)
}

fn qwen2a(keys: &Keys<'_>, weights: &mut Weights<'_>, n_out: usize) -> Result<Listening, Error> {
    let (encoder, n_frames, norm) = encoder(keys, weights)?;
    let matrix = Linear::need(weights, "mm.a.fc", encoder.layers.n_embd, n_out)?;
    let adapter: Adapter = Box::new(move |x, pass| {
        let mut x = pooled(&x);
        norm.apply(&mut x);
        matrix.run(&x, pass)
    });
    let (division, silence) = (Division::Apart, Silence::Unseen);
    let whisper = Whisper { encoder, n_frames, division, silence, adapter };
    Ok(whisper.listening(Some(1), ("<|audio_bos|>", "<|audio_eos|>")))
}

fn musicflamingo(keys: &Keys<'_>, weights: &mut Weights<'_>, n_out: usize) -> Result<Listening, Error> {
    let (encoder, n_frames, norm) = encoder(keys, weights)?;
    let first = Linear::need(weights, "mm.a.mlp.1", encoder.layers.n_embd, n_out)?;
    let matrices = [first, Linear::need(weights, "mm.a.mlp.2", n_out, n_out)?];
    let adapter: Adapter = Box::new(move |x, pass| {
        let mut x = pooled(&x);
        norm.apply(&mut x);
        two_matrices(&x, &matrices, pass)
    });
    let (division, silence) = (Division::Apart, Silence::Unseen);
    let whisper = Whisper { encoder, n_frames, division, silence, adapter };
    // Ten minutes.
    Ok(whisper.listening(Some(20), ("", "")))
}

fn voxtral(keys: &Keys<'_>, weights: &mut Weights<'_>, n_out: usize) -> Result<Listening, Error> {
    let (encoder, n_frames, norm) = encoder(keys, weights)?;
    let factor = stack_factor(keys)?;
    let first = Linear::need(weights, "mm.a.mlp.1", encoder.layers.n_embd * factor, n_out)?;
    let matrices = [first, Linear::need(weights, "mm.a.mlp.2", n_out, n_out)?];
    let adapter: Adapter = Box::new(move |mut x, pass| {
        norm.apply(&mut x);
        two_matrices(&stacked(&x, factor), &matrices, pass)
    });
    let (division, silence) = (Division::Padded, Silence::Heard);
    let whisper = Whisper { encoder, n_frames, division, silence, adapter };
    Ok(whisper.listening(None, ("[BEGIN_AUDIO]", "")))
}

fn ultravox(keys: &Keys<'_>, weights: &mut Weights<'_>, n_out: usize) -> Result<Listening, Error> {
    let (encoder, n_frames, norm) = encoder(keys, weights)?;
    let factor = stack_factor(keys)?;
    let n_stacked = encoder.layers.n_embd * factor;
    let rms = |weights: &mut Weights<'_>, name: &str, n: usize| -> Result<Norm, Error> {
        let weight = weights.need_vector(&format!("{name}.weight"), n)?;
        Ok(Norm { kind: NormKind::Rms, epsilon: ULTRAVOX_EPSILON, weight: Some(weight), bias: None })
    };
    let before = rms(weights, "mm.a.norm_pre", n_stacked)?;
    let n_inner = weights.shape("mm.a.mlp.2.weight").map_or(0, |shape| shape.dim(0) as usize);
    let first = Linear::need(weights, "mm.a.mlp.1", n_stacked, n_inner.saturating_mul(2))?;
    let between = rms(weights, "mm.a.norm_mid", n_inner)?;
    let second = Linear::need(weights, "mm.a.mlp.2", n_inner, n_out)?;
    let adapter: Adapter = Box::new(move |mut x, pass| {
        norm.apply(&mut x);
        let mut x = stacked(&x, factor);
        before.apply(&mut x);
        let both = first.run(&x, pass);
        let mut inner = pass.scratch(both.nrows(), n_inner);
        // The gate is the second half.
        Activation::Silu.apply_halves(&both, false, &mut inner);
        between.apply(&mut inner);
        second.run(&inner, pass)
    });
    let (division, silence) = (Division::Short, Silence::Unseen);
    let whisper = Whisper { encoder, n_frames, division, silence, adapter };
    Ok(whisper.listening(None, ("", "")))
}
