//! `gguf-inspect fit`: files that fit, in a table and in JSON.

use crate::common::{Sandbox, succeed, words};
use serde_json::Value;

#[test]
fn largest_fitting_file_is_reported() {
    let sandbox = Sandbox::with_golden("llama");
    let types = "f16,q8_0,q4_k_m";
    succeed(sandbox.convert(&["llama", "out/m-{ftype}.gguf", "-t", types, "-q"]));
    sandbox.write("out/notes.txt", "no model");
    sandbox.write("out/damaged.gguf", "GGUF");
    let ran = succeed(sandbox.inspect(&words("fit out --memory 24MB --context 256,512 --json")));
    ran.says("damaged.gguf");
    let json = ran.json();
    let files = json["files"].as_array().unwrap();
    let names: Vec<&str> = files.iter().map(|file| file["file"].as_str().unwrap()).collect();
    assert_eq!(names, ["m-q4_k_m.gguf", "m-q8_0.gguf", "m-f16.gguf"]);
    // Two layers, two heads of keys and of values with 64 elements each in f16: 1024 bytes for each token.
    for file in files {
        let uses = file["uses"].as_array().unwrap();
        let kv: Vec<u64> = uses.iter().map(|it| it["bytes"]["kv"].as_u64().unwrap()).collect();
        assert_eq!(kv, [256 * 1024, 512 * 1024], "{file}");
        for it in uses {
            let bytes = it["bytes"].as_object().unwrap();
            let sum: u64 = bytes.values().map(|part| part.as_u64().unwrap()).sum();
            assert_eq!(it["total"], sum);
            assert_eq!(it["fits"], sum <= 24_000_000);
        }
    }
    assert_eq!(json["best"]["file"], "m-f16.gguf");

    let text = sandbox.inspect(&words("fit out/m-q8_0.gguf --memory 24MB --context 256"));
    assert_eq!((text.code, text.stderr.as_str()), (Some(0), ""));
    assert!(
        text.stdout.contains("largest file that fits in 24.0 MB with 256 tokens: m-q8_0.gguf"),
        "{}",
        text.stdout
    );
    // Files that are loaded in addition count.
    let more =
        sandbox.inspect(&words("fit out/m-q8_0.gguf --context 256 --with out/m-f16.gguf --json")).json();
    let weights = |json: &Value| json["uses"][0]["bytes"]["weights"].as_u64().unwrap();
    assert_eq!(weights(&more["files"][0]), weights(&files[1]) + weights(&files[2]));
    assert_eq!(more["best"], Value::Null);
}

#[test]
fn no_fitting_file_is_a_failure() {
    let sandbox = Sandbox::with_converted("llama", "m.gguf", "f16");
    let ran = sandbox.inspect(&words("fit m.gguf --memory 1MB --context 256"));
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(1), "error: no file fits in 1.00 MB\n"));
    assert!(ran.stdout.contains("none (does not fit)"), "{}", ran.stdout);
    // Q8_0 takes 32 elements, and a token has 128 of keys.
    let json = sandbox.inspect(&words("fit m.gguf --context 256 --kv-type q8_0 --json")).json();
    assert_eq!(json["files"][0]["uses"][0]["bytes"]["kv"], 2 * 2 * 256 * 128 / 32 * 34);
    for args in [
        &["fit", "m.gguf", "--memory", "much"][..],
        &["fit", "m.gguf", "--kv-type", "q4_k"],
        &["fit", "m.gguf", "--context", "0"],
    ] {
        assert_eq!(sandbox.inspect(args).code, Some(2), "{args:?}");
    }
    assert_eq!(sandbox.inspect(&["fit", "out"]).code, Some(1));
}
