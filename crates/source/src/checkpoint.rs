//! A checkpoint folder, opened: headers and small files only.

use std::{fs, io::Read, path::Path};

use gguf::{Advice, Mapped};
use serde_json::Value as Json;
use tensor::{Shape, ShapeError};

use crate::{Dtype, Error, Listing, card, formats, json};

/// Bytes that are read of a small file at most. The largest tokenizers have 35 MB.
pub const MAX_FILE_BYTES: u64 = 256 << 20;

/// Names of small files that tell about a model. Weights never match.
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
    "config_sentence_transformers.json",
    "adapter_config.json",
    "quantize_config.json",
    "hf_quant_config.json",
    "mergeable_ranks.bin",
    "tokenizer.vocab",
];
/// Endings of further small files.
const SMALL_FILE_ENDINGS: &[&str] = &[".tiktoken", ".bpe"];
/// Folder of named chat templates.
const TEMPLATES: &str = "additional_chat_templates";

/// A checkpoint without its weights read.
#[derive(Debug)]
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
    pub tensors: Vec<Tensor>,
}

/// A weights file.
#[derive(Debug, Clone)]
pub struct Part {
    /// Its name.
    pub file: String,
    /// Its bytes, mapped.
    pub bytes: Mapped,
}

/// Where a tensor lies. Offsets are checked against the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tensor {
    /// Its name.
    pub name: String,
    /// Its type.
    pub dtype: Dtype,
    /// Its dimensions as torch counts them, row length last; empty for a scalar.
    pub shape: Vec<u64>,
    /// Index into [`Checkpoint::parts`].
    pub part: usize,
    /// First byte in the file.
    pub begin: u64,
    /// End in the file.
    pub end: u64,
}

/// A tensor with its bytes.
#[derive(Debug, Clone, Copy)]
pub struct View<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its type.
    pub dtype: Dtype,
    /// Its dimensions as torch counts them, row length last.
    pub shape: &'a [u64],
    /// Its elements, little endian, row-major, at any alignment.
    pub bytes: &'a [u8],
}

impl View<'_> {
    /// Elements in a row; 1 for a scalar.
    pub fn row_elems(&self) -> u64 {
        self.shape.last().copied().unwrap_or(1)
    }

    /// Rows over all outer dimensions; 1 for a vector and a scalar.
    pub fn n_rows(&self) -> u64 {
        self.shape.split_last().map_or(1, |(_, outer)| outer.iter().product())
    }
}

impl Tensor {
    /// The shape as ggml counts it, row length first.
    ///
    /// # Errors
    /// [`ShapeError`]: checkpoints have tensors of more than four dimensions.
    pub fn shape(&self) -> Result<Shape, ShapeError> {
        Shape::from_row_major(&self.shape)
    }

    /// Bytes in the file.
    pub fn n_bytes(&self) -> u64 {
        self.end - self.begin
    }
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
    Ok(Checkpoint { format: format.name, parts, tensors, ..checkpoint })
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
        tensors: Vec::new(),
    })
}

/// The head of the model card, if there is one; a note where it cannot be read.
pub(crate) fn card_of(dir: &Path, listing: &Listing, notes: &mut Vec<String>) -> Result<Option<Json>, Error> {
    if !listing.has("README.md") {
        return Ok(None);
    }
    Ok(card::front_matter(&read_small_file(dir, "README.md")?).unwrap_or_else(|why| {
        notes.push(format!("`README.md`: the model card's head is left aside: {why}"));
        None
    }))
}

pub(crate) fn folder_name(dir: &Path) -> String {
    let name = |dir: &Path| dir.file_name().map(|name| name.to_string_lossy().into_owned());
    name(dir).or_else(|| name(&fs::canonicalize(dir).ok()?)).unwrap_or_default()
}

fn is_small_file(name: &str) -> bool {
    SMALL_FILES.contains(&name) || SMALL_FILE_ENDINGS.iter().any(|ending| name.ends_with(ending))
}

fn read_small_files(dir: &Path, listing: &Listing) -> Result<Vec<(String, Vec<u8>)>, Error> {
    let mut names: Vec<String> = listing.names().iter().filter(|name| is_small_file(name)).cloned().collect();
    let templates = dir.join(TEMPLATES);
    if templates.is_dir() {
        let inner = Listing::of(&templates)?.matching("", ".jinja");
        names.extend(inner.into_iter().map(|name| format!("{TEMPLATES}/{name}")));
    }
    names.extend(pooling_config(dir, listing)?);
    names.sort();
    names.into_iter().map(|name| Ok((name.clone(), read_small_file(dir, &name)?))).collect()
}

/// The config of the pooling module that sentence-transformers names, in a folder of its own.
fn pooling_config(dir: &Path, listing: &Listing) -> Result<Option<String>, Error> {
    const MODULES: &str = "modules.json";
    if !listing.has(MODULES) {
        return Ok(None);
    }
    let modules = json::parse(MODULES, &read_small_file(dir, MODULES)?)?;
    let text =
        |module: &Json, key: &str| module.get(key).and_then(Json::as_str).unwrap_or_default().to_owned();
    let pooling =
        modules.as_array().and_then(|all| all.iter().find(|it| text(it, "type").ends_with("Pooling")));
    // A path that could leave the folder is none.
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let path = pooling.map(|module| text(module, "path")).filter(|path| path.chars().all(is_plain));
    let name = path.map(|path| format!("{path}/config.json"));
    Ok(name.filter(|name| dir.join(name).is_file()))
}

/// Reads a whole file that is not expected to be large.
pub(crate) fn read_small_file(dir: &Path, name: &str) -> Result<Vec<u8>, Error> {
    let io = |error| Error::Io { file: name.to_owned(), error };
    let file = fs::File::open(dir.join(name)).map_err(io)?;
    let found = file.metadata().map_err(io)?.len();
    if found > MAX_FILE_BYTES {
        return Err(Error::FileTooLarge { file: name.to_owned(), found, limit: MAX_FILE_BYTES });
    }
    let mut bytes = Vec::new();
    // Even a file that grows meanwhile is not read past the limit.
    file.take(MAX_FILE_BYTES).read_to_end(&mut bytes).map_err(io)?;
    Ok(bytes)
}

pub(crate) fn read_object(dir: &Path, name: &str) -> Result<Json, Error> {
    let value = json::parse(name, &read_small_file(dir, name)?)?;
    if value.is_object() {
        return Ok(value);
    }
    let (expected, found) = ("an object".to_owned(), json::kind(&value).to_owned());
    Err(Error::JsonForm { file: name.to_owned(), expected, found })
}

impl Checkpoint {
    /// The bytes of a small file.
    pub fn file(&self, name: &str) -> Option<&[u8]> {
        self.files.iter().find(|(have, _)| have == name).map(|(_, bytes)| bytes.as_slice())
    }

    /// The tensor of this name.
    pub fn tensor(&self, name: &str) -> Option<&Tensor> {
        self.tensors.iter().find(|tensor| tensor.name == name)
    }

    /// A tensor's bytes; `tensor` must be one of [`Checkpoint::tensors`].
    pub fn view<'a>(&'a self, tensor: &'a Tensor) -> View<'a> {
        let Tensor { name, dtype, shape, part, begin, end } = tensor;
        // The range was checked against this map's length when it was opened.
        View { name, dtype: *dtype, shape, bytes: &self.parts[*part].bytes[*begin as usize..*end as usize] }
    }

    /// Tells the system how rows `first_row .. first_row + n_rows` of a tensor will be used;
    /// with [`Advice::DoneWith`] their pages stop counting as this process's memory.
    pub fn advise(&self, tensor: &Tensor, advice: Advice, first_row: u64, n_rows: u64) {
        let rows = self.view(tensor).n_rows().max(1);
        let row_bytes = tensor.n_bytes() / rows;
        let begin = tensor.begin + first_row.min(rows) * row_bytes;
        let end = tensor.begin + first_row.saturating_add(n_rows).min(rows) * row_bytes;
        self.parts[tensor.part].bytes.advise(advice, begin as usize..end as usize);
    }
}
