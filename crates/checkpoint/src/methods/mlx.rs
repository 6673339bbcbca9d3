//! MLX: affine codes of 2, 3, 4, 5, 6 or 8 bits, and floats of 4 and 8 bits, of matrices, embeddings and stacks of experts.
//!
//! ```text
//! X.weight  U32 [.., out, in · bits / 32]   one stream of bits for each row, low bits first
//!
//! mode      X.scales [.., out, in / g]      beside them
//! affine    F16, BF16 or F32, may be < 0    X.biases [.., out, in / g], `qbiases` where transformers calls the method `metal`
//! mxfp4     U8, E8M0, g = 32                -
//! nvfp4     U8, E4M3, g = 16                X.global_scale F32: the largest magnitude, not always there
//! mxfp8     U8, E8M0, g = 32                -
//!
//! affine: w = fl(fl(code * scale) + bias); the others: `microscaled.rs`
//! ```
//!
//! `config.json: quantization` has `mode`, `bits` and `group_size` for all modules, and again under the path
//! of a module that differs. mlx rounds both steps of `affine` to the type of the scales; here they are done
//! in f32. Experts are stacked and named `switch_mlp`, those of gpt-oss `experts`; they are renamed to
//! Hugging Face's names. Source: `mlx.core.quantize` of mlx 0.32.4, `utils.py` and `models/*.py` (`sanitize`)
//! of mlx-lm 0.31, `integrations/metal_quantization.py` of transformers 5.23.0.

use std::sync::Arc;

use serde_json::Value as Json;

use super::{
    assembly::Assembly,
    checks::{mismatch, shape_error, wrong_shape},
    experts::{have_biases, split_experts},
    fp4,
    gate_up::join_gate_and_up,
    method::{Method, Reading},
    quantized::Quantized,
};
use crate::{
    Dtype, Error, Tensor,
    codes::{CodedWeights, Codes, FLOATS, Groups, Strided, Zeros},
};

pub(super) const MLX: Method = Method {
    name: "MLX",
    recognized_by: "`quantization` without a method, or quant_method `metal`; tensors `.weight` of U32 and `.scales`",
    detect: |quantized| {
        let has_words = || quantized.tensors.iter().any(|t| t.dtype == Dtype::U32 && t.ending() == "weight");
        quantized.method_is(&["metal"]) || quantized.has_tensors(&["weight", "scales"]) && has_words()
    },
    reading: Reading::DecodedThen(&[affine, floats, refuse_rest], |_, decoded| {
        split_experts(&mut decoded.tensors, false);
        if have_biases(&decoded.tensors) { join_gate_and_up(&mut decoded.tensors) } else { Ok(()) }
    }),
};

/// Takes every module of codes with float scales and biases.
fn affine(assembly: &mut Assembly<'_>) -> Result<(), Error> {
    for codes in assembly.left() {
        let Some(module) = codes.name.strip_suffix(".weight").filter(|_| codes.dtype == Dtype::U32) else {
            continue;
        };
        let scales = assembly.get(&format!("{module}.scales"));
        if scales.is_some_and(|scales| FLOATS.contains(&scales.dtype)) {
            take_module(assembly, codes, module)?;
        }
    }
    Ok(())
}

/// Takes every module of codes with one-byte scales. The number of bytes of codes per scale shows the mode,
/// which must agree with the config.
fn floats(assembly: &mut Assembly<'_>) -> Result<(), Error> {
    for codes in assembly.left() {
        let Some(module) = codes.name.strip_suffix(".weight").filter(|_| codes.dtype == Dtype::U32) else {
            continue;
        };
        let scales = assembly.get(&format!("{module}.scales"));
        let Some(scales) = scales.filter(|scales| scales.dtype == Dtype::U8) else { continue };
        let Some((format, _)) = fp4::shape_of(codes, scales) else {
            return Err(shape_error(scales, codes, "a scale for 8, 16 or 32 bytes of codes"));
        };
        let found = format.name();
        if let Some(mode) = mode(assembly.quantized, module).filter(|mode| *mode != found) {
            return Err(mismatch(
                codes,
                format!("mode `{mode}`, as the config says"),
                format!("mode `{found}`"),
            ));
        }
    }
    // Activations are not quantized, unless the model requires it.
    let wide = assembly.quantized.model.get("quantize_activations").and_then(Json::as_bool) != Some(true);
    fp4::take_with(assembly, |_| wide)
}

/// Refuses scales and biases without codes.
fn refuse_rest(assembly: &mut Assembly<'_>) -> Result<(), Error> {
    let is_part =
        |tensor: &&Tensor| ["scales", "biases", "qbiases", "global_scale"].contains(&tensor.ending());
    match assembly.left().into_iter().find(is_part) {
        Some(tensor) => Err(Error::ScalesWithoutCodes { tensor: tensor.name.clone() }),
        None => Ok(()),
    }
}

fn take_module<'a>(assembly: &mut Assembly<'a>, codes: &'a Tensor, module: &str) -> Result<(), Error> {
    let scales = assembly.floats(codes, &format!("{module}.scales"))?;
    let offsets = match assembly.optional(&format!("{module}.qbiases"), FLOATS)? {
        Some(offsets) => offsets,
        None => assembly.floats(codes, &format!("{module}.biases"))?,
    };
    let ([outer @ .., n_rows, n_words], Some(n_groups)) = (&codes.shape[..], scales.shape.last()) else {
        return Err(wrong_shape(codes, "a matrix"));
    };
    let (n_rows, n_words, n_groups) = (*n_rows, *n_words, *n_groups);
    if offsets.shape != scales.shape
        || scales.shape[..scales.shape.len() - 1] != codes.shape[..codes.shape.len() - 1]
    {
        let mismatched = if offsets.shape == scales.shape { scales } else { offsets };
        return Err(shape_error(mismatched, codes, "a row of groups for each row of codes"));
    }
    let bits = number(assembly.quantized, module, "bits");
    let bits = bits.filter(|bits| (2..=8).contains(bits) && *bits != 7);
    let bits = bits.ok_or_else(|| mismatch(codes, "`bits` of 2, 3, 4, 5, 6 or 8 in the config", "none"))?;
    let size = number(assembly.quantized, module, "group_size").filter(|size| *size > 0);
    let size = size.ok_or_else(|| mismatch(codes, "a `group_size` in the config", "none"))?;
    // bits · g · groups = bits of a row: the config's numbers must match the tensors.
    let row_bits = n_words.checked_mul(32).filter(|bits| *bits > 0);
    let by_config = bits.checked_mul(size).and_then(|bits| bits.checked_mul(n_groups));
    if row_bits.is_none() || row_bits != by_config {
        let expected =
            format!("rows of {n_groups} groups of {size} codes of {bits} bits, as the config says");
        return Err(mismatch(codes, expected, format!("rows of {n_words} words")));
    }
    let n_columns = size * n_groups;
    let weights = CodedWeights {
        n_matrices: outer.iter().product(),
        offsets: Some(Strided::by_row(offsets, n_rows, n_groups)),
        ..CodedWeights::new(
            [n_rows, n_columns],
            Codes::rows(codes, bits as u32, 0, [n_rows, n_columns], 4 * n_words),
            Strided::by_row(scales, n_rows, n_groups),
            Zeros::Same(0.0),
            Groups::Size(size),
        )
    };
    let shape = [outer, &[n_rows, n_columns]].concat();
    assembly.used(scales);
    assembly.used(offsets);
    assembly.put(codes, codes.name.clone(), shape, Arc::new(weights.checked()?));
    Ok(())
}

/// A number from the config: that of the module's path, or else the general one.
fn number(quantized: &Quantized<'_>, module: &str, key: &str) -> Option<u64> {
    let config = quantized.config()?;
    let own = config.get(module).and_then(|own| own.get(key));
    own.or_else(|| config.get(key)).and_then(Json::as_u64)
}

/// Mode from the config: that of the module's path, or else the general one.
fn mode<'a>(quantized: &'a Quantized<'_>, module: &str) -> Option<&'a str> {
    let config = quantized.config()?;
    let own = config.get(module).filter(|own| own.is_object());
    own.unwrap_or(config).get("mode")?.as_str()
}

#[cfg(test)]
mod tests {
    use crate::methods::two_roundings::compare;

    /// mlx computes `round(round(code * scale) + bias)` in the type of the scales.
    #[test]
    fn mlx_parts_match_library_output() {
        for (name, least) in [("mlx-affine", 21), ("mlx-metal", 1), ("mlx-llama", 8)] {
            let n_tensors = compare(name, |code, scale, bias, round| round(round(code * scale) + bias));
            assert!(n_tensors >= least, "{name}: {n_tensors}");
        }
    }
}
