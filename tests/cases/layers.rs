//! Pruned layers, and layers that predict more than the next token (MTP).

use crate::common::{Output, Sandbox, succeed, verify};

const QUANTIZE: &str = env!("CARGO_BIN_EXE_gguf-quantize");
const EVAL: &str = env!("CARGO_BIN_EXE_gguf-eval");

/// `in.gguf` of `golden/arch/NAME`, and a text.
fn converted(name: &str) -> Sandbox {
    let sandbox = Sandbox::with_golden(name);
    succeed(sandbox.convert(&[name, "in.gguf", "-t", "f32", "-q"]));
    sandbox.add_text();
    sandbox
}

fn prune(sandbox: &Sandbox, layers: &str) -> Output {
    succeed(sandbox.run(QUANTIZE, &["--prune-layers", layers, "in.gguf", "out.gguf", "copy", "-f"]))
}

/// The value of a key of `out.gguf` as `show` prints it.
fn value(sandbox: &Sandbox, key: &str) -> String {
    value_in(sandbox, "out.gguf", key)
}

fn value_in(sandbox: &Sandbox, file: &str, key: &str) -> String {
    let shown = succeed(sandbox.inspect(&["show", file, "--full"])).stdout;
    let line = shown.lines().find(|line| line.split_whitespace().next() == Some(key));
    line.map_or("missing".to_owned(), |line| line.split_whitespace().skip(2).collect::<Vec<_>>().join(" "))
}

fn perplexity(sandbox: &Sandbox, file: &str) -> String {
    let args = ["perplexity", file, "--text", "text", "--context", "32", "-n", "2"];
    succeed(sandbox.run(EVAL, &args)).stdout
}

#[test]
fn pruned_mtp_layer_is_no_longer_announced() {
    let sandbox = converted("glm4moe-old");
    prune(&sandbox, "2");
    assert_eq!(value(&sandbox, "glm4moe.nextn_predict_layers"), "0");
    assert_eq!(perplexity(&sandbox, "in.gguf"), perplexity(&sandbox, "out.gguf"));
    let (exit, codes, report) = verify(&sandbox, &["out.gguf"]);
    assert!(exit == Some(0) && codes.is_empty(), "{report}");
    // A layer before it: the MTP layer stays the last one.
    prune(&sandbox, "1");
    assert_eq!(value(&sandbox, "glm4moe.nextn_predict_layers"), "1");
    let (_, codes, report) = verify(&sandbox, &["out.gguf"]);
    assert!(!codes.contains("mtp_layer"), "{report}");
}

#[test]
fn announced_mtp_layer_without_its_tensors_is_reported() {
    let sandbox = converted("glm4moe-old");
    prune(&sandbox, "2");
    let set = succeed(sandbox.inspect(&["set", "out.gguf", "glm4moe.nextn_predict_layers=1"]));
    assert!(set.stderr.contains("layer 1 is skipped"), "{}", set.stderr);
    let (exit, codes, report) = verify(&sandbox, &["out.gguf"]);
    assert!(exit == Some(1) && codes.contains("mtp_layer"), "{report}");
}

#[test]
fn pruned_layers_leave_windows_where_they_were() {
    // Every second layer has a window; the key is not in the file.
    let sandbox = converted("gemma2");
    prune(&sandbox, "0");
    assert_eq!(value(&sandbox, "gemma2.attention.sliding_window_pattern"), "[false]");
    assert_eq!(verify(&sandbox, &["out.gguf"]).0, Some(0));
    // The list is read: without it the layer that is left would have a window.
    let with_list = perplexity(&sandbox, "out.gguf");
    succeed(sandbox.inspect(&["unset", "out.gguf", "gemma2.attention.sliding_window_pattern"]));
    succeed(sandbox.inspect(&["set", "out.gguf", "gemma2.attention.sliding_window=4"]));
    assert_ne!(perplexity(&sandbox, "out.gguf"), with_list);
}

#[test]
fn positions_that_no_key_describes_are_named() {
    let sandbox = converted("llama4-deep");
    let ran = prune(&sandbox, "0");
    assert!(ran.stderr.contains("warning: the rotary embedding differs in layer"), "{}", ran.stderr);
    // Layers of experts are placed by a step.
    assert!(ran.stderr.contains("warning: llama.cpp will not load this file"), "{}", ran.stderr);
    let sandbox = converted("qwen3vl");
    let ran = prune(&sandbox, "1");
    assert!(ran.stderr.contains("image features of the first 2 layers"), "{}", ran.stderr);
}

#[test]
fn dense_layers_are_counted_anew() {
    let sandbox = converted("deepseek2");
    assert_eq!(value_in(&sandbox, "in.gguf", "deepseek2.leading_dense_block_count"), "1");
    prune(&sandbox, "0");
    assert_eq!(value(&sandbox, "deepseek2.leading_dense_block_count"), "0");
}
