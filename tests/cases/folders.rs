//! Model folders as people have them: leftovers of earlier saves, of training and of wrappers, and broken downloads.

use std::fs;

use serde_json::Value as Json;

use crate::common::{Output, Sandbox, Tensors, floats, golden, succeed, words};

const WEIGHTS: &str = "llama/model.safetensors";
const INDEX: &str = "llama/model.safetensors.index.json";
const POINTER: &str = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 12345678\n";

/// The bytes of `out.gguf` and what the conversion of `folder` printed.
fn convert(sandbox: &Sandbox, folder: &str) -> (Vec<u8>, Output) {
    let ran = succeed(sandbox.convert(&[folder, "out.gguf", "-t", "bf16", "--force"]));
    (sandbox.read("out.gguf"), ran)
}

/// A sandbox with `golden/arch/NAME` and the file that it becomes.
fn usual(name: &str) -> (Sandbox, Vec<u8>) {
    let sandbox = Sandbox::with_golden(name);
    let (bytes, _) = convert(&sandbox, name);
    (sandbox, bytes)
}

/// Changes the weights of `golden/arch/NAME` in a sandbox.
fn change(sandbox: &Sandbox, name: &str, change: impl FnOnce(Tensors) -> Tensors) {
    let file = format!("{name}/model.safetensors");
    let tensors = change(sandbox.tensors(&file));
    sandbox.write_tensors(&file, &tensors);
}

/// Asserts that a conversion is refused with all of these texts.
#[track_caller]
fn refused(sandbox: &Sandbox, folder: &str, texts: &[&str]) {
    let ran = sandbox.convert(&[folder, "out.gguf", "-t", "bf16", "--force"]);
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    for text in texts {
        assert!(ran.stderr.contains(text), "`{text}` is not in {}", ran.stderr);
    }
    assert!(!ran.stderr.contains("a different architecture"), "{}", ran.stderr);
}

/// All names with another beginning.
fn renamed(tensors: Tensors, rename: impl Fn(&str) -> String) -> Tensors {
    tensors.into_iter().map(|(name, tensor)| (rename(&name), tensor)).collect()
}

#[test]
fn names_without_prefix_give_the_usual_file() {
    for (name, prefix) in
        [("qwen3", "model."), ("llama", "model."), ("phi3", "model."), ("gptneox", "gpt_neox.")]
    {
        let (sandbox, want) = usual(name);
        change(&sandbox, name, |tensors| {
            renamed(tensors, |name| name.strip_prefix(prefix).unwrap_or(name).to_owned())
        });
        let (have, ran) = convert(&sandbox, name);
        ran.says(&format!("note: tensor names lack the prefix `{prefix}`"));
        assert!(have == want, "{name}");
    }
}

#[test]
fn quantized_names_without_prefix_give_the_usual_file() {
    let sandbox = Sandbox::with_form("gptq-4bit");
    let (want, _) = convert(&sandbox, "gptq-4bit");
    change(&sandbox, "gptq-4bit", |tensors| {
        renamed(tensors, |name| name.strip_prefix("model.").unwrap_or(name).to_owned())
    });
    assert!(convert(&sandbox, "gptq-4bit").0 == want);
}

#[test]
fn names_with_wrapper_parts_give_usual_file() {
    let (sandbox, want) = usual("llama");
    let original = sandbox.tensors(WEIGHTS);
    for (of, wrap) in [
        ("`_orig_mod` of torch.compile", (|name| format!("_orig_mod.{name}")) as fn(&str) -> String),
        ("`module` of DistributedDataParallel", |name| format!("module.{name}")),
        ("`_orig_mod` of torch.compile, `module` of", |name| format!("module._orig_mod.{name}")),
        ("`_fsdp_wrapped_module` of FSDP", |name| format!("_fsdp_wrapped_module.{name}")),
        ("`base_model.model` of PEFT", |name| format!("base_model.model.{name}")),
        ("start with `policy.`", |name| format!("policy.{name}")),
        ("start with `model.`", |name| format!("model.{name}")),
        ("`pretrained_model` of TRL", |name| format!("pretrained_model.{name}")),
        ("`_checkpoint_wrapped_module` of activation checkpointing", |name| {
            name.replace(".0.", ".0._checkpoint_wrapped_module.")
        }),
    ] {
        sandbox.write_tensors(WEIGHTS, &renamed(original.clone(), wrap));
        let (have, ran) = convert(&sandbox, "llama");
        assert!(ran.stderr.contains(of), "`{of}` is not in {}", ran.stderr);
        assert!(have == want, "{of}");
    }
}

#[test]
fn model_next_to_an_adapter_is_converted() {
    let (sandbox, want) = usual("llama");
    sandbox.write("llama/adapter_config.json", r#"{"base_model_name_or_path": "someone/base"}"#);
    sandbox.write("llama/adapter_model.safetensors", "");
    let (have, ran) = convert(&sandbox, "llama");
    ran.says("note: the folder contains a model and an adapter");
    assert!(have == want);
}

#[test]
fn leftovers_of_earlier_save_are_ignored() {
    let (sandbox, want) = usual("llama");
    let names = sandbox.tensors(WEIGHTS).into_keys();
    let map = names.map(|name| (name, Json::from("model-00001-of-00002.safetensors")));
    let index = serde_json::json!({"weight_map": map.collect::<serde_json::Map<_, _>>()});
    sandbox.write(INDEX, index.to_string());
    let (have, ran) = convert(&sandbox, "llama");
    ran.says("note: weights are read from `model.safetensors`; ignored");
    assert!(have == want);
    // One of two shards of an earlier save, without an index.
    fs::remove_file(sandbox.path(INDEX)).unwrap();
    fs::copy(sandbox.path(WEIGHTS), sandbox.path("llama/model-00002-of-00002.safetensors")).unwrap();
    let (have, ran) = convert(&sandbox, "llama");
    ran.says("ignored: shards of an earlier save");
    assert!(have == want);
    // An index alone, next to pickles.
    let pickled = Sandbox::new();
    crate::common::copy_folder(&golden("torch/bin"), &pickled.path("model"));
    for file in ["tokenizer.model", "tokenizer_config.json"] {
        fs::copy(golden("arch/llama").join(file), pickled.path("model").join(file)).unwrap();
    }
    let (want, _) = convert(&pickled, "model");
    pickled.write("model/model.safetensors.index.json", index.to_string());
    assert!(convert(&pickled, "model").0 == want);
}

#[test]
fn index_beyond_the_only_file_is_refused() {
    let (sandbox, _) = usual("llama");
    let map = serde_json::json!({"weight_map": {"a.weight": "model-00001-of-00002.safetensors",
        "b.weight": "model-00002-of-00002.safetensors"}});
    sandbox.write(INDEX, map.to_string());
    refused(&sandbox, "llama", &["missing weight file `model-00001-of-00002.safetensors`"]);
}

#[test]
fn tied_embedding_saved_as_the_output_is_read() {
    let (sandbox, want) = usual("gemma2");
    change(&sandbox, "gemma2", |tensors| {
        renamed(tensors, |name| name.replace("model.embed_tokens", "lm_head"))
    });
    let (have, ran) = convert(&sandbox, "gemma2");
    ran.says("note: `lm_head.weight` is tied to the embedding");
    assert!(have == want);
}

#[test]
fn config_without_architectures_is_read_by_model_type() {
    let (sandbox, want) = usual("qwen3");
    for value in [None, Some(Json::Null)] {
        sandbox.edit_json("qwen3/config.json", |config| {
            let config = config.as_object_mut().unwrap();
            config.remove("architectures");
            config.extend(value.map(|value| ("architectures".to_owned(), value)));
        });
        let (have, ran) = convert(&sandbox, "qwen3");
        ran.says("note: missing `architectures` in config.json");
        assert!(have == want);
    }
    sandbox.edit_json("qwen3/config.json", |config| config["model_type"] = "unheard_of".into());
    refused(
        &sandbox,
        "qwen3",
        &["missing key `architectures`; matching tensor names: ", "hint: try `--arch-as qwen3`"],
    );
}

#[test]
fn gptq_weights_named_by_auto_gptq_are_read() {
    let sandbox = Sandbox::with_form("gptq-4bit");
    let (want, _) = convert(&sandbox, "gptq-4bit");
    fs::rename(
        sandbox.path("gptq-4bit/model.safetensors"),
        sandbox.path("gptq-4bit/gptq_model-4bit-128g.safetensors"),
    )
    .unwrap();
    assert!(convert(&sandbox, "gptq-4bit").0 == want);
}

#[test]
fn hint_prefers_the_architecture_of_model_type() {
    let (sandbox, _) = usual("llama");
    sandbox
        .edit_json("llama/config.json", |config| config["architectures"][0] = "PeftModelForCausalLM".into());
    refused(&sandbox, "llama", &["hint: try `--arch-as llama`"]);
    let ran = sandbox.convert(&words("llama out.gguf -t bf16 --force --arch-as qwen2"));
    ran.says("`model_type` `llama`");
    let ran = sandbox.convert(&words("llama out.gguf -t bf16 --force --arch-as llama"));
    assert!(!ran.stderr.contains("model_type"), "{}", ran.stderr);
}

#[test]
fn classifiers_are_named_as_such() {
    for (class, head) in [
        ("Qwen3ForSequenceClassification", "score.weight"),
        ("Qwen3ForTokenClassification", "score.weight"),
        ("Qwen3ForRewardModel", "v_head.weight"),
        ("GPTRewardModel", "v_head.weight"),
        ("LlamaForScore", "score_head.weight"),
        ("SomethingElse", "regression_layer.weight"),
    ] {
        let sandbox = Sandbox::with_golden("qwen3");
        sandbox.edit_json("qwen3/config.json", |config| config["architectures"][0] = class.into());
        change(&sandbox, "qwen3", |mut tensors| {
            tensors.remove("lm_head.weight");
            tensors.insert(head.to_owned(), floats(1, &[1, 8]));
            tensors
        });
        refused(&sandbox, "qwen3", &[&format!("`{class}`: a classifier or reward model"), head]);
    }
}

#[test]
fn leftovers_of_training_in_a_model_are_named() {
    let (sandbox, want) = usual("llama");
    let original = sandbox.tensors(WEIGHTS);
    let with = |names: &[&str]| {
        let mut tensors = original.clone();
        tensors.extend(names.iter().map(|name| ((*name).to_owned(), floats(1, &[4, 4]))));
        sandbox.write_tensors(WEIGHTS, &tensors);
    };
    with(&["v_head.summary.weight", "v_head.summary.bias"]);
    let (have, ran) = convert(&sandbox, "llama");
    ran.says("value head `v_head.summary.bias`");
    assert!(have == want);
    let query = "model.layers.0.self_attn.q_proj";
    with(&[&format!("{query}.lora_A.default.weight"), &format!("{query}.lora_B.default.weight")]);
    refused(&sandbox, "llama", &["unmerged adapter (LoRA", "merge_and_unload()"]);
    let wrapped = renamed(original.clone(), |name| {
        format!("base_model.model.{}", name.replace("q_proj.weight", "q_proj.base_layer.weight"))
    });
    sandbox.write_tensors(WEIGHTS, &wrapped);
    refused(&sandbox, "llama", &["unmerged adapter (LoRA", "q_proj.base_layer.weight"]);
    let mut more = original.clone();
    for (name, tensor) in &original {
        more.insert(name.replace("layers.1.", "layers.2."), tensor.clone());
    }
    sandbox.write_tensors(WEIGHTS, &more);
    refused(
        &sandbox,
        "llama",
        &["the weights have layers 0 to 2, but `num_hidden_layers` in config.json is 2"],
    );
}

#[test]
fn empty_tensors_of_a_model_name_zero3() {
    for name in ["model.embed_tokens.weight", "model.norm.weight", "model.layers.1.mlp.up_proj.weight"] {
        let sandbox = Sandbox::with_golden("llama");
        change(&sandbox, "llama", |mut tensors| {
            tensors.insert(name.to_owned(), ("BF16".to_owned(), vec![0], Vec::new()));
            tensors
        });
        refused(&sandbox, "llama", &["error: llama: 1 tensor without data", name, "zero_to_fp32.py"]);
    }
}

#[test]
fn folders_of_training_name_the_weights_below() {
    let sandbox = Sandbox::with_golden("llama");
    let write = |file: &str| {
        let path = sandbox.path(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "").unwrap();
    };
    for step in ["9", "500", "1000"] {
        let folder = format!("trained/checkpoint-{step}");
        crate::common::copy_folder(&sandbox.path("llama"), &sandbox.path(&folder));
    }
    refused(&sandbox, "trained", &["`checkpoint-1000` has weights"]);
    for (file, format) in [
        ("deepspeed/global_step100/zero_pp_rank_0_mp_rank_00_model_states.pt", "DeepSpeed"),
        ("fsdp/pytorch_model_fsdp_0/__0_0.distcp", "FSDP"),
        ("verl/global_step_100/actor/model_world_size_2_rank_0.pt", "verl"),
        ("verl2/model_world_size_2_rank_0.pt", "verl"),
        ("both/checkpoint-7/global_step7/mp_rank_00_model_states.pt", "DeepSpeed"),
    ] {
        write(file);
        let folder = file.split('/').next().unwrap();
        fs::copy(sandbox.path("llama/config.json"), sandbox.path(folder).join("config.json")).unwrap();
        refused(&sandbox, folder, &[&format!("weights in the training state of {format}"), "hint: "]);
    }
}

#[test]
fn tokens_without_a_row_are_named() {
    for (name, found) in [
        ("llama", "; tokens without a row: `"),
        // Its last row has no token: `vocab_size` is too large then.
        ("qwen3", "hint: if the tokens without a row are unused, set `vocab_size`"),
    ] {
        let sandbox = Sandbox::with_golden(name);
        let mut n_rows = 0;
        change(&sandbox, name, |mut tensors| {
            for end in ["model.embed_tokens.weight", "lm_head.weight"] {
                let Some((_, shape, bytes)) = tensors.get_mut(end) else { continue };
                let row_bytes = bytes.len() / shape[0] as usize;
                shape[0] -= 1;
                bytes.truncate(bytes.len() - row_bytes);
                n_rows = shape[0];
            }
            tensors
        });
        refused(&sandbox, name, &[&format!("embedding has {n_rows} rows"), found]);
    }
}

#[test]
fn small_lfs_pointers_are_named() {
    for file in ["config.json", "tokenizer.model", "tokenizer_config.json", "generation_config.json"] {
        let sandbox = Sandbox::with_golden("llama");
        fs::write(sandbox.path("llama").join(file), POINTER).unwrap();
        refused(&sandbox, "llama", &[&format!("`{file}` is a Git LFS pointer"), "git lfs pull"]);
    }
}
