//! LoRA adapters as PEFT saves them: `adapter_config.json` beside `adapter_model.safetensors`, or before PEFT 0.7 beside
//! `adapter_model.bin`.

use std::path::Path;

use crate::{
    Checkpoint, Error, Folder, Listing, Weights, safetensors,
    small_files::{card_of, read_object, read_small_files},
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

/// Files of tokenizers and chat templates, by what their names begin with.
const TOKENIZERS: &[&str] = &[
    "tokenizer",
    "special_tokens_map.json",
    "added_tokens.json",
    "chat_template",
    "additional_chat_templates/",
    "vocab.",
    "merges.txt",
    "tekken.json",
    "spiece.model",
    "tiktoken.model",
];

/// The tokenizer files and chat templates in an adapter's folder that are not those of the base model, of which `base`
/// holds the small files: names. JSON files that say the same are the same.
///
/// # Errors
/// [`Error::Io`].
pub fn own_tokenizer(folder: &Folder, base: &[(String, Vec<u8>)]) -> Result<Vec<String>, Error> {
    let is_one = |name: &str| TOKENIZERS.iter().any(|start| name.starts_with(start));
    let parsed = |bytes: &[u8]| serde_json::from_slice::<serde_json::Value>(bytes).ok();
    let is_same = |name: &str, bytes: &[u8]| {
        base.iter().find(|(other, _)| other == name).is_some_and(|(_, other)| {
            other == bytes
                || name.ends_with(".json") && parsed(other).is_some_and(|other| Some(other) == parsed(bytes))
        })
    };
    let files = read_small_files(folder.path(), &folder.listing()?)?;
    let own = files.into_iter().filter(|(name, bytes)| is_one(name) && !is_same(name, bytes));
    Ok(own.map(|(name, _)| name).collect())
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
