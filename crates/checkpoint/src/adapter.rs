//! LoRA adapters: `adapter_config.json` with `adapter_model.safetensors`, with `adapter_model.bin` (PEFT before 0.7) or with
//! `adapters.safetensors` (mlx-lm).

use std::{collections::BTreeSet, path::Path};

use serde_json::Value as Json;

use crate::{
    Checkpoint, Error, Folder, Listing, Tensor, Weights,
    checkpoint::is_model,
    family_form::Marked,
    listing::place_of,
    marked, mlx_adapter, safetensors,
    small_files::{card_of, is_tokenizer_file, read_object, read_small_files},
    torch,
    unread_files::{self, Found},
};

const CONFIG: &str = "adapter_config.json";
const WEIGHTS: &str = "adapter_model.safetensors";
const PICKLE: &str = "adapter_model.bin";

const DIFFUSERS_WEIGHTS: &str = "pytorch_lora_weights.safetensors";

/// [`Checkpoint::format`] of an adapter of mlx-lm.
pub const MLX_ADAPTER: &str = "an MLX LoRA adapter";

/// True if the folder contains an adapter and no complete model. Adapter files next to a model are ignored.
pub fn is_adapter(folder: &Folder) -> bool {
    let listing = folder.listing().unwrap_or_default();
    listing.has(CONFIG) && !is_model(&listing)
}

/// Opens an adapter: its config in place of a model's, its tensors in file order, which is that of the
/// reference (`safetensors.torch.load_file` 0.8), or that of the pickled dictionary. Names contain no adapter
/// name, as saved by PEFT; an adapter of mlx-lm gets PEFT's config, names and shapes.
///
/// # Errors
/// [`Error`]: the missing or invalid item, with the file's name.
pub fn open_adapter(folder: impl Into<Folder>) -> Result<Checkpoint, Error> {
    let folder = folder.into();
    open(&folder, None)
}

/// Opens an adapter like [`open_adapter`], to be merged into the model with the config `base`, and returns the model that this becomes
/// if files next to the adapter make it another one.
///
/// # Errors
/// Those of [`open_adapter`].
pub fn open_adapter_for(
    folder: &Folder,
    base: &Json,
) -> Result<(Checkpoint, Option<&'static Marked>), Error> {
    let mark = marked::of_adapter(folder, &folder.listing()?, base);
    Ok((open(folder, mark)?, mark))
}

fn open(folder: &Folder, mark: Option<&'static Marked>) -> Result<Checkpoint, Error> {
    let (dir, listing) = (folder.path(), folder.listing()?);
    let is_mlx = !listing.has(WEIGHTS) && !listing.has(PICKLE) && listing.has(mlx_adapter::WEIGHTS);
    let Weights { parts, mut tensors, notes: more } = if listing.has(WEIGHTS) {
        open_safetensors(dir, &listing, WEIGHTS)?
    } else if listing.has(PICKLE) {
        torch::open_file(dir, &listing, PICKLE)?
    } else if is_mlx {
        open_safetensors(dir, &listing, mlx_adapter::WEIGHTS)?
    } else {
        return Err(Error::MissingFile { file: WEIGHTS.to_owned() });
    };
    let mut config = read_object(dir, CONFIG)?;
    let mut notes = Vec::new();
    if is_mlx {
        config = mlx_adapter::config(&config, &tensors, &mut notes)?;
        tensors = mlx_adapter::tensors(tensors)?;
    }
    let empty = |tensor: &&Tensor| tensor.shape.contains(&0);
    let empty: Vec<String> = tensors.iter().filter(empty).map(|tensor| tensor.name.clone()).collect();
    if !empty.is_empty() {
        return Err(Error::EmptyTensors { names: empty, is_adapter: true });
    }
    strip_adapter_names(&mut tensors, &mut notes)?;
    let card = card_of(dir, &listing, &mut notes)?;
    if listing.has(WEIGHTS) && listing.has(PICKLE) {
        notes.push(format!("weights are read from `{WEIGHTS}`; ignored: `{PICKLE}`"));
    }
    notes.extend(more);
    let found = Found { parts: &parts, tensors: &tensors, named: &notes, mark };
    Ok(Checkpoint {
        warnings: unread_files::warnings(dir, &listing, &found),
        folder_name: folder.name(),
        format: if is_mlx { MLX_ADAPTER } else { "a LoRA adapter" },
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

/// Opens an adapter of a diffusion model: a safetensors file, a folder of PEFT ([`open_adapter`]), or a folder with one weights
/// file, which diffusers calls `pytorch_lora_weights.safetensors`. Names are those of the file, in the order of its tensors. The
/// config is `adapter_config.json` if there is one, otherwise `null`; `__metadata__` is in the part.
///
/// # Errors
/// [`Error`]: the missing or invalid item, with the file's name.
pub fn open_diffusion_adapter(folder: &Folder) -> Result<Checkpoint, Error> {
    let path = folder.path();
    let (dir, listing, file) = if path.is_file() {
        let (dir, name) = place_of(path);
        (dir, Listing::default(), name)
    } else {
        let listing = folder.listing()?;
        if listing.has(CONFIG) {
            return open_adapter(folder.clone());
        }
        let file = match &listing.matching("", ".safetensors")[..] {
            _ if listing.has(DIFFUSERS_WEIGHTS) => DIFFUSERS_WEIGHTS.to_owned(),
            [only] => only.clone(),
            _ => return Err(Error::MissingFile { file: DIFFUSERS_WEIGHTS.to_owned() }),
        };
        (path, listing, file)
    };
    let mut part = listing.open(dir, &file)?;
    let mut tensors = safetensors::parse_with_metadata(&mut part)?;
    let empty: Vec<String> =
        tensors.iter().filter(|tensor| tensor.shape.contains(&0)).map(|tensor| tensor.name.clone()).collect();
    if !empty.is_empty() {
        return Err(Error::EmptyTensors { names: empty, is_adapter: true });
    }
    if tensors.is_empty() {
        return Err(Error::NoTensors { file });
    }
    tensors.sort_by_key(|tensor| tensor.begin);
    Ok(Checkpoint {
        warnings: Vec::new(),
        folder_name: folder.name(),
        format: "a LoRA file",
        config: serde_json::Value::Null,
        generation_config: None,
        files: Vec::new(),
        card: Default::default(),
        notes: Vec::new(),
        parts: vec![part],
        tensors: tensors.into(),
        method: None,
        settled: false,
    })
}

/// Parts of PEFT's names that precede the adapter's name in a model's own state dict.
const NAMED: &[&str] = &[
    ".lora_A.",
    ".lora_B.",
    ".lora_embedding_A.",
    ".lora_embedding_B.",
    ".lora_magnitude_vector.",
    ".modules_to_save.",
    ".token_adapter.trainable_tokens_delta.",
];

/// Removes the adapter's name from tensor names, like `save_pretrained`.
fn strip_adapter_names(tensors: &mut [Tensor], notes: &mut Vec<String>) -> Result<(), Error> {
    let mut names = BTreeSet::new();
    for tensor in tensors.iter_mut() {
        for part in NAMED {
            let Some((module, rest)) = tensor.name.split_once(part) else { continue };
            let (name, end) = match rest.split_once('.') {
                Some((name, end)) => (name, format!("{part}{end}")),
                // `lora_embedding_A.default` is a parameter itself; `lora_A.weight` is without a name.
                None if !matches!(rest, "weight" | "bias") => (rest, part.trim_end_matches('.').to_owned()),
                None => continue,
            };
            // Names within a fully saved module (`modules_to_save.dense.weight`) are not adapters'.
            if *part == ".modules_to_save." && name != "default" {
                continue;
            }
            names.insert(name.to_owned());
            tensor.name = format!("{module}{end}");
            break;
        }
    }
    let names: Vec<String> = names.into_iter().collect();
    match &names[..] {
        [] => {}
        [name] => notes.push(format!(
            "tensors have the adapter name `{name}`, which `save_pretrained` of PEFT removes; it is ignored"
        )),
        _ => return Err(Error::SeveralAdapters { names }),
    }
    Ok(())
}

/// Tokenizer files and chat templates of an adapter's folder: names and contents, sorted by name.
///
/// # Errors
/// [`Error::Io`].
pub fn tokenizer_of(folder: &Folder) -> Result<Vec<(String, Vec<u8>)>, Error> {
    let files = read_small_files(folder.path(), &folder.listing()?)?;
    Ok(files.into_iter().filter(|(name, _)| is_tokenizer_file(name)).collect())
}

/// Names of the tokenizer files and chat templates in an adapter's folder that differ from those of the base
/// model, whose small files are `base`. JSON files are compared by value.
///
/// # Errors
/// [`Error::Io`].
pub fn own_tokenizer(folder: &Folder, base: &[(String, Vec<u8>)]) -> Result<Vec<String>, Error> {
    let parsed = |bytes: &[u8]| serde_json::from_slice::<serde_json::Value>(bytes).ok();
    let is_same = |name: &str, bytes: &[u8]| {
        base.iter().find(|(other, _)| other == name).is_some_and(|(_, other)| {
            other == bytes
                || name.ends_with(".json") && parsed(other).is_some_and(|other| Some(other) == parsed(bytes))
        })
    };
    let own = tokenizer_of(folder)?.into_iter().filter(|(name, bytes)| !is_same(name, bytes));
    Ok(own.map(|(name, _)| name).collect())
}

/// Tensors in file order.
fn open_safetensors(dir: &Path, listing: &Listing, file: &str) -> Result<Weights, Error> {
    let part = listing.open(dir, file)?;
    let mut tensors = safetensors::parse(&part)?;
    if tensors.is_empty() {
        return Err(Error::NoTensors { file: file.to_owned() });
    }
    tensors.sort_by_key(|tensor| tensor.begin);
    Ok(Weights { parts: vec![part], tensors, notes: Vec::new() })
}
