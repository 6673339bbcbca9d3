//! Files from before GGUF with one defect each, and their errors.

use std::{fs, path::PathBuf};

use gguf_checkpoint::{LegacyError, LegacyModel, parse_legacy};

fn golden(name: &str) -> Vec<u8> {
    fs::read(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../golden/ggml").join(name)).unwrap()
}

fn parse(bytes: Vec<u8>) -> Result<LegacyModel, LegacyError> {
    parse_legacy(vec![("x.bin".to_owned(), bytes)])
}

/// Offset of the first tensor in a ggjt file.
fn first_tensor(bytes: &[u8]) -> usize {
    let number = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
    (0..number(8)).fold(36, |at, _| at + 8 + number(at))
}

fn set(bytes: &mut [u8], at: usize, number: u32) {
    bytes[at..at + 4].copy_from_slice(&number.to_le_bytes());
}

#[test]
fn truncated_file_is_refused_or_shorter() {
    let whole = golden("ggjt1-all.bin");
    let n_tensors = parse(whole.clone()).unwrap().tensors.len();
    let mut n_read = 0;
    for len in 0..whole.len() {
        match parse(whole[..len].to_vec()) {
            Ok(model) => {
                assert!(model.tensors.len() < n_tensors, "{len} bytes");
                n_read += 1;
            }
            Err(error) => {
                // A header without a vocabulary is reported before reading one.
                let is_cut = matches!(error, LegacyError::Truncated { .. });
                assert!(is_cut || matches!(error, LegacyError::Header { .. }), "{len} bytes: {error}");
            }
        }
    }
    // Truncated after each tensor but the last.
    assert_eq!(n_read, n_tensors);
}

#[test]
fn impossible_numbers_are_refused() {
    let whole = golden("ggjt1-all.bin");
    let tensor = first_tensor(&whole);
    for (at, number, message) in [
        (
            8,
            u32::MAX,
            "`x.bin`: not a LLaMA model: the number of tokens: expected at most 1171, the space left, found 4294967295",
        ),
        (8, 0, "`x.bin`: not a LLaMA model: a size: expected a value above 0, found 0"),
        (12, 33, "`x.bin`: not a LLaMA model: the number of heads: expected a divisor of 33, found 4"),
        (20, 0, "`x.bin`: not a LLaMA model: the number of heads: expected a divisor of 32, found 0"),
        (28, 7, "`x.bin`: not a LLaMA model: the rotated part of a head: expected 8, found 7"),
        (32, 19, "`x.bin`: not a LLaMA model: the file type: expected 0 to 18, found 19"),
        (36, u32::MAX, "`x.bin`: unexpected end of file in a token: expected 4294967295 bytes"),
        (tensor, 0, "`x.bin`: tensor 0: the number of dimensions: expected 1 or 2, found 0"),
        (tensor, 3, "`x.bin`: tensor 0: the number of dimensions: expected 1 or 2, found 3"),
        (tensor + 4, 0, "`x.bin`: tensor 0: the length of the name: expected 1 to 256, found 0"),
        (
            tensor + 4,
            u32::MAX,
            "`x.bin`: tensor 0: the length of the name: expected 1 to 256, found 4294967295",
        ),
        (tensor + 8, 9, "`x.bin`: tensor `tok_embeddings.weight`: unknown ggjt 1 type 9"),
        (tensor + 8, 12, "`x.bin`: tensor `tok_embeddings.weight`: unknown ggjt 1 type 12"),
        (tensor + 8, u32::MAX, "`x.bin`: tensor `tok_embeddings.weight`: unknown ggjt 1 type 4294967295"),
        (tensor + 12, 0, "`x.bin`: tensor 0: a dimension: expected a value above 0, found 0"),
        (
            tensor + 12,
            33,
            "`x.bin`: tensor `tok_embeddings.weight`: row length 33 is not a multiple of the q4_0 block size 32",
        ),
        (
            tensor + 12,
            u32::MAX - 31,
            "`x.bin`: unexpected end of file in a tensor's data: expected 64424508960 bytes",
        ),
        (
            tensor + 16,
            u32::MAX,
            "`x.bin`: unexpected end of file in a tensor's data: expected 85899345900 bytes",
        ),
        (tensor + 20, 0xffff_ffff, "`x.bin`: tensor 0: the name is not valid UTF-8"),
    ] {
        let mut bytes = whole.clone();
        set(&mut bytes, at, number);
        let error = parse(bytes).unwrap_err().to_string();
        assert!(error.starts_with(message), "{at} {number}: {error}");
    }
    // Dimensions larger than any file.
    let mut bytes = whole.clone();
    (12..20).step_by(4).for_each(|at| set(&mut bytes, tensor + at, u32::MAX - 31));
    assert!(matches!(parse(bytes), Err(LegacyError::Truncated { .. })));
    // The second tensor renamed to the first, which has an equally long name.
    let twice = [&whole[..], &whole[tensor..]].concat();
    assert!(parse(twice).is_err());
}

#[test]
fn file_type_counts_without_version() {
    let file_type = |name| parse(golden(name)).unwrap().hyperparameters.file_type;
    // 2002 in the file.
    assert_eq!(file_type("ggjt3-all.bin"), 2);
    assert_eq!(file_type("ggjt1-fits.bin"), 8);
}

#[test]
fn gpt4all_model_may_lack_one_token() {
    let mut bytes = b"lmgg".to_vec();
    let mut put = |numbers: &[u32]| bytes.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
    put(&[32001, 32, 256, 4, 1, 8, 0]);
    (0..32000).for_each(|_| put(&[0]));
    put(&[1, 11, 0, 2]);
    bytes.extend(b"norm.weight");
    bytes.extend([0; 8]);
    let model = parse(bytes).unwrap();
    assert_eq!((model.tokens.len(), model.scores.len(), model.tensors.len()), (32001, 32001, 1));
    assert_eq!(model.tokens.last(), Some(&b""[..]));
}
