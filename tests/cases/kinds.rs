//! Files that are not what a command reads: adapters, importance matrices, control vectors, image models, broken downloads; and
//! errors about one of several files.

use std::fs;

use gguf_container::{Endian, Metadata, Plan, Value};
use gguf_types::{DType, Shape};

use crate::common::{Output, Sandbox, succeed, words};

/// A sandbox with a model, `base.gguf`, and `text`, and next to them a file of each kind.
fn sandbox() -> Sandbox {
    let sandbox = Sandbox::with_base_and_text();
    let write = |file: &str, keys: &[(&str, &str)]| {
        let mut metadata = Metadata::new();
        for (key, value) in keys {
            metadata.set(*key, Value::from(*value));
        }
        let shape = Shape::new(&[256, 2]).unwrap();
        let plan = Plan::new(
            &metadata,
            vec![("blk.0.attn_q.weight".to_owned(), shape, DType::F32)],
            Endian::Little,
            32,
        )
        .unwrap();
        let mut bytes = plan.header_bytes().to_vec();
        bytes.extend([0; 2048]);
        sandbox.write(file, bytes);
    };
    write("imat.gguf", &[("general.type", "imatrix")]);
    write("lora.gguf", &[("general.architecture", "llama"), ("general.type", "adapter")]);
    write("control.gguf", &[("general.architecture", "controlvector")]);
    write("flux.gguf", &[("general.architecture", "flux")]);
    succeed(sandbox.convert(&["vocab", "llama", "vocab.gguf"]));
    let model = sandbox.read("base.gguf");
    sandbox.write("zeros.gguf", [&[0; 4096], &model[4096..]].concat());
    sandbox.write("page.gguf", "<!doctype html>\n<html class=\"\">\n");
    let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 12345678\n";
    sandbox.write("lfs.gguf", pointer);
    sandbox.write("cut.gguf", &model[..2000]);
    sandbox.write("base.gguf.part1of2", &model[..model.len() / 2]);
    sandbox.write("old.gguf", [&b"lmgg"[..], &[0; 64]].concat());
    sandbox
}

/// Asserts that a run fails about `file` with a text.
#[track_caller]
fn failed(ran: &Output, file: &str, text: &str) {
    assert_eq!(ran.code, Some(1), "{file}: {}", ran.stderr);
    assert!(ran.stderr.contains(&format!("error: {file}: ")), "{file}: {}", ran.stderr);
    assert!(ran.stderr.contains(text), "`{text}` is not in {}", ran.stderr);
}

#[test]
fn other_file_kinds_are_named() {
    let sandbox = sandbox();
    for (file, kind) in [
        ("imat.gguf", "an importance matrix"),
        ("lora.gguf", "a LoRA adapter"),
        ("control.gguf", "a control vector"),
        ("flux.gguf", "an image or video model"),
        ("vocab.gguf", "a vocabulary without tensors"),
        ("zeros.gguf", "a file that starts with zeros"),
        ("page.gguf", "an HTML page"),
        ("lfs.gguf", "a Git LFS pointer"),
    ] {
        failed(&sandbox.eval(&["perplexity", file, "--text", "text"]), file, kind);
        failed(&sandbox.eval(&["compare", "base.gguf", file, "--text", "text"]), file, kind);
        failed(&sandbox.eval(&["imatrix", file, "--text", "text", "-o", "out.gguf"]), file, kind);
        if file != "flux.gguf" {
            failed(&sandbox.inspect(&["fit", file]), file, kind);
            failed(&sandbox.quantize(&[file, "out.gguf", "q8_0"]), file, kind);
        }
        if file != "imat.gguf" {
            let ran = sandbox.quantize(&["--imatrix", file, "base.gguf", "out.gguf", "q4_k_m"]);
            failed(&ran, file, &format!("expected an importance matrix, found {kind}"));
        }
    }
    let ran = sandbox.quantize(&words("--imatrix base.gguf base.gguf out.gguf q4_k_m"));
    failed(&ran, "base.gguf", "expected an importance matrix, found a model");
}

/// Shards that were joined with cat, and a model with its tower in one file, as Ollama stores it.
#[test]
fn unusual_model_files_are_named() {
    let sandbox = sandbox();
    fs::create_dir(sandbox.path("s")).unwrap();
    succeed(sandbox.inspect(&["split", "base.gguf", "s/m", "--split-max-tensors", "8"]));
    let mut joined = Vec::new();
    for (name, _) in sandbox.listing("s") {
        joined.extend(sandbox.read(&format!("s/{name}")));
    }
    sandbox.write("joined.gguf", joined);
    let kind = "several GGUF files joined into one";
    for ran in [
        sandbox.inspect(&["show", "joined.gguf"]),
        sandbox.inspect(&["merge", "joined.gguf", "m.gguf"]),
        sandbox.inspect(&["verify", "joined.gguf"]),
        sandbox.quantize(&["joined.gguf", "o.gguf", "q8_0"]),
        sandbox.eval(&["perplexity", "joined.gguf", "--text", "text"]),
    ] {
        failed(&ran, "joined.gguf", kind);
    }
    let base = sandbox.file("base.gguf");
    let mut tensors: Vec<_> =
        base.tensors().iter().map(|tensor| (tensor.name.clone(), tensor.shape, tensor.dtype)).collect();
    tensors.push(("v.patch_embd.weight".to_owned(), Shape::new(&[64, 64]).unwrap(), DType::F32));
    let plan = Plan::new(base.metadata(), tensors, Endian::Little, 32).unwrap();
    let mut bytes = plan.header_bytes().to_vec();
    bytes.resize(usize::try_from(plan.file_len()).unwrap(), 0);
    sandbox.write("ollama.gguf", bytes);
    let ran = sandbox.eval(&["perplexity", "ollama.gguf", "--text", "text"]);
    let kind = "a model with its vision tower or audio encoder in the same file";
    failed(&ran, "ollama.gguf", kind);
    for command in ["verify", "show"] {
        let ran = sandbox.inspect(&[command, "ollama.gguf"]);
        // `show` wraps lines.
        let text = [&*ran.stdout, &*ran.stderr].concat().split_whitespace().collect::<Vec<_>>().join(" ");
        let n_named = text.matches("llama.cpp does not load the file").count();
        assert!(n_named == 1 && text.contains(kind) && !text.contains("extra tensor"), "{command}: {text}");
    }
}

#[test]
fn broken_download_is_explained() {
    let sandbox = sandbox();
    for (file, hint) in [
        ("cut.gguf", "hint: the file may be truncated; download or copy it again"),
        ("base.gguf.part1of2", "hint: the file is one piece of a larger file"),
        (
            "old.gguf",
            "hint: to convert a file in a format older than GGUF, run `gguf-convert legacy old.gguf OUT`",
        ),
        ("zeros.gguf", "hint: the download did not complete"),
        ("lfs.gguf", "hint: run `git lfs pull`"),
    ] {
        failed(&sandbox.inspect(&["show", file]), file, hint);
    }
    fs::copy(sandbox.path("lfs.gguf"), sandbox.path("pointer.txt")).unwrap();
    let ran = sandbox.eval(&["perplexity", "base.gguf", "--text", "pointer.txt"]);
    failed(&ran, "pointer.txt", "a Git LFS pointer, expected a text");
    fs::copy(sandbox.path("page.gguf"), sandbox.path("llama/model.safetensors")).unwrap();
    failed(
        &sandbox.convert(&["llama", "o.gguf", "-t", "bf16"]),
        "llama",
        "`model.safetensors` is an HTML page",
    );
}

#[test]
fn error_names_the_file_that_holds_the_nan() {
    let sandbox = Sandbox::with_base_and_text();
    succeed(sandbox.convert(&words("llama good.gguf -t f32 -q")));
    let bytes = sandbox.read("good.gguf");
    let file = gguf_container::File::parse(bytes.clone()).unwrap();
    let at = file.range(file.tensor("blk.1.attn_v.weight").unwrap()).unwrap().start;
    let mut broken = bytes;
    broken[at..at + 4].copy_from_slice(&f32::NAN.to_le_bytes());
    sandbox.write("nan.gguf", broken);
    for files in
        [&["good.gguf", "nan.gguf"][..], &["nan.gguf", "good.gguf"], &["good.gguf", "base.gguf", "nan.gguf"]]
    {
        let args = [&["compare"], files, &["--text", "text", "--context", "64", "--chunks", "1"]].concat();
        failed(&sandbox.eval(&args), "nan.gguf", "is not finite");
    }
    let ran = sandbox.eval(&words("imatrix nan.gguf --text text -o o.gguf --chunks 1 --context 64"));
    failed(&ran, "nan.gguf", "tensor");
}
