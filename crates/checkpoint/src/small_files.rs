//! The small files of a checkpoint folder, read up to a limit.

use std::{
    collections::BTreeSet,
    fs,
    io::Read,
    path::{Path, PathBuf},
};

use gguf_container::BrokenDownload;
use serde_json::Value as Json;

use crate::{Error, Listing, card, json, links};

/// Maximum bytes of a small file. The largest tokenizers have 35 MB.
pub const MAX_FILE_BYTES: u64 = 256 << 20;

/// Names of small files that describe a model. Weights never match.
const SMALL_FILES: &[&str] = &[
    "tokenizer.json",
    "tokenizer.model",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "chat_template.jinja",
    "chat_template.json",
    "vocab.json",
    "merges.txt",
    "vocab.txt",
    "tekken.json",
    "params.json",
    "tokenizer.model.v1",
    "tokenizer.model.v2",
    "tokenizer.model.v3",
    "tokenizer.model.v7",
    "tokenizer.model.v7m1",
    "tokenizer.mm.model.v7m1",
    "tiktoken.model",
    "rwkv_vocab_v20230424.txt",
    "tokenizer.jsonl",
    "spiece.model",
    "sentencepiece.bpe.model",
    "ice_text.model",
    "preprocessor_config.json",
    "processor_config.json",
    "video_preprocessor_config.json",
    "modules.json",
    "sentence_bert_config.json",
    "embedding_config.json",
    "config_sentence_transformers.json",
    "adapter_config.json",
    "quantize_config.json",
    "quant_config.json",
    "hf_quant_config.json",
    "mergeable_ranks.bin",
    "README.md",
    "tokenizer.vocab",
];
const SMALL_FILE_ENDINGS: &[&str] = &[".tiktoken", ".bpe"];
pub(crate) const TEMPLATES: &str = "additional_chat_templates";

/// Front matter of the model card, if any; adds a note if it cannot be read.
pub(crate) fn card_of(dir: &Path, listing: &Listing, notes: &mut Vec<String>) -> Result<Option<Json>, Error> {
    if !listing.has("README.md") {
        return Ok(None);
    }
    Ok(card::read(&read_small_file(dir, "README.md")?, notes))
}

/// Folders of audio tokenizers, with weights and a config: MiMo V2.5, Qwen 3 TTS.
pub(crate) const SOUND_FOLDERS: [&str; 2] = ["audio_tokenizer", "speech_tokenizer"];

pub(crate) fn is_small_file(name: &str) -> bool {
    SMALL_FILES.contains(&name) || SMALL_FILE_ENDINGS.iter().any(|ending| name.ends_with(ending))
}

pub(crate) fn read_small_files(dir: &Path, listing: &Listing) -> Result<Vec<(String, Vec<u8>)>, Error> {
    let mut names: Vec<String> = listing.names().iter().filter(|name| is_small_file(name)).cloned().collect();
    let templates = dir.join(TEMPLATES);
    if templates.is_dir() {
        let inner = Listing::of(&templates)?.matching("", ".jinja");
        names.extend(inner.into_iter().map(|name| format!("{TEMPLATES}/{name}")));
    }
    names.extend(module_configs(dir, listing)?);
    let of_sound = SOUND_FOLDERS.map(|folder| format!("{folder}/config.json"));
    names.extend(of_sound.into_iter().filter(|name| dir.join(name).is_file()));
    names.sort();
    let read = |dir: &Path, name: String| Ok((name.clone(), read_small_file(dir, &name)?));
    let mut files = names.into_iter().map(|name| read(dir, name)).collect::<Result<Vec<_>, Error>>()?;
    let root = modules_root(dir);
    if root != dir {
        let listing = Listing::of(root)?;
        let shared = [MODULES, "sentence_bert_config.json"].map(str::to_owned);
        let shared = shared.into_iter().filter(|name| listing.has(name));
        for name in shared.chain(module_configs(root, &listing)?) {
            if !files.iter().any(|(known, _)| *known == name) {
                files.push(read(root, name)?);
            }
        }
        files.sort();
    }
    Ok(files)
}

/// File that lists the modules of a sentence-transformers model.
const MODULES: &str = "modules.json";

/// Folder with the modules of sentence-transformers: the parent folder if its `modules.json` names `dir` as
/// the model, like in releases before 2.0 (`0_BERT`).
pub(crate) fn modules_root(dir: &Path) -> &Path {
    let parent =
        dir.parent().map(|parent| if parent.as_os_str().is_empty() { Path::new(".") } else { parent });
    let name = dir.file_name().and_then(|name| name.to_str());
    parent.filter(|parent| name.is_some() && first_module(parent).as_deref() == name).unwrap_or(dir)
}

/// Subfolder of the model according to `modules.json`, if there is one.
pub(crate) fn first_module(dir: &Path) -> Option<String> {
    let modules = json::parse(MODULES, &read_small_file(dir, MODULES).ok()?).ok()?;
    let path = modules.get(0)?.get("path")?.as_str()?;
    is_plain(path).then(|| path.to_owned())
}

/// True for the name of a subfolder.
fn is_plain(path: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    !path.is_empty() && path.chars().all(is_plain)
}

/// Prefixes of files of tokenizers and chat templates.
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

/// True for files of a tokenizer or a chat template.
pub fn is_tokenizer_file(name: &str) -> bool {
    TOKENIZERS.iter().any(|start| name.starts_with(start))
}

/// Tokenizer files and chat templates of a folder: names and contents, sorted by name.
pub(crate) fn tokenizer_of_folder(dir: &Path) -> Result<Vec<(String, Vec<u8>)>, Error> {
    let files = read_small_files(dir, &Listing::of(dir)?)?;
    Ok(files.into_iter().filter(|(name, _)| is_tokenizer_file(name)).collect())
}

/// Adds tokenizer files from another folder: those of `config` replace the folder's files. Without it, a text
/// encoder of a diffusers pipeline that has no tokenizer files gets those of the folder next to it.
pub(crate) fn add_tokenizer(
    dir: &Path,
    config: Option<&Path>,
    files: &mut Vec<(String, Vec<u8>)>,
    notes: &mut Vec<String>,
) -> Result<(), Error> {
    if let Some(config) = config {
        let tokenizer = tokenizer_of_folder(config)?;
        if !tokenizer.is_empty() {
            files.retain(|(name, _)| !is_tokenizer_file(name));
            files.extend(tokenizer);
        } else {
            notes.push(format!(
                "no tokenizer files in {}; those of the checkpoint are used",
                config.display()
            ));
        }
    } else if !files.iter().any(|(name, _)| is_tokenizer_file(name)) {
        for kind in ["tokenizer", "processor"] {
            let Some(folder) = sibling(dir, kind) else { continue };
            let has_tokenizer = files.iter().any(|(name, _)| is_tokenizer_file(name));
            let wanted = |name: &str| {
                if is_tokenizer_file(name) { !has_tokenizer } else { name.ends_with("processor_config.json") }
            };
            let found = read_small_files(&folder, &Listing::of(&folder)?)?;
            let found: Vec<_> = found.into_iter().filter(|(name, _)| wanted(name)).collect();
            if !found.is_empty() {
                let name = folder.file_name().unwrap_or_default().to_string_lossy();
                notes.push(format!("{} of the pipeline are read from `../{name}`", found_in(kind)));
            }
            files.extend(found);
        }
    }
    files.sort();
    Ok(())
}

/// Description of files in a folder of a pipeline.
fn found_in(kind: &str) -> &'static str {
    if kind == "tokenizer" { "the tokenizer files" } else { "the processor files" }
}

/// Folder next to a text encoder of a diffusers pipeline: `tokenizer_2` for `text_encoder_2`.
fn sibling(dir: &Path, kind: &str) -> Option<PathBuf> {
    let real = fs::canonicalize(dir).ok()?;
    let number = real.file_name()?.to_str()?.strip_prefix("text_encoder")?;
    let folder = real.parent()?.join(format!("{kind}{number}"));
    folder.is_dir().then_some(folder)
}

/// Configs of the modules that sentence-transformers applies after the model (pooling, Dense), each in its
/// own folder.
fn module_configs(dir: &Path, listing: &Listing) -> Result<Vec<String>, Error> {
    if !listing.has(MODULES) {
        return Ok(Vec::new());
    }
    let modules = json::parse(MODULES, &read_small_file(dir, MODULES)?)?;
    let text =
        |module: &Json, key: &str| module.get(key).and_then(Json::as_str).unwrap_or_default().to_owned();
    let all = modules.as_array().map(Vec::as_slice).unwrap_or_default();
    let is_read =
        |module: &&Json| ["Pooling", "Dense"].iter().any(|kind| text(module, "type").ends_with(kind));
    let paths = all.iter().filter(is_read).map(|module| text(module, "path")).filter(|path| is_plain(path));
    let names: BTreeSet<String> = paths.map(|path| format!("{path}/config.json")).collect();
    Ok(names.into_iter().filter(|name| dir.join(name).is_file()).collect())
}

/// Reads a file that is not expected to be large.
pub(crate) fn read_small_file(dir: &Path, name: &str) -> Result<Vec<u8>, Error> {
    links::check(dir, name)?;
    let io = |error| Error::Io { file: name.to_owned(), error };
    let file = fs::File::open(dir.join(name)).map_err(io)?;
    let found = file.metadata().map_err(io)?.len();
    if found > MAX_FILE_BYTES {
        return Err(Error::FileTooLarge { file: name.to_owned(), found, limit: MAX_FILE_BYTES });
    }
    let mut bytes = Vec::new();
    // The file may grow meanwhile, so limit the read too.
    file.take(MAX_FILE_BYTES).read_to_end(&mut bytes).map_err(io)?;
    if let Some(kind) = BrokenDownload::of(&bytes) {
        return Err(Error::BrokenDownload { file: name.to_owned(), kind });
    }
    Ok(bytes)
}

pub(crate) fn read_object(dir: &Path, name: &str) -> Result<Json, Error> {
    json::parse_object(name, &read_small_file(dir, name)?)
}
