//! The GGUF format: tensors `NAME.in_sum2`, (n_matrices, row_elems) f32, and `NAME.counts`,
//! (n_matrices, 1) f32, with how the matrix was made in the metadata.
//!
//! Source: `common_imatrix_load` in `common/imatrix-loader.cpp` and `load_imatrix` in
//! `tools/quantize/quantize.cpp`.

use std::collections::BTreeMap;

use gguf::{Array, Endian, File, Mapped, TensorInfo, Value};
use tensor::DType;

use super::{Entry, Format, Imatrix, ImatrixError};

const DATASETS: &str = "imatrix.datasets";
const N_CHUNKS: &str = "imatrix.chunk_count";
const CHUNK_TOKENS: &str = "imatrix.chunk_size";
const SUMS: &str = ".in_sum2";
const COUNTS: &str = ".counts";

/// Reads a file of the GGUF format.
pub(super) fn parse(bytes: Mapped) -> Result<Imatrix, ImatrixError> {
    let file = File::parse(bytes).map_err(ImatrixError::Gguf)?;
    if file.tensors().is_empty() {
        return Err(ImatrixError::Empty);
    }
    // The reference asks that the key be there, and takes no dataset from anything but texts.
    let datasets = match file.get(DATASETS) {
        None => return Err(ImatrixError::MissingKey { key: DATASETS, expected: "an array of texts" }),
        Some(Value::Array(Array::String(texts))) => {
            texts.iter().map(|text| String::from_utf8_lossy(text).into_owned()).collect()
        }
        Some(_) => vec![],
    };
    let number = |key| match file.get(key) {
        Some(Value::U32(number)) => Ok(*number),
        _ => Err(ImatrixError::MissingKey { key, expected: "a u32" }),
    };
    // The reference keeps the number of chunks as a signed one.
    let n_chunks = i64::from(number(N_CHUNKS)?.cast_signed());
    let chunk_tokens = number(CHUNK_TOKENS)?;

    let mut pairs: BTreeMap<&str, (Option<&TensorInfo>, Option<&TensorInfo>)> = BTreeMap::new();
    for tensor in file.tensors() {
        if let Some(name) = tensor.name.strip_suffix(SUMS) {
            pairs.entry(name).or_default().0 = Some(tensor);
        } else if let Some(name) = tensor.name.strip_suffix(COUNTS) {
            pairs.entry(name).or_default().1 = Some(tensor);
        }
    }
    let mut entries = BTreeMap::new();
    for (name, pair) in pairs {
        let unpaired = |missing| ImatrixError::Unpaired { entry: name.to_owned(), missing };
        let sums = pair.0.ok_or_else(|| unpaired(SUMS))?;
        let counts = pair.1.ok_or_else(|| unpaired(COUNTS))?;
        let entry = entry(name, floats(&file, name, sums)?, &floats(&file, name, counts)?)?;
        entries.insert(name.to_owned(), entry);
    }
    if entries.is_empty() {
        return Err(ImatrixError::Empty);
    }
    Ok(Imatrix { entries, datasets, n_chunks, chunk_tokens, format: Format::Gguf })
}

/// Sums by counts; ones for a matrix that saw nothing.
fn entry(name: &str, mut sums: Vec<f32>, counts: &[f32]) -> Result<Entry, ImatrixError> {
    let (n_values, n_counts) = (sums.len() as u64, counts.len() as u64);
    if n_values == 0 || n_counts == 0 || !n_values.is_multiple_of(n_counts) {
        return Err(ImatrixError::Uneven { entry: name.to_owned(), n_values, n_counts });
    }
    let row_elems = sums.len() / counts.len();
    let mut seen = Vec::with_capacity(counts.len());
    for (index, (row, &value)) in sums.chunks_exact_mut(row_elems).zip(counts).enumerate() {
        if !value.is_finite() {
            return Err(ImatrixError::NonFinite { entry: name.to_owned(), what: "count", index, value });
        }
        // Rounded to a whole number, halves away from zero, and back.
        let tokens = value.round() as i64;
        let count = tokens as f32;
        if count > 0.0 {
            row.iter_mut().for_each(|sum| *sum /= count);
        } else {
            row.fill(1.0);
        }
        seen.push(tokens);
    }
    Ok(Entry { weights: sums, seen })
}

fn floats(file: &File, entry: &str, tensor: &TensorInfo) -> Result<Vec<f32>, ImatrixError> {
    if tensor.dtype != DType::F32 {
        let (entry, tensor, found) = (entry.to_owned(), tensor.name.clone(), tensor.dtype);
        return Err(ImatrixError::NotF32 { entry, tensor, found });
    }
    let from_bytes = match file.endian() {
        Endian::Little => f32::from_le_bytes,
        Endian::Big => f32::from_be_bytes,
    };
    let data = file.data(tensor).map_err(ImatrixError::Gguf)?;
    Ok(data.as_chunks::<4>().0.iter().map(|value| from_bytes(*value)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_by_counts() {
        let halves = entry("x", vec![1.0, 2.0, 3.0, f32::NAN, 5.0, 7.0], &[2.5, 0.0, 3.0]).unwrap();
        assert_eq!(halves.seen, [3, 0, 3]);
        assert_eq!(halves.weights, [1.0 / 3.0, 2.0 / 3.0, 1.0, 1.0, 5.0 / 3.0, 7.0 / 3.0]);
        assert_eq!(entry("x", vec![4.0], &[-3.0]).unwrap().weights, [1.0]);
    }

    #[test]
    fn uneven_and_endless_counts() {
        assert!(matches!(entry("x", vec![1.0; 3], &[1.0; 2]), Err(ImatrixError::Uneven { n_counts: 2, .. })));
        assert!(matches!(entry("x", vec![1.0; 3], &[]), Err(ImatrixError::Uneven { n_counts: 0, .. })));
        let error = entry("x", vec![1.0; 2], &[1.0, f32::INFINITY]).unwrap_err();
        assert!(matches!(error, ImatrixError::NonFinite { what: "count", index: 1, .. }), "{error}");
    }
}
