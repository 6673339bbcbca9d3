//! Integers of Gemma's own quantized releases: 2, 4 or 8 bits, symmetric, of matrices and embeddings.
//!
//! ```text
//! X.weight               I8 [out, in]; U8 [out, in / 2], low nibble first, less 8; U8 [out, in / 4], lowest bits first,
//!                        less 2
//! X.weight_scale         F32 [out, 1]
//! X.embedding_quantized, X.embedding_scale F32 [vocabulary, k]   likewise, k blocks to a row
//! X.input_activation_scale, X.output_activation_scale             F32 []
//!
//! w = code * scale
//! ```
//!
//! The config gives the bits per code: `num_bits`, and `module_quant_configs` by regular expressions searched
//! in the module's path. Scales of activations, which the model rounds, cannot be stored in GGUF and are left
//! out. Source: `integrations/gemma_quant.py` of transformers 5.23.0.

use std::sync::Arc;

use regex::Regex;
use serde_json::Value as Json;

use super::{
    assembly::Assembly,
    checks::{mismatch, shape_error},
    method::{Method, Reading},
    quantized::Quantized,
};
use crate::{
    Dtype, Error, Tensor,
    codes::{CodedWeights, Codes, Groups, Strided, Zeros},
};

pub(super) const GEMMA: Method = Method {
    name: "integers of Gemma",
    recognized_by: "quant_method `gemma`",
    detect: |quantized| quantized.method_is(&["gemma"]),
    reading: Reading::Decoded(&[take]),
};

/// Suffixes of codes and of their scales.
const SPELLINGS: &[[&str; 2]] = &[[".weight", ".weight_scale"], [".embedding_quantized", ".embedding_scale"]];

struct Bits {
    all: u64,
    by_module: Vec<(Regex, u64)>,
}

fn take(assembly: &mut Assembly<'_>) -> Result<(), Error> {
    let bits = Bits::of(assembly.quantized)?;
    for tensor in assembly.left() {
        if tensor.name.ends_with("_activation_scale") {
            assembly.leave(tensor, "the model rounds activations with it, but GGUF has no key for this");
        }
        for [codes_end, scales_end] in SPELLINGS {
            let Some(module) = tensor.name.strip_suffix(codes_end) else { continue };
            let scales = format!("{module}{scales_end}");
            if assembly.get(&scales).is_some() {
                take_module(assembly, tensor, module, &scales, &bits)?;
            }
        }
    }
    Ok(())
}

fn take_module<'a>(
    assembly: &mut Assembly<'a>,
    codes: &'a Tensor,
    module: &str,
    scales: &str,
    bits: &Bits,
) -> Result<(), Error> {
    let scales = assembly.part(codes, scales, &[Dtype::F32])?;
    let ([n_rows, width], [scale_rows, n_groups]) = (&codes.shape[..], &scales.shape[..]) else {
        return Err(shape_error(scales, codes, "(rows, blocks)"));
    };
    let (bits, flip, zero) = match (codes.dtype, bits.module_bits(module)) {
        // Two's complement: the flipped sign bit makes the zero 128.
        (Dtype::I8, _) => (8, 0x80, 128.0),
        (Dtype::U8, 4) => (4, 0, 8.0),
        (Dtype::U8, 2) => (2, 0, 2.0),
        (dtype, bits) => {
            return Err(mismatch(
                codes,
                "I8, or U8 with 4 or 2 bits by the config",
                format!("{dtype} with {bits}"),
            ));
        }
    };
    let n_columns = width.saturating_mul(8 / bits);
    if scale_rows != n_rows || *n_groups == 0 || !n_columns.is_multiple_of(*n_groups) || n_columns == 0 {
        return Err(shape_error(scales, codes, "(rows, blocks)"));
    }
    let shape = [*n_rows, n_columns];
    let weights = CodedWeights::new(
        shape,
        Codes::rows(codes, bits as u32, flip, shape, *width),
        Strided::by_row(scales, *n_rows, *n_groups),
        Zeros::Same(zero),
        Groups::Size(n_columns / n_groups),
    );
    assembly.used(scales);
    assembly.put(codes, format!("{module}.weight"), shape.to_vec(), Arc::new(weights.checked()?));
    Ok(())
}

impl Bits {
    fn of(quantized: &Quantized<'_>) -> Result<Bits, Error> {
        let number = |value: &Json| value.get("num_bits").and_then(Json::as_u64);
        let all = quantized.config().and_then(number).unwrap_or(4);
        let by_module = quantized.entries("module_quant_configs").map(|(pattern, own)| {
            let expression = Regex::new(pattern).map_err(|_| Error::JsonForm {
                file: "config.json".to_owned(),
                expected: "an expression at `module_quant_configs`".to_owned(),
                found: format!("`{pattern}`"),
            })?;
            Ok((expression, number(own).unwrap_or(all)))
        });
        Ok(Bits { all, by_module: by_module.collect::<Result<_, Error>>()? })
    }

    /// Bits of a module: those of the expression whose match begins first in its path. If several begin
    /// there, the first in the config counts, like in one expression that joins all.
    fn module_bits(&self, module: &str) -> u64 {
        let found = self
            .by_module
            .iter()
            .filter_map(|(expression, bits)| expression.find(module).map(|found| (found.start(), *bits)));
        found.min_by_key(|(start, _)| *start).map_or(self.all, |(_, bits)| bits)
    }
}
