//! The time mix of RWKV 4: a weighted mean of all values so far, for each element.
//!
//! ```text
//! r_t = W_r lerp_r(h_t)    k_t = W_k lerp_k(h_t)    v_t = W_v lerp_v(h_t)       (n_embd) each
//! wkv_t = (a_(t-1) + exp(u + k_t) v_t) / (b_(t-1) + exp(u + k_t))               u (n_embd): the bonus of the token itself
//! a_t = exp(-w) a_(t-1) + exp(k_t) v_t                                          w (n_embd), above zero
//! b_t = exp(-w) b_(t-1) + exp(k_t)
//! y_t = W_o (sigmoid(r_t) * wkv_t)
//! ```
//!
//! Exponentials of keys overflow, so a and b are kept divided by `exp(p)`, where p is the largest exponent so far.
//!
//! Source: section 3.1 and appendix D of "RWKV: Reinventing RNNs for the Transformer Era"
//! (arXiv 2305.13048). llama.cpp does not run it.

use super::{Mixer, shift};
use crate::{
    Error,
    decoder::{linear::Linear, params::DecoderParams},
    ops::{Rows, exp, recur, sigmoid},
    pass::Pass,
    session::StateKind,
    state_size::StateSize,
    weights::Weights,
};

pub(in crate::decoder) struct TimeMix4 {
    /// (n_embd) each: of keys, values and receptance.
    lerp: [Vec<f32>; 3],
    w_k: Linear,
    w_v: Linear,
    w_r: Linear,
    /// (n_embd): the logarithm of w.
    log_w: Vec<f32>,
    /// (n_embd).
    u: Vec<f32>,
    w_o: Linear,
}

/// Numbers of the state of an element: a, b and p.
const STATE_ELEMS: usize = 3;

impl TimeMix4 {
    pub fn open(params: &DecoderParams, weights: &mut Weights<'_>, i: usize) -> Result<TimeMix4, Error> {
        let blk = |name: &str| format!("blk.{i}.time_mix_{name}");
        let n = params.n_embd;
        let mut lerp =
            |name: &str| shift::need_lerp(&params.spec, weights, &blk(&format!("lerp_{name}.weight")), n);
        let lerp = [lerp("k")?, lerp("v")?, lerp("r")?];
        let mut vector = |name: &str| weights.need_vector(&blk(&format!("{name}.weight")), n);
        Ok(TimeMix4 {
            lerp,
            log_w: vector("decay")?,
            u: vector("first")?,
            w_k: Linear::need(weights, &blk("key"), n, n)?,
            w_v: Linear::need(weights, &blk("value"), n, n)?,
            w_r: Linear::need(weights, &blk("receptance"), n, n)?,
            w_o: Linear::need(weights, &blk("output"), n, n)?,
        })
    }
}

impl Mixer for TimeMix4 {
    fn row_floats(&self) -> usize {
        6 * self.log_w.len()
    }

    fn state_size(&self) -> StateSize {
        let n = self.log_w.len();
        StateSize { rows: n, state: n * STATE_ELEMS, graph_floats: 6 * n, ..StateSize::default() }
    }

    fn run(&self, index: usize, h: &Rows, pass: &mut Pass<'_, '_>) -> Rows {
        let d = shift::token_shift(index, StateKind::TokenShift, h, pass);
        let mut project = |mu: &[f32], linear: &Linear| {
            let x = shift::lerp(h, &d, mu, pass);
            linear.run(&x, pass)
        };
        let k = project(&self.lerp[0], &self.w_k);
        let v = project(&self.lerp[1], &self.w_v);
        // y begins as r: each element of the recurrence reads its own before it writes.
        let mut y = project(&self.lerp[2], &self.w_r);
        drop(d);

        let n = self.log_w.len();
        let mut states = pass.take_states(index, StateKind::Recurrence, n * STATE_ELEMS);
        recur(&pass.sequences(), &mut states, n, &mut y, |e, rows, state, mut y| {
            let (w, u) = (exp(self.log_w[e]), self.u[e]);
            let [mut a, mut b, mut p] = [state[0], state[1], state[2]];
            // Nothing was summed up yet, so that the first exponent is the largest.
            if b == 0.0 {
                p = f32::MIN;
            }
            for (t, mut y) in rows.zip(y.rows_mut()) {
                let (k, v) = (k[[t, e]], v[[t, e]]);
                // wkv, with both sums over exp(q): the larger of the exponents p and u + k.
                let q = p.max(u + k);
                let (old, new) = (exp(p - q), exp(u + k - q));
                y[0] = sigmoid(y[0]) * (old * a + new * v) / (old * b + new);
                // The new sums, over exp(q): the larger of p - w and k.
                let q = (p - w).max(k);
                let (old, new) = (exp(p - w - q), exp(k - q));
                (a, b, p) = (old * a + new * v, old * b + new, q);
            }
            state.copy_from_slice(&[a, b, p]);
        });
        pass.put_states(index, StateKind::Recurrence, states);
        drop((k, v));
        self.w_o.run(&y, pass)
    }
}
