//! Perplexity of a model on a text.

use std::{
    ops::Range,
    path::{Path, PathBuf},
    sync::atomic::Ordering,
    time::Instant,
};

use gguf_runtime::{
    Model,
    chunks::{Chunk, Settings, groups, part_chunks, text_chunks},
    perplexity::{Perplexity, predict},
    stats::Estimate,
};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::{
    error::Error,
    eval_model::{open, warn_of_length},
    events::Events,
    outputs::check_outputs,
    part_file::{self, NewPart, PartFile, PartOptions, n_counted, warn_if_empty},
    progress_line::ProgressLine,
    run::{RunOptions, Text},
};

/// The verb in part files.
pub const VERB: &str = "perplexity";

/// Options of a measurement.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PerplexityOptions {
    /// The GGUF file, or any shard of a split model.
    pub file: PathBuf,
    /// The text.
    pub text: Text,
    /// Chunks of the text.
    pub chunks: Settings,
    /// Options for running the model.
    pub run: RunOptions,
}

/// Facts about a run that do not affect its metrics.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct RunFacts {
    file: String,
    text: String,
    architecture: String,
}

/// A model and the chunks that it is measured on.
struct Opened {
    model: Model,
    chunks: Vec<Chunk>,
}

impl Opened {
    fn new(options: &PerplexityOptions, events: &dyn Events) -> Result<Opened, Error> {
        options.chunks.check().map_err(Error::usage)?;
        let PerplexityOptions { file, text, chunks, run } = options;
        let model = open(file, &run.of_runtime(), events)?;
        let tokens = text.tokens(file, &model, events)?;
        let chunks = text_chunks(&model, &tokens, chunks).map_err(|error| text.failed(file, error))?;
        warn_of_length(&model, chunks.first().map_or(0, |chunk| chunk.tokens.len()), events);
        Ok(Opened { model, chunks })
    }

    fn facts(&self, options: &PerplexityOptions) -> RunFacts {
        RunFacts {
            file: options.file.display().to_string(),
            text: options.text.name(),
            architecture: self.model.architecture().to_owned(),
        }
    }
}

/// The perplexity of a model on a text, by the reference's definition.
///
/// # Errors
/// [`Cause::Evaluation`](crate::Cause::Evaluation) for invalid options, for a file that cannot be run, and for a text of fewer
/// than two chunks; a text that cannot be read; an interruption.
///
/// # Examples
/// A test that a quantized file is nearly as good as the original:
/// ```no_run
/// use gguf_toolkit::{PerplexityOptions, Text, perplexity};
///
/// # fn main() -> Result<(), gguf_toolkit::Error> {
/// let mut options = PerplexityOptions { text: Text::file("wiki.test.raw"), ..Default::default() };
/// options.chunks.n_chunks = Some(20);
/// options.file = "model-bf16.gguf".into();
/// let exact = perplexity(&options, &())?.perplexity.value();
/// options.file = "model-q4_k_m.gguf".into();
/// let small = perplexity(&options, &())?.perplexity.value();
/// assert!(small / exact < 1.05);
/// # Ok(())
/// # }
/// ```
pub fn perplexity(options: &PerplexityOptions, events: &dyn Events) -> Result<Measured, Error> {
    let opened = Opened::new(options, events)?;
    let all = 0..opened.chunks.len();
    let perplexity = measure(options, &opened, all, &mut |_| {}, events)?;
    let settings = &options.chunks;
    Ok(Measured {
        facts: opened.facts(options),
        activations: options.run.activations.name().to_owned(),
        context: settings.context,
        stride: settings.stride,
        perplexity,
    })
}

/// Measures one part of the text, and writes the result to a file for [`merge_perplexity`].
///
/// # Errors
/// As [`perplexity`]; an output that cannot be written.
///
/// # Examples
/// ```no_run
/// use gguf_toolkit::{PerplexityOptions, Text, part_file::PartOptions, perplexity};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let text = Text::file("wiki.test.raw");
/// let options = PerplexityOptions { file: "model.gguf".into(), text, ..Default::default() };
/// perplexity::perplexity_part(&options, &PartOptions::new("2/8".parse()?, "2.part"), &())?;
/// # Ok(())
/// # }
/// ```
pub fn perplexity_part(
    options: &PerplexityOptions,
    part: &PartOptions,
    events: &dyn Events,
) -> Result<(), Error> {
    let settings = &options.chunks;
    settings.check().map_err(Error::usage)?;
    let inputs: Vec<&Path> = [options.file.as_path()].into_iter().chain(options.text.path()).collect();
    check_outputs(&[&part.output], &inputs, part.force)?;
    let opened = Opened::new(options, events)?;
    let Opened { model, chunks } = &opened;
    let range = part_chunks(&[model], chunks, part.number);
    warn_if_empty(part.number, &range, events);
    let mut found = Vec::new();
    let mut add = |log_probability: f64| found.extend(log_probability.to_le_bytes());
    measure(options, &opened, range.clone(), &mut add, events)?;
    let new = NewPart {
        verb: VERB,
        windows: range,
        n_windows: chunks.len(),
        run: json!({
            "model": gguf_refinement::fingerprint(model),
            "text": options.text.sha256()?,
            "context": settings.context,
            "stride": settings.stride,
            "predictions in a chunk": n_counted(chunks),
            "activations": options.run.activations.name(),
        }),
        facts: serde_json::to_value(opened.facts(options)).map_err(Error::new)?,
    };
    new.write(&found, part, events)
}

/// The result of all parts of a run: exactly that of a single run.
///
/// # Errors
/// A part that is missing, damaged, or of another run.
///
/// # Examples
/// ```no_run
/// let parts = ["1.part".into(), "2.part".into()];
/// println!("{}", gguf_toolkit::perplexity::merge_perplexity(&parts)?.line());
/// # Ok::<(), gguf_toolkit::Error>(())
/// ```
pub fn merge_perplexity(parts: &[PathBuf]) -> Result<Measured, Error> {
    let parts = part_file::open_all(parts, VERB)?;
    let perplexity = perplexity_of(&parts)?;
    let Some(first) = parts.first() else { return Err(Error::usage("missing parts")) };
    Ok(Measured {
        facts: first.facts()?,
        activations: first.setting("activations")?,
        context: first.setting("context")?,
        stride: first.setting("stride")?,
        perplexity,
    })
}

/// Runs the chunks in `range`, with progress and speed; `found` receives the natural logarithm of each probability in the order
/// of the text.
fn measure(
    options: &PerplexityOptions,
    opened: &Opened,
    range: Range<usize>,
    found: &mut dyn FnMut(f64),
    events: &dyn Events,
) -> Result<Perplexity, Error> {
    let start = Instant::now();
    let perplexity = measure_chunks(&opened.model, &opened.chunks, range, found, events)
        .map_err(|failure| failure.at(&options.file))?;
    let n_tokens = perplexity.n_chunks * options.chunks.context;
    events.status(format!("speed {:.1} tokens/s", n_tokens as f64 / start.elapsed().as_secs_f64()));
    Ok(perplexity)
}

/// The end of a measurement before its last chunk.
pub(crate) enum Stopped {
    Cancelled,
    Failed(gguf_runtime::Error),
}

impl Stopped {
    /// The error about the model at `path`.
    pub fn at(self, path: &Path) -> Error {
        match self {
            Stopped::Cancelled => Error::interrupted(),
            Stopped::Failed(error) => Error::at(path, error),
        }
    }
}

/// Perplexity of the chunks in `range`, which is a range of whole groups ([`groups`]).
pub(crate) fn measure_chunks(
    model: &Model,
    chunks: &[Chunk],
    range: Range<usize>,
    found: &mut dyn FnMut(f64),
    events: &dyn Events,
) -> Result<Perplexity, Stopped> {
    let cancel = events.cancel();
    // Nothing is lost if the process ends in the middle of a group, which may take minutes.
    let _guard = events.ends_soon(Box::new(Error::interrupted));
    let mut progress = ProgressLine::new("chunks", range.end);
    let mut perplexity = Perplexity::default();
    // A single run has these groups, so stopping between them changes no result.
    let own = groups(&[model], chunks).filter(|group| range.start <= group.start && group.end <= range.end);
    for group in own {
        if cancel.load(Ordering::Relaxed) {
            return Err(Stopped::Cancelled);
        }
        predict(model, chunks, group, &mut |target, log_probability| {
            perplexity.add(log_probability);
            found(log_probability);
            if target.is_last {
                perplexity.n_chunks += 1;
                progress.update(events, range.start + perplexity.n_chunks, || {
                    format!("perplexity {:.4}", perplexity.value())
                });
            }
        })
        .map_err(Stopped::Failed)?;
    }
    Ok(perplexity)
}

/// Metrics of parts: their predictions are added in the order of the text, as in a single run.
///
/// # Errors
/// A part that does not match its header.
pub fn perplexity_of(parts: &[PartFile]) -> Result<Perplexity, Error> {
    let mut perplexity = Perplexity::default();
    for part in parts {
        let n_counted: usize = part.setting("predictions in a chunk")?;
        for found in part.payload_of(n_counted.saturating_mul(8))?.as_chunks::<8>().0 {
            perplexity.add(f64::from_le_bytes(*found));
        }
        perplexity.n_chunks += part.header.windows.len();
    }
    Ok(perplexity)
}

/// Result of a measurement.
#[derive(Debug, Clone)]
pub struct Measured {
    facts: RunFacts,
    activations: String,
    context: usize,
    stride: Option<usize>,
    /// The metrics.
    pub perplexity: Perplexity,
}

impl Measured {
    /// All facts and metrics.
    pub fn json(&self) -> serde_json::Value {
        let Measured { facts, activations, context, stride, perplexity } = self;
        json!({
            "file": facts.file,
            "text": facts.text,
            "architecture": facts.architecture,
            "activations": activations,
            "context": context,
            "stride": stride,
            "chunks": perplexity.n_chunks,
            "tokens_counted": perplexity.count,
            "perplexity": perplexity.value(),
            "perplexity_error": perplexity.error(),
            "mean_log_loss": perplexity.mean(),
        })
    }

    /// The result in a line.
    pub fn line(&self) -> String {
        let Measured { context, perplexity, .. } = self;
        let found = Estimate { value: perplexity.value(), error: perplexity.error().unwrap_or_default() };
        format!("perplexity {found} ({} chunks of {context})", perplexity.n_chunks)
    }
}
