//! Comparison of a file with its source: tensors, keys, special tokens, prompts.

use std::{num::NonZeroUsize, path::Path};

use gguf_container::{Array, Metadata, Model, Value};
use gguf_conversion::{
    Agreement, CheckpointInput, Distance, Input, Request, RunOptions, Watch, compare,
    merge::{LoraAdapter, MERGED_ADAPTERS, merged_adapters},
    recipes::{CALIBRATION_KEY, CHOSEN_TYPES_KEY, Recipe},
};

use super::{
    VerifyOptions,
    keys::other_kind,
    prompts,
    report::{Check, Finding, Severity},
};
use crate::{
    adapter::{self, scaled},
    error::Error,
    events::Events,
    failure::{failure, quoted},
    hub::{self, HubOptions},
    input_kind::is_gguf,
};
use gguf_types::{Words, counted, list_names, words};

/// Compares a file with its source.
///
/// # Errors
/// A source that cannot be opened or read, an interruption.
pub fn check(
    model: &Model,
    source: &Path,
    options: &VerifyOptions,
    hub_options: &HubOptions,
    events: &dyn Events,
) -> Result<Vec<Check>, Error> {
    let VerifyOptions { adapters, lora_tokenizer, .. } = options;
    let options = RunOptions::default().threads(options.threads).level(options.level);
    let failed = |error| failure(source, error);
    let kind = kind_of(model.metadata());
    let skipped = |kind: &str| {
        vec![Check::new("tensors").skipped(&format!("a file of kind `{kind}` is not compared with a model"))]
    };
    if is_gguf(source) {
        if *lora_tokenizer {
            return Err(Error::usage(words!("[-lora-tokenizer] needs a checkpoint as [-against]")));
        }
        let opened = Model::open(source).map_err(|error| Error::at(source, error))?;
        if let Some(kind) = kind.filter(|kind| kind_of(opened.metadata()) != Some(*kind)) {
            return Ok(skipped(kind));
        }
        let input = adapter::merged(gguf_models::FAMILIES, opened, adapters)?;
        return with(model, &input, source, &input.metadata(), &options, events);
    }
    if let Some(kind) = kind {
        return Ok(skipped(kind));
    }
    let wanted = hub::Wanted { weights: true, keep: false, out: None };
    let folder = hub::input(source, wanted, hub_options, events)?;
    let folders = adapters.iter().map(|adapter| hub::input(&adapter.path, wanted, hub_options, events));
    let folders = folders.collect::<Result<Vec<_>, Error>>()?;
    let adapters = adapters.iter().zip(&folders).map(|(adapter, found)| LoraAdapter {
        folder: found.folder.clone(),
        name: adapter.path.clone(),
        scale: adapter.scale,
        takes_tokenizer: *lora_tokenizer,
    });
    let layout_options = gguf_layout::Options::new(gguf_models::FAMILIES);
    let adapters: Vec<LoraAdapter> = adapters.collect();
    let input = CheckpointInput::open_with_adapters(folder.folder.clone(), &adapters, &layout_options, None)
        .map_err(failed)?;
    let checks = with(model, &input, source, &input.layout().metadata, &options, events)?;
    folders.into_iter().chain([folder]).try_for_each(|folder| folder.finish(events))?;
    Ok(checks)
}

/// Kind of a file that has no counterpart in a language model, such as an importance matrix.
fn kind_of(metadata: &Metadata) -> Option<&str> {
    let architecture = || metadata.get("general.architecture").and_then(Value::as_str);
    other_kind(metadata).or_else(|| architecture().filter(|name| ["clip", "controlvector"].contains(name)))
}

/// Compares the tensors of a file with those of a checkpoint folder.
///
/// # Errors
/// A folder that cannot be opened or read, an interruption.
pub(crate) fn checkpoint_tensors(
    model: &Model,
    checkpoint: &Path,
    threads: Option<NonZeroUsize>,
    events: &dyn Events,
) -> Result<Check, Error> {
    let failed = |error| failure(checkpoint, error);
    let input = CheckpointInput::open(checkpoint, &gguf_layout::Options::new(gguf_models::FAMILIES))
        .map_err(failed)?;
    tensors(model, &input, &RunOptions::default().threads(threads), events).map_err(failed)
}

/// All comparisons with a source of tensors and metadata.
pub(super) fn with(
    model: &Model,
    input: &impl Input,
    source: &Path,
    metadata: &Metadata,
    options: &RunOptions,
    events: &dyn Events,
) -> Result<Vec<Check>, Error> {
    let tensors = tensors(model, input, options, events).map_err(|error| failure(source, error))?;
    let [merged, expected] = [model.metadata(), metadata].map(merged_adapters);
    let n_different = tensors.count(Severity::Error);
    let has_same_scales = scales(&merged) == scales(&expected);
    if n_different > 0 && !has_same_scales && merged.iter().any(|stated| !expected.contains(stated)) {
        let n_different = format!("{n_different} of {} tensors differ", model.tensors().count());
        return Ok(vec![other_adapters(tensors, &n_different, &merged, &expected, is_gguf(source))]);
    }
    // With equal tensors, only the name of a file or folder differs.
    let is_renamed = n_different == 0 && has_same_scales && merged != expected;
    let renamed = is_renamed.then(|| renamed(metadata, &expected, &merged));
    let metadata = renamed.as_ref().unwrap_or(metadata);
    Ok(vec![tensors, keys(model.metadata(), metadata), prompts::compare(model.metadata(), metadata)?])
}

fn scales(merged: &[String]) -> Vec<f64> {
    merged.iter().map(|stated| scaled(stated).1).collect()
}

/// Metadata of the source with the names that the file gives to its adapters.
fn renamed(metadata: &Metadata, from: &[String], to: &[String]) -> Metadata {
    let mut metadata = metadata.clone();
    metadata.set(MERGED_ADAPTERS, to.to_vec());
    for (key, between) in [("general.name", " + "), ("general.finetune", "-")] {
        let [from, to] = [from, to]
            .map(|merged| merged.iter().map(|stated| scaled(stated).0).collect::<Vec<_>>().join(between));
        let text = metadata.get(key).and_then(Value::as_str);
        if let Some(start) = text.and_then(|text| text.strip_suffix(&from)).map(str::to_owned) {
            metadata.set(key, start + &to);
        }
    }
    metadata
}

/// One finding for a file that was compared without its merged adapters or with other scales, instead of one for each tensor and
/// key.
fn other_adapters(
    tensors: Check,
    n_different: &str,
    merged: &[String],
    expected: &[String],
    of_gguf: bool,
) -> Check {
    let option = |stated: &String| {
        let (name, scale) = stated.split_at(scaled(stated).0.len());
        let end = if of_gguf { ".gguf" } else { "" };
        words!("[-lora {}]", quoted(&format!("{name}{end}{scale}")))
    };
    let options: Vec<Words> = merged.iter().filter(|stated| !expected.contains(stated)).map(option).collect();
    let mut check = Check { findings: Vec::new(), ..tensors };
    let adapters = format!("{} ({})", counted(merged.len(), "merged adapter"), list_names(merged));
    let compared = match expected {
        [] => String::new(),
        expected => format!(", and was compared with {}", list_names(expected)),
    };
    check.push(Finding::error("differs", format!("{n_different}: the file contains {adapters}{compared}")));
    let advice = if expected.is_empty() { "to include what was merged, add " } else { "use " };
    check.push(Finding::note("hint", Words::from(advice) + Words::joined(&options, " ")));
    check
}

fn tensors(
    model: &Model,
    input: &impl Input,
    options: &RunOptions,
    events: &dyn Events,
) -> Result<Check, gguf_conversion::Error> {
    // Names, shapes and rows are the same for every recipe.
    let recipe = Recipe::from_name("f32").map_err(gguf_conversion::Error::Recipe)?;
    let (facts, tasks) = (input.tensors(recipe), input.tasks(&Request::default())?);
    let n_bytes = tasks.iter().map(|task| task.rows.input_bytes(task.rows.view().n_rows)).sum();
    let cancel = events.cancel();
    let progress = events.progress(n_bytes);
    let sources =
        [input.sources(), model.shards().iter().map(|(_, file)| file.bytes().clone()).collect()].concat();
    let watch = Watch {
        cancel: &cancel,
        done: &|_, bytes| progress.add(bytes),
        sources: &sources,
        ..Watch::default()
    };
    let compared = compare(&tasks, &facts, model, options, watch);
    drop(progress);

    let mut check = Check::new("tensors");
    let (mut n_equal, mut near) = (0, Vec::new());
    for (name, agreement) in compared? {
        let error = |code, message: String| Finding::error(code, format!("tensor `{name}` {message}"));
        check.findings.push(match agreement {
            Agreement::Equal => {
                n_equal += 1;
                continue;
            }
            Agreement::Near(distance) => {
                near.push((name, distance));
                continue;
            }
            Agreement::Lossy { dtype, error, usual } => {
                n_equal += 1;
                let message = format!(
                    "tensor `{name}` ({dtype}) is bit-exact, but its relative error is {error:.2}, expected about {usual:.2}"
                );
                Finding::warning("lossy", message)
            }
            Agreement::Damaged(distance) => error(
                "damaged",
                format!(
                    "({}): {} of {} rows differ from the source, first row {}; all others are bit-exact",
                    distance.dtype, distance.n_different, distance.n_rows, distance.worst_row
                ),
            ),
            Agreement::Differs(distance) => error("differs", far(&distance)),
            Agreement::Shape { expected, found } => {
                error("tensor_shape", format!("expected shape {expected}, found {found}"))
            }
            Agreement::Missing => error("missing_tensor", "is in the source but not in the file".to_owned()),
            Agreement::Extra => error("extra_tensor", "is in the file but not in the source".to_owned()),
            Agreement::Unknown(dtype) => {
                Finding::note("not_compared", format!("tensor `{name}` is {dtype} and was not compared"))
            }
            _ => continue,
        });
    }
    // One line for all: with an importance matrix, hardly any tensor is bit-exact.
    if let Some((name, worst)) = near.iter().max_by(|a, b| a.1.error.total_cmp(&b.1.error)) {
        let is_calibrated = model.metadata().contains(CALIBRATION_KEY);
        let allows = if is_calibrated { "calibration" } else { "quantization" };
        let message = format!(
            "{} tensors are not bit-exact, but as close to the source as {allows} allows: `{name}` ({}) \
                has a relative error of {:.4}, and {:.4} when quantized without importance data",
            near.len(),
            worst.dtype,
            worst.error,
            worst.own_error
        );
        let is_weighted =
            is_calibrated || model.metadata().iter().any(|(key, _)| key.starts_with("quantize.imatrix."));
        check.push(if is_weighted {
            Finding::note("near", message)
        } else {
            Finding::warning("near", message)
        });
    }
    check.summary =
        format!("{n_equal} bit-exact, {} close, {} derived from the source", near.len(), tasks.len());
    Ok(check)
}

fn far(distance: &Distance) -> String {
    format!(
        "({}): relative error {:.4}, expected {:.4} for quantization; {} of {} rows differ, most in row {} ({:.4})",
        distance.dtype,
        distance.error,
        distance.own_error,
        distance.n_different,
        distance.n_rows,
        distance.worst_row,
        distance.worst_error
    )
}

/// Keys that describe the file, not the model.
fn is_of_the_file(key: &str) -> bool {
    let of_file = [
        "general.file_type",
        "general.quantization_version",
        "general.alignment",
        gguf_container::SLACK_KEY,
        CALIBRATION_KEY,
        CHOSEN_TYPES_KEY,
    ];
    of_file.contains(&key) || key.starts_with("split.") || key.starts_with("quantize.")
}

/// Keys that name the source of a model; they identify a file under the name of another model.
fn is_lineage(key: &str) -> bool {
    let starts = ["general.base_model.", "general.source.", "general.dataset.", MERGED_ADAPTERS];
    starts.iter().any(|start| key.starts_with(start))
}

/// Compares metadata. Templates are compared by the prompts that they render.
pub(crate) fn keys(file: &Metadata, source: &Metadata) -> Check {
    let mut check = Check::new("keys");
    let is_compared = |key: &str| !is_of_the_file(key) && !key.starts_with("tokenizer.chat_template");
    let mut n_equal = 0;
    for (key, expected) in source.iter().filter(|(key, _)| is_compared(key)) {
        let message = match file.get(key) {
            Some(found) if same(found, expected) => {
                n_equal += 1;
                continue;
            }
            Some(found) => format!("`{key}` is {}, expected {}", short(found), short(expected)),
            // Older converters left out what llama.cpp takes for granted.
            None if gguf_layout::loader::is_default(&gguf_models::FAMILIES, file, key, expected) => {
                let message =
                    format!("missing key `{key}`; its default equals the source's {}", short(expected));
                check.push(Finding::note("default_key", message));
                continue;
            }
            None => format!("missing key `{key}`, expected {}", short(expected)),
        };
        let is_special = gguf_tokenizer::keys::is_special_id(key);
        check.push(match key.as_str() {
            "general.architecture" => Finding::error("key", message),
            key if is_lineage(key) => Finding::warning("lineage", message),
            // Names and lineage may be changed for publishing.
            key if key.starts_with("general.") => Finding::warning("general_key", message),
            _ if is_special => Finding::error("special_id", message),
            _ => Finding::error(if file.contains(key) { "key" } else { "missing_key" }, message),
        });
    }
    for (key, value) in file.iter().filter(|(key, _)| is_compared(key) && !source.contains(key)) {
        let message = format!("`{key}` is {}, but is not in the source", short(value));
        let is_special = gguf_tokenizer::keys::is_special_id(key);
        check.push(if is_special {
            Finding::error("special_id", message)
        } else if is_lineage(key) {
            Finding::warning("lineage", message)
        } else if key.starts_with("general.") {
            Finding::note("extra_key", message)
        } else {
            Finding::warning("extra_key", message)
        });
    }
    check.summary = format!("{n_equal} equal");
    check
}

/// True if values are equal, including integers of different widths.
fn same(a: &Value, b: &Value) -> bool {
    let numbers = |value: &Value| value.as_u64().map(|number| number as f64).or(value.as_f64());
    a.is_same(b) || numbers(a).is_some_and(|number| numbers(b) == Some(number))
}

/// Longest text of a value in a message, in characters.
const SHOWN: usize = 60;

/// A value for a message.
fn short(value: &Value) -> String {
    match value {
        Value::Array(Array::String(texts))
            if (1..=SHOWN).contains(&texts.iter().map(<[u8]>::len).sum::<usize>()) =>
        {
            let texts = texts.iter().map(|text| String::from_utf8_lossy(text).into_owned());
            list_names(&texts.collect::<Vec<_>>())
        }
        Value::Array(array) => {
            let kind = match array {
                Array::String(_) => "texts",
                _ => "numbers",
            };
            format!("a list of {} {kind}", array.len())
        }
        value => {
            let text: String = value.to_string().chars().take(SHOWN).collect();
            format!("`{text}`")
        }
    }
}
