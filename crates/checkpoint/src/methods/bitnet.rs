//! BitNet b1.58: three values in two bits, and one scale for a matrix.
//!
//! ```text
//! X.weight        U8 [out / 4, in]   the code of row p · (out / 4) + r is (byte[r] >> 2p) & 3, less 1
//! X.weight_scale  [1]
//!
//! linear_class bitlinear              w = (code - 1) / weight_scale
//! linear_class autobitlinear, offline w = (code - 1) * weight_scale
//! ```
//!
//! The reference always divides, and then quantizes again, which shrinks all values: its file differs from
//! the layer. Source: `unpack_weights`, `BitLinear` and `AutoBitLinear` in `integrations/bitnet.py` of
//! transformers 5.23.0.

use std::sync::Arc;

use super::{
    assembly::Assembly,
    checks::{expect_elems, mismatch},
    method::{Method, Reading},
};
use crate::{
    Dtype, Error,
    codes::{Axis, Change, CodedWeights, Codes, FLOATS, Groups, Packing, Strided, Zeros},
};

pub(super) const BITNET: Method = Method {
    name: "BitNet",
    recognized_by: "quant_method `bitnet`",
    detect: |quantized| quantized.method_is(&["bitnet"]),
    reading: Reading::Decoded(&[take]),
};

const PER_BYTE: u64 = 4;

fn take(assembly: &mut Assembly<'_>) -> Result<(), Error> {
    if assembly.quantized.text(&["quantization_mode"]) == Some("online") {
        // Plain weights too: the layer rounds them by the mean of the matrix on every run.
        return Err(Error::MethodNotRead {
            method: "BitNet with weights rounded at run time",
            recognized_by: "quant_method `bitnet` with `quantization_mode` `online`",
            advice: "convert the checkpoint with rounded weights (`quantization_mode` `offline`)",
        });
    }
    // `bitlinear` is the default class of transformers.
    let multiplies = assembly.quantized.text(&["linear_class"]) == Some("autobitlinear");
    for codes in assembly.left() {
        let Some(scale) = assembly.get(&format!("{}_scale", codes.name)) else { continue };
        let (Dtype::U8, [packed_rows, n_columns]) = (codes.dtype, &codes.shape[..]) else {
            return Err(mismatch(
                codes,
                "packed rows of U8",
                format!("{} of shape {:?}", codes.dtype, codes.shape),
            ));
        };
        expect_elems(scale, FLOATS, 1)?;
        let n_rows = packed_rows.saturating_mul(PER_BYTE);
        let change = if multiplies { Change::None } else { Change::Inverse };
        let shape = [n_rows, *n_columns];
        let packing = Packing::Parts {
            part_elems: codes.n_bytes(),
            word_bytes: 1,
            shifts: (0..PER_BYTE as u32).map(|part| 2 * part).collect(),
        };
        let weights = CodedWeights::new(
            shape,
            Codes::new(codes, 2, packing, Axis::Row, shape),
            Strided { change, ..Strided::one(scale) },
            Zeros::Same(1.0),
            Groups::Size((*n_columns).max(1)),
        );
        assembly.used(scale);
        assembly.put(codes, codes.name.clone(), shape.to_vec(), Arc::new(weights.checked()?));
    }
    Ok(())
}
