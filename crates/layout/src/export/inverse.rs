//! Conversion, inverted: for every architecture whose table and keys can be read backwards.
//!
//! A config is made of the file's keys by the names that the architecture's config class has for
//! them. Then the conversion is run again, from that config and the tensors that it would take: only
//! if every key and every tensor of the file comes out does the config stand, and the row maps of
//! that layout, inverted, say where the rows of each tensor are.

use std::collections::{BTreeMap, HashMap, HashSet};

use gguf_container::{Array, Metadata, Value};
use gguf_types::Shape;
use serde_json::Value as Json;

use super::candidate::candidate;
use super::error::ExportError;
use super::layout::{ArchFile, Checkpoint, ExportPart, ExportTensor, is_computed};
use super::search;
use super::sources::{self, sources};
use crate::arch::Class;
use crate::config::classes::ConfigClass;
use crate::layout::{Data, Layout};
use crate::resolve::{Resolved, context};
use crate::tensors::rules::{self, NumberRule};
use crate::{ArchError, Input, Options, SourceTensor, TensorValues, loadable, pooling};

/// The checkpoint of a file.
///
/// # Errors
/// [`ExportError`]: of all config classes of the architecture, what the first one could not say.
pub fn read(file: &ArchFile<'_>) -> Result<Checkpoint, ExportError> {
    let arch = file.arch;
    // Classes that leave out the start of names come last, for the others have it; those with a classifier
    // first, if there is one.
    let has_classifier = file.input.tensors.iter().any(|(name, _)| name.starts_with("cls."));
    let mut classes: Vec<&Class> = arch.classes.iter().collect();
    classes.sort_by_key(|class| {
        let classifies = class.name.ends_with("ForSequenceClassification");
        (!class.prefix.is_empty(), classifies != has_classifier, class.spelling)
    });
    let mut first_error = None;
    for class in &classes {
        let index = arch.classes.iter().position(|other| other.name == class.name).unwrap_or_default();
        // Classes and config classes that are equally many belong together.
        let configs: Vec<Option<&ConfigClass>> = match arch.configs {
            // Older spellings are those of files that no config class reads.
            [] => vec![None],
            _ if class.spelling > 0 => vec![None],
            configs if configs.len() == classes.len() => vec![configs.get(index)],
            configs => configs.iter().map(Some).collect(),
        };
        for config in configs {
            // Some flags are shown by neither keys nor tensors: each is tried with the value that is not its
            // default, one at a time.
            let plain = std::iter::once(None);
            for changed in plain.chain(config.into_iter().flat_map(flags).map(Some)) {
                match attempt(file, **class, config, changed) {
                    Ok(found) => return Ok(found),
                    Err(error) => first_error = first_error.or(Some(error)),
                }
            }
        }
    }
    Err(first_error
        .unwrap_or(ExportError::NotExpressible { subject: format!("architecture `{}`", arch.name) }))
}

/// The flags of a config class, each with the value that is not its default.
fn flags(class: &ConfigClass) -> Vec<(&'static str, bool)> {
    let fields = class.fields().iter();
    fields
        .filter_map(|field| Some((field.name, !field.default.as_bool()?)))
        .filter(|(name, _)| !matches!(*name, "use_cache" | "tie_word_embeddings" | "output_router_logits"))
        .collect()
}

/// One config, searched, converted and compared with the file.
fn attempt(
    file: &ArchFile<'_>,
    class: Class,
    config_class: Option<&ConfigClass>,
    changed: Option<(&'static str, bool)>,
) -> Result<Checkpoint, ExportError> {
    // The only hyperparameter that is in another file than config.json.
    let files = pooling::files(file.count("pooling_type")?);
    let mut input = Input {
        files: files.iter().map(|(name, bytes)| (name.clone(), bytes.as_slice())).collect(),
        ..Input::default()
    };
    let mut config = candidate(file, class.name, config_class)?;
    config.extend(changed.map(|(name, value)| (name.to_owned(), value.into())));
    input.config = search::complete(file, config, &input, &sources::names(file));
    let converted = convert(file, class, input)?;
    same_keys(file, &converted.metadata)?;
    let tensors = converted.tensors(file, Rows::All)?;
    Ok(Checkpoint { config: converted.config, files, tensors, notes: Vec::new() })
}

/// Result of converting a config with the tensors that the file would be made of.
pub struct Converted {
    /// The config.
    pub config: Json,
    /// The keys.
    pub metadata: Metadata,
    layout: Layout,
    sources: Vec<SourceTensor>,
}

/// Tensors of a file that a conversion must produce.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rows {
    /// Everything.
    All,
    /// All but those that are computed from a config: one without effect need not result.
    LeaveComputed,
}

/// Converts a config with the tensors that the file would be made of, like any checkpoint.
///
/// # Errors
/// [`ExportError`]: tensors that the config does not use, or that it needs; and other refusals of the
/// conversion.
pub fn convert(file: &ArchFile<'_>, class: Class, mut input: Input<'_>) -> Result<Converted, ExportError> {
    let arch = file.arch;
    let names = &sources::names(file);
    let hparams = file.families.hparams(arch, &input.config).map_err(ExportError::Conversion)?;
    let hparams = (arch.prepare)(hparams, names).map_err(ExportError::Conversion)?;
    input.tensors = sources(&context(arch, class, &hparams, &Input::default()), file, class)?;
    let has_numbers = !arch.numbers.is_empty();
    let read = |tensor: &SourceTensor| Some((tensor.name.clone(), number(file, &tensor.name)?));
    let numbers: HashMap<String, f32> =
        input.tensors.iter().filter(|_| has_numbers).filter_map(read).collect();
    input.values = Some(TensorValues::new(move |name| numbers.get(name).map(|number| vec![*number])));
    let options = Options { arch_as: Some(class.name.to_owned()), ..Options::new(*file.families) };
    let resolved = Resolved::new(&input, &options).map_err(|error| match error {
        // Named as the file would have them; the experts of a layer are one tensor there.
        ArchError::MissingTensors { names } | ArchError::IncompletePrediction { names } => {
            let mut names: Vec<String> =
                names.iter().map(|name| sources::output_name(arch, class, name)).collect();
            names.dedup();
            ExportError::MissingTensors { names }
        }
        error => ExportError::Conversion(error),
    })?;
    let mut layout = resolved.layout;
    // A conversion states the width of the matrices if llama.cpp would refuse the one that the keys say.
    let width = format!("{}.feed_forward_length", arch.written());
    if file.input.metadata.get(&width) != layout.metadata.get(&width) {
        loadable::state_width(file.families, &mut layout);
    }
    let metadata = layout.metadata.clone();
    Ok(Converted { config: input.config, metadata, layout, sources: input.tensors })
}

/// The number of a checkpoint's tensor that is a key of the file, if it is one.
fn number(file: &ArchFile<'_>, name: &str) -> Option<f32> {
    let find = |rule: &NumberRule| {
        let (bid, _) = rules::parse(rule.hf, name)?;
        match file.input.metadata.get(rule.key) {
            Some(Value::Array(Array::F32(numbers))) => numbers.get(usize::try_from(bid).ok()?).copied(),
            Some(Value::F32(number)) => Some(*number),
            _ => None,
        }
    };
    file.arch.numbers.iter().find_map(find)
}

/// True if the conversion gives the same hyperparameters.
fn same_keys(file: &ArchFile<'_>, made: &Metadata) -> Result<(), ExportError> {
    let original = file.input.metadata;
    let own = |(key, _): &&(String, Value)| file.is_own(key);
    let keys = original.iter().filter(own).chain(made.iter().filter(own)).map(|(key, _)| key);
    for key in keys {
        let (original, made) = (original.get(key), made.get(key));
        if original != made {
            let text = |value: Option<&Value>| value.map_or("nothing".to_owned(), |value| format!("{value}"));
            let subject = format!("metadata key `{key}`, {}, which would be {},", text(original), text(made));
            return Err(ExportError::NotExpressible { subject });
        }
    }
    Ok(())
}

impl Converted {
    /// Every tensor of the checkpoint with the places of its rows.
    ///
    /// # Errors
    /// [`ExportError::UnusedTensors`], [`ExportError::MissingTensors`] if the file has other tensors than come
    /// out; [`ExportError::NotExpressible`] for rows that conversion loses.
    pub fn tensors(&self, file: &ArchFile<'_>, rows: Rows) -> Result<Vec<ExportTensor>, ExportError> {
        let made: HashSet<(&str, Shape)> =
            self.layout.tensors.iter().map(|tensor| (tensor.name.as_str(), tensor.shape)).collect();
        let original: HashSet<(&str, Shape)> =
            file.input.tensors.iter().map(|(name, shape)| (name.as_str(), *shape)).collect();
        let names = |of: &HashSet<(&str, Shape)>, without: &HashSet<(&str, Shape)>| {
            let mut names: Vec<String> = of.difference(without).map(|(name, _)| (*name).to_owned()).collect();
            names.sort();
            names
        };
        let (mut extra, absent) = (names(&original, &made), names(&made, &original));
        if rows == Rows::LeaveComputed {
            extra.retain(|name| !is_computed(name));
        }
        if !extra.is_empty() {
            return Err(ExportError::UnusedTensors { names: extra });
        }
        if !absent.is_empty() {
            return Err(ExportError::MissingTensors { names: absent });
        }
        // Each output tensor names the source rows it is made of; grouped by source, these are the places to
        // read the source's rows from.
        let mut parts: BTreeMap<&str, Vec<ExportPart>> = BTreeMap::new();
        for tensor in &self.layout.tensors {
            let (names, rows, element, matrix) = match &tensor.data {
                Data::Rows { sources, rows, element } => (sources.as_slice(), *rows, *element, None),
                Data::Columns { source, matrix, rows, element } => {
                    (std::slice::from_ref(source), *rows, *element, Some(*matrix))
                }
                Data::Computed(_) if is_computed(&tensor.name) => continue,
                _ => {
                    return Err(ExportError::NotExpressible { subject: format!("tensor `{}`", tensor.name) });
                }
            };
            let view = tensor.row_view();
            let n_rows = view.n_rows / (names.len() as u64).max(1);
            for (index, name) in names.iter().enumerate() {
                parts.entry(name.as_str()).or_default().push(ExportPart {
                    source: tensor.name.clone(),
                    first_row: index as u64 * n_rows,
                    n_rows,
                    row_elems: view.row_elems,
                    rows,
                    element,
                    matrix,
                });
            }
        }
        let exported = |source: &SourceTensor| {
            if let Some(number) = number(file, &source.name) {
                let (name, shape) = (source.name.clone(), source.shape);
                return Ok(ExportTensor { name, shape, parts: Vec::new(), values: vec![number] });
            }
            let parts = parts.remove(source.name.as_str()).unwrap_or_default();
            // Parts that have fewer elements than the source mean that conversion drops some.
            let part_elems: u64 = parts.iter().map(|part| part.n_rows.saturating_mul(part.row_elems)).sum();
            if part_elems != source.shape.n_elems() {
                return Err(ExportError::NotExpressible {
                    subject: format!("tensor `{}`, of which rows are lost,", source.name),
                });
            }
            Ok(ExportTensor { name: source.name.clone(), shape: source.shape, parts, values: Vec::new() })
        };
        self.sources.iter().map(exported).collect()
    }
}
