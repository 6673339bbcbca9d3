//! `gguf-convert export FILE DIR`.

use std::fs;

use crate::common::{Output, Sandbox, silent, succeed, words};

#[test]
fn dry_run_and_json_list_files() {
    let sandbox = Sandbox::with_golden("llama");
    assert_eq!(sandbox.convert(&words("llama x.gguf -t q8_0 -q")), silent());
    let ran = sandbox.convert(&words("export x.gguf out/hf --dry-run --json -q"));
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    assert!(sandbox.outputs().is_empty());
    let json = ran.json();
    assert_eq!((&json["dtype"], &json["dry_run"]), (&"bf16".into(), &true.into()));
    assert_eq!(sandbox.convert(&["export", "x.gguf", "out/hf", "-q"]), silent());
    let mut listed: Vec<String> = json["files"]
        .as_array()
        .unwrap()
        .iter()
        .map(|file| format!("hf/{}", file["name"].as_str().unwrap()))
        .collect();
    listed.sort();
    assert_eq!(sandbox.outputs(), listed);
    let bytes: u64 =
        listed.iter().map(|name| fs::metadata(sandbox.path("out").join(name)).unwrap().len()).sum();
    assert_eq!(json["bytes"], bytes);
    // Small files make several.
    let ran = sandbox.convert(&words("export x.gguf out/many --split-max-size 1000000 -q"));
    assert_eq!(ran, silent());
    assert!(sandbox.path("out/many/model.safetensors.index.json").is_file());
}

#[test]
fn invalid_exports_are_refused() {
    let sandbox = Sandbox::with_golden("llama");
    assert_eq!(sandbox.convert(&words("llama x.gguf -t q8_0 -q")), silent());
    for args in [
        &["export", "x.gguf"][..],
        &["export", "x.gguf", "out/hf", "-t", "q8_0"],
        &["export", "x.gguf", "out/hf", "-t", "f16,f32"],
        &["llama", "out/x", "--to", "onnx"],
    ] {
        assert_eq!(sandbox.convert(args).code, Some(2), "{args:?}");
    }
    let ran = sandbox.convert(&["export", "llama/config.json", "out/hf"]);
    let stderr = "error: llama/config.json: not a GGUF file: expected `GGUF` at the start, found `{\\n  `\n";
    assert_eq!(ran, Output { code: Some(1), stdout: String::new(), stderr: stderr.into() });
    // Existing files stay.
    fs::create_dir(sandbox.path("out/mine")).unwrap();
    sandbox.write("out/mine/letter", "dear");
    for force in [&[][..], &["--force"]] {
        let ran = sandbox.convert(&[&["export", "x.gguf", "out/mine"], force].concat());
        assert_eq!(ran.code, Some(1), "{}", ran.stderr);
        assert_eq!(sandbox.outputs(), ["mine/letter"]);
    }
}

#[test]
fn leftovers_of_killed_export_are_named() {
    let sandbox = Sandbox::with_golden("llama");
    assert_eq!(sandbox.convert(&words("llama x.gguf -t q8_0 -q")), silent());
    // No process has this number.
    let left = "out/.999999999-aB3.hf.partial";
    fs::create_dir(sandbox.path(left)).unwrap();
    fs::write(sandbox.path(left).join("model.safetensors"), [0; 2000]).unwrap();
    let ran = succeed(sandbox.convert(&["export", "x.gguf", "out/hf"]));
    let warning = format!("warning: {left}: 2.00 kB, ");
    let line = ran.stderr.lines().find(|line| line.starts_with(&warning)).expect(&ran.stderr);
    assert!(
        line.contains("left by a killed run; unless another machine is writing it, remove it with `rm -r`"),
        "{line}"
    );
    assert!(sandbox.path(left).is_dir() && sandbox.path("out/hf").is_dir());
}
