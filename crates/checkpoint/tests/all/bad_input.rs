//! Every invalid checkpoint, and a file with bytes changed at random.

use gguf_types::Problem as _;
use std::{fs, path::Path};

use gguf_checkpoint::Error;
use gguf_testkit::Draw;
use tempfile::TempDir;

/// A safetensors file with this header.
fn file(header: &str, data_bytes: usize) -> Vec<u8> {
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend_from_slice(header.as_bytes());
    bytes.extend((0..data_bytes).map(|i| i as u8));
    bytes
}

/// A header of F32 vectors, concatenated.
fn header(tensors: &[(&str, usize)]) -> String {
    let mut at = 0;
    let entries: Vec<String> = tensors
        .iter()
        .map(|(name, n)| {
            let begin = at;
            at += 4 * n;
            format!(r#""{name}":{{"dtype":"F32","shape":[{n}],"data_offsets":[{begin},{at}]}}"#)
        })
        .collect();
    format!("{{{}}}", entries.join(","))
}

fn vectors(tensors: &[(&str, usize)]) -> Vec<u8> {
    file(&header(tensors), tensors.iter().map(|(_, n)| 4 * n).sum())
}

fn folder(files: &[(&str, &[u8])]) -> TempDir {
    let dir = tempfile::tempdir().expect("a temporary folder is writable");
    fs::write(dir.path().join("config.json"), "{}").expect("a temporary folder is writable");
    for (name, bytes) in files {
        fs::write(dir.path().join(name), bytes).expect("a temporary folder is writable");
    }
    dir
}

fn error(files: &[(&str, &[u8])]) -> Error {
    gguf_checkpoint::open(folder(files).path()).expect_err("the folder is wrong")
}

fn error_of_file(bytes: &[u8]) -> Error {
    error(&[("model.safetensors", bytes)])
}

fn error_of_header(header: &str, data_bytes: usize) -> Error {
    error_of_file(&file(header, data_bytes))
}

#[track_caller]
fn refused(error: Error, expected: &str) {
    assert_eq!(error.to_string(), expected, "{error:?}");
}

#[test]
fn truncation_at_every_byte_is_refused() {
    let whole = file(r#"{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}"#, 8);
    for n in 0..whole.len() {
        let error = error_of_file(&whole[..n]);
        let stated = |expected: usize| format!("header of {expected} bytes, but the file has {n}");
        match &error {
            Error::HeaderCut { .. } if n < 8 => assert!(error.to_string().ends_with(&stated(8)), "{error}"),
            Error::HeaderCut { .. } if n < whole.len() - 8 => {
                assert!(error.to_string().ends_with(&stated(whole.len() - 8)), "{error}");
            }
            Error::FileLength { expected, found, .. } if n >= whole.len() - 8 => {
                assert_eq!((*expected, *found), (whole.len() as u64, n as u64));
            }
            _ => panic!("{n}: {error:?}"),
        }
        assert!(error.hint().unwrap().to_string().contains("download"));
    }
    let mut longer = whole;
    longer.push(0);
    refused(error_of_file(&longer), "`model.safetensors`: expected 70 bytes (header and tensors), found 71");
}

#[test]
fn contradictory_headers_are_refused() {
    refused(
        error_of_file(&u64::MAX.to_le_bytes()),
        "`model.safetensors`: header of 18446744073709551615 bytes exceeds the limit of 100000000",
    );
    refused(
        error_of_header(r#"{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}}"#, 4),
        "`model.safetensors`: tensor `a`: shape [2] of F32 needs 8 bytes, but the header states bytes 0 to 4",
    );
    refused(
        error_of_header(r#"{"a":{"dtype":"F16","shape":[2],"data_offsets":[0,18446744073709551615]}}"#, 4),
        "`model.safetensors`: tensor `a`: shape [2] of F16 needs 4 bytes, but the header states bytes 0 to 18446744073709551615",
    );
    refused(
        error_of_header(r#"{"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}}"#, 0),
        "`model.safetensors`: tensor `a`: the size of shape [4294967296, 4294967296] of F32 is out of range",
    );
    // Found by mutation: no data, and an overflowing number of rows.
    refused(
        error_of_header(r#"{"a":{"dtype":"BOOL","shape":[0,9223372036854775807],"data_offsets":[0,0]}}"#, 0),
        "`model.safetensors`: tensor `a`: the size of shape [0, 9223372036854775807] of BOOL is out of range",
    );
    refused(
        error_of_header(r#"{"a":{"dtype":"F4","shape":[3],"data_offsets":[0,2]}}"#, 2),
        "`model.safetensors`: tensor `a`: the size of shape [3] of F4 is out of range",
    );
    let two = |begin: u32, end: u32| {
        format!(
            r#"{{"b":{{"dtype":"U8","shape":[4],"data_offsets":[{begin},{end}]}},"a":{{"dtype":"U8","shape":[4],"data_offsets":[0,4]}}}}"#
        )
    };
    refused(
        error_of_header(&two(5, 9), 9),
        "`model.safetensors`: tensor `b`: expected data offset 4, where the previous tensor ends, found 5",
    );
    refused(
        error_of_header(&two(3, 7), 7),
        "`model.safetensors`: tensor `b`: expected data offset 4, where the previous tensor ends, found 3",
    );
    refused(
        error_of_header(r#"{"a":{"dtype":"Q4_0","shape":[2],"data_offsets":[0,8]}}"#, 8),
        "`model.safetensors`: tensor `a`: unknown dtype `Q4_0`",
    );
    refused(
        error_of_header(&header(&[("a", 1), ("a", 1)]), 8),
        "tensor `a` is in both `model.safetensors` and `model.safetensors`",
    );
    refused(error_of_header("{}", 0), "`model.safetensors` does not contain tensors");
}

#[test]
fn unparsable_header_names_the_tensor() {
    let cases = [
        ("", None),
        ("[]", None),
        ("{\"a\"", Some("a")),
        (r#"{"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}}"#, Some("a")),
        (r#"{"b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"a":{"dtype":"F32"}}"#, Some("a")),
        (r#"{"a":{"dtype":"F32","shape":[1],"data_offsets":[0]}}"#, Some("a")),
        (r#"{"__metadata__":{"format":3}}"#, Some("__metadata__")),
        (r#"{"__metadata__":{},"__metadata__":{}}"#, Some("__metadata__")),
        (r#"{} x"#, None),
        ("\u{feff}{}", None),
    ];
    for (text, expected) in cases {
        match error_of_header(text, 4) {
            Error::Header { tensor, .. } => assert_eq!(tensor.as_deref(), expected, "{text}"),
            other => panic!("{text}: {other:?}"),
        }
    }
    let deep = "[".repeat(1_000_000);
    assert!(matches!(error_of_header(&deep, 0), Error::Header { .. }));
    assert!(matches!(error_of_file(b"\x02\0\0\0\0\0\0\0\xff\xff"), Error::Header { .. }));
}

const INDEX: &str = "model.safetensors.index.json";

#[test]
fn inconsistent_shards_and_index_are_refused() {
    let (a, b) = (vectors(&[("a", 1)]), vectors(&[("b", 1)]));
    let index =
        br#"{"weight_map":{"a":"model-1.safetensors","b":"model-2.safetensors","c":"model-2.safetensors"}}"#;
    refused(
        error(&[(INDEX, index), ("model-1.safetensors", &a)]),
        "missing weight file `model-2.safetensors`: `model.safetensors.index.json` lists 2 tensors of that file",
    );
    refused(
        error(&[(INDEX, index), ("model-1.safetensors", &a), ("model-2.safetensors", &b)]),
        "`model.safetensors.index.json` does not match the weight files: no file contains `c`",
    );
    let index = br#"{"weight_map":{"a":"model-1.safetensors"}}"#;
    refused(
        error(&[(INDEX, index), ("model-1.safetensors", &vectors(&[("a", 1), ("x", 1), ("w", 0)]))]),
        "`model.safetensors.index.json` does not match the weight files: the index does not list `w`, `x`",
    );
    let index = br#"{"weight_map":{"a":"model-1.safetensors","b":"model-2.safetensors"}}"#;
    refused(
        error(&[
            (INDEX, index),
            ("model-1.safetensors", &a),
            ("model-2.safetensors", &vectors(&[("b", 1), ("a", 1)])),
        ]),
        "tensor `a` is in both `model-1.safetensors` and `model-2.safetensors`",
    );
    // Files that the index does not name are ignored.
    let checkpoint = gguf_checkpoint::open(
        folder(&[
            (INDEX, index),
            ("model-1.safetensors", &a),
            ("model-2.safetensors", &b),
            ("model.safetensors", &a),
        ])
        .path(),
    );
    assert_eq!(checkpoint.unwrap().parts.len(), 2);
    for (text, expected) in [
        ("{}", "expected an object at `weight_map`, found nothing"),
        (r#"{"weight_map":[]}"#, "expected an object at `weight_map`, found an array"),
        (r#"{"weight_map":{"a":1}}"#, "expected a file name at `weight_map`.`a`, found a number"),
    ] {
        refused(error(&[(INDEX, text.as_bytes())]), &format!("`{INDEX}`: {expected}"));
    }
    for outside in ["../model.safetensors", "/etc/passwd", "a\\\\b", "..", ""] {
        let text = format!(r#"{{"weight_map":{{"a":"{outside}"}}}}"#);
        assert!(matches!(error(&[(INDEX, text.as_bytes())]), Error::ShardOutside { .. }), "{outside}");
    }
    refused(
        error(&[(INDEX, br#"{"weight_map":{}}"#)]),
        "`model.safetensors.index.json` does not contain tensors",
    );
}

/// Links of a downloaded folder, which would make other files of this machine part of a model.
#[cfg(unix)]
#[test]
fn links_out_of_folder_are_refused() {
    use std::os::unix::fs::symlink;

    let outside = tempfile::tempdir().unwrap();
    let blobs = outside.path().join("models--org--model/blobs");
    fs::create_dir_all(&blobs).unwrap();
    let a = vectors(&[("a", 1)]);
    fs::write(outside.path().join("a"), &a).unwrap();
    fs::write(outside.path().join("secret.json"), "{}").unwrap();
    fs::write(blobs.join("0123"), &a).unwrap();
    let is_refused = |dir: &TempDir, name: &str| match gguf_checkpoint::open(dir.path()) {
        Err(Error::LinkOutside { file, .. }) => file == name,
        _ => false,
    };
    let of = |to: &Path, name: &str, plain: bool| {
        let weights: &[(&str, &[u8])] = &[("model.safetensors", &a)];
        let dir = folder(&weights[..usize::from(plain)]);
        let _ = fs::remove_file(dir.path().join(name));
        symlink(to, dir.path().join(name)).unwrap();
        dir
    };
    assert!(is_refused(&of(&outside.path().join("a"), "model.safetensors", false), "model.safetensors"));
    for name in ["config.json", "tokenizer.json", "generation_config.json"] {
        assert!(is_refused(&of(&outside.path().join("secret.json"), name, true), name), "{name}");
    }
    let dir = folder(&[
        ("modules.json", &br#"[{"type": "x.Pooling", "path": "1_Pooling"}]"#[..]),
        ("model.safetensors", &a),
    ]);
    fs::write(outside.path().join("config.json"), "{}").unwrap();
    symlink(outside.path(), dir.path().join("1_Pooling")).unwrap();
    assert!(is_refused(&dir, "1_Pooling/config.json"));
    // Blobs of the Hub's cache, files of the folder itself, and a folder that is a link.
    assert!(gguf_checkpoint::open(of(&blobs.join("0123"), "model.safetensors", false).path()).is_ok());
    let dir = folder(&[("x", &a)]);
    symlink("x", dir.path().join("model.safetensors")).unwrap();
    assert!(gguf_checkpoint::open(dir.path()).is_ok());
    symlink(dir.path(), outside.path().join("folder")).unwrap();
    assert!(gguf_checkpoint::open(&outside.path().join("folder")).is_ok());
}

#[test]
fn incomplete_shards_without_index_are_refused() {
    let a = vectors(&[("a", 1)]);
    refused(
        error(&[
            ("model-00001-of-00003.safetensors", &a),
            ("model-00003-of-00003.safetensors", &vectors(&[("c", 1)])),
        ]),
        "missing weight file `model-00002-of-00003.safetensors`: `model-00001-of-00003.safetensors` counts 3 files",
    );
    let one = [("model-00001-of-00001.safetensors", &a[..])];
    assert_eq!(gguf_checkpoint::open(folder(&one).path()).unwrap().tensors.len(), 1);
    refused(
        error(&[("model-a.safetensors", &a), ("model.safetensors", &a)]),
        "tensor `a` is in both `model-a.safetensors` and `model.safetensors`",
    );
}

#[test]
fn other_folders_are_refused() {
    let dir = folder(&[]);
    assert!(
        matches!(gguf_checkpoint::open(dir.path()), Err(Error::NoWeights { expected }) if expected.len() == 8)
    );
    assert!(matches!(gguf_checkpoint::open(&dir.path().join("config.json")), Err(Error::NotAFolder)));
    assert!(matches!(gguf_checkpoint::open(&dir.path().join("none")), Err(Error::Io { .. })));
    for (name, format) in [("adapter_model.safetensors", "a LoRA adapter"), ("x.gguf", "GGUF")] {
        refused(error(&[(name, b"")]), &format!("`{name}`: weights in {format} are not supported yet"));
    }
    for name in ["consolidated.00.pth", "consolidated.safetensors"] {
        refused(error(&[(name, b"")]), "missing file `params.json`");
    }
    let a = vectors(&[("a", 1)]);
    let dir = folder(&[("model.safetensors", &a)]);
    fs::remove_file(dir.path().join("config.json")).unwrap();
    refused(gguf_checkpoint::open(dir.path()).unwrap_err(), "missing file `config.json`");
    refused(
        error(&[("model.safetensors", &a), ("config.json", b"[1]")]),
        "`config.json`: expected an object, found an array",
    );
    assert!(
        matches!(error(&[("model.safetensors", &a), ("config.json", b"{")]), Error::Json { file, .. } if file == "config.json")
    );
    assert!(
        matches!(error(&[("model.safetensors", &a), ("generation_config.json", b"")]), Error::Json { file, .. } if file == "generation_config.json")
    );
    assert!(matches!(error(&[("model.safetensors", b"")]), Error::HeaderCut { expected: 8, found: 0, .. }));
}

#[test]
fn oversized_small_file_is_refused() {
    let dir = folder(&[("model.safetensors", &vectors(&[("a", 1)]))]);
    // A sparse file takes no disk space.
    let sparse = fs::File::create(dir.path().join("tokenizer.json")).unwrap();
    sparse.set_len(gguf_checkpoint::MAX_FILE_BYTES + 1).unwrap();
    let error = gguf_checkpoint::open(dir.path()).unwrap_err();
    assert!(matches!(error, Error::FileTooLarge { found: 268_435_457, limit: 268_435_456, .. }), "{error:?}");
}

#[test]
fn invalid_model_card_is_noted() {
    let dir = folder(&[("model.safetensors", &vectors(&[("a", 1)])), ("README.md", b"---\na: [\n---\n")]);
    let checkpoint = gguf_checkpoint::open(dir.path()).unwrap();
    assert_eq!(checkpoint.card, None);
    assert!(checkpoint.notes[0].starts_with("`README.md`: "), "{:?}", checkpoint.notes);
}

/// Verdict of the safetensors crate on the bytes.
fn crate_accepts(bytes: &[u8]) -> bool {
    safetensors::SafeTensors::deserialize(bytes).is_ok()
}

fn open_bytes(dir: &Path, bytes: &[u8]) -> Result<gguf_checkpoint::Checkpoint, Error> {
    fs::write(dir.join("model.safetensors"), bytes).expect("a temporary folder is writable");
    gguf_checkpoint::open(dir)
}

#[test]
fn changed_bytes_match_safetensors_crate() {
    let dir = folder(&[]);
    let text = r#"{"__metadata__":{"format":"pt"},"b":{"dtype":"F16","shape":[3,2],"data_offsets":[0,12]},"a":{"dtype":"I64","shape":[],"data_offsets":[12,20]},"c":{"dtype":"BOOL","shape":[0,7],"data_offsets":[20,20]}}"#;
    let whole = file(text, 20);
    assert!(crate_accepts(&whole) && open_bytes(dir.path(), &whole).is_ok());
    // xorshift64, seeded.
    let mut draw = Draw::new(1);
    let mut random = |n: usize| draw.below(n);
    let (mut accepted, mut refused) = (0, 0);
    for _ in 0..6000 {
        let mut bytes = whole.clone();
        for _ in 0..=random(3) {
            let at = random(bytes.len());
            match random(5) {
                0 => bytes[at] ^= 1 << random(8),
                1 => bytes[at] = b"0123456789,:{}[]\"\\- abc"[random(23)],
                2 => drop(bytes.remove(at)),
                3 => bytes.insert(at, random(256) as u8),
                _ => bytes.truncate(at + 1),
            }
        }
        let ours = open_bytes(dir.path(), &bytes);
        match &ours {
            Ok(checkpoint) => {
                accepted += 1;
                assert!(crate_accepts(&bytes), "{:?}", String::from_utf8_lossy(&bytes));
                for tensor in &checkpoint.tensors {
                    let view = checkpoint.view(tensor).unwrap();
                    let mut values = vec![0.0; (view.n_rows() * view.row_elems()) as usize];
                    let readable = gguf_checkpoint::read_rows(&view, 0, view.n_rows(), &mut values).is_ok();
                    assert_eq!(readable, view.dtype.is_readable());
                }
            }
            Err(error) => {
                refused += 1;
                // Stricter only if two entries share a name, or there are no entries.
                let strict = matches!(error, Error::DuplicateTensor { .. } | Error::NoTensors { .. });
                assert!(strict || !crate_accepts(&bytes), "{error}: {:?}", String::from_utf8_lossy(&bytes));
            }
        }
    }
    assert!(accepted > 100 && refused > 3000, "{accepted} {refused}");
}
