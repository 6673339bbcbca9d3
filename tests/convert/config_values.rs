//! Config values that no model computes with are refused before anything is written.

use std::fs;

use crate::common::{Sandbox, failed, succeed, words};

const ARGS: &[&str] = &["llama", "x.gguf", "--type", "f16", "-q"];

#[test]
fn implausible_numbers_are_refused() {
    let hint = "hint: the value is derived from config.json, which may contain an error\n";
    for (from, to, message) in [
        (
            r#""rope_theta": 10000.0"#,
            r#""rope_theta": -1.0"#,
            "metadata key `llama.rope.freq_base`: expected a number above 0, found -1",
        ),
        (
            r#""rms_norm_eps": 1e-06"#,
            r#""rms_norm_eps": -1e-06"#,
            "metadata key `llama.attention.layer_norm_rms_epsilon`: expected 0 or a number above 0, found -0.000001",
        ),
    ] {
        let sandbox = Sandbox::with_golden("llama");
        sandbox.edit("llama/config.json", from, to);
        assert_eq!(sandbox.convert(ARGS), failed(&format!("error: llama: {message}\n{hint}")));
        // Only the original files: the checkpoint and the empty folder for outputs.
        let mut names: Vec<_> =
            fs::read_dir(sandbox.path("")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert!(names == ["llama", "out"] && sandbox.outputs().is_empty(), "{names:?}");
    }
}

#[test]
fn unknown_rotary_scaling_is_refused() {
    let sandbox = Sandbox::with_golden("llama");
    sandbox.edit("llama/config.json", r#""rope_type": "default""#, r#""rope_type": "spiral", "factor": 2.0"#);
    let ran = sandbox.convert(ARGS);
    assert_eq!(ran.code, Some(1));
    let expected = "`rope_parameters.rope_type`: expected a known type of rotary scaling, for example linear, yarn or llama3, found \"spiral\"";
    ran.says(expected);
    assert!(sandbox.outputs().is_empty());
}

#[test]
fn unread_mathematical_keys_are_reported() {
    let sandbox = Sandbox::with_golden("llama");
    sandbox.edit(
        "llama/config.json",
        r#""hidden_act": "silu""#,
        r#""hidden_act": "gelu", "logit_scale": 0.0625"#,
    );
    let told = "config keys that are not used for `llama`, but may change the computation: \
        `hidden_act` \"gelu\", `logit_scale` 0.0625";
    let ran = sandbox.convert(&["llama", "x.gguf", "--type", "f16"]);
    ran.says(&format!("note: {told}\n"));
    // To the curious also what changes nothing.
    let ran = sandbox.convert(&words("llama x.gguf --type f16 --force -v"));
    ran.says("note: unused config keys of `llama`: ");
    ran.says("`transformers_version`");
}

#[test]
fn architecture_unlike_config_is_a_warning() {
    let sandbox = Sandbox::with_golden("ministral3-text");
    let ran = succeed(sandbox.convert(&words("ministral3-text x.gguf --type f16 --arch-as llama")));
    let warning = ran
        .stderr
        .lines()
        .find(|line| line.starts_with("warning: config keys that are not used for `llama`"));
    assert!(warning.is_some_and(|line| line.contains("llama_4_scaling_beta")), "{}", ran.stderr);
    let note =
        "note: `Ministral3ForCausalLM` is a class of `mistral3`; as `llama`, it may be a different model";
    ran.says(note);
}
