//! Export: from a GGUF file's metadata and tensor names to a Hugging Face folder.
//!
//! Names come from the same table ([`crate::ARCHES`]) that conversion uses, read from right to left;
//! the row maps of conversion are inverted. What the file
//! says and a checkpoint cannot say is an error where it changes the model, else a note.
//!
//! Nothing here reads a weight, with two exceptions: the divisors of `rope_freqs.weight`, from
//! which the parameters of Llama 3's rotary scaling are found again, and the factors of `longrope`.

mod bpe;
mod card;
mod config;
mod error;
mod inverse;
mod names;
mod sources;
mod spm;
mod tokenizer;
mod unigram;
mod wordpiece;
mod world;

use std::collections::{BTreeSet, HashMap};

use gguf::{Metadata, Value};
use serde_json::Value as Json;
use tensor::Shape;

use crate::arch::{Arch, Export};
use crate::layout::{ElementMap, Matrix, RowMap};
use crate::registry::ARCHES;
use crate::tensors::rules::{self, Need, RowRule};
pub use error::ExportError;

/// The names of the architectures whose files can be exported. Those of the others are refused with the reason
/// that their rows in [`ARCHES`] state.
pub fn exportable() -> Vec<&'static str> {
    ARCHES.iter().filter(|arch| arch.export.obstacle().is_none()).map(|arch| arch.name).collect()
}

/// What is known of a GGUF file without reading its weights.
#[derive(Debug, Clone)]
pub struct GgufInput<'a> {
    /// Its metadata.
    pub metadata: &'a Metadata,
    /// Its tensors: name and shape, in its order.
    pub tensors: Vec<(String, Shape)>,
    /// The values of `rope_freqs.weight`, where the file has it.
    pub rope_freqs: Option<Vec<f32>>,
    /// The values of `rope_factors_long.weight` and `rope_factors_short.weight`, where the file has them.
    pub rope_factors: Option<[Vec<f32>; 2]>,
    /// The type of the weights to write, as torch spells it: `float32`, `float16`, `bfloat16`.
    pub dtype: &'static str,
}

/// A checkpoint folder, all but its weights.
#[derive(Debug, Clone)]
pub struct ExportLayout {
    /// Files of the folder by name, in the order in which they are best written.
    pub files: Vec<(String, Vec<u8>)>,
    /// Its tensors, in the order of the GGUF file, those of experts by number.
    pub tensors: Vec<ExportTensor>,
    /// Things a person should know, each one line.
    pub notes: Vec<String>,
}

/// Where a checkpoint tensor comes from.
#[derive(Debug, Clone, PartialEq)]
pub struct ExportTensor {
    /// Its name in the checkpoint.
    pub name: String,
    /// Its shape, row length first.
    pub shape: Shape,
    /// Where its rows are; together these have all of them.
    pub parts: Vec<ExportPart>,
}

/// Rows of a checkpoint tensor that lie in one GGUF tensor.
#[derive(Debug, Clone, PartialEq)]
pub struct ExportPart {
    /// The GGUF tensor.
    pub source: String,
    /// The first row of the GGUF tensor that belongs here (experts share one).
    pub first_row: u64,
    /// Rows of the GGUF tensor that belong here.
    pub n_rows: u64,
    /// Elements of such a row.
    pub row_elems: u64,
    /// The map from the checkpoint to the file; [`RowMap::output_row`] is its inverse. Where
    /// the rows of a vector move, they are its elements.
    pub rows: RowMap,
    /// What happened to each element; [`ElementMap::undo`] is the inverse.
    pub element: ElementMap,
    /// The rows of the checkpoint tensor that were transposed, where its columns are the rows here.
    pub matrix: Option<Matrix>,
}

/// Finds the checkpoint that a file is exported to.
///
/// # Errors
/// [`ExportError`]: what the file lacks, or what a checkpoint cannot express.
pub fn resolve(input: &GgufInput<'_>) -> Result<ExportLayout, ExportError> {
    let keys = Keys { metadata: input.metadata };
    let name = keys.text("general.architecture")?.unwrap_or_default();
    // Several architectures may be written under one name; the one is meant whose conversion gives the file.
    // Variants are tried first: they have less than what they are written as.
    let mut written: Vec<&'static Arch> = ARCHES.iter().filter(|arch| arch.written() == name).collect();
    written.sort_by_key(|arch| arch.written.is_none());
    if written.is_empty() {
        return Err(ExportError::Architecture { found: name, known: exportable() });
    }
    let mut notes = Vec::new();
    let mut first = None;
    let mut found = None;
    let kind = keys.text("tokenizer.ggml.model")?.unwrap_or_default();
    for arch in written.into_iter().filter(|arch| tokenizer::fits(arch.vocab, &kind)) {
        let tried = match arch.export {
            Export::NotExportable(reason) => {
                Err(ExportError::NotExportable { found: arch.name.to_owned(), reason })
            }
            Export::Lenient => config::Model::read(&keys, arch, input, &mut notes)
                .and_then(|model| Ok((tensors(input, arch, &model)?, model)))
                .map(|(tensors, model)| (model, tensors)),
            Export::Verified => inverse::read(&keys, arch, input),
        };
        match tried {
            Ok(checkpoint) => {
                found = Some((checkpoint, arch));
                break;
            }
            Err(error) => first = first.or(Some(error)),
        }
    }
    let Some(((model, tensors), arch)) = found else {
        return Err(first.unwrap_or(ExportError::Architecture { found: name, known: exportable() }));
    };
    let tokenizer = tokenizer::files(&keys, &model, arch.vocab, &mut notes)?;
    let mut files = vec![
        ("config.json".to_owned(), pretty(&model.config)),
        ("generation_config.json".to_owned(), pretty(&config::generation(&keys)?)),
        ("README.md".to_owned(), card::card(&keys)?.into_bytes()),
    ];
    files.extend(model.files);
    files.extend(tokenizer);
    Ok(ExportLayout { files, tensors, notes })
}

/// Names every tensor by the table, and checks that none is missing.
fn tensors(
    input: &GgufInput<'_>,
    arch: &Arch,
    model: &config::Model,
) -> Result<Vec<ExportTensor>, ExportError> {
    let mut tensors = Vec::with_capacity(input.tensors.len());
    let mut unused = Vec::new();
    let mut found: HashMap<&str, BTreeSet<u64>> = HashMap::new();
    for (name, shape) in &input.tensors {
        if model.uses(name) {
            continue;
        }
        let place = [".weight", ".bias"].into_iter().find_map(|suffix| {
            let base = name.strip_suffix(suffix)?;
            let rules = arch.tensors.iter().flat_map(|part| part.iter());
            let (rule, bid) =
                rules.into_iter().find_map(|rule| Some((rule, rules::parse(rule.gguf, base)?.0)))?;
            Some((rule, bid, suffix))
        });
        let Some((rule, bid, suffix)) = place.filter(|(_, bid, _)| *bid < model.n_layers) else {
            unused.push(name.clone());
            continue;
        };
        found.entry(rule.gguf).or_default().insert(if suffix == ".weight" { bid } else { u64::MAX });
        let n_head = match rule.rows {
            RowRule::PermuteQ => Some(model.n_head),
            RowRule::PermuteK => Some(model.n_head_kv),
            _ => None,
        };
        if let Some(n_head) = n_head {
            let n_rows = if shape.n_dims() <= 1 { shape.n_elems() } else { shape.n_rows() };
            if n_head.checked_mul(model.head_dim) != Some(n_rows) {
                let expected = format!("{n_head} heads of {} rows", model.head_dim);
                return Err(ExportError::TensorShape { name: name.clone(), found: *shape, expected });
            }
        }
        let hf = rule.hf.first().copied().unwrap_or_default();
        let one = |xid, shape: Shape, first_row| {
            let rows = n_head.map_or(RowMap::Concat, |n_head| RowMap::RopePermute { n_head });
            let is_vector = shape.n_dims() <= 1 && n_head.is_some();
            let n_rows = if is_vector { shape.n_elems() } else { shape.n_rows() };
            let row_elems = if is_vector { 1 } else { shape.row_elems() };
            let (source, element) = (name.clone(), ElementMap::Identity);
            let part = ExportPart { source, first_row, n_rows, row_elems, rows, element, matrix: None };
            ExportTensor { name: rules::fill(hf, bid, xid) + suffix, shape, parts: vec![part] }
        };
        if !matches!(rule.rows, RowRule::StackExperts) {
            tensors.push(one(0, *shape, 0));
            continue;
        }
        let (rows, n_experts) = (shape.dim(1), shape.dim(2));
        let matrix = Shape::new(&[shape.dim(0), rows]);
        let (Ok(matrix), true) = (matrix, n_experts == model.n_experts && shape.n_dims_effective() <= 3)
        else {
            let expected = format!("the matrices of {} experts", model.n_experts);
            return Err(ExportError::TensorShape { name: name.clone(), found: *shape, expected });
        };
        tensors.extend((0..n_experts).map(|xid| one(xid, matrix, xid * rows)));
    }
    if !unused.is_empty() {
        return Err(ExportError::UnusedTensors { names: unused });
    }
    let mut missing = Vec::new();
    for rule in arch.tensors.iter().flat_map(|part| part.iter()) {
        let needed = match rule.need {
            Need::Always => true,
            Need::Dense => model.n_experts == 0,
            Need::Experts => model.n_experts > 0,
            // Of the architectures that are read so, none has rows for some of its layers only.
            Need::If(_) | Need::Optional => false,
        };
        let layers = if rule.gguf.contains("{bid}") { model.n_layers } else { 1 };
        // No more layers are looked at than it takes to show that something is missing.
        let absent = (0..layers.min(input.tensors.len() as u64 + 1))
            .filter(|bid| needed && found.get(rule.gguf).is_none_or(|bids| !bids.contains(bid)));
        missing.extend(absent.map(|bid| rules::fill(rule.gguf, bid, 0) + ".weight"));
    }
    if missing.is_empty() { Ok(tensors) } else { Err(ExportError::MissingTensors { names: missing }) }
}

/// JSON as transformers writes it: two spaces, one line feed at the end.
fn pretty(value: &Json) -> Vec<u8> {
    let mut text = format!("{value:#}").into_bytes();
    text.push(b'\n');
    text
}

/// Metadata, asked for with types.
pub(crate) struct Keys<'a> {
    metadata: &'a Metadata,
}

impl ExportPart {
    /// Whether a row of the checkpoint tensor (a column, where it was transposed; an element, where single
    /// elements or those of a vector move) is one of these.
    pub fn takes(&self, row: u64) -> bool {
        sources::takes(&self.rows, row)
    }
}

impl<'a> Keys<'a> {
    fn get(&self, key: &str) -> Option<&'a Value> {
        self.metadata.get(key)
    }

    /// A string, if the key is there.
    fn text(&self, key: &str) -> Result<Option<String>, ExportError> {
        self.typed(key, "text", |value| value.as_str().map(str::to_owned))
    }

    /// A count, if the key is there.
    fn count(&self, key: &str) -> Result<Option<u64>, ExportError> {
        self.typed(key, "a count", Value::as_u64)
    }

    /// A count that must be there.
    fn need_count(&self, key: &str) -> Result<u64, ExportError> {
        self.count(key)?.ok_or_else(|| ExportError::MissingKey { key: key.to_owned() })
    }

    /// A number, if the key is there: for single precision the shortest decimal, as a config
    /// would have it (`1e-05`, not `9.999999747378752e-06`).
    fn number(&self, key: &str) -> Result<Option<f64>, ExportError> {
        self.typed(key, "a number", |value| match value {
            Value::F32(value) => value.to_string().parse().ok(),
            Value::F64(value) => Some(*value),
            other => other.as_u64().map(|count| count as f64),
        })
    }

    fn flag(&self, key: &str) -> Result<Option<bool>, ExportError> {
        self.typed(key, "true or false", |value| match value {
            Value::Bool(flag) => Some(*flag),
            _ => None,
        })
    }

    /// A list of strings, if the key is there.
    fn texts(&self, key: &str) -> Result<Option<Vec<String>>, ExportError> {
        self.typed(key, "a list of texts", |value| match value.as_array()? {
            gguf::Array::String(items) => {
                items.iter().map(|item| String::from_utf8(item.to_vec()).ok()).collect()
            }
            array if array.is_empty() => Some(Vec::new()),
            _ => None,
        })
    }

    fn typed<T>(
        &self,
        key: &str,
        expected: &str,
        take: impl Fn(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, ExportError> {
        let Some(value) = self.get(key) else { return Ok(None) };
        take(value).map(Some).ok_or_else(|| ExportError::BadKey {
            key: key.to_owned(),
            expected: expected.to_owned(),
            found: match value {
                Value::Array(array) => format!("an array of {} items", array.len()),
                other => other.to_string().chars().take(60).collect(),
            },
        })
    }
}
