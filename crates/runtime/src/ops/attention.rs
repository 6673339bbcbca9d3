//! Attention over the sequences of a batch, a head and a sequence at a time.
//!
//! For query `i` of a head, `j` over the keys that its mask lets it see:
//!
//! ```text
//! s_ij = scale * q_i . k_j                       q_i, k_j (key_width), s_ij one number
//! s_ij = soft_cap * tanh(s_ij / soft_cap)        if there is a cap
//! s_ij = s_ij - slope * |i - j| + bias_ij        if there is ALiBi, or a learned bias (T5)
//! p_ij = exp(s_ij) / (exp(sink) + sum_j exp(s_ij))    the sink's term only if there is one
//! o_i  = sum_j p_ij v_j                          v_j, o_i (value_width)
//! ```
//!
//! With fewer heads of keys and values than of queries (grouped queries), head `h` sees those of head
//! `h / (n_head / n_head_kv)`.
//!
//! Queries are taken in blocks, and a block is multiplied only with the keys that its mask lets it
//! see, so that half of a causal square is never computed.

mod backward;

use std::{cell::Cell, ops::Range};

use gguf_products::{Right, matmul_packed};
use gguf_quant::Level;
use ndarray::{ArrayViewMut2, Axis, s};
use rayon::prelude::*;

use super::{
    KvView, Mask, Queries, Rows, Selection,
    activation::{exp, exp_and_sum, largest},
    matmul::dense,
    vectorize,
};

/// Queries that are multiplied with their keys at once.
const BLOCK_ROWS: usize = 128;

/// With fewer queries than this, heads are separate tasks.
const FEW_ROWS: usize = 32;

/// Output of a task: some heads of a block of queries.
struct Task<'a, 'k> {
    sequence: &'a KvView<'k>,
    /// One, or all that share keys and values.
    heads: Range<usize>,
    /// Rows of the sequence.
    rows: Range<usize>,
    /// (rows, heads * value_width).
    out: ArrayViewMut2<'a, f32>,
}

/// Memory of a thread's own, kept between tasks.
#[derive(Default)]
struct Room {
    /// (rows, keys).
    scores: Vec<f32>,
    /// (key_width, keys).
    keys: Right,
    /// (keys, value_width).
    values: Right,
}

thread_local! {
    static ROOM: Cell<Room> = Cell::default();
}

/// Parameters of an attention: everything besides queries, keys and values.
pub struct Attention<'a> {
    /// Heads of queries.
    pub n_head: usize,
    /// Heads of keys and values.
    pub n_head_kv: usize,
    /// Elements of a query or key of a head.
    pub key_width: usize,
    /// Elements of a value of a head.
    pub value_width: usize,
    /// Factor of the products of query and key.
    pub scale: f32,
    /// `cap * tanh(x / cap)` of the scaled products.
    pub soft_cap: Option<f32>,
    /// The keys that a query sees.
    pub mask: Mask,
    /// ALiBi: reduction per position of distance, for each head.
    pub slopes: Option<&'a [f32]>,
    /// A logit for each head that takes part in the softmax and has no value.
    pub sinks: Option<&'a [f32]>,
    /// Addition to a score, by head, position of the key and position of the query.
    pub bias: Option<&'a (dyn Fn(usize, usize, usize) -> f32 + Sync)>,
    /// Keys that each row sees, among those of its mask.
    pub selected: Option<&'a Selection>,
}

impl Attention<'_> {
    /// `queries (n, n_head * key_width) -> out (n, n_head * value_width)`, every element of which is overwritten.
    pub fn run(&self, queries: &Rows, sequences: &[KvView<'_>], mut out: Rows) -> Rows {
        let group = self.n_head / self.n_head_kv;
        let mut tasks = Vec::new();
        let mut rest = out.view_mut();
        let mut at = 0;
        // Every task owns the cells that it writes: the columns of some heads in a block of rows of a sequence.
        for sequence in sequences {
            let Queries { start, end, .. } = sequence.queries;
            let (_, after) = rest.split_at(Axis(0), start - at);
            let (mut own, after) = after.split_at(Axis(0), end - start);
            (rest, at) = (after, end);
            for first in (0..end - start).step_by(BLOCK_ROWS) {
                let rows = first..(first + BLOCK_ROWS).min(end - start);
                // Heads that share keys and values share what kernels make of both, if that is worth a task less for each.
                let at_once = if rows.len() < FEW_ROWS { 1 } else { group };
                let (mut block, below) = own.split_at(Axis(0), rows.len());
                own = below;
                for head in (0..self.n_head).step_by(at_once) {
                    let (out, remaining) = block.split_at(Axis(1), at_once * self.value_width);
                    block = remaining;
                    tasks.push(Task { sequence, heads: head..head + at_once, rows: rows.clone(), out });
                }
            }
        }
        tasks.into_par_iter().with_max_len(1).for_each(|task| self.heads(queries, task));
        out
    }

    /// Some heads of a block of queries.
    fn heads(&self, queries: &Rows, Task { sequence, heads, rows, mut out }: Task<'_, '_>) {
        let kv = heads.start / (self.n_head / self.n_head_kv);
        let (kw, vw, level) = (self.key_width, self.value_width, Level::detect());
        let Queries { start, position, .. } = sequence.queries;
        // The keys seen by a block: ranges only move forward with the position, so those of its first and of
        // its last query bound all others.
        let first = sequence.keys_of(self.mask, position + rows.start).start;
        let last = sequence.keys_of(self.mask, position + rows.end - 1).end;
        let keys = sequence.keys.slice(s![first..last, kv * kw..(kv + 1) * kw]);
        let values = sequence.values.slice(s![first..last, kv * vw..(kv + 1) * vw]);
        let mut room = ROOM.take();
        let n_scores = rows.len() * (last - first);
        room.scores.resize(room.scores.len().max(n_scores), 0.0);
        let is_shared = heads.len() > 1;
        if is_shared {
            room.keys.pack(level, keys.reversed_axes());
            room.values.pack(level, values);
        }
        let scores = &mut room.scores[..n_scores];
        let mut scores =
            ArrayViewMut2::from_shape((rows.len(), last - first), scores).expect("as many scores");
        for (at, head) in heads.enumerate() {
            let queries = queries.slice(s![start + rows.start..start + rows.end, head * kw..(head + 1) * kw]);
            // S = scale * Q K^T: (rows, key_width) @ (key_width, keys) -> (rows, keys)
            if is_shared {
                matmul_packed(false, self.scale, queries, &room.keys, scores.view_mut())
            } else {
                dense(self.scale, queries, keys.reversed_axes(), scores.view_mut())
            }
            for (i, mut row) in scores.rows_mut().into_iter().enumerate() {
                let query = position + rows.start + i;
                let seen = sequence.keys_of(self.mask, query);
                let row = row.as_slice_mut().expect("scores are contiguous");
                // Invisible keys get no weight; visible ones a softmax over themselves.
                row[..seen.start - first].fill(0.0);
                row[seen.end - first..].fill(0.0);
                let row = &mut row[seen.start - first..seen.end - first];
                if let Some(selection) = self.selected {
                    let at = start + rows.start + i;
                    for (key, x) in seen.clone().zip(row.iter_mut()) {
                        if !selection.sees(at, head, self.n_head, key) {
                            *x = f32::NEG_INFINITY;
                        }
                    }
                }
                self.softmax_row(head, query, seen.start, row);
            }
            // O = P V: (rows, keys) @ (keys, value_width) -> (rows, value_width)
            let out = out.slice_mut(s![.., at * vw..(at + 1) * vw]);
            if is_shared {
                matmul_packed(false, 1.0, scores.view(), &room.values, out)
            } else {
                dense(1.0, scores.view(), values, out)
            }
        }
        ROOM.set(room);
    }

    /// Scores of a query against the keys from position `first` on, to probabilities.
    fn softmax_row(&self, head: usize, query: usize, first: usize, row: &mut [f32]) {
        if let Some(cap) = self.soft_cap {
            row.iter_mut().for_each(|x| *x = cap * libm::tanhf(*x / cap));
        }
        // ALiBi falls with the distance in both directions: encoders also see keys after the query.
        if let Some(slopes) = self.slopes {
            let slope = slopes[head];
            for (i, x) in row.iter_mut().enumerate() {
                *x -= slope * (query as f32 - (first + i) as f32).abs();
            }
        }
        if let Some(bias) = self.bias {
            row.iter_mut().enumerate().for_each(|(i, x)| *x += bias(head, first + i, query));
        }
        let sink = self.sinks.map(|sinks| sinks[head]);
        softmax(row, sink);
    }
}

/// `x_i <- exp(x_i) / sum_j exp(x_j)`; the sum has a term `exp(sink)` if there is one.
pub fn softmax(row: &mut [f32], sink: Option<f32>) {
    vectorize(
        #[inline(always)]
        || {
            // Taking off the largest changes no quotient and keeps every exponential at most 1.
            let max = largest(row).max(sink.unwrap_or(f32::NEG_INFINITY));
            let all = exp_and_sum(row, max);
            let scale = 1.0 / (all + sink.map_or(0.0, |sink| exp(sink - max)));
            row.iter_mut().for_each(|x| *x *= scale);
        },
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunked_mask_starts_at_chunk_multiple() {
        let seen = |position| Mask::Chunk(4).keys(position, 9);
        assert_eq!([seen(0), seen(3), seen(4), seen(8)], [0..1, 0..4, 4..5, 8..9]);
    }
}
