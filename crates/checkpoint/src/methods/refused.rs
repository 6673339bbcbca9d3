//! Methods that are recognized but not supported, each with advice.

use serde_json::Value as Json;

use super::{
    method::{Method, Reading},
    quantized::Quantized,
};

/// Advice for codes that need a kernel or a codebook without a ggml type.
const ORIGINAL: &str = "convert the checkpoint that these weights were quantized from: `base_model` of the \
                        model card often names it";
/// Advice for codes in the order of a kernel, which also exist in the order of files.
const BEFORE_KERNEL: &str =
    "convert the checkpoint from before it was repacked for this kernel, or the original one";

/// One row: name, names in `quant_method`, suffixes of tensor names if no config names a method, advice.
macro_rules! refused {
    ($($name:literal, [$($method:literal),*], [$($ending:literal),*], $advice:expr;)*) => {
        &[$(Method {
            name: $name,
            recognized_by: concat!("quant_method", $(" `", $method, "`",)* "; tensors", $(" `.", $ending, "`",)*),
            detect: |quantized| {
                quantized.method_is(&[$($method),*])
                    || (!<[&str]>::is_empty(&[$($ending),*]) && quantized.has_tensors(&[$($ending),*]))
            },
            reading: Reading::Refused($advice),
        },)*]
    };
}

/// Unsupported methods. A row is removed when its method becomes supported.
pub const REFUSED: &[Method] = refused! {
    "EETQ", ["eetq"], ["weight_scales"], BEFORE_KERNEL;
    "AQLM", ["aqlm"], ["codes", "codebooks", "scales"], ORIGINAL;
    "VPTQ", ["vptq"], ["centroids", "indices"], ORIGINAL;
    "SpQR", ["spqr"], ["dense_weights", "row_offsets", "col_vals"], ORIGINAL;
    "QuIP#", ["quip", "quip_sharp", "quip-sharp"], ["Qidxs"], ORIGINAL;
    "QTIP", ["qtip"], ["trellis", "SU", "SV"], ORIGINAL;
    "HIGGS", ["higgs"], ["scales", "tables", "tables2"], ORIGINAL;
    "FP-Quant", ["fp_quant"], ["qweight", "scales", "forward_hadamard_matrix"], ORIGINAL;
    "EXL2", ["exl2"], ["q_weight", "q_scale", "q_groups"], ORIGINAL;
    "EXL3", ["exl3"], ["trellis"], ORIGINAL;
    "SINQ", ["sinq"], [], ORIGINAL;
    "FourOverSix", ["fouroversix"], [], ORIGINAL;
    "NVFP4 of transformers", ["nvfp4"], ["weight_sf"], ORIGINAL;
    "BitBLAS", ["bitblas"], [], BEFORE_KERNEL;
    "Marlin", ["marlin", "gptq_marlin", "awq_marlin"], ["B", "s"], BEFORE_KERNEL;
    "QQQ", ["qqq"], ["B", "s_channel"], BEFORE_KERNEL;
    "GGUF", ["gguf"], [], "use the .gguf file itself";
};

/// Unsupported variants of supported methods, which are checked first.
pub const VARIANTS: &[Method] = &[
    Method {
        name: "GPTQ repacked for a kernel",
        recognized_by: "`checkpoint_format`, `format` `marlin`, `gptq_marlin`, `marlin_24`, `bitblas`; \
            `is_marlin_format`",
        detect: |quantized| {
            let is = |value: &str| ["marlin", "gptq_marlin", "marlin_24", "bitblas"].contains(&value);
            quantized.method_is(&["gptq", "awq", "auto-round"])
                && (["checkpoint_format", "format"].iter().any(|key| quantized.text(&[key]).is_some_and(is))
                    || flag(quantized, "is_marlin_format"))
        },
        reading: Reading::Refused(BEFORE_KERNEL),
    },
    Method {
        name: "AWQ repacked for a kernel",
        recognized_by: "`version` `gemv_fast`, `llm-awq`, `marlin`",
        detect: |quantized| {
            let is = |value: &str| {
                ["gemv_fast", "llm-awq", "marlin"].contains(&value.to_ascii_lowercase().as_str())
            };
            quantized.method_is(&["awq"])
                && ["version", "format"].iter().any(|key| quantized.text(&[key]).is_some_and(is))
        },
        reading: Reading::Refused(BEFORE_KERNEL),
    },
    Method {
        // A rotation belongs to the arithmetic of the model.
        name: "AutoRound with rotations or in the layout of MLX",
        recognized_by: "`rotation_config`; `packing_format` `auto_round:mlx`",
        detect: |quantized| {
            quantized.method_is(&["auto-round", "intel/auto-round"])
                && (quantized.entries("rotation_config").next().is_some()
                    || quantized.text(&["packing_format"]).is_some_and(|format| format.ends_with(":mlx")))
        },
        reading: Reading::Refused(ORIGINAL),
    },
    Method {
        // Their tensors have the same names and shapes as those of NVFP4 and MXFP4.
        name: "AutoRound with scales of E5M3, or with integers that share exponents",
        recognized_by: "`data_type` `nvfp4_v2`, `mx_int`, also in `extra_config`; `format` \
            `nvfp4-e5m3-pack-quantized`",
        detect: |quantized| {
            let is = |text: &str| {
                text == "nvfp4_v2" || text.starts_with("mx_int") || text.starts_with("nvfp4-e5m3")
            };
            ["data_type", "format"].iter().any(|key| {
                let entries = quantized.entries("extra_config").chain(quantized.entries("config_groups"));
                let entry_values = entries.filter_map(|(_, entry)| entry.get(key)?.as_str());
                quantized.text(&[key]).into_iter().chain(entry_values).any(is)
            })
        },
        reading: Reading::Refused(ORIGINAL),
    },
    Method {
        name: "NVFP4 with parts of low rank (SVDQuant)",
        recognized_by: "`quant_algo` `NVFP4_SVD`; tensors `.svdquant_lora_a` and `.svdquant_lora_b`",
        detect: |quantized| {
            quantized.text(&["quant_algo"]) == Some("NVFP4_SVD") || quantized.has_all(&["svdquant_lora_a"])
        },
        reading: Reading::Refused(ORIGINAL),
    },
    Method {
        name: "sparse compressed-tensors",
        recognized_by: "`format` `marlin-24`, `sparse-24-bitmask` or `sparse-bitmask`, also in `sparsity_config`",
        detect: |quantized| {
            let is = |format: &str| ["marlin-24", "sparse-24-bitmask", "sparse-bitmask"].contains(&format);
            [&["format"][..], &["sparsity_config", "format"]]
                .iter()
                .any(|path| quantized.text(path).is_some_and(is))
        },
        reading: Reading::Refused(ORIGINAL),
    },
    Method {
        // A norm before every matrix is not part of the architecture.
        name: "BitNet with a norm in every matrix",
        recognized_by: "quant_method `bitnet` with `use_rms_norm`",
        detect: |quantized| quantized.method_is(&["bitnet"]) && flag(quantized, "use_rms_norm"),
        reading: Reading::Refused(ORIGINAL),
    },
    Method {
        // A rotation may be part of the model's own arithmetic, so it cannot be undone in the weights.
        name: "compressed-tensors with transforms",
        recognized_by: "`transform_config` that is not empty",
        detect: |quantized| {
            let groups = quantized.value(&["transform_config", "config_groups"]);
            groups.and_then(Json::as_object).is_some_and(|groups| !groups.is_empty())
        },
        reading: Reading::Refused(ORIGINAL),
    },
];

/// True if a key of the config is true.
fn flag(quantized: &Quantized<'_>, key: &str) -> bool {
    quantized.value(&[key]).and_then(Json::as_bool).unwrap_or(false)
}
