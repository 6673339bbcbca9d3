//! HQQ: codes of 8, 4, 3, 2 or 1 bits in planes, with a scale and a zero point, a real number, for each group.
//!
//! ```text
//! X.W_q     U8 or I32, [rows of a plane, columns] of the grouped matrix G; the first plane in the highest bits. With
//!           `view_as_float` the same bytes under the compute type
//! X.scale, X.zero    [rows of G, 1] (axis 1) or [1, columns of G] (axis 0)
//! X.shape I64 [2], X.group_size, X.axis, X.packing (text), X.view_as_float, ...
//!
//! G = W as [out·in/g, g] (axis 1), as [g, out·in/g] (axis 0); w = fl(fl(code - zero) * scale)
//! ```
//!
//! hqq rounds both steps to its compute type; here they are done in f32. Source: `HQQLinear.state_dict`,
//! `Quantizer.dequantize` and `BitPack` of hqq 0.2.8.post1. Quantized scales and zeros, which it has
//! deprecated and no longer writes, are refused.

use std::sync::Arc;

use super::{
    assembly::Assembly,
    checks::{expect_elems, mismatch, small_number, wrong_dtype},
    method::{Method, Reading},
    number_tables::Scales,
    planes::{Groups, Offset, Planes},
    quantized::sort_by_name,
};
use crate::{Dtype, Error, Part, Tensor};

/// Layout of codes in words: name, bytes of a word, bits of a code and the lowest bit of each plane.
struct Packing {
    name: &'static str,
    word_bytes: u64,
    mask: u32,
    shifts: &'static [u32],
}

const PACKINGS: &[Packing] = &[
    Packing { name: "8bit_u8", word_bytes: 1, mask: 255, shifts: &[0] },
    Packing { name: "4bit_u8", word_bytes: 1, mask: 15, shifts: &[4, 0] },
    Packing { name: "2bit_u8", word_bytes: 1, mask: 3, shifts: &[6, 4, 2, 0] },
    Packing { name: "1bit_u8", word_bytes: 1, mask: 1, shifts: &[7, 6, 5, 4, 3, 2, 1, 0] },
    Packing { name: "3bit_32", word_bytes: 4, mask: 7, shifts: &[27, 24, 21, 18, 15, 12, 9, 6, 3, 0] },
];

/// Settings that determine the storage of a matrix, and settings that only record how it was made.
const SETTINGS: &[&str] = &[
    "nbits",
    "group_size",
    "axis",
    "shape",
    "packing",
    "compute_dtype",
    "unpack_view_dtype",
    "view_as_float",
    "quant_scale",
    "quant_zero",
    "channel_wise",
    "optimize",
    "round_zero",
    "offload_meta",
    "encoded_state_dict",
    "stores_quant_config",
];

/// HQQ modules inside a transformers checkpoint.
pub(super) const HQQ: Method = Method {
    name: "HQQ",
    recognized_by: "quant_method `hqq`; tensors `.W_q`, `.scale` and `.zero`",
    detect: |quantized| quantized.method_is(&["hqq"]) || quantized.has_tensors(&["W_q", "scale", "zero"]),
    reading: Reading::DecodedThen(&[take, refuse_rest], sort_by_name),
};

fn take(assembly: &mut Assembly<'_>) -> Result<(), Error> {
    for codes in assembly.left() {
        if let Some(module) = codes.name.strip_suffix(".W_q") {
            take_module(assembly, codes, module)?;
        }
    }
    Ok(())
}

/// Refuses settings, scales or zeros without codes.
fn refuse_rest(assembly: &mut Assembly<'_>) -> Result<(), Error> {
    for tensor in assembly.left() {
        let ending = tensor.name.rsplit('.').next().unwrap_or_default();
        if ["scale", "zero", "zero_scale"].contains(&ending) || SETTINGS.contains(&ending) {
            return Err(Error::ScalesWithoutCodes { tensor: tensor.name.clone() });
        }
    }
    Ok(())
}

fn take_module<'a>(assembly: &mut Assembly<'a>, codes: &'a Tensor, module: &str) -> Result<(), Error> {
    let parts = assembly.quantized.parts;
    let companion =
        |assembly: &Assembly<'a>, ending: &str| assembly.companion(codes, &format!("{module}.{ending}"));
    for flag in ["quant_scale", "quant_zero"] {
        if let Some(flag) = assembly.get(&format!("{module}.{flag}"))
            && small_number(parts, flag)? != 0
        {
            return Err(mismatch(flag, "0: scales and zeros that are not quantized themselves", "1"));
        }
    }
    let shape = shape_of(parts, companion(assembly, "shape")?)?;
    let [n_rows, row_elems] = shape;
    // Its factors have 8 bytes each, so the product may overflow.
    let n_elems = n_rows.checked_mul(row_elems).filter(|n| *n > 0);
    let n_elems = n_elems.ok_or_else(|| mismatch(codes, "a matrix", format!("shape {shape:?}")))?;
    let packing = packing_of(parts, companion(assembly, "packing")?)?;
    let axis = companion(assembly, "axis")?;
    let groups = match small_number(parts, axis)? {
        0 => Groups::Columns,
        1 => Groups::Rows,
        other => return Err(mismatch(axis, "0 or 1", other.to_string())),
    };
    // G is (rows, columns). Without a group size, complete rows or columns of the matrix are groups.
    let group = match assembly.get(&format!("{module}.group_size")) {
        Some(tensor) => {
            let group = small_number(parts, tensor)?;
            if group == 0 || !n_elems.is_multiple_of(group) {
                return Err(mismatch(tensor, format!("a divisor of {n_elems}"), group.to_string()));
            }
            group
        }
        None if groups == Groups::Rows => row_elems,
        None => n_rows,
    };
    let (rows, columns) = match groups {
        Groups::Columns => (group, n_elems / group),
        _ => (n_elems / group, group),
    };
    // Rows of a plane: all planes together have the rows of G; the last may have fewer.
    let n_planes = packing.shifts.len() as u64;
    if packing.word_bytes == 1 && !rows.is_multiple_of(n_planes) {
        return Err(mismatch(codes, format!("a multiple of {n_planes} rows of groups"), rows.to_string()));
    }
    let plane = rows.div_ceil(n_planes) * columns;
    let n_bytes = plane.saturating_mul(packing.word_bytes);
    if codes.n_bytes() != n_bytes {
        let expected = format!("{n_bytes} bytes of {} for shape {shape:?}", packing.name);
        return Err(mismatch(codes, expected, format!("{} bytes", codes.n_bytes())));
    }
    let n_groups = if groups == Groups::Rows { rows } else { columns };
    let (scale, zero) = (companion(assembly, "scale")?, companion(assembly, "zero")?);
    let floats = |tensor: &Tensor| {
        expect_elems(tensor, &[Dtype::F16, Dtype::BF16, Dtype::F32], n_groups)?;
        Scales::of(tensor).ok_or_else(|| wrong_dtype(tensor, "floats"))
    };
    let stored = Planes {
        codes: codes.span(),
        word_bytes: packing.word_bytes,
        plane,
        shifts: packing.shifts.to_vec(),
        mask: packing.mask,
        row_elems,
        n_elems,
        columns,
        groups,
        scales: floats(scale)?,
        offset: Offset::Zeros(floats(zero)?),
    };
    for ending in ["scale", "zero"].iter().chain(SETTINGS) {
        if let Some(tensor) = assembly.get(&format!("{module}.{ending}")) {
            assembly.used(tensor);
        }
    }
    assembly.put(codes, format!("{module}.weight"), shape.to_vec(), Arc::new(stored));
    Ok(())
}

/// The shape of a matrix, (out, in).
fn shape_of(parts: &[Part], tensor: &Tensor) -> Result<[u64; 2], Error> {
    expect_elems(tensor, &[Dtype::I64], 2)?;
    let bytes = tensor.span().of(parts)?;
    let (dims, _) = bytes.as_chunks();
    match dims {
        [out, row] => Ok([u64::from_le_bytes(*out), u64::from_le_bytes(*row)]),
        _ => Err(mismatch(tensor, "two sizes", format!("{} bytes", bytes.len()))),
    }
}

/// The packing that a text names.
fn packing_of(parts: &[Part], tensor: &Tensor) -> Result<&'static Packing, Error> {
    let bytes = tensor.span().of(parts)?;
    PACKINGS.iter().find(|packing| packing.name.as_bytes() == &*bytes).ok_or_else(|| {
        let names: Vec<&str> = PACKINGS.iter().map(|packing| packing.name).collect();
        // Names of other packings are short; anything longer is not a name.
        let found = String::from_utf8_lossy(&bytes[..bytes.len().min(32)]).into_owned();
        mismatch(tensor, format!("one of {}", names.join(", ")), found)
    })
}

#[cfg(test)]
mod tests {
    use crate::methods::two_roundings::compare;

    /// hqq computes `round(round(code - zero) * scale)` in its compute type.
    #[test]
    fn hqq_parts_match_library_output() {
        for name in ["hqq-forms", "hqq-llama"] {
            let n_tensors = compare(name, |code, scale, zero, round| round(round(code - zero) * scale));
            assert!(n_tensors >= 7, "{name}");
        }
    }
}
