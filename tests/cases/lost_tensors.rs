//! Tensors that files lack although the model computes with them: outputs, biases, poolers, dense modules.

use std::fs;

use serde_json::{Value as Json, json};

use crate::common::{Output, Sandbox, succeed};

/// Reads the header and the data of a safetensors file.
pub fn read(sandbox: &Sandbox, file: &str) -> (Json, Vec<u8>) {
    let bytes = fs::read(sandbox.path(file)).unwrap();
    let (length, rest) = bytes.split_at(8);
    let (header, data) = rest.split_at(u64::from_le_bytes(length.try_into().unwrap()) as usize);
    (serde_json::from_slice(header).unwrap(), data.to_vec())
}

pub fn write(sandbox: &Sandbox, file: &str, header: &Json, data: &[u8]) {
    let header = serde_json::to_vec(header).unwrap();
    let bytes = [&(header.len() as u64).to_le_bytes()[..], &header, data].concat();
    fs::write(sandbox.path(file), bytes).unwrap();
}

/// Adds a tensor of bf16 with these values.
fn add(sandbox: &Sandbox, file: &str, name: &str, shape: &[usize], value: impl Fn(usize) -> f32) {
    let (mut header, mut data) = read(sandbox, file);
    let first = data.len();
    for at in 0..shape.iter().product() {
        data.extend(((value(at).to_bits() >> 16) as u16).to_le_bytes());
    }
    header[name] = json!({"dtype": "BF16", "shape": shape, "data_offsets": [first, data.len()]});
    write(sandbox, file, &header, &data);
}

/// Adds a copy of a tensor under another name.
fn copy(sandbox: &Sandbox, file: &str, from: &str, to: &str) {
    let (mut header, mut data) = read(sandbox, file);
    let entry = header[from].clone();
    let [first, end] = [0, 1].map(|i| entry["data_offsets"][i].as_u64().unwrap() as usize);
    let at = data.len();
    data.extend_from_within(first..end);
    header[to] = json!({"dtype": entry["dtype"], "shape": entry["shape"], "data_offsets": [at, data.len()]});
    write(sandbox, file, &header, &data);
}

fn edit_config(sandbox: &Sandbox, golden: &str, edit: impl Fn(&mut Json)) {
    let path = sandbox.path(&format!("{golden}/config.json"));
    let mut config: Json = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    edit(&mut config);
    fs::write(&path, serde_json::to_vec(&config).unwrap()).unwrap();
}

fn convert(sandbox: &Sandbox, golden: &str) -> Output {
    sandbox.convert(&[golden, "out.gguf", "--type", "f32", "--force"])
}

fn shown(sandbox: &Sandbox) -> Json {
    let shown = succeed(sandbox.inspect(&["show", "out.gguf", "--json"]));
    serde_json::from_str(&shown.stdout).unwrap()
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
        let (header, _) = read(&sandbox, &file);
        let shape: Vec<usize> = serde_json::from_value(header[embedding]["shape"].clone()).unwrap();
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
    assert!(!ran.stderr.contains("pooler"), "{}", ran.stderr);
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
    let (mut header, data) = read(&sandbox, file);
    for (name, shape) in [("classifier.weight", json!([2, 32])), ("classifier.bias", json!([2]))] {
        let first = header[name]["data_offsets"][0].as_u64().unwrap();
        let width = if header[name]["dtype"] == "F32" { 4 } else { 2 };
        let n_elems: u64 = shape.as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).product();
        header[name]["shape"] = shape;
        header[name]["data_offsets"] = json!([first, first + width * n_elems]);
    }
    // Holes are not allowed: the tensors are rewritten, one after the other.
    let mut packed = Vec::new();
    for (_, entry) in header.as_object_mut().unwrap().iter_mut().filter(|(name, _)| *name != "__metadata__") {
        let [first, end] = [0, 1].map(|i| entry["data_offsets"][i].as_u64().unwrap() as usize);
        let at = packed.len();
        packed.extend_from_slice(&data[first..end]);
        entry["data_offsets"] = json!([at, packed.len()]);
    }
    write(&sandbox, file, &header, &packed);
    edit_config(&sandbox, "bert-classifier", |config| {
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
    edit_config(&sandbox, "distilbert", |config| {
        config["architectures"] = json!(["DistilBertForSequenceClassification"]);
    });
    let file = "distilbert/model.safetensors";
    let (header, _) = read(&sandbox, file);
    let word = header.as_object().unwrap().iter().find(|(name, _)| name.ends_with("word_embeddings.weight"));
    let width = word.unwrap().1["shape"][1].as_u64().unwrap() as usize;
    for (name, shape) in [
        ("pre_classifier.weight", vec![width, width]),
        ("pre_classifier.bias", vec![width]),
        ("classifier.weight", vec![2, width]),
        ("classifier.bias", vec![2]),
    ] {
        add(&sandbox, file, name, &shape, |at| at as f32 / 64.0);
    }
    let ran = succeed(convert(&sandbox, "distilbert"));
    assert!(ran.stderr.contains("ReLU"), "{}", ran.stderr);
    assert!(shown(&sandbox)["tensors"].to_string().contains("\"cls.output.weight\""));
}

/// A BERT of sentence-transformers with a Dense module after the pooling.
fn with_dense(golden: &str, activation: &str) -> Sandbox {
    let sandbox = Sandbox::with_golden(golden);
    let folder = format!("{golden}/2_Dense");
    fs::create_dir_all(sandbox.path(&folder)).unwrap();
    let config =
        json!({"in_features": 32, "out_features": 16, "bias": false, "activation_function": activation});
    fs::write(sandbox.path(&format!("{folder}/config.json")), config.to_string()).unwrap();
    write(&sandbox, &format!("{folder}/model.safetensors"), &json!({}), &[]);
    add(&sandbox, &format!("{folder}/model.safetensors"), "linear.weight", &[16, 32], |at| at as f32);
    sandbox
}

#[test]
fn dense_modules_are_written_refused_or_named() {
    let identity = "torch.nn.modules.linear.Identity";
    for golden in ["bert", "qwen3-embedding"] {
        let sandbox = with_dense(golden, identity);
        let ran = succeed(convert(&sandbox, golden));
        let note = "note: dense modules are left out: `2_Dense`; sentence-transformers returns vectors of 16 numbers";
        assert!(ran.stderr.contains(note), "{}", ran.stderr);
        let ran = sandbox.convert(&[golden, "with.gguf", "--type", "f32", "--dense-modules"]);
        assert_eq!(ran.code, Some(1), "{golden}: {}", ran.stderr);
        assert!(
            ran.stderr.contains("dense modules: `2_Dense.linear.weight` not supported"),
            "{}",
            ran.stderr
        );
        assert!(!sandbox.path("with.gguf").exists());
    }
    // EmbeddingGemma has a place for both, without an activation.
    let golden = "gemma-embedding-dense";
    let sandbox = Sandbox::with_golden(golden);
    let ran = succeed(convert(&sandbox, golden));
    assert!(ran.stderr.contains("dense modules are left out: `2_Dense`, `3_Dense`"), "{}", ran.stderr);
    succeed(sandbox.convert(&[golden, "with.gguf", "--type", "f32", "--dense-modules"]));
    let config = json!({"activation_function": "torch.nn.modules.activation.Tanh"}).to_string();
    fs::write(sandbox.path(&format!("{golden}/2_Dense/config.json")), config).unwrap();
    let ran = sandbox.convert(&[golden, "tanh.gguf", "--type", "f32", "--dense-modules"]);
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    assert!(ran.stderr.contains("Tanh` of `2_Dense` not supported"), "{}", ran.stderr);
}
