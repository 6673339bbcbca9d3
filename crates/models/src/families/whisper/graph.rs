//! Whisper: an audio encoder, and a decoder with cross-attention to its output.
//!
//! Two convolutions over time, the second with stride 2, turn a spectrogram into rows. Encoder and decoder have stored
//! positions, and keys have no bias.
//!
//! Source: `modeling_whisper.py` of transformers 5.23; llama.cpp does not run it. No key states the epsilon
//! of its norms or its activation: every Whisper has torch's epsilon, and GELU with the error function.

use gguf_runtime::graphs::{
    Activation, Architecture, Error, Features, Graph, Head, KeyValue, Keys, Mask, Mlp, Norm, NormKind, Pass,
    Prepared, Rows, StateSize, Weight, Weights,
    audio::Convolution,
    cross_attention::{self, Heads, Layer, Projections},
};

use ndarray::ArrayView2;

pub const GRAPHS: &[Architecture] = &[Architecture::own("whisper", open)];

/// Epsilon of `torch.nn.LayerNorm`.
const EPSILON: f32 = 1e-5;

struct Whisper {
    /// (n_mels, n_embd), then (n_embd, n_embd) over every other frame.
    convolutions: [Convolution; 2],
    n_mels: usize,
    encoder: Stack,
    embedding: Weight,
    decoder: Stack,
}

/// The layers of one side.
struct Stack {
    /// (n_positions, n_embd).
    positions: Weight,
    heads: Heads,
    mask: Mask,
    layers: Vec<Layer>,
    norm: Norm,
}

/// Reads both sides.
pub fn open(keys: &Keys<'_>, weights: &mut Weights<'_>) -> Result<Prepared, Error> {
    let n_embd = keys.need_count("encoder.embedding_length")?;
    if keys.need_count("decoder.embedding_length")? != n_embd {
        return Err(keys.wrong("decoder.embedding_length", "that of the encoder"));
    }
    let n_mels = keys.need_count("encoder.mels_count")?;
    let convolutions = [
        Convolution::open(weights, "enc.conv1d.1", n_mels, n_embd, 1)?,
        Convolution::open(weights, "enc.conv1d.2", n_embd, n_embd, 2)?,
    ];
    let encoder = Stack::open(keys, weights, n_embd, false)?;
    let decoder = Stack::open(keys, weights, n_embd, true)?;
    let n_vocab = weights.shape("token_embd.weight").map_or(0, |shape| shape.dim(1) as usize);
    let embedding = weights.need_matrix("token_embd.weight", n_embd, n_vocab)?;
    let output = weights.matrix("output.weight", n_embd, n_vocab)?;
    let weight = output.unwrap_or_else(|| embedding.clone());
    let head = Some(Head { weight, bias: None, scale: 1.0, soft_cap: None });
    let row_floats = 3 * n_embd + cross_attention::row_floats(&decoder.layers, decoder.heads);
    let graph = Box::new(Whisper { convolutions, n_mels, encoder, embedding, decoder });
    Ok(Prepared { graph, head, n_vocab, n_embd, row_floats, is_causal: true })
}

impl Stack {
    fn open(
        keys: &Keys<'_>,
        weights: &mut Weights<'_>,
        n_embd: usize,
        is_decoder: bool,
    ) -> Result<Stack, Error> {
        let (long, side) = if is_decoder { ("decoder", "dec") } else { ("encoder", "enc") };
        let key = |name: &str| format!("{long}.{name}");
        let n_layer = keys.need_count(&key("block_count"))?;
        // The list of layers is made before their tensors are looked for.
        if n_layer > weights.n_tensors() {
            return Err(keys.wrong(&key("block_count"), "at most the number of tensors"));
        }
        let n_head = keys.need_count(&key("attention.head_count"))?;
        if n_head == 0 || n_embd == 0 || !n_embd.is_multiple_of(n_head) {
            return Err(keys.wrong(&key("attention.head_count"), "a part of the embedding's length"));
        }
        let width = n_embd / n_head;
        let scale = 1.0 / (width as f32).sqrt();
        let heads = Heads { n_head, key_width: width, value_width: width, scale };
        let n_positions = keys.need_count(&key("context_length"))?;
        if n_positions == 0 {
            return Err(keys.wrong(&key("context_length"), "1 or more"));
        }
        let positions = weights.need_matrix(&format!("{side}.pos_embd.weight"), n_embd, n_positions)?;
        let layer = |i: usize| {
            let blk = |name: &str| format!("{side}.blk.{i}.{name}");
            let cross = if is_decoder {
                Some((
                    norm(weights, &blk("cross_attn_norm"), n_embd)?,
                    Projections::open(weights, &blk("cross_attn"), "output", n_embd, heads)?,
                ))
            } else {
                None
            };
            let names = ["gate", "up", "down"].map(|part| blk(&format!("ffn_{part}")));
            Ok(Layer {
                attention_norm: norm(weights, &blk("attn_norm"), n_embd)?,
                attention: Projections::open(weights, &blk("attn"), "output", n_embd, heads)?,
                rope: None,
                cross,
                mlp_norm: norm(weights, &blk("ffn_norm"), n_embd)?,
                mlp: Mlp::open(Activation::GeluErf, n_embd, weights, names)?,
            })
        };
        let layers = (0..n_layer).map(layer).collect::<Result<Vec<_>, Error>>()?;
        let norm = norm(weights, &format!("{side}.output_norm"), n_embd)?;
        let mask = if is_decoder { Mask::Causal } else { Mask::All };
        Ok(Stack { positions, heads, mask, layers, norm })
    }

    /// `x (n, n_embd) -> (n, n_embd)`; `cross_kv` are keys and values for the cross-attention of each layer.
    fn run(&self, mut x: Rows, cross_kv: &[KeyValue], pass: &mut Pass<'_, '_>) -> Result<Rows, Error> {
        x.add_scaled(1.0, &pass.embed_positions(&self.positions)?);
        let own = self.heads.attention(self.mask);
        for (i, layer) in self.layers.iter().enumerate() {
            layer.run(i, &mut x, &own, cross_kv.get(i), pass);
        }
        self.norm.apply(&mut x);
        Ok(x)
    }
}

fn norm(weights: &mut Weights<'_>, name: &str, n_embd: usize) -> Result<Norm, Error> {
    let mut need = |part: &str| {
        let name = format!("{name}.{part}");
        weights.vector(&name, n_embd)?.ok_or(Error::MissingTensor { name })
    };
    let (weight, bias) = (Some(need("weight")?), Some(need("bias")?));
    Ok(Norm { kind: NormKind::Layer, epsilon: EPSILON, weight, bias })
}

impl Graph for Whisper {
    fn run(&self, pass: &mut Pass<'_, '_>) -> Result<Rows, Error> {
        // Without a session that has encoded a sound there is nothing to decode.
        let cross_kv = pass.cross_kv();
        let cross_kv = cross_kv.ok_or_else(|| Error::NoFeatures { architecture: "whisper".to_owned() })?;
        let x = pass.embed(&self.embedding)?;
        let x = self.decoder.run(x, &cross_kv, pass)?;
        Ok(x.select_rows(&pass.output_rows()))
    }

    fn state_sizes(&self) -> Vec<Vec<StateSize>> {
        cross_attention::state_sizes(&self.decoder.layers, self.decoder.heads, StateSize::default())
    }

    /// Two frames for each position of the encoder: its second convolution takes every other one.
    fn audio_input(&self) -> Option<(usize, usize)> {
        Some((self.n_mels, self.encoder.positions.n_out.saturating_mul(2)))
    }

    fn encode_audio(&self, features: Features<'_>, pass: &mut Pass<'_, '_>) -> Result<Vec<KeyValue>, Error> {
        let spectrogram = ArrayView2::from_shape((features.n_mels, features.n_frames), features.values)
            .expect("the model checked the features");
        let [first, second] = &self.convolutions;
        // Frames become rows: (n_mels, n_frames) is read as (n_frames, n_mels).
        let x = second.run(first.run(spectrogram.t()).view());
        let encoded = self.encoder.run(x, &[], pass)?;
        Ok(cross_attention::cross_kv(&self.decoder.layers, &encoded, pass))
    }
}
