//! The GGUF format: tensors `NAME.in_sum2`, (n_matrices, row_elems) f32, and `NAME.counts`, (n_matrices, 1)
//! f32, with provenance in the metadata.
//!
//! Source: `common_imatrix_load` in `common/imatrix-loader.cpp` and
//! `IMatrixCollector::save_imatrix` in `tools/imatrix/imatrix.cpp`.

use std::collections::BTreeMap;

use gguf_container::{Array, DEFAULT_ALIGNMENT, Endian, File, Mapped, Metadata, Plan, TensorInfo, Value};
use gguf_types::{DType, Shape};

use super::{Entry, Error, Format, Sums, check_even};

const TYPE: &str = "general.type";
const DATASETS: &str = "imatrix.datasets";
const N_CHUNKS: &str = "imatrix.chunk_count";
const CHUNK_TOKENS: &str = "imatrix.chunk_size";
const SUMS: &str = ".in_sum2";
const COUNTS: &str = ".counts";

/// Reads a file of the GGUF format.
pub(super) fn parse(bytes: Mapped) -> Result<Sums, Error> {
    let file = File::parse(bytes).map_err(Error::Gguf)?;
    if file.tensors().is_empty() {
        return Err(Error::Empty);
    }
    // Like the reference, requires the key but ignores values that are not texts.
    let datasets = match file.get(DATASETS) {
        None => return Err(Error::MissingKey { key: DATASETS, expected: "an array of texts" }),
        Some(Value::Array(Array::String(texts))) => {
            texts.iter().map(|text| String::from_utf8_lossy(text).into_owned()).collect()
        }
        Some(_) => vec![],
    };
    let number = |key| match file.get(key) {
        Some(Value::U32(number)) => Ok(*number),
        _ => Err(Error::MissingKey { key, expected: "a u32" }),
    };
    // The reference stores the number of chunks as a signed integer.
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
        let unpaired = |missing| Error::Unpaired { entry: name.to_owned(), missing };
        let sums = pair.0.ok_or_else(|| unpaired(SUMS))?;
        let counts = pair.1.ok_or_else(|| unpaired(COUNTS))?;
        let entry = entry(name, floats(&file, name, sums)?, &floats(&file, name, counts)?)?;
        entries.insert(name.to_owned(), entry);
    }
    if entries.is_empty() {
        return Err(Error::Empty);
    }
    Ok(Sums { entries, datasets, n_chunks, chunk_tokens, format: Format::Gguf })
}

/// Counts are rounded to integers, halves away from zero.
fn entry(name: &str, sums: Vec<f32>, counts: &[f32]) -> Result<Entry, Error> {
    check_even(name, sums.len(), counts.len())?;
    if let Some(index) = counts.iter().position(|count| !count.is_finite()) {
        let value = counts[index];
        return Err(Error::CountNotFinite { entry: name.to_owned(), index, value });
    }
    Ok(Entry { sums, counts: counts.iter().map(|count| count.round() as i64).collect() })
}

fn floats(file: &File, entry: &str, tensor: &TensorInfo) -> Result<Vec<f32>, Error> {
    if tensor.dtype != DType::F32 {
        let (entry, tensor, found) = (entry.to_owned(), tensor.name.clone(), tensor.dtype);
        return Err(Error::NotF32 { entry, tensor, found });
    }
    let from_bytes = match file.endian() {
        Endian::Little => f32::from_le_bytes,
        Endian::Big => f32::from_be_bytes,
    };
    let data = file.data(tensor).map_err(Error::Gguf)?;
    Ok(data.as_chunks::<4>().0.iter().map(|value| from_bytes(*value)).collect())
}

/// Writes a file of the GGUF format: entries in name order, sums before counts.
pub(super) fn to_bytes(sums: &Sums) -> Result<Vec<u8>, Error> {
    let datasets = sums.datasets.iter().collect();
    let number = |item, found: i64| {
        u32::try_from(found).map_err(|_| Error::TooMany { item, found: found.unsigned_abs() })
    };
    let metadata = Metadata::from([
        (TYPE.to_owned(), Value::String(b"imatrix".to_vec())),
        (DATASETS.to_owned(), Value::Array(Array::String(datasets))),
        (N_CHUNKS.to_owned(), Value::U32(number("the number of pieces", sums.n_chunks)?)),
        (CHUNK_TOKENS.to_owned(), Value::U32(sums.chunk_tokens)),
    ]);
    let (mut tensors, mut data) = (Vec::new(), Vec::new());
    for (name, entry) in &sums.entries {
        let n_matrices = entry.counts.len();
        let mut tensor = |suffix: &str, row_elems: usize, values: Vec<u8>| {
            // Trailing dimensions of 1 are not written.
            let dims = [row_elems as u64, n_matrices as u64];
            let shape = Shape::new(if n_matrices == 1 { &dims[..1] } else { &dims });
            let tensor = format!("{name}{suffix}");
            let shape = shape.map_err(|source| {
                Error::Gguf(gguf_container::Error::Shape { tensor: tensor.clone(), source })
            })?;
            tensors.push((tensor, shape, DType::F32));
            data.push(values);
            Ok(())
        };
        let sums = entry.sums.iter().flat_map(|sum| sum.to_le_bytes()).collect();
        tensor(SUMS, entry.sums.len() / n_matrices, sums)?;
        tensor(COUNTS, 1, entry.counts.iter().flat_map(|count| (*count as f32).to_le_bytes()).collect())?;
    }
    let plan = Plan::new(&metadata, tensors, Endian::Little, DEFAULT_ALIGNMENT).map_err(Error::Gguf)?;
    plan.to_bytes(&data).map_err(Error::Gguf)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_rounded() {
        let halves = entry("x", vec![1.0, 2.0, 3.0, f32::NAN, 5.0, 7.0], &[2.5, 0.0, 3.0]).unwrap();
        assert_eq!(halves.counts, [3, 0, 3]);
        assert_eq!(entry("x", vec![4.0], &[-3.0]).unwrap().counts, [-3]);
    }

    #[test]
    fn invalid_counts_are_refused() {
        assert!(matches!(entry("x", vec![1.0; 3], &[1.0; 2]), Err(Error::Uneven { n_counts: 2, .. })));
        assert!(matches!(entry("x", vec![1.0; 3], &[]), Err(Error::Uneven { n_counts: 0, .. })));
        let error = entry("x", vec![1.0; 2], &[1.0, f32::INFINITY]).unwrap_err();
        assert!(matches!(error, Error::CountNotFinite { index: 1, .. }), "{error}");
    }
}
