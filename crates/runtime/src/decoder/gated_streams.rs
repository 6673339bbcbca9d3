//! Several residual streams with gates of low rank (Qwen 4 Experimental).
//!
//! ```text
//! z = norm(x)                                     x (N n_embd): all streams; each is normalized by itself
//! y = F(mean_i sigmoid(W_up silu(W_down z / N))_i * z_i)
//! x_i <- x_i + 2 sigmoid(W_inject z / N)_i y
//! ```
//!
//! At the end the mean of the gated streams is the output. `F` is a part of a layer, without a norm. Some layers add
//! embeddings of several tokens to the streams first (`ngram.rs`).
//!
//! Source: `build_hc_mix` and `build_hc_combine` in `src/models/qwen4exp.cpp` of llama.cpp (llama-cpp-python 0.3.36).

use ndarray::s;

use super::{layer::Layer, linear::Linear, ngram::NGrams, params::DecoderParams};
use crate::{
    Error,
    keys::Keys,
    ops::{Activation, Norm, NormKind, Rows, sigmoid},
    pass::Pass,
    state_size::StateSize,
    weights::Weights,
};

/// Most streams of a model.
const MOST_STREAMS: usize = 64;

pub(super) struct GatedStreams {
    /// `N`.
    n: usize,
    layers: Vec<GatedLayer>,
    end: Gate,
}

struct GatedLayer {
    n_grams: Option<NGrams>,
    attention: Gate,
    feed_forward: Gate,
}

struct Gate {
    norm: Norm,
    down: Linear,
    up: Linear,
    /// Missing at the end.
    inject: Option<Linear>,
}

impl Gate {
    fn open(
        params: &DecoderParams,
        weights: &mut Weights<'_>,
        name: &str,
        n: usize,
        rank: usize,
    ) -> Result<Gate, Error> {
        let wide = n.saturating_mul(params.n_embd);
        let weight = Some(weights.need_vector(&format!("{name}_norm.weight"), wide)?);
        Ok(Gate {
            norm: Norm { kind: NormKind::Rms, epsilon: params.epsilon, weight, bias: None },
            down: Linear::need(weights, &format!("{name}_down"), wide, rank)?,
            up: Linear::need(weights, &format!("{name}_up"), rank, wide)?,
            inject: Linear::open(weights, &format!("{name}_inject"), wide, n)?,
        })
    }

    /// The mean of the gated streams (n, n_embd), and the factors of a part's output (n, N).
    fn run(&self, streams: &[Rows], pass: &mut Pass<'_, '_>) -> (Rows, Option<Rows>) {
        let (n, n_rows, n_embd) = (streams.len(), streams[0].nrows(), streams[0].ncols());
        let mut z = pass.scratch(n_rows, n * n_embd);
        for (i, stream) in streams.iter().enumerate() {
            z.slice_mut(s![.., i * n_embd..(i + 1) * n_embd]).assign(&**stream);
        }
        self.norm.apply_groups(&mut z, n_embd);
        let share = 1.0 / n as f32;
        let mut narrow = self.down.run(&z, pass);
        *narrow *= share;
        Activation::Silu.apply(&mut narrow);
        let mut gate = self.up.run(&narrow, pass);
        let factors = self.inject.as_ref().map(|inject| {
            let mut factors = inject.run(&z, pass);
            factors.map(|x| 2.0 * sigmoid(x * share));
            factors
        });
        Activation::Sigmoid.apply_gated(&mut gate, &z);
        drop(z);
        let mut mean = pass.zeros(n_rows, n_embd);
        for i in 0..n {
            mean.scaled_add(share, &gate.slice(s![.., i * n_embd..(i + 1) * n_embd]));
        }
        (mean, factors)
    }
}

impl GatedStreams {
    /// The streams of a file, if it has this kind.
    pub fn open(
        params: &DecoderParams,
        keys: &Keys<'_>,
        weights: &mut Weights<'_>,
    ) -> Result<Option<GatedStreams>, Error> {
        if weights.shape("output_hc_down.weight").is_none() {
            return Ok(None);
        }
        let (count, rank) = ("hyper_connection.count", keys.need_count("hyper_connection.low_rank")?);
        let n = keys.need_count(count)?;
        if n == 0 || n > MOST_STREAMS || rank == 0 {
            return Err(keys.wrong(count, "1 to 64 streams, with gates of a rank above 0"));
        }
        let layers = (0..params.n_layer).map(|i| {
            Ok::<_, Error>(GatedLayer {
                n_grams: NGrams::open(params, keys, weights, i, n)?,
                attention: Gate::open(params, weights, &format!("blk.{i}.hc_attn"), n, rank)?,
                feed_forward: Gate::open(params, weights, &format!("blk.{i}.hc_ffn"), n, rank)?,
            })
        });
        let layers = layers.collect::<Result<_, _>>()?;
        let end = Gate::open(params, weights, "output_hc", n, rank)?;
        Ok(Some(GatedStreams { n, layers, end }))
    }

    /// Streams.
    pub fn n_streams(&self) -> usize {
        self.n
    }

    /// The state of layer `i`, in addition to that of its parts.
    pub fn state_size(&self, i: usize) -> Option<StateSize> {
        self.layers[i].n_grams.as_ref().map(NGrams::state_size)
    }

    /// The streams of an embedding, all alike.
    pub fn begin(&self, x: Rows) -> Vec<Rows> {
        vec![x; self.n]
    }

    /// Layer `i`.
    pub fn run_layer(&self, i: usize, layer: &Layer, streams: &mut [Rows], pass: &mut Pass<'_, '_>) {
        let own = &self.layers[i];
        if let Some(n_grams) = &own.n_grams {
            n_grams.add(i, streams, pass);
        }
        let (x, factors) = own.attention.run(streams, pass);
        let y = layer.run_mixers(i, &x, pass);
        drop(x);
        inject(streams, &y, factors.as_ref());
        let (x, factors) = own.feed_forward.run(streams, pass);
        let y = layer.run_feed_forward(i, &x, pass);
        drop(x);
        inject(streams, &y, factors.as_ref());
    }

    /// The streams become one: (n, n_embd).
    pub fn end(&self, streams: &[Rows], pass: &mut Pass<'_, '_>) -> Rows {
        self.end.run(streams, pass).0
    }
}

/// `x_i <- x_i + f_i y`.
fn inject(streams: &mut [Rows], y: &Rows, factors: Option<&Rows>) {
    for (i, stream) in streams.iter_mut().enumerate() {
        for (row, (mut to, from)) in stream.rows_mut().into_iter().zip(y.rows()).enumerate() {
            to.scaled_add(factors.map_or(1.0, |factors| factors[[row, i]]), &from);
        }
    }
}
