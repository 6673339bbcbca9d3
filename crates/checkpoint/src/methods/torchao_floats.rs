//! Floats of 4 and 8 bits with group scales in torchao's safetensors.
//!
//! ```text
//! type          qdata                              scale                        beside them
//! MXTensor      U8 [.., out, in / 2], e2m1         F8_E8M0 [.., out, in / 32]   -
//!               F8_E4M3 or F8_E5M2 [.., out, in]   same                         -
//! NVFP4Tensor   U8 [.., out, in / 2], e2m1         F8_E4M3 [.., out, in / 16]   per_tensor_scale F32 [] or [E, 1, 1],
//!                                                                               act_per_tensor_scale F32 []
//!
//! with `is_swizzled_scales`, which torchao's own configs set, scales are tiles (`scale_order.rs`) and have the shape
//! [.., 32 ceil(out / 128), 16 ceil(groups / 4)]
//! ```
//!
//! Values are computed like in `microscaled.rs`. Source: `prototype/mx_formats/` of torchao 0.18.0. Floats of
//! 6 bits, a byte each, and groups of other lengths are refused.

use serde_json::Value as Json;

use super::{
    assembly::Assembly,
    checks::{mismatch, shape_error, wrong_dtype, wrong_shape},
    fp4::{Parts, Written},
    microscaled::Format,
    number_tables::Numbers,
    scale_order::ScaleOrder,
};
use crate::{Dtype, Error, Tensor};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// `MXTensor`.
    Mx,
    /// `NVFP4Tensor`.
    Nvfp4,
}

impl Kind {
    pub fn of(name: &str) -> Option<Kind> {
        match name {
            "MXTensor" => Some(Kind::Mx),
            "NVFP4Tensor" => Some(Kind::Nvfp4),
            _ => None,
        }
    }

    /// Replaces `codes` with the tensor `name`; returns true if it stays in blocks. `stem` is the prefix of
    /// its parts, `entry` its description in the file.
    pub fn put<'a>(
        self,
        assembly: &mut Assembly<'a>,
        codes: &'a Tensor,
        stem: &str,
        name: String,
        entry: Option<&Json>,
    ) -> Result<bool, Error> {
        let attribute = |key: &str| entry?.get("_data")?.get(key);
        let scale_type = if self == Kind::Mx { Dtype::F8_E8M0 } else { Dtype::F8_E4M3 };
        let scales = assembly.part(codes, &format!("{stem}_scale"), &[scale_type])?;
        let format = self.format(codes, attribute("elem_dtype"))?;
        let size = attribute("block_size").and_then(Json::as_u64);
        if let Some(size) = size.filter(|size| *size != format.group()) {
            return Err(mismatch(
                codes,
                format!("groups of {}", format.group()),
                format!("groups of {size}"),
            ));
        }
        let (shape, order) = layout(codes, scales, format)?;
        // The shape shows the order; the file's statement must agree.
        let is_tiled = attribute("is_swizzled_scales").and_then(Json::as_bool);
        if is_tiled.is_some_and(|is_tiled| is_tiled != (order == ScaleOrder::Tiles)) {
            let expected = "a shape that matches `is_swizzled_scales` in `__metadata__`";
            return Err(shape_error(scales, codes, expected));
        }
        let factor = |end: &str| assembly.get(&format!("{stem}{end}")).filter(|_| self == Kind::Nvfp4);
        let parts = Parts {
            codes,
            scales: (scales, order),
            format,
            values: (name, shape),
            tensor_scales: [factor("_per_tensor_scale"), factor("_act_per_tensor_scale")],
            written: Written::Factor,
            columns: None,
            keeps_blocks: self == Kind::Nvfp4,
            // Only weights were quantized.
            wide_activations: attribute("act_quant_kwargs").is_some_and(Json::is_null),
        };
        parts.put(assembly)
    }

    /// Format of the codes, from their type and the file's description.
    fn format(self, codes: &Tensor, elem_dtype: Option<&Json>) -> Result<Format, Error> {
        let (format, name) = match (self, codes.dtype) {
            (Kind::Nvfp4, Dtype::U8) => (Format::Nvfp4, "float4_e2m1fn_x2"),
            (Kind::Mx, Dtype::U8) => (Format::Mxfp4, "float4_e2m1fn_x2"),
            (Kind::Mx, Dtype::F8_E4M3) => (Format::Mxfp8(Numbers::E4M3), "float8_e4m3fn"),
            (Kind::Mx, Dtype::F8_E5M2) => (Format::Mxfp8(Numbers::E5M2), "float8_e5m2"),
            _ => return Err(wrong_dtype(codes, "codes of U8, F8_E4M3 or F8_E5M2")),
        };
        // A type of torch is an object; the 6-bit types, which torch lacks, are texts.
        let stated = elem_dtype.and_then(|stated| stated.get("_data").unwrap_or(stated).as_str());
        match stated.filter(|stated| *stated != name) {
            None => Ok(format),
            Some(other) => Err(mismatch(codes, format!("codes of `{name}`"), format!("codes of `{other}`"))),
        }
    }
}

/// Shape of the values, and order of the scales.
fn layout(codes: &Tensor, scales: &Tensor, format: Format) -> Result<(Vec<u64>, ScaleOrder), Error> {
    let (row_bytes, group_bytes) = (codes.row_elems(), format.group_bytes());
    // Without bytes a product of its dimensions may overflow.
    let is_whole = codes.n_bytes() > 0 && row_bytes.is_multiple_of(group_bytes);
    let ([outer @ .., n_rows, _], true) = (&codes.shape[..], is_whole) else {
        return Err(wrong_shape(codes, "rows of whole groups"));
    };
    let n_groups = row_bytes / group_bytes;
    let shape = [outer, &[*n_rows, n_groups * format.group()]].concat();
    let in_rows = [outer, &[*n_rows, n_groups]].concat();
    if scales.shape == in_rows {
        return Ok((shape, ScaleOrder::Rows));
    }
    // Tiles do not restart: each of several matrices has to fill its last tile.
    let in_tiles = [outer, &[n_rows.div_ceil(128) * 32, n_groups.div_ceil(4) * 16]].concat();
    if scales.shape == in_tiles
        && ScaleOrder::Tiles.n_bytes(codes.n_rows(), n_groups) == Some(scales.n_bytes())
    {
        return Ok((shape, ScaleOrder::Tiles));
    }
    Err(shape_error(scales, codes, format!("{in_rows:?}, or {in_tiles:?} in tiles")))
}
