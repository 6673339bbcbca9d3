//! Explains a non-finite result: finds the first non-finite weight of a file.

use gguf_quant::Level;

use crate::{Error, Model, chunks::Target};

/// Elements that are decoded at once.
const CHUNK_ELEMS: usize = 1 << 16;

/// [`Error::NotFiniteResult`] for a target of `model`.
pub(crate) fn not_finite_prediction(model: &Model, target: &Target) -> Error {
    not_finite(model, place_of(target))
}

/// Description of a target for error messages.
pub(crate) fn place_of(target: &Target) -> String {
    format!("window {}, prediction {}", target.chunk + 1, target.index + 1)
}

/// [`Error::NotFiniteResult`] with its cause: the file's weights are searched only now.
pub(crate) fn not_finite(model: &Model, place: String) -> Error {
    match first_nonfinite_weight(model.file()) {
        Ok(weight) => Error::NotFiniteResult { place, weight },
        Err(error) => error,
    }
}

/// The first tensor of a file that contains a NaN or an infinity, and the index of that element. None where all are
/// finite or cannot be decoded.
fn first_nonfinite_weight(model: &gguf_container::Model) -> Result<Option<(String, u64)>, Error> {
    let level = Level::detect();
    let mut values = Vec::new();
    for (file, info) in model.tensors() {
        let row_elems = info.shape.row_elems() as usize;
        let bytes = file.data(info)?;
        if row_elems == 0 || bytes.is_empty() {
            continue;
        }
        let n_rows = (info.shape.n_elems() / row_elems as u64) as usize;
        let row_bytes = bytes.len() / n_rows;
        let rows_at_once = (CHUNK_ELEMS / row_elems).max(1);
        for first in (0..n_rows).step_by(rows_at_once) {
            let end = (first + rows_at_once).min(n_rows);
            values.resize((end - first) * row_elems, 0.0);
            let blocks = &bytes[first * row_bytes..end * row_bytes];
            let blocks = file.endian().to_little(info.dtype, blocks);
            // Types without a decoder cannot be checked.
            if gguf_quant::decode(info.dtype, level, &blocks, &mut values).is_err() {
                break;
            }
            if let Some(index) = values.iter().position(|value| !value.is_finite()) {
                return Ok(Some((info.name.clone(), (first * row_elems + index) as u64)));
            }
        }
    }
    Ok(None)
}
