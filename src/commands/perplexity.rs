//! `gguf-eval perplexity FILE --text F`: how well a model predicts a text.

use std::{path::PathBuf, time::Instant};

use clap::Args;
use eval::{
    chunks::{part_chunks, text_chunks},
    perplexity::{Perplexity, predict},
};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::shared::{
    digest::sha256_of,
    eval_model::{RunArgs, at, open, tokens, warn_of_length},
    outputs::check_outputs,
    part_file::{self, ChunkArgs, NewPart, PartArgs, PartFile, n_counted},
    progress_line::ProgressLine,
};
use crate::{commands::Command, failure::Failure, ui::Ui};

/// The row of [`super::COMMANDS`].
pub const COMMAND: Command = Command {
    verb: Some(VERB),
    about: "Measure the perplexity of a model on a text",
    examples: EXAMPLES,
    define: PerplexityArgs::augment_args,
    run: |matches, ui| run(Command::args(matches)?, ui),
    ..Command::of("gguf-eval")
};

pub(super) const VERB: &str = "perplexity";

const EXAMPLES: &str = "\
Examples:
  gguf-eval perplexity model-Q4_K_M.gguf --text wiki.test.raw
  gguf-eval perplexity model.gguf --text wiki.test.raw --chunks 20 --json
  gguf-eval perplexity model.gguf --text wiki.test.raw --context 2048
  gguf-eval perplexity model-Q4_K_M.gguf --text wiki.test.raw --activations rounded
  gguf-eval perplexity model.gguf --text wiki.test.raw --part 2/8 --output 2.part
  gguf-eval perplexity --merge *.part

Perplexity is computed as in llama-perplexity: the text is cut into chunks, and the second half of
each chunk is scored. llama-perplexity rounds activations to 8 bits before it multiplies them by quantized weights. gguf-eval keeps them in f32 unless --activations rounded is given, so the
perplexity of quantized files is slightly lower.";

#[derive(Debug, Args)]
struct PerplexityArgs {
    /// GGUF file, or any shard of a split model.
    #[arg(required_unless_present = "merge", conflicts_with = "merge")]
    file: Option<PathBuf>,
    /// Read the text from FILE.
    #[arg(
        short = 'f',
        long,
        value_name = "FILE",
        required_unless_present = "merge",
        conflicts_with = "merge"
    )]
    text: Option<PathBuf>,
    #[command(flatten)]
    chunks: ChunkArgs,
    /// Start a chunk every N tokens and score its last N.
    #[arg(long, value_name = "N", conflicts_with = "merge", value_parser = clap::value_parser!(u32).range(1..))]
    stride: Option<u32>,
    /// Overwrite existing outputs.
    #[arg(long, requires = "part", hide_short_help = true)]
    force: bool,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    run: RunArgs,
    #[command(flatten)]
    parts: PartArgs,
}

/// Facts about a run that do not affect its metrics.
#[derive(Serialize, Deserialize)]
struct RunFacts {
    file: String,
    text: String,
    architecture: String,
}

fn run(args: PerplexityArgs, ui: &Ui) -> Result<(), Failure> {
    let (Some(file), Some(text)) = (&args.file, &args.text) else { return merge(&args, ui) };
    let settings = args.chunks.settings(args.stride);
    settings.check().map_err(Failure::usage)?;
    check_outputs(args.parts.output.as_slice(), &[file, text], args.force)?;
    let model = open(file, &args.run, ui)?;
    let tokens = tokens(&model, text, ui)?;
    let start = Instant::now();
    let chunks = text_chunks(&model, &tokens, &settings).map_err(|error| at(text, error))?;
    warn_of_length(&model, chunks.first().map_or(0, |chunk| chunk.tokens.len()), ui);
    let range = match args.parts.part {
        Some(part) => part_chunks(&[&model], &chunks, part),
        None => 0..chunks.len(),
    };
    let mut progress = ProgressLine::new("chunks", range.end);
    let (mut perplexity, mut found) = (Perplexity::default(), Vec::new());
    predict(&model, &chunks, range.clone(), &mut |target, log_probability| {
        perplexity.add(log_probability);
        if args.parts.part.is_some() {
            found.extend(log_probability.to_le_bytes());
        }
        if target.is_last {
            perplexity.n_chunks += 1;
            progress.update(ui, range.start + perplexity.n_chunks, || {
                format!("perplexity {:.4}", perplexity.value())
            });
        }
    })
    .map_err(|error| at(file, error))?;
    let n_tokens = perplexity.n_chunks * settings.context;
    ui.status(&format!("speed {:.1} tokens/s", n_tokens as f64 / start.elapsed().as_secs_f64()));
    let facts = RunFacts {
        file: file.display().to_string(),
        text: text.display().to_string(),
        architecture: model.architecture().to_owned(),
    };
    let activations = args.run.activations.unwrap_or_default();
    if let (Some(number), Some(output)) = (args.parts.part, &args.parts.output) {
        let part = NewPart {
            verb: VERB,
            number,
            windows: range,
            n_windows: chunks.len(),
            run: json!({
                "model": refine::fingerprint(&model),
                "text": sha256_of(text)?,
                "context": args.chunks.context,
                "stride": args.stride,
                "predictions in a chunk": n_counted(&chunks),
                "activations": activations.name(),
            }),
            facts: serde_json::to_value(&facts).map_err(Failure::new)?,
        };
        return part.write(output, &found, args.force, ui);
    }
    print(&facts, activations.name(), (args.chunks.context, args.stride), &perplexity, args.json, ui)
}

/// Metrics of all parts together.
fn merge(args: &PerplexityArgs, ui: &Ui) -> Result<(), Failure> {
    let parts = part_file::open_all(&args.parts.merge, VERB)?;
    let perplexity = perplexity_of(&parts)?;
    let activations: String = parts[0].setting("activations")?;
    let cut = (parts[0].setting("context")?, parts[0].setting("stride")?);
    print(&parts[0].facts()?, &activations, cut, &perplexity, args.json, ui)
}

/// Metrics of parts: their predictions are added in the order of the text, as in a single run.
///
/// # Errors
/// A part that does not match its header.
pub(super) fn perplexity_of(parts: &[PartFile]) -> Result<Perplexity, Failure> {
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

fn print(
    facts: &RunFacts,
    activations: &str,
    (context, stride): (u32, Option<u32>),
    perplexity: &Perplexity,
    json: bool,
    ui: &Ui,
) -> Result<(), Failure> {
    let text = if json {
        let value = json!({
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
        });
        format!("{value:#}\n")
    } else {
        let error = perplexity.error().map_or(String::new(), |error| format!(" ± {error:.4}"));
        let value = perplexity.value();
        format!("perplexity {value:.4}{error} ({} chunks of {context})\n", perplexity.n_chunks)
    };
    ui.data(&text)
}
