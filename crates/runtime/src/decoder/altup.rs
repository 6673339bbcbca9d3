//! Several residual streams, of which each layer runs on one (AltUp, arXiv 2301.13310; Gemma 3n).
//!
//! For a token, with N streams x_1 .. x_N of which `a` is active, and a layer L around its residual stream:
//!
//! ```text
//! m(x) = tanh(W_m norm(x) / n_embd)                       W_m (N, n_embd), m (N)
//! p_i = x_i + sum_j P[i, j] x_j                           P (N, N) = W_p m(x_a), W_p (N^2, N)
//! y = L(p_a)
//! c_i = p_i + (1 + C_i) (y - p_a)                         C (N) = W_c m(y), W_c (N, N)
//! x_1 <- c_1,  x_i <- c_i + d                             d: the layer's own input, of s * c_a, s (n_embd)
//! ```
//!
//! Before the layers, x_1 is the embedding e, and the others are matrices times e, scaled to the length of e.
//! After them, the others are multiplied with matrices again, scaled to the length of x_1, and the mean of
//! all is the output.
//!
//! Source: `Gemma3nTextModel` of transformers 5.23; `llama_model_gemma3n::graph` of llama.cpp
//! (llama-cpp-python 0.3.36) takes the length from the active stream at the end, if that is not the first.

use super::{layer::Layer, linear::Linear, params::DecoderParams, per_layer_input::PerLayerInput};
use crate::{
    Error,
    keys::Keys,
    ops::{Norm, Product, Rows, dot},
    pass::Pass,
    weights::{Weight, Weights},
};

pub(super) struct AltUp {
    /// `a`, counted from 0.
    active: usize,
    /// From the embedding to the other streams: N - 1 times (n_embd) -> (n_embd).
    split: Weight,
    /// From the other streams back.
    merge: Weight,
    layers: Vec<AltUpLayer>,
}

struct AltUpLayer {
    router_norm: Option<Norm>,
    router: Linear,
    predict: Linear,
    correct: Linear,
    /// `s`.
    correct_scale: Vec<f32>,
    input: Option<PerLayerInput>,
}

impl AltUp {
    /// The streams of a file, if it has several.
    pub fn open(
        params: &DecoderParams,
        keys: &Keys<'_>,
        weights: &mut Weights<'_>,
    ) -> Result<Option<AltUp>, Error> {
        let n = keys.count("altup.num_inputs")?.unwrap_or(0);
        if n == 0 {
            return Ok(None);
        }
        let active = keys.count("altup.active_idx")?.unwrap_or(0);
        if active >= n {
            return Err(keys.wrong("altup.active_idx", "one of the streams"));
        }
        let n_embd = params.n_embd;
        let mut stack = |name: &str| {
            let name = format!("{name}.weight");
            let stack = weights.stack(&name, n_embd, n_embd, n - 1)?;
            let mut stack = stack.ok_or(Error::MissingTensor { name })?;
            stack.is_by_head = true;
            Ok::<_, Error>(stack)
        };
        let (split, merge) = (stack("altup_proj")?, stack("altup_unembd_proj")?);
        let layers = (0..params.n_layer).map(|i| {
            let blk = |name: &str| format!("blk.{i}.altup_{name}");
            Ok::<_, Error>(AltUpLayer {
                router_norm: params.optional_norm(weights, &blk("router_norm"), n_embd)?,
                router: Linear::need(weights, &blk("router"), n_embd, n)?,
                predict: Linear::need(weights, &blk("predict_coef"), n, n * n)?,
                correct: Linear::need(weights, &blk("correct_coef"), n, n)?,
                correct_scale: weights.need_vector(&blk("correct_scale.weight"), n_embd)?,
                input: PerLayerInput::open(params, keys, weights, i)?,
            })
        });
        let layers = layers.collect::<Result<_, _>>()?;
        Ok(Some(AltUp { active, split, merge, layers }))
    }

    /// Streams.
    pub fn n_streams(&self) -> usize {
        self.split.n_stack + 1
    }

    /// A scaled embedding `x` (n, n_embd) becomes N streams.
    pub fn begin(&self, x: Rows, pass: &mut Pass<'_, '_>) -> Vec<Rows> {
        let mut streams = vec![x];
        for i in 0..self.split.n_stack {
            let stream = as_long_as(&streams[0], &streams[0], &self.split, i, pass);
            streams.push(stream);
        }
        streams
    }

    /// Layer `i` runs only on the active stream, and the others follow its changes.
    pub fn run_layer(&self, i: usize, layer: &Layer, streams: &mut [Rows], pass: &mut Pass<'_, '_>) {
        let own = &self.layers[i];
        own.predict(streams, self.active, pass);
        let mut y = pass.scratch(streams[0].nrows(), streams[0].ncols());
        y.copy_from(&streams[self.active]);
        layer.run(i, &mut y, pass);
        own.correct(streams, self.active, y, pass);
    }

    /// The streams become one: (n, n_embd).
    pub fn end(&self, streams: &[Rows], pass: &mut Pass<'_, '_>) -> Rows {
        let mut merged = pass.scratch(streams[0].nrows(), streams[0].ncols());
        merged.copy_from(&streams[0]);
        for (i, stream) in streams[1..].iter().enumerate() {
            let backward = as_long_as(&streams[0], stream, &self.merge, i, pass);
            merged.add_scaled(1.0, &backward);
        }
        merged *= 1.0 / self.n_streams() as f32;
        merged
    }
}

/// `x W^T` of matrix `index`, each row made as long as that of `like`: (n, n_embd).
fn as_long_as(like: &Rows, x: &Rows, weight: &Weight, index: usize, pass: &mut Pass<'_, '_>) -> Rows {
    let mut out = pass.scratch(x.nrows(), weight.n_out);
    pass.mul_mat(x.view(), vec![Product { weight, index, out: out.view_mut() }]);
    let mean_square = |row: ndarray::ArrayView1<'_, f32>| {
        let row = row.to_slice().expect("rows are contiguous");
        dot(row, row) / row.len() as f32
    };
    for (mut row, like) in out.rows_mut().into_iter().zip(like.rows()) {
        // The bound keeps rows of zeros finite.
        row *= (mean_square(like) / mean_square(row.view()).max(1e-5)).sqrt();
    }
    out
}

impl AltUpLayer {
    /// `m(x)`: (n, N).
    fn modalities(&self, x: &Rows, pass: &mut Pass<'_, '_>) -> Rows {
        let mut h = pass.scratch(x.nrows(), x.ncols());
        match &self.router_norm {
            Some(norm) => norm.apply_into(x, &mut h),
            None => h.copy_from(x),
        }
        h *= 1.0 / x.ncols() as f32;
        let mut m = self.router.run(&h, pass);
        m.map(libm::tanhf);
        m
    }

    /// `x_i <- p_i`.
    fn predict(&self, streams: &mut [Rows], active: usize, pass: &mut Pass<'_, '_>) {
        let m = self.modalities(&streams[active], pass);
        // P of every token, row by row: (n, N * N).
        let factors = self.predict.run(&m, pass);
        let n = streams.len();
        let mut predicted: Vec<Rows> =
            streams.iter().map(|stream| pass.zeros(stream.nrows(), stream.ncols())).collect();
        for (i, to) in predicted.iter_mut().enumerate() {
            for (j, from) in streams.iter().enumerate() {
                let own = if i == j { 1.0 } else { 0.0 };
                for (row, (mut to, from)) in to.rows_mut().into_iter().zip(from.rows()).enumerate() {
                    to.scaled_add(own + factors[[row, i * n + j]], &from);
                }
            }
        }
        streams.iter_mut().zip(predicted).for_each(|(stream, predicted)| *stream = predicted);
    }

    /// `p_i -> x_i`, with `y (n, n_embd)`.
    fn correct(&self, streams: &mut [Rows], active: usize, mut y: Rows, pass: &mut Pass<'_, '_>) {
        let m = self.modalities(&y, pass);
        let factors = self.correct.run(&m, pass);
        // Change by the layer: y - p_a, of which every stream gets a part.
        y.add_scaled(-1.0, &streams[active]);
        for (i, stream) in streams.iter_mut().enumerate() {
            for (row, (mut to, from)) in stream.rows_mut().into_iter().zip(y.rows()).enumerate() {
                to.scaled_add(1.0 + factors[[row, i]], &from);
            }
        }
        // The first stream stays without the layer's input.
        let Some(input) = &self.input else { return };
        let mut scaled = y;
        scaled.copy_from(&streams[active]);
        scaled.rows_mut().into_iter().for_each(|mut row| {
            row.iter_mut().zip(&self.correct_scale).for_each(|(x, scale)| *x *= scale);
        });
        let d = input.run(&scaled, pass);
        streams[1..].iter_mut().for_each(|stream| stream.add_scaled(1.0, &d));
    }
}
