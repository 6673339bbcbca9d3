//! Checkpoints of `golden/arch`, whose weights are generated instead of stored.
//!
//! Twin of `scripts/golden/checkpoint.py`, which describes `checkpoint.json`. The digest of each file is
//! checked, so that it has the bytes from which the reference made `expected.json`.

use std::{
    collections::HashMap,
    fs, io,
    path::{Path, PathBuf},
};

use serde_json::{Value as Json, json};

use crate::{data::bell, data::bytes_of, golden::read_folder, golden_path, mix, sha256};

/// Arguments of `-exp`. Each is a bf16 number whose exponential is within 0.01 of the last place of an f32
/// number, so that every exponential function in use rounds to it: torch's differs between processors for
/// about 1 % of all numbers.
const LOGARITHMS: [f32; 16] = [
    -1.367_187_5,
    -1.085_937_5,
    -0.980_468_75,
    -0.6875,
    -0.656_25,
    -0.402_343_75,
    -0.150_390_63,
    -0.105_957_03,
    0.031_25,
    0.100_097_656,
    0.174_804_69,
    0.244_140_63,
    0.330_078_13,
    0.369_140_63,
    0.820_312_5,
    1.617_187_5,
];

/// Names of the checkpoints of `golden/arch`, sorted.
///
/// # Panics
/// If the folder cannot be read.
pub fn checkpoint_names() -> Vec<String> {
    names_in("arch")
}

/// Names of the quantized checkpoints of `golden/forms`, sorted.
///
/// # Panics
/// If the folder cannot be read.
pub fn form_names() -> Vec<String> {
    names_in("forms")
}

/// Names of the checkpoints of `golden/projectors`, sorted.
///
/// # Panics
/// If the folder cannot be read.
pub fn projector_names() -> Vec<String> {
    names_in("projectors")
}

fn names_in(parent: &str) -> Vec<String> {
    let entries = fs::read_dir(golden_path(parent)).expect("goldens are part of the repository");
    let mut names: Vec<String> = entries
        .map(|entry| entry.expect("an entry").path())
        // Some checkpoints have no config.
        .filter(|path| ["config.json", "checkpoint.json"].iter().any(|file| path.join(file).is_file()))
        .map(|path| path.file_name().unwrap_or_default().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

/// A folder named `name` with the checkpoint of `golden/arch/NAME` and its `expected.json`. All tests share
/// it and must not write to it: it is made once in `target/checkpoints`, below a digest of its contents.
///
/// # Panics
/// If the golden is missing, does not match its description, or cannot be written.
pub fn checkpoint(name: &str) -> PathBuf {
    whole("arch", name)
}

/// Like [`checkpoint`], for `golden/forms/NAME`.
///
/// # Panics
/// Like [`checkpoint`].
pub fn form(name: &str) -> PathBuf {
    whole("forms", name)
}

/// Like [`checkpoint`], for `golden/projectors/NAME`.
///
/// # Panics
/// Like [`checkpoint`].
pub fn projector(name: &str) -> PathBuf {
    whole("projectors", name)
}

/// Like [`checkpoint`], for `golden/vision/NAME`.
///
/// # Panics
/// Like [`checkpoint`].
pub fn vision(name: &str) -> PathBuf {
    whole("vision", name)
}

/// Names of the checkpoints of `golden/vision`, sorted.
///
/// # Panics
/// If the folder cannot be read.
pub fn vision_names() -> Vec<String> {
    names_in("vision")
}

/// Like [`checkpoint`], for `golden/audio/NAME`.
///
/// # Panics
/// Like [`checkpoint`].
pub fn audio(name: &str) -> PathBuf {
    whole("audio", name)
}

/// Names of the checkpoints of `golden/audio`, sorted.
///
/// # Panics
/// If the folder cannot be read.
pub fn audio_names() -> Vec<String> {
    names_in("audio")
}

/// Like [`checkpoint`], for `golden/foreign/NAME`.
///
/// # Panics
/// Like [`checkpoint`].
pub fn foreign(name: &str) -> PathBuf {
    whole("foreign", name)
}

/// Names of the checkpoints of `golden/foreign`, sorted.
///
/// # Panics
/// If the folder cannot be read.
pub fn foreign_names() -> Vec<String> {
    names_in("foreign")
}

fn whole(parent: &str, name: &str) -> PathBuf {
    let own = golden_path(parent).join(name);
    if !own.join("checkpoint.json").is_file() {
        assert!(own.is_dir(), "golden/{parent} has no {name}");
        return own;
    }
    let files = small_files(parent, name);
    let digest = sha256(format!("{files:?}").as_bytes());
    made_once(&digest, name, |folder| write_whole(name, &files, folder))
}

/// The path `NAME` in the folder of a digest below `target/checkpoints`; `write` creates it if it is missing.
fn made_once(digest: &str, name: &str, write: impl FnOnce(&Path) -> io::Result<()>) -> PathBuf {
    let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/checkpoints");
    let path = target.join(&digest[..16]).join(name);
    if !path.exists() {
        // Another test may write these files: the first rename wins, and both have equal contents.
        fs::create_dir_all(&target).expect("the target folder can be written");
        let temporary = tempfile::tempdir_in(&target).expect("a temporary folder");
        write(&temporary.path().join(name)).expect("space for a golden");
        let renamed = fs::rename(temporary.path(), target.join(&digest[..16]));
        assert!(renamed.is_ok() || path.exists(), "{}: {renamed:?}", path.display());
    }
    path.canonicalize().expect("the path was just made")
}

/// Names of the files in `golden/logits/files.json`: families that the converter does not write.
///
/// # Panics
/// If it cannot be read.
pub fn logits_file_names() -> Vec<String> {
    let files = logits_files();
    files.as_object().into_iter().flat_map(|files| files.keys().cloned()).collect()
}

fn logits_files() -> Json {
    let bytes = fs::read(golden_path("logits/files.json")).expect("a golden can be read");
    serde_json::from_slice(&bytes).expect("files.json is JSON")
}

/// One of these files, shared by all tests like [`checkpoint`].
///
/// # Panics
/// If the golden is missing, does not match its description, or cannot be written.
pub fn logits_file(name: &str) -> PathBuf {
    let files = logits_files();
    let digest = files[name]["sha256"].as_str().expect("a digest");
    made_once(digest, &format!("{name}.gguf"), |path| {
        fs::create_dir_all(path.parent().unwrap_or(path))?;
        fs::write(path, logits_file_bytes(name, &files[name]))
    })
}

fn logits_file_bytes(name: &str, file: &Json) -> Vec<u8> {
    let mut bytes =
        fs::read(golden_path("logits").join(format!("{name}.head"))).expect("a golden can be read");
    let seed = file["seed"].as_u64().expect("a seed");
    let number = |json: &Json| json.as_u64().expect("a number") as usize;
    for (tensor, of) in file["tensors"].as_object().expect("tensors") {
        bytes.resize(number(&of[0]), 0);
        let values = of[2].as_str().expect("text");
        extend_with_tensor(&mut bytes, mix(seed, fnv1a(tensor)), "F32", values, n_elems(&of[1]));
    }
    bytes.resize(number(&file["n_bytes"]), 0);
    assert_eq!(sha256(&bytes), file["sha256"], "{name} is not what the reference read");
    bytes
}

/// All small files by name in the checkpoint: those of its tokenizer, then its own.
fn small_files(parent: &str, name: &str) -> Vec<(String, Vec<u8>)> {
    let own = golden_path(parent).join(name);
    let mut files = Vec::new();
    read_folder(&own, "", &mut files).expect("a golden can be read");
    let description = description(&files);
    let tokenizer = description["tokenizer"].as_str().expect("a tokenizer");
    let folder = description["tokenizer_folder"].as_str().unwrap_or_default();
    let mut shared = Vec::new();
    read_folder(&golden_path("arch-tokenizers").join(tokenizer), folder, &mut shared)
        .expect("a tokenizer can be read");
    shared.retain(|(name, _)| files.iter().all(|(own, _)| own != name));
    files.extend(shared);
    files.sort();
    files
}

fn description(files: &[(String, Vec<u8>)]) -> Json {
    let (_, bytes) = files.iter().find(|(name, _)| name == "checkpoint.json").expect("a description");
    serde_json::from_slice(bytes).expect("checkpoint.json is JSON")
}

fn write_whole(name: &str, files: &[(String, Vec<u8>)], folder: &Path) -> io::Result<()> {
    for (file, bytes) in files.iter().filter(|(file, _)| file != "checkpoint.json") {
        let path = folder.join(file);
        fs::create_dir_all(path.parent().unwrap_or(folder))?;
        fs::write(path, bytes)?;
    }
    for (file, bytes) in weight_files(name, &description(files)) {
        let path = folder.join(file);
        fs::create_dir_all(path.parent().unwrap_or(folder))?;
        fs::write(path, bytes)?;
    }
    Ok(())
}

/// The safetensors files of a `checkpoint.json`.
///
/// # Panics
/// If the digest of a file differs from the description.
fn weight_files(name: &str, description: &Json) -> Vec<(String, Vec<u8>)> {
    let seed = description["seed"].as_u64().expect("a seed");
    let files = description["files"].as_object().expect("files");
    let make = |(file, of): (&String, &Json)| {
        let bytes = safetensors(seed, &of["tensors"]);
        assert_eq!(sha256(&bytes), of["sha256"], "{name}/{file} is not what the reference read");
        (file.clone(), bytes)
    };
    files.iter().map(make).collect()
}

/// Parsed `VALUES SHAPE DTYPE`: a kind of values or `=NAME`, numbers separated by `x`, BF16 if no dtype is
/// given.
struct Tensor<'a> {
    values: &'a str,
    shape: Vec<u64>,
    dtype: &'a str,
}

impl Tensor<'_> {
    fn parse(text: &str) -> Tensor<'_> {
        let mut words = text.split(' ');
        let mut word = || words.next();
        let (values, shape) = (word().expect("values"), word().expect("a shape"));
        // One number without dimensions is `-`.
        let dims = shape.split('x').filter(|n| *n != "-");
        let shape = dims.map(|n| n.parse().expect("a number")).collect();
        Tensor { values, shape, dtype: word().unwrap_or("BF16") }
    }
}

/// Length of the header, header padded with spaces to a multiple of 8, tensors in order.
fn safetensors(seed: u64, tensors: &Json) -> Vec<u8> {
    let mut header = serde_json::Map::new();
    header.insert("__metadata__".to_owned(), json!({"format": "pt"}));
    let mut bodies: HashMap<&str, std::ops::Range<usize>> = HashMap::new();
    let mut body = Vec::new();
    for (name, tensor) in tensors.as_object().expect("tensors") {
        let Tensor { values, shape, dtype } = Tensor::parse(tensor.as_str().expect("text"));
        let begin = body.len();
        if let Some(other) = values.strip_prefix('=') {
            body.extend_from_within(bodies[other].clone());
        } else {
            extend_with_tensor(&mut body, mix(seed, fnv1a(name)), dtype, values, shape.iter().product());
        }
        bodies.insert(name, begin..body.len());
        header.insert(
            name.clone(),
            json!({"dtype": dtype, "shape": shape, "data_offsets": [begin, body.len()]}),
        );
    }
    let mut header = Json::from(header).to_string();
    header.extend(std::iter::repeat_n(' ', header.len().next_multiple_of(8) - header.len()));
    [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &body].concat()
}

fn n_elems(shape: &Json) -> u64 {
    shape.as_array().expect("a shape").iter().filter_map(Json::as_u64).product()
}

/// Appends the elements of a tensor of seed `seed`.
fn extend_with_tensor(body: &mut Vec<u8>, seed: u64, dtype: &str, values: &str, n_elems: u64) {
    // Standard deviation 0.05 (`bell` has 53509); 0.2 for `wide`.
    let number = |i: u64| match values {
        "normal" => bell(seed, i) * 9.25e-7,
        "wide" => bell(seed, i) * 3.7e-6,
        "near-one" => bell(seed, i) * 9.25e-7 + 1.0,
        "logarithms" => LOGARITHMS[(mix(seed, i) % 16) as usize],
        "index" => i as f32,
        // Multiples of 1/64, whose sums are exact in every order.
        "grid" => ((mix(seed, i) % 65) as f32 - 32.0) / 64.0,
        // Tensor-wide scales, as factors and as divisors.
        "positive" => (1 + mix(seed, i) % 1000) as f32 * 1e-5,
        "divisor" => (100 + mix(seed, i) % 9000) as f32,
        "one" => 1.0,
        other => match other.strip_prefix("until:").map(str::parse) {
            Some(Ok(end)) if i < end => bell(seed, i) * 9.25e-7,
            Some(Ok::<u64, _>(_)) => 0.0,
            _ => panic!("no values are called `{other}`"),
        },
    };
    match (dtype, values) {
        ("U8", "bytes") => body.extend(bytes_of(seed, n_elems)),
        // Exponents of MXFP4, for scales around one.
        ("U8" | "F8_E8M0", "exponents") => body.extend((0..n_elems).map(|i| (120 + mix(seed, i) % 10) as u8)),
        // Bytes of e4m3 without and with sign; never the two NaN encodings.
        ("F8_E4M3", "ue4m3") => body.extend((0..n_elems).map(|i| (mix(seed, i) % 127) as u8)),
        ("F8_E4M3", "f8") => {
            body.extend((0..n_elems).map(|i| (mix(seed, i) % 127) as u8 | (mix(seed, i) >> 56) as u8 & 128));
        }
        // Bytes of e5m2 with sign; never infinity or NaN.
        ("F8_E5M2", "e5m2") => {
            body.extend((0..n_elems).map(|i| (mix(seed, i) % 124) as u8 | (mix(seed, i) >> 56) as u8 & 128));
        }
        // Codes in words, and scales from 2^-10 to 2^-8.
        ("I8", "bytes") => body.extend(bytes_of(seed, n_elems)),
        ("I32", "words") => {
            body.extend((0..n_elems).flat_map(|i| ((mix(seed, i) >> 32) as u32).to_le_bytes()))
        }
        ("F16", "scales") => {
            body.extend((0..n_elems).flat_map(|i| (0x1400 + (mix(seed, i) % 0x800) as u16).to_le_bytes()));
        }
        ("I32" | "I64", _) => extend_with_numbers(body, seed, values, n_elems),
        ("F16", _) => body.extend((0..n_elems).flat_map(|i| f16(number(i)))),
        ("F32", _) => body.extend((0..n_elems).flat_map(|i| number(i).to_le_bytes())),
        ("BF16", _) => body.extend((0..n_elems).flat_map(|i| bf16(number(i)))),
        other => panic!("no values for {other:?}"),
    }
}

/// Appends values whose kind has a number after a colon: words with fields that are never all ones, groups of
/// inputs, numbers.
fn extend_with_numbers(body: &mut Vec<u8>, seed: u64, values: &str, n_elems: u64) {
    let (kind, argument) = values.split_once(':').expect("a kind and its number");
    if kind == "numbers" {
        let numbers = argument.split('x').map(|number| number.parse::<i64>().expect("a number"));
        return body.extend(numbers.flat_map(i64::to_le_bytes));
    }
    let argument: u64 = argument.parse().expect("a number");
    // Multiples of a number in order, and numbers below one.
    let whole: Option<fn(u64, u64, u64) -> u64> = match kind {
        "steps" => Some(|_, i, number| i * number),
        "below" => Some(|seed, i, number| mix(seed, i) % number),
        _ => None,
    };
    if let Some(whole) = whole {
        return body.extend((0..n_elems).flat_map(|i| whole(seed, i, argument).to_le_bytes()));
    }
    let word = |i: u64| match kind {
        "fields" => {
            let n_fields = 32 / argument;
            let field = |k: u64| (mix(seed, i * n_fields + k) % ((1 << argument) - 1)) << (k * argument);
            (0..n_fields).map(field).sum()
        }
        "in-order" => i / argument,
        "in-no-order" => i * 37 % n_elems / argument,
        other => panic!("no values are called `{other}`"),
    };
    body.extend((0..n_elems).flat_map(|i| (word(i) as u32).to_le_bytes()));
}

/// The number as bf16, ties to even.
pub fn bf16(value: f32) -> [u8; 2] {
    let bits = value.to_bits();
    (((bits + 0x7fff + (bits >> 16 & 1)) >> 16) as u16).to_le_bytes()
}

/// The number as f16, ties to even.
pub fn f16(value: f32) -> [u8; 2] {
    let (sign, magnitude) = ((value.to_bits() >> 16) as u16 & 0x8000, value.abs());
    if magnitude >= 65520.0 {
        return (sign | 0x7c00).to_le_bytes();
    }
    // Step between numbers with this exponent: 2^(exponent - 10). Subnormal ones have the step of the
    // smallest normal ones.
    let exponent = ((magnitude.to_bits() >> 23) as i32 - 127).max(-14);
    let steps = (magnitude * 2f32.powi(10 - exponent)).round_ties_even() as i32;
    // 1024 steps are the leading one, which increments the written exponent like a carry.
    (sign | (((exponent + 14) << 10) + steps) as u16).to_le_bytes()
}

/// The 64-bit FNV-1a hash.
fn fnv1a(text: &str) -> u64 {
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The digests in the descriptions were made by the Python counterpart, for every kind of values and
    /// every dtype.
    #[test]
    fn weights_match_python_twin() {
        let folders =
            ["arch", "forms"].map(|parent| names_in(parent).into_iter().map(move |name| (parent, name)));
        let described = |(parent, name): &(&str, String)| {
            golden_path(parent).join(name).join("checkpoint.json").is_file()
        };
        let mut kinds = std::collections::BTreeSet::new();
        for (parent, name) in folders.into_iter().flatten().filter(described) {
            let description = description(&small_files(parent, &name));
            assert!(!weight_files(&name, &description).is_empty(), "{name}");
            for file in description["files"].as_object().into_iter().flat_map(|files| files.values()) {
                for tensor in file["tensors"].as_object().into_iter().flat_map(|tensors| tensors.values()) {
                    let Tensor { values, dtype, .. } = Tensor::parse(tensor.as_str().unwrap_or_default());
                    let kind = values.split(':').next().unwrap_or(values);
                    kinds.insert(format!("{dtype} {}", if kind.starts_with('=') { "=" } else { kind }));
                }
            }
        }
        let expected = [
            "BF16 =",
            "BF16 grid",
            "BF16 logarithms",
            "BF16 near-one",
            "BF16 normal",
            "BF16 positive",
            "BF16 until",
            "BF16 wide",
            "F16 grid",
            "F16 normal",
            "F16 scales",
            "F32 =",
            "F32 divisor",
            "F32 index",
            "F32 logarithms",
            "F32 normal",
            "F32 one",
            "F32 positive",
            "F32 wide",
            "F8_E4M3 f8",
            "F8_E4M3 ue4m3",
            "F8_E5M2 e5m2",
            "F8_E8M0 exponents",
            "I32 fields",
            "I32 in-no-order",
            "I32 in-order",
            "I32 words",
            "I64 below",
            "I64 numbers",
            "I64 steps",
            "I8 bytes",
            "U8 bytes",
            "U8 exponents",
        ];
        assert!(kinds.iter().eq(&expected), "{kinds:?}");
    }

    #[test]
    fn logits_files_match_python_twin() {
        let files = logits_files();
        let names = logits_file_names();
        assert!(!names.is_empty());
        for name in names {
            assert!(logits_file_bytes(&name, &files[&name]).starts_with(b"GGUF"));
        }
    }

    #[test]
    fn checkpoint_is_complete() {
        let folder = checkpoint("llama-sharded");
        assert!(folder.ends_with("llama-sharded"));
        for file in ["config.json", "expected.json", "tokenizer.model", "model-00005-of-00005.safetensors"] {
            assert!(folder.join(file).is_file(), "{file}");
        }
        assert!(!folder.join("checkpoint.json").exists());
        assert_eq!(checkpoint("llama-sharded"), folder);
    }
}
