//! GPTQ in the layout of AutoGPTQ and GPTQModel.
//!
//! ```text
//! X.qweight   I32 (in * bits / 32, out)      down each column a stream of bits, code i of output n at bit i * bits
//! X.qzeros    I32 (groups, out * bits / 32)  along each row a stream of the zeros of all outputs
//! X.scales    F16, BF16 or F32 (groups, out)
//! X.g_idx     I32 (in), may be absent        the group of each input; i / group_size where groups lie in order
//! ```
//!
//! `w[n, i] = (q - z) * s`, all of group `g_idx[i]`. Bits and group sizes follow from the shapes, so
//! overrides of single modules (`dynamic`) need no config. The config determines the meaning of zeros:
//! `checkpoint_format` `gptq` (the default) stores the zero minus one, `gptq_v2` and the planes of `gptq_p`
//! the zero itself. Zero minus one wraps around for 0: GPTQModel subtracts from entire words, so we add to
//! words; for other writers, a field of all ones means 0. The reference adds one to every field and gets one
//! more than the largest code, which can be requested.
//!
//! Source: auto-gptq 0.7.1 `nn_modules/qlinear/qlinear_cuda.py`; GPTQModel 7.7.0 `nn_modules/qlinear/__init__.py`,
//! `utils/model.py`; `dequant_gptq` in `conversion/base.py`, llama.cpp as vendored in llama-cpp-python 0.3.36.

use std::sync::Arc;

use serde_json::Value as Json;

use super::{
    assembly::Assembly,
    checks::{expect_dtype, groups_of, index_values, shape_error},
    method::{Method, Reading},
    quantized::Quantized,
};
use crate::{
    Dtype, Error, Part, Tensor,
    codes::{Axis, CodedWeights, Codes, Groups, Packing, Strided, ZeroRule, Zeros},
};

pub(super) const GPTQ: Method = Method {
    name: "GPTQ",
    recognized_by: "quant_method `gptq`; tensors `.qweight`, `.qzeros`, `.scales`, `.g_idx`",
    detect: |quantized| {
        quantized.method_is(&["gptq"]) || quantized.has_tensors(&["qweight", "qzeros", "scales", "g_idx"])
    },
    reading: Reading::Decoded(&[take]),
};

/// Config of codes stored by columns.
#[derive(Debug, Clone)]
pub(super) struct Columns {
    pub zeros: ZeroRule,
    /// Codes stored in planes; if planes are possible, those of 5, 6 and 7 bits always are.
    pub planes: Planes,
    /// Group sizes anywhere in the config.
    pub group_sizes: Vec<u64>,
    /// True if the reference reads these tensors, which it appends after all others.
    pub is_last: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Planes {
    All,
    /// Codes of 5, 6 and 7 bits.
    Odd,
    None,
}

/// Takes every module with codes in columns.
fn take(assembly: &mut Assembly<'_>) -> Result<(), Error> {
    let quantized = assembly.quantized;
    let format = quantized.text(&["checkpoint_format"]).or_else(|| quantized.text(&["format"]));
    let format = format.unwrap_or("gptq");
    let zeros = match format {
        "gptq" if quantized.read_as.unmasked_zeros => ZeroRule::PlusOneUnmasked,
        "gptq" if is_by_gptqmodel(quantized) => ZeroRule::PlusOneByWord,
        "gptq" => ZeroRule::PlusOne,
        _ => ZeroRule::AsStored,
    };
    let planes = if format == "gptq_p" { Planes::All } else { Planes::Odd };
    let is_symmetric = quantized.value(&["sym"]) == Some(&Json::Bool(true));
    let columns = Columns { zeros, planes, group_sizes: group_sizes(quantized), is_last: true };
    take_columns(assembly, &columns, is_symmetric)
}

/// True if `meta.quantizer` names GPTQModel, as a string or in a list.
fn is_by_gptqmodel(quantized: &Quantized<'_>) -> bool {
    let is_gptqmodel = |value: &Json| value.as_str().is_some_and(|name| name.starts_with("gptqmodel"));
    quantized.value(&["meta", "quantizer"]).is_some_and(|value| {
        is_gptqmodel(value) || value.as_array().is_some_and(|all| all.iter().any(is_gptqmodel))
    })
}

/// All group sizes of a config: the general one, and those of overrides.
pub(super) fn group_sizes(quantized: &Quantized<'_>) -> Vec<u64> {
    let size_of = |value: &Json| {
        ["group_size", "q_group_size"]
            .into_iter()
            .find_map(|key| value.get(key)?.as_u64())
            .filter(|&size| size > 0)
    };
    let overrides = ["dynamic", "extra_config"].into_iter().flat_map(|key| quantized.entries(key));
    quantized.config().into_iter().chain(overrides.map(|(_, own)| own)).filter_map(size_of).collect()
}

/// Takes every module with codes in columns. Its scales give the number of outputs.
pub(super) fn take_columns(
    assembly: &mut Assembly<'_>,
    columns: &Columns,
    is_symmetric: bool,
) -> Result<(), Error> {
    let mut full: Vec<&str> = Vec::new();
    for codes in assembly.left() {
        let Some(stem) = codes.name.strip_suffix(".qweight") else { continue };
        let scales = assembly.floats(codes, &format!("{stem}.scales"))?;
        if dims(codes)[1] != dims(scales)[1] {
            continue;
        }
        let zeros = assembly.part(codes, &format!("{stem}.qzeros"), &[Dtype::I32])?;
        let index = assembly.get(&format!("{stem}.g_idx")).filter(|index| index.n_bytes() > 0);
        let parts = Parts { codes, scales, zeros, index };
        let weights = parts.weights(assembly.quantized.parts, columns)?;
        // Zero minus one is stored as all ones for 0, and only the writer knows which rule applies.
        if columns.zeros != ZeroRule::AsStored && !is_symmetric && has_full_field(&weights, assembly)? {
            full.push(stem);
        }
        let shape = vec![weights.n_rows, weights.n_columns];
        [Some(scales), Some(zeros), index].into_iter().flatten().for_each(|part| assembly.used(part));
        let (name, stored) = (format!("{stem}.weight"), Arc::new(weights));
        if columns.is_last {
            assembly.put_last(codes, name, shape, stored)
        } else {
            assembly.put(codes, name, shape, stored)
        }
    }
    if let [first, rest @ ..] = &full[..] {
        let rest = gguf_types::and_more(rest.len());
        let rule = match columns.zeros {
            ZeroRule::PlusOneByWord => {
                "zero points are read as GPTQModel writes them, with carries between fields"
            }
            ZeroRule::PlusOneUnmasked => {
                "read as one more than the largest code, as in convert_hf_to_gguf.py; kernels use 0"
            }
            _ => "read as 0, as in the kernels; convert_hf_to_gguf.py uses one more than the largest code",
        };
        assembly.note(format!("tensor `{first}.qzeros`{rest} has zero points with all bits set: {rule}"));
    }
    Ok(())
}

struct Parts<'a> {
    codes: &'a Tensor,
    scales: &'a Tensor,
    zeros: &'a Tensor,
    index: Option<&'a Tensor>,
}

impl Parts<'_> {
    /// Bits, inputs and groups derived from shapes.
    fn weights(&self, parts: &[Part], columns: &Columns) -> Result<CodedWeights, Error> {
        let Parts { codes, scales, zeros, .. } = *self;
        expect_dtype(codes, &[Dtype::I32])?;
        let ([n_words, out], [n_groups, _]) = (dims(codes), dims(scales));
        // (groups, out * bits / 32) zeros: the number of words gives the bits.
        let [zero_rows, zero_words] = dims(zeros);
        let bits = zero_words.saturating_mul(32).checked_div(out).unwrap_or(0);
        let words_for = |bits: u64| (out.checked_mul(bits)).map(|all| all.div_ceil(32));
        if !(2..=8).contains(&bits)
            || words_for(bits) != Some(zero_words)
            || zero_rows != n_groups
            || n_groups == 0
        {
            return Err(shape_error(zeros, codes, "(groups, out * bits / 32) with the groups of the scales"));
        }
        let n_columns = n_words.checked_mul(32).filter(|all| all.is_multiple_of(bits)).map(|all| all / bits);
        let n_columns = n_columns.ok_or_else(|| shape_error(codes, zeros, "(in * bits / 32, out)"))?;
        let planes = match columns.planes {
            Planes::All => true,
            Planes::Odd => matches!(bits, 5..=7),
            Planes::None => false,
        };
        let groups = self.groups(parts, [n_columns, n_groups], &columns.group_sizes)?;
        let bits = bits as u32;
        // With planes, zeros are in planes too: those of 32 outputs in `bits` words of their row.
        let zero_packing = if planes {
            Packing::PlanesAlong { stream_bytes: 4 * zero_words }
        } else {
            Packing::Dense { stream_bytes: 4 * zero_words }
        };
        let zeros_rule = match columns.zeros {
            // Adding to words only differs if zeros do not cross words.
            ZeroRule::PlusOneByWord if 32 % bits != 0 => ZeroRule::PlusOne,
            rule => rule,
        };
        let zero_codes = Codes::new(zeros, bits, zero_packing, Axis::Column, [n_groups, out]);
        let packing = if planes { Packing::Planes } else { Packing::Down { word_bytes: 4, whole: false } };
        CodedWeights::new(
            [out, n_columns],
            Codes::new(codes, bits, packing, Axis::Row, [out, n_columns]),
            Strided::transposed(scales, out),
            Zeros::Codes(zero_codes, if planes { ZeroRule::AsStored } else { zeros_rule }),
            groups,
        )
        .checked()
    }

    /// Group of each input: in order unless `g_idx` differs.
    fn groups(
        &self,
        parts: &[Part],
        [n_columns, n_groups]: [u64; 2],
        sizes: &[u64],
    ) -> Result<Groups, Error> {
        let Some(index) = self.index else {
            let fits = |size: &u64| n_columns.div_ceil(*size) == n_groups;
            let even = n_columns.is_multiple_of(n_groups).then(|| n_columns / n_groups);
            let size = sizes.iter().copied().find(fits).or(even).filter(|&size| size > 0);
            let expected = "(groups, out) with as many groups as the group size makes";
            return size.map(Groups::Size).ok_or_else(|| shape_error(self.scales, self.codes, expected));
        };
        expect_dtype(index, &[Dtype::I32])?;
        let values = index_values(parts, self.codes, index, n_columns)?;
        // The first input of group 1 gives the size of all, if they are in order.
        let size = values.iter().position(|group| *group != 0).unwrap_or(values.len()).max(1);
        groups_of(index, &values, n_groups, size as u64)
    }
}

/// True if a stored zero has all bits set.
fn has_full_field(weights: &CodedWeights, assembly: &Assembly<'_>) -> Result<bool, Error> {
    let Zeros::Codes(zeros, _) = &weights.zeros else { return Ok(false) };
    let bytes = zeros.span.of(assembly.quantized.parts)?;
    if 32 % zeros.bits != 0 {
        let all = (0..zeros.n_streams).flat_map(|stream| (0..zeros.n_elems).map(move |elem| (stream, elem)));
        let full = ((1u32 << zeros.bits) - 1) as u8;
        return Ok(all.into_iter().any(|(stream, elem)| zeros.code(&bytes, stream, elem) == full));
    }
    // A field is all ones if the lowest bit of the field is set in the word and in all its shifts by less
    // than a field.
    let ones = u32::MAX / ((1u32 << zeros.bits) - 1);
    let is_full = |word: u32| (0..zeros.bits).fold(ones, |all, shift| all & word >> shift) != 0;
    Ok(bytes.as_chunks::<4>().0.iter().any(|bytes| is_full(u32::from_le_bytes(*bytes))))
}

/// Rows and columns of a matrix; the caller checks that it has two dimensions, or refuses the zeros.
fn dims(tensor: &Tensor) -> [u64; 2] {
    match tensor.shape[..] {
        [rows, columns] => [rows, columns],
        _ => [0, 0],
    }
}
