//! Integer codes of other programs: values equal those of the original libraries, and blocks of ggml types
//! that can store them decode to the same bits.

mod module;
mod table;

use std::{collections::BTreeMap, fmt::Write as _, fs, path::PathBuf};

use gguf_checkpoint::{Checkpoint, Repacks, Tensor};
use gguf_quant::{Level, Rows};
use gguf_types::DType;
use serde_json::json;

fn values(checkpoint: &Checkpoint, tensor: &Tensor) -> Vec<f32> {
    let mut values = vec![f32::NAN; (tensor.n_rows() * tensor.row_elems()) as usize];
    checkpoint.read_rows(tensor, tensor.row_elems(), 0..tensor.n_rows(), &mut values).unwrap();
    values
}

fn digest(values: &[f32]) -> String {
    gguf_testkit::sha256(&values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>())
}

/// Rounds values to another float type: to nearest, ties to even.
fn rounded(values: &[f32], dtype: DType) -> Vec<u8> {
    let mut bytes = vec![0; values.len() * dtype.block_bytes() as usize];
    let rows = Rows { values, row_elems: values.len(), weights: None };
    gguf_quant::encode(dtype, Level::Scalar, rows, &mut bytes).unwrap();
    bytes
}

fn folders() -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = fs::read_dir(gguf_testkit::golden_path("codes"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    folders.sort();
    folders
}

#[test]
fn values_match_libraries() {
    let mut wrong = String::new();
    let (mut n_tensors, mut n_libraries, mut n_elems) = (0, 0, 0);
    for folder in folders() {
        let name = folder.file_name().unwrap().to_string_lossy().into_owned();
        let expected = gguf_testkit::read_json(folder.join("expected.json"));
        let checkpoint = gguf_checkpoint::open(crate::folder(folder.as_path()))
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        for (tensor_name, expected) in expected.as_object().unwrap() {
            let tensor = checkpoint.tensor(tensor_name).unwrap_or_else(|| panic!("{name}: no {tensor_name}"));
            assert_eq!(json!(tensor.shape), expected["shape"], "{name}: {tensor_name}");
            let values = values(&checkpoint, tensor);
            if digest(&values) != expected["f32"] {
                let _ = writeln!(wrong, "{name}: {tensor_name}: {:?} ...", &values[..8]);
            }
            if let Some([dtype, digest]) = expected["library"].as_array().map(Vec::as_slice) {
                let dtype = match dtype.as_str().unwrap() {
                    "F16" => DType::F16,
                    "BF16" => DType::BF16,
                    _ => DType::F32,
                };
                if gguf_testkit::sha256(&rounded(&values, dtype)) != *digest {
                    let _ = writeln!(wrong, "{name}: {tensor_name}: differs from the library in {dtype}");
                }
                n_libraries += 1;
            }
            (n_tensors, n_elems) = (n_tensors + 1, n_elems + values.len());
        }
        // Tensors that are not part of codes pass through unchanged: biases and plain matrices.
        let others = checkpoint.tensors.iter().filter(|tensor| expected.get(&tensor.name).is_none());
        assert!(others.into_iter().all(|tensor| tensor.stored.is_none()), "{name}");
    }
    assert!(wrong.is_empty(), "\n{wrong}");
    assert!(n_tensors >= 90 && n_libraries >= 60 && n_elems > 400_000, "{n_tensors} {n_libraries} {n_elems}");
}

#[test]
fn pieces_match_the_whole() {
    for folder in folders() {
        let checkpoint = gguf_checkpoint::open(crate::folder(folder.as_path())).unwrap();
        for tensor in checkpoint.tensors.iter().filter(|tensor| tensor.stored.is_some()) {
            let whole = values(&checkpoint, tensor);
            let (n_rows, n_columns) = (tensor.n_rows(), tensor.row_elems());
            let pieces = [
                (0..1, 0..n_columns),
                (n_rows - 1..n_rows, 0..1),
                (n_rows / 3..n_rows / 2, 5..n_columns - 3),
                (3..n_rows - 2, 33..n_columns - 9),
                (0..n_rows, n_columns - 1..n_columns),
                (7..9, 31..32),
                (2..2, 4..9),
            ];
            for (rows, columns) in pieces {
                let n = ((rows.end - rows.start) * (columns.end - columns.start)) as usize;
                let mut piece = vec![f32::NAN; n];
                checkpoint.read_columns(tensor, rows.clone(), columns.clone(), &mut piece).unwrap();
                let expected = rows
                    .clone()
                    .flat_map(|row| columns.clone().map(move |column| (row * n_columns + column) as usize));
                let expected: Vec<u32> = expected.map(|place| whole[place].to_bits()).collect();
                let piece: Vec<u32> = piece.iter().map(|value| value.to_bits()).collect();
                assert_eq!(piece, expected, "{}: {rows:?} {columns:?}", tensor.name);
            }
        }
    }
}

/// Compares the decoded blocks of every type that can store the values. Returns the types, or the reason why
/// no type can.
fn check_repack(checkpoint: &Checkpoint, tensor: &Tensor) -> Result<Vec<DType>, String> {
    let whole = values(checkpoint, tensor);
    let types = match checkpoint.repacks_to(tensor).unwrap().unwrap() {
        Repacks::To(types) => types,
        Repacks::Not(why) => return Err(why),
    };
    assert!(!types.is_empty());
    for dtype in &types {
        let mut blocks = Vec::new();
        // In two pieces, like in jobs.
        let cut = tensor.n_rows() / 3;
        checkpoint.repack(tensor, *dtype, 0..cut, &mut blocks).unwrap();
        checkpoint.repack(tensor, *dtype, cut..tensor.n_rows(), &mut blocks).unwrap();
        let mut decoded = vec![f32::NAN; whole.len()];
        gguf_quant::decode(*dtype, Level::Scalar, &blocks, &mut decoded).unwrap();
        for (place, (decoded, value)) in decoded.iter().zip(&whole).enumerate() {
            // Q2_0 flips the sign of scales if the zero is 2, Q4_K subtracts, and ggml's table of e2m1 has
            // one zero: it may lose or get a sign.
            let turns_zeros = matches!(*dtype, DType::Q2_0 | DType::Q4_K | DType::MXFP4);
            let is_zero = turns_zeros && *decoded == 0.0 && *value == 0.0;
            let is_same = decoded.to_bits() == value.to_bits() || is_zero;
            assert!(is_same, "{}: {dtype}: element {place}: {decoded} instead of {value}", tensor.name);
        }
    }
    Ok(types)
}

#[test]
fn repacked_blocks_hold_golden_values() {
    let mut kept: BTreeMap<String, usize> = BTreeMap::new();
    let mut decoded: BTreeMap<String, usize> = BTreeMap::new();
    for folder in folders() {
        let checkpoint = gguf_checkpoint::open(crate::folder(folder.as_path())).unwrap();
        for tensor in checkpoint.tensors.iter().filter(|tensor| tensor.stored.is_some()) {
            match check_repack(&checkpoint, tensor) {
                Ok(types) => *kept.entry(types[0].name().to_owned()).or_default() += 1,
                Err(why) => *decoded.entry(why.split(' ').next().unwrap().to_owned()).or_default() += 1,
            }
        }
    }
    assert!(["q4_0", "q5_0", "q8_0"].iter().all(|dtype| kept.contains_key(*dtype)), "{kept:?}");
    // Groups out of order or smaller than a block, scales that do not fit f16, columns with factors, codes
    // beyond Q8_0.
    assert!(
        ["groups", "the", "scale", "it", "codes"].iter().all(|why| decoded.contains_key(*why)),
        "{decoded:?} {kept:?}"
    );
}
