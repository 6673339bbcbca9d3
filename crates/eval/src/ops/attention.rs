//! Attention over the windows of a batch, a head and a window at a time.
//!
//! Queries are taken in blocks, and a block is multiplied only with the keys that its mask lets it
//! see, so that half of a causal square is never computed.

use std::ops::Range;

use ndarray::{Array2, ArrayView2, ArrayViewMut2, Axis, s};
use rayon::prelude::*;

use super::{
    Rows,
    activation::{exp, largest, sum},
    matmul::dense,
    vectorize,
};

/// Queries that are multiplied with their keys at once.
const BLOCK_ROWS: usize = 128;

/// Which keys a query sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mask {
    /// Those at or before its position.
    Causal,
    /// The nearest `n` of those, its own among them.
    Window(usize),
    /// Those of its own chunk of `n` positions.
    Chunk(usize),
    /// All of them.
    All,
    /// Those at most so many positions away.
    Around(usize),
}

impl Mask {
    /// Which of `n_keys` keys a query at a position sees.
    fn keys(self, position: usize, n_keys: usize) -> Range<usize> {
        match self {
            Mask::Causal => 0..position + 1,
            Mask::Window(n) => (position + 1).saturating_sub(n)..position + 1,
            Mask::Chunk(n) => position - position % n..position + 1,
            Mask::All => 0..n_keys,
            Mask::Around(n) => position.saturating_sub(n)..n_keys.min(position + n + 1),
        }
    }
}

/// Keys and values of one window, from position 0 on.
#[derive(Clone, Copy)]
pub(crate) struct Window<'a> {
    /// The rows of the batch that ask.
    pub queries: Queries,
    /// (n_keys, n_head_kv * key_width).
    pub keys: ArrayView2<'a, f32>,
    /// (n_keys, n_head_kv * value_width).
    pub values: ArrayView2<'a, f32>,
}

/// Rows of a batch, and the position of the first.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Queries {
    pub start: usize,
    pub end: usize,
    pub position: usize,
}

/// What attention is done with, beside queries, keys and values.
pub(crate) struct Attention<'a> {
    pub n_head: usize,
    pub n_head_kv: usize,
    pub key_width: usize,
    pub value_width: usize,
    /// What products of query and key are multiplied with.
    pub scale: f32,
    /// `cap * tanh(x / cap)` of the scaled products.
    pub soft_cap: Option<f32>,
    pub mask: Mask,
    /// What is added by distance, for each head.
    pub slopes: Option<&'a [f32]>,
    /// A further weight in the sum of each head, for nothing.
    pub sinks: Option<&'a [f32]>,
    /// What is added to a product by head and by the position of key and query.
    pub bias: Option<&'a (dyn Fn(usize, usize, usize) -> f32 + Sync)>,
}

impl Attention<'_> {
    /// `queries (n, n_head * key_width) -> out (n, n_head * value_width)`, in which nothing is kept.
    pub fn run(&self, queries: &Rows, windows: &[Window<'_>], mut out: Rows) -> Rows {
        let mut tasks = Vec::new();
        let mut rest = out.view_mut();
        let mut at = 0;
        for window in windows {
            let (_, behind) = rest.split_at(Axis(0), window.queries.start - at);
            let (mut own, behind) = behind.split_at(Axis(0), window.queries.end - window.queries.start);
            (rest, at) = (behind, window.queries.end);
            for head in 0..self.n_head {
                let (first, others) = own.split_at(Axis(1), self.value_width);
                own = others;
                tasks.push((window, head, first));
            }
        }
        tasks.into_par_iter().for_each(|(window, head, out)| self.head(queries, window, head, out));
        out
    }

    fn head(&self, queries: &Rows, window: &Window<'_>, head: usize, mut out: ArrayViewMut2<'_, f32>) {
        let kv = head / (self.n_head / self.n_head_kv);
        let (kw, vw) = (self.key_width, self.value_width);
        let Queries { start, end, position } = window.queries;
        let queries = queries.slice(s![start..end, head * kw..(head + 1) * kw]);
        let keys = window.keys.slice(s![.., kv * kw..(kv + 1) * kw]);
        let values = window.values.slice(s![.., kv * vw..(kv + 1) * vw]);
        let (n, n_keys) = (end - start, keys.nrows());
        // The products of a block are at the beginning of what is taken for all.
        let mut scores = Array2::zeros((BLOCK_ROWS.min(n), n_keys));
        for block in (0..n).step_by(BLOCK_ROWS) {
            let rows = block..(block + BLOCK_ROWS).min(n);
            // Ranges move forward with the position, so the first and the last say it all.
            let first = self.mask.keys(position + rows.start, n_keys).start;
            let last = self.mask.keys(position + rows.end - 1, n_keys).end;
            let mut scores = scores.slice_mut(s![..rows.len(), ..last - first]);
            let (asked, seen) = (queries.slice(s![rows.clone(), ..]), keys.slice(s![first..last, ..]));
            dense(self.scale, asked, seen.reversed_axes(), scores.view_mut());
            for (i, mut row) in scores.rows_mut().into_iter().enumerate() {
                let query = position + rows.start + i;
                let seen = self.mask.keys(query, n_keys);
                let row = row.as_slice_mut().expect("scores are contiguous");
                row[..seen.start - first].fill(0.0);
                row[seen.end - first..].fill(0.0);
                self.weigh(head, query, seen.start, &mut row[seen.start - first..seen.end - first]);
            }
            dense(1.0, scores.view(), values.slice(s![first..last, ..]), out.slice_mut(s![rows, ..]));
        }
    }

    /// Scaled products with the keys from `first` on, to weights.
    fn weigh(&self, head: usize, query: usize, first: usize, row: &mut [f32]) {
        if let Some(cap) = self.soft_cap {
            row.iter_mut().for_each(|x| *x = cap * (*x / cap).tanh());
        }
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

/// Weights that sum to one, or with the sink's to one.
pub(crate) fn softmax(row: &mut [f32], sink: Option<f32>) {
    vectorize(
        #[inline(always)]
        || {
            let max = largest(row).max(sink.unwrap_or(f32::NEG_INFINITY));
            row.iter_mut().for_each(|x| *x = exp(*x - max));
            let all = sum(
                row,
                #[inline(always)]
                |x| x,
            );
            let scale = 1.0 / (all + sink.map_or(0.0, |sink| exp(sink - max)));
            row.iter_mut().for_each(|x| *x *= scale);
        },
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_begin_where_the_last_one_ends() {
        let seen = |position| Mask::Chunk(4).keys(position, 9);
        assert_eq!([seen(0), seen(3), seen(4), seen(8)], [0..1, 0..4, 4..5, 8..9]);
    }
}
