//! What a config may say: numbers that no model computes with are refused before anything is written.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;

use std::fs;

use common::{Sandbox, failed, silent};

const ARGS: &[&str] = &["llama", "x.gguf", "--type", "f16", "-q"];

#[test]
fn numbers_that_cannot_be_meant_are_refused() {
    let hint = "hint: the number comes out of config.json, which says something that cannot be meant\n";
    for (from, to, message) in [
        (
            r#""rope_theta": 10000.0"#,
            r#""rope_theta": -1.0"#,
            "metadata key `llama.rope.freq_base` would be -1, expected a number above 0",
        ),
        (
            r#""rms_norm_eps": 1e-06"#,
            r#""rms_norm_eps": -1e-06"#,
            "metadata key `llama.attention.layer_norm_rms_epsilon` would be -0.000001, expected 0 or a number above 0",
        ),
    ] {
        let sandbox = Sandbox::with_golden("llama");
        sandbox.edit("llama/config.json", from, to);
        assert_eq!(sandbox.convert(ARGS), failed(&format!("error: llama: {message}\n{hint}")));
        // Nothing but what was there: the checkpoint and the empty folder for outputs.
        let mut names: Vec<_> =
            fs::read_dir(sandbox.path("")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert!(names == ["llama", "out"] && sandbox.outputs().is_empty(), "{names:?}");
    }
}

#[test]
fn a_class_that_is_no_list_is_read_as_one_name() {
    let sandbox = Sandbox::with_golden("llama");
    let listed = "[\n    \"LlamaForCausalLM\"\n  ]";
    sandbox.edit("llama/config.json", listed, r#""LlamaForCausalLM""#);
    assert_eq!(sandbox.convert(ARGS), silent());
}
