//! Tensors of a GGUF file for other programs: .npy and .safetensors.

use std::{path::PathBuf, sync::atomic::Ordering};

use gguf_container::{Advice, File, Model, Output, TensorInfo};
use gguf_quant::Level;
use gguf_types::DType;
use serde::{Deserialize, Serialize};

use crate::{
    copy_files::open_model, error::Error, events::Events, outputs::check_outputs, text::human_bytes,
};

/// Options of an extraction.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ExtractOptions {
    /// GGUF file, or any shard of a split model.
    pub file: PathBuf,
    /// Names of tensors.
    pub tensors: Vec<String>,
    /// File to write; its extension decides the format: .npy (one tensor) or .safetensors.
    pub output: PathBuf,
    /// Convert all tensors to f32.
    pub f32: bool,
    /// Overwrite an existing output.
    pub force: bool,
    /// Write nothing.
    pub dry_run: bool,
    /// CPU level of the kernels.
    #[serde(skip, default = "Level::detect")]
    pub level: Level,
}

impl Default for ExtractOptions {
    fn default() -> ExtractOptions {
        ExtractOptions {
            file: PathBuf::new(),
            tensors: Vec::new(),
            output: PathBuf::new(),
            f32: false,
            force: false,
            dry_run: false,
            level: Level::detect(),
        }
    }
}

/// A format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Npy,
    Safetensors,
}

/// A tensor and how it is written.
struct Part<'a> {
    file: &'a File,
    info: &'a TensorInfo,
    /// The type of its numbers in the output.
    dtype: DType,
    /// In the order of NumPy.
    shape: Vec<u64>,
    n_bytes: u64,
}

/// Writes tensors of a GGUF file to an .npy or .safetensors file.
///
/// # Errors
/// Invalid options, an unknown tensor, an output that cannot be written; an interruption.
///
/// # Examples
/// ```no_run
/// use gguf_toolkit::extract::{ExtractOptions, extract};
///
/// # fn main() -> Result<(), gguf_toolkit::Error> {
/// let options = ExtractOptions {
///     file: "model.gguf".into(),
///     tensors: vec!["output_norm.weight".to_owned()],
///     output: "norm.npy".into(),
///     ..ExtractOptions::default()
/// };
/// assert_eq!(extract(&options, &())?.tensors.len(), 1);
/// # Ok(())
/// # }
/// ```
pub fn extract(args: &ExtractOptions, events: &dyn Events) -> Result<Extracted, Error> {
    let format = match args.output.extension().and_then(|ending| ending.to_str()) {
        Some("npy") => Format::Npy,
        Some("safetensors") => Format::Safetensors,
        _ => {
            return Err(Error::usage(format_args!(
                "{}: expected .npy or .safetensors",
                args.output.display()
            )));
        }
    };
    if format == Format::Npy && args.tensors.len() > 1 {
        return Err(Error::usage("an .npy file can hold only one tensor; use .safetensors for several"));
    }
    if args.tensors.is_empty() {
        return Err(Error::usage("missing tensor names"));
    }
    let model = open_model(&args.file)?;
    let mut parts: Vec<Part<'_>> = Vec::new();
    for name in &args.tensors {
        if parts.iter().any(|part| part.info.name == *name) {
            return Err(Error::usage(format_args!("duplicate tensor `{name}`")));
        }
        parts.push(part(args, format, &model, name)?);
    }
    let inputs: Vec<&PathBuf> = model.shards().iter().map(|(path, _)| path).collect();
    check_outputs(&[&args.output], &inputs, args.force || args.dry_run)?;
    let header = match format {
        Format::Npy => npy_header(&parts[0]),
        Format::Safetensors => {
            let written = parts.iter().map(|part| (part.info.name.as_str(), &part.info.shape, part.dtype));
            gguf_checkpoint::safetensors_header(&[], written)
                .map_err(|error| Error::at(&args.output, error.to_string()))?
        }
    };
    let file_bytes = header.len() as u64 + parts.iter().map(|part| part.n_bytes).sum::<u64>();
    if !args.dry_run {
        write(&parts, &header, file_bytes, args, events).map_err(|error| {
            if error.is_interrupted() { error } else { Error::at(&args.output, error.to_string()) }
        })?;
    }
    let tensor = |part: &Part<'_>| ExtractedTensor {
        name: part.info.name.clone(),
        stored: part.info.dtype.name(),
        dtype: part.dtype.name(),
        shape: part.shape.clone(),
    };
    Ok(Extracted {
        file: args.output.display().to_string(),
        file_bytes,
        written: !args.dry_run,
        tensors: parts.iter().map(tensor).collect(),
    })
}

/// Result of an extraction.
#[derive(Debug, Serialize)]
pub struct Extracted {
    /// The output.
    pub file: String,
    /// Its length in bytes.
    pub file_bytes: u64,
    /// False for a dry run.
    pub written: bool,
    /// Its tensors.
    pub tensors: Vec<ExtractedTensor>,
}

/// A tensor of [`Extracted`].
#[derive(Debug, Serialize)]
pub struct ExtractedTensor {
    /// Its name.
    pub name: String,
    /// Its type in the GGUF file.
    pub stored: &'static str,
    /// Its type in the output.
    pub dtype: &'static str,
    /// Its shape in the order of NumPy.
    pub shape: Vec<u64>,
}

impl Extracted {
    /// A line for each tensor and one for the file.
    pub fn lines(&self) -> Vec<String> {
        let verb = if self.written { "wrote" } else { "would write" };
        let of_tensor = |tensor: &ExtractedTensor| {
            let ExtractedTensor { name, stored, dtype, shape } = tensor;
            format!("{verb} `{name}` ({stored}) as {dtype} {shape:?}")
        };
        let mut lines: Vec<String> = self.tensors.iter().map(of_tensor).collect();
        lines.push(format!("{verb} {}: {}", self.file, human_bytes(self.file_bytes)));
        lines
    }
}

fn part<'a>(args: &ExtractOptions, format: Format, model: &'a Model, name: &str) -> Result<Part<'a>, Error> {
    let Some((file, info)) = model.tensor(name) else {
        let names = model.tensors().map(|(_, info)| info.name.as_str());
        let near = names.max_by(|a, b| strsim::jaro(a, name).total_cmp(&strsim::jaro(b, name)));
        let hint = near.map(|near| format!("did you mean `{near}`?"));
        return Err(Error::at(&args.file, format_args!("unknown tensor `{name}`")).hint(hint));
    };
    let has_none = info.dtype == DType::BF16 && format == Format::Npy;
    let dtype = if info.dtype.is_quantized() || has_none || args.f32 { DType::F32 } else { info.dtype };
    if dtype != info.dtype && gguf_quant::codec(info.dtype).is_none() {
        return Err(Error::at(&args.file, format_args!("tensor `{name}`: {} cannot be decoded", info.dtype)));
    }
    let wrong = |error| Error::at(&args.file, format_args!("tensor `{name}`: {error}"));
    let shape: Vec<u64> = info.shape.dims().iter().rev().copied().collect();
    Ok(Part { file, info, dtype, shape, n_bytes: info.shape.n_bytes(dtype).map_err(wrong)? })
}

/// Version 1.0 of the format: magic, length of what follows, a Python dictionary, spaces up to a multiple of 64, a line end.
///
/// Source: `numpy.lib.format`.
fn npy_header(part: &Part<'_>) -> Vec<u8> {
    let kind = match part.dtype {
        DType::F16 => "<f2",
        DType::F64 => "<f8",
        DType::I8 => "|i1",
        DType::I16 => "<i2",
        DType::I32 => "<i4",
        DType::I64 => "<i8",
        _ => "<f4",
    };
    let dims: Vec<String> = part.shape.iter().map(u64::to_string).collect();
    // A tuple of one item needs its comma.
    let comma = if dims.len() == 1 { "," } else { "" };
    let mut text =
        format!("{{'descr': '{kind}', 'fortran_order': False, 'shape': ({}{comma}), }}", dims.join(", "));
    let unpadded = 10 + text.len() + 1;
    text.extend(std::iter::repeat_n(' ', unpadded.next_multiple_of(64) - unpadded));
    text.push('\n');
    let mut header = b"\x93NUMPY\x01\x00".to_vec();
    // At most five dimensions of 20 digits: far from 65535.
    header.extend((text.len() as u16).to_le_bytes());
    header.extend(text.into_bytes());
    header
}

/// Elements that are decoded at a time, at least a row.
const PIECE_ELEMS: u64 = 1 << 20;

fn write(
    parts: &[Part<'_>],
    header: &[u8],
    file_bytes: u64,
    args: &ExtractOptions,
    events: &dyn Events,
) -> Result<(), Error> {
    let cancel = events.cancel();
    let progress = events.progress(parts.iter().map(|part| part.info.n_bytes).sum());
    let output = Output::create(&args.output, file_bytes, args.force)?;
    output.write_at(0, header)?;
    let mut at = header.len() as u64;
    for Part { file, info, dtype, .. } in parts {
        let data = file.data(info)?;
        let start = file.range(info)?.start;
        let step = PIECE_ELEMS / info.dtype.block_elems() * info.dtype.block_bytes();
        for (index, piece) in data.chunks(step as usize).enumerate() {
            if cancel.load(Ordering::Relaxed) {
                return Err(Error::interrupted());
            }
            let blocks = file.endian().to_little(info.dtype, piece);
            if *dtype == info.dtype {
                output.write_at(at, &blocks)?;
                at += blocks.len() as u64;
            } else {
                let n_elems = blocks.len() as u64 / info.dtype.block_bytes() * info.dtype.block_elems();
                let mut values = vec![0.0; n_elems as usize];
                gguf_quant::decode(info.dtype, args.level, &blocks, &mut values)?;
                let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
                output.write_at(at, &bytes)?;
                at += bytes.len() as u64;
            }
            progress.add(piece.len() as u64);
            let from = start + index * step as usize;
            file.bytes().advise(Advice::DoneWith, from..from + piece.len());
        }
        file.bytes().check_unchanged()?;
    }
    output.finish()?;
    Ok(())
}
