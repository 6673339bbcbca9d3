//! Conversion of the sample rate.
//!
//! Each new sample is a sum of old ones, weighted by a sinc in a Kaiser window. With rates `a` (old) and `b` (new):
//!
//! ```text
//! y_j = c sum_i x_i sinc(c (i - j a / b)) K(c (i - j a / b) / 64)       c = 0.9476 min(1, b / a)
//! K(t) = I_0(beta sqrt(1 - t^2)) / I_0(beta)                           beta = 14.77; 0 for |t| > 1
//! ```
//!
//! Width, window and roll-off are those of `kaiser_best` in resampy 0.2 and in torchaudio's documentation. Frequencies
//! below 0.87 of the lower Nyquist frequency keep their amplitude, and those above 1.02 vanish, to 1e-7. Other programs use
//! other filters: librosa has soxr (`soxr_hq`), torchaudio a Hann window of 6 zero crossings, and mtmd the linear interpolation of
//! miniaudio with a low-pass filter of fourth order.
//!
//! No crate is used, because the usual ones choose vector instructions at run time, so that results would differ between machines
//! in the last bits.

use rayon::prelude::*;

/// Zero crossings of the sinc on each side.
const N_ZEROS: usize = 64;

/// Table entries per zero crossing. Linear interpolation between them is exact to 1e-7.
const PER_ZERO: usize = 4096;

/// Cutoff frequency relative to the lower Nyquist frequency.
const ROLL_OFF: f64 = 0.947_593_716_739_959_6;

/// Shape of the Kaiser window.
const BETA: f64 = 14.769_656_459_379_492;

/// Converts `samples` from a rate of `from` Hz to `to` Hz: `(n) -> (ceil(n to / from))`. A rate of 0 leaves them unchanged.
pub fn resample(samples: &[f32], from: u32, to: u32) -> Vec<f32> {
    if from == to || from == 0 || to == 0 {
        return samples.to_vec();
    }
    let (from, to) = (u64::from(from), u64::from(to));
    let cutoff = ROLL_OFF * (to as f64 / from as f64).min(1.0);
    // Half of the width of the window in old samples.
    let reach = N_ZEROS as f64 / cutoff;
    let table = table();
    let weight = |distance: f64| -> f64 {
        let at = distance.abs() * cutoff * PER_ZERO as f64;
        let index = at as usize;
        match table.get(index..index + 2) {
            Some([low, high]) => low + (high - low) * (at - index as f64),
            _ => 0.0,
        }
    };
    let n = (samples.len() as u64 * to).div_ceil(from);
    let one = |j: u64| {
        // Exact position: complete samples and a rest below 1.
        let (whole, rest) = (j * from / to, (j * from % to) as f64 / to as f64);
        let first = (whole as f64 + rest - reach).ceil().max(0.0) as usize;
        let end = ((whole as f64 + rest + reach) as usize + 1).min(samples.len());
        let own = samples.get(first..end).unwrap_or_default().iter().enumerate();
        let sum: f64 = own
            .map(|(i, sample)| f64::from(*sample) * weight((first + i) as f64 - whole as f64 - rest))
            .sum();
        (cutoff * sum) as f32
    };
    (0..n).into_par_iter().map(one).collect()
}

/// Values of the windowed sinc at multiples of `1 / PER_ZERO`, from 0 to `N_ZEROS`.
fn table() -> Vec<f64> {
    let value = |i: usize| {
        let t = i as f64 / PER_ZERO as f64;
        let angle = std::f64::consts::PI * t;
        let sinc = if i == 0 { 1.0 } else { libm::sin(angle) / angle };
        let part = t / N_ZEROS as f64;
        sinc * bessel(BETA * (1.0 - part * part).max(0.0).sqrt()) / bessel(BETA)
    };
    (0..=N_ZEROS * PER_ZERO).map(value).collect()
}

/// The modified Bessel function of the first kind and order 0, by its series.
fn bessel(x: f64) -> f64 {
    let (mut term, mut sum, mut k) = (1.0, 1.0, 1.0);
    while term > 1e-17 * sum {
        term *= (x / (2.0 * k)) * (x / (2.0 * k));
        sum += term;
        k += 1.0;
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tone(n: usize, rate: f64, frequency: f64) -> Vec<f32> {
        let angle = |i: usize| 2.0 * std::f64::consts::PI * frequency * i as f64 / rate;
        (0..n).map(|i| libm::sin(angle(i)) as f32).collect()
    }

    #[test]
    fn tones_keep_their_frequency_and_height() {
        for (from, to) in [(44_100, 16_000), (8_000, 16_000), (48_000, 16_000), (22_050, 16_000)] {
            let made = resample(&tone(from as usize / 2, f64::from(from), 1234.5), from, to);
            assert_eq!(made.len(), to as usize / 2);
            let expected = tone(made.len(), f64::from(to), 1234.5);
            // Ends have no samples on one side.
            let inner = 800..made.len() - 800;
            let worst = inner.map(|i| (made[i] - expected[i]).abs()).fold(0.0, f32::max);
            assert!(worst < 2e-5, "{from} to {to}: {worst}");
        }
    }

    #[test]
    fn tones_above_the_new_range_vanish() {
        let made = resample(&tone(24_000, 48_000.0, 9000.0), 48_000, 16_000);
        let loudest = made[800..7200].iter().fold(0.0f32, |loudest, x| loudest.max(x.abs()));
        assert!(loudest < 1e-5, "{loudest}");
    }

    #[test]
    fn extreme_rates_give_the_stated_length() {
        assert_eq!(resample(&[0.5], 767_999, 16_000).len(), 1);
        assert_eq!(resample(&[0.5; 3], 1_001, 16_000).len(), 48);
        assert_eq!(resample(&[], 8_000, 16_000), [] as [f32; 0]);
    }
}
