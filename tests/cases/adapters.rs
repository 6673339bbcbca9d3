//! LoRA adapters: unusable configs, scales, names of other releases, other tools.

use std::{collections::BTreeMap, fs};

use serde_json::{Value as Json, json};

use crate::common::{Output, Sandbox, Tensors, copy_folder, floats, succeed, words};

pub const WEIGHTS: &str = "adapter/adapter_model.safetensors";
pub const CONFIG: &str = "adapter/adapter_config.json";
const QUERY: &str = "base_model.model.model.layers.0.self_attn.q_proj";
const VALUE: &str = "base_model.model.model.layers.0.self_attn.v_proj";

/// The pair of a module `[n_outputs, n_inputs]`, with its name in front of `.lora_A.weight`. The values depend on the last part
/// of the name alone.
fn pair(name: &str, rank: u64, [n_outputs, n_inputs]: [u64; 2]) -> Tensors {
    let seed = name.rsplit('.').next().unwrap().bytes().map(u64::from).sum::<u64>() + rank;
    Tensors::from([
        (format!("{name}.lora_A.weight"), floats(seed, &[rank, n_inputs])),
        (format!("{name}.lora_B.weight"), floats(seed + 1, &[n_outputs, rank])),
    ])
}

pub fn write_json(sandbox: &Sandbox, file: &str, value: &Json) {
    fs::create_dir_all(sandbox.path(file).parent().unwrap()).unwrap();
    sandbox.write(file, serde_json::to_vec(value).unwrap());
}

/// A LoRA config of rank 4 and alpha 16 with further keys.
pub fn config(more: &Json) -> Json {
    let mut config = json!({"peft_type": "LORA", "r": 4, "lora_alpha": 16, "init_lora_weights": true});
    config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    config
}

/// A Llama as `base` and an adapter of two of its matrices, (96, 64) and (48, 64).
pub fn llama(more: &Json) -> Sandbox {
    let sandbox = Sandbox::new();
    copy_folder(&gguf_testkit::checkpoint("llama-head-dim"), &sandbox.path("base"));
    fs::create_dir(sandbox.path("out")).unwrap();
    let mut tensors = pair(QUERY, 4, [96, 64]);
    tensors.extend(pair(VALUE, 4, [48, 64]));
    sandbox.write_tensors(WEIGHTS, &tensors);
    write_json(&sandbox, CONFIG, &config(more));
    sandbox
}

pub fn merge(sandbox: &Sandbox, more: &[&str]) -> Output {
    sandbox
        .convert(&[&["base", "out/merged.gguf", "-t", "f32", "--lora", "adapter", "--force"], more].concat())
}

fn adapter_file(sandbox: &Sandbox) -> Output {
    sandbox.convert(&words("adapter adapter out/adapter.gguf --base base --force"))
}

/// The tensors of a GGUF file, as f32.
pub fn values(sandbox: &Sandbox, file: &str) -> BTreeMap<String, Vec<f32>> {
    let file = sandbox.file(file);
    let read = |tensor: &gguf_container::TensorInfo| {
        let bytes = file.data(tensor).unwrap();
        let values = bytes.chunks_exact(4).map(|four| f32::from_le_bytes(four.try_into().unwrap())).collect();
        (tensor.name.clone(), values)
    };
    file.tensors().iter().map(read).collect()
}

fn alpha(sandbox: &Sandbox) -> f32 {
    let file = sandbox.file("out/adapter.gguf");
    match file.metadata().get("adapter.lora.alpha") {
        Some(gguf_container::Value::F32(alpha)) => *alpha,
        other => panic!("{other:?}"),
    }
}

#[track_caller]
pub fn refused(ran: &Output, parts: &[&str]) {
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    for part in parts {
        assert!(ran.stderr.contains(part), "{part}: {}", ran.stderr);
    }
}

#[test]
fn adapters_of_changed_bases_are_refused() {
    for start in ["pissa", "pissa_niter_16", "olora", "corda", "loftq", "lora_ga"] {
        let sandbox = llama(&json!({"init_lora_weights": start}));
        for ran in [merge(&sandbox, &[]), adapter_file(&sandbox)] {
            refused(&ran, &["`init_lora_weights` is ", start, "path_initial_model_for_weight_conversion"]);
        }
        assert!(sandbox.outputs().is_empty());
    }
    for more in [
        json!({"layer_replication": [[0, 1]]}),
        json!({"use_qalora": true}),
        json!({"arrow_config": {"top_k": 2}}),
        json!({"peft_type": "LOHA"}),
        json!({"alpha_pattern": {"(q_proj": 1}}),
    ] {
        let sandbox = llama(&more);
        let key = more.as_object().unwrap().keys().next().unwrap();
        for ran in [merge(&sandbox, &[]), adapter_file(&sandbox)] {
            refused(&ran, &["`adapter_config.json`: ", key]);
        }
    }
    // PEFT lowers the case of some names. MiCA takes B from the base model's weights and leaves these alone.
    for start in ["gaussian", "Gaussian", "eva", "orthogonal", "mica", "MiCA"]
        .map(Json::from)
        .into_iter()
        .chain([json!(true), json!(false)])
    {
        let sandbox = llama(&json!({"init_lora_weights": start}));
        succeed(merge(&sandbox, &["-q"]));
        succeed(adapter_file(&sandbox));
    }
}

#[test]
fn adapters_that_only_merge_point_to_the_merge() {
    for more in [
        json!({"use_dora": true}),
        json!({"target_parameters": ["mlp.experts.down_proj"]}),
        json!({"trainable_token_indices": [3]}),
    ] {
        let sandbox = llama(&more);
        let key = more.as_object().unwrap().keys().next().unwrap();
        refused(&adapter_file(&sandbox), &[key, "hint: merge the adapter into its base model instead"]);
    }
}

/// `alpha / rank * B` of a file is PEFT's scaling times B: the scale that runtimes apply.
#[track_caller]
fn assert_scaled(sandbox: &Sandbox, matrix: &str, module: &str, rank: u64, scaling: f32) {
    let source = sandbox.tensors(WEIGHTS);
    let expected: Vec<f32> = source[&format!("{module}.lora_B.weight")]
        .2
        .chunks_exact(4)
        .map(|four| f32::from_le_bytes(four.try_into().unwrap()) * scaling)
        .collect();
    let have = &values(sandbox, "out/adapter.gguf")[&format!("{matrix}.lora_b")];
    let have: Vec<f32> = have.iter().map(|value| value * (alpha(sandbox) / rank as f32)).collect();
    assert_eq!(have, expected, "{matrix}");
}

#[test]
fn adapter_file_alpha_is_pefts_scale() {
    const VALUE_ROWS: &str = "blk.0.attn_v.weight";
    // rsLoRA: lora_alpha / sqrt(r).
    let sandbox = llama(&json!({"use_rslora": true}));
    assert!(!succeed(adapter_file(&sandbox)).stderr.contains("rslora"));
    assert_eq!(alpha(&sandbox), 32.0);
    assert_scaled(&sandbox, VALUE_ROWS, VALUE, 4, 8.0);
    // A pattern for some matrices, for all, and one for another matrix.
    let sandbox = llama(&json!({"alpha_pattern": {"v_proj": 64}}));
    succeed(adapter_file(&sandbox));
    assert_eq!(alpha(&sandbox), 16.0);
    assert_scaled(&sandbox, VALUE_ROWS, VALUE, 4, 16.0);
    let sandbox = llama(&json!({"alpha_pattern": {"v_proj": 64, "q_proj": 64}}));
    succeed(adapter_file(&sandbox));
    assert_eq!(alpha(&sandbox), 64.0);
    assert_scaled(&sandbox, VALUE_ROWS, VALUE, 4, 16.0);
    let sandbox = llama(&json!({"alpha_pattern": {"k_proj": 64}}));
    succeed(adapter_file(&sandbox));
    assert_eq!(alpha(&sandbox), 16.0);
    // An alpha of 0 is a missing one for runtimes.
    let sandbox = llama(&json!({"lora_alpha": 0}));
    succeed(adapter_file(&sandbox));
    assert_ne!(alpha(&sandbox), 0.0);
    assert_scaled(&sandbox, VALUE_ROWS, VALUE, 4, 0.0);
    // Ranks of both, alone and with rsLoRA and a separate alpha.
    for (more, plain, scaling) in [
        (json!({"rank_pattern": {"v_proj": 16}}), 16.0, 1.0),
        (json!({"rank_pattern": {"v_proj": 16}, "use_rslora": true}), 16.0, 4.0),
        (
            json!({"rank_pattern": {"v_proj": 16}, "use_rslora": true, "alpha_pattern": {"v_proj": 2}}),
            16.0,
            0.5,
        ),
    ] {
        let sandbox = llama(&more);
        let mut tensors = pair(QUERY, 4, [96, 64]);
        tensors.extend(pair(VALUE, 16, [48, 64]));
        sandbox.write_tensors(WEIGHTS, &tensors);
        succeed(adapter_file(&sandbox));
        assert_eq!(alpha(&sandbox), plain, "{more}");
        assert_scaled(&sandbox, VALUE_ROWS, VALUE, 16, scaling);
    }
}

/// Renames the tensors of a safetensors file.
fn rename(sandbox: &Sandbox, file: &str, from: &str, to: &str) {
    let tensors = sandbox.tensors(file);
    assert!(tensors.keys().any(|name| name.contains(from)), "{from}");
    let renamed = tensors.into_iter().map(|(name, tensor)| (name.replacen(from, to, 1), tensor)).collect();
    sandbox.write_tensors(file, &renamed);
}

#[test]
fn adapter_names_of_every_release_resolve() {
    let sandbox = llama(&json!({}));
    succeed(merge(&sandbox, &["-q"]));
    succeed(adapter_file(&sandbox));
    let expected = ["out/merged.gguf", "out/adapter.gguf"].map(|file| values(&sandbox, file));
    for name in [
        "model.language_model.layers",
        "language_model.model.layers",
        "layers",
        "model.model.layers",
        "_orig_mod.model.layers",
    ] {
        let sandbox = llama(&json!({}));
        rename(&sandbox, WEIGHTS, "base_model.model.model.layers", &format!("base_model.model.{name}"));
        succeed(merge(&sandbox, &["-q"]));
        succeed(adapter_file(&sandbox));
        let have = ["out/merged.gguf", "out/adapter.gguf"].map(|file| values(&sandbox, file));
        assert_eq!(have, expected, "{name}");
        // By its config alone.
        fs::remove_file(sandbox.path("base/model.safetensors")).unwrap();
        succeed(adapter_file(&sandbox));
        assert_eq!(values(&sandbox, "out/adapter.gguf"), expected[1], "{name}");
    }
    // The adapter name that `save_pretrained` removes.
    let sandbox = llama(&json!({}));
    for half in ["lora_A", "lora_B"] {
        let tensors = sandbox.tensors(WEIGHTS);
        let named = |name: String| name.replace(&format!("{half}.weight"), &format!("{half}.default.weight"));
        let tensors = tensors.into_iter().map(|(name, tensor)| (named(name), tensor)).collect();
        sandbox.write_tensors(WEIGHTS, &tensors);
    }
    for (ran, file, expected) in [
        (merge(&sandbox, &[]), "out/merged.gguf", &expected[0]),
        (adapter_file(&sandbox), "out/adapter.gguf", &expected[1]),
    ] {
        assert!(ran.code == Some(0) && ran.stderr.contains("adapter name `default`"), "{}", ran.stderr);
        assert_eq!(&values(&sandbox, file), expected);
    }
    rename(&sandbox, WEIGHTS, "q_proj.lora_A.default", "q_proj.lora_A.second");
    for ran in [merge(&sandbox, &[]), adapter_file(&sandbox)] {
        refused(&ran, &["the file contains 2 adapters: `default`, `second`"]);
    }
}

/// Gemma 3 with its vision tower, and an adapter of a text and of a vision matrix under the given names.
fn gemma3(text: &str, vision: &str) -> Sandbox {
    let sandbox = Sandbox::with_projector("gemma3");
    fs::rename(sandbox.path("gemma3"), sandbox.path("base")).unwrap();
    let base = sandbox.tensors("base/model.safetensors");
    let mut tensors = Tensors::new();
    for (end, name) in [("language_model.model.layers.0.mlp.up_proj.weight", text), (VISION, vision)] {
        let shape = &base.iter().find(|(name, _)| name.ends_with(end)).unwrap().1.1;
        tensors.extend(pair(&format!("base_model.model.{name}"), 4, [shape[0], shape[1]]));
    }
    sandbox.write_tensors(WEIGHTS, &tensors);
    write_json(&sandbox, CONFIG, &config(&json!({})));
    sandbox
}

const VISION: &str = "vision_tower.encoder.layers.0.self_attn.q_proj.weight";

#[test]
fn vision_pairs_merge_in_every_spelling() {
    let merged = |text: &str, vision: &str, published: bool| {
        let sandbox = gemma3(text, vision);
        if published {
            rename(&sandbox, "base/model.safetensors", "vision_tower.", "vision_tower.vision_model.");
        }
        let projector = merge(&sandbox, &["--with-mmproj", "-q"]);
        assert_eq!(projector.code, Some(0), "{text} {vision}: {}", projector.stderr);
        let mut files = sandbox.outputs();
        files.sort();
        assert_eq!(files.len(), 2);
        files.iter().map(|file| values(&sandbox, &format!("out/{file}"))).collect::<Vec<_>>()
    };
    let text = "language_model.model.layers.0.mlp.up_proj";
    let vision = VISION.trim_end_matches(".weight");
    let expected = merged(text, vision, false);
    let older = "model.vision_tower.vision_model.encoder.layers.0.self_attn.q_proj";
    for (text, vision) in [
        (text, older),
        ("model.language_model.layers.0.mlp.up_proj", vision),
        ("model.layers.0.mlp.up_proj", "model.vision_tower.encoder.layers.0.self_attn.q_proj"),
    ] {
        for published in [false, true] {
            assert!(merged(text, vision, published) == expected, "{text} {vision} {published}");
        }
    }
}

#[test]
fn vision_pairs_of_adapter_are_dropped_by_name() {
    let name = "model.vision_tower.encoder.layers.0.self_attn.q_proj";
    let sandbox = gemma3("model.language_model.layers.0.mlp.up_proj", name);
    let ran = succeed(adapter_file(&sandbox));
    let warning = format!("an adapter file cannot hold these pairs, which are omitted: `{name}.weight`\n");
    assert!(ran.stderr.contains(&warning) && ran.stderr.contains("--with-mmproj"), "{}", ran.stderr);
    let names: Vec<String> = values(&sandbox, "out/adapter.gguf").into_keys().collect();
    assert_eq!(names, ["blk.0.ffn_up.weight.lora_a", "blk.0.ffn_up.weight.lora_b"]);
    // Nothing would be left.
    let tensors = sandbox.tensors(WEIGHTS);
    let tensors = tensors.into_iter().filter(|(name, _)| name.contains("vision")).collect();
    sandbox.write_tensors(WEIGHTS, &tensors);
    refused(&adapter_file(&sandbox), &["part of a vision or audio tower", "--with-mmproj"]);
}

/// A matrix of f32 turned.
fn transposed((dtype, shape, bytes): &(String, Vec<u64>, Vec<u8>)) -> (String, Vec<u64>, Vec<u8>) {
    let (n_rows, n_columns) = (shape[0] as usize, shape[1] as usize);
    let places = (0..n_columns).flat_map(|column| (0..n_rows).map(move |row| row * n_columns + column));
    let bytes = places.flat_map(|at| bytes[4 * at..4 * at + 4].to_vec()).collect();
    (dtype.clone(), vec![shape[1], shape[0]], bytes)
}

#[test]
fn mlx_adapters_equal_transposed_peft_adapters() {
    let sandbox = llama(&json!({"lora_alpha": 80}));
    succeed(merge(&sandbox, &["-q"]));
    succeed(adapter_file(&sandbox));
    let expected = ["out/merged.gguf", "out/adapter.gguf"].map(|file| values(&sandbox, file));
    let expected_alpha = alpha(&sandbox);
    let of_mlx = |name: &str| {
        let name = name.trim_start_matches("base_model.model.");
        name.replace(".lora_A.weight", ".lora_a").replace(".lora_B.weight", ".lora_b")
    };
    let tensors = sandbox.tensors(WEIGHTS);
    let tensors: Tensors = tensors.iter().map(|(name, tensor)| (of_mlx(name), transposed(tensor))).collect();
    fs::remove_file(sandbox.path(WEIGHTS)).unwrap();
    sandbox.write_tensors("adapter/adapters.safetensors", &tensors);
    let of_mlx = json!({"fine_tune_type": "lora", "lora_parameters": {"rank": 4, "scale": 20.0, "dropout": 0.0},
        "model": "org/base"});
    write_json(&sandbox, CONFIG, &of_mlx);
    succeed(merge(&sandbox, &["-q"]));
    succeed(adapter_file(&sandbox));
    assert_eq!(["out/merged.gguf", "out/adapter.gguf"].map(|file| values(&sandbox, file)), expected);
    assert_eq!(alpha(&sandbox), expected_alpha);
    // Its own folder instead of the base model's.
    let ran = sandbox.convert(&words("adapter adapter out/x.gguf --base adapter"));
    refused(&ran, &["an MLX LoRA adapter, expected its base model `org/base`", "`mlx_lm.fuse`"]);
    for (config, message) in [
        (json!({"fine_tune_type": "dora", "lora_parameters": {"scale": 20.0}}), "`fine_tune_type` is dora"),
        (json!({"fine_tune_type": "full"}), "`fine_tune_type` is full"),
        (json!({"lora_parameters": {"rank": 4}}), "missing `lora_parameters.scale` in adapter_config.json"),
    ] {
        write_json(&sandbox, CONFIG, &config);
        for ran in [merge(&sandbox, &[]), adapter_file(&sandbox)] {
            refused(&ran, &["MLX adapter: ", message, "hint: merge it with `mlx_lm.fuse`"]);
        }
    }
}

#[test]
fn pairs_of_one_matrix_twice_are_refused() {
    let sandbox = llama(&json!({}));
    let mut tensors = sandbox.tensors(WEIGHTS);
    tensors.extend(pair(&QUERY.replace("layers", "language_model.layers"), 4, [96, 64]));
    sandbox.write_tensors(WEIGHTS, &tensors);
    refused(
        &merge(&sandbox, &[]),
        &["both change `model.layers.0.self_attn.q_proj.weight`", "hint: the file contains"],
    );
    refused(&adapter_file(&sandbox), &["both become `blk.0.attn_q.weight.lora_a`"]);
    assert!(sandbox.outputs().is_empty());
}

/// PEFT refuses such an adapter, and neither rank gives a scale that is known to be right.
#[test]
fn ranks_of_another_config_are_refused() {
    for (more, rank) in [(json!({"r": 8}), 8), (json!({"rank_pattern": {"v_proj": 2}}), 2)] {
        let sandbox = llama(&more);
        let message = format!("expected rank {rank} from adapter_config.json, found 4");
        for ran in [merge(&sandbox, &[]), adapter_file(&sandbox)] {
            refused(&ran, &[&message, "hint: use the config and the weights"]);
        }
    }
}

/// llama.cpp skips `*_norm.weight` of an adapter file and refuses a file with other tensors that are not pairs.
#[test]
fn norms_that_runtimes_do_not_apply_are_named() {
    let sandbox = llama(&json!({"modules_to_save": ["input_layernorm"]}));
    let mut tensors = sandbox.tensors(WEIGHTS);
    tensors.insert("base_model.model.model.layers.0.input_layernorm.weight".to_owned(), floats(7, &[64]));
    sandbox.write_tensors(WEIGHTS, &tensors);
    let ran = succeed(adapter_file(&sandbox));
    ran.says("note: llama.cpp ignores norms in an adapter file");
    ran.says("`model.layers.0.input_layernorm.weight`");
    assert!(values(&sandbox, "out/adapter.gguf").contains_key("blk.0.attn_norm.weight"));

    let sandbox = Sandbox::with_golden("starcoder2");
    fs::rename(sandbox.path("starcoder2"), sandbox.path("base")).unwrap();
    let base = sandbox.tensors("base/model.safetensors");
    let shape = &base["model.layers.0.self_attn.q_proj.weight"].1;
    let mut tensors = pair(QUERY, 4, [shape[0], shape[1]]);
    let bias = "model.layers.0.input_layernorm.bias";
    tensors.insert(format!("base_model.model.{bias}"), floats(8, &base[bias].1));
    sandbox.write_tensors(WEIGHTS, &tensors);
    write_json(&sandbox, CONFIG, &config(&json!({})));
    let ran = succeed(adapter_file(&sandbox));
    ran.says("warning: an adapter file cannot hold these norm tensors");
    let names: Vec<String> = values(&sandbox, "out/adapter.gguf").into_keys().collect();
    assert_eq!(names, ["blk.0.attn_q.weight.lora_a", "blk.0.attn_q.weight.lora_b"]);
}

#[test]
fn values_next_to_an_adapter_are_named() {
    let sandbox = llama(&json!({}));
    sandbox.write("adapter/calibration.json", "{}");
    let values = "values of files that are not read are not in the output: `calibration.json`\n";
    succeed(merge(&sandbox, &[])).says(&format!("warning: adapter `adapter`: {values}"));
    succeed(adapter_file(&sandbox)).says(&format!("warning: {values}"));
}

#[test]
fn lfs_pointers_are_named_as_such() {
    let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 12345678\n";
    for name in ["adapter_model.safetensors", "adapter_model.bin", "adapters.safetensors"] {
        let sandbox = llama(&json!({}));
        fs::remove_file(sandbox.path(WEIGHTS)).unwrap();
        fs::write(sandbox.path("adapter").join(name), pointer).unwrap();
        for ran in [merge(&sandbox, &[]), adapter_file(&sandbox)] {
            refused(&ran, &[&format!("`{name}` is a Git LFS pointer"), "hint: run `git lfs pull`"]);
        }
    }
    let sandbox = llama(&json!({}));
    sandbox.write("base/model.safetensors", pointer);
    refused(
        &merge(&sandbox, &[]),
        &["error: base: `model.safetensors` is a Git LFS pointer", "hint: run `git lfs pull`"],
    );
}

#[test]
fn empty_adapter_tensors_name_zero3() {
    let sandbox = llama(&json!({}));
    let mut tensors = sandbox.tensors(WEIGHTS);
    let name = "base_model.model.model.embed_tokens.weight";
    tensors.insert(name.to_owned(), ("F32".to_owned(), vec![0], Vec::new()));
    sandbox.write_tensors(WEIGHTS, &tensors);
    for ran in [merge(&sandbox, &[]), adapter_file(&sandbox)] {
        refused(&ran, &[&format!("1 tensor without data: `{name}`"), "ZeRO-3", "`zero_to_fp32.py`"]);
    }
}

#[test]
fn pairs_of_a_rerankers_output_are_refused() {
    let sandbox = Sandbox::with_golden("qwen3-reranker-untied");
    // A folder without `reranker` in its name is an ordinary Qwen 3.
    let shape = &sandbox.tensors("qwen3-reranker-untied/model.safetensors")["lm_head.weight"].1;
    sandbox.write_tensors(WEIGHTS, &pair("base_model.model.lm_head", 4, [shape[0], shape[1]]));
    write_json(&sandbox, CONFIG, &config(&json!({})));
    let ran = sandbox.convert(&words("adapter adapter out/x.gguf --base qwen3-reranker-untied"));
    refused(&ran, &["adapter of `lm_head.weight`: the file contains only two rows", "--lora ADAPTER"]);
}

/// `W + alpha / r * b @ a` of the file is the merged matrix: transposed matrices, moved columns, scaled values.
#[test]
fn adapter_file_and_merge_change_same_tensors() {
    for (base, modules) in [
        ("gpt2", &["transformer.h.0.attn.c_attn", "h.0.mlp.c_proj"][..]),
        ("qwen3.5", &["model.layers.0.linear_attn.out_proj", "model.layers.0.linear_attn.in_proj_qkv"]),
        ("falcon-h1", &["model.layers.0.feed_forward.down_proj", "model.layers.0.mamba.in_proj"]),
        ("phimoe", &["model.layers.0.mlp.router"]),
    ] {
        let sandbox = Sandbox::with_golden(base);
        fs::rename(sandbox.path(base), sandbox.path("base")).unwrap();
        let weights = sandbox.tensors("base/model.safetensors");
        let mut tensors = Tensors::new();
        for module in modules {
            // phimoe's router is `block_sparse_moe.gate` in files.
            let end = if *module == "model.layers.0.mlp.router" { "moe.gate" } else { module };
            let end = format!("{}.weight", end.trim_start_matches("model."));
            let shape = &weights.iter().find(|(name, _)| name.ends_with(&end)).unwrap().1.1;
            let shape = if base == "gpt2" { [shape[1], shape[0]] } else { [shape[0], shape[1]] };
            tensors.extend(pair(&format!("base_model.model.{module}"), 2, shape));
        }
        sandbox.write_tensors(WEIGHTS, &tensors);
        let more = json!({"r": 2, "use_rslora": true, "alpha_pattern": {(modules[0]): 3}});
        write_json(&sandbox, CONFIG, &config(&more));
        succeed(sandbox.convert(&words("base out/base.gguf -t f32 -q --pre gpt-2")));
        succeed(merge(&sandbox, &["-q", "--pre", "gpt-2"]));
        succeed(adapter_file(&sandbox));
        let [plain, merged, adapter] =
            ["base", "merged", "adapter"].map(|file| values(&sandbox, &format!("out/{file}.gguf")));
        let scale = alpha(&sandbox) / 2.0;
        let changed = plain.iter().filter(|(name, values)| merged[*name] != **values).count();
        assert_eq!((changed, adapter.len()), (modules.len(), 2 * modules.len()), "{base}");
        for (name, b) in &adapter {
            let Some(matrix) = name.strip_suffix(".lora_b") else { continue };
            let a = &adapter[&format!("{matrix}.lora_a")];
            let n_inputs = a.len() / 2;
            for (at, (plain, merged)) in plain[matrix].iter().zip(&merged[matrix]).enumerate() {
                let (row, column) = (at / n_inputs, at % n_inputs);
                let sum = b[2 * row] * a[column] + b[2 * row + 1] * a[n_inputs + column];
                let difference = (plain + scale * sum - merged).abs();
                assert!(difference < 1e-3 * merged.abs().max(1.0), "{base} {matrix} {at}");
            }
        }
    }
}

#[test]
fn pair_of_a_tied_output_is_omitted_or_merged() {
    let sandbox = Sandbox::new();
    copy_folder(&gguf_testkit::checkpoint("llama-tied"), &sandbox.path("base"));
    fs::create_dir(sandbox.path("out")).unwrap();
    let shape = |name: &str| sandbox.tensors("base/model.safetensors")[name].1.clone();
    let [vocabulary, width] = shape("model.embed_tokens.weight")[..] else { panic!() };
    let [n_outputs, n_inputs] = shape("model.layers.0.self_attn.q_proj.weight")[..] else { panic!() };
    let mut tensors = pair("base_model.model.lm_head", 4, [vocabulary, width]);
    tensors.extend(pair(QUERY, 4, [n_outputs, n_inputs]));
    sandbox.write_tensors(WEIGHTS, &tensors);
    write_json(&sandbox, CONFIG, &config(&json!({})));
    succeed(adapter_file(&sandbox))
        .says("warning: the base model has tied embeddings, so its file has no output matrix");
    let names: Vec<String> = values(&sandbox, "out/adapter.gguf").into_keys().collect();
    assert_eq!(names, ["blk.0.attn_q.weight.lora_a", "blk.0.attn_q.weight.lora_b"]);
    // Merged as PEFT computes it: embedding + alpha / rank * B A, and the embedding is unchanged.
    succeed(merge(&sandbox, &[])).says("is tied to its embedding");
    let merged = values(&sandbox, "out/merged.gguf");
    let read = |name: &str| {
        let bytes = &tensors[name].2;
        bytes.chunks_exact(4).map(|four| f32::from_le_bytes(four.try_into().unwrap())).collect::<Vec<f32>>()
    };
    let (a, b) =
        (read("base_model.model.lm_head.lora_A.weight"), read("base_model.model.lm_head.lora_B.weight"));
    let width = width as usize;
    for (at, output) in merged["output.weight"].iter().enumerate().step_by(97) {
        let (row, column) = (at / width, at % width);
        let delta: f32 = (0..4).map(|r| b[4 * row + r] * a[width * r + column]).sum();
        let want = merged["token_embd.weight"][at] + 4.0 * delta;
        assert!((output - want).abs() < 1e-4 * want.abs().max(1.0), "{output} {want}");
    }
}

#[test]
fn adapter_of_some_expert_matrices_has_their_stacks() {
    let sandbox = Sandbox::new();
    copy_folder(&gguf_testkit::checkpoint("qwen3moe-old"), &sandbox.path("base"));
    fs::create_dir(sandbox.path("out")).unwrap();
    let base = sandbox.tensors("base/model.safetensors");
    let name = |expert: usize, matrix: &str| format!("model.layers.0.mlp.experts.{expert}.{matrix}");
    let n_experts =
        (0..).take_while(|expert| base.contains_key(&(name(*expert, "up_proj") + ".weight"))).count();
    let mut tensors = Tensors::new();
    for (expert, matrix) in (0..n_experts).flat_map(|expert| [(expert, "gate_proj"), (expert, "down_proj")]) {
        let shape = &base[&(name(expert, matrix) + ".weight")].1;
        tensors.extend(pair(&format!("base_model.model.{}", name(expert, matrix)), 4, [shape[0], shape[1]]));
    }
    sandbox.write_tensors(WEIGHTS, &tensors);
    write_json(&sandbox, CONFIG, &config(&json!({})));
    succeed(adapter_file(&sandbox));
    let names: Vec<String> = values(&sandbox, "out/adapter.gguf").into_keys().collect();
    let stacks = ["ffn_down_exps", "ffn_gate_exps"]
        .map(|stack| ["a", "b"].map(|half| format!("blk.0.{stack}.weight.lora_{half}")));
    assert_eq!(names, stacks.concat());
    // A stack needs all experts.
    tensors.retain(|tensor, _| !tensor.contains(".experts.1.down_proj."));
    sandbox.write_tensors(WEIGHTS, &tensors);
    refused(
        &sandbox.convert(&words("adapter adapter out/adapter.gguf --base base --force")),
        &["experts.1.down_proj", "--lora"],
    );
}
