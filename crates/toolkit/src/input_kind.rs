//! Recognizes inputs of the wrong kind and names the command that reads them.

use std::{
    fs,
    io::Read,
    path::{Path, PathBuf},
};

use gguf_container::{BrokenDownload, Metadata, SPLIT_COUNT_KEY, TensorInfo, Value};
use gguf_tokenizer::keys::TOKENS;

use crate::{cause::Cause, error::Error};
use gguf_types::{Words, words};

/// Kind of input that a command reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// A checkpoint folder.
    Checkpoint,
    /// A GGUF file.
    Gguf,
    /// An importance matrix.
    Imatrix,
    /// A projector of pictures or sound.
    Projector,
    /// An adapter file.
    Adapter,
    /// An adapter folder.
    AdapterFolder,
    /// The checkpoint folder of a base model.
    Base,
}

/// Kind of input found.
enum Found {
    Nothing,
    /// A folder with a `config.json`.
    Checkpoint,
    /// A folder with an `adapter_config.json` and no `config.json`.
    AdapterFolder,
    /// A folder without one, with a GGUF file in it.
    FolderOfGguf(PathBuf),
    Gguf,
    Json,
    /// Plain text.
    Text,
    /// A file of weights of a checkpoint.
    Weights,
    Other,
}

/// True for the address of a file, rather than a path.
pub fn is_address(file: &str) -> bool {
    ["http://", "https://"].iter().any(|scheme| file.starts_with(scheme))
        || gguf_checkpoint::hub::Repo::is_address(file)
}

/// Advice for an input that could not be opened; none if its kind is right or not read by any command.
pub fn advice(path: &Path, wanted: Wanted) -> Option<Words> {
    let shown = path.display();
    if wanted == Wanted::Gguf
        && let Some(advice) = advice_on_other_file(path)
    {
        return Some(advice);
    }
    if matches!(wanted, Wanted::Adapter | Wanted::AdapterFolder)
        && let Some(folder) = adapter_below(path)
    {
        return Some(words!("the adapter is in {}; pass that folder", folder.display()));
    }
    Some(match (look(path), wanted) {
        (Found::Nothing, Wanted::Gguf) if is_like_a_hub_name(path) => {
            words!(
                "to convert a model of the Hugging Face Hub, run `[gguf-convert hf://{} -type bf16]`",
                shown
            )
        }
        (Found::AdapterFolder, _) => return advice_on_adapter(path, wanted),
        (Found::Gguf, Wanted::Checkpoint | Wanted::AdapterFolder) if is_adapter_file(path) => words!(
            "to merge the adapter file into a GGUF model, run `[gguf-quantize MODEL.gguf OUT.gguf TYPE -lora {}]`",
            shown
        ),
        (Found::Checkpoint, Wanted::Adapter | Wanted::AdapterFolder)
            if !path.join("adapter_config.json").is_file() =>
        {
            "the folder is a checkpoint; an adapter folder has an adapter_config.json".into()
        }
        (Found::Gguf, Wanted::Base) => {
            "pass the checkpoint folder of the base model; config.json is enough".into()
        }
        (Found::Gguf, Wanted::Checkpoint) => words!(
            "to quantize a GGUF file, run `[gguf-quantize {} TYPE]`; to export it to a checkpoint, run `[gguf-convert export {} FOLDER]`",
            shown,
            shown
        ),
        (Found::FolderOfGguf(file), Wanted::Checkpoint) => {
            words!(
                "the folder contains GGUF files; to quantize one, run `[gguf-quantize {} TYPE]`",
                file.display()
            )
        }
        (Found::FolderOfGguf(file), Wanted::Gguf) => {
            words!("pass a file instead of its folder, for example {}", file.display())
        }
        (Found::Checkpoint, Wanted::Gguf) => {
            words!(
                "the folder is a checkpoint; to convert it to GGUF, run `[gguf-convert {} -type bf16]`",
                shown
            )
        }
        (Found::Weights, Wanted::Gguf) => {
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
            let folder = folder.unwrap_or(Path::new("."));
            words!(
                "the file belongs to a checkpoint; to convert the checkpoint to GGUF, run `[gguf-convert {} -type bf16]`",
                folder.display()
            )
        }
        (Found::Json, Wanted::Imatrix) => {
            words!(
                "the file is JSON; to compute an importance matrix, run `[gguf-eval imatrix MODEL -text FILE -o imatrix.gguf]`"
            )
        }
        (Found::Text, Wanted::Imatrix) => {
            words!(
                "the file is a text; to compute an importance matrix from it, run `[gguf-eval imatrix MODEL -text {} -o imatrix.gguf]`",
                shown
            )
        }
        _ => return None,
    })
}

/// Advice for the folder of an adapter.
fn advice_on_adapter(folder: &Path, wanted: Wanted) -> Option<Words> {
    let (shown, base) = (folder.display(), base_of_adapter(folder));
    match wanted {
        Wanted::Adapter | Wanted::Gguf => {
            let out = folder.file_name().unwrap_or("adapter".as_ref()).display();
            let convert = words!(
                "to write an adapter file, run `[gguf-convert adapter {} {}.gguf -base {}]`",
                shown,
                out,
                base
            );
            let uses = words!(", then use [-lora {}.gguf]", out);
            Some(if wanted == Wanted::Adapter { convert + uses } else { convert })
        }
        Wanted::Checkpoint => Some(words!(
            "to merge the adapter, run `[gguf-convert {} OUT -type bf16 -lora {}]`; to convert it alone, run `[gguf-convert adapter {} -base {}]`",
            base,
            shown,
            shown,
            base
        )),
        _ => None,
    }
}

/// Base model that an adapter folder names, as an argument of commands: a local folder, an address of the Hub, or `BASE`.
pub fn base_of_adapter(folder: &Path) -> String {
    let config = fs::read(folder.join("adapter_config.json")).ok();
    let config = config.and_then(|bytes| serde_json::from_slice::<serde_json::Value>(&bytes).ok());
    let named = config.as_ref().and_then(|config| config.get("base_model_name_or_path")?.as_str());
    match named {
        Some(name) if is_like_a_hub_name(Path::new(name)) => format!("hf://{name}"),
        Some(name) if Path::new(name).join("config.json").is_file() => name.to_owned(),
        _ => "BASE".to_owned(),
    }
}

/// Advice for an address or a file of another program that was passed as a GGUF file.
fn advice_on_other_file(path: &Path) -> Option<Words> {
    if path.to_str().is_some_and(is_address) {
        return Some(words!("download the file first; `[gguf-inspect show]` reads the header of a URL"));
    }
    if path.is_file() && is_piece(path) {
        return Some(
            "the file is one piece of a larger file; join all pieces in order with `cat` first".into(),
        );
    }
    if let Some(found) = gguf_checkpoint::whisper_cpp_model(path) {
        return Some(words!(
            "the file is {}, which does not read GGUF; for another type, convert the original checkpoint",
            found
        ));
    }
    gguf_checkpoint::is_legacy(path).then(|| {
        words!(
            "to convert a file in a format older than GGUF, run `[gguf-convert legacy {} OUT]`",
            path.display()
        )
    })
}

/// Architectures that programs give to image and video models, in addition to those of the families.
const IMAGE_ARCHITECTURES: &[&str] = &["sd2", "hunyuan3d", "chroma", "z_image", "pig", "cow"];

/// Kind of a file of a diffusion model.
const IMAGE_MODEL: &str = "an image or video model";

/// Kind of a file with a text model and its vision tower.
const ONE_FILE: &str = "a model with its vision tower or audio encoder in the same file";

const ONE_FILE_ADVICE: &str = "Ollama stores models like this; llama.cpp needs two files: download its GGUF files of the \
    model, or convert the original checkpoint";

/// Prefixes of tensors of vision towers, audio encoders and projectors.
const OF_PROJECTORS: [&str; 3] = ["v.", "a.", "mm."];

/// Kind of a file that has both the layers of a text model and tensors of a projector, as Ollama stores models, with
/// advice.
pub fn one_file_model<'a>(names: impl Iterator<Item = &'a str>) -> Option<(&'static str, &'static str)> {
    let (mut has_layers, mut has_tower) = (false, false);
    for name in names {
        has_layers |= name.starts_with("blk.");
        has_tower |= OF_PROJECTORS.iter().any(|prefix| name.starts_with(prefix));
    }
    (has_layers && has_tower).then_some((ONE_FILE, ONE_FILE_ADVICE))
}

/// True for a file without tensors that has a vocabulary, unless it is a shard.
pub fn is_vocabulary(metadata: &Metadata, tensors: &[TensorInfo]) -> bool {
    tensors.is_empty() && metadata.get(TOKENS).is_some() && metadata.get(SPLIT_COUNT_KEY).is_none()
}

/// Kind of a file of shards that were joined byte by byte, of which readers would see the first one only.
const JOINED: &str = "several GGUF files joined into one, probably shards";

/// True if another GGUF file begins where the data of the first one end.
fn is_joined(file: &gguf_container::File) -> bool {
    let end = file.tensors().iter().map(|tensor| tensor.offset.saturating_add(tensor.n_bytes)).max();
    let end = file.data_offset().saturating_add(end.unwrap_or(0));
    let padded = end.checked_next_multiple_of(u64::from(file.alignment())).unwrap_or(end);
    [end, padded].into_iter().any(|at| {
        let rest = usize::try_from(at).ok().and_then(|at| file.bytes().get(at..));
        rest.is_some_and(|rest| rest.starts_with(b"GGUF"))
    })
}

/// Rejects joined files.
///
/// # Errors
/// The kind of the file, with a hint.
pub fn check_joined(path: &Path) -> Result<(), Error> {
    match gguf_container::File::open_foreign(path) {
        Ok(file) if is_joined(&file) => {
            Err(Error::at(path, format_args!("expected one GGUF file, found {JOINED}")).hint([JOINED_ADVICE]))
        }
        _ => Ok(()),
    }
}

const JOINED_ADVICE: &str =
    "get the separate shards; pass the first of them, or run `gguf-inspect merge` on it to make one file";

/// True for a file of a diffusion model.
pub fn is_image_model(metadata: &Metadata, tensors: &[TensorInfo]) -> bool {
    let shapes = tensors.iter().map(|tensor| (tensor.name.as_str(), tensor.shape));
    let file = gguf_models::FAMILIES.diffusion_file(metadata, shapes);
    let architecture = metadata.get("general.architecture").and_then(Value::as_str).unwrap_or_default();
    file.is_some_and(|file| file.row.is_some() || file.is_generic)
        || IMAGE_ARCHITECTURES.contains(&architecture)
}

/// Kind of a GGUF file that is not a language model, with advice.
fn other_than_model(path: &Path) -> Option<(&'static str, Words)> {
    let file = gguf_container::File::open_foreign(path).ok()?;
    let metadata = file.metadata();
    let text = |key: &str| metadata.get(key).and_then(Value::as_str).unwrap_or_default();
    let shown = path.display();
    let has = |key: &str| metadata.get(key).is_some();
    let names = file.tensors().iter().map(|tensor| tensor.name.as_str());
    Some(match (text("general.type"), text("general.architecture")) {
        _ if is_joined(&file) => (JOINED, JOINED_ADVICE.into()),
        ("imatrix", _) => imatrix_advice(&shown),
        _ if has("imatrix.datasets") || has("imatrix.chunk_count") => imatrix_advice(&shown),
        ("adapter", _) => adapter_advice(&shown),
        _ if has("adapter.type") => adapter_advice(&shown),
        (_, "controlvector") => (
            "a control vector",
            words!(
                "pass the model itself; control vectors are applied by llama.cpp with `[-control-vector]`"
            ),
        ),
        _ if is_vocabulary(metadata, file.tensors()) => (
            "a vocabulary without tensors",
            "pass the file of the whole model, or convert the checkpoint with its weights".into(),
        ),
        _ if one_file_model(names).is_some() => (ONE_FILE, ONE_FILE_ADVICE.into()),
        _ if is_image_model(metadata, file.tensors()) => (
            IMAGE_MODEL,
            "pass a language model; `gguf-quantize` and `gguf-inspect` read this file, ComfyUI-GGUF and \
                stable-diffusion.cpp run it"
                .into(),
        ),
        _ => return None,
    })
}

fn imatrix_advice(shown: &dyn std::fmt::Display) -> (&'static str, Words) {
    ("an importance matrix", words!("pass the model, and the matrix with `[-imatrix {}]`", shown))
}

fn adapter_advice(shown: &dyn std::fmt::Display) -> (&'static str, Words) {
    let advice = words!(
        "pass the model; `[gguf-eval]` applies the adapter and `[gguf-quantize]` merges it, with `[-lora {}]`",
        shown
    );
    (ADAPTER, advice)
}

/// Kind of an adapter file.
const ADAPTER: &str = "a LoRA adapter";

fn is_adapter_file(path: &Path) -> bool {
    other_than_model(path).is_some_and(|(found, _)| found == ADAPTER)
}

/// Rejects GGUF files that are not models.
///
/// # Errors
/// The kind of the file, with a hint.
pub fn check_model(path: &Path) -> Result<(), Error> {
    match other_than_model(path) {
        Some((found, advice)) if ![IMAGE_MODEL, ONE_FILE].contains(&found) => {
            Err(Error::at(path, format_args!("expected a model, found {found}")).hint([advice]))
        }
        _ => Ok(()),
    }
}

/// Rejects GGUF files that are not language models.
///
/// # Errors
/// The kind of the file, with a hint.
pub fn check_language_model(path: &Path) -> Result<(), Error> {
    match other_than_model(path) {
        Some((found @ (IMAGE_MODEL | ONE_FILE), advice)) => {
            Err(Error::at(path, format_args!("expected a language model, found {found}")).hint([advice]))
        }
        _ => check_model(path),
    }
}

/// Explains a failure by the kind of the input if it is the wrong one; otherwise adds a hint to the failure.
pub fn explained(path: &Path, wanted: Wanted, failure: Error) -> Error {
    let other = other_than_model(path);
    match (wanted, other) {
        (Wanted::Gguf, Some((found, advice))) => {
            Error::at(path, format_args!("expected a model, found {found}")).hint([advice])
        }
        (Wanted::Projector, Some((found, _))) => {
            Error::at(path, format_args!("expected a projector, found {found}"))
                .hint([words!("to write a projector, run `[gguf-convert mmproj FOLDER]`")])
        }
        (Wanted::Imatrix, Some((found, _))) if found != "an importance matrix" => {
            Error::at(path, format_args!("expected an importance matrix, found {found}"))
        }
        (Wanted::Imatrix, None) if gguf_container::File::open_foreign(path).is_ok() => {
            let advice = words!(
                "to compute its importance matrix, run `[gguf-eval imatrix {} -text FILE -o imatrix.gguf]`",
                path.display()
            );
            Error::at(path, "expected an importance matrix, found a model").hint([advice])
        }
        (Wanted::Imatrix, _) => match broken_download(path) {
            Some(kind) => {
                Error::at(path, format_args!("expected an importance matrix, found {}", kind.name()))
                    .hint([kind.hint()])
            }
            None => failure.hint(advice(path, wanted)),
        },
        (Wanted::Adapter, None) if matches!(look(path), Found::AdapterFolder) => {
            Error::at(path, "expected an adapter file, found an adapter folder").hint(advice(path, wanted))
        }
        // The error already states the kind of the file.
        (Wanted::Adapter, Some(_)) => failure,
        _ => failure.hint(advice(path, wanted)),
    }
}

/// The failure of a file that is not an importance matrix.
pub fn not_an_imatrix(path: &Path, error: impl Into<Cause>) -> Error {
    explained(path, Wanted::Imatrix, Error::at(path, error))
}

/// Remains of a broken download at `path`.
fn broken_download(path: &Path) -> Option<BrokenDownload> {
    let mut start = Vec::new();
    let read = fs::File::open(path).and_then(|file| file.take(2048).read_to_end(&mut start));
    read.ok().and_then(|_| BrokenDownload::of(&start))
}

/// True for the name of a piece of a file that was cut without regard to its contents (`x.gguf.part1of2`, `x.gguf-split-a`).
fn is_piece(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let Some((_, rest)) = name.split_once(".gguf") else { return false };
    [".part", "-part", "-split-", ".split-", "_part"].iter().any(|start| rest.starts_with(start))
        || rest.strip_prefix('.').is_some_and(|rest| {
            !rest.is_empty() && rest.len() <= 3 && rest.chars().all(|c| c.is_ascii_digit())
        })
}

/// The first folder with an adapter inside another folder: PEFT saves named adapters in subfolders.
fn adapter_below(path: &Path) -> Option<PathBuf> {
    let is_adapter = |folder: &PathBuf| folder.join("adapter_config.json").is_file();
    if !path.is_dir() || is_adapter(&path.to_owned()) {
        return None;
    }
    fs::read_dir(path).ok()?.flatten().map(|entry| entry.path()).filter(is_adapter).min()
}

/// True for a file that begins like a GGUF file. Pipes are not read.
pub fn is_gguf(path: &Path) -> bool {
    matches!(look(path), Found::Gguf)
}

fn look(path: &Path) -> Found {
    if path.join("config.json").is_file() {
        return Found::Checkpoint;
    }
    if path.join("adapter_config.json").is_file() {
        return Found::AdapterFolder;
    }
    if path.is_dir() {
        let names = fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
        // A model rather than a file next to it.
        let is_model = |path: &PathBuf| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            !["imatrix", "mmproj"].iter().any(|start| name.starts_with(start))
        };
        let files = names.filter(|path| path.extension().is_some_and(|extension| extension == "gguf"));
        let first = files.min_by_key(|path| (!is_model(path), path.clone()));
        return first.map_or(Found::Other, Found::FolderOfGguf);
    }
    // A pipe must not be read.
    if !path.is_file() {
        return if fs::symlink_metadata(path).is_err() { Found::Nothing } else { Found::Other };
    }
    let mut start = Vec::new();
    let read = fs::File::open(path).and_then(|file| file.take(64).read_to_end(&mut start));
    match read {
        Ok(_) if start.starts_with(b"GGUF") => Found::Gguf,
        Ok(_) if matches!(start.trim_ascii_start().first(), Some(b'{' | b'[')) => Found::Json,
        Ok(_) if is_weights(path, &start) => Found::Weights,
        Ok(_) if is_text(&start) => Found::Text,
        _ => Found::Other,
    }
}

/// Safetensors, by the length and the start of the header; torch pickles by name, because other archives look the same.
fn is_weights(path: &Path, start: &[u8]) -> bool {
    let is_safetensors = start.len() > 8 && start[5..8] == [0; 3] && start[8] == b'{';
    let is_archive = start.starts_with(b"PK") || start.first() == Some(&0x80);
    is_safetensors
        || (is_archive
            && path
                .extension()
                .is_some_and(|extension| extension == "bin" || extension == "pth" || extension == "pt"))
}

/// True for the beginning of a text. The older format of importance matrices begins with a small 4-byte number, which
/// contains zeros.
fn is_text(start: &[u8]) -> bool {
    !start.is_empty() && !start.iter().any(|byte| *byte < b' ' && !byte.is_ascii_whitespace())
}

/// True for `org/model` or `org/model@revision`: two plain names of which the first is not a local folder.
pub fn is_like_a_hub_name(path: &Path) -> bool {
    let is_name = |part: &str| {
        !part.is_empty()
            && !part.starts_with('.')
            && part.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
    };
    let Some(text) = path.to_str() else { return false };
    let id = text.split_once('@').map_or(text, |(id, _)| id);
    id.split_once('/').is_some_and(|(owner, name)| {
        is_name(owner) && is_name(name) && !name.ends_with(".gguf") && !Path::new(owner).exists()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hub_names_are_recognized() {
        for (name, is) in [
            ("no-such-owner/Llama-3.2-1B", true),
            ("no-such-owner/a@refs/pr/1", true),
            ("no-such-owner/a/b", false),
            ("x@no-such-owner/a", false),
            ("./x", false),
            ("/x/y", false),
            ("no-such-owner/x.gguf", false),
            ("x", false),
            ("src/x", false),
        ] {
            assert_eq!(is_like_a_hub_name(Path::new(name)), is, "{name}");
        }
    }
}
