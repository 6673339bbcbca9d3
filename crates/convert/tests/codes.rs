//! Integer codes of other programs: their values are those that their owners' libraries give, and where a ggml type holds
//! them its blocks decode to the same bits.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

use quant::{Level, Rows};
use serde_json::{Map, Value as Json, json};
use source::{Checkpoint, Repacks, Tensor};
use tensor::DType;

fn values(checkpoint: &Checkpoint, tensor: &Tensor) -> Vec<f32> {
    let mut values = vec![f32::NAN; (tensor.n_rows() * tensor.row_elems()) as usize];
    checkpoint.read_rows(tensor, tensor.row_elems(), 0..tensor.n_rows(), &mut values).unwrap();
    values
}

fn digest(values: &[f32]) -> String {
    testkit::sha256(&values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>())
}

/// The values as another type of floats, which rounds to nearest, ties to even.
fn rounded(values: &[f32], dtype: DType) -> Vec<u8> {
    let mut bytes = vec![0; values.len() * dtype.block_bytes() as usize];
    let rows = Rows { values, row_elems: values.len(), weights: None };
    quant::encode(dtype, Level::Scalar, rows, &mut bytes).unwrap();
    bytes
}

fn folders() -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> =
        fs::read_dir(testkit::golden_path("codes")).unwrap().map(|entry| entry.unwrap().path()).collect();
    folders.sort();
    folders
}

#[test]
fn values_are_those_of_the_libraries() {
    let mut wrong = String::new();
    let (mut n_tensors, mut n_libraries, mut n_elems) = (0, 0, 0);
    for folder in folders() {
        let name = folder.file_name().unwrap().to_string_lossy().into_owned();
        let expected: Json =
            serde_json::from_slice(&fs::read(folder.join("expected.json")).unwrap()).unwrap();
        let checkpoint = source::open(folder.as_path()).unwrap_or_else(|error| panic!("{name}: {error}"));
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
                if testkit::sha256(&rounded(&values, dtype)) != *digest {
                    let _ = writeln!(wrong, "{name}: {tensor_name}: differs from the library in {dtype}");
                }
                n_libraries += 1;
            }
            (n_tensors, n_elems) = (n_tensors + 1, n_elems + values.len());
        }
        // What is no part of codes goes through as it is: biases and plain matrices.
        let others = checkpoint.tensors.iter().filter(|tensor| expected.get(&tensor.name).is_none());
        assert!(others.into_iter().all(|tensor| tensor.stored.is_none()), "{name}");
    }
    assert!(wrong.is_empty(), "\n{wrong}");
    assert!(n_tensors >= 90 && n_libraries >= 60 && n_elems > 400_000, "{n_tensors} {n_libraries} {n_elems}");
}

#[test]
fn any_piece_is_a_piece_of_the_whole() {
    for folder in folders() {
        let checkpoint = source::open(folder.as_path()).unwrap();
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

/// Compares what blocks of every type that shall hold the values decode to. Gives the types, or why there is none.
fn check_repack(checkpoint: &Checkpoint, tensor: &Tensor) -> Result<Vec<DType>, String> {
    let whole = values(checkpoint, tensor);
    let types = match checkpoint.repacks_to(tensor).unwrap().unwrap() {
        Repacks::To(types) => types,
        Repacks::Not(why) => return Err(why),
    };
    assert!(!types.is_empty());
    for dtype in &types {
        let mut blocks = Vec::new();
        // In two pieces, as jobs do it.
        let cut = tensor.n_rows() / 3;
        checkpoint.repack(tensor, *dtype, 0..cut, &mut blocks).unwrap();
        checkpoint.repack(tensor, *dtype, cut..tensor.n_rows(), &mut blocks).unwrap();
        let mut decoded = vec![f32::NAN; whole.len()];
        quant::decode(*dtype, Level::Scalar, &blocks, &mut decoded).unwrap();
        for (place, (decoded, value)) in decoded.iter().zip(&whole).enumerate() {
            // Q2_0 turns the sign of scales where the zero is 2, and Q4_K subtracts: a zero may lose or get a sign.
            let is_zero = matches!(*dtype, DType::Q2_0 | DType::Q4_K) && *decoded == 0.0 && *value == 0.0;
            let is_same = decoded.to_bits() == value.to_bits() || is_zero;
            assert!(is_same, "{}: {dtype}: element {place}: {decoded} instead of {value}", tensor.name);
        }
    }
    Ok(types)
}

#[test]
fn blocks_hold_the_values_of_the_goldens() {
    let mut kept: BTreeMap<String, usize> = BTreeMap::new();
    let mut decoded: BTreeMap<String, usize> = BTreeMap::new();
    for folder in folders() {
        let checkpoint = source::open(folder.as_path()).unwrap();
        for tensor in checkpoint.tensors.iter().filter(|tensor| tensor.stored.is_some()) {
            match check_repack(&checkpoint, tensor) {
                Ok(types) => *kept.entry(types[0].name().to_owned()).or_default() += 1,
                Err(why) => *decoded.entry(why.split(' ').next().unwrap().to_owned()).or_default() += 1,
            }
        }
    }
    assert!(["q4_0", "q5_0", "q8_0"].iter().all(|dtype| kept.contains_key(*dtype)), "{kept:?}");
    // Groups in no order or of no whole blocks, scales that fit no f16, columns with factors, codes beyond Q8_0.
    assert!(
        ["groups", "scale", "each", "codes"].iter().all(|why| decoded.contains_key(*why)),
        "{decoded:?} {kept:?}"
    );
}

/// A module of packed integers (16, 1024): codes, zeros and scales without any order, unless they are given.
#[derive(Debug, Clone, Copy)]
struct Module {
    bits: u32,
    group: u64,
    zeros: Zeros,
    largest: u8,
}

#[derive(Debug, Clone, Copy)]
enum Zeros {
    None,
    Any,
    One,
}

const ROWS: u64 = 16;
const COLUMNS: u64 = 1024;

/// Each row of codes as one dense stream of bits, in words.
fn stream(rows: impl Iterator<Item = Vec<u8>>, bits: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    for row in rows {
        let mut bit_stream: Vec<bool> =
            row.iter().flat_map(|code| (0..bits).map(move |bit| code >> bit & 1 == 1)).collect();
        bit_stream.resize(bit_stream.len().next_multiple_of(32), false);
        bytes.extend(bit_stream.chunks(8).map(|bits| {
            bits.iter().enumerate().fold(0u8, |byte, (place, bit)| byte | u8::from(*bit) << place)
        }));
    }
    bytes
}

impl Module {
    fn write(self, folder: &Path) -> Checkpoint {
        let Module { bits, group, zeros, largest } = self;
        let n_groups = COLUMNS / group;
        let mask = ((1u32 << bits) - 1) as u8;
        let codes = testkit::bytes(u64::from(bits), (ROWS * COLUMNS) as usize);
        let codes = codes
            .chunks(COLUMNS as usize)
            .map(|row| row.iter().map(|code| (code & mask).min(largest)).collect());
        let scales = testkit::bytes(7, (2 * ROWS * n_groups) as usize);
        // Any finite f16.
        let scales: Vec<u8> = scales.chunks(2).flat_map(|two| [two[0], two[1] & 0xbf]).collect();
        let mut tensors: Vec<(&str, &str, Vec<u64>, Vec<u8>)> = vec![
            ("weight_packed", "I32", vec![ROWS, COLUMNS * u64::from(bits) / 32], stream(codes, bits)),
            ("weight_scale", "F16", vec![ROWS, n_groups], scales),
            ("weight_shape", "I64", vec![2], [ROWS, COLUMNS].iter().flat_map(|n| n.to_le_bytes()).collect()),
        ];
        if !matches!(zeros, Zeros::None) {
            let n_words = (ROWS * u64::from(bits)).div_ceil(32);
            let row = match zeros {
                Zeros::One => vec![1; ROWS as usize],
                _ => testkit::bytes(9, ROWS as usize).iter().map(|zero| zero & mask).collect(),
            };
            // All groups have the same zeros: words of a row, then of the next.
            let words = stream(std::iter::once(row), bits);
            let words = words.chunks(4).flat_map(|word| word.repeat(n_groups as usize)).collect();
            tensors.push(("weight_zero_point", "I32", vec![n_words, n_groups], words));
        }
        let (mut header, mut body) = (Map::new(), Vec::new());
        for (name, dtype, shape, bytes) in tensors {
            let end = body.len() + bytes.len();
            header.insert(
                format!("a.{name}"),
                json!({"dtype": dtype, "shape": shape, "data_offsets": [body.len(), end]}),
            );
            body.extend(bytes);
        }
        let header = Json::from(header).to_string();
        fs::write(
            folder.join("model.safetensors"),
            [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &body].concat(),
        )
        .unwrap();
        let weights = json!({"weights": {"num_bits": bits}});
        let config = json!({"quantization_config": {"quant_method": "compressed-tensors", "format": "pack-quantized",
            "config_groups": {"group_0": weights}}});
        fs::write(folder.join("config.json"), config.to_string()).unwrap();
        source::open(folder).unwrap()
    }
}

/// The rows of codes with integer zeros: which types hold them, smallest first.
#[test]
fn every_row_of_the_table_of_types() {
    use DType::{Q2_0, Q4_0, Q4_K, Q5_0, Q8_0, TQ1_0, TQ2_0};
    let any = |bits, group| Module { bits, group, zeros: Zeros::Any, largest: 255 };
    let middle = |bits, group| Module { zeros: Zeros::None, ..any(bits, group) };
    let one = |bits, group| Module { zeros: Zeros::One, ..any(bits, group) };
    let cases: &[(Module, &[DType])] = &[
        (middle(4, 32), &[Q4_0, Q5_0, Q8_0]),
        (middle(4, 128), &[Q4_0, Q5_0, Q8_0]),
        (any(4, 128), &[Q5_0, Q8_0]),
        (any(4, 256), &[Q4_K, Q5_0, Q8_0]),
        (any(4, COLUMNS), &[Q4_K, Q5_0, Q8_0]),
        (any(3, 64), &[Q4_0, Q5_0, Q8_0]),
        (middle(3, 32), &[Q4_0, Q5_0, Q8_0]),
        (any(2, 32), &[Q4_0, Q5_0, Q8_0]),
        (middle(2, 64), &[Q2_0, Q4_0, Q5_0, Q8_0]),
        (middle(2, 32), &[Q4_0, Q5_0, Q8_0]),
        (one(2, 128), &[Q2_0, Q4_0, Q5_0, Q8_0]),
        (one(2, COLUMNS), &[Q2_0, Q4_0, Q4_K, Q5_0, Q8_0]),
        (Module { largest: 2, ..one(2, COLUMNS) }, &[TQ1_0, TQ2_0, Q2_0, Q4_0, Q4_K, Q5_0, Q8_0]),
        (middle(5, 32), &[Q5_0, Q8_0]),
        (any(5, 32), &[Q8_0]),
        (any(6, 32), &[Q8_0]),
        (any(7, 32), &[Q8_0]),
        (middle(8, 32), &[Q8_0]),
        (any(8, 32), &[]),
        (Module { largest: 90, ..one(8, 32) }, &[Q8_0]),
        (middle(4, 16), &[]),
    ];
    for (module, expected) in cases {
        let folder = tempfile::tempdir().unwrap();
        let checkpoint = module.write(folder.path());
        let found = check_repack(&checkpoint, checkpoint.tensor("a.weight").unwrap());
        assert_eq!(found.clone().unwrap_or_default(), *expected, "{module:?}: {found:?}");
    }
}
