//! Backward pass through attention.
//!
//! With `z_ij = scale * q_i . k_j`, `s_ij` the result before the softmax and gradients `d`:
//!
//! ```text
//! dp_ij = do_i . v_j                            dv_j = sum_i p_ij do_i
//! ds_ij = p_ij (dp_ij - sum_k p_ik dp_ik)       dz_ij = ds_ij (1 - tanh(z_ij / soft_cap)^2), or ds_ij without a cap
//! dq_i  = scale * sum_j dz_ij k_j               dk_j = scale * sum_i dz_ij q_i
//! ```
//!
//! A sink takes part in the softmax and has no value, so it adds nothing to the sum over `k`; slopes and
//! biases do not contribute.

use std::mem;

use gguf_products::matmul;
use gguf_quant::Level;
use ndarray::{Array2, ArrayViewMut2, Axis, s};
use rayon::prelude::*;

use super::{Attention, BLOCK_ROWS, KvView, Queries};
use crate::ops::{Rows, matmul::dense, recurrence::dot};

/// Output of a task: the query heads of one key-value head, in the rows of one sequence.
struct Task<'a, 'k> {
    sequence: &'a KvView<'k>,
    /// Key-value head.
    kv: usize,
    /// (n, heads of the group * key_width).
    grad_queries: ArrayViewMut2<'a, f32>,
    /// (n, key_width).
    grad_keys: ArrayViewMut2<'a, f32>,
    /// (n, value_width).
    grad_values: ArrayViewMut2<'a, f32>,
}

impl Attention<'_> {
    /// Gradients of queries, keys and values, added to zeros of their shapes, by those of what came out. Every sequence saw its own
    /// only rows: `gradients (n, n_head * value_width)`.
    pub fn backward(
        &self,
        queries: &Rows,
        sequences: &[KvView<'_>],
        gradients: &Rows,
        [grad_queries, grad_keys, grad_values]: &mut [Rows; 3],
    ) {
        let group = self.n_head / self.n_head_kv;
        let mut tasks = Vec::new();
        let mut rest = [grad_queries.view_mut(), grad_keys.view_mut(), grad_values.view_mut()];
        let mut at = 0;
        for sequence in sequences {
            let Queries { start, end, .. } = sequence.queries;
            // Rows of no sequence are skipped.
            for rest in &mut rest {
                let _ = cut(rest, Axis(0), start - at);
            }
            let mut own = rest.each_mut().map(|rest| cut(rest, Axis(0), end - start));
            at = end;
            for kv in 0..self.n_head_kv {
                let [queries, keys, values] = &mut own;
                tasks.push(Task {
                    sequence,
                    kv,
                    grad_queries: cut(queries, Axis(1), group * self.key_width),
                    grad_keys: cut(keys, Axis(1), self.key_width),
                    grad_values: cut(values, Axis(1), self.value_width),
                });
            }
        }
        tasks.into_par_iter().with_max_len(1).for_each(|mut task| {
            // One task for all heads that share keys and values: no two tasks add to the same gradients.
            for head in task.kv * group..(task.kv + 1) * group {
                self.backward_head(queries, gradients, head, &mut task);
            }
        });
    }

    /// One head of one sequence. Its contribution to keys and values follows those of earlier heads.
    fn backward_head(&self, queries: &Rows, gradients: &Rows, head: usize, task: &mut Task<'_, '_>) {
        let (kw, vw, level) = (self.key_width, self.value_width, Level::detect());
        let sequence = task.sequence;
        let Queries { start, end, position } = sequence.queries;
        let queries = queries.slice(s![start..end, head * kw..(head + 1) * kw]);
        let gradients = gradients.slice(s![start..end, head * vw..(head + 1) * vw]);
        let keys = sequence.keys.slice(s![.., task.kv * kw..(task.kv + 1) * kw]);
        let values = sequence.values.slice(s![.., task.kv * vw..(task.kv + 1) * vw]);
        let in_group = head % (self.n_head / self.n_head_kv);
        let mut grad_queries = task.grad_queries.slice_mut(s![.., in_group * kw..(in_group + 1) * kw]);
        let n = end - start;
        let mut room = [0, 1].map(|_| Array2::<f32>::zeros((BLOCK_ROWS.min(n), keys.nrows())));
        for block in (0..n).step_by(BLOCK_ROWS) {
            let rows = block..(block + BLOCK_ROWS).min(n);
            let first = sequence.keys_of(self.mask, position + rows.start).start;
            let last = sequence.keys_of(self.mask, position + rows.end - 1).end;
            let [p, d] = &mut room;
            let mut p = p.slice_mut(s![..rows.len(), ..last - first]);
            let mut d = d.slice_mut(s![..rows.len(), ..last - first]);
            let (q, k, v) = (
                queries.slice(s![rows.clone(), ..]),
                keys.slice(s![first..last, ..]),
                values.slice(s![first..last, ..]),
            );
            let grad_out = gradients.slice(s![rows.clone(), ..]);
            // p: probabilities, as on the way there; d: their gradients, then those of the scores.
            dense(self.scale, q, k.reversed_axes(), p.view_mut());
            dense(1.0, grad_out, v.reversed_axes(), d.view_mut());
            for (i, (mut p, mut d)) in p.rows_mut().into_iter().zip(d.rows_mut()).enumerate() {
                let query = position + rows.start + i;
                let seen = sequence.keys_of(self.mask, query);
                let (p, d) = (
                    p.as_slice_mut().expect("scores are contiguous"),
                    d.as_slice_mut().expect("scores are contiguous"),
                );
                for unseen in [0..seen.start - first, seen.end - first..last - first] {
                    p[unseen.clone()].fill(0.0);
                    d[unseen].fill(0.0);
                }
                let (p, d) = (
                    &mut p[seen.start - first..seen.end - first],
                    &mut d[seen.start - first..seen.end - first],
                );
                let slopes: Vec<f32> = match self.soft_cap {
                    None => Vec::new(),
                    Some(cap) => p
                        .iter()
                        .map(|z| {
                            let t = libm::tanhf(z / cap);
                            1.0 - t * t
                        })
                        .collect(),
                };
                // It caps the scores itself, so the slopes of the cap were taken before.
                self.softmax_row(head, query, seen.start, p);
                let mean = dot(p, d);
                d.iter_mut().zip(&*p).for_each(|(d, p)| *d = p * (*d - mean));
                d.iter_mut().zip(slopes).for_each(|(d, slope)| *d *= slope);
            }
            // Queries of a block are only this block's; keys and values are seen by later blocks too, so theirs are added up.
            dense(self.scale, d.view(), k, grad_queries.slice_mut(s![rows, ..]));
            let grad_keys = task.grad_keys.slice_mut(s![first..last, ..]);
            matmul(level, true, self.scale, d.t(), q, grad_keys);
            let grad_values = task.grad_values.slice_mut(s![first..last, ..]);
            matmul(level, true, 1.0, p.t(), grad_out, grad_values);
        }
    }
}

/// Takes the first part of a view, and leaves the rest.
fn cut<'a>(view: &mut ArrayViewMut2<'a, f32>, axis: Axis, at: usize) -> ArrayViewMut2<'a, f32> {
    let empty = ArrayViewMut2::from_shape((0, 0), &mut []).expect("no elements");
    let (first, rest) = mem::replace(view, empty).split_at(axis, at);
    *view = rest;
    first
}
