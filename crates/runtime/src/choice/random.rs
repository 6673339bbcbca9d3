//! The random numbers of the C++ standard library, with which the reference selects tasks.

/// The Mersenne Twister of 32 bits, `std::mt19937`.
///
/// Source: Matsumoto and Nishimura 1998; the C++ standard, [rand.predef].
pub(super) struct Mt19937 {
    state: [u32; N],
    next: usize,
}

const N: usize = 624;
const M: usize = 397;

impl Mt19937 {
    pub fn new(seed: u32) -> Mt19937 {
        let mut state = [seed; N];
        // x_i = 1812433253 * (x_{i-1} ^ (x_{i-1} >> 30)) + i, mod 2^32.
        for i in 1..N {
            let before = state[i - 1];
            state[i] = 1_812_433_253u32.wrapping_mul(before ^ (before >> 30)).wrapping_add(i as u32);
        }
        Mt19937 { state, next: N }
    }

    pub fn draw(&mut self) -> u32 {
        if self.next == N {
            for i in 0..N {
                // The recurrence x_{k+n} = x_{k+m} ^ (upper bit of x_k | lower bits of x_{k+1}) A: multiplying with A is a shift, and
                // an xor if the lowest bit was set.
                let joined = (self.state[i] & 0x8000_0000) | (self.state[(i + 1) % N] & 0x7fff_ffff);
                let twist = if joined & 1 == 1 { 0x9908_b0df } else { 0 };
                self.state[i] = self.state[(i + M) % N] ^ (joined >> 1) ^ twist;
            }
            self.next = 0;
        }
        let mut y = self.state[self.next];
        self.next += 1;
        // Tempering, so that the bits of a draw are uniformly distributed.
        y ^= y >> 11;
        y ^= (y << 7) & 0x9d2c_5680;
        y ^= (y << 15) & 0xefc6_0000;
        y ^ (y >> 18)
    }

    /// A number below `n`, which is not 0, as `std::uniform_int_distribution` of libstdc++ 11 and
    /// later has it: the high half of a product, drawn again where that would not be uniform.
    ///
    /// Source: Lemire 2019, "Fast random integer generation in an interval".
    pub fn below(&mut self, n: u32) -> usize {
        let mut product = u64::from(self.draw()) * u64::from(n);
        if (product as u32) < n {
            // 2^32 mod n low parts are one too many for some numbers; draws below that bound are thrown away.
            let least = n.wrapping_neg() % n;
            while (product as u32) < least {
                product = u64::from(self.draw()) * u64::from(n);
            }
        }
        (product >> 32) as usize
    }

    /// `n_wanted` of `n` indices, none twice: the last one moves to the place of each that is taken.
    /// All in order if no fewer are wanted.
    ///
    /// Source: the selection in `winogrande_score` and `multiple_choice_score`, in f32.
    pub fn select(&mut self, n: usize, n_wanted: usize) -> Vec<usize> {
        let mut left: Vec<usize> = (0..n).collect();
        if n_wanted >= n {
            return left;
        }
        // In f32 `1 + u32::MAX` is 2^32 exactly, and a draw has 24 bits: computed as the reference does, so that the same
        // tasks are drawn.
        let scale = 1.0 / (1.0 + u32::MAX as f32);
        let draw = |_| {
            // The float nearest to a draw may be 2^32; the reference then reads past the end.
            let at = (scale * self.draw() as f32 * left.len() as f32) as usize;
            left.swap_remove(at.min(left.len() - 1))
        };
        (0..n_wanted).map(draw).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_thousandth_draw_matches_standard() {
        let mut random = Mt19937::new(5489);
        let last = (0..10_000).map(|_| random.draw()).last();
        assert_eq!(last, Some(4_123_659_995));
    }

    #[test]
    fn selections_have_no_duplicates() {
        let mut selected = Mt19937::new(1).select(50, 20);
        assert_eq!(selected.len(), 20);
        selected.sort_unstable();
        selected.dedup();
        assert_eq!(selected.len(), 20);
        assert_eq!(Mt19937::new(1).select(3, 7), [0, 1, 2]);
        let mut random = Mt19937::new(1);
        assert!((0..1000).all(|_| random.below(7) < 7) && random.below(1) == 0);
    }
}
