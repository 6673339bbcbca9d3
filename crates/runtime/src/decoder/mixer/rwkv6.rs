//! The time mix of RWKV 6, and of Qwen 2 distilled into it: linear attention with a decay that depends on the token.
//!
//! ```text
//! x_p = h + d * (mu_p + B_p tanh(A_p lerp_x(h)))      for each part p of w, k, v, r, g; A_p (rank, n_embd), B_p its reverse
//! k = W_k x_k    v = W_v x_v    r = W_r x_r    g = W_g x_g
//! w = exp(-exp(lambda + B tanh(A x_w)))               (n_embd): between 0 and 1
//!
//! for each head, with S (key, value):
//! y_t = r_t (diag(u) k_t v_t^T + S_(t-1))             u (key): the bonus of the token itself
//! S_t = diag(w_t) S_(t-1) + k_t v_t^T
//!
//! out = W_o (norm(y) * silu(g))
//! ```
//!
//! The kind for Qwen 2 has no u. It writes before it reads, takes `(1 - w_t) k_t` for the key, scales y by
//! `1 / sqrt(head_size)`, has no norm, and sigmoid(g) for the gate. There, `d` is the token shift as elsewhere
//! ([`shift`](super::shift)).
//!
//! Source: `build_rwkv6_time_mix` in `src/models/rwkv6-base.cpp`, `ggml_compute_forward_rwkv_wkv6_f32` and
//! `ggml_compute_forward_gla_f32` of llama.cpp (llama-cpp-python 0.3.36).

use super::{Mixer, need_size, shift};
use crate::{
    Error,
    decoder::{linear::Linear, params::DecoderParams},
    keys::Keys,
    ops::{Activation, Norm, NormKind, Product, Rows, exp, recur, sigmoid},
    pass::Pass,
    session::StateKind,
    state_size::StateSize,
    weights::{Weight, Weights},
};

/// Uses of the interpolated token, in tensor order: w, k, v, r, g.
const PARTS: usize = 5;

pub(in crate::decoder) struct TimeMix6 {
    /// (n_embd): of what the low-rank matrices see.
    mu_x: Vec<f32>,
    /// `A` of all parts: (n_embd) -> (PARTS * rank).
    w_a: Linear,
    /// `B` of each part: (rank) -> (n_embd).
    w_b: Weight,
    /// (PARTS, n_embd).
    mu: Vec<f32>,
    decay_a: Linear,
    decay_b: Linear,
    /// (n_embd): lambda.
    decay: Vec<f32>,
    w_k: Linear,
    w_v: Linear,
    w_r: Linear,
    w_g: Linear,
    /// (n_embd): of all heads.
    u: Option<Vec<f32>>,
    /// Norm of each head's output.
    norm: Option<Norm>,
    w_o: Linear,
    head_size: usize,
    n_embd: usize,
    /// Heads that have the same keys and values.
    heads_per_kv: usize,
}

impl TimeMix6 {
    pub fn open(
        params: &DecoderParams,
        keys: &Keys<'_>,
        weights: &mut Weights<'_>,
        i: usize,
    ) -> Result<TimeMix6, Error> {
        let blk = |name: &str| format!("blk.{i}.time_mix_{name}");
        let n = params.n_embd;
        let head_size = need_size(keys, "wkv.head_size")?;
        if !n.is_multiple_of(head_size) {
            return Err(keys.wrong("wkv.head_size", "a divisor of the embedding's width"));
        }
        let n_head = n / head_size;
        // RWKV 6 itself has 0 here, or nothing; the Qwen hybrid keeps its grouped heads.
        let n_head_kv = match keys.counts("attention.head_count_kv", params.n_layer)? {
            Some(counts) if counts[i] != 0 => counts[i],
            _ => n_head,
        };
        if !n_head.is_multiple_of(n_head_kv) {
            return Err(keys.wrong("attention.head_count_kv", "a divisor of the number of heads"));
        }
        let n_kv = n_head_kv * head_size;
        // Ranks are what the tensors say: the keys contain the family's usual ones.
        let width = |weights: &Weights<'_>, name: &str| {
            weights.shape(&blk(&format!("{name}.weight"))).map_or(0, |shape| shape.dim(1) as usize)
        };
        let (rank, decay_rank) = (width(weights, "w1") / PARTS, width(weights, "decay_w1"));
        let w_b = blk("w2.weight");
        let w_b = weights.stack(&w_b, rank, n, PARTS)?.ok_or(Error::MissingTensor { name: w_b })?;
        let mu = match weights.vector(&blk("lerp_fused.weight"), PARTS * n)? {
            Some(mu) => mu,
            // Older files have a tensor for each part.
            None => {
                let mut mu = Vec::new();
                for part in ["w", "k", "v", "r", "g"] {
                    mu.extend(weights.need_vector(&blk(&format!("lerp_{part}.weight")), n)?);
                }
                mu
            }
        };
        Ok(TimeMix6 {
            mu_x: weights.need_vector(&blk("lerp_x.weight"), n)?,
            w_a: Linear::need(weights, &blk("w1"), n, PARTS * rank)?,
            w_b,
            mu,
            decay_a: Linear::need(weights, &blk("decay_w1"), n, decay_rank)?,
            decay_b: Linear::need(weights, &blk("decay_w2"), decay_rank, n)?,
            decay: weights.need_vector(&blk("decay.weight"), n)?,
            w_k: Linear::need(weights, &blk("key"), n, n_kv)?,
            w_v: Linear::need(weights, &blk("value"), n, n_kv)?,
            w_r: Linear::need(weights, &blk("receptance"), n, n)?,
            w_g: Linear::need(weights, &blk("gate"), n, n)?,
            u: weights.vector(&blk("first.weight"), n)?,
            norm: head_norm(weights, &blk("ln"), n)?,
            w_o: Linear::need(weights, &blk("output"), n, n)?,
            head_size,
            n_embd: n,
            heads_per_kv: n_head / n_head_kv,
        })
    }
}

impl Mixer for TimeMix6 {
    fn row_floats(&self) -> usize {
        11 * self.n_embd
    }

    fn state_size(&self) -> StateSize {
        let n = self.n_embd;
        StateSize { rows: n, state: n * self.head_size, graph_floats: 15 * n, ..StateSize::default() }
    }

    fn run(&self, index: usize, h: &Rows, pass: &mut Pass<'_, '_>) -> Rows {
        // Step 1: the data-dependent interpolation, for each of the five parts.
        let d = shift::token_shift(index, StateKind::TokenShift, h, pass);
        let x = shift::lerp(h, &d, &self.mu_x, pass);
        let mut low_rank = self.w_a.run(&x, pass);
        drop(x);
        low_rank.map(libm::tanhf);
        let mut parts = Vec::with_capacity(PARTS);
        for part in 0..PARTS {
            parts.push(self.lerp(part, h, &d, &low_rank, pass));
        }
        let [x_w, x_k, x_v, x_r, x_g] = &parts[..] else {
            unreachable!("there are as many parts as PARTS says")
        };
        drop((d, low_rank));

        // Step 2: keys, values, receptance, gates, and the decay w = exp(-exp(..)), which is between 0 and 1.
        let k = self.w_k.run(x_k, pass);
        let v = self.w_v.run(x_v, pass);
        let r = self.w_r.run(x_r, pass);
        let mut g = self.w_g.run(x_g, pass);
        let mut low_rank = self.decay_a.run(x_w, pass);
        low_rank.map(libm::tanhf);
        let mut w = self.decay_b.run(&low_rank, pass);
        w.add_bias(&self.decay);
        w.map(|x| exp(-exp(x)));
        drop((low_rank, parts));

        // Step 3: the recurrence; then the norm of each head, the gate and the output matrix.
        let mut y = self.recur(index, [&k, &v, &r, &w], pass);
        drop((k, v, r, w));
        if let Some(norm) = &self.norm {
            norm.apply_groups(&mut y, self.head_size);
        }
        if self.u.is_some() {
            Activation::Silu.apply(&mut g);
        } else {
            g.map(sigmoid);
        }
        y *= &g;
        drop(g);
        self.w_o.run(&y, pass)
    }
}

impl TimeMix6 {
    /// `x + d * (mu_part + B_part a)`, where `a` (n, PARTS * rank) are the inner rows of all parts: (n, n_embd).
    fn lerp(&self, part: usize, h: &Rows, d: &Rows, a: &Rows, pass: &mut Pass<'_, '_>) -> Rows {
        let n = self.n_embd;
        let rank = self.w_b.n_in;
        let own = pass.columns(a, part * rank..(part + 1) * rank);
        let mut x = pass.scratch(h.nrows(), n);
        let product = Product { weight: &self.w_b, index: part, out: x.view_mut() };
        pass.mul_mat(own.view(), vec![product]);
        x.add_bias(&self.mu[part * n..(part + 1) * n]);
        x *= d;
        x += h;
        x
    }

    /// The recurrence of the module's head; the state of a head is `S[i, j]`: (key, value).
    fn recur(&self, index: usize, [k, v, r, w]: [&Rows; 4], pass: &mut Pass<'_, '_>) -> Rows {
        let size = self.head_size;
        let n_head = self.n_embd / size;
        let mut y = pass.scratch(k.nrows(), self.n_embd);
        let mut states = pass.take_states(index, StateKind::Recurrence, self.n_embd * size);
        let scale = 1.0 / (size as f32).sqrt();
        recur(&pass.sequences(), &mut states, n_head, &mut y, |head, rows, state, mut y| {
            let kv_head = head / self.heads_per_kv;
            for (t, mut y) in rows.zip(y.rows_mut()) {
                let (k, v) = (head_row(k, t, kv_head, size), head_row(v, t, kv_head, size));
                let (r, w) = (head_row(r, t, head, size), head_row(w, t, head, size));
                let y = y.as_slice_mut().expect("columns of a row are contiguous");
                y.fill(0.0);
                // Row i of S meets one key, one receptance and one decay.
                for (i, s) in state.chunks_exact_mut(size).enumerate() {
                    let (r, w, k) = (r[i], w[i], k[i]);
                    match &self.u {
                        // Read before the state takes the token, which counts with u instead.
                        Some(u) => {
                            let u = u[head * size + i];
                            for ((s, v), y) in s.iter_mut().zip(v).zip(y.iter_mut()) {
                                let kv = k * v;
                                *y += (u * kv + *s) * r;
                                *s = *s * w + kv;
                            }
                        }
                        // Write first, with a key of which only what decays away is taken; then read.
                        None => {
                            let k = k - k * w;
                            for ((s, v), y) in s.iter_mut().zip(v).zip(y.iter_mut()) {
                                *s = *s * w + k * v;
                                *y += *s * r * scale;
                            }
                        }
                    }
                }
            }
        });
        pass.put_states(index, StateKind::Recurrence, states);
        y
    }
}

/// The elements of a head in row `t`.
fn head_row(rows: &Rows, t: usize, head: usize, size: usize) -> &[f32] {
    &rows.as_slice()[t * rows.ncols() + head * size..][..size]
}

/// The norm of each head's output, with weights for all heads, if it is there.
pub(super) fn head_norm(weights: &mut Weights<'_>, name: &str, n: usize) -> Result<Option<Norm>, Error> {
    /// The layers' 1e-5 times 8^2: the family divides the outputs of heads by `head_size_divisor`, 8, before it normalizes
    /// them, which for the result is the same as this.
    const EPSILON: f32 = 64e-5;
    let Some(weight) = weights.vector(&format!("{name}.weight"), n)? else { return Ok(None) };
    let bias = weights.vector(&format!("{name}.bias"), n)?;
    Ok(Some(Norm { kind: NormKind::Layer, epsilon: EPSILON, weight: Some(weight), bias }))
}
