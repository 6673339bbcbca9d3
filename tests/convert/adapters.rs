//! `gguf-convert adapter DIR --base MODEL`: LoRA adapters.

use std::fs;

use crate::common::{Output, Sandbox, copy_folder, golden, sha256, succeed};

/// The base model of an adapter, and its lines: type, file name, bytes, digest.
fn expected(name: &str) -> (String, Vec<[String; 4]>) {
    let text = fs::read_to_string(golden("lora").join(name).join("expected.txt")).unwrap();
    let mut lines = text.lines();
    let base = lines.next().unwrap().strip_prefix("# base ").unwrap().to_owned();
    let row = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>().try_into().unwrap();
    (base, lines.map(row).collect())
}

#[test]
fn adapters_match_reference() {
    let mut names: Vec<String> = fs::read_dir(golden("lora"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert!(names.len() >= 5, "{names:?}");
    for name in names {
        let sandbox = Sandbox::new();
        let (base, rows) = expected(&name);
        copy_folder(&golden("lora").join(&name), &sandbox.path(&name));
        copy_folder(&gguf_testkit::checkpoint(&base), &sandbox.path("base"));
        let listed: Vec<&str> = rows.iter().map(|[outtype, ..]| outtype.as_str()).collect();
        fs::create_dir(sandbox.path("out")).unwrap();
        let ran =
            sandbox.convert(&["adapter", &name, "out", "--base", "base", "-t", &listed.join(","), "-q"]);
        assert_eq!(ran, Output { code: Some(0), stdout: String::new(), stderr: String::new() }, "{name}");
        for [outtype, file, bytes, digest] in &rows {
            let have = fs::read(sandbox.path("out").join(file))
                .unwrap_or_else(|_| panic!("{:?}", sandbox.outputs()));
            assert_eq!((&have.len().to_string(), &sha256(&have)), (bytes, digest), "{name} {outtype}");
        }
        // The config of the base model is enough, and f32 is the type if none is given.
        fs::create_dir(sandbox.path("config")).unwrap();
        fs::copy(sandbox.path("base/config.json"), sandbox.path("config/config.json")).unwrap();
        let ran = sandbox.convert(&["adapter", &name, "out/again.gguf", "--base", "config", "-q"]);
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{name}");
        let again = sandbox.read("out/again.gguf");
        assert_eq!(Some(sha256(&again)), rows.iter().find(|row| row[0] == "f32").map(|row| row[3].clone()));
    }
}

/// A sandbox with the adapter of llama and another base model.
fn place_with(base: &str) -> Sandbox {
    let sandbox = Sandbox::new();
    copy_folder(&golden("lora/llama"), &sandbox.path("adapter"));
    copy_folder(&gguf_testkit::checkpoint(base), &sandbox.path("base"));
    fs::create_dir(sandbox.path("out")).unwrap();
    sandbox
}

#[track_caller]
fn refused(sandbox: &Sandbox, args: &[&str], stderr: &str) {
    let ran = sandbox.convert(&[&["adapter", "adapter", "out/x.gguf", "-q"], args].concat());
    ran.ends_and_begins(1, stderr);
    assert!(sandbox.outputs().is_empty());
}

const BASE: &[&str] = &["--base", "base"];

#[test]
fn mismatched_adapter_is_named() {
    // By the base model's weights, and by its config if it has none.
    let sandbox = place_with("llama");
    let start = "error: adapter: tensor `base_model.model.model.layers.0.mlp.down_proj.lora_A.weight`: expected 512 columns of the matrix: those of `model.layers.0.mlp.down_proj.weight`, [512, 256], found shape [96, 4]";
    refused(&sandbox, BASE, start);
    fs::remove_file(sandbox.path("base/model.safetensors")).unwrap();
    let start = "error: adapter: tensor `base_model.model.model.layers.0.mlp.down_proj.lora_B.weight`: expected 256 rows of the matrix: the width of the base model, found shape [4, 64]\n";
    refused(&sandbox, BASE, start);

    let sandbox = place_with("llama-head-dim");
    sandbox.edit("base/config.json", r#""num_hidden_layers": 2"#, r#""num_hidden_layers": 1"#);
    refused(&sandbox, BASE, "error: adapter: 7 tensors without a match in the base model: ");

    let sandbox = place_with("llama-head-dim");
    sandbox.edit("adapter/adapter_config.json", r#""peft_type": "LORA""#, r#""peft_type": "LOHA""#);
    refused(
        &sandbox,
        BASE,
        "error: adapter: `adapter_config.json`: key `peft_type` is LOHA: only LoRA adapters are supported\n",
    );

    let sandbox = place_with("llama-head-dim");
    sandbox.edit("adapter/adapter_config.json", r#""lora_alpha""#, r#""lora_omega""#);
    refused(&sandbox, BASE, "error: adapter: `adapter_config.json`: missing key `lora_alpha`\n");

    // A half without the other, and a complete weight. The names have as many letters as before.
    let sandbox = place_with("llama-head-dim");
    sandbox.edit(
        "adapter/adapter_model.safetensors",
        "layers.1.self_attn.q_proj.lora_B",
        "layers.1.self_attn.r_proj.lora_B",
    );
    refused(&sandbox, BASE, "error: adapter: 2 missing tensors: `");
    let sandbox = place_with("llama-head-dim");
    sandbox.edit(
        "adapter/adapter_model.safetensors",
        "layers.1.self_attn.q_proj.lora_B.weight",
        "layers.1.self_attn.q_proj.whole_.weight",
    );
    let start = "error: adapter: 1 tensor of the adapter without the other half of a LoRA pair: `base_model.model.model.layers.1.self_attn.q_proj.whole_.weight`\nhint: an adapter file cannot hold whole weights";
    refused(&sandbox, BASE, start);

    let sandbox = place_with("llama-head-dim");
    let stderr = "error: adapter: missing config of the base model `some-org/llama-head-dim`\nhint: pass its folder (config.json is enough) or hf://OWNER/MODEL with --base\n";
    refused(&sandbox, &[], stderr);
    // A base model that the adapter names and that is here is found.
    sandbox.edit("adapter/adapter_config.json", "some-org/llama-head-dim", "base");
    let ran = succeed(sandbox.convert(&["adapter", "adapter", "out/x.gguf"]));
    ran.says("chat with it: gguf-eval chat BASE.gguf --lora out/x.gguf\n");
    for wrong in [&["-t", "q4_k_m"][..], &["--pure"], &["--to", "hf"]] {
        let ran = sandbox.convert(&[&["adapter", "adapter", "out/y.gguf", "--base", "base"], wrong].concat());
        assert_eq!(ran.code, Some(2), "{wrong:?}");
    }
    // The adapter names its base.
    let ran = sandbox.convert(&["./adapter", "out/y.gguf", "--type", "4bit"]);
    ran.ends_and_says(2, "run `gguf-convert base out/y.gguf --type q4_k_m --lora ./adapter`");
}

/// Hints name a command that reads the input.
#[test]
fn misplaced_adapter_gets_a_working_hint() {
    let sandbox = place_with("llama-head-dim");
    succeed(sandbox.convert(&[&["adapter", "adapter", "adapter.gguf", "-q"], BASE].concat()));
    let merge = "hint: to merge the adapter file into a GGUF model, run `gguf-quantize MODEL.gguf OUT.gguf TYPE --lora adapter.gguf`\n";
    let other = "hint: the folder is a checkpoint; an adapter folder has an adapter_config.json\n";
    let folder = "hint: to merge the adapter, run `gguf-convert hf://some-org/llama-head-dim OUT --type bf16 --lora adapter`; to convert it alone, run `gguf-convert adapter adapter --base hf://some-org/llama-head-dim`\n";
    for (args, hint) in [
        (&["base", "out/x.gguf", "-t", "bf16", "--lora", "adapter.gguf"][..], merge),
        (&["base", "out/x.gguf", "-t", "bf16", "--lora", "base"], other),
        (&["adapter", "adapter.gguf", "out/x.gguf", "--base", "base"], merge),
        (&["adapter.gguf", "out/x.gguf", "-t", "bf16"], merge),
        (&["adapter", "base", "out/x.gguf", "--base", "base"], other),
        (
            &["adapter", "adapter", "out/x.gguf", "--base", "adapter.gguf"],
            "hint: pass the checkpoint folder of the base model; config.json is enough\n",
        ),
        (&["mmproj", "adapter", "out/x.gguf"], folder),
        (
            &["export", "adapter.gguf", "out/x"],
            "hint: pass the model; `gguf-eval` applies the adapter and `gguf-quantize` merges it, with `--lora adapter.gguf`\n",
        ),
    ] {
        let ran = sandbox.convert(args);
        ran.ends_and_says(1, hint);
        assert!(!ran.stderr.contains("gguf-convert export"), "{}", ran.stderr);
    }
}
