//! Convolutions over time of Whisper's encoder.
//!
//! ```text
//! y_t = gelu(b + sum_k W_k x_(t stride + k - 1))     k = 0, 1, 2; x_t (n_in), y_t (n_out), W_k (n_out, n_in)
//! ```

use ndarray::{Array2, ArrayView2};

use crate::{
    Error,
    ops::{Activation, Rows, dense},
    weights::Weights,
};

/// Frames that a convolution sees at once.
const KERNEL: usize = 3;

/// A convolution over three frames, with GELU.
pub struct Convolution {
    /// (n_out, n_in * KERNEL), the kernel's frames next to each other.
    weight: Array2<f32>,
    bias: Vec<f32>,
    stride: usize,
}

impl Convolution {
    /// `NAME.weight` (KERNEL, n_in, n_out) and `NAME.bias` (n_out).
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

    /// `x (n, n_in) -> (n / stride, n_out)`, with GELU; frames before the first and after the last are 0.
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
