//! Loss of quantization: KL divergence of models from their base.

mod continued;
mod listing;
mod options;

use std::{
    ops::Range,
    path::{Path, PathBuf},
    sync::atomic::Ordering,
};

use gguf_container::Value;
use gguf_conversion::recipes::CALIBRATION_KEY;
use gguf_runtime::{
    Activations, Model,
    chunks::{Chunk, text_chunks},
    compare::{Base, Step, file_chunks, run as run_chunks},
    continuations::prompts,
    logits_file::{Layout, LogitsFile, Writer},
    report::{FileReport, Passage, Report, csv, html, kl_by_place, labels, passage},
    stats::{Comparison, Estimate, Position},
    tensor_error,
};
use serde::{Deserialize, Serialize};
use serde_json::json;

use self::continued::Models;
pub use self::{listing::listing, options::CompareOptions};
use crate::{
    error::Error,
    eval_model::{of_model, open, warn_of_few_chunks, warn_of_length},
    events::Events,
    file_type::stated_file_type,
    outputs::{check_outputs, write_result},
    part_file::{self, NewPart, PartFile, PartOptions, n_counted, warn_if_empty},
    progress_line::ProgressLine,
    run::Text,
    text_file,
    vocabularies::{Named, warn_of_difference},
};
use gguf_types::words;

/// The verb in part files.
pub const VERB: &str = "compare";

/// Facts about a run that do not affect its metrics.
#[derive(Serialize, Deserialize)]
pub struct RunFacts {
    base: String,
    base_bytes: Option<u64>,
    architecture: String,
    text: Option<String>,
    files: Vec<FileFacts>,
}

#[derive(Serialize, Deserialize)]
struct FileFacts {
    file: String,
    bytes: u64,
    bits_per_weight: f64,
    #[serde(default)]
    file_type: Option<String>,
    #[serde(default)]
    calibration: Option<String>,
}

/// The opened base.
enum Opened {
    Model(Box<Model>),
    Logits(LogitsFile),
}

/// The chunks to run.
struct Plan {
    /// Tokens of the text, without the BOS that chunks start with. Empty if the base is a file of logits.
    tokens: Vec<u32>,
    chunks: Vec<Chunk>,
    /// Prompts that are continued greedily.
    prompts: Vec<Vec<u32>>,
    /// The chunks of this run, by index.
    range: Range<usize>,
    text: Option<String>,
    context: usize,
}

/// Measurements over the text.
struct Predictions {
    /// The positions of each of the others.
    positions: Vec<Vec<Position>>,
    /// Result of saving the base's logits, if requested.
    saved: Result<(), Error>,
}

/// The models of a comparison, and the chunks that they read.
struct Run<'a> {
    args: &'a CompareOptions,
    base: Opened,
    others: Vec<Model>,
    plan: Plan,
}

impl<'a> Run<'a> {
    fn open(
        args: &'a CompareOptions,
        part: Option<&PartOptions>,
        events: &dyn Events,
    ) -> Result<Run<'a>, Error> {
        let output = part.map(|part| &part.output);
        let outputs: Vec<_> =
            args.html.iter().chain(&args.csv).chain(&args.save_logits).chain(output).collect();
        let text = args.text.as_ref().and_then(Text::path);
        let inputs = [args.base.as_path()].into_iter().chain(args.files.iter().map(PathBuf::as_path));
        let force = args.force || part.is_some_and(|part| part.force);
        check_outputs(&outputs, &inputs.chain(text).collect::<Vec<_>>(), force)?;
        let options = args.run.of_runtime();
        let base = if LogitsFile::is_one(&args.base) {
            Opened::Logits(LogitsFile::open(&args.base).map_err(|error| Error::at(&args.base, error))?)
        } else {
            Opened::Model(Box::new(open(&args.base, &options, events)?))
        };
        check(args, &base, part.is_some())?;
        let others: Vec<Model> =
            args.files.iter().map(|path| open(path, &options, events)).collect::<Result<_, Error>>()?;
        if let Opened::Model(model) = &base {
            let base = Named { path: &args.base, model };
            for (path, model) in args.files.iter().zip(&others) {
                warn_of_difference(base, Named { path, model }, events);
            }
        }
        if let Some(text) = text {
            for (path, model) in args.files.iter().zip(&others) {
                text_file::warn_of_dataset(path, model.file().metadata(), text, events);
            }
        }
        let plan = plan(args, part, &base, &others, events)?;
        if !(others.is_empty() || plan.chunks.is_empty()) {
            warn_of_few_chunks(plan.chunks.len(), events);
            others.iter().for_each(|model| warn_of_length(model, plan.context, events));
        }
        Ok(Run { args, base, others, plan })
    }
}

/// Compares models with their base. [`Compared::finish`] writes the page and the table.
///
/// # Errors
/// Invalid options, a file or text that cannot be read, files with different vocabularies, an interruption.
///
/// # Examples
/// ```no_run
/// use gguf_toolkit::{CompareOptions, Text, compare};
///
/// # fn main() -> Result<(), gguf_toolkit::Error> {
/// let options = CompareOptions {
///     base: "model-bf16.gguf".into(),
///     files: vec!["model-q8_0.gguf".into(), "model-q4_k_m.gguf".into()],
///     text: Some(Text::file("wiki.test.raw")),
///     ..Default::default()
/// };
/// for file in compare(&options, &())?.report.files {
///     if let Some(found) = file.predictions {
///         println!("{}: KL divergence {:.5} nats", file.file, found.kl.value);
///     }
/// }
/// # Ok(())
/// # }
/// ```
pub fn compare(args: &CompareOptions, events: &dyn Events) -> Result<Compared, Error> {
    let run = Run::open(args, None, events)?;
    let Predictions { positions: found, saved } = predictions(&run, events)?;
    let Run { base, others, plan, .. } = &run;
    let mut tensors = Vec::new();
    for (path, other) in args.files.iter().zip(others) {
        tensors.push(match base {
            Opened::Model(base) if args.tensors || args.html.is_some() => {
                let progress = events.progress(base.file().tensor_bytes());
                let done = |bytes| progress.add(bytes);
                let found = base.install(|| tensor_error::compare(base.file(), other.file(), &done));
                Some(found.map_err(|error| Error::at(path, error))?)
            }
            _ => None,
        });
    }
    let continuations = match base {
        Opened::Model(model) if !plan.prompts.is_empty() => {
            let models = Models { base: (&args.base, model), paths: &args.files, others };
            continued::continuations(&models, &plan.prompts, events)?
        }
        _ => Vec::new(),
    };
    let activations = args.run.activations;
    let measured =
        Measured { found, k: args.top_tokens, context: plan.context, chunks: plan.chunks.len(), activations };
    let passages = if args.html.is_some() { passages(&run, &measured.found) } else { Vec::new() };
    let mut compared = Compared::new(facts(&run), measured, tensors, saved);
    for (file, passage) in compared.report.files.iter_mut().zip(passages) {
        file.passage = passage;
    }
    for (file, found) in compared.report.files.iter_mut().zip(continuations) {
        file.continuations = Some(found);
    }
    Ok(compared)
}

/// The chunk of each file that differs most from the base.
fn passages(Run { others, plan, .. }: &Run<'_>, found: &[Vec<Position>]) -> Vec<Option<Passage>> {
    let of_file = |(other, positions): (&Model, &Vec<Position>)| {
        passage(positions, plan.chunks.len(), |chunk| texts(other, &plan.chunks[chunk].targets))
    };
    others.iter().zip(found).map(of_file).collect()
}

/// The text of each token. A character that several tokens make is replaced.
fn texts(model: &Model, tokens: &[u32]) -> Vec<String> {
    let decoded = |n: usize| model.tokenizer().decode(&tokens[..n]).unwrap_or_default();
    let mut before = decoded(0).len();
    let text = |n: usize| {
        let all = decoded(n);
        let own = all.get(before..).unwrap_or_default();
        before = all.len();
        String::from_utf8_lossy(own).into_owned()
    };
    (1..=tokens.len()).map(text).collect()
}

fn calibration(model: &Model) -> Option<String> {
    let stated = model.file().metadata().get(CALIBRATION_KEY).and_then(Value::as_str);
    stated.map(str::to_owned)
}

/// Measures one part of the text, and writes the result to a file for [`merge_comparison`].
///
/// # Errors
/// As [`compare`]; an output that cannot be written.
///
/// # Examples
/// ```no_run
/// use gguf_toolkit::{CompareOptions, Text, compare, part_file::PartOptions};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let options = CompareOptions {
///     base: "model-bf16.gguf".into(),
///     files: vec!["model-q4_k_m.gguf".into()],
///     text: Some(Text::file("wiki.test.raw")),
///     ..Default::default()
/// };
/// compare::compare_part(&options, &PartOptions::new("2/8".parse()?, "2.part"), &())?;
/// # Ok(())
/// # }
/// ```
pub fn compare_part(args: &CompareOptions, part: &PartOptions, events: &dyn Events) -> Result<(), Error> {
    let run = Run::open(args, Some(part), events)?;
    let found = predictions(&run, events)?.positions;
    let new = NewPart {
        verb: VERB,
        windows: run.plan.range.clone(),
        n_windows: run.plan.chunks.len(),
        run: what_decides(&run)?,
        facts: serde_json::to_value(facts(&run)).map_err(Error::new)?,
    };
    let bytes: Vec<u8> = found.iter().flatten().flat_map(Position::to_bytes).collect();
    new.write(&bytes, part, events)
}

/// Measurements and their settings.
struct Measured {
    /// The positions of each of the others.
    found: Vec<Vec<Position>>,
    k: u32,
    context: usize,
    chunks: usize,
    activations: Activations,
}

/// Result of a comparison.
#[derive(Debug)]
#[must_use = "`finish` writes the page and the table, and reports whether the logits were saved"]
pub struct Compared {
    /// Metrics of each file.
    pub report: Report,
    saved: Result<(), Error>,
}

impl Compared {
    fn new(
        facts: RunFacts,
        measured: Measured,
        tensors: Vec<Option<tensor_error::FileError>>,
        saved: Result<(), Error>,
    ) -> Compared {
        let Measured { found, k, context, chunks, activations } = measured;
        let file = |(index, (facts, tensors)): (usize, (FileFacts, _))| {
            let positions = found.get(index).map_or(&[][..], Vec::as_slice);
            let (kl_by_position, kl_by_chunk) = kl_by_place(positions, chunks);
            FileReport {
                file: facts.file,
                bytes: facts.bytes,
                bits_per_weight: facts.bits_per_weight,
                predictions: (!positions.is_empty()).then(|| Comparison::of(positions, k as usize)),
                kl_difference: None,
                kl_by_position,
                kl_by_chunk,
                continuations: None,
                tensors,
                file_type: facts.file_type,
                calibration: facts.calibration,
                passage: None,
            }
        };
        let report = Report {
            base: facts.base,
            base_bytes: facts.base_bytes,
            architecture: facts.architecture,
            text: facts.text,
            activations: activations.name(),
            context,
            chunks,
            files: facts.files.into_iter().zip(tensors).enumerate().map(file).collect(),
        };
        Compared { report: report.with_differences(), saved }
    }

    /// Reports whether the logits were saved, and writes the page and the table that were requested. Called after the report was
    /// printed, so that a failed file does not lose it.
    ///
    /// # Errors
    /// A file that could not be written.
    pub fn finish(self, args: &CompareOptions, events: &dyn Events) -> Result<(), Error> {
        self.saved?;
        let page = args.html.as_ref().map(|path| (path, html(&self.report)));
        let table = args.csv.as_ref().map(|path| (path, Ok(csv(&self.report))));
        for (path, text) in page.into_iter().chain(table) {
            let text = text.map_err(|error| Error::new(error.to_string()))?;
            write_result(path, text.as_bytes(), args.force, &args.rescue)?;
            events.status(format!("wrote {}", path.display()));
        }
        Ok(())
    }
}

fn facts(Run { args, base, others, plan }: &Run<'_>) -> RunFacts {
    let (base_bytes, architecture) = match base {
        Opened::Model(model) => (Some(model.file().file_bytes()), model.architecture().to_owned()),
        Opened::Logits(_) => (None, others.first().map_or("", Model::architecture).to_owned()),
    };
    let file = |(path, other): (&PathBuf, &Model)| FileFacts {
        file: path.display().to_string(),
        bytes: other.file().file_bytes(),
        bits_per_weight: other.file().bits_per_weight(),
        file_type: stated_file_type(other.file().metadata()).map(str::to_owned),
        calibration: calibration(other),
    };
    RunFacts {
        base: args.base.display().to_string(),
        base_bytes,
        architecture,
        text: plan.text.clone(),
        files: args.files.iter().zip(others).map(file).collect(),
    }
}

/// Settings that the metrics of a run depend on, for its parts.
fn what_decides(Run { args, base, others, plan }: &Run<'_>) -> Result<serde_json::Value, Error> {
    let base = match base {
        Opened::Model(model) => gguf_refinement::fingerprint(model),
        Opened::Logits(_) => part_file::fingerprint_of_file(&args.base)?,
    };
    Ok(json!({
        "base": base,
        "files": others.iter().map(gguf_refinement::fingerprint).collect::<Vec<_>>(),
        "text": args.text.as_ref().map(Text::sha256).transpose()?,
        "context": plan.context,
        "predictions in a chunk": n_counted(&plan.chunks),
        "top_k": args.top_tokens,
        "activations": args.run.activations.name(),
    }))
}

/// Facts about the parts and the positions of each file, in the order of a single run.
///
/// # Errors
/// A part that does not match its header.
pub fn positions_of(parts: &[PartFile]) -> Result<(RunFacts, Vec<Vec<Position>>), Error> {
    let Some(first) = parts.first() else { return Err(Error::usage("missing parts")) };
    let facts: RunFacts = first.facts()?;
    let mut found: Vec<Vec<Position>> = vec![Vec::new(); facts.files.len()];
    for part in parts {
        let n_counted: usize = part.setting("predictions in a chunk")?;
        let window_bytes = n_counted.saturating_mul(Position::STORED_BYTES).saturating_mul(found.len());
        // (n_files, windows of the part, n_counted).
        let positions = part.payload_of(window_bytes)?.as_chunks().0;
        let of_a_file = part.header.windows.len() * n_counted;
        for (found, positions) in found.iter_mut().zip(positions.chunks(of_a_file.max(1))) {
            found.extend(positions.iter().map(Position::from_bytes));
        }
    }
    Ok((facts, found))
}

/// The result of all parts of a run: exactly that of a single run. The only options that matter are those about outputs.
///
/// # Errors
/// A part that is missing, damaged, or of another run.
///
/// # Examples
/// ```no_run
/// use gguf_toolkit::{CompareOptions, compare};
///
/// let parts = ["1.part".into(), "2.part".into()];
/// let compared = compare::merge_comparison(&parts, &CompareOptions::default())?;
/// print!("{}", compare::listing(&compared.report, false, true));
/// # Ok::<(), gguf_toolkit::Error>(())
/// ```
pub fn merge_comparison(parts: &[PathBuf], args: &CompareOptions) -> Result<Compared, Error> {
    let outputs: Vec<_> = args.html.iter().chain(&args.csv).collect();
    check_outputs(&outputs, parts, args.force)?;
    let parts = part_file::open_all(parts, VERB)?;
    let (facts, found) = positions_of(&parts)?;
    let Some(first) = parts.first() else { return Err(Error::usage("missing parts")) };
    let measured = Measured {
        found,
        k: first.setting("top_k")?,
        context: first.setting("context")?,
        chunks: first.header.n_windows,
        activations: first.setting("activations")?,
    };
    let tensors = facts.files.iter().map(|_| None).collect();
    Ok(Compared::new(facts, measured, tensors, Ok(())))
}

/// Refuses options without files or outputs, and those that the base does not support.
fn check(args: &CompareOptions, base: &Opened, is_part: bool) -> Result<(), Error> {
    let is_saved = matches!(base, Opened::Logits(_));
    if args.files.is_empty() && args.save_logits.is_none() {
        return Err(Error::usage("missing files to compare with the base"));
    }
    if is_saved && (args.tensors || args.save_logits.is_some() || args.text.is_some()) {
        let message = "the base is a logits file, which includes its text and has no tensors";
        return Err(Error::usage(message).hint([words!("omit [-tensors], [-save-logits] and [-text]")]));
    }
    if let Some(n) = args.continuations {
        if n == 0 {
            return Err(Error::usage("continuations: expected 1 or more prompts"));
        }
        if is_saved || is_part || args.text.is_none() || args.files.is_empty() {
            let message =
                "greedy continuations need a base model, files and a text, and are not measured in parts";
            return Err(Error::usage(message));
        }
    }
    if is_part && args.files.is_empty() {
        return Err(Error::usage("missing files to compare with the base"));
    }
    if !is_saved && args.text.is_none() && !args.tensors {
        return Err(Error::usage("missing text")
            .hint([words!("pass a text with [-text], or compare only tensors with [-tensors]")]));
    }
    Ok(())
}

fn plan(
    args: &CompareOptions,
    part: Option<&PartOptions>,
    base: &Opened,
    others: &[Model],
    events: &dyn Events,
) -> Result<Plan, Error> {
    let plan = |tokens, chunks: Vec<Chunk>, text, context| {
        let all = 0..chunks.len();
        let range = match (part.map(|part| part.number), base) {
            (None, _) => all,
            (Some(part), Opened::Model(model)) => Base::Model(model).part_chunks(others, &chunks, part),
            (Some(part), Opened::Logits(file)) => Base::File(file).part_chunks(others, &chunks, part),
        };
        if let Some(part) = part.filter(|_| !chunks.is_empty()) {
            warn_if_empty(part.number, &range, events);
        }
        Plan { tokens, chunks, prompts: Vec::new(), range, text, context }
    };
    let settings = &args.chunks;
    match (base, &args.text, others.first()) {
        (Opened::Logits(file), _, Some(other)) => {
            let chunks =
                file_chunks(other, file, settings.n_chunks).map_err(|error| Error::at(&args.base, error))?;
            Ok(plan(Vec::new(), chunks, None, file.layout().context))
        }
        (Opened::Model(model), Some(text), _) => {
            let tokens = text.tokens(&args.base, model, events)?;
            let chunks =
                text_chunks(model, &tokens, settings).map_err(|error| text.failed(&args.base, error))?;
            let n_prompts = args.continuations.unwrap_or(0);
            let prompts =
                prompts(model, &tokens, n_prompts).map_err(|error| text.failed(&args.base, error))?;
            Ok(Plan { prompts, ..plan(tokens, chunks, Some(text.name()), settings.context) })
        }
        _ => Ok(plan(Vec::new(), Vec::new(), None, settings.context)),
    }
}

fn predictions(run: &Run<'_>, events: &dyn Events) -> Result<Predictions, Error> {
    let Run { args, base, others, plan } = run;
    if plan.chunks.is_empty() {
        return Ok(Predictions { positions: Vec::new(), saved: Ok(()) });
    }
    let base = match base {
        Opened::Model(model) => Base::Model(model),
        Opened::Logits(file) => Base::File(file),
    };
    let writer = match (&args.save_logits, &base) {
        (Some(path), Base::Model(model)) => Some(create(path, model, plan, args.force)?),
        _ => None,
    };
    let cancel = events.cancel();
    let mut progress = ProgressLine::new("chunks", plan.range.end);
    let paths: Vec<String> = args.files.iter().map(|path| path.display().to_string()).collect();
    let names = labels(&paths.iter().map(String::as_str).collect::<Vec<_>>());
    let metric = |found: &[Vec<Position>]| {
        let mean = |found: &Vec<Position>| Estimate::mean(found.iter().map(|p| p.kl)).value;
        let means = found.iter().map(|found| format!("{:.5}", mean(found)));
        match &names[..] {
            [_] => format!("KL divergence {}", means.collect::<String>()),
            names => {
                let named = names.iter().zip(means).map(|(name, mean)| format!("{name} {mean}"));
                format!("KL divergence {}", named.collect::<Vec<_>>().join(", "))
            }
        }
    };
    let mut watch = |step: Step<'_>| {
        if let Step::Compared { n_chunks, found } = step {
            progress.update(events, n_chunks, || metric(found));
        }
        !cancel.load(Ordering::Relaxed)
    };
    let k = args.top_tokens as usize;
    let found = run_chunks(&base, others, (&plan.chunks, plan.range.clone()), k, writer.as_ref(), &mut watch)
        .map_err(|error| of_model(&args.base, &args.files, error))?;
    if cancel.load(Ordering::Relaxed) {
        return Err(Error::interrupted());
    }
    let saved = match (writer, &args.save_logits) {
        (Some(writer), Some(path)) => writer.finish().map_err(|error| Error::at(path, error)),
        _ => Ok(()),
    };
    if let (Ok(()), Some(path)) = (&saved, &args.save_logits) {
        events.status(format!("wrote {}", path.display()));
    }
    Ok(Predictions { positions: found, saved })
}

/// Creates the file of the base's predictions.
fn create(path: &Path, model: &Model, plan: &Plan, force: bool) -> Result<Writer, Error> {
    let layout = Layout { context: plan.context, n_vocab: model.n_vocab(), n_chunks: plan.chunks.len() };
    let tokens = &plan.tokens[..plan.context * plan.chunks.len()];
    Writer::create(path, layout, tokens, force).map_err(|error| Error::at(path, error))
}
