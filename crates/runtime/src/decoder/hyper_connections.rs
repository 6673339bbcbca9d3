//! Hyper-connections: N residual streams instead of one (DeepSeek 4, GLM 5 Next, Hunyuan 4).
//!
//! Each part `F` of a layer, attention or feed-forward part with its norm, reads a sum of the streams `x_i`, and what it
//! gives is added to all:
//!
//! ```text
//! m = W (x / rms(x))                           x (N n_embd): all streams, concatenated; W (N_m, N n_embd)
//! p_i = sigmoid(s_0 m_i + b_i) + epsilon
//! o_i = magnitude sigmoid(s_1 m_(N+i) + b_(N+i))    Hunyuan: + epsilon
//! y = F(sum_i p_i x_i)
//! x_i <- o_i y + sum_j C_ji x_j                C (N, N); Hunyuan: x_i <- o_i y + x_i
//! ```
//!
//! `C` is made of `C_ji = softmax over i of (s_2 m_(2N + Nj + i) + b_(2N + Nj + i)) + epsilon`: columns are divided by
//! their sums plus epsilon, then rows and columns in turn (Sinkhorn). At the end the streams become one, `sum_i (sigmoid(s
//! (W x / rms(x))_i + b_i) + epsilon) x_i`, or their mean if there are no weights for it.
//!
//! The paper is arXiv 2512.24880. Sources: `build_hc_pre` and `build_hc_post` in `src/models/hy-v4.cpp` and
//! `glm5-next.cpp` of llama.cpp (llama-cpp-python 0.3.36).

use ndarray::s;
use rayon::prelude::*;

use super::{layer::Layer, linear::Linear, params::DecoderParams};
use crate::{
    Error,
    keys::Keys,
    ops::{Norm, NormKind, Rows, sigmoid, softmax},
    pass::Pass,
    weights::Weights,
};

/// Most streams of a model.
const MOST_STREAMS: usize = 64;

pub(super) struct HyperConnections {
    /// `N`.
    n: usize,
    epsilon: f32,
    magnitude: f32,
    /// Rounds of Sinkhorn's algorithm; `None` if streams are not mixed.
    iterations: Option<usize>,
    /// Weightless norm of all streams.
    norm: Norm,
    /// Attention and feed-forward part of each layer.
    layers: Vec<[Connection; 2]>,
    head: Option<Connection>,
}

/// From all streams to factors.
struct Connection {
    weight: Linear,
    base: Vec<f32>,
    scale: Vec<f32>,
}

/// Factors of the streams of each row.
struct Factors {
    /// (n, N): `o_i`.
    out: Rows,
    /// (n, N * N): `C`.
    mixing: Option<Rows>,
}

impl Connection {
    fn open(
        weights: &mut Weights<'_>,
        name: &str,
        n_in: usize,
        least: [usize; 2],
    ) -> Result<Connection, Error> {
        let [n_factors, n_scales] = least;
        let stored = |weights: &Weights<'_>, name: &str, dim: usize, least: usize| {
            weights.shape(&format!("{name}.weight")).map_or(least, |shape| shape.dim(dim) as usize).max(least)
        };
        // Files may have factors for mixing streams in models that do not mix them.
        let n_out = stored(weights, &format!("{name}_fn"), 1, n_factors);
        let n_scales = stored(weights, &format!("{name}_scale"), 0, n_scales);
        Ok(Connection {
            weight: Linear::need(weights, &format!("{name}_fn"), n_in, n_out)?,
            base: weights.need_vector(&format!("{name}_base.weight"), n_out)?,
            scale: weights.need_vector(&format!("{name}_scale.weight"), n_scales)?,
        })
    }
}

impl HyperConnections {
    /// The connections of a file, if it has several streams of this kind.
    pub fn open(
        params: &DecoderParams,
        keys: &Keys<'_>,
        weights: &mut Weights<'_>,
    ) -> Result<Option<HyperConnections>, Error> {
        let count = "hyper_connection.count";
        if weights.shape("blk.0.hc_attn_fn.weight").is_none() {
            return Ok(None);
        }
        let n = keys.need_count(count)?;
        if n == 0 || n > MOST_STREAMS {
            return Err(keys.wrong(count, "1 to 64 streams"));
        }
        let iterations = keys.count("hyper_connection.sinkhorn_iterations")?;
        let n_in = n.saturating_mul(params.n_embd);
        let least = if iterations.is_some() { [n * (n + 2), 3] } else { [2 * n, 2] };
        let layers = (0..params.n_layer).map(|i| {
            let mut part = |part: &str| Connection::open(weights, &format!("blk.{i}.hc_{part}"), n_in, least);
            Ok::<_, Error>([part("attn")?, part("ffn")?])
        });
        let layers = layers.collect::<Result<_, _>>()?;
        let head = match weights.shape("output_hc_fn.weight") {
            Some(_) => Some(Connection::open(weights, "output_hc", n_in, [n, 1])?),
            None => None,
        };
        Ok(Some(HyperConnections {
            n,
            epsilon: keys.need_float("hyper_connection.epsilon")?,
            magnitude: keys.float("hyper_connection.magnitude")?.unwrap_or(2.0),
            iterations,
            norm: Norm { kind: NormKind::Rms, epsilon: params.epsilon, weight: None, bias: None },
            layers,
            head,
        }))
    }

    /// Streams.
    pub fn n_streams(&self) -> usize {
        self.n
    }

    /// The streams of an embedding, all alike.
    pub fn begin(&self, x: Rows) -> Vec<Rows> {
        vec![x; self.n]
    }

    /// Layer `i`.
    pub fn run_layer(&self, i: usize, layer: &Layer, streams: &mut [Rows], pass: &mut Pass<'_, '_>) {
        let [attention, feed_forward] = &self.layers[i];
        let (x, factors) = self.collapse(attention, streams, pass);
        let y = layer.run_mixers(i, &x, pass);
        drop(x);
        factors.expand(&y, streams, pass);
        let (x, factors) = self.collapse(feed_forward, streams, pass);
        let y = layer.run_feed_forward(i, &x, pass);
        drop(x);
        factors.expand(&y, streams, pass);
    }

    /// The streams become one: (n, n_embd).
    pub fn end(&self, streams: &[Rows], pass: &mut Pass<'_, '_>) -> Rows {
        let share = 1.0 / self.n as f32;
        let mut factors = pass.scratch(streams[0].nrows(), self.n);
        match &self.head {
            None => factors.fill(share),
            Some(head) => {
                let m = self.factors(head, streams, pass);
                factors.assign(&m.slice(s![.., ..self.n]));
                for row in factors.as_mut_slice().chunks_exact_mut(self.n) {
                    self.input_factors(row, head);
                }
            }
        }
        sum(streams, &factors, pass)
    }

    /// `m`: (n, N_m).
    fn factors(&self, connection: &Connection, streams: &[Rows], pass: &mut Pass<'_, '_>) -> Rows {
        let (n_rows, width) = (streams[0].nrows(), streams[0].ncols());
        let mut all = pass.scratch(n_rows, self.n * width);
        for (i, stream) in streams.iter().enumerate() {
            all.slice_mut(s![.., i * width..(i + 1) * width]).assign(&**stream);
        }
        self.norm.apply(&mut all);
        connection.weight.run(&all, pass)
    }

    /// `p_i` of `m_i`.
    fn input_factors(&self, m: &mut [f32], connection: &Connection) {
        for (m, base) in m.iter_mut().zip(&connection.base) {
            *m = sigmoid(connection.scale[0] * *m + base) + self.epsilon;
        }
    }

    /// The input of a part (n, n_embd), and the factors for its output.
    fn collapse(
        &self,
        connection: &Connection,
        streams: &[Rows],
        pass: &mut Pass<'_, '_>,
    ) -> (Rows, Factors) {
        let n = self.n;
        let m = self.factors(connection, streams, pass);
        let part = |from: usize, to: usize| pass.columns(&m, from..to);
        let (mut inputs, mut out) = (part(0, n), part(n, 2 * n));
        let added = if self.iterations.is_none() { self.epsilon } else { 0.0 };
        for (inputs, out) in
            inputs.as_mut_slice().chunks_exact_mut(n).zip(out.as_mut_slice().chunks_exact_mut(n))
        {
            self.input_factors(inputs, connection);
            for (o, base) in out.iter_mut().zip(&connection.base[n..]) {
                *o = self.magnitude * sigmoid(connection.scale[1] * *o + base) + added;
            }
        }
        let mixing = self.iterations.map(|iterations| {
            let mut mixing = part(2 * n, 2 * n + n * n);
            mixing.as_mut_slice().par_chunks_mut(n * n).for_each(|c| {
                for (c, base) in c.iter_mut().zip(&connection.base[2 * n..]) {
                    *c = connection.scale[2] * *c + base;
                }
                balance(c, n, self.epsilon, iterations);
            });
            mixing
        });
        drop(m);
        (sum(streams, &inputs, pass), Factors { out, mixing })
    }
}

impl Factors {
    /// Adds what a part gave, `y` (n, n_embd), to the streams.
    fn expand(&self, y: &Rows, streams: &mut [Rows], pass: &Pass<'_, '_>) {
        let n = streams.len();
        if let Some(mixing) = &self.mixing {
            let mut mixed: Vec<Rows> =
                streams.iter().map(|stream| pass.zeros(stream.nrows(), stream.ncols())).collect();
            for (i, to) in mixed.iter_mut().enumerate() {
                for (j, from) in streams.iter().enumerate() {
                    add_rows(to, from, |row| mixing[[row, j * n + i]]);
                }
            }
            streams.iter_mut().zip(mixed).for_each(|(stream, mixed)| *stream = mixed);
        }
        for (i, stream) in streams.iter_mut().enumerate() {
            add_rows(stream, y, |row| self.out[[row, i]]);
        }
    }
}

/// `sum_i f_i x_i` with `factors (n, N)`: (n, n_embd).
fn sum(streams: &[Rows], factors: &Rows, pass: &Pass<'_, '_>) -> Rows {
    let mut sum = pass.zeros(streams[0].nrows(), streams[0].ncols());
    for (i, stream) in streams.iter().enumerate() {
        add_rows(&mut sum, stream, |row| factors[[row, i]]);
    }
    sum
}

/// `to_r <- to_r + factor(r) from_r` for each row.
fn add_rows(to: &mut Rows, from: &Rows, factor: impl Fn(usize) -> f32 + Sync) {
    let width = to.ncols().max(1);
    let rows = to.as_mut_slice().par_chunks_mut(width).zip(from.as_slice().par_chunks(width)).enumerate();
    rows.for_each(|(row, (to, from))| {
        let factor = factor(row);
        to.iter_mut().zip(from).for_each(|(to, x)| *to += factor * x);
    });
}

/// Softmax of the rows of `c` (n, n), then sums of columns and rows are brought to one in turn.
fn balance(c: &mut [f32], n: usize, epsilon: f32, iterations: usize) {
    for row in c.chunks_exact_mut(n) {
        softmax(row, None);
        row.iter_mut().for_each(|x| *x += epsilon);
    }
    let columns = |c: &mut [f32]| {
        for i in 0..n {
            let sum = c.iter().skip(i).step_by(n).sum::<f32>() + epsilon;
            c.iter_mut().skip(i).step_by(n).for_each(|x| *x /= sum);
        }
    };
    columns(c);
    for _ in 1..iterations {
        for row in c.chunks_exact_mut(n) {
            let sum = row.iter().sum::<f32>() + epsilon;
            row.iter_mut().for_each(|x| *x /= sum);
        }
        columns(c);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn balanced_matrix_has_sums_of_one() {
        let mut c = vec![1.0, 2.0, -1.0, 0.5];
        balance(&mut c, 2, 1e-6, 30);
        for sum in [c[0] + c[1], c[2] + c[3], c[0] + c[2], c[1] + c[3]] {
            assert!((sum - 1.0).abs() < 1e-3, "{c:?}");
        }
    }
}
