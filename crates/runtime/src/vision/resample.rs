//! Pictures of another size, pixel by pixel those of Pillow.
//!
//! An output pixel is a weighted sum of the pixels around its place, first along rows, then along columns. With
//! `s = n_in / n_out` and `f = max(s, 1)`, pixel `i` lies at `c = (i + 1/2) s` of the input, and
//!
//! ```text
//! w_j = k((j + 1/2 - c) / f) / sum_j k((j + 1/2 - c) / f)     k the filter, j the pixels that it reaches
//! y_i = clamp(round(sum_j w_j x_j), 0, 255)                   w_j in multiples of 2^-22
//! ```
//!
//! A picture that becomes smaller is so averaged over all of its pixels. Sums are integers: the result is the same on every
//! machine.
//!
//! Source: `precompute_coeffs` and `ImagingResampleHorizontal_8bpc` in `src/libImaging/Resample.c` of Pillow 13.0, which
//! transformers resizes with; mtmd of llama.cpp has the same arithmetic.

use rayon::prelude::*;

use super::picture::{Picture, check_size};
use crate::Error;

/// Fractional bits of a weight: 32 less eight of a pixel and two for the headroom of sums.
const PRECISION_BITS: u32 = 32 - 8 - 2;

/// Lobes of Lanczos' filter.
const LANCZOS: f64 = 3.0;

/// Interpolation of pixels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Filter {
    /// `1 - |x|`, two pixels wide.
    Bilinear,
    /// Keys' cubic with `a = -1/2`, four pixels wide.
    Bicubic,
    /// `sinc(x) sinc(x / 3)`, six pixels wide.
    Lanczos,
}

impl Filter {
    /// Support radius.
    fn support(self) -> f64 {
        match self {
            Filter::Bilinear => 1.0,
            Filter::Bicubic => 2.0,
            Filter::Lanczos => LANCZOS,
        }
    }

    fn weight(self, x: f64) -> f64 {
        /// Parameter of Keys' cubic.
        const A: f64 = -0.5;
        let x = x.abs();
        let sinc = |x: f64| {
            let angle = x * std::f64::consts::PI;
            if x == 0.0 { 1.0 } else { libm::sin(angle) / angle }
        };
        match self {
            Filter::Bilinear => (1.0 - x).max(0.0),
            Filter::Bicubic if x < 1.0 => ((A + 2.0) * x - (A + 3.0)) * x * x + 1.0,
            Filter::Bicubic if x < 2.0 => (((x - 5.0) * x + 8.0) * x - 4.0) * A,
            Filter::Bicubic => 0.0,
            Filter::Lanczos if x < LANCZOS => sinc(x) * sinc(x / LANCZOS),
            Filter::Lanczos => 0.0,
        }
    }
}

/// Inputs of an output pixel.
struct Taps {
    /// The first input pixel.
    first: usize,
    /// Weights of this and the following pixels, times 2^22.
    weights: Vec<i32>,
}

/// The sums of all output pixels of one direction.
fn taps(n_in: usize, n_out: usize, filter: Filter) -> Vec<Taps> {
    let scale = n_in as f64 / n_out as f64;
    // A filter is never narrower than it is, and for smaller pictures as wide as what a pixel stands for.
    let stretch = scale.max(1.0);
    let support = filter.support() * stretch;
    let taps = |i: usize| {
        let center = (i as f64 + 0.5) * scale;
        // Truncated towards zero like in C; there are no pixels below zero.
        let first = (center - support + 0.5).max(0.0) as usize;
        let end = ((center + support + 0.5) as usize).min(n_in);
        let weights = (first..end).map(|j| filter.weight((j as f64 - center + 0.5) * (1.0 / stretch)));
        let weights: Vec<f64> = weights.collect();
        let sum: f64 = weights.iter().sum();
        let whole = |weight: &f64| {
            let weight = if sum != 0.0 { weight / sum } else { *weight };
            let scaled = weight * f64::from(1 << PRECISION_BITS);
            // Half away from zero, by adding and truncating: `round` would round twice.
            (scaled + if weight < 0.0 { -0.5 } else { 0.5 }) as i32
        };
        Taps { first, weights: weights.iter().map(whole).collect() }
    };
    (0..n_out).map(taps).collect()
}

/// A sum of pixels and weights with half of the last bit in it, as a pixel.
fn pixel(sum: i32) -> u8 {
    (sum >> PRECISION_BITS).clamp(0, 255) as u8
}

/// The picture in `width` times `height` pixels.
///
/// # Errors
/// [`Error::PictureSize`].
pub fn resize(picture: &Picture, (width, height): (usize, usize), filter: Filter) -> Result<Picture, Error> {
    /// Rounds a sum.
    const HALF: i32 = 1 << (PRECISION_BITS - 1);
    let (from_width, from_height) = (picture.width(), picture.height());
    let (row_in, row_out) = (3 * from_width, 3 * width);
    // The picture between the two steps may be larger than both.
    for (width, height) in [(width, height), (width, from_height)] {
        check_size(width, height)?;
    }
    // Step 1: along rows, (from_height, from_width, 3) -> (from_height, width, 3).
    let mut wide = picture.pixels().to_vec();
    if width != from_width {
        let columns = taps(from_width, width, filter);
        wide = vec![0; row_out * from_height];
        let rows = wide.par_chunks_exact_mut(row_out).zip(picture.pixels().par_chunks_exact(row_in));
        rows.for_each(|(to, from)| {
            for (to, taps) in to.chunks_exact_mut(3).zip(&columns) {
                let mut sums = [HALF; 3];
                let pixels = from[3 * taps.first..].chunks_exact(3);
                for (pixel, weight) in pixels.zip(&taps.weights) {
                    for channel in 0..3 {
                        sums[channel] += i32::from(pixel[channel]) * weight;
                    }
                }
                to.copy_from_slice(&sums.map(pixel));
            }
        });
    }
    // Step 2: along columns, -> (height, width, 3), a row of sums at a time.
    if height != from_height {
        let rows = taps(from_height, height, filter);
        let mut high = vec![0; row_out * height];
        high.par_chunks_exact_mut(row_out).zip(&rows).for_each(|(to, taps)| {
            let mut sums = vec![HALF; row_out];
            for (from, weight) in wide[taps.first * row_out..].chunks_exact(row_out).zip(&taps.weights) {
                sums.iter_mut().zip(from).for_each(|(sum, x)| *sum += i32::from(*x) * weight);
            }
            to.iter_mut().zip(sums).for_each(|(to, sum)| *to = pixel(sum));
        });
        wide = high;
    }
    Picture::new(width, height, wide)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constant_pictures_stay_constant() {
        let picture = Picture::new(7, 5, vec![201; 7 * 5 * 3]).unwrap();
        for filter in [Filter::Bilinear, Filter::Bicubic, Filter::Lanczos] {
            for size in [(3, 2), (13, 21), (7, 5), (1, 1)] {
                let resized = resize(&picture, size, filter).unwrap();
                assert_eq!((resized.width(), resized.height()), size);
                assert!(resized.pixels().iter().all(|x| *x == 201), "{size:?}");
            }
        }
    }

    #[test]
    fn resampling_matches_pillow() {
        let read = |name: &str| std::fs::read(gguf_testkit::golden_path("vision").join(name)).unwrap();
        let picture = Picture::new(45, 30, read("picture.rgb")).unwrap();
        let resized = String::from_utf8(read("resized.json")).unwrap();
        let mut n = 0;
        // Lines of `"FILTER WIDTH HEIGHT": "DIGEST"`.
        for line in resized.lines().filter(|line| line.contains(':')) {
            let (case, digest) = line.trim().trim_end_matches(',').split_once(": ").unwrap();
            let case: Vec<&str> = case.trim_matches('"').split(' ').collect();
            let filter = match case[0] {
                "bicubic" => Filter::Bicubic,
                "lanczos" => Filter::Lanczos,
                _ => Filter::Bilinear,
            };
            let size = (case[1].parse().unwrap(), case[2].parse().unwrap());
            let resized = resize(&picture, size, filter).unwrap();
            assert_eq!(gguf_testkit::sha256(resized.pixels()), digest.trim_matches('"'), "{case:?}");
            n += 1;
        }
        assert_eq!(n, 21);
    }

    #[test]
    fn halving_averages_neighbors() {
        // By hand: two pixels become one whose centre is between them, so that bilinear weights are 3/8 within and, one
        // pixel further out, 1/8: the first pixel has no outer left one, and 3, 3 and 1 of 7 remain.
        let picture = Picture::new(4, 1, [70, 0, 70, 0].iter().flat_map(|x| [*x; 3]).collect()).unwrap();
        let resized = resize(&picture, (2, 1), Filter::Bilinear).unwrap();
        // 70 (3 + 1) / 7 = 40 and 70 (0 + 3) / 7 = 30.
        assert_eq!(resized.pixels(), [40, 40, 40, 30, 30, 30]);
    }
}
