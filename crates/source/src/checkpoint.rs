//! A checkpoint folder, opened: headers and small files only.

use std::path::Path;

use serde_json::Value as Json;

use crate::{
    Error, Listing, Part, Tensor, Tensors, View, formats,
    small_files::{card_of, folder_name, read_object, read_small_files},
};

/// A checkpoint without its weights read.
#[derive(Debug)]
#[non_exhaustive]
pub struct Checkpoint {
    /// Name of the folder as it was given; of the real folder where that is `.` or `..`.
    pub folder_name: String,
    /// Name of the weights' format in [`FORMATS`](crate::FORMATS).
    pub format: &'static str,
    /// `config.json`, an object.
    pub config: Json,
    /// `generation_config.json`, if there is one.
    pub generation_config: Option<Json>,
    /// Small files by name, whole, sorted by name. Those of `additional_chat_templates` have
    /// the folder in their name, divided by `/`.
    pub files: Vec<(String, Vec<u8>)>,
    /// The head of the model card, an object, if there is one.
    pub card: Option<Json>,
    /// What is odd and no reason to stop, each one line.
    pub notes: Vec<String>,
    /// Weights files, in the order of the reference.
    pub parts: Vec<Part>,
    /// Tensors, in the order of the reference: by file, in a file by name.
    pub tensors: Tensors,
}

/// Opens a checkpoint folder.
///
/// # Errors
/// [`Error`]: what is missing or wrong, with the file's name.
pub fn open(dir: &Path) -> Result<Checkpoint, Error> {
    let listing = Listing::of(dir)?;
    let (format, open) = formats::detect(&listing)?;
    let checkpoint = without_weights(dir, &listing)?;
    let (parts, tensors) = open(dir, &listing)?;
    Ok(Checkpoint { format: format.name, parts, tensors: tensors.into(), ..checkpoint })
}

/// Opens a folder without looking for weights: what is known of a model beside them. The format
/// has no name then.
///
/// # Errors
/// As [`open`].
pub fn open_without_weights(dir: &Path) -> Result<Checkpoint, Error> {
    without_weights(dir, &Listing::of(dir)?)
}

fn without_weights(dir: &Path, listing: &Listing) -> Result<Checkpoint, Error> {
    if !listing.has("config.json") {
        return Err(Error::MissingFile { file: "config.json".to_owned() });
    }
    let config = read_object(dir, "config.json")?;
    let generation_config = match listing.has("generation_config.json") {
        true => Some(read_object(dir, "generation_config.json")?),
        false => None,
    };
    let mut notes = Vec::new();
    let card = card_of(dir, listing, &mut notes)?;
    let files = read_small_files(dir, listing)?;
    let folder_name = folder_name(dir);
    Ok(Checkpoint {
        folder_name,
        format: "",
        config,
        generation_config,
        files,
        card,
        notes,
        parts: Vec::new(),
        tensors: Tensors::default(),
    })
}

impl Checkpoint {
    /// The bytes of a small file.
    pub fn file(&self, name: &str) -> Option<&[u8]> {
        self.files.iter().find(|(have, _)| have == name).map(|(_, bytes)| bytes.as_slice())
    }

    /// The tensor of this name.
    pub fn tensor(&self, name: &str) -> Option<&Tensor> {
        self.tensors.get(name)
    }

    /// The file that holds a tensor, which must be one of [`Checkpoint::tensors`].
    pub fn part_of(&self, tensor: &Tensor) -> &Part {
        &self.parts[tensor.part]
    }

    /// A tensor's bytes; `tensor` must be one of [`Checkpoint::tensors`].
    pub fn view<'a>(&'a self, tensor: &'a Tensor) -> View<'a> {
        let Tensor { name, dtype, shape, .. } = tensor;
        View { name, dtype: *dtype, shape, bytes: self.part_of(tensor).bytes_of(tensor) }
    }
}
