//! A residual stream that begins anew after every few layers, with attention to its earlier forms (Kimi K3).
//!
//! ```text
//! mix(x, w) = sum_i p_i y_i      y: the stream's banked forms and x; p = softmax_i(w . y_i / rms(y_i)), w (n_embd)
//!
//! h = mix(x, w_1);               before every `block_size`-th layer x is banked, and begins anew with 0
//! x <- x + A(n1 h)
//! x <- x + F(n2 mix(x, w_2))
//! ```
//!
//! The output is `mix(x, w_out)`, normalized. Without anything banked `mix(x, w) = x`.
//!
//! Source: `res_mix` in `src/models/kimi-k3.cpp` of llama.cpp (llama-cpp-python 0.3.36).

use rayon::prelude::*;

use super::{layer::Layer, params::DecoderParams};
use crate::{
    Error,
    keys::Keys,
    ops::{Rows, dot, softmax},
    pass::Pass,
    weights::Weights,
};

pub(super) struct ResidualBank {
    block_size: usize,
    n_layer: usize,
    epsilon: f32,
    /// (n_embd): before attention and before the feed-forward part of each layer.
    weights: Vec<[Vec<f32>; 2]>,
    /// (n_embd).
    output: Vec<f32>,
}

impl ResidualBank {
    /// The bank of a file, if it has one.
    pub fn open(
        params: &DecoderParams,
        keys: &Keys<'_>,
        weights: &mut Weights<'_>,
    ) -> Result<Option<ResidualBank>, Error> {
        let n_embd = params.n_embd;
        let Some(block_size) = keys.count("attn_res.block_size")?.filter(|n| *n > 0) else {
            return Ok(None);
        };
        let output = weights.need_vector("output_res_score.weight", n_embd)?;
        let layers = (0..params.n_layer).map(|i| {
            let mut part =
                |part: &str| weights.need_vector(&format!("blk.{i}.{part}_res_score.weight"), n_embd);
            Ok::<_, Error>([part("attn")?, part("ffn")?])
        });
        let weights = layers.collect::<Result<_, _>>()?;
        let (n_layer, epsilon) = (params.n_layer, params.epsilon);
        Ok(Some(ResidualBank { block_size, n_layer, epsilon, weights, output }))
    }

    /// Streams at the end.
    pub fn n_streams(&self) -> usize {
        1 + self.n_layer.div_ceil(self.block_size)
    }

    /// Layer `i`. The first stream is the current one, the others are banked.
    pub fn run_layer(&self, i: usize, layer: &Layer, streams: &mut Vec<Rows>, pass: &mut Pass<'_, '_>) {
        let [attention, feed_forward] = &self.weights[i];
        let h = self.mix(streams, attention, pass);
        if i.is_multiple_of(self.block_size) {
            let fresh = pass.zeros(h.nrows(), h.ncols());
            let banked = std::mem::replace(&mut streams[0], fresh);
            streams.push(banked);
        }
        let mixed = layer.run_mixers(i, &h, pass);
        drop(h);
        streams[0].add_scaled(1.0, &mixed);
        drop(mixed);
        let h = self.mix(streams, feed_forward, pass);
        let y = layer.run_feed_forward(i, &h, pass);
        streams[0].add_scaled(1.0, &y);
    }

    /// The output before its norm: (n, n_embd).
    pub fn end(&self, streams: &[Rows], pass: &Pass<'_, '_>) -> Rows {
        self.mix(streams, &self.output, pass)
    }

    /// `mix(x, w)`: (n, n_embd).
    fn mix(&self, streams: &[Rows], weight: &[f32], pass: &Pass<'_, '_>) -> Rows {
        let width = weight.len();
        let mut out = pass.zeros(streams[0].nrows(), width);
        out.as_mut_slice().par_chunks_mut(width).enumerate().for_each(|(row, out)| {
            let at = row * width..(row + 1) * width;
            let rows: Vec<&[f32]> = streams.iter().map(|stream| &stream.as_slice()[at.clone()]).collect();
            let score = |x: &&[f32]| dot(x, weight) / (dot(x, x) / width as f32 + self.epsilon).sqrt();
            let mut shares: Vec<f32> = rows.iter().map(score).collect();
            softmax(&mut shares, None);
            for (share, x) in shares.iter().zip(rows) {
                out.iter_mut().zip(x).for_each(|(out, x)| *out += share * x);
            }
        });
        out
    }
}
