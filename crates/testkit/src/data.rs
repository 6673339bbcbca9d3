//! Seeded numbers. Every function has a counterpart of that name in `scripts/golden/data.py`.

/// A random 64-bit number for each `(seed, index)`: the finalizer of splitmix64 over a counter.
pub fn mix(seed: u64, index: u64) -> u64 {
    let z = seed
        .wrapping_mul(0xd134_2543_de82_ef95)
        .wrapping_add(index.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Bytes of all values, for decoders.
pub fn bytes(seed: u64, n: usize) -> Vec<u8> {
    bytes_of(seed, n as u64).collect()
}

/// Iterator over [`bytes`].
pub(crate) fn bytes_of(seed: u64, n: u64) -> impl Iterator<Item = u8> {
    (0..n).map(move |i| (mix(seed, i) >> 56) as u8)
}

/// The sum of eight 16-bit numbers minus its mean: bell-shaped, standard deviation 53509.
pub(crate) fn bell(seed: u64, index: u64) -> f32 {
    let lanes = |z: u64| (z & 0xffff) + (z >> 16 & 0xffff) + (z >> 32 & 0xffff) + (z >> 48);
    let sum = lanes(mix(seed, 2 * index)) + lanes(mix(seed, 2 * index + 1));
    (sum as i32 - 262_140) as f32
}

/// A bell-shaped number with standard deviation 0.02, like weights of a model.
pub fn normal(seed: u64, index: u64) -> f32 {
    bell(seed, index) * 3.7e-7
}

/// A kind of values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Data {
    /// Bell-shaped.
    Normal,
    /// Cubes of bell-shaped numbers: a few large ones determine the scales.
    Heavy,
    /// Stretches of 256 elements, each of one of 28 kinds that are difficult for codecs.
    Nasty,
    /// Stretches of 256 elements whose squares overflow or vanish, up to the largest numbers.
    Extreme,
    /// Any 32 bits, including infinities and NaN.
    Bits,
}

impl Data {
    /// Every kind of data; the position in the list is part of the seed.
    pub const ALL: [Data; 5] = [Data::Normal, Data::Heavy, Data::Nasty, Data::Extreme, Data::Bits];

    /// Name in golden files.
    pub fn name(self) -> &'static str {
        match self {
            Data::Normal => "normal",
            Data::Heavy => "heavy",
            Data::Nasty => "nasty",
            Data::Extreme => "extreme",
            Data::Bits => "bits",
        }
    }

    /// `n` values.
    pub fn values(self, seed: u64, n: usize) -> Vec<f32> {
        (0..n as u64).map(|i| self.value(seed, i)).collect()
    }

    fn value(self, seed: u64, i: u64) -> f32 {
        match self {
            Data::Normal => normal(seed, i),
            Data::Heavy => {
                let x = bell(seed, i) * 3.7e-6;
                x * x * x
            }
            Data::Nasty => nasty(seed, i),
            Data::Extreme => extreme(seed, i),
            Data::Bits => f32::from_bits((mix(seed, i) >> 32) as u32),
        }
    }
}

/// Half-integers times a power of two, with both ends in every 32 elements, so that scales are exact and
/// values are rounding ties: `(lowest, count)` in halves.
const TIES: [(i32, u32); 8] =
    [(-16, 32), (0, 31), (-32, 64), (0, 63), (-254, 509), (-8, 16), (-64, 128), (-2, 5)];

fn power_of_two(exponent: i32) -> f32 {
    f32::from_bits(((exponent + 127) as u32) << 23)
}

fn signed(negative: bool, magnitude: f32) -> f32 {
    if negative { -magnitude } else { magnitude }
}

/// Random bits of an element, of its stretch, and the stretch with the position: `(r, s, stretch, j)`.
fn stretch_of(seed: u64, i: u64) -> (u64, u64, u64, u64) {
    let stretch = i / 256;
    (mix(seed + (1 << 32), i), mix(seed + (2 << 32), stretch), stretch, i % 256)
}

fn nasty(seed: u64, i: u64) -> f32 {
    let (r, s, stretch, j) = stretch_of(seed, i);
    let negative = r & 1 == 1;
    let sign = (r as u32 & 1) << 31;
    let high = (r >> 40) as u32; // 24 bits
    let value = normal(seed, i);
    let amplitude = normal(seed, stretch).abs() + 0.001;
    match stretch % 28 {
        0 => 0.0,
        1 => -0.0,
        2 => signed(negative, 0.0),
        3 => {
            if j == s % 256 {
                value
            } else {
                0.0
            }
        }
        4 => {
            if j % 16 == s % 16 {
                value
            } else {
                0.0
            }
        }
        5 => amplitude,
        6 => -amplitude,
        7 => f32::from_bits(sign | (high >> 1)),
        8 => f32::from_bits(sign | (high & 7)),
        kind @ 9..=16 => {
            let (lowest, count) = TIES[kind as usize - 9];
            let step = if j % 32 == s % 32 {
                0
            } else if j % 32 == (s + 1) % 32 {
                count - 1
            } else {
                high % count
            };
            (lowest + step as i32) as f32 * power_of_two(-1 - (s >> 8 & 7) as i32)
        }
        17 => signed(j % 2 == 1, amplitude),
        18 => signed(j % 2 == 1, value.abs()),
        19 => f32::from_bits(sign | (60 + high % 100) << 23 | (r >> 1 & 0x7f_ffff) as u32),
        20 => value.abs() + 1.0,
        21 => -(value.abs() + 1.0),
        22 => value * power_of_two(-45),
        23 => (high % 3) as f32 * amplitude - amplitude,
        24 => j as f32 * power_of_two(-6) - 2.0,
        25 => value * power_of_two(24),
        26 => signed(negative, amplitude),
        _ => (high % 4) as f32,
    }
}

fn extreme(seed: u64, i: u64) -> f32 {
    let (r, s, stretch, j) = stretch_of(seed, i);
    let negative = r & 1 == 1;
    let sign = (r as u32 & 1) << 31;
    let high = (r >> 40) as u32; // 24 bits
    let mantissa = (r >> 1 & 0x7f_ffff) as u32;
    let value = normal(seed, i);
    match stretch % 9 {
        0 => signed(negative, f32::MAX),
        1 => f32::MAX,
        2 => f32::from_bits(sign | (1 + high % 254) << 23 | mantissa),
        3 => f32::from_bits(sign | (190 + high % 64) << 23 | mantissa),
        4 => {
            if j == s % 256 {
                f32::MAX
            } else {
                value
            }
        }
        5 => value * power_of_two(70),
        6 => f32::from_bits(sign | (0x7f7f_ffff - (high & 0xffff))),
        7 => f32::from_bits(sign | (1 + high % 20) << 23 | mantissa),
        _ => value * power_of_two(-70),
    }
}

/// A kind of importance weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Importance {
    /// One in 16 is zero, one in 16 is huge.
    Mixed,
    /// A quarter of all stretches of 32 consists of zeros.
    Gaps,
}

impl Importance {
    /// Every kind of importance; the position in the list is part of the seed.
    pub const ALL: [Importance; 2] = [Importance::Mixed, Importance::Gaps];

    /// Name in golden files.
    pub fn name(self) -> &'static str {
        match self {
            Importance::Mixed => "mixed",
            Importance::Gaps => "gaps",
        }
    }

    /// `n` weights, one per column.
    pub fn weights(self, seed: u64, n: usize) -> Vec<f32> {
        (0..n as u64).map(|i| self.weight(seed, i)).collect()
    }

    fn weight(self, seed: u64, i: u64) -> f32 {
        let r = mix(seed, i);
        let number = ((r >> 40) + 1) as f32;
        let usual = {
            let x = number * power_of_two(-24);
            x * x * 3.0
        };
        match (self, r % 16) {
            (Importance::Mixed, 0) => 0.0,
            (Importance::Mixed, 1) => number,
            (Importance::Gaps, _) if mix(seed + (1 << 32), i / 32).is_multiple_of(4) => 0.0,
            _ => usual,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_kinds_match_their_names() {
        let normal = Data::Normal.values(7, 1 << 16);
        let mean = normal.iter().map(|x| f64::from(*x)).sum::<f64>() / 65536.0;
        let square = normal.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>() / 65536.0;
        assert!(mean.abs() < 3e-4 && (square.sqrt() - 0.0198).abs() < 2e-4, "{mean} {square}");

        let nasty = Data::Nasty.values(7, 28 * 256);
        assert!(nasty.iter().all(|x| x.is_finite() && x * x < f32::MAX));
        let stretches: Vec<&[f32]> = nasty.chunks(256).collect();
        assert!(stretches[1].iter().all(|x| x.to_bits() == 0x8000_0000));
        assert_eq!(stretches[3].iter().filter(|x| **x != 0.0).count(), 1);
        assert!(stretches[7].iter().any(|x| x.is_subnormal()));
        assert!(Data::Extreme.values(7, 9 * 256).iter().all(|x| x.is_finite()));
        assert!(Data::Bits.values(7, 9 * 256).iter().any(|x| x.is_nan()));

        let weights = Importance::Mixed.weights(7, 4096);
        assert!(weights.iter().all(|w| *w >= 0.0) && weights.contains(&0.0));
        assert!(weights.iter().any(|w| *w > 1e6));
    }
}
