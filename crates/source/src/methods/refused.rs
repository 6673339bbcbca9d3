//! Methods that are recognized and not read.

use super::method::{Method, Reading};

const OTHER_COPY: &str = "convert the checkpoint that these weights were quantized from";

/// One row: name, what it is recognized by, the names in `quant_method`, endings of tensor names.
macro_rules! refused {
    ($($name:literal, [$($method:literal),*], [$($ending:literal),*];)*) => {
        &[$(Method {
            name: $name,
            recognized_by: concat!("quant_method ", $("`", $method, "` ",)* "or tensors ", $("`.", $ending, "` ",)*),
            detect: |quantized| {
                quantized.method_is(&[$($method),*])
                    || (!<[&str]>::is_empty(&[$($ending),*]) && quantized.looks_like(&[$($ending),*]))
            },
            reading: Reading::Refused(OTHER_COPY),
        },)*]
    };
}

/// Known and not read.
pub(super) const REFUSED: &[Method] = refused! {
    "GPTQ", ["gptq"], ["qweight", "qzeros", "scales", "g_idx"];
    "AWQ", ["awq"], ["qweight", "qzeros", "scales"];
    "AutoRound", ["auto-round", "intel/auto-round"], [];
    "bitsandbytes", ["bitsandbytes"], ["absmax", "quant_map"];
    "HQQ", ["hqq"], ["W_q", "scale", "zero"];
    "MLX", [], ["weight", "scales", "biases"];
    "BitNet", ["bitnet"], [];
    "integers of Gemma", ["gemma"], [];
    "EETQ", ["eetq"], ["weight_scales"];
    "AQLM", ["aqlm"], ["codes", "codebooks", "scales"];
    "VPTQ", ["vptq"], ["centroids", "indices"];
    "SpQR", ["spqr"], [];
    "QuIP#", ["quip", "quip_sharp"], ["Qidxs"];
    "HIGGS", ["higgs"], [];
    "FP-Quant", ["fp_quant"], [];
    "EXL2", ["exl2"], ["q_weight", "q_scale", "q_groups"];
    "EXL3", ["exl3"], ["trellis"];
    "SINQ", ["sinq"], [];
    "FourOverSix", ["fouroversix"], [];
    "NVFP4 of transformers", ["nvfp4"], ["weight_sf"];
    "BitBLAS", ["bitblas"], [];
    "Marlin", ["marlin"], [];
    "QQQ", ["qqq"], [];
};
