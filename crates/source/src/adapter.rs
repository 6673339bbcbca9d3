//! LoRA adapters as PEFT saves them: `adapter_config.json` beside `adapter_model.safetensors`.

use std::path::Path;

use gguf::Mapped;

use crate::{
    Checkpoint, Error, Listing, Part, safetensors,
    small_files::{card_of, folder_name, read_object},
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
pub fn open_adapter(dir: &Path) -> Result<Checkpoint, Error> {
    let listing = Listing::of(dir)?;
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
    let bytes =
        Mapped::open(&dir.join(WEIGHTS)).map_err(|error| Error::Io { file: WEIGHTS.to_owned(), error })?;
    let mut tensors = safetensors::parse(WEIGHTS, &bytes)?;
    if tensors.is_empty() {
        return Err(Error::NoTensors { file: WEIGHTS.to_owned() });
    }
    tensors.sort_by_key(|tensor| tensor.begin);
    Ok(Checkpoint {
        folder_name: folder_name(dir),
        format: "a LoRA adapter",
        config,
        generation_config: None,
        files: Vec::new(),
        card,
        notes,
        parts: vec![Part { file: WEIGHTS.to_owned(), bytes }],
        tensors: tensors.into(),
        method: None,
        settled: false,
    })
}
