//! Quantized weights of diffusion models in ComfyUI's forms.
//!
//! ```text
//! form           codes                     scales                                         marks
//! FP8, no scale  X.weight F8               -                                              -
//! FP8, first     X.weight F8               X.scale_weight F32                             scaled_fp8
//! FP8            X.weight F8               X.weight_scale F32, () or (out, 1)             X.comfy_quant
//! INT8           X.weight I8               X.weight_scale F32, () or (out, 1)             X.comfy_quant
//! MXFP8          X.weight F8               X.weight_scale F8_E8M0 or U8, tiles            X.comfy_quant
//! NVFP4          X.weight U8 (out, in / 2) X.weight_scale F8_E4M3, tiles, .weight_scale_2 X.comfy_quant
//! ```
//!
//! `X.comfy_quant` contains the bytes of a JSON object whose `format` names the form (`float8_e4m3fn`,
//! `int8_tensorwise`, `mxfp8`, `nvfp4`); other keys change the meaning of codes (`convrot`). Scales of
//! activations are left out. The value is `f32(code) * f32(scale)`; for the last two forms see
//! `microscaled.rs`, with the even element of NVFP4 in the high half of a byte and tiles of `scale_order.rs`.
//!
//! Sources: `backends/eager/quantization.py` of comfy-kitchen 0.2.40; `Safetensor.zig` and `DataTransform.zig` of
//! qskousen/ggufy@07c55c0.

use std::{collections::HashMap, ops::Range, sync::Arc};

use serde_json::Value as Json;

use super::{
    assembly::{Assembly, Taker, assemble},
    bitsandbytes,
    checks::{finite_values, shape_error, wrong_dtype},
    fp8,
    microscaled::{Format, Microscaled},
    number_tables::Numbers,
    quantized::{Decoded, Quantized},
    scale_order::ScaleOrder,
};
use crate::{Dtype, Error, Part, ReadError, Region, Span, Stored, Tensor};

/// Name of the method in [`Checkpoint::method`](crate::Checkpoint::method).
const NAME: &str = "ComfyUI's quantization";
/// Suffixes of the marks of a matrix and of a file.
const MARK: &str = ".comfy_quant";
const FILE_MARK: &str = "scaled_fp8";
const SCALES: &[&str] = &[".scale_weight", ".weight_scale"];
const OF_ACTIVATIONS: &[&str] = &[".scale_input", ".input_scale"];
/// Suffixes of parts of unsupported forms, and the forms.
const REFUSED: &[(&str, &str, &str)] = &[
    (".weight_zero_point", "integers with zero points", "tensors `.weight_zero_point`"),
    (".weight_codebook", "codes of a codebook", "tensors `.weight_codebook`"),
    (".absmax", "bitsandbytes without its states", "tensors `.absmax`"),
    (".wscales", "Nunchaku (SVDQuant)", "tensors `.wscales`"),
];
/// Keys of a mark that change the meaning of codes.
const CHANGES: &[&str] = &["convrot", "rotation", "hadamard", "group_size", "codebook"];
/// Forms in which groups of elements share a scale.
const NVFP4: &str = "nvfp4";
const MXFP8: &str = "mxfp8";
/// Maximum bytes of a mark.
const MAX_MARK_BYTES: u64 = 4096;

const TAKERS: &[Taker] = &[take_blocks, take_marks, take_codes];

const ADVICE: &str = "convert the original checkpoint, or one in FP8 with scales";

/// Decodes the tensors of a diffusion model; returns the name of the method if there are codes.
///
/// # Errors
/// [`Error::MethodNotRead`] for a form that is not read, and errors of invalid codes and scales.
pub(crate) fn decode_diffusion(
    config: &Json,
    parts: &[Part],
    tensors: &[Tensor],
) -> Result<(Option<&'static str>, Decoded), Error> {
    let ends = |tensor: &Tensor, endings: &[&str]| endings.iter().any(|end| tensor.name.ends_with(end));
    let is_mark = |tensor: &Tensor| ends(tensor, &[MARK]) || is_file_mark(tensor);
    let is_float8 = |tensor: &Tensor| matches!(tensor.dtype, Dtype::F8_E4M3 | Dtype::F8_E5M2);
    if tensors.iter().any(|tensor| tensor.name.contains(bitsandbytes::STATE)) {
        let quantized = Quantized::new(config, &[], parts, tensors)?;
        let decoded = assemble(&quantized, bitsandbytes::TAKERS)?;
        return Ok((Some(bitsandbytes::BITSANDBYTES.name), decoded));
    }
    let has_end = |end: &str| tensors.iter().any(|tensor| tensor.name.ends_with(end));
    if let Some((_, method, recognized_by)) = REFUSED.iter().find(|(end, ..)| has_end(end)) {
        return Err(refused(method, recognized_by));
    }
    if tensors.iter().any(|tensor| tensor.stored.is_none() && !tensor.dtype.is_readable()) {
        return Err(refused("packed codes", "types of tensors"));
    }
    let has_scales = tensors.iter().any(|tensor| ends(tensor, SCALES));
    if !has_scales && !tensors.iter().any(is_mark) {
        if let Some(codes) = tensors.iter().find(|tensor| tensor.is_code() && !is_float8(tensor)) {
            return Err(codes.undecoded());
        }
        return Ok((None, Decoded { tensors: tensors.to_vec(), notes: Vec::new() }));
    }
    if let Some(strided) = tensors.iter().find(|tensor| tensor.stored.is_some()) {
        return Err(Error::StridedCodes { tensor: strided.name.clone(), method: NAME });
    }
    let quantized = Quantized::new(config, &[], parts, tensors)?;
    Ok((Some(NAME), assemble(&quantized, TAKERS)?))
}

fn is_file_mark(tensor: &Tensor) -> bool {
    tensor.ending() == FILE_MARK
}

const fn refused(method: &'static str, recognized_by: &'static str) -> Error {
    Error::MethodNotRead { method, recognized_by, advice: ADVICE }
}

/// Takes the marks of matrices, and leaves out the scales of activations.
fn take_marks(assembly: &mut Assembly<'_>) -> Result<(), Error> {
    for tensor in assembly.left() {
        if is_file_mark(tensor) || tensor.name.ends_with(MARK) {
            assembly.used(tensor);
        } else if OF_ACTIVATIONS.iter().any(|end| tensor.name.ends_with(end)) {
            assembly.leave(tensor, "the quantization of activations is not stored in a GGUF file");
        }
    }
    Ok(())
}

/// Form that a mark names.
///
/// # Errors
/// [`Error::MethodNotRead`] for an unsupported form.
fn form_of(tensor: &Tensor, parts: &[Part]) -> Result<String, Error> {
    let form = |found: String| Error::JsonForm {
        file: tensor.name.clone(),
        expected: "a JSON object with the `format` of the weights".to_owned(),
        found,
    };
    if tensor.dtype != Dtype::U8 || tensor.n_bytes() > MAX_MARK_BYTES {
        return Err(form(format!("{} of {} bytes", tensor.dtype, tensor.n_bytes())));
    }
    let span = tensor.span();
    let bytes = span.of(parts)?;
    let n_bytes = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    let mark: Json = serde_json::from_slice(&bytes[..n_bytes]).map_err(|error| form(error.to_string()))?;
    let format = mark.get("format").and_then(Json::as_str).ok_or_else(|| form(mark.to_string()))?;
    let known = matches!(format, "float8_e4m3fn" | "float8_e5m2" | "int8_tensorwise" | MXFP8 | NVFP4);
    // `full_precision_matrix_mult` and the like concern the computation, not the values.
    let is_changed = |key: &&str| mark.get(key).is_some_and(|value| !value.is_null() && value != false);
    if CHANGES.iter().any(is_changed) {
        return Err(refused(
            "ComfyUI's rotated or grouped weights",
            "`convrot` and other keys of tensors `.comfy_quant`",
        ));
    }
    known
        .then(|| format.to_owned())
        .ok_or_else(|| refused("a form of ComfyUI", "`format` of tensors `.comfy_quant`"))
}

/// Takes matrices in which groups of elements share a scale, by their marks.
fn take_blocks(assembly: &mut Assembly<'_>) -> Result<(), Error> {
    let parts = assembly.quantized.parts;
    let mut forms = HashMap::new();
    for mark in assembly.left() {
        if let Some(stem) = mark.name.strip_suffix(MARK) {
            forms.insert(stem, form_of(mark, parts)?);
        }
    }
    for codes in assembly.left() {
        let Some(stem) = codes.name.strip_suffix(".weight") else { continue };
        let format = match forms.get(stem).map(String::as_str) {
            Some(NVFP4) => Format::Nvfp4,
            Some(MXFP8) => match Numbers::of(codes.dtype).filter(|_| codes.dtype != Dtype::I8) {
                Some(numbers) => Format::Mxfp8(numbers),
                None => return Err(wrong_dtype(codes, "F8_E4M3 or F8_E5M2")),
            },
            Some("float8_e4m3fn") if codes.dtype != Dtype::F8_E4M3 => {
                return Err(wrong_dtype(codes, "F8_E4M3"));
            }
            Some("float8_e5m2") if codes.dtype != Dtype::F8_E5M2 => {
                return Err(wrong_dtype(codes, "F8_E5M2"));
            }
            Some("int8_tensorwise") if codes.dtype != Dtype::I8 => return Err(wrong_dtype(codes, "I8")),
            _ => continue,
        };
        let is_nvfp4 = format == Format::Nvfp4;
        if is_nvfp4 && codes.dtype != Dtype::U8 {
            return Err(wrong_dtype(codes, "U8"));
        }
        let of_scales: &[Dtype] = if is_nvfp4 { &[Dtype::F8_E4M3] } else { &[Dtype::F8_E8M0, Dtype::U8] };
        let scales = assembly.part(codes, &format!("{stem}.weight_scale"), of_scales)?;
        let [n_rows, n_bytes] = codes.shape[..] else {
            return Err(shape_error(codes, codes, "a matrix"));
        };
        let row_elems = if is_nvfp4 { n_bytes.saturating_mul(2) } else { n_bytes };
        let n_groups = row_elems / format.group();
        let is_whole = row_elems.is_multiple_of(format.group());
        let n_scales = ScaleOrder::Tiles.n_bytes(n_rows, n_groups).filter(|_| is_whole);
        if n_scales != Some(scales.n_bytes()) {
            return Err(shape_error(
                scales,
                codes,
                "one scale for each group, in tiles of 128 rows and 4 groups",
            ));
        }
        let tensor_scale = if is_nvfp4 {
            let scale = assembly.part(codes, &format!("{stem}.weight_scale_2"), &[Dtype::F32])?;
            if scale.shape.iter().any(|dim| *dim != 1) {
                return Err(shape_error(scale, codes, "one number"));
            }
            assembly.used(scale);
            finite_values(parts, scale)?
        } else {
            vec![1.0]
        };
        let stored = Microscaled {
            format,
            row_elems,
            matrix_rows: n_rows,
            codes: codes.span(),
            codes_name: codes.name.clone(),
            scales: scales.span(),
            scales_name: scales.name.clone(),
            order: ScaleOrder::Tiles,
            tensor_scales: tensor_scale,
            columns: None,
            stored_blocks: None,
        };
        assembly.used(scales);
        let stored: Arc<dyn Stored> = if is_nvfp4 { Arc::new(HighFirst(stored)) } else { Arc::new(stored) };
        assembly.put(codes, codes.name.clone(), vec![n_rows, row_elems], stored);
    }
    Ok(())
}

/// Codes of 4 bits whose even element is in the high half of a byte.
#[derive(Debug)]
struct HighFirst(Microscaled);

impl Stored for HighFirst {
    fn read(&self, parts: &[Part], region: Region, out: &mut [f32]) -> Result<(), ReadError> {
        let Region { rows, columns } = region;
        let width = (columns.end - columns.start) as usize;
        if width == 0 {
            return Ok(());
        }
        // Complete bytes; rows have an even number of elements.
        let whole = columns.start & !1..columns.end.next_multiple_of(2);
        let skip = (columns.start - whole.start) as usize;
        let mut values = vec![0.0; (whole.end - whole.start) as usize];
        for (row, out) in rows.zip(out.chunks_exact_mut(width)) {
            let region = Region { rows: row..row + 1, columns: whole.clone() };
            self.0.read(parts, region, &mut values)?;
            values.as_chunks_mut::<2>().0.iter_mut().for_each(|pair| pair.swap(0, 1));
            out.copy_from_slice(&values[skip..skip + width]);
        }
        Ok(())
    }

    fn spans(&self, rows: Range<u64>) -> Vec<Span> {
        self.0.spans(rows)
    }

    fn codes(&self) -> Option<Dtype> {
        Some(Dtype::F4)
    }

    fn description(&self) -> Option<String> {
        self.0.description()
    }
}

fn take_codes(assembly: &mut Assembly<'_>) -> Result<(), Error> {
    fp8::take_where(assembly, |codes| match codes.dtype {
        Dtype::F8_E4M3 | Dtype::F8_E5M2 | Dtype::I8 => Numbers::of(codes.dtype),
        _ => None,
    })
}
