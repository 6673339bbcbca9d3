//! Convolutions over time, and over time and frequency.
//!
//! ```text
//! y_t  = gelu(b + sum_k W_k x_(t stride + k - 1))              k = 0, 1, 2; x_t (n_in), y_t (n_out), W_k (n_out, n_in)
//! y_tf = b + sum_kl W_kl x_(2 t + k - 1, 2 f + l - 1)          k, l = 0, 1, 2
//! ```

use ndarray::{Array2, ArrayView2};

use crate::{
    Error,
    ops::{Activation, Rows, dense},
    weights::Weights,
};

/// Frames that a convolution sees at once.
const KERNEL: usize = 3;

/// A convolution over three frames, followed by GELU.
pub struct Convolution {
    /// (n_out, n_in * KERNEL), the kernel's frames next to each other.
    weight: Array2<f32>,
    bias: Vec<f32>,
    stride: usize,
}

impl Convolution {
    /// Reads `NAME.weight` (KERNEL, n_in, n_out) and `NAME.bias` (n_out).
    ///
    /// # Errors
    /// [`Error::MissingTensor`], [`Error::TensorShape`], [`Error::TensorType`].
    pub fn open(
        weights: &mut Weights<'_>,
        name: &str,
        n_in: usize,
        n_out: usize,
        stride: usize,
    ) -> Result<Convolution, Error> {
        let missing = |name: &str| Error::MissingTensor { name: name.to_owned() };
        let (weight_name, bias_name) = (format!("{name}.weight"), format!("{name}.bias"));
        let found = weights.shape(&weight_name).ok_or_else(|| missing(&weight_name))?;
        let expected = [KERNEL as u64, n_in as u64, n_out as u64, 1];
        if (0..4).any(|i| found.dim(i) != expected[i]) {
            let expected = format!("[{KERNEL}, {n_in}, {n_out}]");
            return Err(Error::TensorShape { name: weight_name, expected, found });
        }
        let width = KERNEL * n_in;
        let weight = weights.vector(&weight_name, width * n_out)?.ok_or_else(|| missing(&weight_name))?;
        let weight = Array2::from_shape_vec((n_out, width), weight).expect("the shape was checked");
        let bias = weights.vector(&bias_name, n_out)?.ok_or_else(|| missing(&bias_name))?;
        Ok(Convolution { weight, bias, stride })
    }

    /// `x (n, n_in) -> (n / stride, n_out)` with the quotient rounded up, followed by GELU. Frames outside of `x` are 0.
    pub fn run(&self, x: ArrayView2<'_, f32>) -> Rows {
        let n_out = x.nrows().div_ceil(self.stride);
        // The frames that each output sees, side by side (im2col), so that the convolution is one product:
        // (n / stride, n_in * KERNEL) @ (n_in * KERNEL, n_out).
        let mut patches = Rows::zeros(n_out, self.weight.ncols());
        for (i, mut row) in patches.rows_mut().into_iter().enumerate() {
            for k in 0..KERNEL {
                // One frame of padding before and after.
                let frame = (i * self.stride + k).checked_sub(KERNEL / 2);
                if let Some(frame) = frame.filter(|frame| *frame < x.nrows()) {
                    let places = row.iter_mut().skip(k).step_by(KERNEL);
                    places.zip(x.row(frame)).for_each(|(place, value)| *place = *value);
                }
            }
        }
        let mut out = Rows::zeros(n_out, self.weight.nrows());
        dense(1.0, patches.view(), self.weight.t(), out.view_mut());
        out.add_bias(&self.bias);
        Activation::GeluErf.apply(&mut out);
        out
    }
}

/// Axis of a kernel whose elements are next to each other in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Inner {
    /// Frames.
    Time,
    /// Bands.
    Frequency,
}

/// A convolution over time and frequency with a kernel of 3 x 3 and stride 2.
pub struct PlaneConvolution {
    /// (n_out, n_in * 3 * 3): time before frequency.
    weight: Array2<f32>,
    bias: Option<Vec<f32>>,
    n_in: usize,
}

/// Rows of output whose inputs are gathered at once.
const ROWS_AT_ONCE: usize = 64;

impl PlaneConvolution {
    /// Reads `NAME.weight` (3, 3, n_in, n_out) and, if the file has it, `NAME.bias` (n_out).
    ///
    /// # Errors
    /// [`Error::MissingTensor`], [`Error::TensorShape`], [`Error::TensorType`].
    pub fn open(
        weights: &mut Weights<'_>,
        name: &str,
        n_in: usize,
        inner: Inner,
    ) -> Result<PlaneConvolution, Error> {
        let weight_name = format!("{name}.weight");
        let found = weights.shape(&weight_name);
        let found = found.ok_or_else(|| Error::MissingTensor { name: weight_name.clone() })?;
        let n_out = found.dim(3) as usize;
        let expected = [KERNEL as u64, KERNEL as u64, n_in as u64];
        if (0..3).any(|i| found.dim(i) != expected[i]) || n_in == 0 || n_out == 0 {
            let expected = format!("[{KERNEL}, {KERNEL}, {n_in}, channels]");
            return Err(Error::TensorShape { name: weight_name, expected, found });
        }
        let n_elems = n_out.saturating_mul(n_in).saturating_mul(KERNEL * KERNEL);
        let mut weight = weights.need_vector(&weight_name, n_elems)?;
        if inner == Inner::Time {
            for kernel in weight.chunks_exact_mut(KERNEL * KERNEL) {
                for (a, b) in [(1, 3), (2, 6), (5, 7)] {
                    kernel.swap(a, b);
                }
            }
        }
        let weight = Array2::from_shape_vec((n_out, n_in * KERNEL * KERNEL), weight);
        let weight = weight.expect("the number of elements was checked");
        Ok(PlaneConvolution { weight, bias: weights.vector(&format!("{name}.bias"), n_out)?, n_in })
    }

    /// Channels of the output.
    pub fn n_out(&self) -> usize {
        self.weight.nrows()
    }

    /// `x (n_time, n_frequency * n_in) -> (n_time / 2, n_frequency / 2 * n_out)`, each half rounded up. Values outside of the plane
    /// are 0.
    pub fn run(&self, x: &Rows) -> Rows {
        let (n_in, n_out) = (self.n_in, self.n_out());
        let (n_time, n_frequency) = (x.nrows(), x.ncols() / n_in);
        let (half_time, half_frequency) = (n_time.div_ceil(2), n_frequency.div_ceil(2));
        let mut values = Vec::with_capacity(half_time * half_frequency * n_out);
        for start in (0..half_time).step_by(ROWS_AT_ONCE) {
            let n = ROWS_AT_ONCE.min(half_time - start);
            // The inputs of each output side by side (im2col), so that the convolution is one product.
            let mut patches = Rows::zeros(n * half_frequency, self.weight.ncols());
            for (place, mut row) in patches.rows_mut().into_iter().enumerate() {
                let (t, f) = (start + place / half_frequency, place % half_frequency);
                for (at, value) in row.iter_mut().enumerate() {
                    let (own, down, across) = (at / 9, at % 9 / 3, at % 3);
                    let time = (2 * t + down).checked_sub(1).filter(|time| *time < n_time);
                    let frequency = (2 * f + across).checked_sub(1).filter(|f| *f < n_frequency);
                    if let (Some(time), Some(frequency)) = (time, frequency) {
                        *value = x[[time, frequency * n_in + own]];
                    }
                }
            }
            let mut out = Rows::zeros(n * half_frequency, n_out);
            dense(1.0, patches.view(), self.weight.t(), out.view_mut());
            if let Some(bias) = &self.bias {
                out.add_bias(bias);
            }
            values.extend_from_slice(out.as_slice());
        }
        Rows::from_vec(half_time, half_frequency * n_out, values)
    }
}
