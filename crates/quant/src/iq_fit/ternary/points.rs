//! The search for the best neighbor of codes that are not in the codebook of IQ1, one group of eight per
//! lane.
//!
//! A list has 73 neighbors on average, and the reference sums eight products for each. Here a sum of four
//! bytes approximates the eight: each byte is the cost of two dimensions above their minimum, in units of the
//! first neighbor's. Such a sum is a table look-up inside a vector, 64 neighbors at a time with AVX-512. It
//! is exact to two units, so only neighbors within four units of the least can be the best, and those few are
//! compared like in the reference.

use std::sync::OnceLock;

use fearless_simd::{Simd, prelude::*, u8x16};
use fearless_simd_macros::simd;

use crate::{
    grids::{Codebook, Place},
    lanes::columns,
    round::MAGIC,
};

/// Neighbors are padded to a multiple of this, the widest vector of bytes.
const CHUNK: usize = 64;
const MAX_LIST: usize = 512;
/// Cost of the first neighbor, in units of the byte sums.
const UNITS: f32 = 200.0;
/// Maximum excess of the best neighbor over the least sum: two units of rounding on either side, and one for
/// everything else.
const SLACK: u8 = 5;

/// Marks an entry as an index.
const ON_GRID: u32 = 1 << 31;

/// The neighbor lists as planes of bytes.
#[derive(Debug)]
pub struct Neighbours {
    /// For each code: the index and [`ON_GRID`]; or the first chunk, and from bit 16 on the length.
    entries: Vec<u32>,
    /// First four levels of the neighbors.
    low: Vec<u8>,
    high: Vec<u8>,
}

impl Neighbours {
    /// The lists of [`Codebook::iq1`].
    pub fn iq1() -> &'static Neighbours {
        static LISTS: OnceLock<Neighbours> = OnceLock::new();
        LISTS.get_or_init(|| Neighbours::build(Codebook::iq1()))
    }

    fn build(codebook: &Codebook) -> Neighbours {
        let mut lists = Neighbours { entries: vec![ON_GRID; 1 << 16], low: Vec::new(), high: Vec::new() };
        for code in 0..=u16::MAX {
            // Level 3 is unused.
            if code & code >> 1 & 0x5555 != 0 {
                continue;
            }
            lists.entries[usize::from(code)] = match codebook.place(code) {
                Place::OnGrid => u32::from(codebook.index(code)) | ON_GRID,
                Place::OffGrid(list) => {
                    assert!(list.len() <= MAX_LIST, "a list of {} neighbours", list.len());
                    let chunk = lists.low.len() / CHUNK;
                    // Copies of the first neighbor change no minimum.
                    let padding = list.len().next_multiple_of(CHUNK) - list.len();
                    let padded = || list.iter().chain(std::iter::repeat_n(&list[0], padding));
                    lists.low.extend(padded().map(|code| *code as u8));
                    lists.high.extend(padded().map(|code| (*code >> 8) as u8));
                    chunk as u32 | (list.len() as u32) << 16
                }
            };
        }
        assert!(lists.low.len() / CHUNK <= 1 << 16, "chunks have 16 bits");
        lists
    }

    #[inline(always)]
    pub fn index(&self, code: u32) -> u32 {
        self.entries[code as usize & 0xffff] & !ON_GRID
    }

    #[inline(always)]
    fn code(&self, at: usize) -> u32 {
        u32::from(self.low[at]) | u32::from(self.high[at]) << 8
    }
}

/// The exact costs of a group: `[dimension][level]`.
type Costs<V> = [[V; 3]; 8];

/// Eight elements and the code that was found for them, in every lane.
pub struct Group<'a, F, U> {
    pub values: &'a [F; 8],
    pub weights: &'a [F; 8],
    pub scale: F,
    pub levels: [F; 3],
    pub code: &'a mut U,
}

#[derive(Clone, Copy)]
struct List<'a> {
    lists: &'a Neighbours,
    start: usize,
    len: usize,
}

/// Moves each code that is not in the codebook to its best neighbor; returns the bits of the lanes that
/// moved. Lanes in `skipped` stay unchanged.
#[simd]
pub fn move_to_codebook<S: Simd>(
    simd: S,
    lists: &Neighbours,
    group: Group<'_, S::f32s, S::u32s>,
    skipped: u64,
) -> u64 {
    let Group { values, weights, scale, levels, code: codes } = group;
    let lanes = S::f32s::LEN;
    let mut entries = S::u32s::splat(simd, 0);
    let mut near = *codes;
    let mut moved = 0u64;
    for lane in 0..lanes {
        let entry = lists.entries[codes.as_slice()[lane] as usize & 0xffff];
        entries.as_mut_slice()[lane] = entry;
        if entry & ON_GRID == 0 && skipped >> lane & 1 == 0 {
            moved |= 1 << lane;
            near.as_mut_slice()[lane] = lists.code((entry & 0xffff) as usize * CHUNK);
        }
    }
    if moved == 0 {
        return 0;
    }

    let splat = |value: f32| S::f32s::splat(simd, value);
    let zero = splat(0.0);
    // `costs = w (d q - x)^2` for each dimension and level, `above` its excess over the dimension's best
    // level, `base` the sum of the best levels, `first` the excess of the first neighbor.
    let mut costs: Costs<S::f32s> = [[zero; 3]; 8];
    let mut above: Costs<S::f32s> = [[zero; 3]; 8];
    let steps = levels.map(
        #[inline(always)]
        |level| scale * level,
    );
    let (mut base, mut first) = (zero, zero);
    for dim in 0..8 {
        for level in 0..3 {
            let diff = steps[level] - values[dim];
            costs[dim][level] = weights[dim] * diff * diff;
        }
        let least = costs[dim][0].min(costs[dim][1]).min(costs[dim][2]);
        for level in 0..3 {
            above[dim][level] = costs[dim][level] - least;
        }
        let level = near >> (2 * dim as u32);
        let low = (level & 1).simd_eq(S::u32s::splat(simd, 1));
        let high = (level & 2).simd_eq(S::u32s::splat(simd, 2));
        first += high.select(above[dim][2], low.select(above[dim][1], above[dim][0]));
        base += least;
    }
    // If `first` is above a thousandth of `base`, the eight additions of the reference, each rounding by
    // 2^-24 of at most 1001 times `first`, err by less than a tenth of a unit. Otherwise byte sums are not
    // used.
    let coarse =
        (first * splat(1000.0)).simd_gt(base) & first.simd_gt(splat(1e-30)) & first.simd_lt(splat(1e30));
    let coarse = coarse.to_bitmask();
    // Scaled so that the first neighbor costs 200 of 255: the best one costs no more, and saturated sums of
    // four bytes belong to worse ones.
    let unit = splat(UNITS) / first;

    // (pair, level of the second) words: one byte per level of the first.
    let mut words = [S::u32s::splat(simd, 0); 16];
    let (magic, top) = (splat(MAGIC), splat(255.0));
    for pair in 0..4 {
        let first = above[2 * pair].map(
            #[inline(always)]
            |above| above * unit,
        );
        for level in 0..3 {
            let second = above[2 * pair + 1][level] * unit;
            // Sum of two dimensions, rounded to units, at most 255.
            let byte = first.map(
                #[inline(always)]
                |first| ((first + second).min(top) + magic).bitcast::<S::u32s>(),
            );
            words[4 * pair + level] = (byte[0] & 0xff) | (byte[1] << 8) | (byte[2] << 16);
        }
    }
    let mut tables = [[0u32; 16]; 16];
    transpose_words(simd, &words, &mut tables);

    let mut sums = [S::u8s::splat(simd, 0); MAX_LIST / 16];
    let mut left = moved;
    while left != 0 {
        let lane = left.trailing_zeros() as usize;
        left &= left - 1;
        let entry = entries.as_slice()[lane];
        let list = List { lists, start: (entry & 0xffff) as usize * CHUNK, len: (entry >> 16) as usize };
        let code = if coarse >> lane & 1 == 1 {
            nearest(simd, list, &tables[lane], &costs, lane, &mut sums)
        } else {
            least_of_all(simd, list, &costs, lane)
        };
        codes.as_mut_slice()[lane] = code;
    }
    moved
}

/// Word `w` of lane `l` to `tables[l][w]`.
#[simd]
fn transpose_words<S: Simd>(simd: S, words: &[S::u32s; 16], tables: &mut [[u32; 16]; 16]) {
    let lanes = S::u32s::LEN;
    for square in 0..16 / lanes {
        let at = square * lanes;
        let mut rows = [S::u32s::splat(simd, 0); 16];
        rows[..lanes].copy_from_slice(&words[at..at + lanes]);
        let columns = columns::<S, _>(rows);
        for lane in 0..lanes {
            columns[lane].store_slice(&mut tables[lane][at..at + lanes]);
        }
    }
}

/// The best of a list by byte sums first.
#[simd]
fn nearest<S: Simd>(
    simd: S,
    list: List<'_>,
    tables: &[u32; 16],
    costs: &Costs<S::f32s>,
    lane: usize,
    sums: &mut [S::u8s; MAX_LIST / 16],
) -> u32 {
    let List { lists, start, len } = list;
    let width = S::u8s::LEN;
    let chunks = len.div_ceil(width);
    // The table of a pair of dimensions: 16 bytes, by the four bits of the two levels.
    let mut bytes = [[0u8; 16]; 4];
    for pair in 0..4 {
        for word in 0..4 {
            bytes[pair][4 * word..4 * word + 4].copy_from_slice(&tables[4 * pair + word].to_le_bytes());
        }
    }
    let table = bytes.map(
        #[inline(always)]
        |bytes| S::u8s::block_splat(u8x16::from_slice(simd, &bytes)),
    );
    let low = &lists.low[start..][..chunks * width];
    let high = &lists.high[start..][..chunks * width];
    let mut least = S::u8s::splat(simd, 255);
    for chunk in 0..chunks {
        let low = S::u8s::from_slice(simd, &low[chunk * width..][..width]);
        let high = S::u8s::from_slice(simd, &high[chunk * width..][..width]);
        // One lookup per pair; saturating additions keep large costs large.
        let first = table[0]
            .swizzle_dyn_within_blocks(low & 15)
            .saturating_add(table[1].swizzle_dyn_within_blocks(low >> 4));
        let second = table[2]
            .swizzle_dyn_within_blocks(high & 15)
            .saturating_add(table[3].swizzle_dyn_within_blocks(high >> 4));
        let sum = first.saturating_add(second);
        sums[chunk] = sum;
        least = least.min(sum);
    }
    let least = least.as_slice().iter().fold(255, |least: u8, sum| least.min(*sum));
    // Saturated sums cannot be compared.
    if least >= 255 - SLACK {
        return least_of_all(simd, list, costs, lane);
    }
    let limit = S::u8s::splat(simd, least + SLACK);
    let mut best = f32::MAX;
    let mut found = usize::MAX;
    let mut alone = true;
    for chunk in 0..chunks {
        let mut bits = sums[chunk].simd_le(limit).to_bitmask();
        // Copies of the first neighbor fill the last chunk; they do not count as others.
        let room = len - chunk * width;
        if room < 64 {
            bits &= (1 << room) - 1;
        }
        while bits != 0 {
            let at = start + chunk * width + bits.trailing_zeros() as usize;
            bits &= bits - 1;
            if found == usize::MAX {
                found = at;
                continue;
            }
            // A single candidate needs no comparison; with a second one, the first is measured too.
            if alone {
                alone = false;
                best = cost_of::<S>(costs, lists.code(found), lane);
            }
            let cost = cost_of::<S>(costs, lists.code(at), lane);
            if cost < best {
                best = cost;
                found = at;
            }
        }
    }
    lists.code(found)
}

/// The best of a list by exact costs; the first if no cost is below the largest f32.
#[inline(never)]
#[simd]
fn least_of_all<S: Simd>(_simd: S, list: List<'_>, costs: &Costs<S::f32s>, lane: usize) -> u32 {
    let List { lists, start, len } = list;
    let mut best = f32::MAX;
    let mut found = start;
    for at in start..start + len {
        let cost = cost_of::<S>(costs, lists.code(at), lane);
        if cost < best {
            best = cost;
            found = at;
        }
    }
    lists.code(found)
}

/// The cost of a code, first dimension to last.
#[inline(always)]
fn cost_of<S: Simd>(costs: &Costs<S::f32s>, code: u32, lane: usize) -> f32 {
    let mut cost = 0.0;
    for dim in 0..8 {
        let level = (code >> (2 * dim) & 3) as usize;
        cost += costs[dim][level.min(2)].as_slice()[lane];
    }
    cost
}
