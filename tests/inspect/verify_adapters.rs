//! `gguf-inspect verify` on adapter files: faults that are planted into a good one.

use gguf_container::Value;
use gguf_types::{DType, Shape};

use super::verify_faults::{Parts, check, set, unset, with};
use crate::common::{Sandbox, copy_folder, golden, succeed, verify};

const QUERY: &str = "blk.0.attn_q.weight";

/// An adapter file, its checkpoint and its base as a file.
fn made() -> (Sandbox, Vec<u8>) {
    let sandbox = Sandbox::with_converted("llama-head-dim", "base.gguf", "f32");
    copy_folder(&golden("lora/llama"), &sandbox.path("lora"));
    succeed(sandbox.convert(&["adapter", "lora", "good.gguf", "--base", "llama-head-dim", "-q"]));
    let good = sandbox.read("good.gguf");
    (sandbox, good)
}

fn f32_tensor(dims: &[u64]) -> (Shape, DType, Vec<u8>) {
    let shape = Shape::new(dims).unwrap();
    (shape, DType::F32, [0, 0, 0, 63].repeat(shape.n_elems() as usize))
}

#[test]
fn good_adapters_pass() {
    let (sandbox, _) = made();
    for more in [&[][..], &["--against", "base.gguf"], &["--against", "llama-head-dim"]] {
        let (code, found, report) = verify(&sandbox, &[&["good.gguf", "--strict"], more].concat());
        assert_eq!((code, found.len()), (Some(0), 0), "{more:?}: {report}");
        assert!(report.contains("LoRA for llama"), "{report}");
        assert_eq!(report.contains("pairs fit"), !more.is_empty(), "{report}");
    }
    let shown = succeed(sandbox.inspect(&["show", "good.gguf"])).stdout;
    assert!(shown.contains("\nadapter     rank 4, alpha 16\n"), "{shown}");
    for (lines, code, finding) in [
        ("FROM base.gguf\nADAPTER good.gguf\n", 0, "FROM out/../base.gguf\n"),
        ("FROM base.gguf\nADAPTER ../lora\n", 0, "note: modelfile: ADAPTER out/../lora: a folder"),
        ("FROM good.gguf\n", 1, "expected a model, found a file of kind `adapter`"),
    ] {
        sandbox.write("out/Modelfile", lines.replace("base", "../base").replace("good", "../good"));
        let ran = sandbox.inspect(&["verify", "out/Modelfile"]);
        assert!(ran.code == Some(code), "{lines}: {}", ran.stdout);
        assert!(ran.stdout.contains(finding), "{lines}: {}", ran.stdout);
    }
}

#[test]
fn adapter_file_is_compared_with_its_folder() {
    let (sandbox, good) = made();
    let folders = ["--against", "llama-head-dim", "--lora", "lora"];
    let (code, found, report) = verify(&sandbox, &[&["good.gguf", "--strict"], &folders[..]].concat());
    assert_eq!((code, found.len()), (Some(0), 0), "{report}");
    assert!(report.contains("28 bit-exact"), "{report}");
    let changed = with(&good, |parts| parts.tensor(&format!("{QUERY}.lora_b")).3.fill(0));
    let alpha = set(&good, "adapter.lora.alpha", Value::F32(8.0));
    check(&sandbox, vec![("a half of zeros", changed, "differs"), ("another alpha", alpha, "key")], &folders);
    // Without the base, the hint states the call; a base that the adapter names is found.
    let call = ["verify", "good.gguf", "--against", "lora"];
    let hint = "run `gguf-inspect verify good.gguf --against hf://some-org/llama-head-dim --lora lora`\n";
    sandbox.inspect(&call).ends_and_says(1, hint);
    sandbox.edit("lora/adapter_config.json", "some-org/llama-head-dim", "llama-head-dim");
    succeed(sandbox.inspect(&call));
    sandbox
        .inspect(&["verify", "good.gguf", "--against", "base.gguf", "--lora", "lora"])
        .ends_and_says(2, "--lora");
}

#[test]
fn adapter_faults_are_found() {
    let (sandbox, good) = made();
    let alpha = |value: Value| set(&good, "adapter.lora.alpha", value);
    let renamed = |from: &str, to: &str| {
        with(&good, |parts| {
            for tensor in &mut parts.tensors {
                tensor.0 = tensor.0.replace(from, to);
            }
        })
    };
    let half = format!("{QUERY}.lora_b");
    let rank = |parts: &mut Parts| {
        let tensor = parts.tensor(&half);
        let (shape, dtype, data) = f32_tensor(&[tensor.1.dim(0) + 1, tensor.1.dim(1)]);
        (tensor.1, tensor.2, tensor.3) = (shape, dtype, data);
    };
    check(
        &sandbox,
        vec![
            ("another rank of B", with(&good, rank), "rank"),
            ("no alpha", unset(&good, "adapter.lora.alpha"), "alpha"),
            ("an alpha of 0", alpha(Value::F32(0.0)), "alpha"),
            ("an alpha of NaN", alpha(Value::F32(f32::NAN)), "alpha"),
            ("an alpha that is an integer", alpha(Value::U32(16)), "alpha"),
            (
                "a tensor without partner",
                with(&good, |parts| parts.tensors.retain(|tensor| tensor.0 != half)),
                "missing_tensor",
            ),
            ("a tensor of another name", renamed(&half, "blk.0.attn_q.weight"), "extra_tensor"),
            ("a tensor of another architecture", renamed("attn_q", "attn_query"), "unknown_tensor"),
            ("no pairs", with(&good, |parts| parts.tensors.clear()), "missing_tensor"),
            ("no architecture", unset(&good, "general.architecture"), "missing_key"),
        ],
        &[],
    );
}

#[test]
fn adapters_of_another_base_are_found() {
    let (sandbox, good) = made();
    let wide = |parts: &mut Parts| {
        let tensor = parts.tensor("blk.0.attn_q.weight.lora_a");
        let (shape, dtype, data) = f32_tensor(&[tensor.1.dim(0) + 32, tensor.1.dim(1)]);
        (tensor.1, tensor.2, tensor.3) = (shape, dtype, data);
    };
    let deeper = with(&good, |parts| {
        for tensor in &mut parts.tensors {
            tensor.0 = tensor.0.replace("blk.0.", "blk.7.");
        }
    });
    let other = set(&good, "general.architecture", "qwen2");
    for base in ["base.gguf", "llama-head-dim"] {
        let faults = vec![
            ("another length", with(&good, wide), "tensor_shape"),
            ("a layer that the base does not have", deeper.clone(), "missing_tensor"),
            ("another architecture", other.clone(), "key"),
        ];
        check(&sandbox, faults, &["--against", base]);
    }
}
