//! Keys and values of a sequence, and the part that a query sees.

use std::ops::Range;

use ndarray::ArrayView2;

/// Keys that a query sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mask {
    /// Keys at or before its position.
    Causal,
    /// The nearest `n`, including its own: a sliding window.
    SlidingWindow(usize),
    /// Keys of the query's chunk of `n` positions, at or before its position.
    Chunk(usize),
    /// Everything.
    All,
    /// Keys at most this many positions away, before or after.
    SymmetricWindow(usize),
    /// The last `n` keys up to its position, and all later ones.
    WindowAndLater(usize),
}

impl Mask {
    /// Range of the `n_keys` keys that a query at a position sees.
    pub(super) fn keys(self, position: usize, n_keys: usize) -> Range<usize> {
        match self {
            Mask::Causal => 0..position + 1,
            Mask::SlidingWindow(n) => (position + 1).saturating_sub(n)..position + 1,
            Mask::Chunk(n) => position - position % n..position + 1,
            Mask::All => 0..n_keys,
            Mask::WindowAndLater(n) => (position + 1).saturating_sub(n)..n_keys,
            Mask::SymmetricWindow(n) => position.saturating_sub(n)..n_keys.min(position + n + 1),
        }
    }
}

/// Keys and values of one sequence, from position 0 on.
#[derive(Clone, Copy)]
pub struct KvView<'a> {
    /// The rows of the batch whose queries see them.
    pub queries: Queries,
    /// (n_keys, n_head_kv * key_width).
    pub keys: ArrayView2<'a, f32>,
    /// (n_keys, n_head_kv * value_width).
    pub values: ArrayView2<'a, f32>,
    /// Positions that see each other in both directions, in addition to earlier ones: images.
    pub blocks: &'a [Range<usize>],
}

impl KvView<'_> {
    /// Range of keys that a query at a position sees.
    pub(super) fn keys_of(&self, mask: Mask, position: usize) -> Range<usize> {
        let n_keys = self.keys.nrows();
        let mut keys = mask.keys(position, n_keys);
        if let Some(block) = self.blocks.iter().find(|block| block.contains(&position)) {
            keys.end = keys.end.max(block.end.min(n_keys));
        }
        keys
    }
}

/// Rows `start..end` of a batch, and the position of the first.
#[derive(Debug, Clone, Copy)]
pub struct Queries {
    pub start: usize,
    pub end: usize,
    pub position: usize,
}
