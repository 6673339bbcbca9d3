//! Checkpoints with the names, modules and files that trainers and vendors write, and facts of their cards.

use std::{collections::BTreeMap, fs};

use serde_json::{Value as Json, json};

use crate::common::{Output, Sandbox, Tensors, copy_folder, floats, golden, succeed};

fn convert(sandbox: &Sandbox, folder: &str, more: &[&str]) -> Output {
    succeed(sandbox.convert(&[&[folder, "out.gguf", "-t", "bf16", "--force"], more].concat()))
}

/// Changes the weights of a checkpoint in a sandbox.
fn change(sandbox: &Sandbox, folder: &str, change: impl FnOnce(Tensors) -> Tensors) {
    let file = format!("{folder}/model.safetensors");
    let tensors = change(sandbox.tensors(&file));
    sandbox.write_tensors(&file, &tensors);
}

fn metadata(sandbox: &Sandbox) -> Json {
    succeed(sandbox.inspect(&["show", "out.gguf", "--json"])).json()["metadata"].clone()
}

/// Bytes of each tensor of `out.gguf`.
fn tensors(sandbox: &Sandbox) -> BTreeMap<String, Vec<u8>> {
    let file = sandbox.file("out.gguf");
    file.tensors().iter().map(|tensor| (tensor.name.clone(), file.data(tensor).unwrap().to_vec())).collect()
}

#[test]
fn files_with_other_weights_are_named() {
    let sandbox = Sandbox::with_golden("llama");
    // Clef has joint_head.safetensors, pplx-decider readout.safetensors (conversion/clef.py, pplx_decider.py of build 11549).
    let head = Tensors::from([("layers.0.linear1.weight".to_owned(), floats(1, &[8, 64]))]);
    sandbox.write_tensors("llama/joint_head.safetensors", &head);
    let copy: Tensors = sandbox.tensors("llama/model.safetensors").into_iter().take(2).collect();
    sandbox.write_tensors("llama/copy.safetensors", &copy);
    for name in ["extra.pt", "optimizer.bin", "training_args.bin"] {
        sandbox.write(&format!("llama/{name}"), "x");
    }
    sandbox.write("llama/score_bias.json", "{}");
    let ran = convert(&sandbox, "llama", &[]);
    ran.says("warning: `joint_head.safetensors` is not read, so its tensor is not in the output: `layers.0.linear1.weight`");
    ran.says(
        "warning: values of files that are not read are not in the output: `extra.pt`, `score_bias.json`\n",
    );
    assert!(!ran.stderr.contains("copy") && !ran.stderr.contains("optimizer"), "{}", ran.stderr);
}

/// transformers 5 runs EXAONE with Llama's classes and Sarvam with GLM's: it saves their names and config keys, and the weights'
/// own names.
#[test]
fn models_saved_as_those_of_another_family_are_the_same_file() {
    let exaone = [
        ("num_layers", "num_hidden_layers"),
        ("layer_norm_epsilon", "rms_norm_eps"),
        ("activation_function", "hidden_act"),
    ];
    let sarvam = [("num_experts", "n_routed_experts"), ("num_shared_experts", "n_shared_experts")];
    for (name, class, renamed) in
        [("exaone", "LlamaForCausalLM", &exaone[..]), ("sarvam-moe", "Glm4MoeForCausalLM", &sarvam)]
    {
        let sandbox = Sandbox::with_golden(name);
        convert(&sandbox, name, &[]);
        let want = sandbox.read("out.gguf");
        sandbox.edit_json(&format!("{name}/config.json"), |config| {
            let mut rope = config["rope_scaling"].take();
            if rope.is_null() {
                rope = json!({"rope_type": "default", "partial_rotary_factor": 1.0});
            }
            rope["rope_theta"] = config["rope_theta"].take();
            let old = config.as_object_mut().unwrap();
            for (theirs, saved) in renamed {
                let value = old.remove(*theirs).unwrap();
                old.insert((*saved).to_owned(), value);
            }
            old.retain(|key, _| !["rope_scaling", "rope_theta", "torch_dtype"].contains(&key.as_str()));
            let saved = json!({"architectures": [class], "attention_bias": false, "rope_parameters": rope,
                "dtype": "bfloat16", "transformers_version": "5.24.0"});
            old.extend(saved.as_object().unwrap().clone());
        });
        convert(&sandbox, name, &[]);
        assert!(sandbox.read("out.gguf") == want, "{name}");
    }
}

#[test]
fn inner_class_with_full_names_is_the_language_model() {
    for (name, class) in [("llama", "LlamaModel"), ("qwen3", "Qwen3Model"), ("qwen2vl", "Qwen2VLModel")] {
        let sandbox = Sandbox::with_golden(name);
        convert(&sandbox, name, &[]);
        let want = sandbox.read("out.gguf");
        sandbox.edit_json(&format!("{name}/config.json"), |config| config["architectures"] = json!([class]));
        let ran = convert(&sandbox, name, &[]);
        assert!(
            name == "qwen2vl" || ran.stderr.contains(&format!("note: `{class}` is an inner class")),
            "{}",
            ran.stderr
        );
        assert!(sandbox.read("out.gguf") == want, "{name}");
    }
}

#[test]
fn projector_of_inner_class_and_of_tower_below_language_model_is_the_usual() {
    let projector = |sandbox: &Sandbox, name: &str| {
        succeed(sandbox.convert(&["mmproj", name, "out.gguf", "-t", "f16", "--force"]));
        sandbox.read("out.gguf")
    };
    for (name, class) in
        [("qwen2vl", "Qwen2VLModel"), ("qwen3vl", "Qwen3VLModel"), ("qwen2.5vl", "Qwen2_5_VLModel")]
    {
        let sandbox = Sandbox::with_projector(name);
        let want = projector(&sandbox, name);
        sandbox.edit_json(&format!("{name}/config.json"), |config| config["architectures"] = json!([class]));
        assert!(projector(&sandbox, name) == want, "{name}: {class}");
        change(&sandbox, name, |tensors| {
            let below = |name: String| match name.split_once("visual.") {
                Some((_, rest)) => format!("model.language_model.visual.{rest}"),
                None => name,
            };
            tensors.into_iter().map(|(name, tensor)| (below(name), tensor)).collect()
        });
        assert!(projector(&sandbox, name) == want, "{name}: below the language model");
    }
    let sandbox = Sandbox::with_projector("qwen2vl");
    change(&sandbox, "qwen2vl", |tensors| {
        tensors
            .into_iter()
            .map(|(name, tensor)| (name.replace("visual.", "wrapped.visual."), tensor))
            .collect()
    });
    let ran = sandbox.convert(&["mmproj", "qwen2vl", "out.gguf", "-t", "f16", "--force"]);
    ran.ends_and_says(1, "looks like a part of a tower under an unknown prefix");
}

#[test]
fn omitted_tower_is_noted() {
    let sandbox = Sandbox::with_projector("qwen2vl");
    let note = "note: the file has only the text model: ";
    let ran = convert(&sandbox, "qwen2vl", &[]);
    ran.says(note);
    ran.says("--with-mmproj");
    let ran = convert(&sandbox, "qwen2vl", &["--with-mmproj"]);
    assert!(!ran.stderr.contains(note), "{}", ran.stderr);
    let ran = convert(&Sandbox::with_golden("llama"), "llama", &[]);
    assert!(!ran.stderr.contains(note), "{}", ran.stderr);
}

/// Matrix (rows, columns) of two-byte elements, transposed.
fn transposed(bytes: &[u8], n_rows: usize, n_columns: usize) -> Vec<u8> {
    let at = |row: usize, column: usize| 2 * (row * n_columns + column);
    (0..n_columns)
        .flat_map(|c| (0..n_rows).flat_map(move |r| bytes[at(r, c)..at(r, c) + 2].to_vec()))
        .collect()
}

#[test]
fn experts_of_gpt_oss_may_be_separate() {
    let sandbox = Sandbox::with_golden("gpt-oss");
    convert(&sandbox, "gpt-oss", &[]);
    let want = tensors(&sandbox);
    // Names of Unsloth's 4-bit checkpoints: (out, in) for each expert.
    change(&sandbox, "gpt-oss", |tensors| {
        let mut apart = Tensors::new();
        for (name, (dtype, shape, bytes)) in tensors {
            let stem = name.strip_suffix("_bias").unwrap_or(&name).to_owned();
            if !stem.ends_with("experts.down_proj") && !stem.ends_with("experts.gate_up_proj") {
                apart.insert(name.replace("mlp.router.", "mlp.router.linear."), (dtype, shape, bytes));
                continue;
            }
            let n_bytes = bytes.len() / shape[0] as usize;
            for (expert, bytes) in bytes.chunks(n_bytes).enumerate() {
                let (ending, shape, bytes) = match shape[1..] {
                    [n_in, n_out] => {
                        ("weight", vec![n_out, n_in], transposed(bytes, n_in as usize, n_out as usize))
                    }
                    _ => ("bias", shape[1..].to_vec(), bytes.to_vec()),
                };
                apart.insert(format!("{stem}s.{expert}.{ending}"), (dtype.clone(), shape, bytes));
            }
        }
        apart
    });
    convert(&sandbox, "gpt-oss", &[]);
    assert!(tensors(&sandbox) == want);
}

#[test]
fn modules_of_sentence_transformers_are_written_or_named() {
    let usual = || Sandbox::with_golden("bert");
    for module in ["LayerNorm", "WeightedLayerPooling", "LSTM"] {
        let sandbox = usual();
        sandbox.edit_json("bert/modules.json", |modules| {
            let module = format!("sentence_transformers.models.{module}");
            modules
                .as_array_mut()
                .unwrap()
                .push(json!({"idx": 2, "name": "2", "path": "2_X", "type": module}));
        });
        convert(&sandbox, "bert", &[])
            .says(&format!("warning: module `2_X` (`{module}`) of modules.json is omitted"));
    }
    // Modes that are concatenated, and one that llama.cpp does not have.
    for (modes, found) in [
        (
            json!({"pooling_mode_mean_tokens": true, "pooling_mode_cls_token": true}),
            "`mean_tokens`, `cls_token`",
        ),
        (json!({"pooling_mode_max_tokens": true}), "`max_tokens`"),
        (json!({"pooling_mode": ["mean", "max"]}), "`mean`, `max`"),
    ] {
        let sandbox = usual();
        sandbox.write("bert/1_Pooling/config.json", modes.to_string());
        let ran = sandbox.convert(&["bert", "out.gguf", "-t", "bf16"]);
        let text = format!(
            "`1_Pooling/config.json`: expected one pooling mode of mean, cls and lasttoken, found {found}"
        );
        ran.ends_and_says(1, &text);
    }
    // Without modules, another file states the mode.
    let sandbox = usual();
    fs::remove_file(sandbox.path("bert/modules.json")).unwrap();
    sandbox.write("bert/embedding_config.json", json!({"pooling": "last_token"}).to_string());
    convert(&sandbox, "bert", &[]);
    assert_eq!(metadata(&sandbox)["bert.pooling_type"]["value"], json!(3));
    sandbox.write("bert/embedding_config.json", json!({"pooling": "mean"}).to_string());
    let text = "`embedding_config.json`: key `pooling`: expected last_token, found \"mean\"";
    sandbox.convert(&["bert", "other.gguf", "-t", "bf16"]).ends_and_says(1, text);
    // Text is converted to lower case before the tokenizer.
    let sandbox = usual();
    sandbox.write("bert/sentence_bert_config.json", json!({"do_lower_case": true}).to_string());
    sandbox.edit_json("bert/tokenizer.json", |tokenizer| tokenizer["normalizer"]["lowercase"] = json!(false));
    convert(&sandbox, "bert", &[]).says("warning: `do_lower_case` is true");
    assert_eq!(metadata(&sandbox)["tokenizer.ggml.normalizer.lowercase"]["value"], json!(true));
    // Releases before 2.0 have the model in a subfolder.
    let sandbox = usual();
    convert(&sandbox, "bert", &["--model-name", "old"]);
    let want = sandbox.read("out.gguf");
    fs::create_dir(sandbox.path("old")).unwrap();
    for name in ["modules.json", "1_Pooling"] {
        fs::rename(sandbox.path(&format!("bert/{name}")), sandbox.path(&format!("old/{name}"))).unwrap();
    }
    fs::rename(sandbox.path("bert"), sandbox.path("old/0_BERT")).unwrap();
    sandbox.edit_json("old/modules.json", |modules| modules[0]["path"] = json!("0_BERT"));
    for folder in ["old", "old/0_BERT"] {
        convert(&sandbox, folder, &["--model-name", "old"]);
        assert_eq!(metadata(&sandbox)["bert.pooling_type"]["value"], json!(1), "{folder}");
    }
    convert(&sandbox, "old", &["--model-name", "old"]);
    assert!(sandbox.read("out.gguf") == want);
}

#[test]
fn local_paths_of_the_card_are_omitted() {
    for path in [
        "/home/user/secret-run-7",
        "../secret",
        "~/secret",
        "C:\\\\secret",
        "runs/a/secret",
        "file:///secret",
    ] {
        let sandbox = Sandbox::with_golden("llama");
        let card = format!("---\nbase_model: \"{path}\"\ndatasets:\n- \"{path}\"\n- org/public\n---\n");
        sandbox.write("llama/README.md", card);
        convert(&sandbox, "llama", &[]).says("local paths of the model card are omitted");
        let metadata = metadata(&sandbox);
        assert!(!metadata.to_string().to_lowercase().contains("secret"), "{path}: {metadata}");
        assert_eq!(metadata["general.dataset.count"]["value"], json!(1), "{path}");
        assert!(metadata["general.base_model.count"].is_null(), "{path}");
    }
}

#[test]
fn params_without_length_get_one() {
    let sandbox = Sandbox::new();
    fs::create_dir(sandbox.path("out")).unwrap();
    copy_folder(&golden("torch/mistral-spm"), &sandbox.path("m"));
    fs::copy(golden("torch/tokenizer.model"), sandbox.path("m/tokenizer.model.v3")).unwrap();
    sandbox.edit_json("m/params.json", |params| {
        params.as_object_mut().unwrap().retain(|key, _| !key.contains("max") && key != "yarn");
    });
    let ran = convert(&sandbox, "m", &[]);
    assert_eq!(metadata(&sandbox)["llama.context_length"]["value"], json!(32_768));
    assert!(!ran.stderr.contains("will not load"), "{}", ran.stderr);
    // The file of the trainer of the same name.
    let pair = Tensors::from([("layers.0.attention.wq.lora_A.weight".to_owned(), floats(1, &[4, 64]))]);
    fs::remove_file(sandbox.path("m/consolidated.safetensors")).unwrap();
    sandbox.write_tensors("m/lora.safetensors", &pair);
    let ran = sandbox.convert(&["m", "out.gguf", "--type", "bf16", "--force"]);
    ran.ends_and_says(1, "a LoRA of mistral-finetune");
}
