//! Integers of Quark: 4 bits in groups, 8 bits with a scale for each row.
//!
//! ```text
//! uint4, int4   X.weight I32 [in, out / 8]      eight outputs a word, in AWQ's order (`pack_method` `reorder`) or their own
//!               X.weight_scale [in / g, out]    [out, in / g] in exports before 1.0
//!               X.weight_zero_point I32 [in / g, out / 8], packed likewise; none where codes are symmetric
//! int8          X.weight I8 [out, in], X.weight_scale [out] or []
//!
//! w = (code - zero) * scale; codes of int4 are in two's complement
//! ```
//!
//! The type of a module is that of `layer_quant_config` where one of its patterns fits the path, else that of
//! `global_quant_config`. Other types and two stages of scales are refused. Source: `torch/export/` of amd-quark 0.13.

use std::sync::Arc;

use serde_json::Value as Json;

use super::{
    assembly::Assembly,
    checks::unfit,
    code_parts::{floats_of, part_of, shape_error},
    modelopt_ints::bytes,
};
use crate::{
    Dtype, Error, Tensor,
    codes::{Axis, CodedWeights, Codes, FLOATS, Fields, Groups, Packing, Strided, ZeroRule, Zeros},
};

/// Nibbles of a word.
const PER_WORD: u64 = 8;

/// Takes every module of integers.
///
/// # Errors
/// [`Error::PartForm`], [`Error::PartMissing`], [`Error::PartType`], [`Error::PartShape`].
pub(super) fn take(assembly: &mut Assembly<'_>) -> Result<(), Error> {
    for codes in assembly.left() {
        let Some(module) = codes.name.strip_suffix(".weight") else { continue };
        let scales = assembly.get(&format!("{module}.weight_scale"));
        if !scales.is_some_and(|scales| FLOATS.contains(&scales.dtype)) {
            continue;
        }
        let scales = floats_of(assembly, codes, &format!("{module}.weight_scale"))?;
        let dtype = dtype_of(assembly.quantized.config(), module);
        let weights = match (codes.dtype, dtype, &codes.shape[..]) {
            (Dtype::I32, "uint4" | "int4", [n_columns, n_words]) => {
                let zeros = format!("{module}.weight_zero_point");
                let zeros = match assembly.get(&zeros) {
                    Some(_) => Some(part_of(assembly, codes, &zeros, &[Dtype::I32], "I32")?),
                    None => None,
                };
                zeros.into_iter().for_each(|zeros| assembly.used(zeros));
                let is_awq = pack_method(assembly.quantized.config()) == "reorder";
                let fields = if is_awq { Fields::Awq } else { Fields::Plain };
                let shape = [n_words.saturating_mul(PER_WORD), *n_columns];
                nibbles([codes, scales], zeros, shape, fields, dtype == "int4")?
            }
            (Dtype::I8, "int8", [n_rows, n_columns]) => bytes(codes, scales, [*n_rows, *n_columns])?,
            (stored, dtype, _) => {
                let found = format!("{stored} of shape {:?}, `{dtype}` in the config", codes.shape);
                return Err(unfit(codes, "uint4 or int4 in words, or int8", found));
            }
        };
        let shape = vec![weights.n_rows, weights.n_columns];
        assembly.used(scales);
        assembly.put(codes, codes.name.clone(), shape, Arc::new(weights.checked()?));
    }
    Ok(())
}

/// Words of nibbles, transposed.
fn nibbles(
    [codes, scales]: [&Tensor; 2],
    zeros: Option<&Tensor>,
    [n_rows, n_columns]: [u64; 2],
    fields: Fields,
    is_signed: bool,
) -> Result<CodedWeights, Error> {
    let odd = || shape_error(scales, codes, "(groups, out), or (out, groups), for (in, out / 8)");
    let [first, second] = scales.shape[..] else { return Err(odd()) };
    // Where both fit, it is the way that exports since 1.0 have.
    let (groups, is_transposed) = if second == n_rows { (first, true) } else { (second, false) };
    let fits = groups > 0 && n_columns.is_multiple_of(groups) && (is_transposed || first == n_rows);
    if !fits {
        return Err(odd());
    }
    // Two's complement: the flipped sign bit adds 8 to code and zero alike.
    let flip = if is_signed { 0x08 } else { 0 };
    let words = |tensor: &Tensor, n_streams: u64| Codes {
        name: tensor.name.clone(),
        span: tensor.span(),
        bits: 4,
        packing: Packing::Words { stream_bytes: n_rows / 2, fields },
        axis: Axis::Column,
        n_streams,
        n_elems: n_rows,
        matrix_bytes: tensor.n_bytes(),
        flip,
    };
    let zeros = match zeros {
        None if is_signed => Zeros::Same(8.0),
        None => Zeros::Same(0.0),
        Some(zeros) if zeros.shape == [groups, n_rows / PER_WORD] => {
            Zeros::Codes(words(zeros, groups), ZeroRule::AsStored)
        }
        Some(zeros) => return Err(shape_error(zeros, codes, "(groups, out / 8)")),
    };
    let scales = match is_transposed {
        true => Strided::transposed(scales, n_rows),
        false => Strided::by_row(scales, n_rows, groups),
    };
    Ok(CodedWeights {
        n_matrices: 1,
        n_rows,
        n_columns,
        codes: words(codes, n_columns),
        scales,
        zeros,
        offsets: None,
        groups: Groups::Size(n_columns / groups),
        fold: None,
    })
}

/// The type of a module's codes, as the config names it.
fn dtype_of<'a>(config: Option<&'a Json>, module: &str) -> &'a str {
    let own = config.and_then(|config| config.get("layer_quant_config")?.as_object());
    let own = own.into_iter().flatten().find(|(pattern, _)| matches(pattern, module)).map(|(_, own)| own);
    let config = own.or_else(|| config?.get("global_quant_config"));
    // A list of two stages has no `dtype`.
    config.and_then(|config| config.get("weight")?.get("dtype")?.as_str()).unwrap_or_default()
}

/// How words are packed.
fn pack_method(config: Option<&Json>) -> &str {
    config.and_then(|config| config.get("export")?.get("pack_method")?.as_str()).unwrap_or("reorder")
}

/// Whether a pattern in which `*` is any text fits the whole name.
fn matches(pattern: &str, name: &str) -> bool {
    let mut pieces = pattern.split('*');
    let Some(mut rest) = pieces.next().and_then(|first| name.strip_prefix(first)) else { return false };
    let Some(last) = pieces.next_back() else { return rest.is_empty() };
    for piece in pieces {
        // The first place of each piece leaves the most for the others.
        let Some(at) = rest.find(piece) else { return false };
        rest = &rest[at + piece.len()..];
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn stars_are_any_text() {
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
