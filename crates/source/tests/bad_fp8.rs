//! FP8 that is wrong: refused when the folder is opened, before a number is made.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs;

use serde_json::{Map, Value as Json, json};
use source::{Checkpoint, Dtype, Error};

/// Opens a checkpoint of zeros. Tensors are `NAME DTYPE [SHAPE]`.
fn open(quantization: Json, tensors: &[(&str, Dtype, &[u64])]) -> Result<Checkpoint, Error> {
    let (mut header, mut at) = (Map::new(), 0);
    for (name, dtype, shape) in tensors {
        let end = at + dtype.n_bytes(shape.iter().product()).unwrap();
        let entry = json!({"dtype": dtype.name(), "shape": shape, "data_offsets": [at, end]});
        header.insert((*name).to_owned(), entry);
        at = end;
    }
    let header = Json::from(header).to_string();
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend_from_slice(header.as_bytes());
    bytes.resize(bytes.len() + at as usize, 0);
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("config.json"), json!({"quantization_config": quantization}).to_string())
        .unwrap();
    fs::write(folder.path().join("model.safetensors"), bytes).unwrap();
    source::open(folder.path())
}

fn fine_grained() -> Json {
    json!({"quant_method": "fp8", "weight_block_size": [128, 128]})
}

const CODES: (&str, Dtype, &[u64]) = ("a.weight", Dtype::F8_E4M3, &[200, 300]);

/// Opens codes (200, 300) beside these scales.
fn with_scales(dtype: Dtype, shape: &[u64]) -> Result<Checkpoint, Error> {
    open(fine_grained(), &[CODES, ("a.weight_scale_inv", dtype, shape)])
}

#[test]
fn grids_that_fit() {
    for (shape, dtype) in [
        (&[2, 3][..], Dtype::F32),
        (&[2, 3], Dtype::BF16),
        (&[2, 3], Dtype::F8_E8M0),
        (&[2, 3], Dtype::U8),
        (&[4, 4], Dtype::F32),
        (&[200, 1], Dtype::F32),
        (&[1, 300], Dtype::F32),
        (&[200], Dtype::F16),
        (&[1], Dtype::F32),
        (&[1, 1], Dtype::F32),
        (&[], Dtype::F32),
        (&[2, 1, 3, 1], Dtype::F32),
    ] {
        let checkpoint = with_scales(dtype, shape).unwrap_or_else(|error| panic!("{shape:?}: {error}"));
        let tensor = checkpoint.tensor("a.weight").unwrap();
        assert_eq!((tensor.dtype, &tensor.shape[..]), (Dtype::F32, &[200, 300][..]));
        assert!(tensor.is_of_fp8());
        assert_eq!(checkpoint.tensors.len(), 1);
        let mut values = vec![f32::NAN; 200 * 300];
        checkpoint.read_rows(tensor, 300, 0..200, &mut values).unwrap();
        assert!(values.iter().all(|value| *value == 0.0), "{shape:?}");
    }
}

#[test]
fn grids_that_do_not_fit() {
    for shape in [
        &[1, 3][..],
        &[2, 2],
        &[2],
        &[300],
        &[3],
        &[2, 3, 1],
        &[1, 2, 3],
        &[300, 1],
        &[1, 200],
        &[0, 3],
        &[2, 3, 1, 1],
    ] {
        let error = with_scales(Dtype::F32, shape).expect_err("the grid does not fit");
        assert_eq!(
            error.to_string(),
            format!(
                "tensor `a.weight_scale_inv`: shape {shape:?}, expected one scale for each tensor, row, column or \
                 block of 128 x 128 for `a.weight` of shape [200, 300]"
            )
        );
    }
    // Blocks as large as a half would be an even division of 200 rows; the config says otherwise.
    let halves = json!({"quant_method": "fp8", "weight_block_size": [64, 128]});
    let tensors = [CODES, ("a.weight_scale_inv", Dtype::F32, &[2, 3][..])];
    assert!(matches!(open(halves, &tensors), Err(Error::PartShape { .. })));
    // Without a config only blocks in use are known.
    let tensors = [CODES, ("a.weight_scale", Dtype::F32, &[4, 4][..])];
    assert!(matches!(open(json!({"quant_method": "fp8"}), &tensors), Err(Error::PartShape { .. })));
}

#[test]
fn types_that_are_none_of_scales() {
    for dtype in [Dtype::I32, Dtype::F64, Dtype::F8_E4M3, Dtype::I8, Dtype::BOOL] {
        let error = with_scales(dtype, &[2, 3]).expect_err("no type of scales");
        let expected = format!(
            "tensor `a.weight_scale_inv`: expected scales of F32, F16, BF16, F8_E8M0 or U8, found {dtype}"
        );
        assert_eq!(error.to_string(), expected);
    }
}

#[test]
fn parts_that_are_alone() {
    let scale = ("a.weight_scale_inv", Dtype::F32, &[2, 3][..]);
    let error = open(fine_grained(), &[CODES]).expect_err("no scales");
    assert_eq!(error.to_string(), "tensor `a.weight`: codes of F8_E4M3 without scales");
    // Codes of one matrix have scales, those of the other have none.
    let error =
        open(fine_grained(), &[CODES, scale, ("b.weight", Dtype::F8_E5M2, &[4, 4])]).expect_err("no scales");
    assert_eq!(error.to_string(), "tensor `b.weight`: codes of F8_E5M2 without scales");
    let error = open(fine_grained(), &[("b.weight", Dtype::BF16, &[4, 4]), scale]).expect_err("no codes");
    let alone = "tensor `a.weight_scale_inv`: a part of quantized weights whose codes are not there, or are of another type";
    assert_eq!(error.to_string(), alone);
    // Weights that are numbers already beside scales: whether to multiply nobody can say.
    let error = open(fine_grained(), &[("a.weight", Dtype::BF16, &[200, 300]), scale]).expect_err("no codes");
    assert_eq!(error.to_string(), alone);
    // Two kinds of scales for one matrix.
    let two = [CODES, scale, ("a.weight_scale", Dtype::F32, &[1][..])];
    assert!(
        matches!(open(fine_grained(), &two), Err(Error::ScalesWithoutCodes { tensor }) if tensor == "a.weight_scale")
    );
    let zeros = [CODES, scale, ("a.weight_zero_point", Dtype::F32, &[1][..])];
    assert!(matches!(open(fine_grained(), &zeros), Err(Error::ScalesWithoutCodes { .. })));
}

#[test]
fn blocks_of_the_config() {
    for size in [json!([0, 128]), json!([128]), json!(128), json!([128, -1]), json!("128"), json!([1, 2, 3])]
    {
        let quantization = json!({"quant_method": "fp8", "weight_block_size": size});
        let error =
            open(quantization, &[CODES, ("a.weight_scale_inv", Dtype::F32, &[2, 3])]).expect_err("no block");
        assert_eq!(
            error.to_string(),
            format!(
                "`config.json`: expected rows and columns of a block, above 0, at `weight_block_size`, found {size}"
            )
        );
    }
    // The largest numbers that JSON holds: one block for all.
    let huge = json!({"quant_method": "fp8", "weight_block_size": [u64::MAX, u64::MAX]});
    let checkpoint = open(huge, &[CODES, ("a.weight_scale_inv", Dtype::F32, &[1, 1])]).unwrap();
    let mut row = [f32::NAN; 300];
    checkpoint.read_rows(&checkpoint.tensors[0], 300, 199..200, &mut row).unwrap();
    assert_eq!(row, [0.0; 300]);
}

#[test]
fn shapes_of_codes() {
    // No dimension, one, and none of a length.
    for shape in [&[][..], &[7], &[0, 300], &[200, 0], &[0, 0, 0]] {
        let codes = ("a.weight", Dtype::F8_E4M3, shape);
        let checkpoint = open(fine_grained(), &[codes, ("a.weight_scale_inv", Dtype::F32, &[])]).unwrap();
        let tensor = checkpoint.tensor("a.weight").unwrap();
        let mut values = vec![f32::NAN; (tensor.n_rows() * tensor.row_elems()) as usize];
        checkpoint.read_columns(tensor, 0..tensor.n_rows(), 0..tensor.row_elems(), &mut values).unwrap();
        assert!(values.iter().all(|value| *value == 0.0));
        assert!(checkpoint.stored_bytes(tensor) <= 4 + values.len() as u64);
    }
    let error =
        open(fine_grained(), &[("a.weight", Dtype::F8_E4M3, &[7]), ("a.weight_scale_inv", Dtype::F32, &[7])]);
    assert!(matches!(error, Err(Error::PartShape { .. })));
    // Scales without a number.
    let error = open(fine_grained(), &[CODES, ("a.weight_scale_inv", Dtype::F32, &[0])]);
    assert!(matches!(error, Err(Error::PartShape { .. })));
}
