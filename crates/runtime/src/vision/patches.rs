//! From pixels to rows: a picture is cut into patches, each a product with one matrix.

use ndarray::{Array2, Axis, parallel::prelude::*};
use rayon::slice::ParallelSlice;

use super::picture::Picture;
use crate::{
    Error,
    keys::Keys,
    ops::{Rows, dense},
    pass::{Pass, Span},
    weights::Weights,
};

/// Places of a picture's patches, `[row, column]`, in the order of their rows.
pub type Places = Vec<[usize; 2]>;

/// Row by row.
pub fn raster(rows: usize, columns: usize) -> Places {
    (0..rows).flat_map(|row| (0..columns).map(move |column| [row, column])).collect()
}

/// Square after square of `merge` by `merge` patches, which become one embedding.
pub fn by_squares(rows: usize, columns: usize, merge: usize) -> Places {
    let squares = raster(rows / merge, columns / merge).into_iter();
    let within = |[row, column]: [usize; 2]| {
        raster(merge, merge).into_iter().map(move |[r, c]| [row * merge + r, column * merge + c])
    };
    squares.flat_map(within).collect()
}

/// Patches of a grid, divided into windows. Patches attend to those of their window.
pub struct Windows {
    /// Places of the patches: window after window, and square after square in each.
    pub places: Places,
    /// Number of patches of each window.
    pub lengths: Vec<usize>,
    /// Index in the grid, counted row by row, of each square in this order.
    pub squares: Vec<usize>,
}

/// Windows of `side` by `side` squares of `merge` by `merge` patches, from the first row and column. The last ones may be smaller.
pub fn by_windows((rows, columns): (usize, usize), merge: usize, side: usize) -> Windows {
    let (rows, columns) = (rows / merge, columns / merge);
    let mut windows = Windows { places: Vec::new(), lengths: Vec::new(), squares: Vec::new() };
    for [window_row, window_column] in raster(rows.div_ceil(side), columns.div_ceil(side)) {
        let start = windows.places.len();
        for row in window_row * side..rows.min((window_row + 1) * side) {
            for column in window_column * side..columns.min((window_column + 1) * side) {
                let within = raster(merge, merge).into_iter();
                windows.places.extend(within.map(|[r, c]| [row * merge + r, column * merge + c]));
                windows.squares.push(row * columns + column);
            }
        }
        windows.lengths.push(windows.places.len() - start);
    }
    windows
}

impl Windows {
    /// Puts rows of squares, which are in the order of windows, in the order of the grid.
    pub fn in_order(&self, x: &Rows) -> Rows {
        let mut out = Rows::zeros(x.nrows(), x.ncols());
        for (square, row) in self.squares.iter().zip(x.rows()) {
            out.row_mut(*square).assign(&row);
        }
        out
    }

    /// Limits attention to windows, or lifts the limit.
    pub fn limit(&self, pass: &mut Pass<'_, '_>, is_limited: bool) {
        let whole = [self.places.len()];
        pass.spans = spans(if is_limited { &self.lengths[..] } else { &whole });
    }
}

/// Spans of consecutive rows with these lengths. Rows of a span attend to each other.
fn spans(lengths: &[usize]) -> Vec<Span> {
    let mut start = 0;
    let span = |n: &usize| {
        start += n;
        Span { rows: start - n..start, position: 0, outputs: 0..0 }
    };
    lengths.iter().map(span).collect()
}

/// Spans of `n` rows each, for [`Pass::spans`]. Rows of a span attend to each other.
pub fn split_rows(n_rows: usize, n: usize) -> Vec<Span> {
    spans(&vec![n; n_rows / n.max(1)])
}

/// Joins the patches of each square of `merge` by `merge`, which are adjacent rows, to one row: (n, width) -> (n / merge^2, width
/// merge^2).
pub fn joined_squares(x: &Rows, merge: usize, pass: &Pass<'_, '_>) -> Rows {
    let n = merge * merge;
    let mut squares = pass.scratch(x.nrows() / n, x.ncols() * n);
    squares.as_mut_slice().copy_from_slice(x.as_slice());
    squares
}

/// Means over squares of `merge` by `merge` rows of a grid of this many rows and columns: (n, width) -> (n / merge^2, width).
pub fn mean_of_squares(x: &Rows, (rows, columns): (usize, usize), merge: usize) -> Rows {
    let mut out = Rows::zeros((rows / merge) * (columns / merge), x.ncols());
    for row in 0..rows / merge * merge {
        for column in 0..columns / merge * merge {
            let mut to = out.row_mut(row / merge * (columns / merge) + column / merge);
            to += &x.row(row * columns + column);
        }
    }
    out *= 1.0 / (merge * merge) as f32;
    out
}

/// Makes rows of patches.
pub struct Patches {
    /// Pixels of a side.
    pub size: usize,
    /// (n_embd, 3 * size * size): red, green, blue, in each row by row.
    kernel: Array2<f32>,
    bias: Option<Vec<f32>>,
    /// The normalization.
    colors: Colors,
}

/// Normalization of pixels.
pub struct Colors {
    /// Offset that is subtracted from a channel, whose values are from 0 to 1.
    mean: [f32; 3],
    /// Divisor of the difference.
    deviation: [f32; 3],
    /// True if pixels are normalized in bf16.
    is_rounded: bool,
}

impl Colors {
    /// Reads `image_mean` and `image_std`.
    ///
    /// # Errors
    /// [`Error::Key`].
    pub fn open(keys: &Keys<'_>) -> Result<Colors, Error> {
        let mean = channels(keys, "vision.image_mean")?;
        let deviation = channels(keys, "vision.image_std")?;
        if deviation.contains(&0.0) {
            return Err(keys.wrong("vision.image_std", "numbers other than 0"));
        }
        Ok(Colors { mean, deviation, is_rounded: false })
    }

    /// Pixels of patches of `size` by `size`: (places.len(), 3 * size * size), each red, green and blue, row by row. The
    /// picture has complete patches at all places.
    pub fn rows(&self, picture: &Picture, places: &[[usize; 2]], size: usize) -> Rows {
        let mut pixels = Rows::zeros(places.len(), 3 * size * size);
        for (place, mut row) in places.iter().zip(pixels.rows_mut()) {
            let row = row.as_slice_mut().expect("rows of a new matrix are contiguous");
            self.patch(picture, *place, size, row);
        }
        pixels
    }

    /// The pixels of a patch as the kernel sees them: (3, size, size).
    fn patch(&self, picture: &Picture, [row, column]: [usize; 2], size: usize, out: &mut [f32]) {
        /// In double precision, like transformers.
        const FROM_BYTE: f64 = 1.0 / 255.0;
        for (channel, plane) in out.chunks_exact_mut(size * size).enumerate() {
            for (y, line) in plane.chunks_exact_mut(size).enumerate() {
                let first = (row * size + y) * picture.width() + column * size;
                let pixels = picture.pixels()[3 * first..].chunks_exact(3);
                for (to, pixel) in line.iter_mut().zip(pixels) {
                    let value = (f64::from(pixel[channel]) * FROM_BYTE) as f32;
                    let (mean, deviation) = (self.mean[channel], self.deviation[channel]);
                    *to = if self.is_rounded {
                        bf16(bf16(bf16(value) - bf16(mean)) / bf16(deviation))
                    } else {
                        (value - mean) / deviation
                    };
                }
            }
        }
    }
}

impl Patches {
    /// Reads the kernel, and the one of a second frame if there is one: a picture is two equal frames.
    ///
    /// # Errors
    /// [`Error::Key`], [`Error::MissingTensor`], [`Error::TensorShape`], [`Error::TensorType`].
    pub fn open(keys: &Keys<'_>, weights: &mut Weights<'_>, n_embd: usize) -> Result<Patches, Error> {
        let size = keys.need_count("vision.patch_size")?;
        let mut kernel = kernel(weights, "v.patch_embd.weight", size, n_embd)?;
        if weights.shape("v.patch_embd.weight.1").is_some() {
            // W_0 x + W_1 x = (W_0 + W_1) x
            kernel += &self::kernel(weights, "v.patch_embd.weight.1", size, n_embd)?;
        }
        let bias = weights.vector("v.patch_embd.bias", n_embd)?;
        Ok(Patches { size, kernel, bias, colors: Colors::open(keys)? })
    }

    /// Patches of a picture of this size, in (rows, columns).
    pub fn grid(&self, (width, height): (usize, usize)) -> (usize, usize) {
        (height / self.size, width / self.size)
    }

    /// The rows of a picture's patches: (places.len(), n_embd). The picture has complete patches at all places.
    pub fn run(&self, picture: &Picture, places: &[[usize; 2]]) -> Rows {
        /// Patches that a thread works on at once.
        const BLOCK: usize = 64;
        let mut out = Rows::zeros(places.len(), self.kernel.nrows());
        out.axis_chunks_iter_mut(Axis(0), BLOCK).into_par_iter().zip(places.par_chunks(BLOCK)).for_each(
            |(out, places)| {
                let mut pixels = Array2::zeros((places.len(), self.kernel.ncols()));
                for (place, mut row) in places.iter().zip(pixels.rows_mut()) {
                    let row = row.as_slice_mut().expect("rows of a new matrix are contiguous");
                    self.colors.patch(picture, *place, self.size, row);
                }
                // (places, 3 size^2) @ (3 size^2, n_embd)
                dense(1.0, pixels.view(), self.kernel.t(), out);
            },
        );
        if let Some(bias) = &self.bias {
            out.add_bias(bias);
        }
        out
    }

    /// The mean color, from 0 to 1.
    pub fn mean(&self) -> [f32; 3] {
        self.colors.mean
    }

    /// Makes the normalization of pixels round to bf16.
    pub fn round_to_bf16(&mut self) {
        self.colors.is_rounded = true;
    }

    /// Turns `x` into `2 x - 1` before the kernel: `W (2 x - 1)`, by the numbers of the normalization.
    pub fn doubled_around_half(mut self) -> Patches {
        // 2 (v - m) / d - 1 = (v - (m + d / 2)) / (d / 2)
        for (mean, deviation) in self.colors.mean.iter_mut().zip(&mut self.colors.deviation) {
            *deviation /= 2.0;
            *mean += *deviation;
        }
        self
    }
}

/// The nearest bf16, ties to even. `x` is finite.
fn bf16(x: f32) -> f32 {
    let bits = x.to_bits();
    f32::from_bits((bits + 0x7fff + (bits >> 16 & 1)) & 0xffff_0000)
}

/// A convolution whose kernels do not overlap, over squares of rows.
pub struct Convolution {
    /// (n_out, side^2 * n_in): for each patch of a square, row by row, its elements.
    kernel: Array2<f32>,
    bias: Option<Vec<f32>>,
}

impl Convolution {
    /// Reads `NAME.weight` (side, side, n_in, any) and `NAME.bias`.
    ///
    /// # Errors
    /// [`Error::MissingTensor`], [`Error::TensorShape`], [`Error::TensorType`].
    pub fn open(
        weights: &mut Weights<'_>,
        name: &str,
        side: usize,
        n_in: usize,
    ) -> Result<Convolution, Error> {
        let (weight, bias) = (format!("{name}.weight"), format!("{name}.bias"));
        let found = weights.shape(&weight).ok_or_else(|| Error::MissingTensor { name: weight.clone() })?;
        let expected = [side as u64, side as u64, n_in as u64];
        if (0..3).any(|i| found.dim(i) != expected[i]) {
            let expected = format!("[{side}, {side}, {n_in}, any]");
            return Err(Error::TensorShape { name: weight, expected, found });
        }
        // The shape is that of a tensor of the file, so that the product is no larger than the file.
        let (n_out, n_patches) = (found.dim(3) as usize, side * side);
        let values = weights.need_vector(&weight, n_out * n_in * n_patches)?;
        let kernel = Array2::from_shape_fn((n_out, n_patches * n_in), |(row, column)| {
            let (patch, element) = (column / n_in, column % n_in);
            values[(row * n_in + element) * n_patches + patch]
        });
        Ok(Convolution { kernel, bias: weights.vector(&bias, n_out)? })
    }

    /// Elements of a row of the result.
    pub fn n_out(&self) -> usize {
        self.kernel.nrows()
    }

    /// Convolves squares of patches, one per row: (n, side^2 * n_in) -> (n, n_out).
    pub fn run(&self, squares: &Rows) -> Rows {
        let mut out = Rows::zeros(squares.nrows(), self.n_out());
        dense(1.0, squares.view(), self.kernel.t(), out.view_mut());
        if let Some(bias) = &self.bias {
            out.add_bias(bias);
        }
        out
    }
}

/// A kernel (n_embd, 3, size, size) as a matrix; Llama 4 stores it as one.
fn kernel(weights: &mut Weights<'_>, name: &str, size: usize, n_embd: usize) -> Result<Array2<f32>, Error> {
    let found = weights.shape(name).ok_or_else(|| Error::MissingTensor { name: name.to_owned() })?;
    let expected = [size as u64, size as u64, 3, n_embd as u64];
    let n_pixels = (size as u64).saturating_pow(2).saturating_mul(3);
    let is_matrix = [n_pixels, n_embd as u64, 1, 1].into_iter().enumerate().all(|(i, n)| found.dim(i) == n);
    if !is_matrix && (0..4).any(|i| found.dim(i) != expected[i]) {
        let expected = format!("{expected:?}");
        return Err(Error::TensorShape { name: name.to_owned(), expected, found });
    }
    // The shape is that of a tensor of the file, so that the product is no larger than the file.
    let n_in = 3 * size * size;
    let values = weights.need_vector(name, n_in * n_embd)?;
    Ok(Array2::from_shape_vec((n_embd, n_in), values).expect("the shape was checked"))
}

/// A number for each of three channels.
fn channels(keys: &Keys<'_>, key: &str) -> Result<[f32; 3], Error> {
    let floats = keys.floats(key, 3)?.ok_or_else(|| keys.missing(key))?;
    let channels: Option<[f32; 3]> = floats.try_into().ok();
    let finite = channels.filter(|channels| channels.iter().all(|x| x.is_finite()));
    finite.ok_or_else(|| keys.wrong(key, "three finite numbers"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patches_of_a_square_are_adjacent() {
        let expected = [[0, 0], [0, 1], [1, 0], [1, 1], [0, 2], [0, 3], [1, 2], [1, 3]];
        assert_eq!(by_squares(2, 4, 2), expected);
        assert_eq!(by_squares(2, 2, 1), raster(2, 2));
    }

    #[test]
    fn windows_at_the_ends_are_smaller() {
        // Three by two squares of two by two patches in windows of two by two squares.
        let windows = by_windows((4, 6), 2, 2);
        assert_eq!(windows.lengths, [16, 8]);
        assert_eq!(windows.squares, [0, 1, 3, 4, 2, 5]);
        assert_eq!(windows.places[8..10], [[2, 0], [2, 1]]);
    }
}
