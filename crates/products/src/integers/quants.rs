//! The left side: rows of integers of 8 bits with a scale for each block.

use std::ops::Range;

use gguf_quant::Level;

use super::has_bytes;

/// Block layout of the rows on both sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockForm {
    /// Elements of a block: a multiple of 4.
    pub elems: usize,
    /// Minima per block on the right side, each for equally many elements, at most 256; 0 if there are none.
    pub n_minima: usize,
    /// Integer scales per block on the right side, each for equally many elements; 0 if there are none.
    pub n_scales: usize,
    /// Offset between the bytes of the right side and the integers they represent.
    pub offset: u8,
}

impl BlockForm {
    /// Sums of a block that are multiplied with an integer scale each, or the one of the whole.
    pub(super) fn n_subs(self) -> usize {
        self.n_scales.max(1)
    }

    fn check(self, n_k: usize) {
        assert!(self.elems.is_multiple_of(4) && n_k.is_multiple_of(self.elems), "rows are whole blocks");
        assert!((self.elems / 4).is_multiple_of(self.n_subs()), "scales are for words of four elements");
        // Sixteen bits hold the sum of so many.
        let has_groups = self.n_minima == 0
            || self.elems.is_multiple_of(self.n_minima) && self.elems / self.n_minima <= 256;
        assert!(has_groups, "the minima of a block are for as many elements each");
    }
}

/// Rows (n, k) of integers with scales, as the kernels of one level read them.
#[derive(Debug, Clone)]
pub struct Quants {
    level: Level,
    form: BlockForm,
    n_blocks: usize,
    /// (n, k).
    values: Vec<i8>,
    /// (n, k / 2), where kernels multiply pairs: elements `2 i` in the low and `2 i + 1` in the high half.
    pairs: Vec<i32>,
    /// (n, n_blocks * n_subs) if kernels multiply bytes: the correction for the offset of the right side,
    /// added to each sum.
    starts: Vec<i32>,
    /// (n, n_blocks * ceil(n_minima / 2)): sums of the elements that share a minimum, two to a word.
    sums: Vec<i32>,
    /// (n, n_blocks).
    scales: Vec<f32>,
}

/// Some rows, to be filled.
pub struct RowsMut<'a> {
    form: BlockForm,
    /// Integers, row-major.
    pub values: &'a mut [i8],
    /// Scales of blocks, row-major.
    pub scales: &'a mut [f32],
    pairs: &'a mut [i32],
    starts: &'a mut [i32],
    sums: &'a mut [i32],
}

/// Some blocks of a row.
pub(super) struct Row<'a> {
    pub values: &'a [i8],
    pub pairs: &'a [i32],
    #[cfg_attr(
        not(target_arch = "x86_64"),
        expect(dead_code, reason = "read where bytes are multiplied as they are")
    )]
    pub starts: &'a [i32],
    pub sums: &'a [i32],
    pub scales: &'a [f32],
}

impl Quants {
    /// `n` rows of `n_k` zeros each.
    ///
    /// # Panics
    /// If rows are not whole blocks.
    pub fn zeros(level: Level, form: BlockForm, n: usize, n_k: usize) -> Quants {
        form.check(n_k);
        let n_blocks = n_k / form.elems;
        let words = |per_block: usize| vec![0; n * n_blocks * per_block];
        let (pairs, starts) = match has_bytes(level) {
            true => (0, form.n_subs()),
            false => (form.elems / 2, 0),
        };
        Quants {
            level,
            form,
            n_blocks,
            values: vec![0; n * n_k],
            pairs: words(pairs),
            starts: words(starts),
            sums: words(form.n_minima.div_ceil(2)),
            scales: vec![0.0; n * n_blocks],
        }
    }

    /// Parts of so many rows, to be filled, on any thread.
    pub fn parts_mut(&mut self, n_rows: usize) -> Vec<RowsMut<'_>> {
        let Quants { form, n_blocks, .. } = *self;
        let blocks = n_rows.max(1) * n_blocks.max(1);
        let n_pairs = if self.pairs.is_empty() { 0 } else { form.elems / 2 };
        let n_starts = if self.starts.is_empty() { 0 } else { form.n_subs() };
        let (mut pairs, mut starts) = (&mut self.pairs[..], &mut self.starts[..]);
        let (mut sums, mut scales) = (&mut self.sums[..], &mut self.scales[..]);
        let mut parts = Vec::new();
        for values in self.values.chunks_mut(blocks * form.elems) {
            let n = values.len() / form.elems;
            parts.push(RowsMut {
                form,
                values,
                scales: scales.split_off_mut(..n).expect("a scale for each block"),
                pairs: pairs.split_off_mut(..n * n_pairs).expect("as many pairs"),
                starts: starts.split_off_mut(..n * n_starts).expect("as many sums"),
                sums: sums.split_off_mut(..n * form.n_minima.div_ceil(2)).expect("as many sums"),
            });
        }
        parts
    }

    /// The level whose kernels read it.
    pub fn level(&self) -> Level {
        self.level
    }

    /// Block layout of the rows.
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
        let n_pairs = if self.pairs.is_empty() { 0 } else { self.form.elems / 2 };
        let n_starts = if self.starts.is_empty() { 0 } else { self.form.n_subs() };
        Row {
            values: &self.values[part(self.form.elems)],
            pairs: &self.pairs[part(n_pairs)],
            starts: &self.starts[part(n_starts)],
            sums: &self.sums[part(self.form.n_minima.div_ceil(2))],
            scales: &self.scales[part(1)],
        }
    }

    /// Element `k` of block `p` of row `i`.
    pub(super) fn element(&self, i: usize, p: usize, k: usize) -> i32 {
        self.values[(i * self.n_blocks + p) * self.form.elems + k].into()
    }

    /// Sum `g` of block `p` of row `i`.
    pub(super) fn group_sum(&self, i: usize, p: usize, g: usize) -> i32 {
        half(self.sums[(i * self.n_blocks + p) * self.form.n_minima.div_ceil(2) + g / 2], g)
    }

    pub(super) fn scale(&self, i: usize, p: usize) -> f32 {
        self.scales[i * self.n_blocks + p]
    }
}

impl RowsMut<'_> {
    /// Computes what kernels need besides values and scales, after these are written.
    #[inline(always)]
    pub fn finish(self) {
        let RowsMut { form, values, pairs, starts, sums, .. } = self;
        for (word, [a, b]) in pairs.iter_mut().zip(values.as_chunks::<2>().0) {
            *word = pair((*a).into(), (*b).into());
        }
        let sum = |values: &[i8]| values.iter().map(|x| i32::from(*x)).sum::<i32>();
        for (start, values) in starts.iter_mut().zip(values.chunks_exact(form.elems / form.n_subs())) {
            *start = if form.offset == 0 { 0 } else { -i32::from(form.offset) * sum(values) };
        }
        let Some(group) = form.elems.checked_div(form.n_minima) else { return };
        let words = sums.chunks_exact_mut(form.n_minima.div_ceil(2));
        for (words, block) in words.zip(values.chunks_exact(form.elems)) {
            let mut groups = block.chunks_exact(group);
            // At most 256 elements of 8 bits: 16 bits hold the sum.
            let mut next = || groups.next().map_or(0, |group| sum(group) as i16);
            words.iter_mut().for_each(|word| *word = pair(next(), next()));
        }
    }
}

/// Two integers in the halves of a word.
#[inline(always)]
pub(super) fn pair(low: i16, high: i16) -> i32 {
    i32::from(low) & 0xffff | i32::from(high) << 16
}

/// One of the two.
pub(super) fn half(pair: i32, index: usize) -> i32 {
    i32::from((pair >> (16 * (index % 2))) as i16)
}
