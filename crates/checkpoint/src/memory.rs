//! An in-memory checkpoint: a state dict and its small files, without a folder.
//!
//! Tensors share their owner's bytes without copying. They are sorted by name like in one weights file, so
//! that the outputs have the same bytes as from a folder with one such file.

use serde_json::Value as Json;

use crate::{
    Checkpoint, Dtype, Error, FamilyForm, Part, SharedBytes, Tensor, card, json,
    methods::{self, Decoded, Outcome, ReadAs},
};

/// Name for messages instead of a weights file.
const FILE: &str = "memory";
/// Name of the format in [`Checkpoint::format`].
const FORMAT: &str = "tensors in memory";

/// A checkpoint in memory.
#[derive(Clone, Default)]
pub struct Memory {
    /// Default name of the model.
    pub name: String,
    /// Small files by name: `config.json`, which is required, `tokenizer.json` and others.
    pub files: Vec<(String, Vec<u8>)>,
    /// Tensors, in any order.
    pub tensors: Vec<MemoryTensor>,
}

/// A tensor in memory.
#[derive(Clone)]
pub struct MemoryTensor {
    /// Name of the tensor.
    pub name: String,
    /// Type of its elements.
    pub dtype: Dtype,
    /// Dimensions in torch's order, row length last; empty for a scalar.
    pub shape: Vec<u64>,
    /// Elements, little endian, row-major.
    pub bytes: SharedBytes,
}

/// Opens an in-memory checkpoint; `forms` are facts about families ([`Folder::forms`](crate::Folder::forms)).
///
/// # Errors
/// [`Error::MissingFile`] without `config.json`; [`Error::DuplicateTensor`], [`Error::BadShape`],
/// [`Error::SizeMismatch`] for a tensor; errors in the small files; for quantized weights those of
/// [`open`](crate::open).
pub fn open_memory(memory: Memory, forms: &'static [FamilyForm]) -> Result<Checkpoint, Error> {
    let Memory { name, mut files, mut tensors } = memory;
    let config = take_object(&mut files, "config.json")?
        .ok_or_else(|| Error::MissingFile { file: "config.json".to_owned() })?;
    let generation_config = take_object(&mut files, "generation_config.json")?;
    files.sort_by(|a, b| a.0.cmp(&b.0));
    let mut notes = Vec::new();
    let readme = files.iter().find(|(name, _)| name == "README.md");
    let card = readme.and_then(|(_, bytes)| card::read(bytes, &mut notes));
    // Like in a safetensors file.
    tensors.sort_by(|a, b| a.name.cmp(&b.name));
    let mut parts = Vec::with_capacity(tensors.len());
    let mut listed: Vec<Tensor> = Vec::with_capacity(tensors.len());
    for MemoryTensor { name, dtype, shape, bytes } in tensors {
        if listed.last().is_some_and(|before| before.name == name) {
            let (first, second) = (FILE.to_owned(), FILE.to_owned());
            return Err(Error::DuplicateTensor { tensor: name, first, second });
        }
        let Some(expected) = dtype.n_elems_of(&shape).and_then(|n| dtype.n_bytes(n)) else {
            return Err(Error::BadShape { file: FILE.to_owned(), tensor: name, shape, dtype });
        };
        let end = (*bytes).as_ref().len() as u64;
        if end != expected {
            let file = FILE.to_owned();
            return Err(Error::SizeMismatch { file, tensor: name, shape, dtype, expected, begin: 0, end });
        }
        // One part per tensor, because each has its own owner.
        listed.push(Tensor { name, dtype, shape, part: parts.len(), begin: 0, end, stored: None });
        parts.push(Part::shared(FILE.to_owned(), bytes));
    }
    let read = ReadAs { unmasked_zeros: false, forms };
    let outcome = methods::decode(&config, &files, &parts, listed, read)?;
    let Outcome { method, settled, decoded: Decoded { tensors, notes: more } } = outcome;
    notes.extend(more);
    Ok(Checkpoint {
        warnings: Vec::new(),
        folder_name: name,
        format: FORMAT,
        config,
        generation_config,
        files,
        card,
        notes,
        parts,
        tensors: tensors.into(),
        method,
        settled,
    })
}

/// Removes a JSON object from the small files.
fn take_object(files: &mut Vec<(String, Vec<u8>)>, name: &str) -> Result<Option<Json>, Error> {
    let Some(at) = files.iter().position(|(other, _)| other == name) else { return Ok(None) };
    let (file, bytes) = files.swap_remove(at);
    json::parse_object(&file, &bytes).map(Some)
}
