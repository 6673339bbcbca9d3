//! optimum-quanto: several types under one config, distinguished by their tensors.
//!
//! ```text
//! X.weight._data        F8 or I8 [out, in]      X.weight._scale [out, 1]      w = code * scale
//! X.weight._data._data  U8 [ceil(R / n), g]     codes of 4 or 2 bits, n = 2 or 4 in a byte: row r of G = W as
//!                                               [R = out·in/g, g] is in bits (r / ceil(R / n)) · bits of row r % ceil(R / n)
//! X.weight._scale, X.weight._shift   [R, 1]     w = fl(fl(code * scale) - shift), a float shift;
//!                                               w = (code - shift) * scale, an integer one
//! X.input_scale, X.output_scale                 of activations
//! ```
//!
//! quanto rounds both steps of a float shift to the type of the scale; here they are computed in f32. The row
//! length of packed forms follows from a bias, or from the module's name and the sizes in the config. Source:
//! `pack_weights`, `group` and `QBitsDequantizer` of optimum-quanto 0.2.7.

use std::sync::Arc;

use serde_json::Value as Json;

use super::{
    assembly::Assembly,
    checks::{expect_dtype, expect_elems, matrix, mismatch, wrong_dtype},
    fp8,
    method::{Method, Reading},
    number_tables::{Numbers, Scales},
    planes::{Groups, Offset, Planes},
};
use crate::{Dtype, Error, Tensor};

pub(super) const QUANTO: Method = Method {
    name: "quanto",
    recognized_by: "quant_method `quanto`; tensors `._data` and `._scale`",
    detect: |quantized| quantized.method_is(&["quanto"]) || quantized.has_tensors(&["_data", "_scale"]),
    reading: Reading::Decoded(&[fp8::take, integers, packed]),
};

fn integers(assembly: &mut Assembly<'_>) -> Result<(), Error> {
    fp8::take_where(assembly, |codes| (codes.dtype == Dtype::I8).then_some(Numbers::I8))
}

/// Codes of 4 or 2 bits.
fn packed(assembly: &mut Assembly<'_>) -> Result<(), Error> {
    for codes in assembly.left() {
        if let Some(name) = codes.name.strip_suffix("._data._data") {
            take_packed(assembly, codes, name)?;
        }
    }
    Ok(())
}

fn take_packed<'a>(assembly: &mut Assembly<'a>, codes: &'a Tensor, name: &str) -> Result<(), Error> {
    let companion = |ending: &str| assembly.companion(codes, &format!("{name}.{ending}"));
    let (scales, shifts) = (companion("_scale")?, companion("_shift")?);
    expect_dtype(codes, &[Dtype::U8])?;
    let [packed_rows, group] = matrix(codes)?;
    // Rows of G are those of its scales; the last part of a byte may have fewer.
    let rows: u64 = scales.shape.iter().product();
    let bits = [4, 2].into_iter().find(|bits| rows > 0 && rows.div_ceil(8 / bits) == packed_rows);
    let (Some(bits), true) = (bits, group > 0) else {
        let expected = format!("2 or 4 rows of groups for each of {packed_rows} rows of bytes");
        return Err(mismatch(scales, expected, format!("{rows}")));
    };
    let n_elems = rows.checked_mul(group);
    let n_elems =
        n_elems.ok_or_else(|| mismatch(codes, "a size of 64 bits", format!("{rows} rows of {group}")))?;
    let shape = shape_of(assembly, name, n_elems).filter(|[_, row_elems]| row_elems.is_multiple_of(group));
    let shape = shape.ok_or_else(|| {
        mismatch(codes, "a bias or sizes in config.json that tell how long its rows are", "nothing that fits")
    })?;
    expect_elems(scales, &[Dtype::F16, Dtype::BF16, Dtype::F32], rows)?;
    expect_elems(shifts, &[Dtype::F16, Dtype::BF16, Dtype::F32, Dtype::I8, Dtype::U8], rows)?;
    let offset = match Scales::integers(shifts) {
        Some(integers) => Some(Offset::Zeros(integers)),
        None => Scales::of(shifts).map(Offset::Shifts),
    };
    let (Some(factors), Some(offset)) = (Scales::of(scales), offset) else {
        return Err(wrong_dtype(scales, "floats"));
    };
    let stored = Planes {
        codes: codes.span(),
        word_bytes: 1,
        plane: packed_rows * group,
        shifts: (0..8 / bits as u32).map(|part| part * bits as u32).collect(),
        mask: (1 << bits) - 1,
        row_elems: shape[1],
        n_elems,
        columns: group,
        groups: Groups::Rows,
        scales: factors,
        offset,
    };
    assembly.used(scales);
    assembly.used(shifts);
    assembly.put(codes, name.to_owned(), shape.to_vec(), Arc::new(stored));
    Ok(())
}

/// Shape (out, in) of a matrix of `n_elems` elements: by its bias, or else by the module's usual role.
fn shape_of(assembly: &Assembly<'_>, name: &str, n_elems: u64) -> Option<[u64; 2]> {
    let module = name.strip_suffix(".weight")?;
    if let Some(bias) = assembly.get(&format!("{module}.bias")) {
        let n_rows = bias.row_elems();
        return (n_rows > 0 && n_elems.is_multiple_of(n_rows)).then(|| [n_rows, n_elems / n_rows]);
    }
    let model = assembly.quantized.model;
    let config = model.get("text_config").unwrap_or(model);
    let size = |key: &str| config.get(key).and_then(Json::as_u64).filter(|size| *size > 0);
    let row_elems = match module.rsplit('.').next()? {
        "q_proj" | "k_proj" | "v_proj" | "gate_proj" | "up_proj" | "lm_head" => size("hidden_size"),
        "down_proj" => size("intermediate_size"),
        "o_proj" => {
            let heads = size("num_attention_heads")?;
            size("head_dim").or(Some(size("hidden_size")? / heads))?.checked_mul(heads)
        }
        _ => None,
    };
    row_elems.filter(|n| n_elems.is_multiple_of(*n)).map(|n| [n_elems / n, n])
}

#[cfg(test)]
mod tests {
    use crate::methods::two_roundings::compare;

    /// quanto computes `round(round(code * scale) - shift)` in the type of the scale.
    #[test]
    fn quanto_parts_match_library_output() {
        let n_tensors =
            compare("quanto-packed", |code, scale, shift, round| round(round(code * scale) - shift));
        assert_eq!(n_tensors, 8);
    }
}
