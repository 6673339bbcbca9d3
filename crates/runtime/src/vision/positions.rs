//! Learned positions of patches: a row for each place of a square grid, interpolated for pictures of other sizes.
//!
//! Interpolation is the same in both directions. Place `i` of `n` is at `c = (i + 1/2) s - 1/2` of the `m` learned places of its
//! direction with `s = m / n`, or at `c = i (m - 1) / (n - 1)` if corners are aligned.
//!
//! Source: `torch.nn.functional.interpolate` and `grid_sample` of torch 2.15, which the families' classes in transformers 5.23
//! use (`upsample_bilinear2d`, `upsample_bicubic2d` and `_upsample_bilinear2d_aa` of ATen).

use crate::{Error, ops::Rows, weights::Weights};

/// Interpolation between learned positions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Between {
    /// Bilinear, with aligned corners.
    Aligned,
    /// Bilinear, between the centers of places.
    Bilinear,
    /// Bilinear with antialiasing: averaged over all places that a patch covers.
    Averaged,
    /// Keys' cubic with `a = -3/4`, between the centers of places.
    Bicubic,
    /// The place whose area contains the start of the patch.
    Nearest,
}

/// Place of a class embedding among the rows of patches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Before the patches.
    First,
    /// After the patches.
    Last,
}

/// Positions of a tower's patches, and the row of its class embedding.
pub struct Learned {
    /// Positions of the patches.
    pub positions: Positions,
    /// (n_embd): position of the class embedding.
    pub of_class: Option<Vec<f32>>,
}

/// Learned positions of a grid.
pub struct Positions {
    /// (side * side, n_embd), row by row.
    rows: Rows,
    /// Number of places per side.
    side: usize,
    between: Between,
}

impl Positions {
    /// Reads `v.position_embd.weight` (n_embd, n) of a square of places, if the file has it. With a class embedding, the first or the
    /// last row is its position.
    ///
    /// # Errors
    /// [`Error::TensorShape`], [`Error::TensorType`].
    pub fn open(
        weights: &mut Weights<'_>,
        n_embd: usize,
        between: Between,
        class: Option<Place>,
    ) -> Result<Option<Learned>, Error> {
        const NAME: &str = "v.position_embd.weight";
        let Some(rows) = learned_rows(weights, NAME, n_embd)? else { return Ok(None) };
        let n = rows.nrows().saturating_sub(usize::from(class.is_some()));
        let side = n.isqrt();
        if side == 0 || side * side != n {
            let found = weights.shape(NAME).expect("it was just read");
            let expected = "a row for each place of a square".to_owned();
            return Err(Error::TensorShape { name: NAME.to_owned(), expected, found });
        }
        let (first, class_row) = match class {
            None => (0, None),
            Some(Place::First) => (1, Some(0)),
            Some(Place::Last) => (0, Some(n)),
        };
        let of_class = class_row.map(|row| rows.row(row).to_vec());
        let values = rows.as_slice()[first * n_embd..(first + n) * n_embd].to_vec();
        let rows = Rows::from_vec(n, n_embd, values);
        Ok(Some(Learned { positions: Positions { rows, side, between }, of_class }))
    }

    /// Adds positions to the rows `x` (places.len(), n_embd) of the patches at `places`, for a picture with this number of rows and
    /// columns of patches.
    pub fn add(&self, x: &mut Rows, (rows, columns): (usize, usize), places: &[[usize; 2]]) {
        let (by_row, by_column) =
            (taps(self.side, rows, self.between), taps(self.side, columns, self.between));
        for ([row, column], mut x) in places.iter().zip(x.rows_mut()) {
            for (from_row, down) in &by_row[*row] {
                for (from_column, across) in &by_column[*column] {
                    x.scaled_add(down * across, &self.rows.row(from_row * self.side + from_column));
                }
            }
        }
    }
}

/// Reads a matrix (n_embd, any, any) as rows (n, n_embd), if the file has it.
///
/// # Errors
/// [`Error::TensorShape`], [`Error::TensorType`].
pub fn learned_rows(weights: &mut Weights<'_>, name: &str, n_embd: usize) -> Result<Option<Rows>, Error> {
    let Some(shape) = weights.shape(name) else { return Ok(None) };
    // The number of rows comes from the tensor's shape, so the product is no larger than the file.
    let n_rows = (shape.dim(1) as usize).saturating_mul(shape.dim(2) as usize);
    if shape.dim(0) != n_embd as u64 || shape.dim(3) != 1 {
        let expected = format!("[{n_embd}, any, any]");
        return Err(Error::TensorShape { name: name.to_owned(), expected, found: shape });
    }
    Ok(Some(Rows::from_vec(n_rows, n_embd, weights.need_vector(name, n_rows * n_embd)?)))
}

/// For each of `n_out` places: indices among the `n_in` learned places, and their weights.
fn taps(n_in: usize, n_out: usize, between: Between) -> Vec<Vec<(usize, f32)>> {
    let last = n_in - 1;
    let scale = n_in as f32 / n_out as f32;
    let at_center = |i: usize| (i as f32 + 0.5) * scale - 0.5;
    let two = |at: f32| {
        let low = (at.floor() as usize).min(last);
        let part = at - at.floor();
        vec![(low, 1.0 - part), ((low + 1).min(last), part)]
    };
    let of_one = |i: usize| match between {
        Between::Aligned => two((i * last) as f32 / (n_out - 1).max(1) as f32),
        Between::Bilinear => two(at_center(i).max(0.0)),
        Between::Nearest => {
            // As in `bucketize` of torch: starts of places are multiples in double precision, rounded to single precision.
            let start = i as f32 / n_out as f32;
            let step = 1.0 / n_in as f64;
            let place = (1..n_in).filter(|j| (step + (j - 1) as f64 * step) as f32 <= start).count();
            vec![(place, 1.0)]
        }
        Between::Averaged => {
            let stretch = scale.max(1.0);
            let center = (i as f32 + 0.5) * scale;
            let first = (center - stretch + 0.5).max(0.0) as usize;
            let end = ((center + stretch + 0.5) as usize).min(n_in);
            let weight = |j: usize| (1.0 - ((j as f32 - center + 0.5) / stretch).abs()).max(0.0);
            let sum: f32 = (first..end).map(weight).sum();
            (first..end).map(|j| (j, weight(j) / sum)).collect()
        }
        Between::Bicubic => {
            /// Parameter of Keys' cubic in torch.
            const A: f32 = -0.75;
            let at = at_center(i);
            let low = at.floor();
            let near = |x: f32| ((A + 2.0) * x - (A + 3.0)) * x * x + 1.0;
            let far = |x: f32| ((A * x - 5.0 * A) * x + 8.0 * A) * x - 4.0 * A;
            let t = at - low;
            let weights = [far(t + 1.0), near(t), near(1.0 - t), far(2.0 - t)];
            let place = |k: usize| (low + k as f32 - 1.0).clamp(0.0, last as f32) as usize;
            weights.into_iter().enumerate().map(|(k, weight)| (place(k), weight)).collect()
        }
    };
    (0..n_out).map(of_one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Between; 5] =
        [Between::Aligned, Between::Bilinear, Between::Averaged, Between::Bicubic, Between::Nearest];

    #[test]
    fn positions_of_learned_size_are_unchanged() {
        for between in ALL {
            for (i, taps) in taps(5, 5, between).iter().enumerate() {
                let weight =
                    |j: usize| taps.iter().filter(|(at, _)| *at == j).map(|(_, weight)| weight).sum::<f32>();
                assert!((weight(i) - 1.0).abs() < 1e-6, "{between:?}, {i}: {taps:?}");
            }
        }
    }

    #[test]
    fn interpolation_matches_torch() {
        // F.interpolate of [0, 1, 4, 9] as a row, torch 2.15: sizes 6 and 3.
        let row = [0.0, 1.0, 4.0, 9.0];
        let value = |taps: &Vec<(usize, f32)>| taps.iter().map(|(at, weight)| row[*at] * weight).sum::<f32>();
        for (between, expected) in TORCH {
            let found: Vec<f32> = taps(4, expected.len(), *between).iter().map(value).collect();
            let worst = found.iter().zip(*expected).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            assert!(worst < 1e-5, "{between:?}: {found:?}, expected {expected:?}");
        }
    }

    const TORCH: &[(Between, &[f32])] = &[
        (Between::Aligned, &[0.0, 0.6, 1.6, 3.4, 6.0, 9.0]),
        (Between::Aligned, &[0.0, 2.5, 9.0]),
        (Between::Bilinear, &[0.0, 0.5, 1.5, 3.5, 6.5, 9.0]),
        (Between::Bilinear, &[0.16667, 2.5, 8.16667]),
        (Between::Averaged, &[0.0, 0.5, 1.5, 3.5, 6.5, 9.0]),
        (Between::Averaged, &[0.3, 2.5, 7.5]),
        (Between::Bicubic, &[-0.08681, 0.21875, 1.43056, 3.15278, 6.78125, 9.43403]),
        (Between::Bicubic, &[0.09144, 2.125, 8.33449]),
    ];
}
