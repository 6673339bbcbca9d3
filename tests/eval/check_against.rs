//! `gguf-eval check-against`: exit codes and outputs. The attribution of differences is tested in the library.

use crate::common::Sandbox;

/// A file and the record of its original, in the sandbox.
fn sandbox() -> Sandbox {
    let sandbox = Sandbox::with_converted("llama", "x.gguf", "f32");
    for ending in ["json", "f32"] {
        let golden = gguf_testkit::golden_path(&format!("check-against/llama.{ending}"));
        std::fs::copy(golden, sandbox.path(&format!("record.{ending}"))).unwrap();
    }
    sandbox
}

#[test]
fn same_model_is_reported() {
    let sandbox = sandbox();
    let ran = sandbox.eval(&["check-against", "x.gguf", "record.json", "-q"]);
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{}", ran.stdout);
    assert!(ran.stdout.ends_with("no difference found\n"), "{}", ran.stdout);
    let ran = sandbox.eval(&["check-against", "x.gguf", "record.json", "--weights", "llama", "--json"]);
    let report: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!((ran.code, &report["same"]), (Some(0), &true.into()), "{}", ran.stderr);
    assert!(report["checks"].as_array().unwrap().iter().any(|check| check["name"] == "tensors"));
}

#[test]
fn difference_has_exit_code_1() {
    let sandbox = sandbox();
    let set = sandbox.inspect(&["set", "x.gguf", "llama.rope.freq_base=500000", "-q"]);
    assert_eq!(set.code, Some(0), "{}", set.stderr);
    let ran = sandbox.eval(&["check-against", "x.gguf", "record.json", "-q"]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.stdout.contains("responsible: graph"), "{}", ran.stdout);
    assert_eq!(ran.stderr, "error: x.gguf: differs from the original (graph)\n");
    let ran = sandbox.eval(&["check-against", "x.gguf", "record.json", "--json"]);
    let report: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!((ran.code, &report["responsible"][0]["part"]), (Some(1), &"graph".into()));
}

#[test]
fn invalid_record_is_refused() {
    let sandbox = sandbox();
    std::fs::remove_file(sandbox.path("record.f32")).unwrap();
    let ran = sandbox.eval(&["check-against", "x.gguf", "record.json"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""));
    assert!(ran.stderr.contains("record.json: arrays: expected"), "{}", ran.stderr);
    assert!(ran.stderr.contains("make the record again"), "{}", ran.stderr);
}
