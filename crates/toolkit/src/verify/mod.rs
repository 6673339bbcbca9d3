//! Checks of a GGUF file, alone or against its source.

mod adapter;
pub(crate) mod against;
mod behavior;
mod blocks;
mod contents;
mod diffusion;
mod holes;
mod keys;
mod loader;
mod metadata;
mod modelfile;
mod options;
mod programs;
mod prompts;
mod report;
mod trials;

use std::{collections::HashSet, num::NonZeroUsize, path::Path};

use gguf_container::{Metadata, Model, Value};
use gguf_conversion::recipes::TensorFacts;

pub(crate) use self::{
    behavior::default_system,
    diffusion::{Nodes, refusals as diffusion_refusals},
};
use self::{
    contents::UNKNOWN_MARKS,
    keys::{ADAPTER, file_type_of, other_kind, tokenizer_findings},
    loader::{loader, names},
    modelfile::Modelfile,
    programs::ollama::Replaced,
};
pub use self::{
    options::{VerifyOptions, Which},
    programs::{Program, ollama::OllamaTemplate},
    report::{Check, Finding, Report, Severity, Tone},
};
use crate::{
    error::Error,
    events::Events,
    hub::HubOptions,
    input_kind::{self, Wanted},
    text::{file_name, human_bytes},
};
use gguf_types::{Problem as _, words};

/// Checks a file, and compares it with its source if one is given. [`Report::verdict`] returns an error if it did not pass.
///
/// # Errors
/// A missing file, or a source that cannot be opened. Problems of the file are findings of the report.
///
/// # Examples
/// ```no_run
/// use gguf_toolkit::{
///     hub::HubOptions,
///     verify::{VerifyOptions, verify},
/// };
///
/// # fn main() -> Result<(), gguf_toolkit::Error> {
/// let options = VerifyOptions { file: "model.gguf".into(), ..VerifyOptions::default() };
/// let report = verify(&options, &HubOptions::default(), &())?;
/// print!("{}", report.text());
/// report.verdict()
/// # }
/// ```
pub fn verify(
    options: &VerifyOptions,
    hub_options: &HubOptions,
    events: &dyn Events,
) -> Result<Report, Error> {
    let path = options.file.as_path();
    if options.only.contains(&Which::Source) && options.against.is_none() {
        return Err(Error::usage(words!("[-only source] needs [-against SRC]")));
    }
    if !options.adapters.is_empty() && options.against.is_none() {
        return Err(Error::usage(words!("[-lora] needs [-against SRC]")));
    }
    let modelfile = Modelfile::read(path);
    let Some(file) = modelfile.as_ref().map_or(Some(path), |modelfile| modelfile.model.as_deref()) else {
        let mut report = Report::new(path, options.strict);
        report.extend(modelfile.iter().map(Modelfile::check_lines));
        return Ok(report);
    };
    // A missing file is not a failed check.
    if let Err(error) = std::fs::metadata(file) {
        let names = modelfile.as_ref().map(|_| format!("the Modelfile {} names this file", path.display()));
        return Err(Error::cannot_open(file, error).hint(input_kind::advice(file, Wanted::Gguf)).hint(names));
    }
    input_kind::check_joined(file)?;
    let opened = Model::open(file);
    let options = VerifyOptions { file: file.to_owned(), ..options.clone() };
    let replaced = modelfile.as_ref().map(Modelfile::replaced).unwrap_or_default();
    let mut report = verify_replaced(&opened, &options, replaced, hub_options, events)?;
    if let (Some(modelfile), Ok(model)) = (&modelfile, &opened) {
        let are_reported = report.checks().iter().any(|check| check.name == Program::Ollama.name());
        report.push(modelfile.check(model, are_reported)?);
    }
    Ok(report)
}

/// Same as [`verify`], for a model that was opened, or its failure.
///
/// # Errors
/// As [`verify`].
pub(crate) fn verify_opened(
    opened: &Result<Model, gguf_container::Error>,
    options: &VerifyOptions,
    hub_options: &HubOptions,
    events: &dyn Events,
) -> Result<Report, Error> {
    verify_replaced(opened, options, Replaced::default(), hub_options, events)
}

/// Same as [`verify_opened`], for a model that a `Modelfile` names.
fn verify_replaced(
    opened: &Result<Model, gguf_container::Error>,
    options: &VerifyOptions,
    replaced: Replaced,
    hub_options: &HubOptions,
    events: &dyn Events,
) -> Result<Report, Error> {
    let wants = |which| options.only.is_empty() || options.only.contains(&which);
    let mut report = Report::new(&options.file, options.strict);
    let model = match opened {
        Err(error) => {
            report.push(unreadable(error));
            return Ok(report);
        }
        Ok(model) => model,
    };
    let tensors = diffusion::tensors(model);
    let diffusion = diffusion::of(model.metadata(), &tensors);
    if wants(Which::Structure) {
        report.push(structure(model, diffusion.is_some()));
    }
    if wants(Which::Blocks) {
        report.push(blocks::check(model, options.threads, events)?);
    }
    let needs_template = wants(Which::Template) || wants(Which::Loader) && !options.programs.is_empty();
    let template = needs_template.then(|| prompts::check(model.metadata())).transpose()?;
    let mut refusals = Vec::new();
    if wants(Which::Loader) {
        let checks = match &diffusion {
            _ if !options.programs.is_empty() => {
                let unknown = template
                    .iter()
                    .flat_map(|check| &check.findings)
                    .find(|finding| finding.code == UNKNOWN_MARKS);
                let check = |program: &Program| programs::check(*program, model, &tensors, unknown, replaced);
                options.programs.iter().map(check).collect::<Result<_, _>>()?
            }
            Some(file) => vec![diffusion::loader(Nodes::Original, file, model.metadata(), &tensors)],
            None => vec![loader(model)],
        };
        refusals = checks.iter().flat_map(|check| check.findings.clone()).collect();
        report.extend(checks);
    }
    if wants(Which::Architecture) {
        report.push(match &diffusion {
            Some(file) => diffusion::architecture(file, &tensors),
            None => architecture(model, &refusals),
        });
    }
    if wants(Which::Tokenizer) {
        report.push(tokenizer(model));
    }
    report.extend(template.filter(|_| wants(Which::Template)));
    if wants(Which::FileType) {
        report.push(file_type_of(model.metadata(), &tensors));
    }
    if let Some(source) = options.against.as_deref().filter(|_| wants(Which::Source)) {
        match other_kind(model.metadata()) {
            Some(ADAPTER) => report.extend(adapter::against(model, source, options, hub_options, events)?),
            _ => report.extend(against::check(model, source, options, hub_options, events)?),
        }
    }
    Ok(report)
}

/// Findings that a verification would report only after a change of metadata, without notes.
///
/// # Errors
/// A chat template that takes too much memory or time.
pub fn findings_of_change(
    old: &Metadata,
    new: &Metadata,
    tensors: &[TensorFacts<'_>],
) -> Result<Vec<Finding>, Error> {
    metadata::caused(old, new, tensors)
}

/// Runs all checks that need only the file.
///
/// # Errors
/// The findings, one per line; a file that cannot be read.
pub fn verify_file(path: &Path, threads: Option<NonZeroUsize>, events: &dyn Events) -> Result<(), Error> {
    let options = VerifyOptions { file: path.to_owned(), threads, ..VerifyOptions::default() };
    let report = verify(&options, &HubOptions::default(), events)?;
    report.verdict().map_err(|error| error.hint(report.text().lines().map(str::to_owned)))
}

/// A file whose header or shards are wrong.
fn unreadable(error: &gguf_container::Error) -> Check {
    let mut check = Check::new("structure");
    check.push(Finding::error("unreadable", error));
    check.findings.extend(error.hint().map(|hint| Finding::note("hint", hint)));
    check
}

/// Checks the container. Programs for diffusion models have wider limits than llama.cpp.
fn structure(model: &Model, is_diffusion: bool) -> Check {
    let mut check = Check::new("structure");
    for (path, file) in model.shards() {
        // The path matters only if there are several.
        let named = |finding: &gguf_container::Finding| match model.shards().len() {
            1 => finding.to_string(),
            _ => format!("{}: {finding}", file_name(path)),
        };
        let found = gguf_container::check(file);
        let is_limit = |finding: &gguf_container::Finding| {
            matches!(
                finding,
                gguf_container::Finding::LongName { .. } | gguf_container::Finding::ManyDims { .. }
            )
        };
        // ComfyUI finds variants of a model by empty tensors with such names.
        let is_mark = |finding: &gguf_container::Finding| matches!(finding, gguf_container::Finding::NoElements { tensor } if tensor.starts_with("__"));
        let found = found.iter().filter(|finding| !is_diffusion || !is_limit(finding) && !is_mark(finding));
        check.findings.extend(found.map(|finding| Finding {
            severity: finding.severity().into(),
            code: finding.code(),
            message: named(finding),
        }));
    }
    check.findings.extend(metadata::key_types(model.metadata()));
    check.findings.extend(metadata::hidden_characters(model.metadata()));
    let (n_tensors, n_keys) = (model.tensors().count(), model.metadata().len());
    let files = match model.shards().len() {
        1 => String::new(),
        n => format!("{n} files, "),
    };
    check.summary = format!("{files}{n_tensors} tensors, {n_keys} keys, {}", human_bytes(model.file_bytes()));
    check
}

/// Checks the parts that the graph needs, without repeating what was found already.
fn architecture(model: &Model, known: &[Finding]) -> Check {
    let mut check = Check::new("architecture");
    if let Some(kind) = other_kind(model.metadata()) {
        if kind == ADAPTER {
            return adapter::check(model);
        }
        return check.skipped(&format!("no checks for files of kind `{kind}`"));
    }
    let name = match model.metadata().text("general.architecture") {
        Ok(Some(name)) => name,
        Ok(None) if model.metadata().is_empty() && model.tensors().count() == 0 => {
            return check.skipped("empty file");
        }
        Ok(None) => {
            check.push(Finding::error("missing_key", "missing metadata key `general.architecture`"));
            return check;
        }
        Err(error) => {
            check.push(Finding::error("key", error));
            return check;
        }
    };
    if model.tensors().count() == 0 {
        return check.skipped("vocabulary without tensors");
    }
    check.summary = name.to_owned();
    let n_tensors = model.tensors().count();
    let lacking = gguf_layout::lacking(&gguf_models::FAMILIES, model.metadata(), n_tensors, |name| {
        model.tensor(name).is_some()
    });
    for name in lacking.iter().flatten() {
        check.push(Finding::error("missing_tensor", format!("missing tensor `{name}`")));
    }
    match gguf_runtime::check_parts(&gguf_models::GRAPHS, model) {
        Ok(()) => {}
        Err(
            gguf_runtime::Error::UnknownArchitecture { name }
            | gguf_runtime::Error::DraftAlone { architecture: name },
        ) if lacking.is_none() => {
            return check.skipped(&format!("no checks for architecture `{name}`"));
        }
        Err(gguf_runtime::Error::DraftAlone { .. }) => {
            check.summary += ", only tensor names: draft models run only with their target";
        }
        Err(gguf_runtime::Error::UnknownArchitecture { .. }) => {
            check.summary += ", only tensor names: `gguf-eval` does not run the architecture";
        }
        // Named above.
        Err(gguf_runtime::Error::MissingTensor { name })
            if lacking.iter().flatten().any(|tensor| *tensor == name) => {}
        // Reported by the loader's check.
        Err(gguf_runtime::Error::UnusedTensors { .. })
            if input_kind::one_file_model(names(model)).is_some() => {}
        // Matrices after the pooling of sentence-transformers can belong to any model. llama.cpp loads heads that no graph here
        // runs.
        Err(gguf_runtime::Error::UnusedTensors { names, .. })
            if names.iter().all(|name| name.starts_with("dense_")) || loader::takes_all_tensors(model) =>
        {
            check.push(Finding::note("not_run", format!("`gguf-eval` does not run {}", names.join(", "))));
        }
        Err(error) => check.push(Finding::error(code_of(&error), error)),
    }
    check.findings.extend(metadata::context_length(model.metadata()));
    check.findings.extend(metadata::mtp_layers(model.metadata(), names(model)));
    let subject = |finding: &Finding| finding.message.split('`').nth(1).map(str::to_owned);
    let known: HashSet<String> = known.iter().filter_map(subject).collect();
    check.findings.retain(|finding| !subject(finding).is_some_and(|subject| known.contains(&subject)));
    check
}

/// A name for programs.
fn code_of(error: &gguf_runtime::Error) -> &'static str {
    match error {
        gguf_runtime::Error::Key(gguf_container::KeyError::Missing { .. }) => "missing_key",
        gguf_runtime::Error::Key(_) => "key",
        gguf_runtime::Error::MissingTensor { .. } => "missing_tensor",
        gguf_runtime::Error::TensorShape { .. } => "tensor_shape",
        gguf_runtime::Error::TensorType { .. } => "tensor_type",
        gguf_runtime::Error::UnusedTensors { .. } => "extra_tensor",
        _ => "architecture",
    }
}

fn tokenizer(model: &Model) -> Check {
    let mut check = Check::new("tokenizer");
    let metadata = model.metadata();
    let embedding = model.tensor("token_embd.weight").map(|(_, info)| info.shape);
    let Some(found) = tokenizer_findings(metadata, embedding) else {
        return check.skipped("no tokenizer");
    };
    check.findings.extend(found);
    let tokens =
        metadata.get("tokenizer.ggml.tokens").and_then(Value::as_array).map_or(0, gguf_container::Array::len);
    let text = |key: &str| metadata.get(key).and_then(Value::as_str).unwrap_or("?").to_owned();
    check.summary = format!("{}, {tokens} tokens", text("tokenizer.ggml.model"));
    if metadata.contains("tokenizer.ggml.pre") {
        check.summary += &format!(", pre-tokenizer {}", text("tokenizer.ggml.pre"));
    }
    check
}
