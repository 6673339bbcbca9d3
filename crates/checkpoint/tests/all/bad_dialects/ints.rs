//! Invalid quantized checkpoints of MLX, torchao, quanto, BitNet, Gemma, ModelOpt and Quark, and notes about
//! valid ones.

use super::edited::{self, Edited, no_value, read_all, refused};
use gguf_checkpoint::{Checkpoint, Repacks};
use serde_json::{Value as Json, json};

const LOST: &str = "part of quantized weights whose codes are missing or have the wrong type";

/// Sets a value of the config at a path.
fn set(config: &mut Json, path: &[&str], value: Json) {
    *path.iter().fold(config, |config, key| &mut config[*key]) = value;
}

#[test]
fn invalid_mlx_integers_are_refused() {
    refused("mlx-affine", |edited| edited.remove("equal.weight"), &format!("tensor `equal.biases`: {LOST}"));
    refused("mlx-affine", |edited| edited.remove("equal.scales"), &format!("tensor `equal.biases`: {LOST}"));
    refused(
        "mlx-affine",
        |edited| edited.remove("equal.biases"),
        "missing tensor `equal.biases`, which belongs to the codes `equal.weight`",
    );
    // bits · g · groups must be the bits of a row.
    for (key, value, expected) in [
        (
            "bits",
            json!(3),
            "rows of 2 groups of 64 codes of 3 bits, as the config says, found rows of 16 words",
        ),
        (
            "group_size",
            json!(32),
            "rows of 2 groups of 32 codes of 4 bits, as the config says, found rows of 16 words",
        ),
        (
            "group_size",
            json!(u64::MAX),
            "rows of 2 groups of 18446744073709551615 codes of 4 bits, as the config says, found rows of 16 words",
        ),
        ("group_size", json!(0), "a `group_size` in the config, found none"),
        ("bits", json!(7), "`bits` of 2, 3, 4, 5, 6 or 8 in the config, found none"),
        ("bits", Json::Null, "`bits` of 2, 3, 4, 5, 6 or 8 in the config, found none"),
    ] {
        refused(
            "mlx-affine",
            |edited| {
                for place in ["quantization", "quantization_config"] {
                    edited.config[place]["equal"] = json!({key: value});
                }
            },
            &format!("tensor `equal.weight`: expected {expected}"),
        );
    }
    no_value(
        "mlx-affine",
        |edited| edited.tensor("equal.scales").bytes[2..4].copy_from_slice(&0x7fc0u16.to_le_bytes()),
        "tensor `equal.scales`: row 0: expected a finite number, found NaN",
    );
}

fn values(checkpoint: &Checkpoint, name: &str) -> Vec<f32> {
    let tensor = checkpoint.tensor(name).unwrap_or_else(|| panic!("no {name}"));
    let mut values = vec![f32::NAN; (tensor.n_rows() * tensor.row_elems()) as usize];
    checkpoint.read_rows(tensor, tensor.row_elems(), 0..tensor.n_rows(), &mut values).unwrap();
    values
}

/// mlx-lm stacks experts under its own names; architectures expect Hugging Face's.
#[test]
fn stacked_mlx_experts_get_usual_names() {
    let stacked = Edited::of("mlx-affine");
    let whole = values(&gguf_checkpoint::open(stacked.folder().path()).unwrap(), "switch_mlp.up_proj.weight");
    for (block, name) in [("model.layers.0.mlp", "up_proj"), ("model.layers.0.block_sparse_moe", "w3")] {
        let mut edited = stacked.clone();
        for ending in ["weight", "scales", "biases"] {
            let tensor = edited.tensors.remove(&format!("switch_mlp.up_proj.{ending}")).unwrap();
            edited.tensors.insert(format!("{block}.switch_mlp.up_proj.{ending}"), tensor);
        }
        for place in ["quantization", "quantization_config"] {
            let own = edited.config[place]["switch_mlp.up_proj"].take();
            edited.config[place][format!("{block}.switch_mlp.up_proj")] = own;
        }
        let folder = edited.folder();
        let checkpoint = crate::open(folder.path()).unwrap();
        let experts: Vec<f32> =
            (0..3).flat_map(|n| values(&checkpoint, &format!("{block}.experts.{n}.{name}.weight"))).collect();
        assert_eq!(experts, whole, "{block}");
        let shape = &checkpoint.tensor(&format!("{block}.experts.2.{name}.weight")).unwrap().shape;
        assert_eq!(shape[..], [8, 64]);
    }
}

#[test]
fn invalid_torchao_integers_are_refused() {
    refused(
        "torchao-int8",
        |edited| edited.remove("int8._weight_scale"),
        "missing tensor `int8._weight_scale`, which belongs to the codes `int8._weight_qdata`",
    );
    refused(
        "torchao-int8",
        |edited| edited.remove("int8._weight_qdata"),
        &format!("tensor `int8._weight_scale`: {LOST}"),
    );
    let entry = |edited: &mut Edited, name: &str, entry: Json| {
        edited.metadata.as_mut().unwrap()[name] = json!(entry.to_string());
    };
    refused(
        "torchao-int8",
        |edited| entry(edited, "int8.weight", json!({"_type": "Sparse"})),
        "tensor `int8._weight_qdata`: expected a supported torchao type in `__metadata__`, found `Sparse`",
    );
    refused(
        "torchao-int8",
        |edited| entry(edited, "int8.weight", json!({"_type": "Int4TilePackedTo4dTensor"})),
        "missing tensor `int8._weight_scale_and_zero`, which belongs to the codes `int8._weight_qdata`",
    );
    let tiled = |data: Json| json!({"_type": "Int4TilePackedTo4dTensor", "_data": data});
    refused(
        "torchao-int4",
        |edited| entry(edited, "tiled.weight", tiled(json!({}))),
        "tensor `tiled._weight_qdata`: expected its shape and `block_size` in `__metadata__`, found none",
    );
    refused(
        "torchao-int4",
        |edited| entry(edited, "tiled.weight", tiled(json!({"shape": [17, 192], "block_size": [1, 64]}))),
        "tensor `tiled._weight_qdata`: expected tiles for shape [17, 192], found shape [2, 8, 32, 4]",
    );
    refused(
        "torchao-int4",
        |edited| entry(edited, "tiled.weight", tiled(json!({"shape": [12, 192], "block_size": [1, 0]}))),
        "tensor `tiled._weight_scale_and_zero`: expected (groups, padded rows, 2) for `tiled._weight_qdata` of shape [2, 8, 32, 4], found shape [16, 16, 2]",
    );
    let mut edited = Edited::of("torchao-int8");
    edited.metadata.as_mut().unwrap()["int8.weight"] = json!("{");
    let error = edited.open().unwrap_err().to_string();
    assert!(error.starts_with("`model.safetensors: __metadata__: int8.weight`: EOF"), "{error}");
    // Without metadata the tensors show everything except the shape of tiles.
    let mut edited = Edited::of("torchao-int8");
    edited.metadata = None;
    read_all(&edited.open().unwrap()).unwrap();
    refused(
        "torchao-int4",
        |edited| edited.metadata = None,
        "tensor `tiled._weight_qdata`: expected an entry in `__metadata__`, which has its shape, found none",
    );
}

#[test]
fn invalid_quanto_integers_are_refused() {
    let codes = "b4.self_attn.q_proj.weight._data._data";
    refused(
        "quanto-packed",
        |edited| edited.remove(codes),
        &format!("tensor `b4.self_attn.q_proj.weight._scale`: {LOST}"),
    );
    refused(
        "quanto-packed",
        |edited| edited.remove("b4.self_attn.q_proj.weight._shift"),
        &format!("tensor `{codes}`: expected `b4.self_attn.q_proj.weight._shift`, found no such tensor"),
    );
    refused(
        "quanto-packed",
        |edited| edited.config["hidden_size"] = json!(100),
        "tensor `b2.self_attn.q_proj.weight._data._data`: expected a bias or sizes in config.json that tell how long its rows are, found nothing that fits",
    );
}

#[test]
fn invalid_integers_of_other_libraries_are_refused() {
    refused(
        "bitnet-offline",
        |edited| edited.remove("a.weight"),
        &format!("tensor `a.weight_scale`: {LOST}"),
    );
    refused(
        "bitnet-offline",
        |edited| edited.remove("a.weight_scale"),
        "tensor `a.weight`: U8 codes without scales",
    );
    refused(
        "bitnet-offline",
        |edited| set(&mut edited.config, &["quantization_config", "quantization_mode"], json!("online")),
        "weights quantized by BitNet with weights rounded at run time are not supported; recognized by quant_method `bitnet` with `quantization_mode` `online`",
    );
    // A scale of 0 that divides.
    no_value(
        "bitnet-bitlinear",
        |edited| edited.tensor("a.weight_scale").bytes.fill(0),
        "tensor `a.weight_scale`: row 0: expected a finite number, found inf",
    );
    refused(
        "gemma-ints",
        |edited| set(&mut edited.config, &["quantization_config", "module_quant_configs"], json!({"(": {}})),
        "`config.json`: expected an expression at `module_quant_configs`, found `(`",
    );
    refused(
        "gemma-ints",
        |edited| set(&mut edited.config, &["quantization_config", "num_bits"], json!(8)),
        "tensor `layers.0.self_attn.q_proj.weight`: expected I8, or U8 with 4 or 2 bits by the config, found U8 with 8",
    );
    refused(
        "modelopt-awq",
        |edited| edited.remove("a.weight"),
        &format!("tensor `a.pre_quant_scale`: {LOST}"),
    );
    refused(
        "modelopt-awq",
        |edited| {
            let second = edited.tensor("b.weight_scale").clone();
            edited.tensors.insert("b.weight_scale_2".to_owned(), second);
        },
        "tensor `b.weight_scale_2`: expected integers with one stage of scales, found a second one (W4A8_AWQ)",
    );
    let weight = ["quantization_config", "global_quant_config", "weight"];
    refused(
        "quark-uint4",
        |edited| set(&mut edited.config, &weight, json!([{"dtype": "fp8_e4m3"}, {"dtype": "int4"}])),
        "tensor `a.weight`: expected uint4 or int4 in words, uint2, int3, uint8 or int8 in bytes, found I32 of shape [128, 4], `` in the config",
    );
    refused(
        "quark-uint4",
        |edited| {
            edited.tensor("a.weight_scale").bytes.truncate(2 * 31);
            edited.tensor("a.weight_scale").shape = vec![1, 31];
        },
        "tensor `a.weight_scale`: expected (groups, out), or (out, groups) for `a.weight` of shape [128, 4], found shape [1, 31]",
    );
    refused(
        "quark-int3",
        |edited| edited.set("a.weight_zero_point", &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]),
        "tensor `a.weight_zero_point`: expected zeros of 0, or int3 of U8 packed as the weight, found U8 of shape [12]",
    );
    refused(
        "quark-uint2-channel",
        |edited| edited.set("a.weight_zero_point", &[1, 2, 3, 4]),
        "tensor `a.weight_zero_point`: expected zeros of 0, or uint2 of U8 packed as the weight, found U8 of shape [4]",
    );
    refused(
        "quark-int3",
        |edited| {
            let weight = edited.tensor("a.weight");
            weight.shape = vec![32, 47];
            weight.bytes.truncate(32 * 47);
        },
        "tensor `a.weight`: expected rows of whole int3 codes, found shape [32, 47]",
    );
}

#[test]
fn input_factors_and_scales_are_noted() {
    let notes = |name: &str| gguf_checkpoint::open(&edited::golden(name)).unwrap().notes;
    let factor = |name: &str| format!("tensor `{name}` is folded into the columns of its matrix");
    assert_eq!(notes("torchao-int4"), [factor("scaled._weight_act_pre_scale")]);
    assert_eq!(notes("modelopt-awq"), [factor("a.pre_quant_scale")]);
    assert_eq!(
        notes("modelopt-int8"),
        [
            factor("a.pre_quant_scale"),
            "tensor `a.input_scale` and 1 more omitted: the quantization of activations and caches is not stored in a GGUF file".to_owned()
        ]
    );
    assert_eq!(
        notes("gemma-ints"),
        [
            "tensor `layers.0.mlp.down_proj.input_activation_scale` and 7 more omitted: the model rounds activations with it, but GGUF has no key for this"
        ]
    );
    assert_eq!(notes("bnb-4bit"), [""; 0]);
}

/// Types that can represent the values of each format; `repack.rs` compares the blocks bit for bit.
#[test]
fn repackable_forms_are_recognized() {
    let types = |name: &str, tensor: &str| {
        let checkpoint = gguf_checkpoint::open(&edited::golden(name)).unwrap();
        match checkpoint.repacks_to(checkpoint.tensor(tensor).unwrap()).unwrap() {
            Some(Repacks::To(types)) => {
                types.iter().map(|dtype| dtype.name().to_owned()).collect::<Vec<_>>().join(" ")
            }
            Some(Repacks::Not(why)) => format!("none: {why}"),
            None => "plain".to_owned(),
        }
    };
    for (name, tensor, expected) in [
        ("mlx-affine", "b4.g64.weight", "q4_1 q5_1"),
        ("mlx-affine", "b3.g64.weight", "q4_1 q5_1"),
        ("mlx-affine", "b5.g64.weight", "q5_1"),
        ("mlx-affine", "b6.g64.weight", "none: no ggml type can hold codes of 6 bits with an offset"),
        ("bitnet-offline", "a.weight", "tq1_0 tq2_0 q2_0 q4_0 q4_K q5_0 q8_0"),
        ("bitnet-offline", "b.weight", "q4_0 q5_0 q8_0"),
        ("gemma-ints", "layers.0.mlp.down_proj.weight", "none: scale 0.004134415 does not fit f16"),
        ("gemma-ints", "layers.0.self_attn.q_proj.weight", "q4_0 q5_0 q8_0"),
        ("gemma-ints", "layers.0.self_attn.k_proj.weight", "q2_0 q4_0 q5_0 q8_0"),
        ("torchao-int8", "intx.4.weight", "q4_0 q5_0 q8_0"),
        ("torchao-int8", "intx.asymmetric4.weight", "q5_0 q8_0"),
        ("quark-uint4", "a.weight", "q5_0 q8_0"),
        ("quark-int4", "a.weight", "q4_0 q5_0 q8_0"),
        ("modelopt-awq", "a.weight", "none: it has per-column factors"),
        ("modelopt-awq", "b.weight", "q4_0 q5_0 q8_0"),
        ("hqq-forms", "b4.axis1.weight", "none: no ggml type can hold such values"),
        ("bnb-4bit", "nf4.nested.weight", "none: no ggml type can hold such values"),
    ] {
        assert_eq!(types(name, tensor), expected, "{name}: {tensor}");
    }
}
