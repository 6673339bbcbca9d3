//! LoRA adapters that replace or extend the embeddings.

use std::fs;

use serde_json::json;

use super::adapters::{CONFIG, WEIGHTS, config, llama, merge, refused, values, write_json};
use crate::common::{Sandbox, Tensors, floats, succeed, words};

/// Adds the copies that PEFT writes of a module in `modules_to_save`.
fn saved_copies(tensors: &mut Tensors, module: &str, trained: &(String, Vec<u64>, Vec<u8>)) {
    let untrained = floats(99, &trained.1);
    for (end, tensor) in
        [("weight", trained), ("modules_to_save.weight", trained), ("original_module.weight", &untrained)]
    {
        tensors.insert(format!("base_model.model.{module}.{end}"), tensor.clone());
    }
}

#[test]
fn copies_of_saved_modules_are_read_once() {
    let sandbox = llama(&json!({"modules_to_save": ["embed_tokens", "lm_head"]}));
    let mut tensors = sandbox.tensors(WEIGHTS);
    let [embedding, output] = [11, 12].map(|seed| floats(seed, &[384, 64]));
    saved_copies(&mut tensors, "model.embed_tokens", &embedding);
    saved_copies(&mut tensors, "lm_head", &output);
    sandbox.write_tensors(WEIGHTS, &tensors);
    succeed(merge(&sandbox, &["-q"]));
    let merged = values(&sandbox, "out/merged.gguf");
    for (name, tensor) in [("token_embd.weight", &embedding), ("output.weight", &output)] {
        let expected: Vec<f32> =
            tensor.2.chunks_exact(4).map(|four| f32::from_le_bytes(four.try_into().unwrap())).collect();
        assert_eq!(merged[name], expected, "{name}");
    }
}

/// A base model, and an adapter with two more tokens and embeddings of 386 rows.
fn grown(saves_copies: bool) -> Sandbox {
    let sandbox = llama(&json!({}));
    let mut tensors = sandbox.tensors(WEIGHTS);
    for (module, seed) in [("model.embed_tokens", 21), ("lm_head", 22)] {
        let tensor = floats(seed, &[386, 64]);
        if saves_copies {
            saved_copies(&mut tensors, module, &tensor);
        } else {
            tensors.insert(format!("base_model.model.{module}.weight"), tensor);
        }
    }
    sandbox.write_tensors(WEIGHTS, &tensors);
    let files = fs::read_dir(sandbox.path("base")).unwrap();
    for file in files.map(|file| file.unwrap().file_name().into_string().unwrap()) {
        if file.contains("token") {
            fs::copy(sandbox.path("base").join(&file), sandbox.path("adapter").join(&file)).unwrap();
        }
    }
    sandbox.write("adapter/added_tokens.json", r#"{"<tool>": 384, "</tool>": 385}"#);
    sandbox.write("adapter/chat_template.jinja", "{{ messages[0].content }}");
    sandbox
}

#[test]
fn vocabulary_of_an_adapter_equals_a_resized_base() {
    for saves_copies in [true, false] {
        let sandbox = grown(saves_copies);
        let ran = merge(&sandbox, &[]);
        refused(&ran, &["expected 384 tokens as in `lm_head.weight`, found 386", "add --lora-tokenizer"]);
        succeed(merge(&sandbox, &["--lora-tokenizer", "-q"]));
        let have = sandbox.read("out/merged.gguf");
        let ran = merge(&sandbox, &["--lora-tokenizer"]);
        ran.says("its tokenizer and chat template are used");

        // The result of `resize_token_embeddings` and `save_pretrained` of model and tokenizer.
        let mut base = sandbox.tensors("base/model.safetensors");
        let mut tensors = sandbox.tensors(WEIGHTS);
        for module in ["model.embed_tokens", "lm_head"] {
            let name = format!("base_model.model.{module}.weight");
            base.insert(format!("{module}.weight"), tensors[&name].clone());
        }
        tensors.retain(|name, _| name.contains("lora_"));
        sandbox.write_tensors(WEIGHTS, &tensors);
        sandbox.write_tensors("base/model.safetensors", &base);
        sandbox.edit("base/config.json", "\"vocab_size\": 384", "\"vocab_size\": 386");
        for file in ["added_tokens.json", "chat_template.jinja"] {
            fs::rename(sandbox.path("adapter").join(file), sandbox.path("base").join(file)).unwrap();
        }
        succeed(merge(&sandbox, &["-q"]));
        assert!(have == sandbox.read("out/merged.gguf"), "{saves_copies}");
    }
    let sandbox = llama(&json!({}));
    refused(&merge(&sandbox, &["--lora-tokenizer"]), &["the adapter folder does not contain a tokenizer"]);
    let ran = sandbox.convert(&words("base out/x.gguf -t f32 --lora-tokenizer"));
    assert_eq!(ran.code, Some(2), "{}", ran.stderr);
}

#[test]
fn tokens_trained_on_a_resized_base_are_merged() {
    let sandbox = grown(false);
    let mut tensors = sandbox.tensors(WEIGHTS);
    let embedding = tensors.remove("base_model.model.model.embed_tokens.weight").unwrap();
    let module = "base_model.model.model.embed_tokens.token_adapter";
    let trained = floats(31, &[2, 64]);
    tensors.insert(format!("{module}.base_layer.weight"), embedding.clone());
    tensors.insert(format!("{module}.trainable_tokens_delta"), trained.clone());
    sandbox.write_tensors(WEIGHTS, &tensors);
    write_json(&sandbox, CONFIG, &config(&json!({"trainable_token_indices": {"embed_tokens": [384, 385]}})));
    succeed(merge(&sandbox, &["--lora-tokenizer", "-q"]));
    let expected = [&embedding.2[..384 * 64 * 4], &trained.2].concat();
    let have = &values(&sandbox, "out/merged.gguf")["token_embd.weight"];
    assert!(have.iter().flat_map(|value| value.to_le_bytes()).eq(expected));
}
