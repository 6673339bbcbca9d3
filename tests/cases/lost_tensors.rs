//! Tensors that files lack although the model computes with them: outputs, biases, poolers, dense modules.

use std::fs;

use serde_json::{Value as Json, json};

use crate::common::{Output, Sandbox, Tensors, succeed};

/// Adds a tensor of bf16 with these values.
fn add(sandbox: &Sandbox, file: &str, name: &str, shape: &[u64], value: impl Fn(u64) -> f32) {
    let bytes = (0..shape.iter().product()).flat_map(|at| gguf_testkit::bf16(value(at))).collect();
    let mut tensors = sandbox.tensors(file);
    tensors.insert(name.to_owned(), ("BF16".to_owned(), shape.to_vec(), bytes));
    sandbox.write_tensors(file, &tensors);
}

/// Adds a copy of a tensor under another name.
fn copy(sandbox: &Sandbox, file: &str, from: &str, to: &str) {
    let mut tensors = sandbox.tensors(file);
    tensors.insert(to.to_owned(), tensors[from].clone());
    sandbox.write_tensors(file, &tensors);
}

fn convert(sandbox: &Sandbox, golden: &str) -> Output {
    sandbox.convert(&[golden, "out.gguf", "--type", "f32", "--force"])
}

fn shown(sandbox: &Sandbox) -> Json {
    let shown = succeed(sandbox.inspect(&["show", "out.gguf", "--json"]));
    shown.json()
}

#[test]
fn trained_output_that_is_left_out_is_named() {
    for (golden, embedding) in [
        ("gemma", "model.embed_tokens.weight"),
        ("gemma2", "model.embed_tokens.weight"),
        ("hunyuan-moe", "model.embed_tokens.weight"),
    ] {
        let file = format!("{golden}/model.safetensors");
        let sandbox = Sandbox::with_golden(golden);
        copy(&sandbox, &file, embedding, "lm_head.weight");
        let ran = succeed(convert(&sandbox, golden));
        assert!(!ran.stderr.contains("lm_head"), "{golden}: {}", ran.stderr);

        let sandbox = Sandbox::with_golden(golden);
        let shape = sandbox.tensors(&file)[embedding].1.clone();
        add(&sandbox, &file, "lm_head.weight", &shape, |at| at as f32);
        let ran = succeed(convert(&sandbox, golden));
        let warning = "warning: `lm_head.weight` differs from the embedding";
        assert!(ran.stderr.contains(warning), "{golden}: {}", ran.stderr);
    }
}

#[test]
fn biases_without_a_place_are_named_unless_zero() {
    let (file, name) = ("cohere2/model.safetensors", "model.layers.0.self_attn.o_proj.bias");
    for value in [0.0, 0.5] {
        let sandbox = Sandbox::with_golden("cohere2");
        add(&sandbox, file, name, &[16], |_| value);
        let ran = succeed(convert(&sandbox, "cohere2"));
        assert_eq!(ran.stderr.contains(name), value != 0.0, "{}", ran.stderr);
    }
}

#[test]
fn pooler_of_a_classifier_is_in_the_file() {
    let sandbox = Sandbox::with_golden("bert-classifier");
    let ran = succeed(convert(&sandbox, "bert-classifier"));
    assert!(!ran.stderr.contains("of the head are omitted"), "{}", ran.stderr);
    let json = shown(&sandbox);
    let tensors = json["tensors"].to_string();
    for name in ["cls.weight", "cls.bias", "cls.output.weight", "cls.output.bias"] {
        assert!(tensors.contains(&format!("\"{name}\"")), "{name}: {tensors}");
    }
}

#[test]
fn unnamed_classes_of_a_classifier_are_listed() {
    // The two names that transformers puts into every config.
    let sandbox = Sandbox::with_golden("bert-classifier");
    let file = "bert-classifier/model.safetensors";
    let mut tensors = sandbox.tensors(file);
    for (name, shape) in [("classifier.weight", vec![2, 32]), ("classifier.bias", vec![2])] {
        let (dtype, old, bytes) = tensors.get_mut(name).unwrap();
        let width = if dtype == "F32" { 4 } else { 2 };
        bytes.truncate(width * shape.iter().product::<u64>() as usize);
        *old = shape;
    }
    sandbox.write_tensors(file, &tensors);
    sandbox.edit_json("bert-classifier/config.json", |config| {
        config["id2label"] = json!({"0": "LABEL_0", "1": "LABEL_1"});
        config["label2id"] = json!({"LABEL_0": 0, "LABEL_1": 1});
    });
    succeed(convert(&sandbox, "bert-classifier"));
    let json = shown(&sandbox);
    assert_eq!(json["metadata"]["bert.classifier.output_labels"]["value"], json!(["LABEL_0", "LABEL_1"]));
    assert!(json["tensors"].to_string().contains("\"cls.output.weight\""));
}

#[test]
fn relu_of_distilbert_is_named() {
    let sandbox = Sandbox::with_golden("distilbert");
    sandbox.edit_json("distilbert/config.json", |config| {
        config["architectures"] = json!(["DistilBertForSequenceClassification"]);
    });
    let file = "distilbert/model.safetensors";
    let tensors = sandbox.tensors(file);
    let word = tensors.iter().find(|(name, _)| name.ends_with("word_embeddings.weight"));
    let width = word.unwrap().1.1[1];
    for (name, shape) in [
        ("pre_classifier.weight", vec![width, width]),
        ("pre_classifier.bias", vec![width]),
        ("classifier.weight", vec![2, width]),
        ("classifier.bias", vec![2]),
    ] {
        add(&sandbox, file, name, &shape, |at| at as f32 / 64.0);
    }
    let ran = succeed(convert(&sandbox, "distilbert"));
    ran.says("ReLU");
    assert!(shown(&sandbox)["tensors"].to_string().contains("\"cls.output.weight\""));
}

/// A BERT of sentence-transformers with a Dense module after the pooling.
fn with_dense(golden: &str, activation: &str) -> Sandbox {
    let sandbox = Sandbox::with_golden(golden);
    let folder = format!("{golden}/2_Dense");
    fs::create_dir_all(sandbox.path(&folder)).unwrap();
    let config =
        json!({"in_features": 32, "out_features": 16, "bias": false, "activation_function": activation});
    sandbox.write(&format!("{folder}/config.json"), config.to_string());
    sandbox.write_tensors(&format!("{folder}/model.safetensors"), &Tensors::new());
    add(&sandbox, &format!("{folder}/model.safetensors"), "linear.weight", &[16, 32], |at| at as f32);
    sandbox
}

#[test]
fn dense_modules_are_written_refused_or_named() {
    let identity = "torch.nn.modules.linear.Identity";
    for golden in ["bert", "qwen3-embedding"] {
        let sandbox = with_dense(golden, identity);
        let ran = succeed(convert(&sandbox, golden));
        let note =
            "note: dense modules are omitted: `2_Dense`; sentence-transformers returns vectors of 16 values";
        ran.says(note);
        let ran = sandbox.convert(&[golden, "with.gguf", "--type", "f32", "--dense-modules"]);
        assert_eq!(ran.code, Some(1), "{golden}: {}", ran.stderr);
        ran.says("dense modules: `2_Dense.linear.weight` not supported");
        assert!(!sandbox.path("with.gguf").exists());
    }
    // EmbeddingGemma has a place for both, without an activation.
    let golden = "gemma-embedding-dense";
    let sandbox = Sandbox::with_golden(golden);
    let ran = succeed(convert(&sandbox, golden));
    ran.says("dense modules are omitted: `2_Dense`, `3_Dense`");
    succeed(sandbox.convert(&[golden, "with.gguf", "--type", "f32", "--dense-modules"]));
    let config = json!({"activation_function": "torch.nn.modules.activation.Tanh"}).to_string();
    sandbox.write(&format!("{golden}/2_Dense/config.json"), config);
    let ran = sandbox.convert(&[golden, "tanh.gguf", "--type", "f32", "--dense-modules"]);
    ran.ends_and_says(1, "Tanh` of `2_Dense` not supported");
}
