//! `gguf-convert --vocab-only`, `--arch-as`, `architectures`, `--mtp`, `--no-mtp`, `--target-model-dir`.

use std::fs;

use crate::common::{Output, Sandbox, golden, sha256, succeed, words};

#[test]
fn vocabulary_file_matches_reference() {
    let listing = fs::read_to_string(golden("cli/vocab-only.txt")).unwrap();
    let mut n = 0;
    for line in listing.lines().filter(|line| !line.starts_with('#')) {
        let [model, name, bytes, digest] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
        let sandbox = Sandbox::with_golden(model);
        let expected = sandbox.json(&format!("{model}/expected.json"));
        let mut args = vec![model, "out", "--vocab-only", "-q"];
        let pre = expected["pre"].as_str().unwrap();
        if pre != "default" {
            args.extend(["--pre", pre]);
        }
        let ran = sandbox.convert(&args);
        assert_eq!(ran, Output { code: Some(0), stdout: String::new(), stderr: String::new() }, "{model}");
        assert_eq!(sandbox.outputs(), [name], "{model}");
        let have = fs::read(sandbox.path("out").join(name)).unwrap();
        assert_eq!((have.len().to_string().as_str(), sha256(&have).as_str()), (bytes, digest), "{model}");
        succeed(sandbox.inspect(&["show", &format!("out/{name}"), "--json"]));
        n += 1;
    }
    assert!(n >= 6, "{n} checkpoints");
}

/// Names of the tensors of a file.
fn tensors(sandbox: &Sandbox, file: &str) -> Vec<String> {
    let file = sandbox.file(file);
    file.tensors().iter().map(|tensor| tensor.name.clone()).collect()
}

#[test]
fn mtp_layers_can_be_excluded_or_extracted() {
    let sandbox = Sandbox::with_golden("glm4moe-old");
    let convert = |more: &[&str]| {
        let args = ["glm4moe-old", "out", "-t", "f32", "-q", "--force", "--pre", "llama-bpe"];
        sandbox.convert(&[&args, more].concat())
    };
    for more in [&[][..], &["--mtp"]] {
        assert_eq!(convert(more).code, Some(0), "{more:?}: {}", convert(more).stderr);
    }
    // The MTP layers are a separate file next to the entire model's, under its conventional name.
    let outputs = sandbox.outputs();
    let [whole, alone] = outputs.iter().collect::<Vec<_>>()[..] else { panic!("{outputs:?}") };
    assert!(!whole.starts_with("mtp-") && alone.starts_with("mtp-"), "{outputs:?}");
    let whole = tensors(&sandbox, &format!("out/{whole}"));
    let alone = tensors(&sandbox, &format!("out/{alone}"));
    succeed(convert(&["--no-mtp"]));
    let outputs = sandbox.outputs();
    let without = outputs.iter().find(|name| !name.starts_with("mtp-")).unwrap();
    let without = tensors(&sandbox, &format!("out/{without}"));
    let is_predicted = |name: &&String| name.starts_with("blk.2.");
    assert!(whole.iter().any(|name| name == "blk.2.nextn.eh_proj.weight"));
    assert_eq!(
        whole.iter().filter(|name| !is_predicted(name)).collect::<Vec<_>>(),
        without.iter().collect::<Vec<_>>()
    );
    assert!(alone.iter().all(|name| is_predicted(&name) || !name.starts_with("blk.")), "{alone:?}");
    assert!(
        ["token_embd.weight", "output_norm.weight"].iter().all(|name| alone.contains(&(*name).to_owned()))
    );
    // Announced and absent: nothing to take alone.
    let sandbox = Sandbox::with_golden("glm4moe");
    let ran = sandbox.convert(&words("glm4moe out/x.gguf -t f32 -q --mtp --pre llama-bpe"));
    ran.ends_and_says(1, "the checkpoint has no layers for multi-token prediction");
    let sandbox = Sandbox::with_golden("llama");
    for option in ["--mtp", "--no-mtp"] {
        let ran = sandbox.convert(&["llama", "out/x.gguf", "-t", "f32", "-q", option]);
        assert_eq!(ran.code, Some(1), "{option}");
        ran.says("architecture `llama` has no layers for multi-token prediction");
        assert!(sandbox.outputs().is_empty());
    }
    let both = sandbox.convert(&words("llama out/x.gguf -t f32 --mtp --no-mtp"));
    assert_eq!(both.code, Some(2));
}

#[test]
fn draft_requires_its_target_model() {
    let sandbox = Sandbox::with_golden("eagle3");
    crate::common::copy_folder(&gguf_testkit::checkpoint("llama-llama3"), &sandbox.path("target"));
    let args = ["eagle3", "out/x.gguf", "-t", "f32", "-q", "--pre", "llama-bpe"];
    let ran = sandbox.convert(&args);
    ran.ends_and_says(1, "a draft model needs the tokenizer and sizes");
    ran.says("with `--target-model-dir DIR`");
    assert!(sandbox.outputs().is_empty());
    // Weights of the target are not looked at.
    fs::remove_file(sandbox.path("target/model.safetensors")).unwrap();
    let with = |more: &[&str]| sandbox.convert(&[&args, more].concat());
    let ran = with(&["--target-model-dir", "target"]);
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    assert!(tensors(&sandbox, "out/x.gguf").contains(&"d2t".to_owned()));
    // One token of the target for two of the draft's, or one beyond its vocabulary, is a broken table.
    sandbox.edit("target/config.json", "\"vocab_size\": 384", "\"vocab_size\": 100");
    let ran = with(&["--target-model-dir", "target", "--force"]);
    ran.ends_and_says(1, "tensor `d2t`: token ");
    let ran = with(&["--target-model-dir", "nowhere", "--force"]);
    assert_ne!(ran.code, Some(0));
}

#[test]
fn vocabulary_needs_no_weights() {
    let sandbox = Sandbox::with_golden("llama");
    let ran = sandbox.convert(&words("vocab llama out/with.gguf -t f16 -q"));
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    fs::remove_file(sandbox.path("llama/model.safetensors")).unwrap();
    // Without weights the reference notes f16.
    let ran = sandbox.convert(&words("vocab llama out/without.gguf --json -q"));
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    let report = ran.json();
    assert_eq!((&report["tokens"], &report["tokenizer"]), (&384.into(), &"llama".into()));
    let file = |name: &str| fs::read(sandbox.path("out").join(name)).unwrap();
    assert!(file("with.gguf") == file("without.gguf"));
    assert_eq!(report["bytes"], file("with.gguf").len());
    let ran = succeed(sandbox.convert(&words("vocab llama out/dry.gguf --dry-run -q")));
    assert!(ran.stdout.starts_with("out/dry.gguf: llama, 384 tokens of kind llama, "), "{}", ran.stdout);
    assert_eq!(sandbox.outputs(), ["with.gguf", "without.gguf"]);
    for wrong in [&["-t", "q4_k_m"][..], &["-t", "f16,f32"], &["--to", "hf"], &["--pure"]] {
        let ran = sandbox.convert(&[&["vocab", "llama", "out/x.gguf"], wrong].concat());
        assert_eq!(ran.code, Some(2), "{wrong:?}");
    }
}

#[test]
fn unknown_class_is_identified_by_tensors() {
    let sandbox = Sandbox::with_converted("llama", "out/plain.gguf", "f32");
    sandbox.edit("llama/config.json", "LlamaForCausalLM", "ZebraForCausalLM");
    let ran = sandbox.convert(&words("llama out/x.gguf -t f32 -q"));
    assert_eq!(ran.code, Some(1));
    let first = ran.stderr.lines().next().unwrap();
    assert!(
        first.starts_with("error: llama: unknown architecture `ZebraForCausalLM`; nearest known: "),
        "{first}"
    );
    let (_, places) = first.split_once("; matching tensor names: 21 of 21 in `").unwrap();
    assert!(places.contains("21 of 21 in `"), "{places}");
    let hint = ran.stderr.lines().nth(1).unwrap();
    assert!(hint.starts_with("hint: try `--arch-as "), "{hint}");
    assert_eq!(sandbox.outputs(), ["plain.gguf"]);
    // Tables that fit equally well come in the order of their names' likeness.
    sandbox.edit("llama/config.json", "ZebraForCausalLM", "LamaForCausalLM");
    let ran = sandbox.convert(&words("llama out/x.gguf -t f32 -q"));
    ran.says("matching tensor names: 21 of 21 in `llama`, 21 of 21 in `");
    ran.says("hint: try `--arch-as llama`; ");

    // By the name of an architecture and by the name of a class.
    for name in ["llama", "LlamaForCausalLM"] {
        let ran = sandbox.convert(&["llama", "out/as.gguf", "-t", "f32", "-q", "--force", "--arch-as", name]);
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
        let file = |name: &str| fs::read(sandbox.path("out").join(name)).unwrap();
        assert!(file("plain.gguf") == file("as.gguf"), "{name}");
    }
    let ran = sandbox.convert(&words("llama out/x.gguf -t f32 -q --arch-as llamma"));
    assert_eq!(ran.code, Some(1));
    let expected = "error: llama: unknown architecture or class `llamma`; nearest known: llama, ";
    ran.begins(expected);
    // A table that does not fit says which tensors have no place.
    let ran = sandbox.convert(&words("llama out/x.gguf -t f32 -q --arch-as starcoder2"));
    ran.ends_and_says(1, "not used by this architecture: `");
}

#[test]
fn architecture_list_matches_table() {
    let sandbox = Sandbox::new();
    let ran = sandbox.convert(&["architectures"]);
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    assert_eq!(ran.stdout.lines().count(), gguf_models::ARCHES.len() + 1);
    for arch in gguf_models::ARCHES {
        let line = ran.stdout.lines().find(|line| line.split_whitespace().next() == Some(arch.name)).unwrap();
        assert!(line.contains(arch.example) && arch.classes.iter().all(|class| line.contains(class.name)));
    }
    let listed = sandbox.convert(&["architectures", "--json"]).json();
    let names: Vec<&str> = listed.as_array().unwrap().iter().map(|it| it["name"].as_str().unwrap()).collect();
    assert!(names.iter().eq(&gguf_models::ARCHES.iter().map(|arch| arch.name).collect::<Vec<_>>()));
}
