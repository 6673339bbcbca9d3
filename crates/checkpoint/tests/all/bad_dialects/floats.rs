//! Invalid microscaled floats of MLX, torchao, Quark and AutoRound.

use gguf_checkpoint::{Checkpoint, ReadError};
use gguf_types::DType;
use serde_json::{Value as Json, json};

use super::edited::{Edited, no_value, read_all, refused};

fn set_byte(edited: &mut Edited, name: &str, at: usize, byte: u8) {
    edited.tensor(name).bytes[at] = byte;
}

/// Changes both copies of the config that MLX writes.
fn mlx_config(edited: &mut Edited, module: &str, entry: &Json) {
    for place in ["quantization", "quantization_config"] {
        edited.config[place][module] = entry.clone();
    }
}

fn repack(checkpoint: &Checkpoint, name: &str, dtype: DType) -> Result<Vec<u8>, ReadError> {
    let tensor = checkpoint.tensor(name).unwrap();
    let mut blocks = Vec::new();
    checkpoint.repack(tensor, dtype, 0..tensor.n_rows(), &mut blocks).map(|()| blocks)
}

#[test]
fn mlx_mode_must_match_config() {
    for (name, mode, found) in
        [("mxfp4.own", "nvfp4", "mxfp4"), ("nvfp4.own", "mxfp8", "nvfp4"), ("mxfp8.own", "mxfp4", "mxfp8")]
    {
        refused(
            "mlx-modes",
            |edited| mlx_config(edited, name, &json!({"mode": mode})),
            &format!(
                "tensor `{name}.weight`: expected mode `{mode}`, as the config says, found mode `{found}`"
            ),
        );
    }
    // A module's entry without a mode has no effect.
    let mut edited = Edited::of("mlx-modes");
    mlx_config(&mut edited, "nvfp4.own", &json!({"group_size": 16, "bits": 4}));
    read_all(&edited.open().unwrap()).unwrap();
}

#[test]
fn mismatched_mlx_parts_are_refused() {
    refused(
        "mlx-modes",
        |edited| edited.tensor("mxfp4.own.scales").shape = vec![12, 5],
        "tensor `mxfp4.own.scales`: expected a scale for 8, 16 or 32 bytes of codes for `mxfp4.own.weight` of shape [10, 24], found shape [12, 5]",
    );
    let lost = "part of quantized weights whose codes are missing or have the wrong type";
    for name in ["mxfp4.own", "nvfp4.scaled"] {
        refused(
            "mlx-modes",
            |edited| edited.remove(&format!("{name}.weight")),
            &format!(
                "tensor `{name}.{}`: {lost}",
                if name == "mxfp4.own" { "scales" } else { "global_scale" }
            ),
        );
    }
    refused(
        "mlx-modes",
        |edited| edited.remove("mxfp8.own.scales"),
        "tensor `mxfp8.own.weight`: U32 codes without scales",
    );
    refused(
        "mlx-modes",
        |edited| edited.set_f32("scaled.mlp.switch_mlp.up_proj.global_scale", 1, f32::NAN),
        "tensor `scaled.mlp.switch_mlp.up_proj.global_scale`: row 1: expected a finite number, found NaN",
    );
}

#[test]
fn nan_scales_and_codes_of_mlx_are_refused() {
    for name in ["mxfp4.own", "mxfp8.own"] {
        // 255 is NaN in E8M0; mlx itself reads infinity.
        no_value(
            "mlx-modes",
            |edited| set_byte(edited, &format!("{name}.scales"), 7, 255),
            &format!("tensor `{name}.scales`: row 1: expected a finite scale, found byte 0xff"),
        );
    }
    for nan in [0x7f, 0xff] {
        no_value(
            "mlx-modes",
            |edited| set_byte(edited, "nvfp4.own.scales", 12, nan),
            &format!("tensor `nvfp4.own.scales`: row 1: expected a finite scale, found byte {nan:#04x}"),
        );
        no_value(
            "mlx-modes",
            |edited| set_byte(edited, "mxfp8.own.weight", 2 * 192 + 5, nan),
            &format!(
                "tensor `mxfp8.own.weight`: row 2: expected finite codes, found byte {nan:#04x} at column 5"
            ),
        );
    }
    // The smallest scale is subnormal in f32.
    let mut edited = Edited::of("mlx-modes");
    edited.tensor("mxfp8.own.scales").bytes.fill(0);
    edited.tensor("mxfp8.own.weight").bytes.fill(0x38);
    let checkpoint = edited.open().unwrap();
    let tensor = checkpoint.tensor("mxfp8.own.weight").unwrap();
    let mut values = [0.0; 192];
    checkpoint.read_rows(tensor, 192, 0..1, &mut values).unwrap();
    assert_eq!(values[..2], [2f32.powi(-127); 2]);
}

#[test]
fn unrepackable_experts_are_noted() {
    let mut edited = Edited::of("mlx-modes");
    set_byte(&mut edited, "nvfp4.mlp.switch_mlp.down_proj.scales", 8 * 4, 0xb8);
    let folder = edited.folder();
    let checkpoint = crate::open(folder.path()).unwrap();
    assert!(repack(&checkpoint, "nvfp4.mlp.experts.0.down_proj.weight", DType::NVFP4).is_ok());
    let error = repack(&checkpoint, "nvfp4.mlp.experts.1.down_proj.weight", DType::NVFP4).unwrap_err();
    let message = "tensor `nvfp4.mlp.switch_mlp.down_proj.scales`: row 8: expected a finite scale without sign, found byte 0xb8";
    assert_eq!(error.to_string(), message);
}

/// Each expert has its own factor, or all share one.
#[test]
fn stacked_factors_follow_their_experts() {
    let parts_of_2688 = |largest: f32| largest / 2688.0;
    let mut edited = Edited::of("mlx-modes");
    let factors = |edited: &Edited| -> Vec<Vec<f32>> {
        let checkpoint = edited.open().unwrap();
        let kept = |expert: u32| {
            let tensor = checkpoint.tensor(&format!("scaled.mlp.experts.{expert}.up_proj.weight")).unwrap();
            let kept = tensor.stored.as_ref().unwrap().stored_blocks().unwrap().clone();
            assert_eq!(
                (kept.dtype, kept.input_scales, kept.wide_activations),
                (DType::NVFP4, vec![1.0], true)
            );
            kept.scales
        };
        (0..3).map(kept).collect()
    };
    assert_eq!(factors(&edited), [2.5, 1000.0, 0.3].map(|largest| vec![parts_of_2688(largest)]));
    edited.set("scaled.mlp.switch_mlp.up_proj.global_scale", &1.5f32.to_le_bytes());
    edited.tensor("scaled.mlp.switch_mlp.up_proj.global_scale").shape = vec![];
    assert_eq!(factors(&edited), [1.5; 3].map(|largest| vec![parts_of_2688(largest)]));
    edited.config["quantize_activations"] = json!(true);
    let checkpoint = edited.open().unwrap();
    let stored = checkpoint.tensor("nvfp4.own.weight").unwrap().stored.clone().unwrap();
    assert!(!stored.stored_blocks().unwrap().wide_activations);
}

#[test]
fn mismatched_gate_and_up_are_refused() {
    const GATE: &str = "model.layers.0.mlp.experts.gate_proj.";
    const UP: &str = "model.layers.0.mlp.experts.up_proj.";
    refused(
        "mlx-gpt-oss",
        |edited| edited.tensor(&format!("{UP}bias")).shape = vec![64, 3],
        &format!(
            "tensor `{UP}bias`: expected the shape of the gate for `{GATE}bias` of shape [3, 64], found shape [64, 3]"
        ),
    );
    // One without the other stays unchanged, and no architecture knows it.
    let mut edited = Edited::of("mlx-gpt-oss");
    edited.remove(&format!("{GATE}bias"));
    let checkpoint = edited.open().unwrap();
    assert!(checkpoint.tensor(&format!("{UP}bias")).is_some());
    assert!(checkpoint.tensor("model.layers.0.mlp.experts.gate_up_proj_bias").is_none());
    // Other types than its own are also possible.
    let blocks = checkpoint.tensor("model.layers.0.mlp.experts.gate_up_proj_blocks").unwrap();
    assert_eq!(blocks.shape, [3, 128, 32]);
    assert_eq!(blocks.stored.as_ref().unwrap().stored_blocks().unwrap().dtype, DType::MXFP4);
}

/// Changes a tensor's entry in `__metadata__`.
fn torchao_entry(edited: &mut Edited, name: &str, change: impl FnOnce(&mut Json)) {
    let metadata = edited.metadata.as_mut().unwrap();
    let mut entry: Json = serde_json::from_str(metadata[name].as_str().unwrap()).unwrap();
    change(&mut entry["_data"]);
    metadata[name] = Json::from(entry.to_string());
}

#[test]
fn torchao_floats_follow_file_metadata() {
    refused(
        "torchao-mx",
        |edited| torchao_entry(edited, "mxfp4.weight", |data| data["elem_dtype"] = json!("fp6_e2m3")),
        "tensor `mxfp4._weight_qdata`: expected codes of `float4_e2m1fn_x2`, found codes of `fp6_e2m3`",
    );
    refused(
        "torchao-mx",
        |edited| {
            let wide = json!({"_type": "torch.dtype", "_data": "float8_e5m2"});
            torchao_entry(edited, "mxfp8.weight", |data| data["elem_dtype"] = wide);
        },
        "tensor `mxfp8._weight_qdata`: expected codes of `float8_e4m3fn`, found codes of `float8_e5m2`",
    );
    refused(
        "torchao-mx",
        |edited| torchao_entry(edited, "mxfp8.weight", |data| data["block_size"] = json!(16)),
        "tensor `mxfp8._weight_qdata`: expected groups of 32, found groups of 16",
    );
    for (name, order, shape) in [("mxfp8", false, "[32, 32]"), ("rows.nvfp4", true, "[16, 8]")] {
        let key = format!("{name}.weight");
        let error = {
            let mut edited = Edited::of("torchao-mx");
            torchao_entry(&mut edited, &key, |data| data["is_swizzled_scales"] = json!(order));
            edited.open().unwrap_err().to_string()
        };
        let message = format!(
            "tensor `{name}._weight_scale`: expected a shape that matches `is_swizzled_scales` in `__metadata__` for"
        );
        assert!(error.starts_with(&message) && error.ends_with(&format!("found shape {shape}")), "{error}");
    }
    // Without a statement in the file, the shape shows the order.
    let mut edited = Edited::of("torchao-mx");
    let opened = edited.open().unwrap();
    edited.metadata = Some(json!({"format": "pt"}));
    let untold = edited.open().unwrap();
    read_all(&untold).unwrap();
    for tensor in &opened.tensors {
        assert_eq!(tensor.shape, untold.tensor(&tensor.name).unwrap().shape, "{}", tensor.name);
        assert_eq!(tensor.stored_as(), untold.tensor(&tensor.name).unwrap().stored_as(), "{}", tensor.name);
    }
}

#[test]
fn mismatched_torchao_floats_are_refused() {
    refused(
        "torchao-mx",
        |edited| edited.remove("mxfp4._weight_scale"),
        "missing tensor `mxfp4._weight_scale`, which belongs to the codes `mxfp4._weight_qdata`",
    );
    refused(
        "torchao-mx",
        |edited| edited.tensor("mxfp4._weight_scale").shape = vec![64, 16],
        "tensor `mxfp4._weight_scale`: expected [12, 5], or [32, 32] in tiles for `mxfp4._weight_qdata` of shape [12, 80], found shape [64, 16]",
    );
    refused(
        "torchao-mx",
        |edited| edited.tensor("mxfp4._weight_scale").dtype = "F8_E4M3".to_owned(),
        "tensor `mxfp4._weight_scale`: expected F8_E8M0, found F8_E4M3",
    );
    refused(
        "torchao-mx",
        |edited| edited.remove("nvfp4._weight_qdata"),
        "tensor `nvfp4._weight_per_tensor_scale`: part of quantized weights whose codes are missing or have the wrong type",
    );
    // The scale of row 130 is in the second tile: byte 16 (130 % 128), after one row of two tiles.
    no_value(
        "torchao-mx",
        |edited| set_byte(edited, "mxfp8.tiles._weight_scale", 2 * 512 + 16, 255),
        "tensor `mxfp8.tiles._weight_scale`: row 129: expected a finite scale, found byte 0xff",
    );
}

#[test]
fn six_bit_quark_is_refused() {
    refused(
        "fp4-quark",
        |edited| {
            let codes = edited.tensor("layers.0.ffn.experts.1.w1.weight");
            codes.shape = vec![16, 48];
            codes.bytes.resize(16 * 48, 0);
        },
        "tensor `layers.0.ffn.experts.1.w1.weight`: expected codes of 4 or 8 bits, found codes of 6 bits, in Quark's own order",
    );
}
