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
//! The reference always divides, and then quantizes again, which shrinks all values: its file is not what the layer
//! computes. Source: `unpack_weights`, `BitLinear` and `AutoBitLinear` in `integrations/bitnet.py` of transformers 5.23.0.

use std::sync::Arc;

use super::{
    assembly::{Assembly, Taker, assemble},
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
    reading: Reading::Decoded(|quantized| assemble(quantized, TAKERS)),
};

const TAKERS: &[Taker] = &[take];

/// Rows that share a byte.
const PER_BYTE: u64 = 4;

fn take(assembly: &mut Assembly<'_>) -> Result<(), Error> {
    let class = assembly.quantized.config().and_then(|config| config.get("linear_class")?.as_str());
    let mode = assembly.quantized.config().and_then(|config| config.get("quantization_mode")?.as_str());
    if mode == Some("online") {
        // Plain weights too: the layer rounds them by the mean of the matrix each time it runs.
        return Err(Error::MethodNotRead {
            method: "BitNet with weights rounded at run time",
            recognized_by: "quant_method `bitnet` with `quantization_mode` `online`",
            advice: "convert the checkpoint with rounded weights (`quantization_mode` `offline`)",
        });
    }
    // Transformers takes this class where none is named.
    let multiplies = class.unwrap_or("bitlinear") == "autobitlinear";
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
        let weights = CodedWeights {
            n_matrices: 1,
            n_rows,
            n_columns: *n_columns,
            codes: Codes {
                name: codes.name.clone(),
                span: codes.span(),
                bits: 2,
                packing: Packing::Parts {
                    part_elems: codes.n_bytes(),
                    word_bytes: 1,
                    shifts: (0..PER_BYTE as u32).map(|part| 2 * part).collect(),
                },
                axis: Axis::Row,
                n_streams: n_rows,
                n_elems: *n_columns,
                matrix_bytes: codes.n_bytes(),
                flip: 0,
            },
            scales: Strided { change, ..Strided::one(scale) },
            zeros: Zeros::Same(1.0),
            offsets: None,
            groups: Groups::Size((*n_columns).max(1)),
            fold: None,
        };
        assembly.used(scale);
        assembly.put(codes, codes.name.clone(), vec![n_rows, *n_columns], Arc::new(weights.checked()?));
    }
    Ok(())
}
