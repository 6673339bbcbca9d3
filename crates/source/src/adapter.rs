//! LoRA adapters as PEFT saves them: `adapter_config.json` beside `adapter_model.safetensors`, or before PEFT 0.7 beside
//! `adapter_model.bin`.

use std::path::Path;

use crate::{
    Checkpoint, Error, Folder, Listing, Weights, safetensors,
    small_files::{card_of, read_object},
    torch,
};

const CONFIG: &str = "adapter_config.json";
const WEIGHTS: &str = "adapter_model.safetensors";
const PICKLE: &str = "adapter_model.bin";

/// Whether the folder holds an adapter.
pub fn is_adapter(dir: &Path) -> bool {
    dir.join(CONFIG).is_file()
}

/// Opens an adapter: its config in the place of a model's, its tensors in the order in which they
/// lie in the file, which is that of the reference (`safetensors.torch.load_file` 0.8), or that of the pickled
/// dictionary.
///
/// # Errors
/// [`Error`]: what is missing or wrong, with the file's name.
pub fn open_adapter(folder: impl Into<Folder>) -> Result<Checkpoint, Error> {
    let folder = folder.into();
    let (dir, listing) = (folder.path(), folder.listing()?);
    let Weights { parts, tensors, notes: more } = match listing.has(WEIGHTS) {
        true => open_safetensors(dir, &listing)?,
        false if listing.has(PICKLE) => torch::open_file(dir, &listing, PICKLE)?,
        false => return Err(Error::MissingFile { file: WEIGHTS.to_owned() }),
    };
    let config = read_object(dir, CONFIG)?;
    let mut notes = Vec::new();
    let card = card_of(dir, &listing, &mut notes)?;
    if listing.has(WEIGHTS) && listing.has(PICKLE) {
        notes.push(format!("weights are read from `{WEIGHTS}`; left aside: `{PICKLE}`"));
    }
    notes.extend(more);
    Ok(Checkpoint {
        folder_name: folder.name(),
        format: "a LoRA adapter",
        config,
        generation_config: None,
        files: Vec::new(),
        card,
        notes,
        parts,
        tensors: tensors.into(),
        method: None,
        settled: false,
    })
}

/// The tensors in the order in which they lie in the file.
fn open_safetensors(dir: &Path, listing: &Listing) -> Result<Weights, Error> {
    let part = listing.open(dir, WEIGHTS)?;
    let mut tensors = safetensors::parse(&part)?;
    if tensors.is_empty() {
        return Err(Error::NoTensors { file: WEIGHTS.to_owned() });
    }
    tensors.sort_by_key(|tensor| tensor.begin);
    Ok(Weights { parts: vec![part], tensors, notes: Vec::new() })
}
