//! Perplexity of a model on a text.

use std::{path::PathBuf, time::Instant};

use gguf_container::PartNumber;
use gguf_runtime::{
    Options,
    chunks::{Settings, part_chunks, text_chunks},
    perplexity::{Perplexity, predict},
};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::{
    digest::sha256_of,
    error::Error,
    eval_model::{open, tokens, warn_of_length},
    events::Events,
    outputs::check_outputs,
    part_file::{self, NewPart, PartFile, n_counted},
    progress_line::ProgressLine,
};

/// The verb in part files.
pub const VERB: &str = "perplexity";

/// Options of a measurement.
#[derive(Debug, Clone, Default)]
pub struct PerplexityOptions {
    /// The GGUF file. None only with `merge`.
    pub file: Option<PathBuf>,
    /// The text. None only with `merge`.
    pub text: Option<PathBuf>,
    /// Chunks of the text.
    pub chunks: Settings,
    /// Overwrite an existing `output`.
    pub force: bool,
    /// Options for running the model.
    pub run: Options,
    /// Part of the text to measure.
    pub part: Option<PartNumber>,
    /// File for the result of the part.
    pub output: Option<PathBuf>,
    /// Files of all parts of a run, instead of a measurement.
    pub merge: Vec<PathBuf>,
    /// Folder for results whose file cannot be written.
    pub rescue: PathBuf,
}

/// Facts about a run that do not affect its metrics.
#[derive(Debug, Serialize, Deserialize)]
struct RunFacts {
    file: String,
    text: String,
    architecture: String,
}

/// Measures how well a model predicts a text; none for a part of a run, which is written to `output`.
///
/// # Errors
/// Invalid options, a file or text that cannot be read, a text that is too short.
pub fn perplexity_of_file(args: &PerplexityOptions, events: &dyn Events) -> Result<Option<Measured>, Error> {
    let (Some(file), Some(text)) = (&args.file, &args.text) else { return merge(args).map(Some) };
    let settings = &args.chunks;
    settings.check().map_err(Error::usage)?;
    check_outputs(args.output.as_slice(), &[file, text], args.force)?;
    let model = open(file, &args.run, events)?;
    let tokens = tokens(&model, text, events)?;
    let start = Instant::now();
    let chunks = text_chunks(&model, &tokens, settings).map_err(|error| Error::at(text, error))?;
    warn_of_length(&model, chunks.first().map_or(0, |chunk| chunk.tokens.len()), events);
    let range = match args.part {
        Some(part) => part_chunks(&[&model], &chunks, part),
        None => 0..chunks.len(),
    };
    let mut progress = ProgressLine::new("chunks", range.end);
    let (mut perplexity, mut found) = (Perplexity::default(), Vec::new());
    predict(&model, &chunks, range.clone(), &mut |target, log_probability| {
        perplexity.add(log_probability);
        if args.part.is_some() {
            found.extend(log_probability.to_le_bytes());
        }
        if target.is_last {
            perplexity.n_chunks += 1;
            progress.update(events, range.start + perplexity.n_chunks, || {
                format!("perplexity {:.4}", perplexity.value())
            });
        }
    })
    .map_err(|error| Error::at(file, error))?;
    let n_tokens = perplexity.n_chunks * settings.context;
    events.status(&format!("speed {:.1} tokens/s", n_tokens as f64 / start.elapsed().as_secs_f64()));
    let facts = RunFacts {
        file: file.display().to_string(),
        text: text.display().to_string(),
        architecture: model.architecture().to_owned(),
    };
    let activations = args.run.activations;
    if let (Some(number), Some(output)) = (args.part, &args.output) {
        let part = NewPart {
            verb: VERB,
            number,
            windows: range,
            n_windows: chunks.len(),
            run: json!({
                "model": gguf_refinement::fingerprint(&model),
                "text": sha256_of(text)?,
                "context": settings.context,
                "stride": settings.stride,
                "predictions in a chunk": n_counted(&chunks),
                "activations": activations.name(),
            }),
            facts: serde_json::to_value(&facts).map_err(Error::new)?,
        };
        part.write(output, &found, (args.force, &args.rescue), events)?;
        return Ok(None);
    }
    let (activations, context, stride) = (activations.name().to_owned(), settings.context, settings.stride);
    Ok(Some(Measured { facts, activations, context, stride, perplexity }))
}

/// Metrics of all parts together.
fn merge(args: &PerplexityOptions) -> Result<Measured, Error> {
    let parts = part_file::open_all(&args.merge, VERB)?;
    let perplexity = perplexity_of(&parts)?;
    let activations: String = parts[0].setting("activations")?;
    let (context, stride) = (parts[0].setting("context")?, parts[0].setting("stride")?);
    Ok(Measured { facts: parts[0].facts()?, activations, context, stride, perplexity })
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
#[derive(Debug)]
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
            "windows": perplexity.n_chunks,
            "tokens_counted": perplexity.count,
            "perplexity": perplexity.value(),
            "perplexity_error": perplexity.error(),
            "mean_log_loss": perplexity.mean(),
        })
    }

    /// The result in a line.
    pub fn line(&self) -> String {
        let Measured { context, perplexity, .. } = self;
        let error = perplexity.error().map_or(String::new(), |error| format!(" ± {error:.4}"));
        let value = perplexity.value();
        format!("perplexity {value:.4}{error} ({} chunks of {context})", perplexity.n_chunks)
    }
}
