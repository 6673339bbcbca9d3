//! Golden files of codecs: format, and reports of differences.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    fs, io,
    path::{Path, PathBuf},
};

use gguf_container::{Array, Value};
use serde_json::{Value as Json, json};
use sha2::{Digest, Sha256};

use crate::{Data, Importance};

/// Checks the text of a file that tests write. With `BLESS=1`, a file with another text is written again.
///
/// # Panics
/// If the text differs, or the file cannot be written.
#[track_caller]
pub fn check_written(path: &Path, text: &str) {
    let found = fs::read_to_string(path).unwrap_or_default();
    // Equal files are not touched, because programs would be compiled again.
    if found != text && std::env::var_os("BLESS").is_some() {
        fs::write(path, text).expect("the file can be written");
    } else {
        assert_eq!(found, text, "{}: BLESS=1 with the same command updates it", path.display());
    }
}

/// Task of a golden line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Task {
    /// Encode these values, then decode the bytes.
    Encode(Data, Option<Importance>),
    /// Decode random bytes.
    Decode,
}

/// A line of `golden/quant/TYPE.txt`:
/// `encode DATA WEIGHTS ROW_ELEMS N_ROWS SHA256_OF_BYTES SHA256_OF_DECODED SAMPLE`, or `decode - - ...` for
/// random bytes, whose hash is compared too.
///
/// The sample is the hex of the first bytes, or `-`.
#[derive(Debug, Clone)]
pub struct QuantCase {
    /// Task to run.
    pub task: Task,
    /// Elements in a row.
    pub row_elems: usize,
    /// Number of rows.
    pub n_rows: usize,
    /// Hash of the encoded bytes.
    pub bytes_sha256: String,
    /// Hash of the decoded values, see [`decoded_sha256`].
    pub decoded_sha256: String,
    /// First encoded bytes.
    pub sample: Vec<u8>,
}

impl QuantCase {
    /// Parses a line; `None` if it is invalid.
    pub fn parse(line: &str) -> Option<QuantCase> {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let [task, data, weights, row_elems, n_rows, bytes, decoded, sample] = fields[..] else {
            return None;
        };
        let task = match task {
            "encode" => Task::Encode(
                Data::ALL.into_iter().find(|kind| kind.name() == data)?,
                match weights {
                    "none" => None,
                    _ => Some(Importance::ALL.into_iter().find(|kind| kind.name() == weights)?),
                },
            ),
            "decode" if data == "-" && weights == "-" => Task::Decode,
            _ => return None,
        };
        Some(QuantCase {
            task,
            row_elems: row_elems.parse().ok()?,
            n_rows: n_rows.parse().ok()?,
            bytes_sha256: bytes.to_owned(),
            decoded_sha256: decoded.to_owned(),
            sample: if sample == "-" { Vec::new() } else { from_hex(sample)? },
        })
    }

    /// Total number of elements.
    pub fn n_elems(&self) -> usize {
        self.row_elems * self.n_rows
    }

    /// Seed of the values: from the row length and the position in the list of kinds.
    pub fn seed(&self) -> u64 {
        let position = match self.task {
            Task::Encode(data, _) => Data::ALL.iter().position(|kind| *kind == data).unwrap_or(0),
            Task::Decode => 7,
        };
        self.row_elems as u64 * 16 + position as u64
    }

    /// Values to encode, `(n_rows, row_elems)` row-major; `None` for [`Task::Decode`].
    pub fn values(&self) -> Option<Vec<f32>> {
        match self.task {
            Task::Encode(data, _) => Some(data.values(self.seed(), self.n_elems())),
            Task::Decode => None,
        }
    }

    /// The importance weights of a row, if there are any.
    pub fn weights(&self) -> Option<Vec<f32>> {
        match self.task {
            Task::Encode(_, Some(kind)) => {
                let position = Importance::ALL.iter().position(|other| *other == kind).unwrap_or(0) as u64;
                Some(kind.weights(self.row_elems as u64 * 16 + 8 + position, self.row_elems))
            }
            _ => None,
        }
    }

    /// Name of the case in reports.
    pub fn name(&self) -> String {
        let (task, weights) = match self.task {
            Task::Encode(data, weights) => (data.name(), weights.map_or("none", Importance::name)),
            Task::Decode => ("random bytes", "-"),
        };
        format!("{task}, weights {weights}, {} rows of {}", self.n_rows, self.row_elems)
    }
}

/// The contents of a JSON file.
///
/// # Panics
/// If there is no such file.
pub fn read_json(path: impl AsRef<Path>) -> Json {
    serde_json::from_slice(&fs::read(path).expect("a file")).expect("JSON")
}

/// A file or folder of the repository's `golden/`.
pub fn golden_path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../golden").join(name)
}

/// All files of `golden/tokenizer/NAME` by name, including those that `copies.json` takes from another
/// folder.
///
/// # Panics
/// If the folder cannot be read.
pub fn tokenizer_files(name: &str) -> BTreeMap<String, Vec<u8>> {
    let root = golden_path("tokenizer");
    let mut files = Vec::new();
    read_folder(&root.join(name), "", &mut files).expect("golden/tokenizer is part of the repository");
    let copies = fs::read(root.join("copies.json")).expect("copies.json is there");
    let copies: BTreeMap<String, String> = serde_json::from_slice(&copies).expect("copies.json is JSON");
    for (copy, original) in &copies {
        if let Some(file) = copy.strip_prefix(name).and_then(|rest| rest.strip_prefix('/')) {
            files.push((file.to_owned(), fs::read(root.join(original)).expect("the original is there")));
        }
    }
    files.into_iter().collect()
}

/// Appends the files of a folder and its subfolders, with `prefix` before their names.
pub(crate) fn read_folder(folder: &Path, prefix: &str, files: &mut Vec<(String, Vec<u8>)>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
        if entry.file_type()?.is_dir() {
            read_folder(&entry.path(), &format!("{name}/"), files)?;
        } else {
            files.push((name, fs::read(entry.path())?));
        }
    }
    Ok(())
}

/// The hash in lower-case hex.
pub fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// Type and value of a metadata entry as listed in goldens. An array of more than 16 items is listed as its
/// length and the hash of its bytes in a file: little endian, strings after their length in 64 bits.
///
/// # Panics
/// If no golden has the type.
pub fn golden_value(value: &Value) -> (String, Json) {
    let array = match value {
        Value::U32(v) => return ("u32".into(), json!(v)),
        Value::I32(v) => return ("i32".into(), json!(v)),
        Value::F32(v) => return ("f32".into(), json!(v)),
        Value::Bool(v) => return ("bool".into(), json!(v)),
        Value::String(v) => return ("str".into(), json!(std::str::from_utf8(v).expect("UTF-8"))),
        Value::Array(array) => array,
        other => panic!("no golden has {other:?}"),
    };
    let (inner, items, bytes): (_, Vec<Json>, Vec<u8>) = match array {
        Array::String(items) => {
            let bytes = items.iter().flat_map(|item| [&(item.len() as u64).to_le_bytes(), item].concat());
            ("str", items.iter().map(|item| json!(String::from_utf8_lossy(item))).collect(), bytes.collect())
        }
        Array::F32(items) => {
            let bytes = items.iter().flat_map(|item| item.to_le_bytes());
            // JSON cannot represent these numbers.
            let number = |item: &f32| if item.is_finite() { json!(item) } else { json!(item.to_string()) };
            ("f32", items.iter().map(number).collect(), bytes.collect())
        }
        Array::I32(items) => {
            let bytes = items.iter().flat_map(|item| item.to_le_bytes());
            ("i32", items.iter().map(|item| json!(item)).collect(), bytes.collect())
        }
        Array::U64(items) => {
            let bytes = items.iter().flat_map(|item| item.to_le_bytes());
            ("u64", items.iter().map(|item| json!(item)).collect(), bytes.collect())
        }
        Array::Bool(items) => (
            "bool",
            items.iter().map(|item| json!(item)).collect(),
            items.iter().map(|item| u8::from(*item)).collect(),
        ),
        Array::U8(items) => ("u8", items.iter().map(|item| json!(item)).collect(), items.clone()),
        other => panic!("no golden has {other:?}"),
    };
    let is_long = items.len() > 16;
    let value = if is_long { json!({"len": items.len(), "sha256": sha256(&bytes)}) } else { json!(items) };
    (format!("arr[{inner}]"), value)
}

/// Hash of decoded values, little endian, with every NaN written as 0x7fc00000: the compiler decides which of
/// two NaN operands an operation returns.
pub fn decoded_sha256(values: &[f32]) -> String {
    let mut hasher = Sha256::new();
    for value in values {
        let bits = if value.is_nan() { 0x7fc0_0000 } else { value.to_bits() };
        hasher.update(bits.to_le_bytes());
    }
    hex(&hasher.finalize())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Bytes from hex.
pub fn from_hex(text: &str) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(2) || !text.is_ascii() {
        return None;
    }
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).ok()).collect()
}

/// Compares blocks over the common length. `None` if they are equal; else a report with the number of
/// differing blocks and both dumps of the one that differs most.
pub fn compare_blocks(expected: &[u8], found: &[u8], block_bytes: usize) -> Option<String> {
    let differences = |(a, b): (&[u8], &[u8])| a.iter().zip(b).filter(|(a, b)| a != b).count();
    let blocks = || expected.chunks(block_bytes).zip(found.chunks(block_bytes));
    let n_blocks = blocks().count();
    let bad = blocks().filter(|pair| differences(*pair) > 0).count();
    if bad == 0 {
        return None;
    }
    let first = blocks().position(|pair| differences(pair) > 0).unwrap_or(0);
    // `max_by_key` returns the last of equals; the first is more useful.
    let worst = (0..n_blocks).rev().max_by_key(|i| blocks().nth(*i).map(differences)).unwrap_or(0);
    let (a, b) = blocks().nth(worst).unwrap_or((&[], &[]));
    Some(format!(
        "{bad} of {n_blocks} blocks differ, the first is {first}; in block {worst} {} of {block_bytes} bytes \
         differ\n  expected {}\n  found    {}",
        differences((a, b)),
        hex(a),
        hex(b)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_lines_are_parsed_and_reported() {
        let case = QuantCase::parse("encode heavy gaps 256 3 aa bb 0102ff").unwrap();
        assert_eq!(case.task, Task::Encode(Data::Heavy, Some(Importance::Gaps)));
        assert_eq!((case.n_elems(), case.sample.clone()), (768, vec![1, 2, 255]));
        assert!(QuantCase::parse("decode - - 256 3 aa bb -").is_some());
        for bad in
            ["encode heavy gaps 256 3 aa bb", "encode odd gaps 256 3 aa bb -", "decode - - 256 x aa bb -"]
        {
            assert!(QuantCase::parse(bad).is_none(), "{bad}");
        }
        assert_eq!(sha256(b""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
        assert_eq!(decoded_sha256(&[-f32::NAN]), sha256(&[0, 0, 0xc0, 0x7f]));

        assert_eq!(compare_blocks(&[1, 2, 3, 4], &[1, 2, 3, 4], 2), None);
        let report = compare_blocks(&[1, 2, 3, 4, 5, 6], &[1, 0, 3, 4, 9, 9], 2).unwrap();
        assert!(report.starts_with("2 of 3 blocks differ, the first is 0; in block 2 2 of 2"), "{report}");
        assert!(report.ends_with("expected 0506\n  found    0909"), "{report}");
    }
}
