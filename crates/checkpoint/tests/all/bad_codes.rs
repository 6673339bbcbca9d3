//! Invalid codes, scales and zeros: refused when the folder is opened, or when their rows are read.

use std::fs;

use gguf_checkpoint::{Checkpoint, Error, ReadError};
use serde_json::{Value as Json, json};

/// A tensor: name, type, shape, the bytes that it repeats.
#[derive(Debug, Clone)]
struct Part(&'static str, &'static str, Vec<u64>, Vec<u8>);

fn open(quantization: &Json, parts: &[Part]) -> Result<Checkpoint, Error> {
    let bytes = gguf_testkit::safetensors(parts.iter().map(|Part(name, dtype, shape, bytes)| {
        let dtype_bytes =
            gguf_checkpoint::Dtype::from_name(dtype).unwrap().n_bytes(shape.iter().product()).unwrap();
        (*name, *dtype, shape, bytes.iter().copied().cycle().take(dtype_bytes as usize).collect::<Vec<u8>>())
    }));
    let folder = tempfile::tempdir().unwrap();
    let config = json!({"quantization_config": quantization});
    fs::write(folder.path().join("config.json"), config.to_string()).unwrap();
    fs::write(folder.path().join("model.safetensors"), bytes).unwrap();
    gguf_checkpoint::open(folder.path())
}

fn part(name: &'static str, dtype: &'static str, shape: &[u64], bytes: &[u8]) -> Part {
    Part(name, dtype, shape.to_vec(), bytes.to_vec())
}

fn gptq() -> Json {
    json!({"quant_method": "gptq", "bits": 4, "group_size": 32, "sym": true})
}

fn words(numbers: &[i32]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

/// A valid module (64, 96) of three groups; tests spoil single parts.
fn module() -> Vec<Part> {
    let index: Vec<i32> = (0..96).map(|i| (i * 5 % 96) / 32).collect();
    vec![
        part("a.g_idx", "I32", &[96], &words(&index)),
        part("a.qweight", "I32", &[12, 64], &[0x21]),
        part("a.qzeros", "I32", &[3, 8], &[0x77]),
        part("a.scales", "F16", &[3, 64], &[0x00, 0x2c]),
    ]
}

fn with(name: &str, change: impl Fn(&mut Part)) -> Vec<Part> {
    let mut parts = module();
    parts.iter_mut().filter(|part| part.0 == name).for_each(change);
    parts
}

fn without(name: &str) -> Vec<Part> {
    module().into_iter().filter(|part| part.0 != name).collect()
}

fn read(checkpoint: &Checkpoint) -> Result<Vec<f32>, ReadError> {
    let tensor = checkpoint.tensor("a.weight").unwrap();
    let mut values = vec![f32::NAN; (tensor.n_rows() * tensor.row_elems()) as usize];
    checkpoint.read_rows(tensor, tensor.row_elems(), 0..tensor.n_rows(), &mut values)?;
    Ok(values)
}

#[test]
fn valid_module_is_read() {
    let checkpoint = open(&gptq(), &module()).unwrap();
    let values = read(&checkpoint).unwrap();
    assert_eq!(checkpoint.tensors.len(), 1);
    assert_eq!(checkpoint.tensor("a.weight").unwrap().shape, [64, 96]);
    // Codes 1 and 2, zero 7 + 1, scale 1/16.
    assert!(values.chunks(2).all(|two| two == [-7.0 / 16.0, -6.0 / 16.0]));
    assert!(read(&open(&gptq(), &without("a.g_idx")).unwrap()).is_ok());
}

#[test]
fn missing_parts_are_refused() {
    for name in ["a.scales", "a.qzeros"] {
        let error = open(&gptq(), &without(name)).unwrap_err();
        assert!(
            matches!(&error, Error::PartMissing { tensor, codes } if tensor == name && codes == "a.qweight"),
            "{error}"
        );
    }
    let error = open(&gptq(), &without("a.qweight")).unwrap_err();
    assert!(matches!(&error, Error::ScalesWithoutCodes { .. }), "{error}");
}

#[test]
fn mismatched_shapes_and_types_are_refused() {
    for (name, shape) in [
        ("a.scales", vec![2, 64]),
        ("a.scales", vec![3, 60]),
        ("a.scales", vec![192]),
        ("a.scales", vec![0, 64]),
        ("a.qzeros", vec![2, 8]),
        ("a.qzeros", vec![3, 7]),
        ("a.qzeros", vec![3, 0]),
        ("a.qzeros", vec![24]),
        ("a.qzeros", vec![3, 200]),
        ("a.qweight", vec![11, 64]),
        ("a.qweight", vec![12, 60]),
        ("a.qweight", vec![768]),
        ("a.qweight", vec![12, 8, 8]),
        ("a.g_idx", vec![95]),
        ("a.g_idx", vec![1, 96]),
    ] {
        let error = open(&gptq(), &with(name, |part| part.2 = shape.clone())).unwrap_err();
        let is_named = matches!(error, Error::PartShape { .. } | Error::ScalesWithoutCodes { .. });
        assert!(is_named, "{name} {shape:?}: {error}");
    }
    for (name, dtype) in [
        ("a.scales", "I32"),
        ("a.scales", "F8_E4M3"),
        ("a.qzeros", "I64"),
        ("a.qweight", "F32"),
        ("a.g_idx", "U8"),
    ] {
        let error = open(&gptq(), &with(name, |part| part.1 = dtype)).unwrap_err();
        assert!(
            matches!(&error, Error::PartForm { tensor, .. } if tensor == name),
            "{name} {dtype}: {error}"
        );
    }
    // Without an index the group size must be an integer: 96 columns form three equal groups, 80 do not.
    let shorter =
        |part: &mut Part| part.2 = if part.0 == "a.qweight" { vec![10, 64] } else { part.2.clone() };
    let mut parts = without("a.g_idx");
    parts.iter_mut().for_each(shorter);
    assert!(open(&gptq(), &parts).is_ok(), "32, 32 and 16 columns, as the config says");
    let error = open(&json!({"quant_method": "gptq", "bits": 4, "group_size": 20}), &parts).unwrap_err();
    assert!(matches!(&error, Error::PartShape { tensor, .. } if tensor == "a.scales"), "{error}");
}

#[test]
fn invalid_groups_are_refused() {
    for found in [3, -1, i32::MIN, i32::MAX] {
        let spoil = |part: &mut Part| part.3[4 * 50..4 * 51].copy_from_slice(&found.to_le_bytes());
        let error = open(&gptq(), &with("a.g_idx", spoil)).unwrap_err();
        let Error::PartValue { tensor, index: 50, found: value, .. } = &error else { panic!("{error}") };
        assert_eq!((tensor.as_str(), *value), ("a.g_idx", i64::from(found)));
    }
}

#[test]
fn nan_scales_are_refused() {
    // NaN, infinity, and the negative ones.
    for bits in [0x7e00u16, 0x7c00, 0xfe00, 0xfc00] {
        let spoil = |part: &mut Part| {
            part.3 = [0x00, 0x2c].repeat(192);
            part.3[2 * 70..2 * 71].copy_from_slice(&bits.to_le_bytes());
        };
        let checkpoint = open(&gptq(), &with("a.scales", spoil)).unwrap();
        let error = read(&checkpoint).unwrap_err();
        assert!(
            matches!(&error, ReadError::NoValue { tensor, row: 6, .. } if tensor == "a.scales"),
            "{error}"
        );
        let tensor = checkpoint.tensor("a.weight").unwrap();
        assert!(checkpoint.repacks_to(tensor).is_ok(), "an index comes first: nothing is read for it");
        let checkpoint = open(&gptq(), &{
            let mut parts = with("a.scales", spoil);
            parts.retain(|part| part.0 != "a.g_idx");
            parts
        })
        .unwrap();
        assert!(checkpoint.repacks_to(checkpoint.tensor("a.weight").unwrap()).is_err());
    }
}

/// A module of packed integers (16, 64).
fn packed() -> Vec<Part> {
    let shape: Vec<u8> = [16u64, 64].iter().flat_map(|n| n.to_le_bytes()).collect();
    vec![
        part("a.weight_packed", "I32", &[16, 8], &[0x21]),
        part("a.weight_scale", "BF16", &[16, 2], &[0x80, 0x3f]),
        part("a.weight_shape", "I64", &[2], &shape),
        part("a.weight_zero_point", "I32", &[2, 2], &[0x88]),
    ]
}

fn compressed() -> Json {
    json!({"quant_method": "compressed-tensors", "format": "pack-quantized",
        "config_groups": {"group_0": {"targets": ["Linear"], "weights": {"num_bits": 4}}}})
}

#[test]
fn mismatched_packed_parts_are_refused() {
    assert!(read(&open(&compressed(), &packed()).unwrap()).unwrap().chunks(2).all(|two| two == [-7.0, -6.0]));
    let spoiled = |name: &str, change: &dyn Fn(&mut Part)| {
        let mut parts = packed();
        parts.iter_mut().filter(|part| part.0 == name).for_each(change);
        open(&compressed(), &parts).unwrap_err()
    };
    for (name, shape) in [
        ("a.weight_packed", vec![16, 7]),
        ("a.weight_packed", vec![15, 8]),
        ("a.weight_packed", vec![128]),
        ("a.weight_scale", vec![16, 3]),
        ("a.weight_scale", vec![15, 2]),
        ("a.weight_scale", vec![2, 16]),
        ("a.weight_zero_point", vec![2, 1]),
        ("a.weight_zero_point", vec![16, 2]),
        ("a.weight_shape", vec![3]),
        ("a.weight_shape", vec![]),
    ] {
        let error = spoiled(name, &|part| part.2 = shape.clone());
        assert!(matches!(error, Error::PartShape { .. }), "{name} {shape:?}: {error}");
    }
    for numbers in [[16i64, 0], [-16, 64], [16, i64::MAX], [i64::MIN, 64]] {
        let error = spoiled("a.weight_shape", &|part| {
            part.3 = numbers.iter().flat_map(|n| n.to_le_bytes()).collect()
        });
        assert!(
            matches!(&error, Error::PartValue { tensor, .. } if tensor == "a.weight_shape"),
            "{numbers:?}: {error}"
        );
    }
    for name in ["a.weight_scale", "a.weight_shape"] {
        let parts: Vec<Part> = packed().into_iter().filter(|part| part.0 != name).collect();
        let error = open(&compressed(), &parts).unwrap_err();
        assert!(matches!(&error, Error::PartMissing { tensor, .. } if tensor == name), "{error}");
    }
    let parts: Vec<Part> = packed().into_iter().filter(|part| part.0 != "a.weight_packed").collect();
    assert!(matches!(open(&compressed(), &parts).unwrap_err(), Error::ScalesWithoutCodes { .. }));
    // 7 bits without crossing words look like 8.
    let both = json!({"quant_method": "compressed-tensors", "version": "0.9.0", "config_groups": {
        "a": {"weights": {"num_bits": 7}}, "b": {"weights": {"num_bits": 8}}}});
    let mut parts = packed();
    parts.retain(|part| part.0 != "a.weight_zero_point");
    parts[0].2 = vec![16, 16];
    let error = open(&both, &parts).unwrap_err();
    assert!(error.to_string().contains("either 7 or 8 bits in the config"), "{error}");
}

#[test]
fn mismatched_awq_parts_are_refused() {
    let awq = json!({"quant_method": "awq", "bits": 4, "group_size": 32, "version": "gemm"});
    let module = || {
        vec![
            part("m.down.qweight", "I32", &[64, 4], &[0x21]),
            part("m.down.qzeros", "I32", &[2, 4], &[0x77]),
            part("m.down.scales", "F16", &[2, 32], &[0x00, 0x3c]),
        ]
    };
    assert!(open(&awq, &module()).is_ok());
    for (index, shape) in [
        (0, vec![64, 5]),
        (0, vec![63, 4]),
        (1, vec![2, 3]),
        (1, vec![3, 4]),
        (2, vec![2, 31]),
        (2, vec![3, 32]),
    ] {
        let mut parts = module();
        parts[index].2 = shape.clone();
        let error = open(&awq, &parts).unwrap_err();
        assert!(matches!(error, Error::PartShape { .. }), "{index} {shape:?}: {error}");
    }
    // Scales of an activation belong to the only neighboring matrix with that number of inputs.
    let act = |name: &'static str, n: u64| {
        let mut parts = module();
        parts.push(part(name, "F16", &[n], &[0x00, 0x40]));
        open(&awq, &parts)
    };
    assert!(
        act("m.act.scales", 64)
            .is_ok_and(|checkpoint| checkpoint.notes.iter().any(|note| note.contains("folded")))
    );
    for (name, n) in [("m.act.scales", 32), ("other.act.scales", 64)] {
        let error = act(name, n).unwrap_err();
        assert!(
            matches!(&error, Error::ScalesWithoutCodes { tensor } if tensor == name),
            "{name} {n}: {error}"
        );
    }
}
