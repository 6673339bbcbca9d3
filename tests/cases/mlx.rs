//! Checkpoints as mlx-lm saves them in floats.

use std::collections::BTreeMap;

use serde_json::json;

use crate::common::{Sandbox, Tensors, succeed};

fn save(sandbox: &Sandbox, file: &str, tensors: &Tensors) {
    let tensors = tensors.iter().map(|(name, (dtype, shape, bytes))| (&name[..], &dtype[..], shape, bytes));
    sandbox.write(file, gguf_testkit::safetensors_with(Some(&json!({"format": "mlx"})), tensors));
}

/// Stacks the experts of each layer under the names of mlx-lm.
fn stack(tensors: Tensors) -> Tensors {
    let (mut stacked, mut experts) = (Tensors::new(), BTreeMap::<String, BTreeMap<usize, _>>::new());
    for (name, tensor) in tensors {
        let place = name.split_once(".experts.").and_then(|(block, rest)| {
            let (number, matrix) = rest.split_once('.')?;
            Some((block.to_owned(), number.parse::<usize>().ok()?, matrix.to_owned()))
        });
        let Some((block, number, matrix)) = place else {
            stacked.insert(name, tensor);
            continue;
        };
        let matrix = match matrix.as_str() {
            "w1.weight" => "gate_proj.weight",
            "w2.weight" => "down_proj.weight",
            "w3.weight" => "up_proj.weight",
            matrix => matrix,
        };
        experts.entry(format!("{block}.switch_mlp.{matrix}")).or_default().insert(number, tensor);
    }
    assert!(!experts.is_empty());
    for (name, all) in experts {
        let (dtype, shape, _) = all[&0].clone();
        let bytes = all.values().flat_map(|(.., bytes)| bytes.clone()).collect();
        stacked.insert(name, (dtype, [&[all.len() as u64], &shape[..]].concat(), bytes));
    }
    stacked
}

/// Type, shape and bytes of the tensors of a checkpoint's file in bf16, which is `out.gguf`.
fn convert(sandbox: &Sandbox, golden: &str) -> BTreeMap<String, (String, Vec<u64>, Vec<u8>)> {
    succeed(sandbox.convert(&[golden, "out.gguf", "--type", "bf16", "--force"]));
    let file = sandbox.file("out.gguf");
    let tensor = |tensor: &gguf_container::TensorInfo| {
        let data = file.data(tensor).unwrap().to_vec();
        (tensor.name.clone(), (tensor.dtype.name().to_owned(), tensor.shape.dims().to_vec(), data))
    };
    file.tensors().iter().map(tensor).collect()
}

#[test]
fn stacked_and_single_experts_give_equal_files() {
    for golden in [
        "mixtral",
        "qwen2moe",
        "qwen3moe",
        "olmoe",
        "dots1-old",
        "glm4moe-old",
        "minimax-m2",
        "phimoe-old",
        "afmoe",
    ] {
        let file = format!("{golden}/model.safetensors");
        let sandbox = Sandbox::with_golden(golden);
        let tensors = sandbox.tensors(&file);
        if !tensors.keys().any(|name| name.contains(".experts.0.")) {
            panic!("{golden}: {:?}", tensors.keys().collect::<Vec<_>>());
        }
        let expected = convert(&sandbox, golden);
        save(&sandbox, &file, &stack(tensors));
        assert!(convert(&sandbox, golden) == expected, "{golden}");
    }
}

/// One more than each value of bf16.
fn plus_one(bytes: &[u8]) -> Vec<u8> {
    let more = |bytes: &[u8]| {
        let value = f32::from_bits(u32::from(u16::from_le_bytes(bytes.try_into().unwrap())) << 16) + 1.0;
        // To the nearest, ties to even.
        let bits = value.to_bits();
        (((bits + 0x7fff + ((bits >> 16) & 1)) >> 16) as u16).to_le_bytes()
    };
    bytes.chunks(2).flat_map(more).collect()
}

#[test]
fn shifted_norms_are_written_as_they_are() {
    for golden in ["qwen3next-old", "qwen3.5-text"] {
        let file = format!("{golden}/model.safetensors");
        let sandbox = Sandbox::with_golden(golden);
        let theirs = convert(&sandbox, golden);
        let mut tensors = sandbox.tensors(&file);
        tensors.retain(|name, _| !name.contains("mtp."));
        let mut shifted = BTreeMap::new();
        for (name, (dtype, shape, bytes)) in &mut tensors {
            let ends = ["input_layernorm.weight", "post_attention_layernorm.weight", "model.norm.weight"];
            if ends.iter().any(|end| name.ends_with(end)) {
                assert_eq!(dtype, "BF16");
                *bytes = plus_one(bytes);
                shifted.insert(name.clone(), bytes.clone());
            }
            if name.ends_with("q_norm.weight") || name.ends_with("k_norm.weight") {
                *bytes = plus_one(bytes);
            }
            if name.ends_with("conv1d.weight") {
                shape.swap(1, 2);
            }
        }
        save(&sandbox, &file, &tensors);
        let ours = convert(&sandbox, golden);
        for (name, tensor) in ours.iter().filter(|(name, _)| !name.contains("norm")) {
            assert!(*tensor == theirs[name], "{golden}: {name}");
        }
        let norm = shifted.iter().find(|(name, _)| name.ends_with("model.norm.weight")).unwrap().1;
        let wide: Vec<u8> = norm.chunks(2).flat_map(|bytes| [0, 0, bytes[0], bytes[1]]).collect();
        assert_eq!(ours["output_norm.weight"].2, wide, "{golden}");
    }
}

#[test]
fn unsupported_mlx_families_are_refused_by_name() {
    for golden in ["gpt2", "falcon-h1"] {
        let file = format!("{golden}/model.safetensors");
        let sandbox = Sandbox::with_golden(golden);
        let tensors = sandbox.tensors(&file);
        save(&sandbox, &file, &tensors);
        let ran = sandbox.convert(&[golden, "out.gguf", "--type", "bf16"]);
        ran.ends_and_says(1, "MLX checkpoint of `");
    }
}

#[test]
fn mlx_names_become_checkpoint_names() {
    type Rename = fn(&str) -> String;
    let cases: [(&str, Rename); 4] = [
        ("gptj", |name| name.replace("transformer.", "model.")),
        ("gptneox-old", |name| {
            let name = name.replace("gpt_neox.layers.", "h.").replace("gpt_neox.", "");
            format!("model.{name}")
        }),
        ("bailingmoe", |name| name.replace(".mlp.gate.weight", ".mlp.gate.gate_proj.weight")),
        ("lfm2moe-old", |name| {
            let pairs = [(".w1.", ".gate_proj."), (".w2.", ".down_proj."), (".w3.", ".up_proj.")];
            pairs.iter().fold(name.to_owned(), |name, (from, to)| name.replace(from, to))
        }),
    ];
    for (golden, rename) in cases {
        let file = format!("{golden}/model.safetensors");
        let sandbox = Sandbox::with_golden(golden);
        let tensors = sandbox.tensors(&file);
        let expected = convert(&sandbox, golden);
        let renamed: Tensors = tensors.iter().map(|(name, tensor)| (rename(name), tensor.clone())).collect();
        assert!(renamed.keys().ne(tensors.keys()), "{golden}");
        save(&sandbox, &file, &renamed);
        assert!(convert(&sandbox, golden) == expected, "{golden}");
    }
}
