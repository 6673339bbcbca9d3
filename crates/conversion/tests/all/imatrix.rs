//! Importance matrices compared with the reference's weights, for `golden/recipes/imatrix/` (see
//! `scripts/golden/recipes_imatrix.py`), and damaged ones.

use std::{fs, path::PathBuf};

use gguf_container::Value;
use gguf_conversion::{
    imatrix::{Format, Imatrix, ImatrixError, Status, coverage, provenance},
    recipes::TensorFacts,
};
use gguf_types::{DType, Shape};

const FILES: [&str; 3] = ["mixtral.gguf", "mixtral.dat", "partial.gguf"];

fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../golden/recipes/imatrix").join(name)
}

fn open(name: &str) -> Imatrix {
    Imatrix::open(&path(name)).unwrap()
}

/// Lines that the golden's script would write.
fn listing(imatrix: &Imatrix, given_path: &str) -> Vec<String> {
    let mut lines = Vec::new();
    for (name, entry) in &imatrix.entries {
        let bytes: Vec<u8> = entry.weights.iter().flat_map(|weight| weight.to_le_bytes()).collect();
        let sum = gguf_testkit::sha256(&bytes);
        let seen: Vec<String> = entry.seen.iter().map(i64::to_string).collect();
        lines.push(format!("weights {name} {} {} {sum}", entry.weights.len(), seen.join(",")));
    }
    for (key, value) in provenance(imatrix, Some(given_path), false) {
        lines.push(format!("key {key} {} {value}", value.type_id()));
    }
    lines
}

#[test]
fn weights_and_provenance_match_reference() {
    let given_path = "an importance matrix under a long name/".repeat(3) + "that goes on and on.imatrix";
    for name in FILES {
        let imatrix = open(name);
        imatrix.check().unwrap();
        let expected = fs::read_to_string(path(&format!("{name}.txt"))).unwrap();
        assert_eq!(listing(&imatrix, &given_path), expected.lines().collect::<Vec<_>>(), "{name}");
        let format = if name.ends_with(".dat") { Format::Legacy } else { Format::Gguf };
        assert_eq!((imatrix.format, imatrix.n_chunks), (format, 3));
        let whole = provenance(&imatrix, Some(&given_path), true);
        assert_eq!(whole.get("quantize.imatrix.file"), Some(&Value::from(given_path.as_str())));
    }
}

#[test]
fn coverage_names_unused_expert() {
    let tensor =
        |name, dims: &[u64]| TensorFacts { name, shape: Shape::new(dims).unwrap(), dtype: DType::Q4_0 };
    let tensors = [
        tensor("blk.0.ffn_up_exps.weight", &[64, 96, 4]),
        tensor("blk.0.attn_q.weight", &[64, 64]),
        tensor("output.weight", &[64, 384]),
    ];
    let report = coverage(&open("partial.gguf"), &tensors);
    let Status::Covered { seen: (0, most), experts_without_data, n_experts: 4, .. } =
        &report.tensors[0].status
    else {
        panic!("{:?}", report.tensors[0]);
    };
    assert!(*most > 0);
    assert_eq!(experts_without_data, &[1]);
    assert!(matches!(&report.tensors[1].status, Status::Covered { seen: (192, 192), .. }));
    assert_eq!(report.tensors[2].status, Status::Missing);
    assert_eq!(report.unused.len(), 14);
    assert!(!report.is_for_another_model());
}

#[test]
fn matrix_size_must_match_tensor() {
    let mut imatrix = open("mixtral.gguf");
    let tensor =
        |name, dims: &[u64]| TensorFacts { name, shape: Shape::new(dims).unwrap(), dtype: DType::F32 };
    let name = "blk.0.ffn_up_exps.weight";
    assert_eq!(imatrix.weights(name, &tensor(name, &[64, 96, 4])).unwrap().map(<[f32]>::len), Some(256));
    let wrong = imatrix.weights(name, &tensor(name, &[64, 96, 8]));
    assert!(matches!(wrong, Err(ImatrixError::WrongSize { expected: 512, found: 256, .. })), "{wrong:?}");
    assert_eq!(imatrix.weights("output.weight", &tensor("output.weight", &[64, 9])).unwrap(), None);
    // A token embedding never matches and never causes an error.
    let entry = imatrix.entries[name].clone();
    imatrix.entries.insert("token_embd.weight".to_owned(), entry);
    assert_eq!(imatrix.weights("token_embd.weight", &tensor("token_embd.weight", &[64, 9])).unwrap(), None);
}

#[test]
fn filters_match_substrings() {
    let mut imatrix = open("mixtral.dat");
    imatrix.include(&[]);
    assert_eq!(imatrix.entries.len(), 16);
    imatrix.include(&["attn_".to_owned(), "ffn_down".to_owned()]);
    assert_eq!(imatrix.entries.len(), 10);
    imatrix.exclude(&["blk.1.".to_owned()]);
    assert_eq!(imatrix.entries.len(), 5);
    imatrix.exclude(&[String::new()]);
    assert!(imatrix.entries.is_empty() && provenance(&imatrix, Some("x"), false).is_empty());
}

#[test]
fn non_finite_weight_is_named() {
    for (file, bad) in [("mixtral.gguf", f32::NAN), ("mixtral.dat", f32::INFINITY)] {
        let mut imatrix = open(file);
        imatrix.entries.get_mut("blk.1.attn_k.weight").unwrap().weights[7] = bad;
        let error = imatrix.check().unwrap_err();
        assert!(error.to_string().starts_with("entry `blk.1.attn_k.weight`: weight 7 is "), "{error}");
    }
}

/// Truncation or a single wrong byte may neither panic nor allocate more than the file's size.
#[test]
fn damaged_matrix_is_error_or_value() {
    for name in FILES {
        let bytes = fs::read(path(name)).unwrap();
        for end in (0..bytes.len()).step_by(7) {
            // Truncated weights are detected; the padding at the end of GGUF and the trailer of the older
            // format may be absent.
            let tail = if name.ends_with(".dat") { 16 } else { 32 };
            if let Ok(imatrix) = Imatrix::parse(bytes[..end].to_vec()) {
                assert!(end + tail > bytes.len() && imatrix.entries.len() == 16, "{name} {end}");
            }
        }
        for at in 0..bytes.len().min(3000) {
            for bit in [0x01, 0x80] {
                let mut damaged = bytes.clone();
                damaged[at] ^= bit;
                if let Ok(imatrix) = Imatrix::parse(damaged) {
                    let weights: usize = imatrix.entries.values().map(|entry| entry.weights.len()).sum();
                    assert!(weights * 4 <= bytes.len(), "{name} {at}");
                }
            }
        }
    }
}
