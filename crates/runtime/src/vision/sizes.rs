//! The size that a picture is given before it is cut into patches.
//!
//! Files have no keys for most of these rules: they are those of the families' preprocessors in transformers 5.23, with
//! bounds that no key states as mtmd of llama.cpp has them.

use crate::Error;

/// The sides nearest to multiples of `factor` whose product is between two bounds, as Qwen has it (`smart_resize` of
/// transformers).
///
/// # Errors
/// [`Error::PictureShape`] for a picture 200 times as long as it is wide.
pub fn nearest(
    (width, height): (usize, usize),
    factor: usize,
    min_pixels: usize,
    max_pixels: usize,
) -> Result<(usize, usize), Error> {
    /// Largest aspect ratio that Qwen's preprocessor accepts.
    const MAX_RATIO: usize = 200;
    if width.max(height) > MAX_RATIO * width.min(height) {
        return Err(Error::PictureShape { width, height, max_ratio: MAX_RATIO });
    }
    Ok(nearest_of((width, height), factor, 0, min_pixels, max_pixels))
}

/// As [`nearest`], for pictures of any aspect ratio; no side is below `factor`, like in LFM2-VL (`smart_resize` of transformers).
pub fn nearest_of_any_ratio(
    size: (usize, usize),
    factor: usize,
    min_pixels: usize,
    max_pixels: usize,
) -> (usize, usize) {
    nearest_of(size, factor, factor, min_pixels, max_pixels)
}

/// The nearest multiples of `factor` for both sides, at least `least` before the bounds on the number of pixels apply.
fn nearest_of(
    (width, height): (usize, usize),
    factor: usize,
    least: usize,
    min_pixels: usize,
    max_pixels: usize,
) -> (usize, usize) {
    let (w, h, f) = (width as f64, height as f64, factor as f64);
    let multiples =
        |count: &dyn Fn(f64) -> f64| [w, h].map(|side| (count(side) as usize).saturating_mul(factor));
    // Python rounds halves to the even number.
    let sides = multiples(&|side| (side / f).round_ties_even()).map(|side| side.max(least));
    let n_pixels = sides[0].saturating_mul(sides[1]);
    let sides = if n_pixels > max_pixels {
        // beta scales the area to the bound.
        let beta = (h * w / max_pixels as f64).sqrt();
        multiples(&|side| (side / beta / f).floor()).map(|side| side.max(factor))
    } else if n_pixels < min_pixels {
        let beta = (min_pixels as f64 / (h * w)).sqrt();
        multiples(&|side| (side * beta / f).ceil())
    } else {
        sides
    };
    (sides[0], sides[1])
}

/// As [`nearest`], with at most `max_tokens` squares of `factor` if it is given.
pub fn nearest_with(
    size: (usize, usize),
    factor: usize,
    (min, max): (usize, usize),
    max_tokens: Option<usize>,
) -> Result<(usize, usize), Error> {
    let most = max_tokens.map_or(max, |n| max.min(n.max(1).saturating_mul(factor.saturating_mul(factor))));
    nearest(size, factor, min.min(most), most)
}

/// Both sides rounded up to multiples of `factor`, after enlargement to the minimum number of pixels. If the maximum is exceeded,
/// the sides for the largest height that stays within it, like in GLM 5.3 (`smart_resize` of transformers).
pub fn rounded_up(
    (width, height): (usize, usize),
    factor: usize,
    (min, max): (usize, usize),
    max_tokens: Option<usize>,
) -> (usize, usize) {
    let max = max_tokens.map_or(max, |n| max.min(n.max(1).saturating_mul(factor.saturating_mul(factor))));
    let align = |side: usize| side.div_ceil(factor).saturating_mul(factor);
    let fits = |(width, height): (usize, usize)| width.saturating_mul(height) <= max;
    let mut size = (align(width), align(height));
    if size.0.saturating_mul(size.1) < min {
        let scale = (min as f64 / (width as f64 * height as f64)).sqrt();
        size =
            (align((width as f64 * scale).ceil() as usize), align((height as f64 * scale).ceil() as usize));
    }
    if fits(size) {
        return size;
    }
    let (mut low, mut high, mut best) = (1, height, (factor, factor));
    while low <= high {
        let middle = (low + high) / 2;
        let across = (width as f64 * middle as f64 / height as f64).floor() as usize;
        let size = (align(across.max(1)), align(middle));
        if fits(size) {
            best = size;
            low = middle + 1;
        } else {
            high = middle - 1;
        }
    }
    best
}

/// The nearest multiple of `factor`, at least `factor` itself, like in MiniCPM-V (`ensure_divide` of transformers).
pub fn multiple(side: f64, factor: usize) -> usize {
    // Python rounds halves to the even number.
    ((side / factor as f64).round_ties_even() as usize).max(1).saturating_mul(factor)
}

/// No side longer than `longest`, each rounded up to a multiple of `factor`, as Pixtral has it
/// (`get_resize_output_image_size` of transformers).
pub fn within((width, height): (usize, usize), factor: usize, longest: usize) -> (usize, usize) {
    let ratio = width.max(height) as f64 / longest as f64;
    let side = |side: usize| {
        let side = if ratio > 1.0 { (side as f64 / ratio).floor() as usize } else { side };
        // A side that falls below one pixel is one patch.
        side.max(1).div_ceil(factor).saturating_mul(factor)
    };
    (side(width), side(height))
}

/// Size with `longest` as the longer side; the other side keeps the aspect ratio and is even, like in Idefics 3
/// (`get_resize_output_image_size` of transformers).
pub fn with_longest((width, height): (usize, usize), longest: usize) -> (usize, usize) {
    let ratio = width as f64 / height as f64;
    let even = |side: f64| {
        let side = side as usize;
        (side + side % 2).max(1)
    };
    if width >= height {
        (longest, even(longest as f64 / ratio))
    } else {
        (even(longest as f64 * ratio), longest)
    }
}

/// Size in complete tiles: the longer side is rounded up, and the other side keeps the aspect ratio and is rounded up, like in Idefics 3
/// (`resize_for_vision_encoder` of transformers).
pub fn whole_tiles((width, height): (usize, usize), side: usize) -> (usize, usize) {
    let ratio = width as f64 / height as f64;
    let whole = |n: usize| n.max(1).div_ceil(side).saturating_mul(side);
    if width >= height {
        let width = whole(width);
        (width, whole((width as f64 / ratio) as usize))
    } else {
        let height = whole(height);
        (whole((height as f64 * ratio) as usize), height)
    }
}

/// The largest sides of about the picture's ratio that are multiples of `factor` and have at most `n_tokens` squares, as
/// Gemma 4 has it (`get_aspect_ratio_preserving_size` of transformers).
pub fn filling((width, height): (usize, usize), factor: usize, n_tokens: usize) -> (usize, usize) {
    let (w, h, f) = (width as f64, height as f64, factor as f64);
    let scale = (n_tokens as f64 * f * f / (w * h)).sqrt();
    let [mut wide, mut high] = [w, h].map(|side| (scale * side / f).floor() as usize);
    // A strip has one row of squares, and no more than its ratio says.
    if high == 0 {
        (wide, high) = ((width / height).clamp(1, n_tokens), 1);
    } else if wide == 0 {
        (wide, high) = (1, (height / width).clamp(1, n_tokens));
    }
    (wide * factor, high * factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    // Expected sizes are those of the functions of transformers 5.23 that the comments above name.

    #[test]
    fn nearest_sides_respect_both_bounds() {
        let qwen = |size| nearest(size, 32, 8 * 1024, 4096 * 1024).unwrap();
        assert_eq!(qwen((1000, 700)), (992, 704));
        assert_eq!(qwen((48, 80)), (96, 128));
        assert_eq!(qwen((8000, 6000)), (2336, 1760));
        // Halves: 1.5 and 2.5 both become 2.
        assert_eq!(nearest((12, 20), 8, 1, 1 << 20).unwrap(), (16, 16));
        assert!(matches!(nearest((1, 201), 8, 1, 1 << 20), Err(Error::PictureShape { .. })));
    }

    #[test]
    fn longer_sides_and_whole_tiles_keep_aspect_ratio() {
        assert_eq!(with_longest((45, 30), 64), (64, 42));
        assert_eq!(with_longest((1000, 701), 1456), (1456, 1020));
        assert_eq!(with_longest((3, 3000), 1456), (2, 1456));
        assert_eq!(whole_tiles((64, 42), 32), (64, 64));
        assert_eq!(whole_tiles((1020, 1456), 364), (1092, 1456));
    }

    #[test]
    fn rounded_up_sides_respect_both_bounds() {
        assert_eq!(rounded_up((45, 30), 28, (16 * 784, 400 * 784), None), (140, 112));
        assert_eq!(rounded_up((1000, 700), 28, (16 * 784, 400 * 784), None), (644, 476));
        assert_eq!(rounded_up((8000, 6000), 28, (16 * 784, 400 * 784), None), (644, 476));
        assert_eq!(rounded_up((5, 900), 28, (16 * 784, 400 * 784), None), (28, 924));
    }

    #[test]
    fn sides_within_a_bound_are_rounded_up() {
        assert_eq!(within((1000, 700), 16, 1024), (1008, 704));
        assert_eq!(within((3000, 2000), 16, 1024), (1024, 688));
        assert_eq!(within((30000, 1), 28, 1540), (1540, 28));
    }

    #[test]
    fn filling_sides_keep_aspect_ratio() {
        assert_eq!(filling((1000, 700), 48, 280), (960, 672));
        assert_eq!(filling((45, 30), 12, 12), (48, 24));
        assert_eq!(filling((3000, 2), 48, 280), (13440, 48));
        assert_eq!(filling((2, 300), 48, 280), (48, 9792));
    }
}
