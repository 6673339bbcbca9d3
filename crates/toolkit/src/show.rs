//! The metadata and tensors of a GGUF file, and statistics of importance matrices.

mod page;
mod value;

use gguf_checkpoint::hub::without_secrets;
use gguf_container::{Array, Endian, File, ForeignTensor, TensorInfo, Value};
use gguf_imatrix::Sums;
use gguf_types::words;
use serde::{Deserialize, Serialize, Serializer, ser::SerializeMap};
use std::{
    borrow::Cow,
    collections::BTreeMap,
    fmt::Write,
    path::{Path, PathBuf},
};

use self::value::shown;
use crate::{
    container_file::open_foreign,
    error::Error,
    events::Events,
    file_type::file_type_name,
    hub::HubOptions,
    importance_table::Importance,
    input_kind::{check_joined, is_address, is_gguf},
    metadata_json::type_of,
    modelfile,
    outputs::{check_outputs, write_file},
    remote_headers::HollowFiles,
    summary::{self, Summary},
    table::{WIDTH, table},
    text::{human_bytes, printable},
    totals::{Total, totals},
};

const fn endian_name(endian: Endian) -> &'static str {
    match endian {
        Endian::Little => "little",
        Endian::Big => "big",
    }
}

fn file_len(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |file| file.len())
}

/// Options of a listing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ShowOptions {
    /// GGUF file, any shard of a split model, or an importance matrix in either format. It may be an address, of which only the
    /// header is downloaded: `http://`, `https://`, or `hf://OWNER/MODEL[@REVISION]/FILE`.
    pub file: PathBuf,
    /// List metadata and tensors.
    pub list: bool,
    /// Same as `list`, with complete arrays and strings, and each tensor of an importance matrix.
    pub full: bool,
    /// Page to write: summary, memory by context, types by layer, prompts, metadata and tensors. It is one file, which loads
    /// nothing from elsewhere.
    pub html: Option<PathBuf>,
    /// Original model. The page then states the error of each tensor.
    pub base: Option<PathBuf>,
    /// Modelfile for Ollama to write.
    pub modelfile: Option<PathBuf>,
    /// Overwrite existing outputs.
    pub force: bool,
}

/// Opens a file to show it, and writes its page if the options name one.
///
/// # Errors
/// As [`summary`](crate::summary()); a page that cannot be written, or that is requested of an importance matrix in the older
/// format; a base that cannot be compared.
///
/// # Examples
/// ```no_run
/// use gguf_toolkit::{
///     hub::HubOptions,
///     show::{ShowOptions, show},
/// };
///
/// # fn main() -> Result<(), gguf_toolkit::Error> {
/// let options = ShowOptions { file: "model.gguf".into(), ..ShowOptions::default() };
/// print!("{}", show(&options, &HubOptions::default(), &())?.text());
/// # Ok(())
/// # }
/// ```
pub fn show(options: &ShowOptions, hub_options: &HubOptions, events: &dyn Events) -> Result<Shown, Error> {
    let path = &options.file;
    let inputs: Vec<&PathBuf> = [path].into_iter().chain(&options.base).collect();
    let outputs: Vec<&PathBuf> = options.html.iter().chain(&options.modelfile).collect();
    check_outputs(&outputs, &inputs, options.force)?;
    let shown = opened(options, hub_options, events)?;
    if let Some(html) = &options.html {
        write_file(html, shown.html(events)?.as_bytes(), options.force)?;
        events.status(format!("wrote {}", html.display()));
    }
    if let Some(out) = &options.modelfile {
        write_file(out, shown.modelfile(out)?.as_bytes(), options.force)?;
        events.status(format!("wrote {}", out.display()));
    }
    Ok(shown)
}

fn opened(options: &ShowOptions, hub_options: &HubOptions, events: &dyn Events) -> Result<Shown, Error> {
    let path = &options.file;
    if let Some(address) = path.to_str().filter(|file| is_address(file)) {
        return remote(address, options, hub_options, events);
    }
    if path.is_file()
        && !is_gguf(path)
        && let Ok(sums) = Sums::open(path)
    {
        let (file_bytes, importance) = (file_len(path), Importance::of(&sums));
        let Sums { datasets, n_chunks, .. } = sums;
        return Ok(Shown(Contents::OlderMatrix(OlderMatrix {
            file: path.display().to_string(),
            file_bytes,
            datasets,
            chunks: n_chunks,
            importance,
            full: options.full,
        })));
    }
    let file = open_foreign(path)?;
    check_joined(path)?;
    let summary = summary::of_file(path, &file, events)?;
    let importance = match summary.kind.as_deref() {
        Some("imatrix") => Sums::open(path).map_err(|error| events.warning(error.to_string())).ok(),
        _ => None,
    };
    let importance = importance.as_ref().map(Importance::of);
    let (file, summary) = (Box::new(file), Box::new(summary));
    Ok(Shown(Contents::Gguf { file, summary, importance, options: options.clone(), hollow: None }))
}

/// The file at an address, without its data.
fn remote(
    address: &str,
    options: &ShowOptions,
    hub_options: &HubOptions,
    events: &dyn Events,
) -> Result<Shown, Error> {
    let hollow = HollowFiles::fetch(address, hub_options, events)?;
    let path = hollow.path();
    // The temporary path means nothing to the caller.
    let options = ShowOptions { file: without_secrets(address).into(), ..options.clone() };
    let file = File::open_foreign(&path).map_err(|error| Error::at(&options.file, error))?;
    let summary = summary::of_file(&path, &file, events)?;
    let (file, summary, options, hollow) = (Box::new(file), Box::new(summary), options, Some(hollow));
    Ok(Shown(Contents::Gguf { file, summary, importance: None, options, hollow }))
}

/// Summary, metadata and tensors of a GGUF file, and statistics of an importance matrix in either format.
#[derive(Debug)]
pub struct Shown(Contents);

#[derive(Debug)]
enum Contents {
    Gguf {
        file: Box<File>,
        summary: Box<Summary>,
        importance: Option<Importance>,
        options: ShowOptions,
        /// Files that are mapped.
        hollow: Option<HollowFiles>,
    },
    OlderMatrix(OlderMatrix),
}

/// An importance matrix in the older format (`.dat`).
#[derive(Debug, Serialize)]
struct OlderMatrix {
    file: String,
    file_bytes: u64,
    datasets: Vec<String>,
    chunks: i64,
    importance: Importance,
    /// Show each tensor.
    #[serde(skip)]
    full: bool,
}

impl Shown {
    /// The page.
    fn html(&self, events: &dyn Events) -> Result<String, Error> {
        match &self.0 {
            Contents::Gguf { options, hollow: Some(_), .. } if options.base.is_some() => {
                let message = words!("expected a downloaded file for [-base], found an address");
                Err(Error::usage(message))
            }
            Contents::Gguf { file, summary, options, hollow, .. } => {
                let hollow = hollow.as_ref().map(HollowFiles::path);
                let path = hollow.as_deref().unwrap_or(&options.file);
                let described = page::Described { path, name: &options.file, file, summary };
                page::html(&described, options.base.as_deref(), events)
            }
            Contents::OlderMatrix(matrix) => Err(Error::at(
                Path::new(&matrix.file),
                "expected a GGUF file for a page, found an importance matrix",
            )),
        }
    }

    /// The Modelfile at `out`.
    fn modelfile(&self, out: &Path) -> Result<String, Error> {
        match &self.0 {
            Contents::Gguf { options, summary, hollow: None, .. }
                if summary.kind.as_ref().is_none_or(|kind| kind == "model") =>
            {
                modelfile::of_files(out, std::slice::from_ref(&options.file))
            }
            Contents::Gguf { options: ShowOptions { file, .. }, .. } => {
                Err(Error::at(file, "expected a local file of a model for a Modelfile"))
            }
            Contents::OlderMatrix(matrix) => {
                Err(Error::at(Path::new(&matrix.file), "expected a model for a Modelfile"))
            }
        }
    }

    /// The summary and the tables that the options ask for.
    pub fn text(&self) -> String {
        match &self.0 {
            Contents::Gguf { file, summary, importance, options, hollow } => {
                let mut text = summary.text();
                if hollow.is_some() {
                    text += "only the header was read; to check the weights, download the file and run `gguf-inspect verify`\n";
                }
                if let Some(importance) = importance {
                    text = text + "\n" + &importance_text(importance, options.full);
                }
                if options.list || options.full {
                    text += &format!("\n{}\n{}", metadata_table(file, options.full), tensor_tables(file));
                }
                text
            }
            Contents::OlderMatrix(OlderMatrix { file_bytes, datasets, chunks, importance, full, .. }) => {
                let datasets: Vec<String> = datasets.iter().map(|name| printable(name)).collect();
                format!(
                    "model       importance matrix in the older format\nsize        {}\ntexts       {}\nchunks      {chunks}\n\n{}",
                    human_bytes(*file_bytes),
                    datasets.join(", "),
                    importance_text(importance, *full)
                )
            }
        }
    }
}

/// Statistics by kind of tensor, or of each tensor if `full`.
fn importance_text(importance: &Importance, full: bool) -> String {
    if full { importance.full_text() } else { importance.text() }
}

/// The metadata of a file; long values are cut unless `full`.
fn metadata_table(file: &File, full: bool) -> String {
    let metadata = file.metadata();
    let mut text = format!("Metadata: {} keys\n\n", metadata.len());
    let mut rows = vec![["key", "type", "value"].map(str::to_owned).to_vec()];
    rows.extend(metadata.iter().map(|(key, value)| vec![printable(key), type_of(value), String::new()]));
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let room = if full { usize::MAX } else { WIDTH.saturating_sub(width(0) + width(1) + 4).max(SHOWN_CHARS) };
    for (row, (key, value)) in rows[1..].iter_mut().zip(metadata) {
        row[2] = shown(value, room);
        if let Some(name) = file_type_name(key, value) {
            let _ = write!(row[2], " ({name})");
        }
    }
    text += &table(&rows, &[]);
    text
}

/// The tensors of a file by type and by name.
fn tensor_tables(file: &File) -> String {
    let (by_dtype, all) = totals(file.tensors(), file);
    let n_tensors = file.tensors().len() + file.foreign_tensors().len();
    let mut text = format!(
        "Tensors: {n_tensors}, data from byte {}, GGUF version {}, {} endian, alignment {}\n\n",
        file.data_offset(),
        file.version(),
        endian_name(file.endian()),
        file.alignment()
    );
    let mut rows =
        vec![["dtype", "tensors", "elements", "bytes", "", "bits/weight"].map(str::to_owned).to_vec()];
    for (name, total) in by_dtype.into_iter().chain([("all".to_owned(), all)]) {
        let mut row = total.row(&name);
        row.push(format!("{:.4}", total.bits_per_weight()));
        rows.push(row);
    }
    text += &table(&rows, &[1, 2, 3, 4, 5]);

    let mut rows = vec![["name", "shape", "dtype", "bytes"].map(str::to_owned).to_vec()];
    for tensor in file.tensors() {
        let (name, shape) = (printable(&tensor.name), tensor.shape.to_string());
        rows.push(vec![name, shape, tensor.dtype.name().into(), tensor.n_bytes.to_string()]);
    }
    for (tensor, n_bytes) in file.foreign_tensors().iter().zip(file.foreign_bytes()) {
        let (name, shape) = (printable(&tensor.name), tensor.shape.to_string());
        rows.push(vec![name, shape, tensor.type_name(), n_bytes.to_string()]);
    }
    text + "\n" + &table(&rows, &[3])
}

/// Smallest room for a value, in characters, however long keys are.
const SHOWN_CHARS: usize = 24;

/// Everything, with complete values.
impl Serialize for Shown {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Whole<'a> {
            file: String,
            summary: &'a Summary,
            version: u32,
            endian: &'static str,
            alignment: u32,
            file_bytes: u64,
            data_offset: u64,
            metadata: JsonMetadata<'a>,
            tensors: Vec<JsonTensor<'a>>,
            totals: BTreeMap<String, Total>,
            elements: u64,
            tensor_bytes: u64,
            bits_per_weight: f64,
            #[serde(skip_serializing_if = "Option::is_none")]
            importance: Option<&'a Importance>,
        }
        let (file, summary, importance, options) = match &self.0 {
            Contents::Gguf { file, summary, importance, options, .. } => {
                (file, summary, importance.as_ref(), options)
            }
            Contents::OlderMatrix(matrix) => return matrix.serialize(serializer),
        };
        let (by_dtype, all) = totals(file.tensors(), file);
        let whole = Whole {
            file: options.file.display().to_string(),
            summary,
            version: file.version(),
            endian: endian_name(file.endian()),
            alignment: file.alignment(),
            file_bytes: file.bytes().len() as u64,
            data_offset: file.data_offset(),
            metadata: JsonMetadata(file.metadata()),
            tensors: (file.tensors().iter().map(JsonTensor::new))
                .chain(file.foreign_tensors().iter().zip(file.foreign_bytes()).map(JsonTensor::foreign))
                .collect(),
            totals: by_dtype.into_iter().collect(),
            elements: all.elements,
            tensor_bytes: all.bytes,
            bits_per_weight: all.bits_per_weight(),
            importance,
        };
        whole.serialize(serializer)
    }
}

#[derive(Serialize)]
struct JsonTensor<'a> {
    name: &'a str,
    dtype: Cow<'static, str>,
    shape: Vec<u64>,
    offset: u64,
    bytes: u64,
}

impl<'a> JsonTensor<'a> {
    fn new(tensor: &'a TensorInfo) -> JsonTensor<'a> {
        JsonTensor {
            name: &tensor.name,
            dtype: tensor.dtype.name().into(),
            shape: tensor.shape.dims().to_vec(),
            offset: tensor.offset,
            bytes: tensor.n_bytes,
        }
    }

    fn foreign((tensor, bytes): (&'a ForeignTensor, u64)) -> JsonTensor<'a> {
        JsonTensor {
            name: &tensor.name,
            dtype: tensor.type_name().into(),
            shape: tensor.shape.dims().to_vec(),
            offset: tensor.offset,
            bytes,
        }
    }
}

/// Keys in the order of the file, each with its type, which JSON alone does not state.
struct JsonMetadata<'a>(&'a gguf_container::Metadata);

impl Serialize for JsonMetadata<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Entry<'a> {
            r#type: String,
            value: JsonValue<'a>,
        }
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (key, value) in self.0 {
            map.serialize_entry(key, &Entry { r#type: type_of(value), value: JsonValue(value) })?;
        }
        map.end()
    }
}

/// A value as JSON: 32-bit floats with the digits that 32 bits need, NaNs and infinities as null,
/// bytes that are not UTF-8 with replacement characters.
struct JsonValue<'a>(&'a Value);

impl Serialize for JsonValue<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::U8(v) => v.serialize(serializer),
            Value::I8(v) => v.serialize(serializer),
            Value::U16(v) => v.serialize(serializer),
            Value::I16(v) => v.serialize(serializer),
            Value::U32(v) => v.serialize(serializer),
            Value::I32(v) => v.serialize(serializer),
            Value::F32(v) => v.serialize(serializer),
            Value::Bool(v) => v.serialize(serializer),
            Value::String(v) => String::from_utf8_lossy(v).serialize(serializer),
            Value::Array(v) => JsonArray(v).serialize(serializer),
            Value::U64(v) => v.serialize(serializer),
            Value::I64(v) => v.serialize(serializer),
            Value::F64(v) => v.serialize(serializer),
            other => other.to_string().serialize(serializer),
        }
    }
}

struct JsonArray<'a>(&'a Array);

impl Serialize for JsonArray<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Array::U8(v) => serializer.collect_seq(v),
            Array::I8(v) => serializer.collect_seq(v),
            Array::U16(v) => serializer.collect_seq(v),
            Array::I16(v) => serializer.collect_seq(v),
            Array::U32(v) => serializer.collect_seq(v),
            Array::I32(v) => serializer.collect_seq(v),
            Array::F32(v) => serializer.collect_seq(v),
            Array::Bool(v) => serializer.collect_seq(v),
            Array::String(v) => serializer.collect_seq(v.iter().map(|text| String::from_utf8_lossy(text))),
            Array::Array(v) => serializer.collect_seq(v.iter().map(JsonArray)),
            Array::U64(v) => serializer.collect_seq(v),
            Array::I64(v) => serializer.collect_seq(v),
            Array::F64(v) => serializer.collect_seq(v),
            other => serializer.serialize_u64(other.len() as u64),
        }
    }
}
