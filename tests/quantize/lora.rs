//! `gguf-quantize --lora`: adapter files merged into a GGUF file, and `gguf-inspect verify --lora`.

use gguf_container::Value;
use gguf_types::DType;

use crate::common::{Sandbox, copy_folder, golden, succeed, verify};

/// The base of an adapter as `base.gguf`, and the adapter as `lora.gguf`.
fn sandbox(adapter: &str, base: &str, base_type: &str) -> Sandbox {
    let sandbox = Sandbox::with_converted(base, "base.gguf", base_type);
    copy_folder(&golden("lora").join(adapter), &sandbox.path("lora"));
    succeed(sandbox.convert(&["adapter", "lora", "lora.gguf", "--base", base, "-q"]));
    sandbox
}

/// Name, type and bytes of every tensor.
fn tensors(sandbox: &Sandbox, name: &str) -> Vec<(String, DType, Vec<u8>)> {
    let file = sandbox.file(name);
    let tensor = |info: &gguf_container::TensorInfo| {
        (info.name.clone(), info.dtype, file.data(info).unwrap().to_vec())
    };
    let mut tensors: Vec<_> = file.tensors().iter().map(tensor).collect();
    tensors.sort_by(|a, b| a.0.cmp(&b.0));
    tensors
}

/// The merge of the checkpoint is compared with PEFT in `tests/convert/lora_merge.rs`.
#[test]
fn merge_into_gguf_equals_merge_into_checkpoint() {
    for (adapter, base, scale) in [("llama", "llama-head-dim", "-0.75"), ("mixtral", "mixtral-old", "1")] {
        let sandbox = sandbox(adapter, base, "f32");
        for file_type in ["f32", "bf16", "q8_0"] {
            let lora = format!("lora={scale}");
            let call = [base, "checkpoint.gguf", "-t", file_type, "--lora", &lora, "-q", "--force"];
            succeed(sandbox.convert(&call));
            let lora = format!("lora.gguf={scale}");
            let ran = succeed(sandbox.quantize(&[
                "base.gguf",
                "merged.gguf",
                file_type,
                "--lora",
                &lora,
                "--force",
            ]));
            ran.says("note: adapter `lora.gguf`: LoRA merged ");
            let [expected, found] = ["checkpoint.gguf", "merged.gguf"].map(|name| tensors(&sandbox, name));
            assert!(expected == found, "{adapter} {file_type}");
            assert!(expected != tensors(&sandbox, "base.gguf"));
        }
    }
}

#[test]
fn merged_file_states_base_and_adapters() {
    let sandbox = sandbox("llama", "llama-head-dim", "bf16");
    let base_name = sandbox.file("base.gguf").metadata().get("general.name").unwrap().to_string();
    succeed(sandbox.quantize(&["base.gguf", "merged.gguf", "copy", "--lora", "lora.gguf=0.5", "-q"]));
    succeed(sandbox.convert(&[
        "llama-head-dim",
        "checkpoint.gguf",
        "-t",
        "bf16",
        "--lora",
        "lora=0.5",
        "-q",
    ]));
    for file in ["merged.gguf", "checkpoint.gguf"] {
        let file = sandbox.file(file);
        let text = |key: &str| file.metadata().get(key).map(Value::to_string).unwrap_or_default();
        assert_eq!(text("general.base_model.0.name"), base_name);
        assert_eq!(text("general.name"), format!("{base_name} + lora"));
        let adapters = file.metadata().get("gguf_tools.merged_adapters");
        assert_eq!(adapters, Some(&Value::from(vec!["lora=0.5"])));
    }
    // Types stay as they are.
    let types =
        |name| tensors(&sandbox, name).into_iter().map(|(name, dtype, _)| (name, dtype)).collect::<Vec<_>>();
    assert_eq!(types("merged.gguf"), types("base.gguf"));
    let name = ["--override-kv", "general.name=str:Mine"];
    let call = ["base.gguf", "named.gguf", "bf16", "--lora", "lora.gguf", "-q"];
    succeed(sandbox.quantize(&[&name[..], &call].concat()));
    let named = sandbox.file("named.gguf");
    assert_eq!(named.metadata().get("general.name").and_then(Value::as_str), Some("Mine"));
}

#[test]
fn quantized_base_needs_permission() {
    let sandbox = sandbox("llama", "llama-head-dim", "q8_0");
    for file_type in ["copy", "q8_0", "f16"] {
        let call = ["base.gguf", "out/x.gguf", file_type, "--lora", "lora.gguf"];
        let ran = sandbox.quantize(&call);
        assert_eq!(ran.code, Some(1), "{}", ran.stderr);
        ran.says("--allow-requantize");
        assert!(sandbox.outputs().is_empty());
    }
    succeed(sandbox.quantize(&["base.gguf", "x.gguf", "copy", "--lora", "lora.gguf", "--allow-requantize"]));
    type Listed = (String, DType, Vec<u8>);
    let differs = |(before, after): (&Listed, &Listed)| before != after;
    let (before, after) = (tensors(&sandbox, "base.gguf"), tensors(&sandbox, "x.gguf"));
    assert_eq!(before.iter().zip(&after).filter(|pair| differs(*pair)).count(), 14);
}

#[test]
fn merged_file_is_verified_against_base_and_adapter() {
    let sandbox = sandbox("llama", "llama-head-dim", "f32");
    succeed(sandbox.quantize(&["base.gguf", "merged.gguf", "q8_0", "--lora", "lora.gguf=0.5", "-q"]));
    let good = |args: &[&str]| {
        let (code, findings, text) = verify(&sandbox, args);
        assert_eq!(code, Some(0), "{text}");
        assert!(!findings.iter().any(|finding| finding.contains("differs")), "{findings:?}");
        findings
    };
    let of_base = |adapter| good(&["merged.gguf", "--against", "base.gguf", "--lora", adapter]);
    // Another name of the adapter is not a warning.
    std::fs::copy(sandbox.path("lora.gguf"), sandbox.path("f32.gguf")).unwrap();
    assert_eq!(of_base("lora.gguf=0.5"), of_base("f32.gguf=0.5"));
    good(&["merged.gguf", "--against", "llama-head-dim", "--lora", "lora=0.5"]);
    // Another scale, and no adapter, which is one finding.
    for (base, adapter, hint) in [
        ("base.gguf", &["--lora", "lora.gguf"][..], "\"use --lora lora.gguf=0.5\""),
        ("base.gguf", &[], "add --lora lora.gguf=0.5\""),
        ("llama-head-dim", &[], "add --lora lora=0.5\""),
    ] {
        let args = [&["merged.gguf", "--against", base][..], adapter].concat();
        let (code, findings, text) = verify(&sandbox, &args);
        assert_eq!(code, Some(1), "{text}");
        assert!(findings.contains("differs"), "{findings:?}");
        let is_one = text.matches("\"severity\": \"error\"").count() == 1
            && text.contains("tensors differ: the file contains 1 merged adapter (`lora=0.5`)");
        assert!(is_one && text.contains(hint), "{text}");
    }
    assert_eq!(sandbox.inspect(&["verify", "merged.gguf", "--lora", "lora.gguf"]).code, Some(2));
    sandbox.add_text();
    let call = ["perplexity", "merged.gguf", "--text", "text", "-c", "64", "--lora", "lora.gguf"];
    succeed(sandbox.eval(&call)).says("already contains adapter `lora`; --lora applies it again");
}

#[test]
fn unsuitable_adapters_are_refused() {
    let sandbox = sandbox("llama", "llama-head-dim", "f32");
    succeed(sandbox.convert(&[
        &gguf_testkit::checkpoint("llama").display().to_string(),
        "other.gguf",
        "-t",
        "f32",
        "-q",
    ]));
    copy_folder(&gguf_testkit::checkpoint("bert"), &sandbox.path("bert"));
    copy_folder(&golden("lora/bert"), &sandbox.path("of-bert"));
    succeed(sandbox.convert(&["adapter", "of-bert", "bert.gguf", "--base", "bert", "-q"]));
    sandbox.add_text();
    for (base, adapter, message) in [
        (
            "base.gguf",
            "base.gguf",
            "error: base.gguf: not a supported LoRA adapter: `general.type`: expected adapter, found `model`\n",
        ),
        (
            "base.gguf",
            "bert.gguf",
            "error: bert.gguf: expected an adapter for architecture `llama`, found `bert`\nhint: use the base model that the adapter was trained on\n",
        ),
        ("other.gguf", "lora.gguf", "error: lora.gguf: tensor `blk."),
        (
            "base.gguf",
            "lora",
            "error: lora: expected an adapter file, found an adapter folder\nhint: to write an adapter file, run `gguf-convert adapter lora lora.gguf --base hf://some-org/llama-head-dim`, then use --lora lora.gguf\n",
        ),
        ("base.gguf", "none", "error: none: cannot open: No such file or directory (os error 2)\n"),
    ] {
        let merged = sandbox.quantize(&[base, "out/x.gguf", "f32", "--lora", adapter, "-q"]);
        let run = sandbox.eval(&["perplexity", base, "--text", "text", "-c", "64", "--lora", adapter, "-q"]);
        for ran in [merged, run] {
            assert!(ran.code == Some(1) && ran.stderr.starts_with(message), "{adapter}: {}", ran.stderr);
        }
        assert!(sandbox.outputs().is_empty());
    }
    assert_eq!(sandbox.quantize(&["base.gguf", "out/x.gguf", "f32", "--lora", "lora.gguf=x"]).code, Some(2));
}
