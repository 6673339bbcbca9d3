//! The table of codecs, and inputs that `encode` and `decode` refuse.

use gguf_quant::{CODECS, CodecError, Level, Rows, codec, decode, encode};
use gguf_types::DType;

#[test]
fn every_encodable_type_has_one_row() {
    for (i, codec) in CODECS.iter().enumerate() {
        assert!(CODECS[i + 1..].iter().all(|other| other.dtype != codec.dtype), "{} twice", codec.dtype);
    }
    for dtype in DType::ALL.iter().filter(|dtype| dtype.is_encodable()) {
        assert!(codec(*dtype).is_some_and(|codec| codec.encode.is_some()), "{dtype}");
    }
}

fn encode_one(
    dtype: DType,
    n_values: usize,
    row_elems: usize,
    weights: Option<&[f32]>,
    n_out: usize,
) -> CodecError {
    let values = vec![1.0; n_values];
    let mut out = vec![0xaa; n_out];
    let error = encode(dtype, Level::Scalar, Rows { values: &values, row_elems, weights }, &mut out)
        .expect_err("must be refused");
    assert!(out.iter().all(|byte| *byte == 0xaa), "nothing is written on errors");
    error
}

#[test]
fn wrong_lengths_are_refused() {
    let found = |error| match error {
        CodecError::Length { quantity, found, expected, .. } => (quantity, found, expected),
        other => panic!("{other}"),
    };
    assert_eq!(found(encode_one(DType::Q4_K, 300, 300, None, 144)), ("row length in elements", 300, 512));
    assert_eq!(found(encode_one(DType::Q4_K, 0, 0, None, 0)), ("row length in elements", 0, 256));
    assert_eq!(found(encode_one(DType::Q4_K, 300, 256, None, 144)), ("values in elements", 300, 512));
    assert_eq!(found(encode_one(DType::Q4_K, 256, 256, None, 143)), ("output in bytes", 143, 144));
    let weights = [1.0; 255];
    let short = encode_one(DType::Q4_K, 256, 256, Some(&weights), 144);
    assert_eq!(short.to_string(), "weights in elements: expected 256, found 255 (q4_K)");

    let decode =
        |n_bytes, n_out| decode(DType::Q8_0, Level::Scalar, &vec![0; n_bytes], &mut vec![0.0; n_out]);
    assert_eq!(found(decode(35, 32).expect_err("must be refused")), ("blocks in bytes", 35, 68));
    assert_eq!(found(decode(68, 32).expect_err("must be refused")), ("output in elements", 32, 64));
}

#[test]
fn types_without_codec_or_weights_are_refused() {
    assert_eq!(
        encode_one(DType::I32, 1, 1, None, 4),
        CodecError::NoCodec { dtype: DType::I32, verb: "encode" }
    );
    let error = decode(DType::I32, Level::Scalar, &[0; 4], &mut [0.0]).expect_err("must be refused");
    assert_eq!(error.to_string(), "cannot decode i32");
    let codec = CODECS.iter().find(|codec| codec.needs_weights).expect("some types need weights");
    let error = encode_one(codec.dtype, 256, 256, None, codec.dtype.block_bytes() as usize);
    assert_eq!(error, CodecError::NeedsWeights { dtype: codec.dtype });
}
