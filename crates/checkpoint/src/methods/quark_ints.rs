//! Integers of Quark: 2 to 8 bits, in groups, with scales for rows, or with one for all.
//!
//! ```text
//! uint4, int4   X.weight I32 [in, out / 8]      eight outputs a word, in AWQ's order (`pack_method` `reorder`) or their own
//! uint8, int8   X.weight U8, I8 [in, out]
//! uint2         X.weight U8 [in, out / 4]       four outputs a byte, the first in the highest bits
//!               those are for `per_group`; else [out, in ..], packed along the inputs
//! int3          X.weight U8 [out, in / 8 * 3]   one stream of bits for each row, whatever the scales are for
//! all           X.weight_scale [in / g, out] of groups ([out, in / g] in exports before 1.0), [out], or []
//!               X.weight_zero_point packed as the weight, or floats as the scales; zeros or none where codes are symmetric
//!
//! w = (code - zero) * scale; codes of int3, int4 and int8 are in two's complement
//! ```
//!
//! A module has the type of `layer_quant_config` if one of its patterns matches the path, else that of
//! `global_quant_config`. Other types and two stages of scales are refused. Source: `torch/export/` and
//! `torch/utils/pack.py` of amd-quark 0.13.

use std::sync::Arc;

use serde_json::Value as Json;

use super::{
    assembly::Assembly,
    checks::{matrix, mismatch, shape_error, wrong_shape},
    quantized::Quantized,
};
use crate::{
    Dtype, Error, Part, Tensor,
    codes::{Axis, Change, CodedWeights, Codes, FLOATS, Fields, Groups, Packing, Strided, ZeroRule, Zeros},
};

struct Type {
    name: &'static str,
    bits: u32,
    stored: Dtype,
    /// Codes in `items` items of the file.
    per: u64,
    items: u64,
    /// True if codes are in two's complement.
    is_signed: bool,
    /// True if matrices with groups are stored with inputs as rows.
    is_turned: bool,
}

const TYPES: &[Type] = &[
    Type { name: "uint2", bits: 2, stored: Dtype::U8, per: 4, items: 1, is_signed: false, is_turned: true },
    Type { name: "int3", bits: 3, stored: Dtype::U8, per: 8, items: 3, is_signed: true, is_turned: false },
    Type { name: "uint4", bits: 4, stored: Dtype::I32, per: 8, items: 1, is_signed: false, is_turned: true },
    Type { name: "int4", bits: 4, stored: Dtype::I32, per: 8, items: 1, is_signed: true, is_turned: true },
    Type { name: "uint8", bits: 8, stored: Dtype::U8, per: 1, items: 1, is_signed: false, is_turned: true },
    Type { name: "int8", bits: 8, stored: Dtype::I8, per: 1, items: 1, is_signed: true, is_turned: true },
];

pub(super) fn take(assembly: &mut Assembly<'_>) -> Result<(), Error> {
    for codes in assembly.left() {
        let Some(module) = codes.name.strip_suffix(".weight") else { continue };
        let scales = assembly.get(&format!("{module}.weight_scale"));
        let scales = scales.filter(|scales| FLOATS.contains(&scales.dtype) && !FLOATS.contains(&codes.dtype));
        let Some(scales) = scales else { continue };
        let config = weight_config(assembly.quantized, module);
        let text = |key: &str| config.and_then(|config| config.get(key)?.as_str()).unwrap_or_default();
        let stated_type = TYPES.iter().find(|of| of.name == text("dtype") && of.stored == codes.dtype);
        let Some(of) = stated_type else {
            let found =
                format!("{} of shape {:?}, `{}` in the config", codes.dtype, codes.shape, text("dtype"));
            return Err(mismatch(
                codes,
                "uint4 or int4 in words, uint2, int3, uint8 or int8 in bytes",
                found,
            ));
        };
        let is_grouped = text("qscheme") == "per_group";
        let is_awq = assembly.quantized.text(&["export", "pack_method"]).is_none_or(|name| name == "reorder");
        let fields = if is_awq { Fields::Awq } else { Fields::Plain };
        let module_of = Module { codes, scales, of, is_grouped, fields };
        let zeros = assembly.get(&format!("{module}.weight_zero_point"));
        let weights = module_of.weights(zeros, assembly.quantized.parts)?;
        let shape = vec![weights.n_rows, weights.n_columns];
        zeros.into_iter().for_each(|zeros| assembly.used(zeros));
        assembly.used(scales);
        assembly.put(codes, codes.name.clone(), shape, Arc::new(weights.checked()?));
    }
    Ok(())
}

/// Tensors of a module, and its config.
struct Module<'a> {
    codes: &'a Tensor,
    scales: &'a Tensor,
    of: &'static Type,
    is_grouped: bool,
    fields: Fields,
}

impl Module<'_> {
    fn weights(&self, zeros: Option<&Tensor>, parts: &[Part]) -> Result<CodedWeights, Error> {
        let Module { codes, scales, of, is_grouped, .. } = *self;
        let [n_streams, n_items] = matrix(codes)?;
        let n_elems = n_items / of.items * of.per;
        if n_streams == 0 || n_elems == 0 || !n_items.is_multiple_of(of.items) {
            return Err(wrong_shape(codes, format!("rows of whole {} codes", of.name)));
        }
        let is_turned = is_grouped && of.is_turned;
        let (n_rows, n_columns) = if is_turned { (n_elems, n_streams) } else { (n_streams, n_elems) };
        let (grid, n_groups) = self.grid(scales, [n_rows, n_columns])?;
        let axis = if is_turned { Axis::Column } else { Axis::Row };
        let zeros = match zeros {
            Some(zeros) => self.zeros(zeros, parts, [n_rows, n_columns, n_groups])?,
            None => Zeros::Same(self.middle()),
        };
        let packed = self.packed(codes, axis, [n_streams, n_elems, n_items]);
        let groups = Groups::Size(n_columns / n_groups);
        Ok(CodedWeights::new([n_rows, n_columns], packed, grid, zeros, groups))
    }

    /// Value that the flipped sign bit of two's complement adds to codes and zeros.
    fn middle(&self) -> f32 {
        if self.of.is_signed { (1u32 << (self.of.bits - 1)) as f32 } else { 0.0 }
    }

    /// Layout of numbers per group, row or tensor, and the number of groups.
    fn grid(&self, numbers: &Tensor, [n_rows, n_columns]: [u64; 2]) -> Result<(Strided, u64), Error> {
        let wrong_shape = |expected: &str| shape_error(numbers, self.codes, expected);
        match numbers.shape[..] {
            // If both fit, use the layout of exports since 1.0.
            [n_groups, rows] if self.is_grouped && rows == n_rows && fits(n_groups, n_columns) => {
                Ok((Strided::transposed(numbers, n_rows), n_groups))
            }
            [rows, n_groups] if self.is_grouped && rows == n_rows && fits(n_groups, n_columns) => {
                Ok((Strided::by_row(numbers, n_rows, n_groups), n_groups))
            }
            _ if self.is_grouped => Err(wrong_shape("(groups, out), or (out, groups)")),
            _ => match numbers.shape.iter().product::<u64>() {
                1 => Ok((Strided::one(numbers), 1)),
                n if n == n_rows => Ok((Strided { row_stride: 1, ..Strided::one(numbers) }, 1)),
                _ => Err(wrong_shape("(out), (out, 1) or one number")),
            },
        }
    }

    /// Codes in the packing of the type; each stream has `n_items` items of the file.
    fn packed(&self, tensor: &Tensor, axis: Axis, [n_streams, n_elems, n_items]: [u64; 3]) -> Codes {
        let of = self.of;
        let stream_bytes = n_items * of.stored.bits() / 8;
        let packing = match of.bits {
            2 => Packing::HighFirst { stream_bytes },
            4 => Packing::Words { stream_bytes, fields: self.fields },
            _ => Packing::Dense { stream_bytes },
        };
        let flip = if of.is_signed { 1 << (of.bits - 1) } else { 0 };
        Codes { flip, ..Codes::new(tensor, of.bits, packing, axis, [n_streams, n_elems]) }
    }

    fn zeros(
        &self,
        zeros: &Tensor,
        parts: &[Part],
        [n_rows, n_columns, n_groups]: [u64; 3],
    ) -> Result<Zeros, Error> {
        let of = self.of;
        if FLOATS.contains(&zeros.dtype) {
            let (grid, groups) = self.grid(zeros, [n_rows, n_columns])?;
            if groups != n_groups {
                return Err(shape_error(zeros, self.codes, "as the scales"));
            }
            return Ok(Zeros::Floats(Strided { change: Change::Add(self.middle()), ..grid }));
        }
        // Symmetric codes have zeros that are 0 in any packing.
        let bytes = zeros.span().of(parts)?;
        if bytes.iter().all(|byte| *byte == 0) {
            return Ok(Zeros::Same(self.middle()));
        }
        let n_items = n_rows.div_ceil(of.per) * of.items;
        let is_packed = match zeros.shape[..] {
            [groups, items] if self.is_grouped => groups == n_groups && items == n_items,
            [items] if !self.is_grouped => items == n_items,
            _ => false,
        };
        if zeros.dtype != of.stored || of.name == "int3" || !is_packed {
            let expected = format!("zeros of 0, or {} of {} packed as the weight", of.name, of.stored);
            return Err(mismatch(zeros, expected, format!("{} of shape {:?}", zeros.dtype, zeros.shape)));
        }
        let codes = self.packed(zeros, Axis::Column, [n_groups, n_rows, n_items]);
        Ok(Zeros::Codes(codes, ZeroRule::AsStored))
    }
}

fn fits(n_groups: u64, n_columns: u64) -> bool {
    n_groups > 0 && n_columns.is_multiple_of(n_groups)
}

fn weight_config<'a>(quantized: &'a Quantized<'_>, module: &str) -> Option<&'a Json> {
    let mut own = quantized.entries("layer_quant_config");
    let own = own.find(|(pattern, _)| matches(pattern, module)).map(|(_, own)| own);
    // A list of two stages has no `dtype`.
    own.or_else(|| quantized.value(&["global_quant_config"]))?.get("weight")
}

/// True if the pattern, in which `*` matches any text, matches the entire name.
fn matches(pattern: &str, name: &str) -> bool {
    let mut pieces = pattern.split('*');
    let Some(mut rest) = pieces.next().and_then(|first| name.strip_prefix(first)) else { return false };
    let Some(last) = pieces.next_back() else { return rest.is_empty() };
    for piece in pieces {
        // The first match of each piece leaves the most for the others.
        let Some(at) = rest.find(piece) else { return false };
        rest = &rest[at + piece.len()..];
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn stars_match_any_text() {
        for (pattern, name, fits) in [
            ("a.b", "a.b", true),
            ("a.b", "a.bc", false),
            ("*.down_proj", "model.layers.0.mlp.down_proj", true),
            ("*.layers.*.mlp.*", "model.layers.0.mlp.down_proj", true),
            ("model.*.k*", "model.layers.0.self_attn.v_proj", false),
            ("*", "", true),
            ("a*a", "a", false),
        ] {
            assert_eq!(matches(pattern, name), fits, "{pattern} {name}");
        }
    }
}
