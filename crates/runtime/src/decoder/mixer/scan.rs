//! The scan of a selective state space with one decay per head.
//!
//! ```text
//! D_t = softplus(dt_t + b_dt)                    (n_head)
//! S_t = exp(D_t A) S_(t-1) + D_t x_t B_t^T       for each head: S (head_width, d_state), A one number, below zero
//! y_t = S_t C_t + D x_t                          D one number
//! ```
//!
//! Heads of a group have the same B and C. `D_t` is the paper's Delta (arXiv 2405.21060).
//!
//! Source: `ggml_compute_forward_ssm_scan_f32` of llama.cpp (llama-cpp-python 0.3.36).

use super::need_state;
use crate::{
    Error,
    keys::Keys,
    ops::{Rows, dot, exp, recur, softplus},
    pass::Pass,
    session::StateKind,
    weights::Weights,
};

/// Sizes and parameters of the scan.
pub(super) struct HeadScan {
    /// b_dt (n_head).
    dt_bias: Vec<f32>,
    /// A (n_head).
    a: Vec<f32>,
    /// D (n_head).
    d: Vec<f32>,
    d_inner: usize,
    d_state: usize,
    n_head: usize,
    n_group: usize,
    /// Elements of all states.
    pub n_state: usize,
}

impl HeadScan {
    /// Reads the scan of layer `i`. All sizes are above 0.
    ///
    /// # Errors
    /// [`Error::Key`], [`Error::MissingTensor`], [`Error::TensorShape`], [`Error::TensorType`].
    pub fn open(
        keys: &Keys<'_>,
        weights: &mut Weights<'_>,
        i: usize,
        [d_inner, d_state, n_head, n_group]: [usize; 4],
    ) -> Result<HeadScan, Error> {
        let blk = |name: &str| format!("blk.{i}.{name}");
        if !d_inner.is_multiple_of(n_head) {
            return Err(keys.wrong("ssm.time_step_rank", "a divisor of the inner size"));
        }
        if !n_head.is_multiple_of(n_group) {
            return Err(keys.wrong("ssm.group_count", "a divisor of the number of heads"));
        }
        Ok(HeadScan {
            dt_bias: weights.need_vector(&blk("ssm_dt.bias"), n_head)?,
            a: weights.need_vector(&blk("ssm_a"), n_head)?,
            d: weights.need_vector(&blk("ssm_d"), n_head)?,
            d_inner,
            d_state,
            n_head,
            n_group,
            n_state: need_state(keys, "ssm.state_size", d_inner, d_state)?,
        })
    }

    /// `x_b_c (n, d_inner + 2 n_group d_state), dt (n, n_head) -> y (n, d_inner)`. A row of `x_b_c` is x (d_inner), B (n_group,
    /// d_state) and C (n_group, d_state).
    pub fn run(&self, index: usize, x_b_c: &Rows, dt: &Rows, pass: &mut Pass<'_, '_>) -> Rows {
        let (d_inner, d_state, n_head) = (self.d_inner, self.d_state, self.n_head);
        let mut y = pass.scratch(x_b_c.nrows(), d_inner);
        let mut states = pass.take_states(index, StateKind::Recurrence, self.n_state);
        let head_width = d_inner / n_head;
        let (x_b_c, width) = (x_b_c.as_slice(), x_b_c.ncols());
        recur(&pass.sequences(), &mut states, n_head, &mut y, |head, rows, states, mut y| {
            // Neighbouring heads share a group.
            let group = head / (n_head / self.n_group);
            for (t, mut y) in rows.zip(y.rows_mut()) {
                let (x, b_c) = x_b_c[t * width..(t + 1) * width].split_at(d_inner);
                let b = &b_c[group * d_state..][..d_state];
                let c = &b_c[(self.n_group + group) * d_state..][..d_state];
                // One step and one decay for the entire head.
                let dt = softplus(dt[[t, head]] + self.dt_bias[head]);
                let decay = exp(dt * self.a[head]);
                let x = &x[head * head_width..];
                for ((s, y), x) in states.chunks_exact_mut(d_state).zip(&mut y).zip(x) {
                    let dt_x = x * dt;
                    for (s, b) in s.iter_mut().zip(b) {
                        *s = *s * decay + b * dt_x;
                    }
                    *y = dot(s, c) + x * self.d[head];
                }
            }
        });
        pass.put_states(index, StateKind::Recurrence, states);
        y
    }
}
