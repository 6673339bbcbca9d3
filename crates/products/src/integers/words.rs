//! Contents of the words of a panel, which depend on the instructions of a level.

use fearless_simd::Simd;
use gguf_quant::{Level, Vectors};

use super::BlockForm;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "only x86-64 has instructions for bytes"))]
pub(super) enum Words {
    /// Two, of 16 bits: `s (w - o)`.
    Pairs,
    /// Four bytes `w`, with products added up in 32 bits.
    Bytes,
    /// Four bytes `w`, with products added up in 16 bits, over at most `run` words.
    ShortSums { run: usize },
}

impl Words {
    pub fn of(level: Level, form: BlockForm) -> Words {
        level.run(Choose(form))
    }

    /// Number of initial values of sums per block of the left side.
    pub fn n_starts(self, form: BlockForm) -> usize {
        match self {
            Words::Pairs => 0,
            Words::Bytes => form.n_subs(),
            Words::ShortSums { .. } if form.offset == 0 => 0,
            Words::ShortSums { run } => form.elems / 4 / run,
        }
    }
}

struct Choose(BlockForm);

impl Vectors for Choose {
    type Output = Words;

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) -> Words {
        #[cfg(target_arch = "x86_64")]
        {
            if simd.level().as_avx512().is_some() {
                return Words::Bytes;
            }
            let run = if simd.level().as_avx2().is_some() { short_run(self.0) } else { None };
            run.map_or(Words::Pairs, |run| Words::ShortSums { run })
        }
        #[cfg(not(target_arch = "x86_64"))]
        {
            let Choose(form) = self;
            let _ = (simd, form);
            Words::Pairs
        }
    }

    fn scalar(self) -> Words {
        Words::Pairs
    }
}

/// Number of words whose products can be added up in 16 bits; `None` for forms with too large bytes.
///
/// ```text
/// |w_0 x_0 + w_1 x_1| <= 2 * 127 w             what the instruction adds, and would saturate
/// |sum of (w - o) x|  <= 2 run * 127 |w - o|   each half of the word; begun at `-o sum of x`, modulo 2^16
/// ```
#[cfg(target_arch = "x86_64")]
fn short_run(form: BlockForm) -> Option<usize> {
    const MOST: usize = i16::MAX as usize;
    let (largest, offset) = (usize::from(form.max_level), usize::from(form.offset));
    if 2 * 127 * largest > MOST {
        return None;
    }
    let distance = offset.max(largest.abs_diff(offset));
    let words = form.elems / 4 / form.n_subs();
    [8, 4, 2, 1].into_iter().find(|run| words.is_multiple_of(*run) && 2 * run * 127 * distance <= MOST)
}
