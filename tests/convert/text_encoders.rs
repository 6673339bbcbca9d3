//! Text encoders of diffusion models: folders of pipelines with the tokenizer next to them, and single files.

use std::fs;

use crate::common::{Sandbox, copy_folder, succeed, words};
use gguf_testkit::safetensors;

/// A sandbox with a golden as the second text encoder of a pipeline.
fn pipeline(golden: &str) -> Sandbox {
    let sandbox = Sandbox::with_golden(golden);
    fs::create_dir(sandbox.path("pipeline")).unwrap();
    copy_folder(&sandbox.path(golden), &sandbox.path("pipeline/text_encoder_2"));
    fs::create_dir(sandbox.path("pipeline/tokenizer_2")).unwrap();
    for file in ["spiece.model", "tokenizer_config.json"] {
        let from = sandbox.path("pipeline/text_encoder_2").join(file);
        fs::rename(from, sandbox.path("pipeline/tokenizer_2").join(file)).unwrap();
    }
    sandbox
}

#[test]
fn tokenizer_of_a_pipeline_is_found() {
    for golden in ["t5-encoder", "umt5-encoder", "mt5-encoder"] {
        let sandbox = pipeline(golden);
        succeed(sandbox.convert(&[golden, "out/whole.gguf", "-t", "bf16", "--model-name", "x"]));
        let ran = sandbox.convert(&words("pipeline/text_encoder_2 out/x.gguf -t bf16 --model-name x"));
        succeed(ran).says("note: the tokenizer files of the pipeline are read from `../tokenizer_2`");
        assert!(sandbox.read("out/x.gguf") == sandbox.read("out/whole.gguf"), "{golden}");
        // Without the folder next to it, the tokenizer is that of --config.
        fs::rename(sandbox.path("pipeline/tokenizer_2"), sandbox.path("other")).unwrap();
        let ran = sandbox.convert(&words("pipeline/text_encoder_2 out/y.gguf -t bf16"));
        ran.ends_and_says(1, "no tokenizer found");
        ran.says("hint: use --config DIR to read the tokenizer from another folder");
        let ran = sandbox
            .convert(&words("pipeline/text_encoder_2 out/y.gguf -t bf16 --model-name x --config other"));
        succeed(ran);
        assert!(sandbox.read("out/y.gguf") == sandbox.read("out/whole.gguf"), "{golden}");
    }
}

#[test]
fn single_files_need_only_a_tokenizer() {
    for golden in ["t5-encoder", "umt5-encoder"] {
        let sandbox = Sandbox::with_golden(golden);
        fs::copy(sandbox.path(golden).join("model.safetensors"), sandbox.path("xxl.safetensors")).unwrap();
        let whole = [golden, "out/whole.gguf", "-t", "bf16", "--model-name", "x"];
        succeed(sandbox.convert(&whole));
        let ran = sandbox.convert(&words("xxl.safetensors out/x.gguf -t bf16"));
        ran.ends_and_says(1, "xxl.safetensors: no tokenizer found");
        ran.says("hint: use --config DIR to read the tokenizer from another folder");
        // The tokenizer alone, so that sizes come from the tensors.
        fs::create_dir(sandbox.path("tokenizer")).unwrap();
        for file in ["spiece.model", "tokenizer_config.json"] {
            fs::copy(sandbox.path(golden).join(file), sandbox.path("tokenizer").join(file)).unwrap();
        }
        let ran =
            sandbox.convert(&words("xxl.safetensors out/x.gguf -t bf16 --model-name x --config tokenizer"));
        succeed(ran).says("note: missing config.json; sizes are those of the tensors");
        let [whole, single] = ["out/whole.gguf", "out/x.gguf"].map(|file| sandbox.file(file));
        let keys = |file: &gguf_container::File| {
            file.metadata().iter().map(|(key, _)| key.clone()).collect::<Vec<_>>()
        };
        assert_eq!(keys(&whole), keys(&single), "{golden}");
        for (key, value) in whole.metadata().iter() {
            assert_eq!(single.metadata().get(key), Some(value), "{golden} {key}");
        }
        assert!(sandbox.read("out/x.gguf") == sandbox.read("out/whole.gguf"), "{golden}");
        // The input is never overwritten.
        let ran =
            sandbox.convert(&words("xxl.safetensors xxl.safetensors -t bf16 --config tokenizer --force"));
        ran.ends_and_says(1, "is also the input");
    }
}

#[test]
fn single_files_may_hold_their_tokenizer() {
    let sandbox = Sandbox::with_golden("umt5-encoder");
    let spiece = sandbox.read("umt5-encoder/spiece.model");
    let mut tensors = sandbox.tensors("umt5-encoder/model.safetensors");
    tensors.insert("spiece_model".to_owned(), ("U8".to_owned(), vec![spiece.len() as u64], spiece));
    sandbox.write_tensors("umt5.safetensors", &tensors);
    let ran = sandbox.convert(&words("umt5.safetensors out/x.gguf -t f32"));
    succeed(ran).says("note: the tokenizer is read from tensor `spiece_model`");
    let file = sandbox.file("out/x.gguf");
    assert_eq!(file.metadata().get("tokenizer.ggml.model").and_then(|value| value.as_str()), Some("t5"));
}

#[test]
fn other_single_files_are_explained() {
    let sandbox = Sandbox::with_golden("qwen3");
    fs::copy(sandbox.path("qwen3/model.safetensors"), sandbox.path("qwen_3_4b.safetensors")).unwrap();
    let ran = sandbox.convert(&words("qwen_3_4b.safetensors out/x.gguf -t bf16"));
    ran.ends_and_says(1, "config.json");
    ran.says("hint: use --config DIR to read config.json and the tokenizer from a folder of the model");
    succeed(
        sandbox.convert(&words("qwen_3_4b.safetensors out/x.gguf -t bf16 --config qwen3 --model-name x")),
    );
    succeed(sandbox.convert(&words("qwen3 out/whole.gguf -t bf16 --model-name x")));
    assert!(sandbox.read("out/x.gguf") == sandbox.read("out/whole.gguf"));

    let clip = [("text_model.embeddings.token_embedding.weight", "F32", vec![2, 2], vec![0; 16])];
    sandbox.write("clip_l.safetensors", safetensors(clip));
    let ran = sandbox.convert(&words("clip_l.safetensors out/y.gguf -t f16"));
    ran.ends_and_says(1, "clip_l.safetensors: a text encoder of CLIP");
    ran.says("hint: ComfyUI and stable-diffusion.cpp read it as safetensors");
    sandbox.edit_json("qwen3/config.json", |config| config["architectures"] = vec!["CLIPTextModel"].into());
    let ran = sandbox.convert(&words("qwen3 out/y.gguf -t f16"));
    ran.ends_and_says(1, "CLIPTextModel");
    ran.says("hint: ComfyUI and stable-diffusion.cpp read the text encoders of CLIP as safetensors");
}
