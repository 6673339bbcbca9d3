//! Pruned layers, and layers for multi-token prediction (MTP).

use crate::common::{Output, Sandbox, floats, succeed, verify, words};

/// `in.gguf` of `golden/arch/NAME`, and a text.
fn converted(name: &str) -> Sandbox {
    let sandbox = Sandbox::with_converted(name, "in.gguf", "f32");
    sandbox.add_text();
    sandbox
}

fn prune(sandbox: &Sandbox, layers: &str) -> Output {
    succeed(sandbox.quantize(&["--prune-layers", layers, "in.gguf", "out.gguf", "copy", "--force"]))
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
    let args = ["perplexity", file, "--text", "text", "--context", "32", "--chunks", "2"];
    succeed(sandbox.eval(&args)).stdout
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
    let set = succeed(sandbox.inspect(&["set", "out.gguf", "glm4moe.nextn_predict_layers=1", "--force"]));
    set.says("layer 1 is skipped");
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
    ran.says("warning: the rotary embedding differs in layer");
    // Layers of experts are placed by a step.
    ran.says("warning: llama.cpp will not load this file");
    let sandbox = converted("qwen3vl");
    let ran = prune(&sandbox, "1");
    ran.says("image features of the first 2 layers");
}

#[test]
fn dense_layers_are_recounted() {
    let sandbox = converted("deepseek2");
    assert_eq!(value_in(&sandbox, "in.gguf", "deepseek2.leading_dense_block_count"), "1");
    prune(&sandbox, "0");
    assert_eq!(value(&sandbox, "deepseek2.leading_dense_block_count"), "0");
}

/// The checkpoint `golden/arch/NAME` without the tensors that `is_gone` holds for; its config announces `announced` MTP layers.
fn checkpoint_without(name: &str, announced: (&str, u64), is_gone: impl Fn(&str) -> bool) -> Sandbox {
    let sandbox = Sandbox::with_golden(name);
    let weights = format!("{name}/model.safetensors");
    let mut tensors = sandbox.tensors(&weights);
    tensors.retain(|name, _| !is_gone(name));
    sandbox.write_tensors(&weights, &tensors);
    sandbox.edit_json(&format!("{name}/config.json"), |config| {
        let part = if config.get("text_config").is_some() { &mut config["text_config"] } else { config };
        part[announced.0] = announced.1.into();
    });
    sandbox
}

/// True for a tensor of an MTP layer: by name, or in a layer from `trunk` on.
fn is_mtp(name: &str, trunk: u64) -> bool {
    let layer = name.split_once("layers.").and_then(|(_, rest)| rest.split_once('.')?.0.parse().ok());
    name.contains("mtp.") || layer.is_some_and(|layer: u64| layer >= trunk)
}

/// Families whose checkpoints have MTP layers: golden, layers before them, key of the config.
const FAMILIES: [(&str, u64, &str); 14] = [
    ("qwen3.5", 4, "mtp_num_hidden_layers"),
    ("qwen3.5-text", 4, "mtp_num_hidden_layers"),
    ("qwen3.5moe", 4, "mtp_num_hidden_layers"),
    ("qwen3next-old", 2, "mtp_num_hidden_layers"),
    ("glm4moe-old", 2, "num_nextn_predict_layers"),
    ("glm-dsa-old", 3, "num_nextn_predict_layers"),
    ("deepseek3.2-old", 3, "num_nextn_predict_layers"),
    ("bailingmoe2", 2, "num_nextn_predict_layers"),
    ("cohere2moe-old", 4, "num_nextn_predict_layers"),
    ("exaone-moe-old", 4, "num_nextn_predict_layers"),
    ("exaone4.5-old", 4, "num_nextn_predict_layers"),
    ("mimo2-old", 3, "num_nextn_predict_layers"),
    ("nemotron-h-moe-old", 4, "num_nextn_predict_layers"),
    ("hy_v3-old", 3, "num_nextn_predict_layers"),
];

#[test]
fn announced_mtp_layer_without_weights_is_dropped() {
    for (name, trunk, key) in FAMILIES {
        let sandbox = checkpoint_without(name, (key, 1), |name| is_mtp(name, trunk));
        let ran = succeed(sandbox.convert(&[name, "out.gguf", "-t", "bf16"]));
        assert!(ran.stderr.contains("config.json specifies MTP layers (1)"), "{name}: {}", ran.stderr);
        let shown = succeed(sandbox.inspect(&["show", "out.gguf", "--full"])).stdout;
        let number = |end: &str| {
            let line = shown
                .lines()
                .find(|line| line.split_whitespace().next().is_some_and(|key| key.ends_with(end)))?;
            line.split_whitespace().nth(2).map(str::to_owned)
        };
        assert_eq!(number(".block_count"), Some(trunk.to_string()), "{name}");
        // Of EXAONE MoE the reference writes the number of layers that are not there.
        assert_eq!(number(".nextn_predict_layers").unwrap_or("0".into()), "0", "{name}");
    }
}

#[test]
fn incomplete_mtp_layer_is_refused_with_hint() {
    for (name, trunk, key) in FAMILIES {
        let n_kept = std::cell::Cell::new(0);
        // Every second tensor of the layer stays.
        let is_gone = |tensor: &str| {
            n_kept.set(n_kept.get() + u32::from(is_mtp(tensor, trunk)));
            is_mtp(tensor, trunk) && n_kept.get().is_multiple_of(2)
        };
        let n_predicted = if name == "mimo2-old" { 3 } else { 1 };
        let sandbox = checkpoint_without(name, (key, n_predicted), is_gone);
        if n_kept.get() == 0 {
            // This golden has none.
            continue;
        }
        let ran = sandbox.convert(&[name, "out.gguf", "-t", "bf16"]);
        assert_eq!(ran.code, Some(1), "{name}: {}", ran.stderr);
        assert!(ran.stderr.contains("incomplete MTP layer"), "{name}: {}", ran.stderr);
        assert!(ran.stderr.contains("`--no-mtp`"), "{name}: {}", ran.stderr);
        succeed(sandbox.convert(&[name, "out.gguf", "-t", "bf16", "--no-mtp"]));
        let (_, codes, report) = verify(&sandbox, &["out.gguf"]);
        assert!(!codes.contains("mtp_layer"), "{name}: {report}");
    }
}

/// `in.gguf`: a GLM 4.5 with an MTP layer and rows of whole super-blocks, 16 times as wide as the golden.
fn wide_with_mtp_layer() -> Sandbox {
    const WIDER: u64 = 16;
    let name = "glm4moe-old";
    let sandbox = Sandbox::with_golden(name);
    let weights = format!("{name}/model.safetensors");
    let mut tensors = sandbox.tensors(&weights);
    tensors.retain(|name, _| {
        !name.ends_with("layers.2.embed_tokens.weight") && !name.contains("shared_head.head")
    });
    for (seed, (name, tensor)) in tensors.iter_mut().enumerate() {
        let counts_rows = ["embed_tokens.weight", "lm_head.weight", "mlp.gate.weight"];
        let mut shape = tensor.1.clone();
        let first = usize::from(counts_rows.iter().any(|end| name.ends_with(end)));
        if !name.ends_with("e_score_correction_bias") {
            shape[first..].iter_mut().for_each(|dim| *dim *= WIDER);
        }
        *tensor = floats(seed as u64, &shape);
    }
    sandbox.write_tensors(&weights, &tensors);
    sandbox.edit_json(&format!("{name}/config.json"), |config| {
        for key in ["hidden_size", "intermediate_size", "moe_intermediate_size", "head_dim"] {
            config[key] = (config[key].as_u64().unwrap() * WIDER).into();
        }
    });
    succeed(sandbox.convert(&[name, "in.gguf", "-t", "bf16", "-q"]));
    sandbox.add_text();
    sandbox
}

#[test]
fn unexecuted_layers_need_no_importance_data() {
    let sandbox = wide_with_mtp_layer();
    let types_of_mtp = |file: &str| {
        let shown = succeed(sandbox.inspect(&["show", file, "--full"])).stdout;
        let lines = shown.lines().filter(|line| line.starts_with("blk.2."));
        lines.map(|line| line.split_whitespace().rev().nth(1).unwrap().to_owned()).collect::<Vec<_>>()
    };
    let n_tensors = types_of_mtp("in.gguf").len();
    assert!(n_tensors > 10);
    // Calibration chooses types for the other layers.
    let args = words("in.gguf out.gguf q4_k_m --calibrate text --calibration-tokens 2048 --no-verify");
    let ran = succeed(sandbox.quantize(&args));
    ran.says("note: MTP layer 2 is not executed");
    succeed(sandbox.quantize(&["in.gguf", "plain.gguf", "q4_k_m"]));
    assert_eq!(types_of_mtp("out.gguf"), types_of_mtp("plain.gguf"));
    // Importance matrices lack them, and a type that needs one is refused with the ways out.
    let imatrix =
        ["imatrix", "in.gguf", "--text", "text", "--context", "32", "--chunks", "1", "-o", "im.gguf"];
    let ran = succeed(sandbox.eval(&imatrix));
    assert_eq!(ran.stderr.matches("MTP layer 2 is not executed").count(), 1, "{}", ran.stderr);
    let quantize = |more: &[&str]| {
        let args = ["--imatrix", "im.gguf", "in.gguf", "out.gguf", "iq2_xxs", "--force"];
        sandbox.quantize(&[more, &args].concat())
    };
    let refused = quantize(&[]);
    refused.ends_and_says(1, "hint: layer 2 is an MTP layer");
    for more in [["--missing-imatrix", "raise-type"], ["--tensor-type", r"blk\.2\.=q4_k"]] {
        succeed(quantize(&more));
        assert_eq!(types_of_mtp("out.gguf").len(), n_tensors);
        assert!(!types_of_mtp("out.gguf").contains(&"iq2_xxs".to_owned()));
    }
    // Publishing replaces such types by itself.
    let publish = words("in.gguf pub --type iq2_xxs --imatrix-text text --eval-text text --chunks 1");
    let more = ["-c", "32", "--imatrix-chunks", "1"];
    let ran = succeed(sandbox.publish(&[&publish[..], &more].concat()));
    ran.says("note: MTP layer 2 is not executed");
    let card = sandbox.text("pub/README.md");
    assert!(card.contains("matrices of MTP layers, which are not executed"), "{card}");
}
