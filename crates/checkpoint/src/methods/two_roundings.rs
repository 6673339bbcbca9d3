//! Tests of forms whose libraries round twice: compares code, scale and offset with the library's, and an
//! emulation of its roundings with its output.

use std::{fs, path::PathBuf};

use crate::{Checkpoint, open};

/// Rounds to the type of a library.
pub(super) type Round = fn(f32) -> f32;
/// A library's computation of a value from code, scale and offset.
pub(super) type Library = fn(f32, f32, f32, Round) -> f32;

fn bf16(value: f32) -> f32 {
    f32::from_bits(u32::from(u16::from_le_bytes(gguf_testkit::bf16(value))) << 16)
}

fn f16(value: f32) -> f32 {
    let bytes = gguf_testkit::f16(value);
    let view = crate::View { name: "half", dtype: crate::Dtype::F16, shape: &[1], bytes: bytes[..].into() };
    let mut out = [0.0];
    crate::read_rows(&view, 0, 1, &mut out).unwrap();
    out[0]
}

/// Digest of numbers, encoded by `bytes`.
fn digest<const N: usize>(values: &[f32], bytes: impl Fn(f32) -> [u8; N]) -> String {
    gguf_testkit::sha256(&values.iter().flat_map(|value| bytes(*value)).collect::<Vec<_>>())
}

/// Compares all pieces and outputs of a golden; returns the number of tensors.
pub(super) fn compare(name: &str, library: Library) -> usize {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../golden/dialects").join(name);
    let checkpoint: Checkpoint = open(&folder).unwrap();
    let expected = fs::read_to_string(folder.join("expected.txt")).unwrap();
    let expected_of = |tensor: &str, piece: &str| {
        let start = format!("{tensor} {piece} ");
        let line = expected.lines().find_map(|line| line.strip_prefix(&start));
        line.map(|line| line.rsplit(' ').next().unwrap().to_owned())
    };
    let mut n_tensors = 0;
    for tensor in &checkpoint.tensors {
        let Some(stored) = &tensor.stored else { continue };
        let pieces = stored.pieces(&checkpoint.parts, 0..tensor.n_rows()).unwrap();
        let [codes, scales, offsets] = &pieces;
        for (piece, values) in [("codes", codes), ("scales", scales), ("zeros", offsets)] {
            let found = digest(values, f32::to_le_bytes);
            assert_eq!(Some(found), expected_of(&tensor.name, piece), "{name}: {}: {piece}", tensor.name);
        }
        let made = |round: Round| -> Vec<f32> {
            let pieces = codes.iter().zip(scales).zip(offsets);
            pieces.map(|((code, scale), offset)| library(*code, *scale, *offset, round)).collect()
        };
        let outputs = [
            ("float32", digest(&made(|value| value), f32::to_le_bytes)),
            ("float16", digest(&made(f16), gguf_testkit::f16)),
            ("bfloat16", digest(&made(bf16), gguf_testkit::bf16)),
        ];
        let n_types = outputs
            .into_iter()
            .filter_map(|(dtype, found)| Some((dtype, found, expected_of(&tensor.name, dtype)?)))
            .map(|(dtype, found, expected)| {
                assert_eq!(found, expected, "{name}: {} in {dtype}", tensor.name);
            })
            .count();
        assert_eq!(n_types, 1, "{name}: {}", tensor.name);
        n_tensors += 1;
    }
    n_tensors
}

/// Compares the pieces of the tensors `names` of a golden, with `code` converting stored codes to those of
/// the golden; returns their number.
pub(super) fn pieces(name: &str, names: &[&str], code: impl Fn(f32) -> f32) -> usize {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../golden/dialects").join(name);
    let checkpoint: Checkpoint = open(&folder).unwrap();
    let expected = fs::read_to_string(folder.join("expected.txt")).unwrap();
    for name in names {
        let tensor = checkpoint.tensor(name).unwrap();
        let stored = tensor.stored.as_ref().unwrap();
        let [mut codes, scales, zeros] = stored.pieces(&checkpoint.parts, 0..tensor.n_rows()).unwrap();
        codes.iter_mut().for_each(|value| *value = code(*value));
        for (piece, values) in [("codes", codes), ("scales", scales), ("zeros", zeros)] {
            let line = format!("{name} {piece} f32 {}", digest(&values, f32::to_le_bytes));
            assert!(expected.lines().any(|expected| expected == line), "{line}");
        }
    }
    names.len()
}
