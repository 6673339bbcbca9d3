//! The layout of a checkpoint: its files and tensors as seen by architectures, and its normalized form.

use std::collections::HashMap;

use gguf_checkpoint::{Checkpoint, Folder};
use gguf_layout::{Data, Layout};

use crate::Error;

/// A checkpoint as seen by architectures.
///
/// # Errors
/// [`Error::Shape`] for a tensor of more dimensions than ggml has.
pub fn arch_input(checkpoint: &Checkpoint) -> Result<gguf_layout::Input<'_>, Error> {
    let tensor = |tensor: &gguf_checkpoint::Tensor| {
        let name = tensor.name.clone();
        match tensor.folded_shape() {
            Ok((shape, folded)) => Ok(gguf_layout::SourceTensor { name, shape, folded }),
            Err(source) => Err(Error::Shape { tensor: name, source }),
        }
    };
    let same = |a: &str, b: &str| match (checkpoint.tensor(a), checkpoint.tensor(b)) {
        (Some(a), Some(b)) => have_same_values(checkpoint, a, b),
        _ => false,
    };
    let zero = |name: &str| checkpoint.tensor(name).is_none_or(|tensor| is_zero(checkpoint, tensor));
    // Only small tensors are read; their values become keys.
    let values = |name: &str| {
        let tensor = checkpoint.tensor(name)?;
        let n_elems: u64 = tensor.shape.iter().product();
        let mut values = vec![0.0; (1..=4096).contains(&n_elems).then_some(n_elems as usize)?];
        checkpoint.read_rows(tensor, n_elems, 0..1, &mut values).ok().map(|()| values)
    };
    Ok(gguf_layout::Input {
        same: Some(gguf_layout::SameValues::new(same).with_zeros(zero)),
        integers: Some(gguf_layout::Integers::new(|name| integers(checkpoint, name))),
        values: Some(gguf_layout::TensorValues::new(values)),
        zero_rows: Some(gguf_layout::ZeroRows::new(|name, first| zero_rows(checkpoint, name, first))),
        decoded: checkpoint.settled,
        stored_blocks: checkpoint.tensors.iter().filter_map(stored_blocks).collect(),
        config: checkpoint.config.clone(),
        generation_config: checkpoint.generation_config.clone(),
        files: checkpoint.files.iter().map(|(name, bytes)| (name.clone(), bytes.as_slice())).collect(),
        card: checkpoint.card.clone(),
        folder_name: checkpoint.folder_name.clone(),
        tensors: checkpoint.tensors.iter().map(tensor).collect::<Result<_, _>>()?,
    })
}

/// Converts a checkpoint to the form in which its class is usually saved: with `architectures` in the config,
/// the prefix of the class in tensor names, and a tied embedding under its own name. Differences are added to
/// the notes of the checkpoint.
///
/// # Errors
/// Those of [`arch_input`], and [`Error::Source`] for weights without elements.
pub fn normalized(mut checkpoint: Checkpoint, options: &gguf_layout::Options) -> Result<Checkpoint, Error> {
    checkpoint.check_elements()?;
    let gguf_layout::SavedForm { class, renamed, notes, .. } =
        gguf_layout::saved_form(&arch_input(&checkpoint)?, options);
    if let Some(class) = class {
        checkpoint.config["architectures"] = vec![class].into();
    }
    checkpoint.notes.extend(notes);
    if renamed.is_empty() {
        return Ok(checkpoint);
    }
    let renamed: HashMap<String, String> = renamed.into_iter().collect();
    let mut tensors = checkpoint.tensors.to_vec();
    // Tensors of one file are in name order, decoded ones last; pickles have their own order.
    let is_sorted = !checkpoint.format.contains("pickle");
    let runs = tensors.chunk_by(|a, b| is_sorted && a.part == b.part && a.name < b.name);
    let runs: Vec<usize> = runs.map(<[_]>::len).collect();
    for tensor in &mut tensors {
        if let Some(name) = renamed.get(&tensor.name) {
            tensor.name.clone_from(name);
        }
    }
    let mut rest = &mut tensors[..];
    for n_tensors in runs {
        let (run, after) = std::mem::take(&mut rest).split_at_mut(n_tensors);
        run.sort_by(|a, b| a.name.cmp(&b.name));
        rest = after;
    }
    checkpoint.tensors = tensors.into();
    Ok(checkpoint)
}

/// True if two tensors have the same shape and values. Equal bytes of one type are equal values; other tensors are read row by row.
/// Unreadable tensors count as different; the run fails when it reads them again.
fn have_same_values(
    checkpoint: &Checkpoint,
    a: &gguf_checkpoint::Tensor,
    b: &gguf_checkpoint::Tensor,
) -> bool {
    if a.shape != b.shape {
        return false;
    }
    if a.stored.is_none() && b.stored.is_none() && a.dtype == b.dtype {
        let bytes = |tensor| checkpoint.view(tensor).map(|view| view.bytes);
        return matches!((bytes(a), bytes(b)), (Ok(a), Ok(b)) if a == b);
    }
    all_rows(checkpoint, [a, b], |[a, b]| a == b)
}

/// True if a tensor can be read and all its values are zero.
fn is_zero(checkpoint: &Checkpoint, tensor: &gguf_checkpoint::Tensor) -> bool {
    all_rows(checkpoint, [tensor], |[values]| values.iter().all(|value| *value == 0.0))
}

/// Indices of the rows from `first` whose elements are all zero; `None` for a tensor that is missing or cannot be read.
fn zero_rows(checkpoint: &Checkpoint, name: &str, first: u64) -> Option<Vec<u64>> {
    let tensor = checkpoint.tensor(name)?;
    let mut values = vec![0.0; usize::try_from(tensor.row_elems()).ok()?];
    let mut found = Vec::new();
    for row in first..tensor.n_rows() {
        checkpoint.read_rows(tensor, tensor.row_elems(), row..row + 1, &mut values).ok()?;
        if values.iter().all(|value| *value == 0.0) {
            found.push(row);
        }
    }
    Some(found)
}

/// True if the condition is true for every row, in f32. The tensors have the same shape.
fn all_rows<const N: usize>(
    checkpoint: &Checkpoint,
    tensors: [&gguf_checkpoint::Tensor; N],
    holds: impl Fn([&[f32]; N]) -> bool,
) -> bool {
    let (row_elems, n_rows) = (tensors[0].row_elems(), tensors[0].n_rows());
    // A row too large for memory cannot be read later either.
    let Ok(length) = usize::try_from(row_elems) else { return false };
    let mut rows = [(); N].map(|()| vec![0.0; length]);
    (0..n_rows).all(|row| {
        let is_read = rows
            .iter_mut()
            .zip(tensors)
            .all(|(values, tensor)| checkpoint.read_rows(tensor, row_elems, row..row + 1, values).is_ok());
        is_read && holds(rows.each_ref().map(Vec::as_slice))
    })
}

/// Reads the data that a draft model takes from its target's folder; weights need not be present.
///
/// # Errors
/// [`Error::Source`].
pub fn target(folder: impl Into<Folder>) -> Result<gguf_layout::Target, Error> {
    let gguf_checkpoint::Checkpoint { config, generation_config, files, .. } =
        gguf_checkpoint::open_without_weights(folder).map_err(Error::Source)?;
    Ok(gguf_layout::Target { config, generation_config, files })
}

fn integers(checkpoint: &Checkpoint, name: &str) -> Option<Vec<i64>> {
    let view = checkpoint.view(checkpoint.tensor(name)?).ok()?;
    match view.dtype {
        gguf_checkpoint::Dtype::I64 => {
            let words = view.bytes.as_chunks::<8>().0;
            Some(words.iter().map(|bytes| i64::from_le_bytes(*bytes)).collect())
        }
        gguf_checkpoint::Dtype::I32 => {
            let words = view.bytes.as_chunks::<4>().0;
            Some(words.iter().map(|bytes| i64::from(i32::from_le_bytes(*bytes))).collect())
        }
        _ => None,
    }
}

/// Name and blocks of a tensor that stays in blocks.
fn stored_blocks(tensor: &gguf_checkpoint::Tensor) -> Option<(String, gguf_types::StoredBlocks)> {
    Some((tensor.name.clone(), tensor.stored.as_ref()?.stored_blocks()?.clone()))
}

/// Resolves a checkpoint.
///
/// # Errors
/// Those of [`arch_input`], [`Error::Arch`], and [`Error::Source`] for weights whose codes were not decoded.
pub fn resolve(checkpoint: &Checkpoint, options: &gguf_layout::Options) -> Result<Layout, Error> {
    decoded(checkpoint, gguf_layout::resolve(&arch_input(checkpoint)?, options)?)
}

/// Resolves the projector of a checkpoint.
pub fn resolve_projector(checkpoint: &Checkpoint, options: &gguf_layout::Options) -> Result<Layout, Error> {
    decoded(checkpoint, gguf_layout::resolve_projector(&arch_input(checkpoint)?, options)?)
}

/// Returns the layout unless it has weights whose codes were not decoded.
fn decoded(checkpoint: &Checkpoint, layout: Layout) -> Result<Layout, Error> {
    // Regardless of names: otherwise a tensor of integers would be taken for weights of that size.
    let weights = layout.tensors.iter().filter(|tensor| !matches!(tensor.data, Data::Integers { .. }));
    let sources = weights.flat_map(|tensor| tensor.data.sources());
    match sources.filter_map(|name| checkpoint.tensor(name)).find(|tensor| tensor.is_code()) {
        Some(tensor) => Err(Error::Source(tensor.undecoded())),
        None => Ok(layout),
    }
}
