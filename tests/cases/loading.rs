//! Files that llama.cpp does not load, and files that it does. Verdicts are those of its loader, taken with the library of
//! node-llama-cpp 3.21.1.

use crate::common::{Output, Sandbox, Tensors, floats, succeed, verify};

/// Converts `golden/arch/NAME` with other tensors and texts of its config (from, to) to `out.gguf`.
fn convert_changed(
    name: &str,
    config: &[(&str, &str)],
    change: impl FnOnce(&mut Tensors),
) -> (Sandbox, Output) {
    let sandbox = Sandbox::with_golden(name);
    let weights = format!("{name}/model.safetensors");
    let mut tensors = sandbox.tensors(&weights);
    change(&mut tensors);
    sandbox.write_tensors(&weights, &tensors);
    for (from, to) in config {
        sandbox.edit(&format!("{name}/config.json"), from, to);
    }
    let ran = succeed(sandbox.convert(&[name, "out.gguf", "-t", "f32"]));
    (sandbox, ran)
}

/// Asserts that the conversion warns and that `verify` finds the same.
#[track_caller]
fn assert_not_loaded((sandbox, ran): (Sandbox, Output), code: &str, text: &str) {
    ran.says("warning: llama.cpp will not load this file");
    ran.says(text);
    let (exit, codes, report) = verify(&sandbox, &["out.gguf", "--only", "loader"]);
    assert!(exit == Some(1) && codes.contains(code) && report.contains(text), "{report}");
}

/// Asserts that neither the conversion nor `verify` finds fault.
#[track_caller]
fn assert_loaded((sandbox, ran): &(Sandbox, Output)) {
    assert!(!ran.stderr.contains("llama.cpp will not load"), "{}", ran.stderr);
    let (exit, codes, report) = verify(sandbox, &["out.gguf", "--only", "architecture,loader"]);
    assert!(exit == Some(0) && codes.is_empty(), "{report}");
}

#[test]
fn tensor_unknown_to_llama_cpp_is_reported() {
    let add_head = |tensors: &mut Tensors| {
        let n_rows = tensors["model.embed_tokens.weight"].1[0];
        tensors.insert("lm_head.bias".to_owned(), floats(1, &[n_rows]));
    };
    let llama = convert_changed("llama-head-dim", &[], add_head);
    assert_not_loaded(llama, "extra_tensor", "extra tensor `output.bias`");
    assert_loaded(&convert_changed("qwen2", &[], add_head));
    let add_outputs = |tensors: &mut Tensors| {
        for layer in 0..2 {
            let name = |part, kind| format!("model.layers.{layer}.self_attn.{part}_proj.{kind}");
            for part in ["q", "k", "v", "o"] {
                let n_rows = tensors[&name(part, "weight")].1[0];
                tensors.insert(name(part, "bias"), floats(2, &[n_rows]));
            }
        }
    };
    let config = [(r#""attention_bias": false"#, r#""attention_bias": true"#)];
    let smollm3 = convert_changed("smollm3", &config, add_outputs);
    assert_not_loaded(smollm3, "extra_tensor", "extra tensor `blk.0.attn_output.bias` (and in 1 more layer)");
    assert_loaded(&convert_changed("llama-head-dim", &config, add_outputs));
}

#[test]
fn tensor_that_llama_cpp_requires_is_reported() {
    let config = [(r#""use_bias": true"#, r#""use_bias": false"#)];
    let starcoder2 = convert_changed("starcoder2", &config, |tensors| {
        tensors
            .retain(|name, _| !(name.ends_with(".bias") && (name.contains("attn") || name.contains("mlp"))));
    });
    assert_not_loaded(starcoder2, "missing_tensor", "missing tensor `blk.0.attn_output.bias`");
    let config = [(r#""use_conv_bias": true"#, r#""use_conv_bias": false"#)];
    let mamba =
        convert_changed("mamba", &config, |tensors| tensors.retain(|name, _| !name.ends_with("conv1d.bias")));
    assert_not_loaded(mamba, "missing_tensor", "missing tensor `blk.0.ssm_conv1d.bias`");
}

#[test]
fn head_size_ignored_by_llama_cpp_is_reported() {
    let cohere2 = convert_changed("cohere2", &[(r#""head_dim": 4"#, r#""head_dim": 6"#)], |tensors| {
        for layer in 0..4 {
            for (part, shape) in [("q", [24, 16]), ("k", [12, 16]), ("v", [12, 16]), ("o", [16, 24])] {
                tensors
                    .insert(format!("model.layers.{layer}.self_attn.{part}_proj.weight"), floats(4, &shape));
            }
        }
    });
    assert_not_loaded(cohere2, "tensor_shape", "`blk.0.attn_q.weight`");
}

#[test]
fn tied_embedding_is_written_as_output() {
    let config = [(r#""tie_word_embeddings": false"#, r#""tie_word_embeddings": true"#)];
    let olmo2 = convert_changed("olmo2", &config, |tensors| drop(tensors.remove("lm_head.weight")));
    assert_loaded(&olmo2);
    assert!(
        olmo2.1.stderr.contains(
            "`output.weight` differs from the file of convert_hf_to_gguf.py: a copy of the tied embedding"
        ),
        "{}",
        olmo2.1.stderr
    );
    let export = succeed(olmo2.0.inspect(&["hash", "out.gguf", "--tensors"])).stdout;
    let digest = |name: &str| {
        let line = export.lines().find(|line| line.ends_with(&format!(":{name}"))).unwrap();
        line.split_once(' ').unwrap().0.to_owned()
    };
    assert_eq!(digest("output.weight"), digest("token_embd.weight"));
}

#[test]
fn feed_forward_length_is_matrix_width() {
    let gpt2 = convert_changed("gpt2", &[(r#""n_inner": null"#, r#""n_inner": 80"#)], |tensors| {
        for layer in 0..2 {
            let name = |part: &str| format!("transformer.h.{layer}.mlp.{part}");
            tensors.insert(name("c_fc.weight"), floats(5, &[32, 80]));
            tensors.insert(name("c_fc.bias"), floats(6, &[80]));
            tensors.insert(name("c_proj.weight"), floats(7, &[80, 32]));
        }
    });
    assert_loaded(&gpt2);
    let shown = gpt2.0.inspect(&["show", "out.gguf", "--full"]).stdout;
    let line = shown.lines().find(|line| line.contains("gpt2.feed_forward_length")).unwrap();
    assert!(line.ends_with(" 80"), "{line}");
}

#[test]
fn loops_over_hostile_counts_end() {
    let (sandbox, _) = convert_changed("hrm_text", &[], |_| {});
    let keys = sandbox.inspect(&["show", "out.gguf", "--full"]).stdout;
    let counts = keys.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        let (key, kind, value) = (words.next()?, words.next()?, words.next()?);
        let is_count = key.contains("cycles") || key.contains("layers_per_stack");
        (is_count && kind == "u32" && value != "1000").then(|| format!("{key}=1000"))
    });
    let counts: Vec<String> = counts.collect();
    assert!(counts.len() > 1, "{keys}");
    let args: Vec<&str> =
        ["set", "out.gguf", "-q", "--force"].into_iter().chain(counts.iter().map(String::as_str)).collect();
    succeed(sandbox.inspect(&args));
    assert!(verify(&sandbox, &["out.gguf", "--only", "loader"]).0.is_some());
}

#[test]
fn key_with_the_default_value_may_be_missing() {
    let (sandbox, _) = convert_changed("llama-mha", &[], |_| {});
    let against = || verify(&sandbox, &["out.gguf", "--against", "llama-mha"]);
    let keys =
        ["llama.attention.key_length", "llama.attention.value_length", "llama.attention.head_count_kv"];
    succeed(sandbox.inspect(&[&["unset", "out.gguf"], &keys[..]].concat()));
    let (exit, codes, report) = against();
    assert!(exit == Some(0) && codes.is_empty(), "{report}");
    assert_eq!(report.matches("\"default_key\"").count(), 3, "{report}");
    succeed(sandbox.inspect(&["unset", "out.gguf", "llama.attention.head_count", "--force"]));
    let (exit, codes, report) = against();
    assert!(exit == Some(1) && codes.contains("missing_key"), "{report}");
}

/// Files that llama.cpp reads and then aborts on (`llama-perplexity` b11312): a segmentation fault in `build_mamba2_layer`, and
/// `GGML_ASSERT(ggml_can_mul_mat(a, b))` of the indexer, whose width must be a power of two from 64.
#[test]
fn files_that_abort_after_loading_are_reported() {
    for name in ["granitehybrid", "falcon-h1"] {
        let remove_bias = |tensors: &mut Tensors| tensors.retain(|name, _| !name.ends_with(".conv1d.bias"));
        let config = [(r#""mamba_conv_bias": true"#, r#""mamba_conv_bias": false"#)];
        let (sandbox, ran) = convert_changed(name, &config, remove_bias);
        ran.says(
            "warning: llama.cpp will abort on this file: the graph cannot be built: missing tensor `blk.",
        );
        let (exit, codes, report) = verify(&sandbox, &["out.gguf", "--only", "loader"]);
        assert!(exit == Some(1) && codes.contains("missing_tensor"), "{name}: {report}");
        assert!(report.contains("llama.cpp loads the file and then aborts: missing tensor"), "{report}");
    }
    for name in ["deepseek3.2", "glm-dsa"] {
        let (_, ran) = convert_changed(name, &[], |_| {});
        ran.says("llama.cpp will abort on this file: the graph cannot be built: values not supported: ");
    }
    // Heads of keys and of values with other widths, of an architecture whose graph has one width.
    let (_, ran) = convert_changed("llama", &[], |_| {});
    assert!(!ran.stderr.contains("abort"), "{}", ran.stderr);
}
