//! Floats of 4 and 6 bits whose parts do not fit or have no values.

use std::fs;

use gguf_checkpoint::{Checkpoint, Dtype, Error, ReadError};
use gguf_types::DType;
use serde_json::{Value as Json, json};

/// Name, type, shape, and the value of all its bytes.
type Part<'a> = (&'a str, Dtype, &'a [u64], u8);

fn open(config: &Json, parts: &[Part<'_>]) -> Result<Checkpoint, Error> {
    let file = gguf_testkit::safetensors(parts.iter().map(|&(name, dtype, shape, byte)| {
        let n_bytes = dtype.n_bytes(shape.iter().product()).unwrap();
        (name, dtype.name(), shape, vec![byte; n_bytes as usize])
    }));
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("config.json"), json!({"quantization_config": config}).to_string()).unwrap();
    fs::write(folder.path().join("model.safetensors"), file).unwrap();
    crate::open(folder.path())
}

fn modelopt() -> Json {
    json!({"quant_method": "modelopt", "quant_algo": "NVFP4"})
}

/// An NVFP4 matrix (8, `columns`) with this byte for every scale and tensor-wide scale.
fn nvfp4(columns: u64, scale: u8, shape: &[u64], tensor: u8) -> Result<Checkpoint, Error> {
    open(
        &modelopt(),
        &[
            ("a.weight", Dtype::U8, &[8, columns / 2], 0x21),
            ("a.weight_scale", Dtype::F8_E4M3, &[8, columns / 16], scale),
            ("a.weight_scale_2", Dtype::F32, shape, tensor),
        ],
    )
}

fn read(checkpoint: &Checkpoint) -> Result<Vec<f32>, ReadError> {
    let tensor = checkpoint.tensor("a.weight").unwrap();
    let mut values = vec![0.0; (tensor.n_rows() * tensor.row_elems()) as usize];
    checkpoint.read_rows(tensor, tensor.row_elems(), 0..tensor.n_rows(), &mut values)?;
    Ok(values)
}

fn repack(checkpoint: &Checkpoint, dtype: DType) -> Result<Vec<u8>, ReadError> {
    let mut blocks = Vec::new();
    checkpoint.repack(checkpoint.tensor("a.weight").unwrap(), dtype, 3..5, &mut blocks)?;
    Ok(blocks)
}

#[test]
fn invalid_nvfp4_scales_are_refused() {
    // 0x3c3c3c3c is 0.0115 as f32.
    let sound = nvfp4(64, 0x38, &[], 0x3c).unwrap();
    assert_eq!(read(&sound).unwrap()[..3], [0.5, 1.0, 0.5].map(|x| x * f32::from_bits(0x3c3c_3c3c)));
    assert_eq!(repack(&sound, DType::NVFP4).unwrap().len(), 2 * 36);
    for nan in [0x7f, 0xff] {
        let error = read(&nvfp4(64, nan, &[], 0x3c).unwrap()).unwrap_err();
        let message =
            format!("tensor `a.weight_scale`: row 0: expected a finite scale, found byte {nan:#04x}");
        assert_eq!(error.to_string(), message);
    }
    // A decoder accepts a sign; a block cannot store it.
    let negative = nvfp4(64, 0xb8, &[], 0x3c).unwrap();
    assert!(read(&negative).unwrap()[0] < 0.0);
    let error = repack(&negative, DType::NVFP4).unwrap_err();
    let message = "tensor `a.weight_scale`: row 3: expected a finite scale without sign, found byte 0xb8";
    assert_eq!(error.to_string(), message);
}

#[test]
fn tensor_scales_are_one_per_matrix() {
    let error = nvfp4(64, 0x38, &[2], 0x3c).unwrap_err();
    let message = "tensor `a.weight_scale_2`: expected one number, or one for each of 1 matrices for `a.weight` of \
                shape [8, 32], found shape [2]";
    assert_eq!(error.to_string(), message);
    assert!(matches!(nvfp4(64, 0x38, &[1], 0xff), Err(Error::Read(ReadError::NoValue { .. }))));
    // A divisor of zero.
    let compressed = json!({"quant_method": "compressed-tensors", "format": "nvfp4-pack-quantized"});
    let zero = [
        ("a.weight_packed", Dtype::U8, &[8, 32][..], 0x21),
        ("a.weight_scale", Dtype::F8_E4M3, &[8, 4], 0x38),
        ("a.weight_global_scale", Dtype::F32, &[1], 0),
    ];
    let error = open(&compressed, &zero).unwrap_err();
    let message = "tensor `a.weight_global_scale`: expected numbers above zero";
    let error = error.to_string();
    assert!(error.starts_with(message) && error.ends_with(", found shape [1]"), "{error}");
}

#[test]
fn unrepackable_values_are_decoded_with_note() {
    let checkpoint = nvfp4(48, 0x38, &[], 0x3c).unwrap();
    let stored = checkpoint.tensor("a.weight").unwrap().stored.clone().unwrap();
    assert_eq!(stored.stored_blocks(), None);
    let note = "1 NVFP4 matrices are decoded, because their rows are not a multiple of 64 or have per-column factors";
    assert!(checkpoint.notes.iter().any(|line| line == note), "{:?}", checkpoint.notes);
    assert!(nvfp4(64, 0x38, &[], 0x3c).unwrap().notes.is_empty());
}

#[test]
fn nan_mxfp4_exponents_are_refused() {
    let quark = json!({"quant_method": "quark"});
    let of = |exponent: u8| {
        let parts =
            [("a.weight", Dtype::U8, &[8, 32][..], 0x12), ("a.weight_scale", Dtype::U8, &[8, 2], exponent)];
        open(&quark, &parts).unwrap()
    };
    assert_eq!(read(&of(127)).unwrap()[..2], [1.0, 0.5]);
    // The smallest scale is subnormal.
    assert_eq!(read(&of(0)).unwrap()[0], 2f32.powi(-127));
    let error = read(&of(255)).unwrap_err();
    assert_eq!(error.to_string(), "tensor `a.weight_scale`: row 0: expected a finite scale, found byte 0xff");
    assert!(matches!(repack(&of(255), DType::MXFP4), Err(ReadError::NoValue { row: 3, .. })));
}

#[test]
fn mismatched_parts_are_refused() {
    let quark = json!({"quant_method": "quark"});
    let codes = ("a.weight", Dtype::U8, &[8, 32][..], 0);
    for (scales, dtype) in [
        (&[8, 3][..], Dtype::U8),
        (&[7, 2], Dtype::U8),
        (&[8], Dtype::U8),
        (&[], Dtype::U8),
        (&[8, 0], Dtype::U8),
        (&[0, 2], Dtype::U8),
        (&[8, 2], Dtype::I16),
        (&[8, 4], Dtype::F8_E8M0),
    ] {
        let error = open(&quark, &[codes, ("a.weight_scale", dtype, scales, 0)]);
        assert!(error.is_err(), "{dtype} {scales:?}");
    }
    for shape in [&[8, 33][..], &[0, 32], &[8, 0], &[32], &[]] {
        let parts = [("a.weight", Dtype::U8, shape, 0), ("a.weight_scale", Dtype::U8, &[8, 2], 0)];
        assert!(open(&quark, &parts).is_err(), "{shape:?}");
    }
    // The number of column factors differs from that of columns.
    let parts = [
        ("a.weight", Dtype::U8, &[8, 32][..], 0),
        ("a.weight_scale", Dtype::F8_E4M3, &[8, 4], 0x38),
        ("a.pre_quant_scale", Dtype::BF16, &[32], 0x3f),
    ];
    let error = open(&modelopt(), &parts).unwrap_err();
    let message =
        "tensor `a.pre_quant_scale`: expected [64] for `a.weight` of shape [8, 32], found shape [32]";
    assert_eq!(error.to_string(), message);
}
