//! AutoRound: layouts of other methods, by `packing_format`.
//!
//! ```text
//! auto_round:auto_gptq, auto_round:gptq   GPTQ without g_idx; zeros are stored less one, 0 as 0
//! auto_round, auto_round:gptqmodel        GPTQ with the zeros themselves
//! auto_round:auto_awq, auto_round:awq     AWQ gemm
//! auto_round:llm_compressor, :fp8, ...    tensors of compressed-tensors, 8-bit floats
//! ```
//!
//! Codes of 5, 6 and 7 bits are dense streams like all others. A module's tensors determine its layout, the
//! config the meaning of zeros.
//!
//! Source: auto-round 0.16.1 `export/export_to_autoround/`.

use super::{
    assembly::Assembly,
    awq, compressed_ints, fp4, fp8,
    gptq::{Columns, Planes, group_sizes, take_columns},
    method::{Method, Reading},
};
use crate::{Error, codes::ZeroRule};

pub(super) const AUTO_ROUND: Method = Method {
    name: "AutoRound",
    recognized_by: "quant_method `auto-round`, `intel/auto-round`",
    detect: |quantized| quantized.method_is(&["auto-round", "intel/auto-round"]),
    reading: Reading::Decoded(&[
        take,
        awq::take,
        compressed_ints::take_packed,
        compressed_ints::take_bytes,
        fp4::take,
        fp8::take,
    ]),
};

/// Takes every module with codes in columns.
fn take(assembly: &mut Assembly<'_>) -> Result<(), Error> {
    let zeros = match assembly.quantized.text(&["packing_format"]) {
        Some("auto_round:auto_gptq" | "auto_round:gptq") => ZeroRule::PlusOne,
        _ => ZeroRule::AsStored,
    };
    let group_sizes = group_sizes(assembly.quantized);
    // A zero of 0 is stored as 0, so that no stored zero has all bits set.
    take_columns(assembly, &Columns { zeros, planes: Planes::None, group_sizes, is_last: false }, true)
}
