//! A checkpoint folder, opened: headers and small files only.

use std::{ops::Range, path::Path};

use gguf_container::Advice;
use gguf_types::DType;
use serde_json::Value as Json;

use crate::{
    Dtype, Error, Folder, Format, Listing, Part, ReadError, Repacks, Tensor, Tensors, View, Weights, dense,
    formats::{self, Open},
    marked,
    methods::{self, Decoded, Outcome, ReadAs},
    read_columns, read_elements,
    rows::check_range,
    small_files::{add_tokenizer, card_of, first_module, modules_root, read_object, read_small_files},
    training,
    unread_files::{self, Found},
    wrappers,
};

const ADAPTER_FILES: &[&str] = &["adapter_model.safetensors", "adapter_model.bin", "adapters.safetensors"];

/// A checkpoint without its weights read.
#[derive(Debug)]
#[non_exhaustive]
pub struct Checkpoint {
    /// Name of the folder as given, or of the resolved folder if that is `.` or `..`.
    pub folder_name: String,
    /// Name of the weights' format in [`FORMATS`](crate::FORMATS).
    pub format: &'static str,
    /// `config.json`, an object.
    pub config: Json,
    /// `generation_config.json`, if there is one.
    pub generation_config: Option<Json>,
    /// Small files by name, sorted by name. Files of `additional_chat_templates` have the folder in their
    /// name, separated by `/`.
    pub files: Vec<(String, Vec<u8>)>,
    /// Front matter of the model card, an object, if any.
    pub card: Option<Json>,
    /// Weights that are not read, one file per line.
    pub warnings: Vec<String>,
    /// Peculiarities that do not prevent reading, one per line.
    pub notes: Vec<String>,
    /// Weights files, in the order of the reference.
    pub parts: Vec<Part>,
    /// Tensors, in the order of the reference: by file, then by name. Quantized weights are listed as the
    /// tensors that they decode to.
    pub tensors: Tensors,
    /// Name of the quantization method in [`METHODS`](crate::METHODS) whose weights are decoded here; `None`
    /// if weights are plain, or left to the architecture.
    pub method: Option<&'static str>,
    /// True if the quantization in [`Checkpoint::config`] needs no further handling: weights are decoded
    /// here, or were plain.
    pub settled: bool,
}

/// Opens a checkpoint folder.
///
/// # Errors
/// [`Error`]: the missing or invalid item, with the file's name.
pub fn open(folder: impl Into<Folder>) -> Result<Checkpoint, Error> {
    let folder = of_model(folder.into());
    let listing = folder.listing()?;
    let (format, open, note) = formats::detect(&listing, folder.wants_mistral())
        .map_err(|error| training::no_weights(folder.path(), error))?;
    let checkpoint = without_weights(&folder, &listing, Some((format, open)))?;
    let Weights { mut parts, mut tensors, notes: mut more } = open(folder.path(), &listing)?;
    wrappers::unwrap(&mut tensors, &parts, &mut more)?;
    more.extend(adapter_left_aside(&listing));
    let mark = marked::of(&folder, &listing, &checkpoint.config);
    if let Some(mark) = mark {
        tensors = mark.add_weights(&folder, &listing, &mut parts, tensors)?;
    }
    let named = [note.as_slice(), &more].concat();
    let found = Found { parts: &parts, tensors: &tensors, named: &named, mark };
    let warnings = unread_files::warnings(folder.path(), &listing, &found);
    let tensors = dense::with(modules_root(folder.path()), &mut parts, tensors)?;
    let read = ReadAs { unmasked_zeros: folder.wants_unmasked_zeros(), forms: folder.known_forms() };
    let outcome = methods::decode(&checkpoint.config, &checkpoint.files, &parts, tensors, read)?;
    let Outcome { method, settled, decoded: Decoded { tensors, notes } } = outcome;
    let notes = [checkpoint.notes, note.into_iter().collect(), more, notes].concat();
    let tensors = tensors.into();
    Ok(Checkpoint { format: format.name, parts, tensors, method, settled, warnings, notes, ..checkpoint })
}

/// Folder of the model in a sentence-transformers folder that has it in a subfolder (releases before 2.0).
fn of_model(folder: Folder) -> Folder {
    let has_config = folder.path().join("config.json").is_file();
    match first_module(folder.path()).filter(|_| !has_config) {
        Some(module) => folder.subfolder(&module),
        None => folder,
    }
}

/// True if a folder contains a complete model: a config and weights.
pub(crate) fn is_model(listing: &Listing) -> bool {
    listing.has("config.json") && formats::detect(listing, false).is_ok()
}

/// Note about files of an adapter next to those of a model.
fn adapter_left_aside(listing: &Listing) -> Option<String> {
    if !listing.has("adapter_config.json") {
        return None;
    }
    let weights = ADAPTER_FILES.iter().find(|file| listing.has(file))?;
    Some(format!(
        "the folder contains a model and an adapter; only the model is read, the adapter `{weights}` is ignored"
    ))
}

/// Opens a folder without looking for weights. The format is then empty.
pub fn open_without_weights(folder: impl Into<Folder>) -> Result<Checkpoint, Error> {
    let folder = of_model(folder.into());
    let listing = folder.listing()?;
    // The weights determine which config applies.
    let format =
        formats::detect(&listing, folder.wants_mistral()).ok().map(|(format, open, _)| (format, open));
    without_weights(&folder, &listing, format)
}

fn without_weights(
    folder: &Folder,
    listing: &Listing,
    format: Option<(&Format, Open)>,
) -> Result<Checkpoint, Error> {
    let dir = folder.path();
    let mut notes = Vec::new();
    let mut config = config_of(folder, listing, format, &mut notes)?;
    if let Some(mark) = marked::of(folder, listing, &config) {
        mark.add_config(folder, &mut config)?;
    }
    let generation_config = if listing.has("generation_config.json") {
        Some(read_object(dir, "generation_config.json")?)
    } else {
        None
    };
    let card = card_of(dir, listing, &mut notes)?;
    let mut files = read_small_files(dir, listing)?;
    let inner = marked::folders(folder, listing).map(|folders| dir.join(folders.tokenizer));
    add_tokenizer(dir, folder.config_folder().or(inner.as_deref()), &mut files, &mut notes)?;
    Ok(Checkpoint {
        warnings: Vec::new(),
        folder_name: folder.name(),
        format: "",
        config,
        generation_config,
        files,
        card,
        notes,
        parts: Vec::new(),
        tensors: Tensors::default(),
        method: None,
        settled: false,
    })
}

/// Reads `config.json`; for a layout without it `params.json`, with the class name that architectures know.
/// Without either, the config of a family whose checkpoints do not have one.
fn config_of(
    folder: &Folder,
    listing: &Listing,
    format: Option<(&Format, Open)>,
    notes: &mut Vec<String>,
) -> Result<Json, Error> {
    let dir = folder.path();
    if let Some(folders) = marked::folders(folder, listing) {
        return read_object(dir, &format!("{}/config.json", folders.config));
    }
    let class = format.and_then(|(format, _)| format.class);
    let file = if class.is_some() { "params.json" } else { "config.json" };
    if !listing.has(file) {
        if let Some(config) = folder.config_folder().map(config_from).transpose()?.flatten() {
            return Ok(config);
        }
        let derived = derived_config(folder, listing, format.map(|(_, open)| open));
        let config = derived.ok_or_else(|| Error::MissingFile { file: file.to_owned() })?;
        notes.push(format!("missing {file}; sizes are those of the tensors"));
        return Ok(config);
    }
    let mut config = read_object(dir, file)?;
    if let Some(class) = class {
        config["architectures"] = Json::from(vec![class(&config)]);
    }
    Ok(config)
}

/// `config.json` of another folder, if there is one.
pub(crate) fn config_from(dir: &Path) -> Result<Option<Json>, Error> {
    if dir.join("config.json").is_file() { read_object(dir, "config.json").map(Some) } else { Ok(None) }
}

/// Config that a family derives from the headers of the weights.
fn derived_config(folder: &Folder, listing: &Listing, open: Option<Open>) -> Option<Json> {
    let mut families = folder.known_forms().iter().filter_map(|form| form.config).peekable();
    families.peek()?;
    // Damaged weights are reported after the missing config.
    let weights = open?(folder.path(), listing).ok()?;
    let shapes: Vec<(&str, &[u64])> =
        weights.tensors.iter().map(|tensor| (tensor.name.as_str(), &tensor.shape[..])).collect();
    families.find_map(|config| config(&shapes))
}

impl Checkpoint {
    /// Refuses weights that ZeRO-3 left without elements. Integers that belong to codes may be empty.
    ///
    /// # Errors
    /// [`Error::EmptyTensors`].
    pub fn check_elements(&self) -> Result<(), Error> {
        let is_empty = |tensor: &&Tensor| {
            let is_float = matches!(tensor.dtype, Dtype::F64 | Dtype::F32 | Dtype::F16 | Dtype::BF16);
            is_float && tensor.stored.is_none() && tensor.shape.contains(&0)
        };
        let names: Vec<String> =
            self.tensors.iter().filter(is_empty).map(|tensor| tensor.name.clone()).collect();
        if names.is_empty() { Ok(()) } else { Err(Error::EmptyTensors { names, is_adapter: false }) }
    }

    /// Contents of a small file.
    pub fn file(&self, name: &str) -> Option<&[u8]> {
        self.files.iter().find(|(other, _)| other == name).map(|(_, bytes)| bytes.as_slice())
    }

    /// The tensor of this name.
    pub fn tensor(&self, name: &str) -> Option<&Tensor> {
        self.tensors.get(name)
    }

    /// File of a tensor, which must be one of [`Checkpoint::tensors`].
    pub fn part_of(&self, tensor: &Tensor) -> &Part {
        &self.parts[tensor.part]
    }

    /// True if weights are fetched while they are read, see [`Part::advise_bytes`].
    pub fn is_fetched(&self) -> bool {
        self.parts.iter().any(Part::is_fetched)
    }

    /// Reads rows `rows` of a tensor, viewed as rows of `row_elems` elements regardless of its dimensions,
    /// into `out`, which is (rows, row_elems) f32. `tensor` must be one of [`Checkpoint::tensors`].
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn read_rows(
        &self,
        tensor: &Tensor,
        row_elems: u64,
        rows: Range<u64>,
        out: &mut [f32],
    ) -> Result<(), ReadError> {
        let n_rows = tensor.n_rows() * tensor.row_elems() / row_elems.max(1);
        check_range(tensor, &rows, n_rows, row_elems, out)?;
        read_elements(&self.parts, tensor, rows.start * row_elems..rows.end * row_elems, out)
    }

    /// Reads columns `columns` of rows `rows` of a tensor, by its own row length, into `out`, which is
    /// (rows, columns) f32. `tensor` must be one of [`Checkpoint::tensors`].
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn read_columns(
        &self,
        tensor: &Tensor,
        rows: Range<u64>,
        columns: Range<u64>,
        out: &mut [f32],
    ) -> Result<(), ReadError> {
        read_columns(&self.parts, tensor, rows, columns, out)
    }

    /// Advises the system about the use of rows `rows` of a tensor viewed as rows of `row_elems` elements.
    pub fn advise_rows(&self, tensor: &Tensor, row_elems: u64, rows: Range<u64>, advice: Advice) {
        let Some(stored) = &tensor.stored else {
            let row_bytes = row_elems * tensor.dtype.bits() / 8;
            let bytes = rows.start * row_bytes..rows.end * row_bytes;
            return self.part_of(tensor).advise(tensor, bytes, advice);
        };
        // Rows of a panel share all pages of a matrix, which stay until the last row is read unless they are
        // many. Other threads may reload some, so the caller releases all at the end.
        let is_last = rows.end * row_elems >= tensor.n_rows() * tensor.row_elems();
        if stored.panel_rows() > 1 && !is_last && tensor.n_bytes() <= PANEL_BYTES {
            return;
        }
        for span in stored.spans(own_rows(tensor, row_elems, rows)) {
            if let Some(part) = self.parts.get(span.part) {
                part.advise_bytes(advice, span.bytes);
            }
        }
    }

    /// Advises the system about the use of all rows of a tensor.
    pub fn advise_whole(&self, tensor: &Tensor, advice: Advice) {
        self.advise_rows(tensor, tensor.row_elems(), 0..tensor.n_rows(), advice);
    }

    /// Bytes of all files that a tensor is made from.
    pub fn stored_bytes(&self, tensor: &Tensor) -> u64 {
        let Some(stored) = &tensor.stored else { return tensor.n_bytes() };
        stored.spans(0..tensor.n_rows()).iter().map(|span| span.bytes.end - span.bytes.start).sum()
    }

    /// Number of rows of `row_elems` elements of a tensor to read together; at least 1.
    pub fn panel_rows(&self, tensor: &Tensor, row_elems: u64) -> u64 {
        (tensor.panel_rows() * tensor.row_elems()).div_ceil(row_elems.max(1)).max(1)
    }

    /// ggml types that can store all values of a tensor exactly, if it is stored in codes; `None` for plain
    /// values.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn repacks_to(&self, tensor: &Tensor) -> Result<Option<Repacks>, ReadError> {
        tensor.stored.as_ref().map(|stored| stored.repacks_to(&self.parts)).transpose()
    }

    /// Appends rows `rows` of a tensor, by its own row length, as blocks of `dtype`, which must be one of
    /// [`Checkpoint::repacks_to`].
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn repack(
        &self,
        tensor: &Tensor,
        dtype: DType,
        rows: Range<u64>,
        out: &mut Vec<u8>,
    ) -> Result<(), ReadError> {
        match &tensor.stored {
            Some(stored) => stored.repack(&self.parts, dtype, rows, out),
            None => Ok(()),
        }
    }

    /// A tensor's bytes; `tensor` must be one of [`Checkpoint::tensors`], with plain values.
    pub fn view<'a>(&'a self, tensor: &'a Tensor) -> Result<View<'a>, ReadError> {
        let Tensor { name, dtype, shape, .. } = tensor;
        let bytes = self.part_of(tensor).bytes_of(tensor, 0..tensor.n_bytes())?;
        Ok(View { name, dtype: *dtype, shape, bytes })
    }
}

/// Maximum bytes of codes in columns whose pages stay in memory until their last panel is read.
const PANEL_BYTES: u64 = 64 << 20;

/// The tensor's own rows that contain rows of `row_elems` elements.
fn own_rows(tensor: &Tensor, row_elems: u64, rows: Range<u64>) -> Range<u64> {
    let own = tensor.row_elems().max(1);
    rows.start * row_elems / own..(rows.end * row_elems).div_ceil(own)
}
