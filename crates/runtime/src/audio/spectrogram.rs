//! Log-mel spectrograms.
//!
//! Frame `t` is a window of `n_fft` samples around sample `t hop`. The sound is mirrored at its ends:
//!
//! ```text
//! X_k = sum_n w_n x_(t hop + n - n_fft / 2) e^(-2 pi i k n / n_fft)      w_n = (1 - cos(2 pi n / n_fft)) / 2
//! m_b = log10(max(sum_k F_bk |X_k|^2, 1e-10))                           F (n_mels, n_fft / 2 + 1)
//! y_b = (max(m_b, max(m) - 8) + 4) / 4                                  max(m) over the entire spectrogram
//! ```
//!
//! Sums are in double precision. transformers and mtmd round intermediate results to single precision, which changes faint bands by
//! up to 1e-4. The transform is computed as products with cosines and sines, with the halves of the window folded: `n_fft` is 400,
//! and 30 seconds take about 0.1 s. FFT crates choose vector instructions at run time, so their results differ between machines in
//! the last bits.
//!
//! Source: `WhisperFeatureExtractor`, `mel_filter_bank` and `spectrogram` of transformers 5.23.

use rayon::prelude::*;

use crate::ops::Rows;

/// Sample rate of all Whisper models in Hz.
pub const RATE: u32 = 16_000;

/// Number of samples of a window.
const N_FFT: usize = 400;

/// Number of samples from the start of a window to that of the next.
pub const HOP: usize = 160;

/// Power spectrum of windows of samples.
pub struct Dft {
    /// (n_window): factors of samples. Windows shorter than the transform are padded with zeros.
    window: Vec<f64>,
    /// Length of the transform in samples, an even number.
    n: usize,
    /// (n / 2 + 1, n / 2 + 1): cosines by sample and frequency.
    cos: Vec<f64>,
    /// (n / 2 + 1, n / 2 + 1): sines by sample and frequency.
    sin: Vec<f64>,
}

impl Dft {
    /// A transform of `n` samples, an even number: a periodic Hann window of `n_window` samples, padded with zeros.
    pub fn hann(n: usize, n_window: usize) -> Dft {
        let n_bins = n / 2 + 1;
        let turn = |i: usize, n: usize| 2.0 * std::f64::consts::PI * (i % n) as f64 / n as f64;
        let table = |f: fn(f64) -> f64| -> Vec<f64> {
            (0..n_bins * n_bins).map(|at| f(turn((at / n_bins) * (at % n_bins), n))).collect()
        };
        let window = (0..n_window).map(|i| 0.5 - 0.5 * libm::cos(turn(i, n_window))).collect();
        Dft { window, n, cos: table(libm::cos), sin: table(libm::sin) }
    }

    /// Number of frequencies, from 0 to half of the sample rate.
    pub fn n_bins(&self) -> usize {
        self.n / 2 + 1
    }

    /// Power of each frequency in a window: (n_bins). `sample` returns the sample at an index of the window.
    pub fn power(&self, sample: impl Fn(usize) -> f64) -> Vec<f64> {
        let (n, n_bins) = (self.n, self.n_bins());
        let mut x: Vec<f64> = self.window.iter().enumerate().map(|(i, w)| w * sample(i)).collect();
        x.resize(n, 0.0);
        let (mut real, mut imaginary) = (vec![0.0; n_bins], vec![0.0; n_bins]);
        // Samples i and n - i have the same cosines and opposite sines. The first and the middle sample have no partner.
        for i in 0..n_bins {
            let is_alone = i == 0 || 2 * i == n;
            let (even, odd) = if is_alone { (x[i], 0.0) } else { (x[i] + x[n - i], x[i] - x[n - i]) };
            let (cos, sin) = (&self.cos[i * n_bins..][..n_bins], &self.sin[i * n_bins..][..n_bins]);
            real.iter_mut().zip(cos).for_each(|(sum, cos)| *sum += even * cos);
            imaginary.iter_mut().zip(sin).for_each(|(sum, sin)| *sum += odd * sin);
        }
        real.iter().zip(&imaginary).map(|(a, b)| a * a + b * b).collect()
    }
}

/// For each band, the first frequency with a weight above 0, and the weights from there.
pub type Bands = Vec<(usize, Vec<f64>)>;

/// Log-mel spectrogram of Whisper.
pub struct LogMel {
    bands: Bands,
    dft: Dft,
}

impl LogMel {
    /// A spectrogram of `n_mels` bands from 0 to 8000 Hz.
    pub fn whisper(n_mels: usize) -> LogMel {
        let dft = Dft::hann(N_FFT, N_FFT);
        LogMel { bands: slaney_bands(n_mels, dft.n_bins(), f64::from(RATE)), dft }
    }

    /// Number of mel bands.
    pub fn n_mels(&self) -> usize {
        self.bands.len()
    }

    /// `samples (n) -> (n / hop, n_mels)`. A sound of at most half a window is padded with silence.
    pub fn run(&self, samples: &[f32]) -> Rows {
        let n_mels = self.n_mels();
        let n_frames = samples.len() / HOP;
        let sample = |at: isize| -> f64 {
            // Mirrored without repeating the first and last sample.
            let last = samples.len().max(N_FFT / 2 + 1) as isize - 1;
            let at = if at < 0 { -at } else { at };
            let at = if at > last { 2 * last - at } else { at };
            f64::from(samples.get(at as usize).copied().unwrap_or(0.0))
        };
        let mut values = vec![0.0f64; n_frames * n_mels];
        values.par_chunks_mut(n_mels.max(1)).enumerate().for_each(|(t, row)| {
            let start = (t * HOP) as isize - (N_FFT / 2) as isize;
            let power = self.dft.power(|n| sample(start + n as isize));
            for (value, sum) in row.iter_mut().zip(in_bands(&power, &self.bands)) {
                *value = libm::log10(sum.max(1e-10));
            }
        });
        let floor = values.iter().copied().fold(f64::NEG_INFINITY, f64::max) - 8.0;
        let values = values.into_iter().map(|value| ((value.max(floor) + 4.0) / 4.0) as f32);
        Rows::from_vec(n_frames, n_mels, values.collect())
    }
}

/// Weighted sum of each band of a spectrum (n_bins).
pub fn in_bands(spectrum: &[f64], bands: &Bands) -> impl Iterator<Item = f64> {
    bands.iter().map(|(first, weights)| weights.iter().zip(&spectrum[*first..]).map(|(w, p)| w * p).sum())
}

/// Triangles of area 1 on Slaney's mel scale, which is linear below 1000 Hz and logarithmic above.
fn slaney_bands(n_mels: usize, n_bins: usize, rate: f64) -> Bands {
    let step = libm::log(6.4) / 27.0;
    let mel_of = |hertz: f64| {
        if hertz < 1000.0 { 3.0 * hertz / 200.0 } else { 15.0 + libm::log(hertz / 1000.0) / step }
    };
    let hertz_of =
        |mel: f64| if mel < 15.0 { 200.0 * mel / 3.0 } else { 1000.0 * libm::exp(step * (mel - 15.0)) };
    let top = mel_of(rate / 2.0);
    let edge = |i: usize| hertz_of(top * i as f64 / (n_mels + 1) as f64);
    triangles(n_mels, n_bins, rate, edge, |left, right| 2.0 / (right - left))
}

/// Triangles of height 1 on the logarithmic mel scale of HTK.
pub fn htk_bands(n_mels: usize, n_bins: usize, rate: f64) -> Bands {
    let top = 2595.0 * libm::log10(1.0 + rate / 2.0 / 700.0);
    let hertz_of = |mel: f64| 700.0 * (libm::pow(10.0, mel / 2595.0) - 1.0);
    let edge = |i: usize| hertz_of(top * i as f64 / (n_mels + 1) as f64);
    triangles(n_mels, n_bins, rate, edge, |_, _| 1.0)
}

/// Triangles: band `b` rises from `edge(b)` to `edge(b + 1)` and falls to `edge(b + 2)`, in Hz. `height` gets the outer edges.
fn triangles(
    n_mels: usize,
    n_bins: usize,
    rate: f64,
    edge: impl Fn(usize) -> f64,
    height: fn(f64, f64) -> f64,
) -> Bands {
    let frequency = |k: usize| rate / 2.0 * k as f64 / (n_bins - 1) as f64;
    let band = |b: usize| {
        let (left, center, right) = (edge(b), edge(b + 1), edge(b + 2));
        let weight = |k: usize| {
            let f = frequency(k);
            let slope = ((f - left) / (center - left)).min((right - f) / (right - center));
            slope.max(0.0) * height(left, right)
        };
        // Narrow bands may lie between two frequencies.
        let first = (0..n_bins).find(|k| weight(*k) > 0.0).unwrap_or(0);
        let weights: Vec<f64> = (first..n_bins).map(weight).take_while(|w| *w > 0.0).collect();
        (first, weights)
    };
    (0..n_mels).map(band).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn power_is_that_of_the_definition() {
        for (n, n_window) in [(400, 400), (512, 320)] {
            let dft = Dft::hann(n, n_window);
            let x = |i: usize| libm::sin(0.37 * i as f64) + 0.1 * (i % 7) as f64;
            let power = dft.power(x);
            for k in [0, 1, 13, 77, n / 2 - 1, n / 2] {
                let (mut real, mut imaginary) = (0.0, 0.0);
                for i in 0..n_window {
                    let turn = 2.0 * std::f64::consts::PI * (i * k) as f64 / n as f64;
                    real += dft.window[i] * x(i) * libm::cos(turn);
                    imaginary -= dft.window[i] * x(i) * libm::sin(turn);
                }
                let expected = real * real + imaginary * imaginary;
                assert!((power[k] - expected).abs() < 1e-9 * (1.0 + expected), "{n}, {k}");
            }
        }
    }

    #[test]
    fn silence_and_short_sounds_have_frames() {
        let mel = LogMel::whisper(8);
        assert_eq!(mel.run(&[]).nrows(), 0);
        let silence = mel.run(&[0.0; 160]);
        assert_eq!((silence.nrows(), silence.ncols()), (1, 8));
        assert!(silence.as_slice().iter().all(|x| *x == -1.5), "{:?}", silence.as_slice());
    }
}
