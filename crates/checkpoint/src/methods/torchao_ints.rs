//! Integers in torchao's safetensors.
//!
//! ```text
//! Int8Tensor, IntxUnpackedToInt8Tensor   qdata I8 [out, in], scale and zero_point [out, G], [1, 1]   w = (q - z) * s
//! Int4Tensor             qdata I8 [out, in / 2], two's complement, the even column low;
//!                        scale, zero_point [G, out], floats                                  w = fl(fl(q * s) + z)
//! Int4PlainInt32Tensor   qdata I32 [out, in / 8], low first; scale, zero_point I8 [G, out]   w = (q - z) * s
//! Int4TilePackedTo4dTensor   `tiled.rs`
//!
//! any type               act_pre_scale [in]: a factor of each input, and so of each column of the matrix
//! ```
//!
//! `__metadata__` of the file has an entry for each weight: `{"_type", "_data": {"block_size", ...}, "_tensor_data_names"}`.
//! torchao rounds both steps of a float zero to the type of the scale; here they are done in f32. Source:
//! `flatten_tensor_state_dict` and `quantize_/workflows/` of torchao 0.18.0.

use std::sync::Arc;

use serde_json::Value as Json;

use super::{
    assembly::Assembly,
    checks::{mismatch, shape_error, wrong_shape},
    fp4::note_decoded,
    tiled::Tiled,
    torchao_floats::Kind,
};
use crate::{
    Dtype, Error, Stored, Tensor,
    codes::{Change, CodedWeights, Codes, FLOATS, Fold, Groups, Strided, Zeros},
    json,
};

/// Suffix of codes after the weight's name.
const CODES: &str = "_qdata";
/// A type handled by another taker.
const OF_OTHERS: &str = "Float8Tensor";

/// One quantized tensor: its parts by name, and its description.
struct Module<'a> {
    /// `X._weight`: the part before `_qdata`.
    stem: &'a str,
    codes: &'a Tensor,
    /// Entry of `__metadata__`.
    entry: Option<Json>,
}

/// Takes every tensor of integers, and those of `torchao_floats.rs`.
pub(super) fn take(assembly: &mut Assembly<'_>) -> Result<(), Error> {
    let mut n_decoded = 0;
    for codes in assembly.left() {
        let Some(stem) = codes.name.strip_suffix(CODES) else { continue };
        let Some((before, parameter)) = stem.rsplit_once("._") else { continue };
        let name = format!("{before}.{parameter}");
        let entry = entry_of(assembly, codes, &name)?;
        let module = Module { stem, codes, entry };
        let kind = module.kind(assembly)?;
        if kind == OF_OTHERS {
            continue;
        }
        if let Some(kind) = Kind::of(kind) {
            let is_stored = kind.put(assembly, codes, stem, name, module.entry.as_ref())?;
            n_decoded += usize::from(kind == Kind::Nvfp4 && !is_stored);
            continue;
        }
        let (shape, stored): (Vec<u64>, Arc<dyn Stored>) = match kind {
            "Int8Tensor" | "IntxUnpackedToInt8Tensor" => module.bytes(assembly)?,
            "Int4Tensor" => module.nibbles(assembly, 2, FLOATS)?,
            "Int4PlainInt32Tensor" => module.nibbles(assembly, 8, &[Dtype::I8])?,
            "Int4TilePackedTo4dTensor" => module.tiles(assembly)?,
            other => {
                let expected = "a supported torchao type in `__metadata__`";
                return Err(mismatch(codes, expected, format!("`{other}`")));
            }
        };
        assembly.put(codes, name, shape, stored);
    }
    note_decoded(assembly, n_decoded);
    Ok(())
}

/// Entry of a tensor in the file's metadata.
fn entry_of(assembly: &Assembly<'_>, codes: &Tensor, name: &str) -> Result<Option<Json>, Error> {
    let part = assembly.quantized.parts.get(codes.part);
    let Some((part, text)) = part.and_then(|part| Some((part, part.metadata.get(name)?))) else {
        return Ok(None);
    };
    let place = format!("{}: __metadata__: {name}", part.file);
    json::parse(&place, text.as_bytes()).map(Some)
}

impl<'a> Module<'a> {
    /// Class of the tensor: as stated, or else derived from its parts.
    fn kind(&self, assembly: &Assembly<'_>) -> Result<&str, Error> {
        if let Some(kind) = self.entry.as_ref().and_then(|entry| entry.get("_type")?.as_str()) {
            return Ok(kind);
        }
        let zeros = assembly.get(&format!("{}_zero_point", self.stem));
        let has_float_zeros = zeros.is_some_and(|zeros| FLOATS.contains(&zeros.dtype));
        let scales = assembly.get(&format!("{}_scale", self.stem)).map(|scales| scales.dtype);
        match (self.codes.dtype, self.codes.shape.len()) {
            (Dtype::I8, _) if has_float_zeros => Ok("Int4Tensor"),
            (Dtype::I8, _) => Ok("Int8Tensor"),
            (Dtype::I32, 2) => Ok("Int4PlainInt32Tensor"),
            (Dtype::I32, _) => {
                Err(mismatch(self.codes, "an entry in `__metadata__`, which has its shape", "none"))
            }
            _ if scales == Some(Dtype::F8_E8M0) => Ok("MXTensor"),
            (Dtype::U8, _) => Ok("NVFP4Tensor"),
            _ => Ok(OF_OTHERS),
        }
    }

    /// A list of sizes in the entry.
    fn sizes(&self, key: &str) -> Option<Vec<u64>> {
        self.entry.as_ref()?.get("_data")?.get(key)?.as_array()?.iter().map(Json::as_u64).collect()
    }

    fn part(&self, assembly: &Assembly<'a>, name: &str, dtypes: &[Dtype]) -> Result<&'a Tensor, Error> {
        assembly.part(self.codes, &format!("{}_{name}", self.stem), dtypes)
    }

    /// Factor of each column, if any.
    fn fold(&self, assembly: &mut Assembly<'a>, n_columns: u64) -> Result<Option<Fold>, Error> {
        assembly.fold(self.codes, &format!("{}_act_pre_scale", self.stem), n_columns)
    }

    /// Codes [.., out, columns of bytes or words], and rows of all matrices.
    fn dims(&self) -> Result<(&'a [u64], u64, u64), Error> {
        match &self.codes.shape[..] {
            [outer @ .., n_rows, width] if *n_rows > 0 && *width > 0 => Ok((outer, *n_rows, *width)),
            _ => Err(wrong_shape(self.codes, "a matrix")),
        }
    }

    fn bytes(&self, assembly: &mut Assembly<'a>) -> Result<(Vec<u64>, Arc<dyn Stored>), Error> {
        let (outer, n_rows, n_columns) = self.dims()?;
        let scales = self.part(assembly, "scale", FLOATS)?;
        let zeros = assembly.optional(&format!("{}_zero_point", self.stem), &[Dtype::I8])?;
        // [.., out, G] or [.., 1, 1], one for all.
        let expected = "(out, groups) or (1, 1)";
        let [scale_outer @ .., scale_rows, n_groups] = &scales.shape[..] else {
            return Err(shape_error(scales, self.codes, expected));
        };
        let is_one = *scale_rows == 1 && *n_groups == 1;
        let fits = *n_groups > 0 && n_columns.is_multiple_of(*n_groups) && (is_one || *scale_rows == n_rows);
        if !fits || scale_outer != outer || zeros.is_some_and(|zeros| zeros.shape != scales.shape) {
            return Err(shape_error(scales, self.codes, expected));
        }
        let strided = |tensor: &Tensor| {
            if is_one {
                Strided { matrix_stride: 1, ..Strided::one(tensor) }
            } else {
                Strided::by_row(tensor, n_rows, *n_groups)
            }
        };
        // The flipped sign bit adds 128 to both code and zero.
        let zeros_of = zeros.map(|zeros| Strided { change: Change::Add(128.0), ..strided(zeros) });
        let weights = CodedWeights {
            n_matrices: outer.iter().product(),
            fold: self.fold(assembly, n_columns)?,
            ..CodedWeights::new(
                [n_rows, n_columns],
                Codes::rows(self.codes, 8, 0x80, [n_rows, n_columns], n_columns),
                strided(scales),
                zeros_of.map_or(Zeros::Same(128.0), Zeros::Floats),
                Groups::Size(n_columns / n_groups),
            )
        };
        assembly.used(scales);
        zeros.into_iter().for_each(|zeros| assembly.used(zeros));
        Ok((self.codes.shape.clone(), Arc::new(weights.checked()?)))
    }

    /// Nibbles, `per_item` to a byte or word, in rows; scales and zeros are transposed, [.., G, out].
    fn nibbles(
        &self,
        assembly: &mut Assembly<'a>,
        per_item: u64,
        zero_types: &[Dtype],
    ) -> Result<(Vec<u64>, Arc<dyn Stored>), Error> {
        let (outer, n_rows, n_items) = self.dims()?;
        let n_columns = n_items.saturating_mul(per_item);
        let scales = self.part(assembly, "scale", FLOATS)?;
        let zeros = self.part(assembly, "zero_point", zero_types)?;
        let wrong_shape = || shape_error(scales, self.codes, "(groups, out)");
        let [scale_outer @ .., n_groups, columns] = &scales.shape[..] else { return Err(wrong_shape()) };
        let fits = *n_groups > 0 && n_columns.is_multiple_of(*n_groups) && *columns == n_rows;
        if !fits || scale_outer != outer || zeros.shape != scales.shape {
            return Err(wrong_shape());
        }
        assembly.used(scales);
        assembly.used(zeros);
        let strided = |tensor: &Tensor| Strided {
            matrix_stride: n_groups * n_rows,
            ..Strided::transposed(tensor, n_rows)
        };
        // For bytes, zeros are offsets of the products, and codes are in two's complement: the flipped sign
        // bit makes their zero 8.
        let (flip, zeros, offsets) = match per_item {
            2 => (0x08, Zeros::Same(8.0), Some(strided(zeros))),
            _ => (0, Zeros::Floats(strided(zeros)), None),
        };
        let weights = CodedWeights {
            n_matrices: outer.iter().product(),
            offsets,
            fold: self.fold(assembly, n_columns)?,
            ..CodedWeights::new(
                [n_rows, n_columns],
                Codes::rows(self.codes, 4, flip, [n_rows, n_columns], n_items * per_item / 2),
                strided(scales),
                zeros,
                Groups::Size(n_columns / n_groups),
            )
        };
        Ok(([outer, &[n_rows, n_columns]].concat(), Arc::new(weights.checked()?)))
    }

    fn tiles(&self, assembly: &mut Assembly<'a>) -> Result<(Vec<u64>, Arc<dyn Stored>), Error> {
        let both = self.part(assembly, "scale_and_zero", FLOATS)?;
        let expected = "its shape and `block_size` in `__metadata__`";
        let [shape, block] =
            ["shape", "block_size"].map(|key| self.sizes(key).filter(|sizes| sizes.len() == 2));
        let (Some(shape), Some(block)) = (shape, block) else {
            return Err(mismatch(self.codes, expected, "none"));
        };
        if assembly.get(&format!("{}_act_pre_scale", self.stem)).is_some() {
            return Err(mismatch(self.codes, "no `act_pre_scale` with tiles", "one"));
        }
        let tiled = Tiled::new(self.codes, both, [shape[0], shape[1]], block[1])?;
        assembly.used(both);
        Ok((shape, Arc::new(tiled)))
    }
}

#[cfg(test)]
mod tests {
    use crate::methods::two_roundings::pieces;

    #[test]
    fn torchao_parts_match_formulas() {
        // Codes with a flipped sign bit are offset by 8.
        let n_tensors = pieces("torchao-int4", &["plain.weight", "plain.half.weight"], |code| code - 8.0);
        assert_eq!(n_tensors, 2);
        assert_eq!(pieces("torchao-int4", &["int32.weight", "tiled.weight"], |code| code), 2);
    }
}
