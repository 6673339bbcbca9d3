//! The time mix of RWKV 7, and of Qwen 2.5 distilled into it: the generalized delta rule.
//!
//! In the symbols of the paper (arXiv 2503.14456, section 4), with column vectors and `*` element by element:
//!
//! ```text
//! r = W_r lerp_r(h)    k = W_k lerp_k(h)    v = W_v lerp_v(h)                         (n_embd) each
//! w = exp(-exp(-1/2) sigmoid(w_0 + W_w2 tanh(W_w1 lerp_w(h))))                        the decay, above 0.545
//! a = sigmoid(a_0 + W_a2 W_a1 lerp_a(h))                                              the in-context learning rate
//! g = W_g2 sigmoid(W_g1 lerp_g(h))                                                    the gate
//! v = v + (v_first - v) * sigmoid(v_0 + W_v2 W_v1 lerp_v(h))                          value residual; v_first: layer 0's
//! kappa = normalize(k * k_k)      for each head to length one: the removal key
//! k~ = k * (1 + (a - 1) * k_a)    the replacement key
//!
//! for each head, with S (value, key):
//! S_t = S_(t-1) (diag(w_t) - kappa_t (a_t * kappa_t)^T) + v_t k~_t^T
//! y_t = norm(S_t r_t) + (sum over j of r_t[j] k~_t[j] r_k[j]) v_t                     r_k: the bonus of the token itself
//!
//! out = W_o (y * g)
//! ```
//!
//! Source: `build_rwkv7_time_mix` in `src/models/rwkv7-base.cpp` and `ggml_compute_forward_rwkv_wkv7_f32` of
//! llama.cpp (llama-cpp-python 0.3.36).

use super::{Mixer, need_size, rwkv6::head_norm, shift};
use crate::{
    Error,
    decoder::{linear::Linear, params::DecoderParams},
    keys::Keys,
    ops::{Norm, Rows, dot, exp, recur, sigmoid},
    pass::Pass,
    session::StateKind,
    state_size::StateSize,
    weights::Weights,
};

/// `-exp(-1/2)`: the logarithm of the smallest decay.
const MIN_LOG_DECAY: f32 = -0.606_531;

pub(in crate::decoder) struct TimeMix7 {
    /// (5 or 6, n_embd): mu of r, w, k, v, a and, if there is a gate, g.
    lerp: Vec<f32>,
    w_r: Linear,
    w_k: Linear,
    w_v: Linear,
    decay: LowRank,
    /// Low-rank factors of the in-context learning rate `a`.
    rate: LowRank,
    /// Share of the first layer's values that replaces those of this one; the first layer lacks it.
    value_residual: Option<LowRank>,
    gate: Option<LowRank>,
    /// (n_embd) each.
    k_k: Vec<f32>,
    k_a: Vec<f32>,
    r_k: Vec<f32>,
    /// Norm of each head's output.
    norm: Option<Norm>,
    w_o: Linear,
    head_size: usize,
    n_embd: usize,
}

/// `x_0 + W_2 f(W_1 x)` with W_1 (rank, n_embd) and W_2 its reverse.
struct LowRank {
    down: Linear,
    up: Linear,
    bias: Option<Vec<f32>>,
}

/// The names of the tensors of one, `x_0` last.
fn low_rank_names(name: &str) -> [String; 3] {
    ["1", "2", "0"].map(|part| format!("{name}{part}.weight"))
}

impl LowRank {
    /// `NAME1.weight`, `NAME2.weight` and `NAME0.weight`, if the first is there.
    fn open(weights: &mut Weights<'_>, name: &str, n: usize) -> Result<Option<LowRank>, Error> {
        let down = format!("{name}1");
        // The rank is what the tensors say: the keys contain the family's usual one.
        let rank = weights.shape(&format!("{down}.weight")).map(|shape| shape.dim(1) as usize);
        let Some(rank) = rank else { return Ok(None) };
        Ok(Some(LowRank {
            down: Linear::need(weights, &down, n, rank)?,
            up: Linear::need(weights, &format!("{name}2"), rank, n)?,
            bias: weights.vector(&format!("{name}0.weight"), n)?,
        }))
    }

    fn need(weights: &mut Weights<'_>, name: &str, n: usize) -> Result<LowRank, Error> {
        Self::open(weights, name, n)?.ok_or_else(|| Error::MissingTensor { name: format!("{name}1.weight") })
    }

    /// With `f` between the matrices: x (n, n_embd) -> (n, n_embd).
    fn run(&self, x: &Rows, f: fn(f32) -> f32, pass: &mut Pass<'_, '_>) -> Rows {
        let mut inner = self.down.run(x, pass);
        inner.map(f);
        let mut out = self.up.run(&inner, pass);
        if let Some(bias) = &self.bias {
            out.add_bias(bias);
        }
        out
    }
}

impl TimeMix7 {
    pub fn open(
        params: &DecoderParams,
        keys: &Keys<'_>,
        weights: &mut Weights<'_>,
        i: usize,
    ) -> Result<TimeMix7, Error> {
        let blk = |name: &str| format!("blk.{i}.time_mix_{name}");
        let n = params.n_embd;
        let head_size = need_size(keys, "wkv.head_size")?;
        if !n.is_multiple_of(head_size) {
            return Err(keys.wrong("wkv.head_size", "a divisor of the embedding's width"));
        }
        let value_residual = match i {
            0 => {
                // Some files have a value residual for the first layer too, whose values are the first ones.
                low_rank_names(&blk("v")).iter().for_each(|name| weights.ignore(name));
                None
            }
            _ => Some(LowRank::need(weights, &blk("v"), n)?),
        };
        let gate = LowRank::open(weights, &blk("g"), n)?;
        let n_lerp = if gate.is_some() { 6 } else { 5 };
        Ok(TimeMix7 {
            lerp: weights.need_vector(&blk("lerp_fused.weight"), n_lerp * n)?,
            w_r: Linear::need(weights, &blk("receptance"), n, n)?,
            w_k: Linear::need(weights, &blk("key"), n, n)?,
            w_v: Linear::need(weights, &blk("value"), n, n)?,
            decay: LowRank::need(weights, &blk("w"), n)?,
            rate: LowRank::need(weights, &blk("a"), n)?,
            value_residual,
            gate,
            k_k: weights.need_vector(&blk("k_k.weight"), n)?,
            k_a: weights.need_vector(&blk("k_a.weight"), n)?,
            r_k: weights.need_vector(&blk("r_k.weight"), n)?,
            norm: head_norm(weights, &blk("ln"), n)?,
            w_o: Linear::need(weights, &blk("output"), n, n)?,
            head_size,
            n_embd: n,
        })
    }
}

impl Mixer for TimeMix7 {
    fn row_floats(&self) -> usize {
        10 * self.n_embd
    }

    fn state_size(&self) -> StateSize {
        let n = self.n_embd;
        StateSize { rows: n, state: n * self.head_size, graph_floats: 15 * n, ..StateSize::default() }
    }

    fn run(&self, index: usize, h: &Rows, pass: &mut Pass<'_, '_>) -> Rows {
        let n = self.n_embd;
        let d = shift::token_shift(index, StateKind::TokenShift, h, pass);
        // Each part sees its own interpolation with the token before.
        let mut project = |part: usize, run: &dyn Fn(&Rows, &mut Pass<'_, '_>) -> Rows| {
            let x = shift::lerp(h, &d, &self.lerp[part * n..(part + 1) * n], pass);
            run(&x, pass)
        };
        let r = project(0, &|x, pass| self.w_r.run(x, pass));
        let mut w = project(1, &|x, pass| self.decay.run(x, libm::tanhf, pass));
        w.map(|x| exp(MIN_LOG_DECAY * sigmoid(x)));
        let k = project(2, &|x, pass| self.w_k.run(x, pass));
        let v = project(3, &|x, pass| self.values(x, pass));
        let mut a = project(4, &|x, pass| self.rate.run(x, |x| x, pass));
        a.map(sigmoid);
        let g = self.gate.as_ref().map(|gate| project(5, &|x, pass| gate.run(x, sigmoid, pass)));
        drop(d);

        let mut y = self.recur(index, [&r, &w, &k, &v, &a], pass);
        drop((r, w, k, v, a));
        if let Some(g) = g {
            y *= &g;
        }
        self.w_o.run(&y, pass)
    }
}

impl TimeMix7 {
    /// Values of this layer with those of the first: x (n, n_embd) -> (n, n_embd).
    fn values(&self, x: &Rows, pass: &mut Pass<'_, '_>) -> Rows {
        let mut v = self.w_v.run(x, pass);
        // The first layer leaves its values to those that follow.
        let Some(v_first) = pass.first_values.take() else {
            pass.first_values = Some(v.clone());
            return v;
        };
        if let Some(residual) = &self.value_residual {
            let s = residual.run(x, |x| x, pass);
            ndarray::Zip::from(&mut *v).and(&*v_first).and(&*s).for_each(|v, v_first, s| {
                *v += (v_first - *v) * sigmoid(*s);
            });
        }
        pass.first_values = Some(v_first);
        v
    }

    /// `y` of the module's head; the state of a head is `S[i, j]`: (value, key).
    fn recur(&self, index: usize, [r, w, k, v, a]: [&Rows; 5], pass: &mut Pass<'_, '_>) -> Rows {
        let size = self.head_size;
        let n_head = self.n_embd / size;
        let mut y = pass.scratch(k.nrows(), self.n_embd);
        let mut states = pass.take_states(index, StateKind::Recurrence, self.n_embd * size);
        let all = [r, w, k, v, a].map(Rows::as_slice);
        recur(&pass.sequences(), &mut states, n_head, &mut y, |head, rows, state, mut y| {
            let own = head * size..(head + 1) * size;
            // (key): kappa and k~ of one token.
            let mut kappa = vec![0.0; size];
            let mut k_replacement = vec![0.0; size];
            for (t, mut y) in rows.zip(y.rows_mut()) {
                let [r, w, k, v, a] = all.map(|rows| &rows[t * self.n_embd + own.start..][..size]);
                for j in 0..size {
                    kappa[j] = k[j] * self.k_k[own.start + j];
                    k_replacement[j] = k[j] * (1.0 + (a[j] - 1.0) * self.k_a[own.start + j]);
                }
                // As torch's `normalize`: a length below 1e-12 counts as that.
                let length = kappa.iter().map(|x| x * x).sum::<f32>().sqrt().max(1e-12);
                kappa.iter_mut().for_each(|x| *x /= length);
                for (i, s) in state.chunks_exact_mut(size).enumerate() {
                    // The state's content under kappa; the row then decays, loses that, and takes v[i] under
                    // k~.
                    let (s_kappa, v) = (dot(s, &kappa), v[i]);
                    for ((((s, w), kappa), a), k) in
                        s.iter_mut().zip(w).zip(&kappa).zip(a).zip(&k_replacement)
                    {
                        *s = *s * w - s_kappa * kappa * a + v * k;
                    }
                    y[i] = dot(s, r);
                }
            }
        });
        pass.put_states(index, StateKind::Recurrence, states);
        if let Some(norm) = &self.norm {
            norm.apply_groups(&mut y, size);
        }
        // The bonus: the token's own value, weighted by the agreement of its replacement key with its
        // receptance.
        for (t, mut y) in y.rows_mut().into_iter().enumerate() {
            for head in 0..n_head {
                let own = head * size..(head + 1) * size;
                let bonus: f32 = own
                    .clone()
                    .map(|j| {
                        let factor = 1.0 + (a[[t, j]] - 1.0) * self.k_a[j];
                        k[[t, j]] * factor * r[[t, j]] * self.r_k[j]
                    })
                    .sum();
                own.for_each(|j| y[j] += bonus * v[[t, j]]);
            }
        }
        y
    }
}
