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
    let plan = succeed(sandbox.quantize(&words("a.gguf out.gguf --recipe r.json --force --dry-run"))).stdout;
    assert!(plan.contains("] recipe file: `blk.*.attn_v.weight`\n"), "{plan}");
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
            "r.json: line 1: `blk.7.attn_v.weight` does not match any tensor of the model\n",
        ),
        (
            r#"{"x": "q8_0", "y": "q8_0"}"#,
            "r.json: line 1: `x` does not match any tensor of the model (nor 1 more)\n",
        ),
        (r#"{"atn_v": "q8_0"}"#, "does not match any tensor of the model\nhint: similar: `attn_v`, "),
        (r#"{"attn_v[": "q8_0"}"#, "r.json: line 1: "),
        ("{\n\"attn_v\": \"q8_0\",\n\"ffn\": \"q9\"}", "r.json: not a recipe file: line 3: "),
        (
            r#"{"attn_": "q8_0", "attn_v": "q6_K"}"#,
            "r.json: line 1: tensor `blk.0.attn_v.weight`: `attn_` and `attn_v` both match",
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

#[test]
fn recipe_of_gguf_file_is_used_directly() {
    let sandbox = sandbox();
    let types = ["--tensor-type", "blk.0.ffn_down=iq4_nl", "--tensor-type", "blk.1.attn_k=q5_1"];
    succeed(sandbox.quantize(&[&["a.gguf", "theirs.gguf", "q4_k_m", "-q"][..], &types].concat()));
    succeed(sandbox.quantize(&words("a.gguf ours.gguf --recipe theirs.gguf -q")));
    assert!(sandbox.read("ours.gguf") == sandbox.read("theirs.gguf"));
}

#[test]
fn recipe_of_other_layer_count_goes_by_depth() {
    let sandbox = sandbox();
    // Of four layers, the first and the last are those of a model with two.
    let layers = |name: &str, types: [&str; 4]| {
        let of_layer = |(layer, dtype): (usize, &str)| format!("\"blk.{layer}.{name}.weight\": \"{dtype}\"");
        types.into_iter().enumerate().map(of_layer).collect::<Vec<_>>().join(", ")
    };
    let attention = layers("attn_v", ["q8_0", "q4_1", "q4_1", "q5_1"]);
    let missing = layers("ffn_missing", ["q8_0"; 4]);
    let dtypes = format!(r#"{{"output.weight": "q6_K", "other.weight": "q8_0", {attention}, {missing}}}"#);
    let text = format!(
        r#"{{"format": "gguf-tools recipe", "version": 1, "layers": 4, "outputs": [{{"type": "Q4_0", "dtypes": {dtypes}}}]}}"#
    );
    sandbox.write("r.json", &text);
    let ran = succeed(sandbox.quantize(&words("a.gguf out.gguf --recipe r.json")));
    ran.says("r.json: the recipe is for 4 layers and the model has 2: each layer gets the types");
    let found = types(&sandbox, "out.gguf");
    assert_eq!((&*found["blk.0.attn_v.weight"], &*found["blk.1.attn_v.weight"]), ("q8_0", "q5_1"));
    // The rows of the output matrix do not fit; the rest is by the rules.
    assert_eq!(found["blk.0.attn_q.weight"], "q4_0");
    // With the layers of the model, names are taken literally.
    sandbox.write("r.json", text.replace("\"layers\": 4", "\"layers\": 2"));
    let ran = sandbox.quantize(&words("a.gguf out.gguf --recipe r.json --force"));
    ran.ends_and_says(1, "r.json: line 1: `blk.0.ffn_missing.weight` does not match any tensor");
}
