//! Quark of AMD: several types under one config, distinguished by their tensors.
//!
//! Source: amd-quark 0.13. Its 6-bit floats have their own byte order (`Pack_fp6` in `torch/utils/pack.py`)
//! and are refused.

use super::{
    assembly::Assembly,
    checks::mismatch,
    fp4, fp8,
    method::{Method, Reading},
    microscaled::Format,
    quark_ints,
};
use crate::Error;

pub(super) const QUARK: Method = Method {
    name: "Quark",
    recognized_by: "quant_method `quark`",
    detect: |quantized| quantized.method_is(&["quark"]),
    reading: Reading::Decoded(&[refuse_6_bits, fp4::take, fp8::take, quark_ints::take]),
};

/// Refuses 6-bit codes, which look like those of compressed-tensors.
fn refuse_6_bits(assembly: &mut Assembly<'_>) -> Result<(), Error> {
    for codes in assembly.left() {
        let scales = codes.name.strip_suffix(".weight").map(|module| format!("{module}.weight_scale"));
        let format = scales
            .and_then(|scales| assembly.get(&scales))
            .and_then(|scales| fp4::shape_of(codes, scales))
            .map(|(format, _)| format);
        if format == Some(Format::Mxfp6) {
            return Err(mismatch(codes, "codes of 4 or 8 bits", "codes of 6 bits, in Quark's own order"));
        }
    }
    Ok(())
}
