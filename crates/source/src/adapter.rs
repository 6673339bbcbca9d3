//! LoRA adapters as PEFT saves them: `adapter_config.json` beside `adapter_model.safetensors`.

use std::path::Path;

use crate::{
    Checkpoint, Error, Folder, safetensors,
    small_files::{card_of, read_object},
};

const CONFIG: &str = "adapter_config.json";
const WEIGHTS: &str = "adapter_model.safetensors";

/// Whether the folder holds an adapter.
pub fn is_adapter(dir: &Path) -> bool {
    dir.join(CONFIG).is_file()
}

/// Opens an adapter: its config in the place of a model's, its tensors in the order in which they
/// lie in the file, which is that of the reference (`safetensors.torch.load_file` 0.8).
///
/// # Errors
/// [`Error`]: what is missing or wrong, with the file's name.
pub fn open_adapter(folder: impl Into<Folder>) -> Result<Checkpoint, Error> {
    let folder = folder.into();
    let (dir, listing) = (folder.path(), folder.listing()?);
    if !listing.has(WEIGHTS) {
        let pickle = listing.matching("adapter_model.", ".bin").into_iter().next();
        return Err(match pickle {
            Some(file) => Error::NotReadYet { format: "a LoRA adapter as torch pickle", file },
            None => Error::MissingFile { file: WEIGHTS.to_owned() },
        });
    }
    let config = read_object(dir, CONFIG)?;
    let mut notes = Vec::new();
    let card = card_of(dir, &listing, &mut notes)?;
    let part = listing.open(dir, WEIGHTS)?;
    let mut tensors = safetensors::parse(&part)?;
    if tensors.is_empty() {
        return Err(Error::NoTensors { file: WEIGHTS.to_owned() });
    }
    tensors.sort_by_key(|tensor| tensor.begin);
    Ok(Checkpoint {
        folder_name: folder.name(),
        format: "a LoRA adapter",
        config,
        generation_config: None,
        files: Vec::new(),
        card,
        notes,
        parts: vec![part],
        tensors: tensors.into(),
        method: None,
        settled: false,
    })
}
