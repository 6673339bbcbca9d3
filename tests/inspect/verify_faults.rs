//! `gguf-inspect verify` finds faults: each is planted into a good file, and found under its name.

use std::fs;

use crate::common::{Sandbox, succeed, verify, words};
use gguf_container::{Array, Endian, File, Metadata, Plan, Value};
use gguf_types::{DType, Shape};

/// A file in parts that can be changed.
#[derive(Clone)]
pub struct Parts {
    pub metadata: Metadata,
    pub tensors: Vec<(String, Shape, DType, Vec<u8>)>,
}

impl Parts {
    fn of(bytes: &[u8]) -> Parts {
        let file = File::parse(bytes.to_vec()).unwrap();
        let tensor = |info: &gguf_container::TensorInfo| {
            (info.name.clone(), info.shape, info.dtype, file.data(info).unwrap().to_vec())
        };
        Parts { metadata: file.metadata().clone(), tensors: file.tensors().iter().map(tensor).collect() }
    }

    fn bytes(&self) -> Vec<u8> {
        let tensors =
            self.tensors.iter().map(|(name, shape, dtype, _)| (name.clone(), *shape, *dtype)).collect();
        let plan = Plan::new(&self.metadata, tensors, Endian::Little, 32).unwrap();
        plan.to_bytes(&self.tensors.iter().map(|(.., data)| data).collect::<Vec<_>>()).unwrap()
    }

    pub fn tensor(&mut self, name: &str) -> &mut (String, Shape, DType, Vec<u8>) {
        self.tensors.iter_mut().find(|tensor| tensor.0 == name).unwrap()
    }

    pub fn list(&mut self, key: &str) -> &mut Array {
        let (_, value) = self.metadata.iter_mut().find(|(name, _)| *name == key).unwrap();
        match value {
            Value::Array(array) => array,
            other => panic!("{other:?}"),
        }
    }
}

/// A fault in the parts of a file.
pub fn with(good: &[u8], plant: impl FnOnce(&mut Parts)) -> Vec<u8> {
    let mut parts = Parts::of(good);
    plant(&mut parts);
    parts.bytes()
}

/// A file with another value of a key.
pub fn set(good: &[u8], key: &str, value: impl Into<Value>) -> Vec<u8> {
    with(good, |parts| parts.metadata.set(key, value))
}

pub fn unset(good: &[u8], key: &str) -> Vec<u8> {
    with(good, |parts| drop(parts.metadata.remove(key)))
}

/// A file with other strings in the list of a key.
pub fn strings(good: &[u8], key: &str, change: impl FnOnce(&mut Vec<Vec<u8>>)) -> Vec<u8> {
    with(good, |parts| match parts.list(key) {
        Array::String(items) => {
            let mut texts = items.to_vecs();
            change(&mut texts);
            *items = texts.into();
        }
        other => panic!("{other:?}"),
    })
}

/// End of a tensor's name in the header: its dimensions follow.
fn behind_name(bytes: &[u8], name: &str) -> usize {
    let entry = [&(name.len() as u64).to_le_bytes()[..], name.as_bytes()].concat();
    bytes.windows(entry.len()).position(|window| window == entry).unwrap() + entry.len()
}

/// Position of a matrix's type in the header, 4 bytes before its offset.
fn type_of_matrix(bytes: &[u8], name: &str) -> usize {
    behind_name(bytes, name) + 4 + 2 * 8
}

fn patched(good: &[u8], at: usize, new: &[u8]) -> Vec<u8> {
    let mut bytes = good.to_vec();
    bytes[at..at + new.len()].copy_from_slice(new);
    bytes
}

/// An offset of the header moved by some bytes.
fn moved(good: &[u8], name: &str, by: u64) -> Vec<u8> {
    let at = type_of_matrix(good, name) + 4;
    let offset = u64::from_le_bytes(good[at..at + 8].try_into().unwrap());
    patched(good, at, &(offset + by).to_le_bytes())
}

/// A good file of a checkpoint with a chat template.
pub fn made(sandbox: &Sandbox, name: &str, kind: &str) -> Vec<u8> {
    succeed(sandbox.convert(&[name, "good.gguf", "-t", kind, "-q", "--force"]));
    let (code, found, report) = verify(sandbox, &["good.gguf", "--against", name, "--strict"]);
    assert_eq!((code, found.len()), (Some(0), 0), "{report}");
    sandbox.read("good.gguf")
}

/// The defect, the faulty file, and the code of the finding.
pub type Fault = (&'static str, Vec<u8>, &'static str);

pub fn check(sandbox: &Sandbox, faults: Vec<Fault>, more: &[&str]) {
    let mut missed = Vec::new();
    for (fault, bytes, code) in faults {
        sandbox.write("x.gguf", bytes);
        let (exit, found, report) = verify(sandbox, &[&["x.gguf", "--strict"], more].concat());
        if exit != Some(1) || !found.contains(code) {
            missed.push(format!("{fault}: {exit:?} {found:?}\n{report}"));
        }
    }
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}

#[test]
fn container_faults_are_found() {
    let sandbox = Sandbox::with_golden("llama");
    let good = made(&sandbox, "llama", "q4_k_m");
    let data = File::parse(good.clone()).unwrap().data_offset() as usize;
    let last = Parts::of(&good).tensors.iter().rfind(|tensor| tensor.1.n_dims() == 2).unwrap().0.clone();
    let twice = with(&good, |parts| {
        parts.metadata.set("general.twin_a", 1u32);
        parts.metadata.set("general.twin_b", 2u32);
    });
    let twin = twice.windows(14).position(|window| window == b"general.twin_b").unwrap();
    let query = behind_name(&good, "blk.1.attn_q.weight") - "1.attn_q.weight".len();
    let padded = set(&good, "general.size", "x");
    let end = File::parse(padded.clone()).unwrap();
    let (header_end, padded_to) = (end.header_end() as usize, end.data_offset() as usize);
    let at = if header_end < padded_to { header_end } else { panic!("the header has no padding") };
    check(
        &sandbox,
        vec![
            ("another magic", patched(&good, 0, b"GGML"), "unreadable"),
            ("a version of the future", patched(&good, 4, &7u32.to_le_bytes()), "unreadable"),
            ("the version that is gone", with_version_1(), "old_version"),
            ("too many tensors", patched(&good, 8, &u64::MAX.to_le_bytes()), "unreadable"),
            ("one key more than there is", patched(&good, 16, &[good[16] + 1]), "unreadable"),
            ("a key twice", patched(&twice, twin + 13, b"a"), "unreadable"),
            ("a tensor twice", patched(&good, query, b"0"), "unreadable"),
            ("an offset into the tensor behind", moved(&good, "blk.0.attn_k.weight", 32), "unreadable"),
            ("an offset between alignments", moved(&good, "blk.0.attn_k.weight", 1), "unreadable"),
            ("a hole before a tensor", [moved(&good, &last, 1 << 20), vec![0; 1 << 20]].concat(), "gap"),
            ("cut data", good[..good.len() - 5000].to_vec(), "unreadable"),
            ("a cut header", good[..data / 2].to_vec(), "unreadable"),
            ("padding that holds something", patched(&padded, at, b"!"), "padding"),
            ("bytes behind the end", [&good[..], b"more"].concat(), "trailing_bytes"),
            (
                "a type of a fork",
                patched(&good, type_of_matrix(&good, &last), &139u32.to_le_bytes()),
                "unreadable",
            ),
            (
                "a type that is gone",
                patched(&good, type_of_matrix(&good, &last), &4u32.to_le_bytes()),
                "unreadable",
            ),
            (
                "a name that llama.cpp refuses",
                with(&good, |parts| parts.tensor("output_norm.weight").0 = "x".repeat(64)),
                "long_name",
            ),
            ("a name that is no text", set(&good, "general.name", Value::String(vec![0xff])), "not_utf8"),
        ],
        &[],
    );
    // The fork is named.
    sandbox.write("x.gguf", patched(&good, type_of_matrix(&good, &last), &139u32.to_le_bytes()));
    let ran = sandbox.inspect(&["verify", "x.gguf"]);
    assert!(ran.stdout.contains("type 139 is iq4_k of ik_llama.cpp"), "{}", ran.stdout);
}

fn with_version_1() -> Vec<u8> {
    fs::read(crate::common::golden("byte-orders/model-v1.gguf")).unwrap()
}

#[test]
fn shard_faults_are_found() {
    let sandbox = Sandbox::with_golden("llama");
    made(&sandbox, "llama", "bf16");
    let split = ["split", "good.gguf", "s", "--split-max-tensors", "8", "-q"];
    succeed(sandbox.inspect(&split));
    let shard = |no: u32| format!("s-0000{no}-of-00003.gguf");
    assert_eq!(verify(&sandbox, &[&shard(2), "--against", "llama", "--strict"]).0, Some(0));
    let second = sandbox.read(&shard(2));
    let plants: [(&str, Option<Vec<u8>>); 3] = [
        ("a missing shard", None),
        ("a cut shard", Some(second[..second.len() - 1000].to_vec())),
        ("a shard of another model", Some(set(&second, "split.count", Value::U16(4)))),
    ];
    for (fault, bytes) in plants {
        match bytes {
            Some(bytes) => sandbox.write(&shard(2), bytes),
            None => fs::remove_file(sandbox.path(&shard(2))).unwrap(),
        }
        let (code, found, report) = verify(&sandbox, &[&shard(1)]);
        assert!(code == Some(1) && found.contains("unreadable"), "{fault}: {report}");
    }
}

#[test]
fn block_faults_are_found() {
    for (name, kind, tensor, at, bad) in [
        // A scale of NaN, one of infinity, an invalid code, an invalid exponent, an infinite value.
        ("llama", "q4_k_m", "blk.0.attn_q.weight", 144 * 3, &[0x00, 0x7e][..]),
        ("llama", "q8_0", "blk.1.ffn_up.weight", 34 * 77, &[0x00, 0xfc]),
        ("llama", "tq2_0", "blk.0.ffn_gate.weight", 66 + 9, &[0xc0]),
        ("mixtral", "mxfp4_moe", "blk.0.ffn_up_exps.weight", 17 * 5, &[0xff]),
        ("llama", "f32", "output_norm.weight", 4 * 200, &[0, 0, 0x80, 0x7f]),
    ] {
        let sandbox = Sandbox::with_golden(name);
        succeed(sandbox.convert(&[name, "good.gguf", "-t", kind, "-q"]));
        let good = sandbox.read("good.gguf");
        let planted = with(&good, |parts| parts.tensor(tensor).3[at..at + bad.len()].copy_from_slice(bad));
        check(&sandbox, vec![("a block", planted, "bad_block")], &[]);
        let report = verify(&sandbox, &["x.gguf"]).2;
        assert!(report.contains(&format!("tensor `{tensor}`")), "{report}");
    }
}

/// Data that a download left out, and scales that no model has. Rows of zeros are common.
#[test]
fn implausible_weights_are_found() {
    let sandbox = Sandbox::with_golden("llama");
    let good = made(&sandbox, "llama", "q8_0");
    let row = 34 * 8;
    let filled =
        |from: usize, to: usize| with(&good, |parts| parts.tensor("token_embd.weight").3[from..to].fill(0));
    let large = with(&good, |parts| {
        parts.tensor("blk.1.ffn_up.weight").3[34 * 77..34 * 77 + 2].copy_from_slice(&[0x00, 0x70]);
    });
    check(
        &sandbox,
        vec![
            ("a hole from the middle of a row", filled(3 * row + 100, 40 * row), "hole"),
            ("a hole to the middle of a row", filled(3 * row, 40 * row - 100), "hole"),
            ("a scale of 8192", large, "large_value"),
        ],
        &["--only", "blocks"],
    );
    // A hole that continues in the next tensor, with complete rows there.
    let across = with(&good, |parts| {
        let is_matrix = |at: usize| parts.tensors[at].2 == DType::Q8_0;
        let first = (0..parts.tensors.len() - 1).find(|at| is_matrix(*at) && is_matrix(at + 1)).unwrap();
        parts.tensors[first].3[3 * row + 100..].fill(0);
        parts.tensors[first + 1].3[..40 * row].fill(0);
    });
    sandbox.write("x.gguf", across);
    let (_, _, report) = verify(&sandbox, &["x.gguf", "--only", "blocks"]);
    assert_eq!(report.matches(" of the file are zero, from ").count(), 2, "{report}");
    for (from, to) in [(300 * row, 384 * row), (3 * row + 100, 4 * row)] {
        sandbox.write("x.gguf", filled(from, to));
        let (code, found, report) = verify(&sandbox, &["x.gguf", "--only", "blocks", "--strict"]);
        assert_eq!((code, found.len()), (Some(0), 0), "{report}");
    }
}

#[test]
fn model_faults_are_found() {
    let sandbox = Sandbox::with_golden("llama");
    let good = made(&sandbox, "llama", "q4_k_m");
    check(
        &sandbox,
        vec![
            ("a missing key", unset(&good, "llama.block_count"), "missing_key"),
            ("no architecture", unset(&good, "general.architecture"), "missing_key"),
            ("a key of another type", set(&good, "llama.block_count", "2"), "key"),
            ("a wrong length", set(&good, "llama.feed_forward_length", 64u32), "tensor_shape"),
            (
                "a missing tensor",
                with(&good, |parts| parts.tensors.retain(|tensor| tensor.0 != "blk.1.ffn_norm.weight")),
                "missing_tensor",
            ),
            (
                "an extra tensor",
                with(&good, |parts| {
                    let mut extra = parts.tensor("output_norm.weight").clone();
                    extra.0 = "blk.0.ffn_bonus.weight".to_owned();
                    parts.tensors.push(extra);
                }),
                "extra_tensor",
            ),
            (
                "dimensions in the wrong order",
                with(&good, |parts| {
                    let tensor = parts.tensor("token_embd.weight");
                    tensor.1 = Shape::new(&[tensor.1.dim(0) / 2, tensor.1.dim(1) * 2]).unwrap();
                    tensor.2 = DType::F32;
                    tensor.3 = vec![0; 4 * tensor.1.n_elems() as usize];
                }),
                "tensor_shape",
            ),
            ("a context without tokens", set(&good, "llama.context_length", 0u32), "context_length"),
            ("an absurd context", set(&good, "llama.context_length", u32::MAX), "context_length"),
            ("a wrong file type", set(&good, "general.file_type", 7u32), "file_type"),
            ("an unknown file type", set(&good, "general.file_type", 99u32), "file_type"),
        ],
        &[],
    );
    // Shapes that depend on a missing key are not findings.
    sandbox.write("x.gguf", unset(&good, "llama.embedding_length"));
    let (_, found, report) = verify(&sandbox, &["x.gguf"]);
    assert!(found.contains("missing_key") && !found.contains("tensor_shape"), "{report}");
}

#[test]
fn tokenizer_faults_are_found() {
    let sandbox = Sandbox::with_golden("llama");
    let good = made(&sandbox, "llama", "f16");
    let kinds = |change: fn(&mut Vec<i32>)| {
        with(&good, |parts| match parts.list("tokenizer.ggml.token_type") {
            Array::I32(kinds) => change(kinds),
            other => panic!("{other:?}"),
        })
    };
    let scores = |change: fn(&mut Vec<f32>)| {
        with(&good, |parts| match parts.list("tokenizer.ggml.scores") {
            Array::F32(scores) => change(scores),
            other => panic!("{other:?}"),
        })
    };
    let tokens = |change: fn(&mut Vec<Vec<u8>>)| strings(&good, "tokenizer.ggml.tokens", change);
    let id = |role: &str, id: u32| set(&good, &format!("tokenizer.ggml.{role}_token_id"), id);
    let template = |text: &str| set(&good, "tokenizer.chat_template", text);
    let fewer = with(&good, |parts| {
        for key in ["tokenizer.ggml.tokens", "tokenizer.ggml.scores", "tokenizer.ggml.token_type"] {
            match parts.list(key) {
                Array::String(items) => *items = items.iter().take(383).collect(),
                Array::F32(items) => items.truncate(383),
                Array::I32(items) => items.truncate(383),
                other => panic!("{other:?}"),
            }
        }
    });
    check(
        &sandbox,
        vec![
            ("too few scores", scores(|scores| scores.truncate(383)), "tokenizer"),
            ("too many scores", scores(|scores| scores.push(0.0)), "tokenizer_length"),
            ("a score of NaN", scores(|scores| scores[300] = f32::NAN), "tokenizer"),
            ("a kind of token that is none", kinds(|kinds| kinds[100] = 9), "token_type"),
            ("a special token beyond the vocabulary", id("padding", 384), "special_id"),
            ("an end of text that is the unknown token", id("eos", 0), "special_kind"),
            ("a start of text that is a byte", id("bos", 10), "special_kind"),
            ("an end of a turn that is ordinary text", id("eot", 300), "special_ordinary"),
            ("padding that is ordinary text", id("padding", 300), "special_ordinary"),
            (
                "a text that C cuts to that of another token",
                tokens(|texts| texts[301] = b"<s>\0".to_vec()),
                "tokenizer",
            ),
            ("a byte without a token", tokens(|texts| texts[3 + 0xe2] = b"own".to_vec()), "missing_byte"),
            ("fewer tokens than rows", fewer, "tokenizer_length"),
            ("a token twice", tokens(|texts| texts[383] = texts[300].clone()), "tokenizer"),
            ("an unknown kind of tokenizer", set(&good, "tokenizer.ggml.model", "own"), "tokenizer"),
            ("a template that does not parse", template("{% for m in messages %}"), "template"),
            ("a template that fails", template("{{ messages[0].content.no_such_method() }}"), "template"),
            ("a template that says no to everything", template("{{ raise_exception('no') }}"), "template"),
            (
                "a template that never ends",
                template("{% for i in range(9999) %}{% for i in range(9999) %}{% endfor %}{% endfor %}"),
                "template",
            ),
            ("an empty template", template("  "), "template"),
        ],
        &[],
    );
}

#[test]
fn byte_level_tokenizer_faults_are_found() {
    let sandbox = Sandbox::with_golden("qwen2");
    let good = made(&sandbox, "qwen2", "f16");
    check(
        &sandbox,
        vec![
            ("an unknown pre-tokenizer", set(&good, "tokenizer.ggml.pre", "my-own"), "tokenizer"),
            (
                "no end of text, so that llama.cpp takes ordinary text",
                unset(&good, "tokenizer.ggml.eos_token_id"),
                "special_ordinary",
            ),
            ("no pre-tokenizer", unset(&good, "tokenizer.ggml.pre"), "pre"),
            (
                "a merge of tokens that are not there",
                strings(&good, "tokenizer.ggml.merges", |merges| merges.push(b"zq qz".to_vec())),
                "tokenizer",
            ),
            ("no merges", unset(&good, "tokenizer.ggml.merges"), "tokenizer"),
        ],
        &[],
    );
}

#[test]
fn reports_and_exit_codes() {
    let sandbox = Sandbox::with_golden("llama");
    let good = made(&sandbox, "llama", "q4_k_m");
    let ran = sandbox.inspect(&["verify", "good.gguf", "-q"]);
    assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr.as_str()), (Some(0), "", ""));
    let ran = succeed(sandbox.inspect(&["verify", "good.gguf"]));
    assert!(ran.stdout.starts_with("structure     ok  21 tensors"), "{}", ran.stdout);
    let bad = set(&good, "general.file_type", 7u32);
    sandbox.write("x.gguf", [&bad[..], b"x"].concat());
    let ran = sandbox.inspect(&["verify", "x.gguf", "-q"]);
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(1), "error: x.gguf: 1 error, 1 warning\n"));
    assert_eq!(
        ran.stdout,
        "error: file type: `general.file_type` is Q8_0, which uses q8_0, but most weights are q4_K\n"
    );
    // Warnings alone are not a failure, unless requested.
    sandbox.write("x.gguf", [&good[..], b"x"].concat());
    succeed(sandbox.inspect(&["verify", "x.gguf", "-q"]));
    assert_eq!(sandbox.inspect(&["verify", "x.gguf", "-q", "--strict"]).code, Some(1));
    succeed(sandbox.inspect(&words("verify x.gguf -q --strict --only blocks,tokenizer")));
    for args in
        [&["verify"][..], &["verify", "x.gguf", "--only", "all"], &["verify", "x.gguf", "--only", "source"]]
    {
        assert_eq!(sandbox.inspect(args).code, Some(2), "{args:?}");
    }
}
