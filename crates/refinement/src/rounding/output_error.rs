//! Output error of an encoding.

use gguf_products::matmul;
use gguf_quant::Level;
use gguf_types::DType;
use ndarray::{Array2, s};
use rayon::prelude::*;

use super::{PANEL, TILE_ROWS, metric::mean_square, row_bytes};
use crate::{Error, Gram};

/// `tr(E G E^T) / n_tokens` with `E = weights - blocks`, (n_rows, n_columns) each: the mean squared output
/// error, summed over outputs. Works for any decodable type and any Hessian. Products in single precision,
/// sums in double, in a fixed order.
///
/// # Errors
/// For a Hessian without tokens, with all inputs zero or not finite; for a type without decoder; for lengths
/// that do not agree.
pub fn output_error(
    gram: &Gram,
    dtype: DType,
    weights: &[f32],
    blocks: &[u8],
    n_columns: usize,
) -> Result<f64, Error> {
    let level = Level::detect();
    if gram.n_columns() != n_columns {
        return Err(Error::Length {
            quantity: "row length in elements",
            found: n_columns,
            expected: gram.n_columns(),
        });
    }
    mean_square(gram)?;
    let row_bytes = row_bytes(dtype, weights, blocks, n_columns)?;
    let sums = gram.view();
    let tiles = weights.par_chunks(TILE_ROWS * n_columns).zip(blocks.par_chunks(TILE_ROWS * row_bytes));
    let row_sums: Result<Vec<Vec<f64>>, Error> = tiles
        .map(|(weights, blocks)| {
            let n_rows = weights.len() / n_columns;
            let mut values = vec![0.0; weights.len()];
            gguf_quant::decode(dtype, level, blocks, &mut values)?;
            // E^T (n_columns, n_rows), from which G E^T is computed panel by panel.
            let errors = Array2::from_shape_fn((n_columns, n_rows), |(column, row)| {
                weights[row * n_columns + column] - values[row * n_columns + column]
            });
            let mut products = Array2::zeros((PANEL.min(n_columns), n_rows));
            let mut row_sums = vec![0.0; n_rows];
            for first in (0..n_columns).step_by(PANEL) {
                let end = n_columns.min(first + PANEL);
                let mut products = products.slice_mut(s![..end - first, ..]);
                matmul(level, false, 1.0, sums.slice(s![first..end, ..]), errors.view(), products.view_mut());
                for (errors, products) in
                    errors.slice(s![first..end, ..]).outer_iter().zip(products.outer_iter())
                {
                    for (sum, (error, product)) in row_sums.iter_mut().zip(errors.iter().zip(products)) {
                        *sum += f64::from(*error) * f64::from(*product);
                    }
                }
            }
            Ok(row_sums)
        })
        .collect();
    // From the first row to the last.
    Ok(row_sums?.iter().flatten().sum::<f64>() / gram.n_tokens() as f64)
}
