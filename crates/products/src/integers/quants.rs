//! The left side: rows of integers of 8 bits with a scale for each block.

use std::ops::Range;

use gguf_quant::Level;

use super::words::Words;

/// Block layout of the rows on both sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockForm {
    /// Elements of a block: a multiple of 4.
    pub elems: usize,
    /// Minima per block on the right side, for equal numbers of elements of at most 256; 0 if there are no
    /// minima.
    pub n_minima: usize,
    /// Integer scales per block on the right side, for equal numbers of elements; 0 if there are no scales.
    pub n_scales: usize,
    /// Offset between the bytes of the right side and the integers they represent.
    pub offset: u8,
    /// Largest byte of the right side. Sums are unspecified for larger ones.
    pub max_level: u8,
}

impl BlockForm {
    /// Number of sums per block: one per integer scale, or one in total.
    pub(super) fn n_subs(self) -> usize {
        self.n_scales.max(1)
    }

    fn check(self, n_k: usize) {
        assert!(self.elems.is_multiple_of(4) && n_k.is_multiple_of(self.elems), "rows are whole blocks");
        assert!((self.elems / 4).is_multiple_of(self.n_subs()), "scales are for words of four elements");
        // Sums of this many elements fit 16 bits.
        assert!(self.elems <= 2048, "a block has at most 2048 elements");
        let has_groups = self.n_minima == 0
            || self.elems.is_multiple_of(self.n_minima) && self.elems / self.n_minima <= 256;
        assert!(has_groups, "the minima of a block are for as many elements each");
    }
}

/// Rows (n, k) of integers with scales, in the layout for the kernels of one level.
#[derive(Debug, Clone)]
pub struct Quants {
    level: Level,
    form: BlockForm,
    words: Words,
    n_blocks: usize,
    /// (n, k).
    values: Vec<i8>,
    /// (n, k / 2), if kernels multiply pairs: elements `2 i` in the low and `2 i + 1` in the high half.
    pairs: Vec<i32>,
    /// (n, n_blocks * starts of a block) if kernels multiply bytes: corrections for the offset of the right side, where sums begin.
    starts: Vec<i32>,
    /// (n, n_blocks * ceil(n_minima / 2)): sums of the elements that share a minimum, two per word.
    sums: Vec<i32>,
    /// (n, n_blocks).
    scales: Vec<f32>,
}

/// Some rows, to be filled.
pub struct RowsMut<'a> {
    form: BlockForm,
    words: Words,
    /// Integers, row-major, at least -127. Sums with -128 are unspecified.
    pub values: &'a mut [i8],
    /// Scales of blocks, row-major.
    pub scales: &'a mut [f32],
    pairs: &'a mut [i32],
    starts: &'a mut [i32],
    sums: &'a mut [i32],
}

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
    /// If rows do not fill blocks.
    pub fn zeros(level: Level, form: BlockForm, n: usize, n_k: usize) -> Quants {
        form.check(n_k);
        let n_blocks = n_k / form.elems;
        let zeros = |per_block: usize| vec![0; n * n_blocks * per_block];
        let words = Words::of(level, form);
        let n_pairs = if words == Words::Pairs { form.elems / 2 } else { 0 };
        Quants {
            level,
            form,
            words,
            n_blocks,
            values: vec![0; n * n_k],
            pairs: zeros(n_pairs),
            starts: zeros(words.n_starts(form)),
            sums: zeros(form.n_minima.div_ceil(2)),
            scales: vec![0.0; n * n_blocks],
        }
    }

    /// Parts of this many rows, to be filled on any thread.
    pub fn parts_mut(&mut self, n_rows: usize) -> Vec<RowsMut<'_>> {
        let Quants { form, words, n_blocks, .. } = *self;
        let blocks = n_rows.max(1) * n_blocks.max(1);
        let n_pairs = if self.pairs.is_empty() { 0 } else { form.elems / 2 };
        let n_starts = words.n_starts(form);
        let (mut pairs, mut starts) = (&mut self.pairs[..], &mut self.starts[..]);
        let (mut sums, mut scales) = (&mut self.sums[..], &mut self.scales[..]);
        let mut parts = Vec::new();
        for values in self.values.chunks_mut(blocks * form.elems) {
            let n = values.len() / form.elems;
            parts.push(RowsMut {
                form,
                words,
                values,
                scales: scales.split_off_mut(..n).expect("a scale for each block"),
                pairs: pairs.split_off_mut(..n * n_pairs).expect("as many pairs"),
                starts: starts.split_off_mut(..n * n_starts).expect("as many sums"),
                sums: sums.split_off_mut(..n * form.n_minima.div_ceil(2)).expect("as many sums"),
            });
        }
        parts
    }

    /// Level of the kernels that read it.
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
        let n_starts = self.words.n_starts(self.form);
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
    /// Computes the remaining data for kernels, after values and scales are written.
    #[inline(always)]
    pub fn finish(self) {
        let RowsMut { form, words, values, pairs, starts, sums, .. } = self;
        for (word, [a, b]) in pairs.iter_mut().zip(values.as_chunks::<2>().0) {
            *word = pair((*a).into(), (*b).into());
        }
        if let Some(elems) = form.elems.checked_div(words.n_starts(form)) {
            let offset = -i32::from(form.offset);
            for (start, values) in starts.iter_mut().zip(values.chunks_exact(elems)) {
                *start = match words {
                    Words::ShortSums { .. } => {
                        let halves = values.as_chunks::<4>().0.iter().fold([0; 2], |[a, b], x| {
                            [a + i32::from(x[0]) + i32::from(x[1]), b + i32::from(x[2]) + i32::from(x[3])]
                        });
                        // Modulo 2^16, like all these sums.
                        pair((offset * halves[0]) as i16, (offset * halves[1]) as i16)
                    }
                    _ if offset == 0 => 0,
                    _ => offset * sum(values),
                };
            }
        }
        let Some(group) = form.elems.checked_div(form.n_minima) else { return };
        let sums = sums.chunks_exact_mut(form.n_minima.div_ceil(2));
        for (sums, block) in sums.zip(values.chunks_exact(form.elems)) {
            let mut groups = block.chunks_exact(group);
            // At most 256 elements of 8 bits: the sum fits 16 bits.
            let mut next = || groups.next().map_or(0, |group| sum(group) as i16);
            sums.iter_mut().for_each(|word| *word = pair(next(), next()));
        }
    }
}

/// Sum of the integers of at most one block, in lanes of 16 bits, which suffice for a block.
#[inline(always)]
fn sum(values: &[i8]) -> i32 {
    let (parts, rest) = values.as_chunks::<16>();
    let mut lanes = [0i16; 16];
    for part in parts {
        for lane in 0..16 {
            lanes[lane] = lanes[lane].wrapping_add(part[lane].into());
        }
    }
    let mut total = 0;
    for lane in lanes {
        total += i32::from(lane);
    }
    for x in rest {
        total += i32::from(*x);
    }
    total
}

/// Two integers in the halves of a word.
#[inline(always)]
pub(super) fn pair(low: i16, high: i16) -> i32 {
    i32::from(low) & 0xffff | i32::from(high) << 16
}

pub(super) fn half(pair: i32, index: usize) -> i32 {
    i32::from((pair >> (16 * (index % 2))) as i16)
}
