//! The choice of keys by an indexer, before attention.

use ndarray::{ArrayView2, Axis, s};
use rayon::prelude::*;

use super::{KvView, Mask, Rows, matmul::dense};

/// Keys that each row of a batch sees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selection {
    /// Choices for each row: 1, or one for each group of heads.
    n_groups: usize,
    /// (n_rows, n_groups): a bit for each key of the row's sequence; `None` if all keys of the mask are seen.
    rows: Vec<Option<Vec<u64>>>,
}

impl Selection {
    /// One choice for each row.
    pub fn of_rows(rows: Vec<Option<Vec<u64>>>) -> Selection {
        Selection { n_groups: 1, rows }
    }

    /// A bit for each of `n` keys.
    pub fn bits(n: usize, seen: impl Iterator<Item = usize>) -> Vec<u64> {
        let mut bits = Bits::none_of(n);
        seen.for_each(|key| bits.set(key..key + 1));
        bits.0
    }

    /// True if a head of `n_head` sees the key at a position from a row.
    pub fn sees(&self, row: usize, head: usize, n_head: usize, key: usize) -> bool {
        let group = head * self.n_groups / n_head.max(1);
        match self.rows.get(row * self.n_groups + group) {
            Some(Some(bits)) => bits.get(key / 64).is_some_and(|bits| bits >> (key % 64) & 1 == 1),
            _ => true,
        }
    }
}

/// Rows that are scored at once.
const BLOCK_ROWS: usize = 64;

/// Scores of keys for all heads together, of which the largest are chosen:
///
/// ```text
/// I_ij = scale * sum over heads of w_i relu(q_i . k_j)
/// ```
#[derive(Clone, Copy)]
pub struct KeyChoice<'a> {
    pub n_head: usize,
    /// Elements of a head.
    pub width: usize,
    /// Factor of the scores.
    pub scale: f32,
    /// Keys that a query sees.
    pub top_k: usize,
    /// Pools that are chosen instead of keys.
    pub pools: Option<Pools<'a>>,
}

/// Consecutive keys that are scored as one. A query sees a pool only if it sees all its keys.
#[derive(Clone, Copy)]
pub struct Pools<'a> {
    /// Keys of a pool.
    pub size: usize,
    /// True if keys after the last complete pool are seen too.
    pub has_tail: bool,
    /// From the kept rows of a sequence to a key for each complete pool: (n_keys / size, width).
    pub pool: &'a (dyn Fn(ArrayView2<'_, f32>) -> Rows + Sync),
}

impl KeyChoice<'_> {
    /// `query (n, n_head * width)`, `weights (n, n_head)`; keys of sequences (n_keys, width), or what pools are made
    /// of.
    pub fn select(&self, query: &Rows, weights: &Rows, sequences: &[KvView<'_>]) -> Selection {
        let mut rows = vec![None; query.nrows()];
        for sequence in sequences {
            let pooled = self.pools.map(|pools| (pools.pool)(sequence.keys));
            let keys = pooled.as_ref().map_or(sequence.keys, |pooled| pooled.view());
            let start = sequence.queries.start;
            let own = &mut rows[start..sequence.queries.end];
            own.par_chunks_mut(BLOCK_ROWS).enumerate().for_each(|(block, own)| {
                let first = start + block * BLOCK_ROWS;
                let seen = |row: usize| n_seen(sequence, first + row);
                self.select_block(query, weights, keys, first, &seen, own);
            });
        }
        Selection { n_groups: 1, rows }
    }

    /// Rows of the batch from `first` on, which are all of one sequence and of which row `i` sees `seen(i)` keys.
    fn select_block(
        &self,
        query: &Rows,
        weights: &Rows,
        keys: ArrayView2<'_, f32>,
        first: usize,
        seen: &dyn Fn(usize) -> usize,
        rows: &mut [Option<Vec<u64>>],
    ) {
        let size = self.pools.map_or(1, |pools| pools.size);
        let has_tail = self.pools.is_some_and(|pools| pools.has_tail);
        let top_k = self.top_k / size;
        // Without a choice to make, all keys are seen.
        let n_units = seen(rows.len().saturating_sub(1)) / size;
        let is_all = |n_keys: usize| n_keys / size <= top_k && (has_tail || n_keys.is_multiple_of(size));
        if (0..rows.len()).all(|row| is_all(seen(row))) {
            return;
        }
        let keys = keys.slice_axis(Axis(0), (0..n_units).into());
        let mut scores = Rows::zeros(rows.len(), n_units);
        let mut products = Rows::zeros(rows.len(), n_units);
        for head in 0..self.n_head {
            let columns = head * self.width..(head + 1) * self.width;
            let queries = query.slice(s![first..first + rows.len(), columns]);
            dense(self.scale, queries, keys.reversed_axes(), products.view_mut());
            for (i, (mut scores, products)) in scores.rows_mut().into_iter().zip(products.rows()).enumerate()
            {
                let weight = weights[[first + i, head]];
                scores.iter_mut().zip(products).for_each(|(score, x)| *score += weight * x.max(0.0));
            }
        }
        for (i, row) in rows.iter_mut().enumerate().filter(|(i, _)| !is_all(seen(*i))) {
            let (n_keys, n_units_seen) = (seen(i), seen(i) / size);
            let mut bits = Bits::none_of(n_keys);
            let scores = &scores.as_slice()[i * n_units..][..n_units_seen];
            for unit in largest(scores, top_k) {
                bits.set(unit * size..(unit + 1) * size);
            }
            if has_tail {
                bits.set(n_units_seen * size..n_keys);
            }
            *row = Some(bits.0);
        }
    }
}

/// The best blocks of keys for each group of heads: a block is as good as its best key, `max q_i . k_j`, and the
/// blocks next to the query come first.
#[derive(Debug, Clone, Copy)]
pub struct BlockChoice {
    /// Groups of heads.
    pub n_groups: usize,
    /// Elements of a query of a group.
    pub width: usize,
    /// Keys of a block.
    pub size: usize,
    /// Blocks that a query sees.
    pub n_blocks: usize,
    /// Blocks that are always among them, from that of the query back.
    pub n_local: usize,
}

impl BlockChoice {
    /// `query (n, n_groups * width)`; keys of sequences (n_keys, width).
    pub fn select(&self, query: &Rows, sequences: &[KvView<'_>]) -> Selection {
        let n_groups = self.n_groups;
        let mut rows = vec![None; query.nrows() * n_groups];
        for sequence in sequences {
            let start = sequence.queries.start;
            let own = &mut rows[start * n_groups..sequence.queries.end * n_groups];
            own.par_chunks_mut(BLOCK_ROWS * n_groups).enumerate().for_each(|(block, own)| {
                self.select_block(query, sequence, start + block * BLOCK_ROWS, own);
            });
        }
        Selection { n_groups, rows }
    }

    fn select_block(&self, query: &Rows, sequence: &KvView<'_>, first: usize, rows: &mut [Option<Vec<u64>>]) {
        let n = rows.len() / self.n_groups;
        let n_keys = n_seen(sequence, first + n.saturating_sub(1));
        if n_keys.div_ceil(self.size) <= self.n_blocks {
            return;
        }
        let keys = sequence.keys.slice_axis(Axis(0), (0..n_keys).into());
        let mut scores = Rows::zeros(n, n_keys);
        for group in 0..self.n_groups {
            let columns = group * self.width..(group + 1) * self.width;
            dense(1.0, query.slice(s![first..first + n, columns]), keys.reversed_axes(), scores.view_mut());
            for (i, scores) in scores.as_slice().chunks_exact(n_keys).enumerate() {
                let n_seen = n_seen(sequence, first + i);
                let best = |keys: &[f32]| keys.iter().copied().fold(f32::NEG_INFINITY, f32::max);
                let mut blocks: Vec<f32> = scores[..n_seen].chunks(self.size).map(best).collect();
                if blocks.len() <= self.n_blocks {
                    continue;
                }
                blocks.iter_mut().rev().take(self.n_local).for_each(|score| *score = f32::INFINITY);
                let mut bits = Bits::none_of(n_seen);
                for block in largest(&blocks, self.n_blocks) {
                    bits.set(block * self.size..((block + 1) * self.size).min(n_seen));
                }
                rows[i * self.n_groups + group] = Some(bits.0);
            }
        }
    }
}

/// Keys that a row of the batch sees by its position.
fn n_seen(sequence: &KvView<'_>, row: usize) -> usize {
    sequence.keys_of(Mask::Causal, sequence.queries.position + row - sequence.queries.start).end
}

/// A bit for each key.
struct Bits(Vec<u64>);

impl Bits {
    fn none_of(n: usize) -> Bits {
        Bits(vec![0; n.div_ceil(64)])
    }

    fn set(&mut self, keys: std::ops::Range<usize>) {
        keys.for_each(|at| self.0[at / 64] |= 1 << (at % 64));
    }
}

/// Indexes of the `n` largest values; of equal ones the first.
fn largest(values: &[f32], n: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    if n > 0 && n < order.len() {
        order.select_nth_unstable_by(n - 1, |a, b| values[*b].total_cmp(&values[*a]).then(a.cmp(b)));
    }
    order.truncate(n);
    order
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::Queries;

    fn view(keys: &Rows, n: usize) -> KvView<'_> {
        let position = keys.nrows() - n;
        KvView {
            queries: Queries { start: 0, end: n, position },
            keys: keys.view(),
            values: keys.view(),
            blocks: &[],
        }
    }

    fn seen(selection: &Selection, head: usize, n_head: usize, n: usize) -> Vec<usize> {
        (0..n).filter(|key| selection.sees(0, head, n_head, *key)).collect()
    }

    #[test]
    fn largest_scores_are_chosen_and_first_of_equal_ones() {
        let keys = Rows::from_vec(5, 1, vec![1.0, 3.0, 1.0, -2.0, 1.0]);
        let (query, weights) = (Rows::from_vec(1, 1, vec![2.0]), Rows::from_vec(1, 1, vec![1.0]));
        let choice = KeyChoice { n_head: 1, width: 1, scale: 1.0, top_k: 2, pools: None };
        assert_eq!(seen(&choice.select(&query, &weights, &[view(&keys, 1)]), 0, 1, 5), [0, 1]);
        let all = KeyChoice { top_k: 5, ..choice };
        assert_eq!(seen(&all.select(&query, &weights, &[view(&keys, 1)]), 0, 1, 5), [0, 1, 2, 3, 4]);
    }

    #[test]
    fn pools_are_chosen_whole_and_keys_after_them_are_seen() {
        // Of three pools the second is best; one key follows.
        let keys = Rows::from_vec(7, 1, vec![1.0, 0.0, 4.0, 2.0, 1.0, 1.0, 9.0]);
        let first = |keys: ArrayView2<'_, f32>| {
            let firsts = keys.column(0).iter().step_by(2).take(keys.nrows() / 2).copied().collect();
            Rows::from_vec(keys.nrows() / 2, 1, firsts)
        };
        let (query, weights) = (Rows::from_vec(1, 1, vec![1.0]), Rows::from_vec(1, 1, vec![1.0]));
        let pools = Pools { size: 2, has_tail: true, pool: &first };
        let choice = KeyChoice { n_head: 1, width: 1, scale: 1.0, top_k: 2, pools: Some(pools) };
        assert_eq!(seen(&choice.select(&query, &weights, &[view(&keys, 1)]), 0, 1, 7), [2, 3, 6]);
    }

    #[test]
    fn blocks_are_chosen_by_group_with_the_last_one() {
        let keys = Rows::from_vec(7, 1, vec![1.0, 0.0, -4.0, 2.0, 1.0, 1.0, 0.0]);
        let query = Rows::from_vec(1, 2, vec![1.0, -1.0]);
        let choice = BlockChoice { n_groups: 2, width: 1, size: 2, n_blocks: 2, n_local: 1 };
        let selection = choice.select(&query, &[view(&keys, 1)]);
        assert_eq!(seen(&selection, 0, 4, 7), [2, 3, 6]);
        assert_eq!(seen(&selection, 1, 4, 7), [2, 3, 6]);
        let keys = Rows::from_vec(7, 1, vec![-3.0, 0.0, 1.0, 2.0, 1.0, 1.0, 0.0]);
        let selection = choice.select(&query, &[view(&keys, 1)]);
        assert_eq!(seen(&selection, 1, 4, 7), [2, 3, 6]);
        assert_eq!(seen(&selection, 2, 4, 7), [0, 1, 6]);
    }
}
