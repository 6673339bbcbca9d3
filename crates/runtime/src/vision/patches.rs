//! From pixels to rows: a picture is cut into patches, each a product with one matrix.

use ndarray::{Array2, Axis, parallel::prelude::*};
use rayon::slice::ParallelSlice;

use super::picture::Picture;
use crate::{
    Error,
    keys::Keys,
    ops::{Rows, dense},
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

/// Means over squares of `merge` by `merge` rows of a grid of so many rows and columns: (n, width) -> (n / merge^2, width).
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
    /// Offset subtracted from a channel in 0 to 1, and divisor.
    mean: [f32; 3],
    deviation: [f32; 3],
}

impl Patches {
    /// Reads the kernel, and the one of a second frame where there is one: a picture is two equal frames.
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
        let mean = channels(keys, "vision.image_mean")?;
        let deviation = channels(keys, "vision.image_std")?;
        if deviation.contains(&0.0) {
            return Err(keys.wrong("vision.image_std", "numbers other than 0"));
        }
        Ok(Patches { size, kernel, bias, mean, deviation })
    }

    /// The rows of a picture's patches: (places.len(), n_embd). The picture has whole patches at all places.
    pub fn run(&self, picture: &Picture, places: &[[usize; 2]]) -> Rows {
        /// Patches that a thread works on at once.
        const BLOCK: usize = 64;
        let mut out = Rows::zeros(places.len(), self.kernel.nrows());
        out.axis_chunks_iter_mut(Axis(0), BLOCK).into_par_iter().zip(places.par_chunks(BLOCK)).for_each(
            |(out, places)| {
                let mut pixels = Array2::zeros((places.len(), self.kernel.ncols()));
                for (place, mut row) in places.iter().zip(pixels.rows_mut()) {
                    let row = row.as_slice_mut().expect("rows of a new matrix are contiguous");
                    self.patch(picture, *place, row);
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

    /// The pixels of a patch as the kernel sees them: (3, size, size).
    fn patch(&self, picture: &Picture, [row, column]: [usize; 2], out: &mut [f32]) {
        /// As transformers has it in double precision.
        const FROM_BYTE: f64 = 1.0 / 255.0;
        let size = self.size;
        for (channel, plane) in out.chunks_exact_mut(size * size).enumerate() {
            for (y, line) in plane.chunks_exact_mut(size).enumerate() {
                let first = (row * size + y) * picture.width() + column * size;
                let pixels = picture.pixels()[3 * first..].chunks_exact(3);
                for (to, pixel) in line.iter_mut().zip(pixels) {
                    let value = (f64::from(pixel[channel]) * FROM_BYTE) as f32;
                    *to = (value - self.mean[channel]) / self.deviation[channel];
                }
            }
        }
    }

    /// Turns `x` into `2 x - 1` before the kernel: `W (2 x - 1)`, by the numbers of the normalization.
    pub fn doubled_around_half(mut self) -> Patches {
        // 2 (v - m) / d - 1 = (v - (m + d / 2)) / (d / 2)
        for (mean, deviation) in self.mean.iter_mut().zip(&mut self.deviation) {
            *deviation /= 2.0;
            *mean += *deviation;
        }
        self
    }
}

/// A kernel (n_embd, 3, size, size) as a matrix.
fn kernel(weights: &mut Weights<'_>, name: &str, size: usize, n_embd: usize) -> Result<Array2<f32>, Error> {
    let found = weights.shape(name).ok_or_else(|| Error::MissingTensor { name: name.to_owned() })?;
    let expected = [size as u64, size as u64, 3, n_embd as u64];
    if (0..4).any(|i| found.dim(i) != expected[i]) {
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
}
