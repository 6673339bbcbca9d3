//! Recipe files that people write by hand.

use std::collections::BTreeMap;

use crate::common::{Output, Sandbox, succeed, words};

fn sandbox() -> Sandbox {
    Sandbox::with_converted("llama", "a.gguf", "f32")
}

/// Runs a recipe of a Q4_0 file with these types.
fn replay(sandbox: &Sandbox, dtypes: &str) -> Output {
    let text = format!(
        r#"{{"format": "gguf-tools recipe", "version": 1, "outputs": [{{"type": "Q4_0", "dtypes": {dtypes}}}]}}"#
    );
    sandbox.write("r.json", text);
    sandbox.quantize(&words("a.gguf out.gguf --recipe r.json --force"))
}

/// The types of a file, by tensor.
fn types(sandbox: &Sandbox, file: &str) -> BTreeMap<String, String> {
    let model = sandbox.model(file);
    model.tensors().map(|(_, tensor)| (tensor.name.clone(), tensor.dtype.name().to_owned())).collect()
}

#[test]
fn recipe_of_one_tensor_keeps_rules_for_others() {
    let sandbox = sandbox();
    succeed(sandbox.quantize(&["a.gguf", "stock.gguf", "q4_0", "-q"]));
    let mut expected = types(&sandbox, "stock.gguf");
    let one = succeed(replay(&sandbox, r#"{"blk.0.attn_v.weight": "q8_0"}"#));
    expected.insert("blk.0.attn_v.weight".to_owned(), "q8_0".to_owned());
    assert_eq!(types(&sandbox, "out.gguf"), expected);
    one.says("r.json: 20 of 21 tensors are not in the recipe and get their type from Q4_0");
    succeed(replay(&sandbox, r#"{"blk.*.attn_v.weight": "q8_0"}"#));
    expected.insert("blk.1.attn_v.weight".to_owned(), "q8_0".to_owned());
    assert_eq!(types(&sandbox, "out.gguf"), expected);
    // Same bytes as the option with that pattern.
    let option = ["--tensor-type", "blk.*.attn_v.weight=q8_0", "a.gguf", "option.gguf", "q4_0", "-q"];
    succeed(sandbox.quantize(&option));
    assert!(sandbox.read("out.gguf") == sandbox.read("option.gguf"));
}

#[test]
fn recipe_with_unknown_tensor_names_file() {
    let sandbox = sandbox();
    for (dtypes, problem) in [
        (
            r#"{"blk.7.attn_v.weight": "q8_0"}"#,
            "r.json: `blk.7.attn_v.weight` does not match any tensor of the model\n",
        ),
        (
            r#"{"x": "q8_0", "y": "q8_0"}"#,
            "r.json: `x` does not match any tensor of the model (nor 1 more)\n",
        ),
        (r#"{"attn_v[": "q8_0"}"#, "r.json: "),
        (
            r#"{"attn_": "q8_0", "attn_v": "q6_K"}"#,
            "r.json: tensor `blk.0.attn_v.weight`: `attn_` and `attn_v` both match",
        ),
    ] {
        let ran = replay(&sandbox, dtypes);
        assert_eq!(ran.code, Some(1), "{dtypes}: {}", ran.stderr);
        assert!(ran.stderr.contains(problem), "{dtypes}: {}", ran.stderr);
        assert!(!sandbox.path("out.gguf").exists());
    }
}

#[test]
fn saved_recipe_replays_without_a_note() {
    let sandbox = sandbox();
    succeed(sandbox.quantize(&words("a.gguf one.gguf q4_k_m --save-recipe r.json -q")));
    let ran = succeed(sandbox.quantize(&["a.gguf", "two.gguf", "--recipe", "r.json"]));
    assert!(!ran.stderr.contains("note"), "{}", ran.stderr);
    assert!(sandbox.read("one.gguf") == sandbox.read("two.gguf"));
}
