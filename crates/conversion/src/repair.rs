//! Repair of files of diffusion models that a loader refuses or would load wrongly.
//!
//! The tables of families determine the name of the architecture, lost dimensions, and the parameters that must be F32 because
//! ComfyUI-GGUF does not decode them. Empty tensors that mark variants, and values that were quantized, are not known.

use gguf_container::{Metadata, Value};
use gguf_layout::DiffusionFile;
use gguf_types::{DType, Shape, counted};

use crate::error::Error;
use crate::planned::Choice;
use crate::recipes::Reason;

/// Repairs the metadata and the planned tensors, and says what changed and what is not known.
///
/// # Errors
/// [`Error::NotRepairable`] for a file without a known model.
pub(crate) fn repair<'a>(
    file: Option<&DiffusionFile>,
    metadata: &mut Metadata,
    planned: impl Iterator<Item = (&'a str, &'a mut Shape, &'a mut Choice)>,
) -> Result<Vec<String>, Error> {
    let row = file.and_then(|file| file.recognized.or(file.row));
    let (Some(file), Some(row)) = (file, row) else { return Err(Error::NotRepairable) };
    let mut changes = Vec::new();
    let stated = metadata.get("general.architecture").and_then(Value::as_str).map(str::to_owned);
    if let Some(stated) = stated.filter(|stated| *stated != row.name) {
        metadata.set("general.architecture", row.name.as_str());
        changes.push(format!("architecture `{stated}` is now `{}`", row.name));
    }
    let (mut n_floats, mut n_decoded, mut n_ranks) = (0, 0, 0);
    for (name, shape, choice) in planned {
        let Some(name) = file.own_name(name) else { continue };
        let n_dims = row.rank_of(name).unwrap_or(0).max(shape.n_dims());
        if n_dims > shape.n_dims() {
            let mut dims = shape.dims().to_vec();
            dims.resize(n_dims, 1);
            *shape = Shape::new(&dims).map_err(|_| Error::NotRepairable)?;
            n_ranks += 1;
        }
        if !row.is_decoded(name, n_dims) && !matches!(choice.dtype, DType::F32 | DType::F16) {
            n_floats += 1;
            n_decoded += usize::from(choice.dtype.is_quantized());
            choice.dtype = DType::F32;
            choice.reason = Reason::Repaired;
        }
    }
    if n_ranks > 0 {
        changes.push(format!("lost dimensions of {} are restored", counted(n_ranks, "tensor")));
    }
    if n_floats > 0 {
        changes
            .push(format!("F32 for {}, which loaders decode in no other type", counted(n_floats, "tensor")));
    }
    if n_decoded > 0 {
        changes.push(format!(
            "{n_decoded} of them had been quantized; only the original has their exact values"
        ));
    }
    if changes.is_empty() {
        changes.push("nothing to repair is known".to_owned());
    }
    if row.needs_config && metadata.get("config").is_none() {
        changes.push("the key `config` is missing; only the original file has it".to_owned());
    }
    Ok(changes.into_iter().map(|change| format!("repair: {change}")).collect())
}
