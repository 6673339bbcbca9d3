//! The left side: rows of integers of 8 bits with a scale for each block.

use std::ops::Range;

/// How rows of both sides are cut into blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockForm {
    /// Elements of a block: even.
    pub elems: usize,
    /// Minima of a block on the right side, each for as many elements as the others; 0 where there are none.
    pub n_minima: usize,
}

/// Rows (n, k) of integers, two to a word, with scales.
#[derive(Debug, Clone)]
pub struct Quants {
    form: BlockForm,
    n_blocks: usize,
    /// (n, k / 2): elements `2 i` in the low and `2 i + 1` in the high half.
    pairs: Vec<i32>,
    /// (n, n_blocks * ceil(n_minima / 2)): sums of the elements that share a minimum, two to a word.
    sums: Vec<i32>,
    /// (n, n_blocks).
    scales: Vec<f32>,
}

/// Some blocks of a row.
pub(super) struct Row<'a> {
    pub pairs: &'a [i32],
    pub sums: &'a [i32],
    pub scales: &'a [f32],
}

impl Quants {
    /// Rows of `n_k` integers each and scales (n, n_k / form.elems).
    ///
    /// # Panics
    /// If rows are not whole blocks, or there are not as many scales as blocks.
    pub fn new(form: BlockForm, n_k: usize, values: &[i8], scales: Vec<f32>) -> Quants {
        assert!(form.elems.is_multiple_of(2) && n_k.is_multiple_of(form.elems), "rows are whole blocks");
        assert_eq!(scales.len() * form.elems, values.len(), "a scale for each block");
        let pairs = values.as_chunks::<2>().0.iter().map(|[a, b]| pair((*a).into(), (*b).into())).collect();
        let mut sums = Vec::new();
        if let Some(group) = form.elems.checked_div(form.n_minima) {
            for block in values.chunks_exact(form.elems) {
                let mut groups = block.chunks_exact(group);
                // At most 256 elements of 8 bits: 16 bits hold the sum.
                let mut next = || groups.next().map_or(0, |group| group.iter().map(|x| i16::from(*x)).sum());
                sums.extend((0..form.n_minima.div_ceil(2)).map(|_| pair(next(), next())));
            }
        }
        Quants { form, n_blocks: n_k / form.elems, pairs, sums, scales }
    }

    /// How rows are cut.
    pub fn form(&self) -> BlockForm {
        self.form
    }

    /// Elements of a row.
    pub fn n_k(&self) -> usize {
        self.n_blocks * self.form.elems
    }

    pub(super) fn n_blocks(&self) -> usize {
        self.n_blocks
    }

    /// Some blocks of row `i`.
    #[inline(always)]
    pub(super) fn row(&self, i: usize, blocks: Range<usize>) -> Row<'_> {
        let part = |per_block: usize| {
            let first = i * self.n_blocks;
            (first + blocks.start) * per_block..(first + blocks.end) * per_block
        };
        Row {
            pairs: &self.pairs[part(self.form.elems / 2)],
            sums: &self.sums[part(self.form.n_minima.div_ceil(2))],
            scales: &self.scales[part(1)],
        }
    }

    /// Element `k` of block `p` of row `i`.
    pub(super) fn element(&self, i: usize, p: usize, k: usize) -> i32 {
        half(self.pairs[(i * self.n_blocks + p) * self.form.elems / 2 + k / 2], k)
    }

    /// Sum `g` of block `p` of row `i`.
    pub(super) fn group_sum(&self, i: usize, p: usize, g: usize) -> i32 {
        half(self.sums[(i * self.n_blocks + p) * self.form.n_minima.div_ceil(2) + g / 2], g)
    }

    pub(super) fn scale(&self, i: usize, p: usize) -> f32 {
        self.scales[i * self.n_blocks + p]
    }
}

fn pair(low: i16, high: i16) -> i32 {
    i32::from(low) & 0xffff | i32::from(high) << 16
}

fn half(pair: i32, which: usize) -> i32 {
    i32::from((pair >> (16 * (which % 2))) as i16)
}
