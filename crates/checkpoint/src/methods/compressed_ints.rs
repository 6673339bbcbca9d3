//! Integers of compressed-tensors, packed into words and as bytes.
//!
//! ```text
//! X.weight_packed      I32 ([E,] out, words)     along each row codes of 2 to 8 bits, q + 2^(bits - 1)
//! X.weight_shape       I64 or I32 (2 or 3)       the shape of X.weight
//! X.weight_scale       BF16, F16, F32            ([E,] out, groups), (out, 1), (1)
//! X.weight_zero_point  I32 ([E,] words, groups)  down each column the zeros of all outputs, packed likewise; may be absent
//! X.weight_g_idx       I32 (in)                  the group of each column, of older versions; with a -1 it says nothing
//!
//! X.weight             I8 ([E,] out, in)         with X.weight_scale and perhaps an X.weight_zero_point I8 of its shape
//! ```
//!
//! `w = (q - z) * s`. Since version 0.18 a row is one dense bit stream; before, codes did not cross words.
//! For 3, 5, 6 and 7 bits the number of words shows which packing it is.
//!
//! Source: compressed-tensors 0.17.1 and 0.20.0 `compressors/` (`pack_quantized`, `naive_quantized`); `dequant_packed`
//! in `conversion/base.py`, llama.cpp as vendored in llama-cpp-python 0.3.36.

use std::sync::Arc;

use super::{
    assembly::Assembly,
    checks::{groups_of, index_values, shape_error},
    quantized::Quantized,
};
use crate::{
    Dtype, Error, Tensor,
    codes::{Axis, CodedWeights, Codes, Fields, Groups, Packing, Strided, ZeroRule, Zeros},
};

/// Takes every module of packed integers.
pub(super) fn take_packed(assembly: &mut Assembly<'_>) -> Result<(), Error> {
    let (config_bits, is_old) = (bits_of(assembly.quantized), is_old(assembly.quantized));
    for codes in assembly.left() {
        let Some(name) = codes.name.strip_suffix("_packed").filter(|_| codes.dtype == Dtype::I32) else {
            continue;
        };
        let shape_tensor = assembly.part(codes, &format!("{name}_shape"), &[Dtype::I64, Dtype::I32])?;
        let shape = shape_of(assembly, codes, shape_tensor)?;
        let matrix = Matrix::new(codes, &shape)?;
        let n_words = codes.row_elems();
        let (bits, is_dense) = packing_of(codes, matrix.n_columns, n_words, &config_bits, is_old)?;
        let stream_bytes = 4 * n_words;
        let mut packed = Codes::rows(codes, bits, 0, [matrix.n_rows, matrix.n_columns], stream_bytes);
        if !is_dense {
            packed.packing = Packing::Words { stream_bytes, fields: Fields::Plain };
        }
        let scales = assembly.floats(codes, &format!("{name}_scale"))?;
        let (scale_grid, n_groups) = matrix.scales(codes, scales)?;
        let zeros_name = format!("{name}_zero_point");
        // Codes and zeros are offset by half of their range.
        let middle = 1u32 << (bits - 1);
        let zeros = match assembly.get(&zeros_name) {
            None => Zeros::Same(middle as f32),
            // The zero of an entire tensor is not packed.
            Some(zero) if zero.dtype == Dtype::I8 && zero.n_bytes() == 1 => {
                let [byte] = &*zero.span().of(assembly.quantized.parts)? else { continue };
                assembly.used(zero);
                Zeros::Same(f32::from(*byte as i8) + middle as f32)
            }
            Some(_) => {
                let zeros = assembly.part(codes, &zeros_name, &[Dtype::I32])?;
                assembly.used(zeros);
                matrix.packed_zeros(codes, zeros, n_groups, bits, is_dense)?
            }
        };
        let groups = matrix.groups(assembly, codes, name, n_groups)?;
        let weights = matrix.weights(packed, scale_grid, zeros, groups)?;
        assembly.used(shape_tensor);
        assembly.used(scales);
        assembly.put_last(codes, name.to_owned(), shape, Arc::new(weights));
    }
    Ok(())
}

/// Takes every module of 8-bit integers, a byte each.
pub(super) fn take_bytes(assembly: &mut Assembly<'_>) -> Result<(), Error> {
    for codes in assembly.left() {
        if codes.dtype != Dtype::I8 || !codes.name.ends_with(".weight") {
            continue;
        }
        let name = &codes.name;
        let Some(scales) = assembly.get(&format!("{name}_scale")) else { continue };
        let matrix = Matrix::new(codes, &codes.shape)?;
        let scales = assembly.floats(codes, &scales.name)?;
        let (scale_grid, n_groups) = matrix.scales(codes, scales)?;
        let bytes =
            |tensor: &Tensor, n_elems: u64| Codes::rows(tensor, 8, 0x80, [matrix.n_rows, n_elems], n_elems);
        let zeros = match assembly.optional(&format!("{name}_zero_point"), &[Dtype::I8])? {
            None => Zeros::Same(128.0),
            Some(zeros) => {
                if zeros.shape != scales.shape {
                    return Err(shape_error(zeros, codes, "the shape of the scales"));
                }
                assembly.used(zeros);
                match &*zeros.span().of(assembly.quantized.parts)? {
                    // Two's complement, offset by 128 with its zero.
                    [byte] => Zeros::Same(f32::from(*byte as i8) + 128.0),
                    _ => Zeros::Codes(bytes(zeros, n_groups), ZeroRule::AsStored),
                }
            }
        };
        let groups = matrix.groups(assembly, codes, name, n_groups)?;
        let weights = matrix.weights(bytes(codes, matrix.n_columns), scale_grid, zeros, groups)?;
        assembly.used(scales);
        assembly.put(codes, name.clone(), codes.shape.clone(), Arc::new(weights));
    }
    Ok(())
}

/// All numbers of bits in the config.
fn bits_of(quantized: &Quantized<'_>) -> Vec<u32> {
    let groups = quantized.entries("config_groups");
    let bits = groups.filter_map(|(_, group)| group.get("weights")?.get("num_bits")?.as_u64());
    bits.filter_map(|bits| u32::try_from(bits).ok()).filter(|bits| (1..=8).contains(bits)).collect()
}

/// True if a config names a version before 0.18, which never packed densely.
fn is_old(quantized: &Quantized<'_>) -> bool {
    let version = quantized.text(&["version"]).unwrap_or_default();
    let mut numbers = version.split('.').map(|number| number.parse::<u32>().ok());
    matches!((numbers.next().flatten(), numbers.next().flatten()), (Some(0), Some(minor)) if minor < 18)
}

/// Bits of the codes of a row of `n_columns` in `n_words` words, and whether they are a dense stream.
fn packing_of(
    codes: &Tensor,
    n_columns: u64,
    n_words: u64,
    config: &[u32],
    is_old: bool,
) -> Result<(u32, bool), Error> {
    let fits = |bits: u32, is_dense: bool| {
        let bits = u64::from(bits);
        let words = if is_dense {
            n_columns.checked_mul(bits).map(|all| all.div_ceil(32))
        } else {
            Some(n_columns.div_ceil(32 / bits))
        };
        words == Some(n_words)
    };
    let error = |expected: String| shape_error(codes, codes, expected);
    // Without a config, any number of bits is possible.
    let candidates = if config.is_empty() { &[8, 7, 6, 5, 4, 3, 2][..] } else { config };
    for is_dense in [!is_old, is_old] {
        let mut fitting = candidates.iter().copied().filter(|bits| fits(*bits, is_dense));
        let Some(bits) = fitting.next() else { continue };
        // 7 bits without crossing words look like 8; dense streams have distinct lengths.
        return match fitting.find(|other| *other != bits).filter(|_| !config.is_empty()) {
            Some(other) => Err(error(format!("either {bits} or {other} bits in the config, not both"))),
            None => Ok((bits, is_dense)),
        };
    }
    Err(error(format!("rows of {n_columns} codes of as many bits as the config says")))
}

/// Numbers of a `weight_shape`.
fn shape_of(assembly: &Assembly<'_>, codes: &Tensor, tensor: &Tensor) -> Result<Vec<u64>, Error> {
    let elem_bytes = (tensor.dtype.bits() / 8) as usize;
    if tensor.shape.len() != 1 || tensor.shape[0] != codes.shape.len() as u64 {
        return Err(shape_error(tensor, codes, "as many numbers as the codes have dimensions"));
    }
    let bytes = tensor.span().of(assembly.quantized.parts)?;
    let number = |(index, bytes): (usize, &[u8])| {
        let mut word = [0; 8];
        word[..elem_bytes].copy_from_slice(bytes);
        let found = i64::from_le_bytes(word);
        // Negative numbers of four bytes also exceed this.
        let is_dim = (1..=i64::from(i32::MAX)).contains(&found);
        is_dim.then_some(found as u64).ok_or_else(|| Error::PartValue {
            tensor: tensor.name.clone(),
            index: index as u64,
            expected: "a dimension".to_owned(),
            found,
        })
    };
    bytes.chunks_exact(elem_bytes).enumerate().map(number).collect()
}

/// Dimensions of a tensor: matrices, rows and columns.
#[derive(Debug, Clone, Copy)]
struct Matrix {
    n_matrices: u64,
    n_rows: u64,
    n_columns: u64,
}

impl Matrix {
    /// Dimensions of codes that decode to `shape`.
    fn new(codes: &Tensor, shape: &[u64]) -> Result<Matrix, Error> {
        let of = |shape: &[u64]| match *shape {
            [rows, columns] => Some([1, rows, columns]),
            [matrices, rows, columns] => Some([matrices, rows, columns]),
            _ => None,
        };
        match (of(shape), of(&codes.shape)) {
            (Some([n_matrices, n_rows, n_columns]), Some([matrices, rows, _]))
                if [n_matrices, n_rows] == [matrices, rows] && n_rows > 0 && n_columns > 0 =>
            {
                Ok(Matrix { n_matrices, n_rows, n_columns })
            }
            _ => Err(shape_error(codes, codes, format!("the rows of {shape:?}"))),
        }
    }

    /// Location of the scales, and the number of groups per row.
    fn scales(&self, codes: &Tensor, scales: &Tensor) -> Result<(Strided, u64), Error> {
        let Matrix { n_matrices, n_rows, n_columns } = *self;
        let n_scales: u64 = scales.shape.iter().product();
        if n_scales == 1 {
            return Ok((Strided::one(scales), 1));
        }
        let n_groups = match scales.shape[..] {
            [matrices, rows, groups] if [matrices, rows] == [n_matrices, n_rows] => groups,
            [rows, groups] if n_matrices == 1 && rows == n_rows => groups,
            [rows] if n_matrices == 1 && rows == n_rows => 1,
            _ => 0,
        };
        if n_groups == 0 || !n_columns.is_multiple_of(n_groups) {
            return Err(shape_error(
                scales,
                codes,
                "(out, groups) with groups of the same size, or one number",
            ));
        }
        Ok((Strided::by_row(scales, n_rows, n_groups), n_groups))
    }

    /// Zeros packed like the codes, along the outputs.
    fn packed_zeros(
        &self,
        codes: &Tensor,
        zeros: &Tensor,
        n_groups: u64,
        bits: u32,
        is_dense: bool,
    ) -> Result<Zeros, Error> {
        let has_words = |words: u64| match (zeros.shape.len(), self.n_matrices) {
            (2, 1) => zeros.shape == [words, n_groups],
            (3, matrices) => zeros.shape == [matrices, words, n_groups],
            _ => false,
        };
        let n_words = if is_dense {
            (self.n_rows * u64::from(bits)).div_ceil(32)
        } else {
            self.n_rows.div_ceil(u64::from(32 / bits))
        };
        if !has_words(n_words) {
            let expected = format!("({n_words}, {n_groups}), packed along the outputs");
            return Err(shape_error(zeros, codes, expected));
        }
        let packing = Packing::Down { word_bytes: 4, whole: !is_dense };
        let packed = Codes::new(zeros, bits, packing, Axis::Column, [n_groups, self.n_rows]);
        let packed = Codes { matrix_bytes: 4 * n_words * n_groups, ..packed };
        Ok(Zeros::Codes(packed, ZeroRule::AsStored))
    }

    fn groups(
        &self,
        assembly: &mut Assembly<'_>,
        codes: &Tensor,
        name: &str,
        n_groups: u64,
    ) -> Result<Groups, Error> {
        let size = self.n_columns / n_groups;
        let Some(index) = assembly.optional(&format!("{name}_g_idx"), &[Dtype::I32])? else {
            return Ok(Groups::Size(size));
        };
        let values = index_values(assembly.quantized.parts, codes, index, self.n_columns)?;
        assembly.used(index);
        if values.contains(&u32::MAX) {
            Ok(Groups::Size(size))
        } else {
            groups_of(index, &values, n_groups, size)
        }
    }

    fn weights(
        &self,
        codes: Codes,
        scales: Strided,
        zeros: Zeros,
        groups: Groups,
    ) -> Result<CodedWeights, Error> {
        let Matrix { n_matrices, n_rows, n_columns } = *self;
        let weights = CodedWeights::new([n_rows, n_columns], codes, scales, zeros, groups);
        CodedWeights { n_matrices, ..weights }.checked()
    }
}
