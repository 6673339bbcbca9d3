//! T5: an encoder, and a decoder with cross-attention to the encoder's output.
//!
//! Scores are not scaled and get a learned bias by distance, shared by all layers or separate for each:
//!
//! ```text
//! s_ij = q_i . k_j + B[bucket(j - i), head]      B (n_buckets, n_head)
//! bucket(d) = |d|                                              for |d| < near
//!           = near + floor(ln(|d| / near) / ln(128 / near) * (n - near)), at most n - 1, beyond
//! ```
//!
//! with `n = n_buckets, near = n / 2` in a decoder; an encoder has half of the buckets for each direction: `n
//! = n_buckets / 2`, and keys after the query use the second half.
//!
//! Sources: `src/models/t5.cpp`, `t5encoder.cpp` and `llama_relative_position_bucket` of llama.cpp
//! (llama-cpp-python 0.3.36). Unlike it, rows are divided by the root of their width before a tied output
//! matrix: the first T5 were trained this way, and later ones have a separate output matrix.

mod buckets;

use gguf_runtime::graphs::{
    Activation, Architecture, Attention, Encoded, Error, Graph, Head, KeyValue, Keys, Mask, Mlp, Norm,
    NormKind, Pass, Prepared, Rows, StateSize, Weight, Weights,
    cross_attention::{self, Heads, Layer, Projections},
};

use buckets::buckets;

pub const GRAPHS: &[Architecture] =
    &[Architecture::own("t5", open), Architecture::own("t5encoder", open_encoder)];

struct T5 {
    embedding: Weight,
    encoder: Stack,
    /// With the token that begins every answer.
    decoder: Option<(Stack, u32)>,
    /// Tokens of an encoded text in training.
    n_encoded: usize,
}

/// The layers of one side.
struct Stack {
    heads: Heads,
    layers: Vec<Layer>,
    /// The bias by distance of each layer: (n_buckets, n_head); that of the first if a layer lacks it.
    biases: Vec<Option<Vec<f32>>>,
    norm: Norm,
    n_buckets: usize,
    sees_all: bool,
    /// The index of the first layer in a session: those of the decoder follow those of the encoder.
    first: usize,
}

/// Reads an encoder and its decoder.
pub fn open(keys: &Keys<'_>, weights: &mut Weights<'_>) -> Result<Prepared, Error> {
    open_stacks(keys, weights, true)
}

/// Reads an encoder without a decoder.
pub fn open_encoder(keys: &Keys<'_>, weights: &mut Weights<'_>) -> Result<Prepared, Error> {
    open_stacks(keys, weights, false)
}

fn open_stacks(keys: &Keys<'_>, weights: &mut Weights<'_>, has_decoder: bool) -> Result<Prepared, Error> {
    let n_embd = keys.need_count("embedding_length")?;
    let n_vocab = weights.shape("token_embd.weight").map_or(0, |shape| shape.dim(1) as usize);
    let embedding = weights.need_matrix("token_embd.weight", n_embd, n_vocab)?;
    let n_layer = keys.need_count("block_count")?;
    let encoder = Stack::open(keys, weights, "enc", n_layer, 0)?;
    let n_decoder_layers = keys.count("decoder_block_count")?.unwrap_or(n_layer);
    let output = weights.matrix("output.weight", n_embd, n_vocab)?;
    let (decoder, head) = if has_decoder {
        let start = keys.count("decoder_start_token_id")?.unwrap_or(0) as u32;
        // In the first T5 models, inputs of a tied embedding are divided by sqrt(n_embd); llama.cpp omits this.
        let weight = output.unwrap_or_else(|| embedding.clone());
        let decoder = Stack::open(keys, weights, "dec", n_decoder_layers, n_layer)?;
        (Some((decoder, start)), Some(Head { weight, bias: None, scale: 1.0, soft_cap: None }))
    } else {
        (None, None)
    };
    let row_floats = 3 * n_embd + cross_attention::row_floats(&encoder.layers, encoder.heads);
    let n_encoded = keys.count("context_length")?.unwrap_or(0);
    let graph = Box::new(T5 { embedding, encoder, decoder, n_encoded });
    Ok(Prepared { graph, head, n_vocab, n_embd, row_floats, is_causal: true })
}

impl Stack {
    fn open(
        keys: &Keys<'_>,
        weights: &mut Weights<'_>,
        side: &str,
        n_layer: usize,
        first: usize,
    ) -> Result<Stack, Error> {
        let n_embd = keys.need_count("embedding_length")?;
        let n_head = keys.need_count("attention.head_count")?;
        let n_buckets = keys.need_count("attention.relative_buckets_count")?;
        if n_head == 0 || keys.count("attention.head_count_kv")?.is_some_and(|n| n != n_head) {
            return Err(keys.wrong("attention.head_count", "the number of heads of keys too"));
        }
        if n_buckets < 4 {
            return Err(keys.wrong("attention.relative_buckets_count", "4 or more"));
        }
        let width = |key: &str| keys.count(key).map(|width| width.unwrap_or(n_embd / n_head));
        let heads = Heads {
            n_head,
            key_width: width("attention.key_length")?,
            value_width: width("attention.value_length")?,
            scale: 1.0,
        };
        let epsilon = keys.need_float("attention.layer_norm_rms_epsilon")?;
        let norm = |weights: &mut Weights<'_>, name: String| {
            let weight = weights.vector(&name, n_embd)?.ok_or(Error::MissingTensor { name })?;
            Ok::<Norm, Error>(Norm { kind: NormKind::Rms, epsilon, weight: Some(weight), bias: None })
        };
        let is_decoder = side == "dec";
        let layer = |i: usize, weights: &mut Weights<'_>| {
            let blk = |name: &str| format!("{side}.blk.{i}.{name}");
            let cross = if is_decoder {
                // Stored in files of the first T5; cross-attention has no bias by distance. Read as a
                // vector, so that it does not count as a matrix that an importance matrix should cover.
                weights.vector(&blk("cross_attn_rel_b.weight"), n_head * n_buckets)?;
                let norm = norm(weights, blk("cross_attn_norm.weight"))?;
                Some((norm, Projections::open(weights, &blk("cross_attn"), "o", n_embd, heads)?))
            } else {
                None
            };
            // T5 1.1 and later have gated GELU; the first T5 has ReLU without a gate.
            let gated = weights.shape(&blk("ffn_gate.weight")).is_some();
            let activation = if gated { Activation::GeluTanh } else { Activation::Relu };
            let names = ["gate", "up", "down"].map(|part| blk(&format!("ffn_{part}")));
            let biases = weights.vector(&blk("attn_rel_b.weight"), n_head * n_buckets)?;
            let layer = Layer {
                attention_norm: norm(weights, blk("attn_norm.weight"))?,
                attention: Projections::open(weights, &blk("attn"), "o", n_embd, heads)?,
                rope: None,
                cross,
                mlp_norm: norm(weights, blk("ffn_norm.weight"))?,
                mlp: Mlp::open(activation, n_embd, weights, names)?,
            };
            Ok((layer, biases))
        };
        let layers = (0..n_layer).map(|i| layer(i, weights)).collect::<Result<Vec<_>, Error>>()?;
        // In T5 only the first layer of a side has the bias, in UMT5 every layer.
        let (layers, biases): (Vec<_>, Vec<_>) = layers.into_iter().unzip();
        if biases.first().is_some_and(Option::is_none) {
            return Err(Error::MissingTensor { name: format!("{side}.blk.0.attn_rel_b.weight") });
        }
        let norm = norm(weights, format!("{side}.output_norm.weight"))?;
        Ok(Stack { heads, layers, biases, norm, n_buckets, sees_all: !is_decoder, first })
    }

    /// `x (n, n_embd) -> (n, n_embd)`; `cross_kv` are keys and values for the cross-attention of each layer.
    fn run(&self, mut x: Rows, cross_kv: &[KeyValue], pass: &mut Pass<'_, '_>) -> Rows {
        let buckets = buckets(self.n_buckets, self.sees_all, pass.end());
        let n_head = self.heads.n_head;
        let mask = if self.sees_all { Mask::All } else { Mask::Causal };
        for (i, (layer, biases)) in self.layers.iter().zip(&self.biases).enumerate() {
            let biases = biases.as_ref().or(self.biases[0].as_ref());
            let bias = |head: usize, key: usize, query: usize| {
                // The decoder never sees keys after the query; its buckets for them are unused.
                let (before, distance) = (key <= query, key.abs_diff(query));
                let bucket = if before { buckets.before[distance] } else { buckets.after[distance] };
                biases.map_or(0.0, |biases| biases[bucket * n_head + head])
            };
            let own = Attention { bias: Some(&bias), ..self.heads.attention(mask) };
            layer.run(self.first + i, &mut x, &own, cross_kv.get(i), pass);
        }
        self.norm.apply(&mut x);
        x
    }
}

impl Graph for T5 {
    /// For an encoder without a decoder, its rows. With a decoder, teacher forcing: the decoder repeats the encoder's
    /// input, and row i predicts token i from the tokens before it.
    fn run(&self, pass: &mut Pass<'_, '_>) -> Result<Rows, Error> {
        let cross_kv = pass.cross_kv();
        let x = pass.embed(&self.embedding)?;
        let x = match (&self.decoder, cross_kv) {
            (None, _) => self.encoder.run(x, &[], pass),
            (Some((decoder, _)), Some(cross_kv)) => decoder.run(x, &cross_kv, pass),
            (Some((decoder, start)), None) => {
                let encoded = self.encoder.run(x, &[], pass);
                let cross_kv = cross_attention::cross_kv(&decoder.layers, &encoded, pass);
                // The decoder's input is the text moved by one, with the start token in front.
                let mut written = pass.tokens.clone();
                for span in pass.spans.iter().filter(|span| !span.rows.is_empty()) {
                    written[span.rows.clone()].rotate_right(1);
                    written[span.rows.start] = *start;
                }
                pass.tokens = written;
                let x = pass.embed(&self.embedding)?;
                decoder.run(x, &cross_kv, pass)
            }
        };
        Ok(x.select_rows(&pass.output_rows()))
    }

    fn state_sizes(&self) -> Vec<Vec<StateSize>> {
        // Scores with a bias for each pair of tokens exclude flash attention: llama.cpp keeps the scores, the bias and its transpose,
        // and the number of the bucket. It gives the encoder a cache that it does not use.
        let stack = self.decoder.as_ref().map_or(&self.encoder, |(decoder, _)| decoder);
        let pair_floats = 3 * stack.heads.n_head + 1;
        let own = StateSize { pair_floats, sees_batch: stack.sees_all, ..StateSize::default() };
        // The decoder also sees the states of a text of the length in training: masks of about three floats for each pair of tokens, the
        // states, their keys and values.
        let n_encoded = if self.decoder.is_some() { self.n_encoded } else { 0 };
        let rows = self.embedding.n_in + 3 * stack.heads.n_head * stack.heads.key_width;
        let own = StateSize { fixed_floats: n_encoded * rows, graph_floats: 3 * n_encoded, ..own };
        cross_attention::state_sizes(&stack.layers, stack.heads, own)
    }

    fn is_encoder_decoder(&self) -> bool {
        self.decoder.is_some()
    }

    fn encode(&self, pass: &mut Pass<'_, '_>) -> Result<Option<Encoded>, Error> {
        let Some((decoder, start)) = &self.decoder else { return Ok(None) };
        let x = pass.embed(&self.embedding)?;
        let encoded = self.encoder.run(x, &[], pass);
        let cross_kv = cross_attention::cross_kv(&decoder.layers, &encoded, pass);
        Ok(Some(Encoded { cross_kv, start: *start }))
    }
}
