//! Division of sounds into windows of equal length, which an encoder processes one at a time.

use crate::{
    audio::spectrogram::{HOP, LogMel},
    ops::Rows,
};

/// Ways in which processors of families divide a sound into spectrograms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Division {
    /// Each window is a separate sound, with silence after its end. The loudness of other windows has no effect.
    Apart,
    /// As `Apart`, with the samples of each window scaled to mean 0 and variance 1.
    Standardized,
    /// One spectrogram of the sound, padded with silence to an integer number of windows.
    Padded,
    /// One spectrogram of the sound without padding. The last of several windows is padded with zeros.
    Short,
}

/// A spectrogram for one run of an encoder.
pub struct Window {
    /// (n_frames, n_mels).
    pub frames: Rows,
    /// Number of frames of the sound, at least 1; the frames after them are silence.
    pub n_heard: usize,
}

/// Windows of `n_frames` frames of a sound at 16 kHz; at least one for a sound with samples.
pub fn windows(samples: &[f32], mel: &LogMel, n_frames: usize, division: Division) -> Vec<Window> {
    let n_samples = n_frames * HOP;
    let padded = |samples: &[f32], n: usize| {
        let mut samples = samples.to_vec();
        samples.resize(n, 0.0);
        samples
    };
    // Partial frames and windows count as complete ones.
    let n_heard = samples.len().div_ceil(HOP);
    let n_windows = samples.len().div_ceil(n_samples.max(1));
    let heard = |index: usize| n_heard.saturating_sub(index * n_frames).min(n_frames);
    let whole = match division {
        Division::Apart | Division::Standardized => {
            let window = |(i, part): (usize, &[f32])| {
                let standard = (division == Division::Standardized).then(|| standardized(part));
                let frames = mel.run(&padded(standard.as_deref().unwrap_or(part), n_samples));
                Window { frames, n_heard: heard(i) }
            };
            return samples.chunks(n_samples.max(1)).enumerate().map(window).collect();
        }
        Division::Padded => mel.run(&padded(samples, n_windows * n_samples)),
        Division::Short => mel.run(&padded(samples, n_heard * HOP)),
    };
    let width = whole.ncols();
    let parts = whole.as_slice().chunks((n_frames * width).max(1)).enumerate();
    let window = |(i, part): (usize, &[f32])| {
        let mut values = part.to_vec();
        if n_windows > 1 {
            values.resize(n_frames * width, 0.0);
        }
        Window { frames: Rows::from_vec(values.len() / width.max(1), width, values), n_heard: heard(i) }
    };
    parts.map(window).collect()
}

/// Samples of mean 0 and variance 1: `(x - mean) / sqrt(variance + 1e-7)`.
fn standardized(samples: &[f32]) -> Vec<f32> {
    let n = samples.len().max(1) as f64;
    let mean = samples.iter().map(|x| f64::from(*x)).sum::<f64>() / n;
    let variance = samples.iter().map(|x| (f64::from(*x) - mean).powi(2)).sum::<f64>() / n;
    let scale = 1.0 / (variance + 1e-7).sqrt();
    samples.iter().map(|x| ((f64::from(*x) - mean) * scale) as f32).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_cover_the_sound() {
        let mel = LogMel::whisper(8);
        let shapes = |n: usize, division| -> Vec<(usize, usize)> {
            let windows = windows(&vec![0.5; n], &mel, 32, division);
            windows.iter().map(|window| (window.frames.nrows(), window.n_heard)).collect()
        };
        for division in [Division::Apart, Division::Standardized, Division::Padded] {
            assert_eq!(shapes(1, division), [(32, 1)]);
            assert_eq!(shapes(32 * 160, division), [(32, 32)]);
            assert_eq!(shapes(32 * 160 + 1, division), [(32, 32), (32, 1)]);
        }
        assert_eq!(shapes(161, Division::Short), [(2, 2)]);
        assert_eq!(shapes(40 * 160, Division::Short), [(32, 32), (32, 8)]);
    }
}
