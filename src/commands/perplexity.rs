//! `gguf-eval perplexity FILE --text F`: how well a model predicts a text.

use std::{path::PathBuf, time::Instant};

use clap::{ArgMatches, Args, FromArgMatches};
use eval::{
    chunks::{Settings, chunks_of_text},
    perplexity::{Perplexity, measure},
};
use serde_json::json;

use super::shared::{
    eval_model::{RunArgs, at, open, tokens, warn_of_length},
    progress_line::ProgressLine,
};
use crate::{commands::Command, failure::Failure, ui::Ui};

/// The row of [`super::COMMANDS`].
pub const COMMAND: Command = Command {
    binary: "gguf-eval",
    verb: Some("perplexity"),
    define: |command| {
        PerplexityArgs::augment_args(command)
            .about("Measures how well a model predicts a text: the lower, the better.")
            .after_help(EXAMPLES)
    },
    ui: |matches| Ui { quiet: matches.get_flag("quiet"), verbose: false },
    run,
};

const EXAMPLES: &str = "\
Examples:
  gguf-eval perplexity model-Q4_K_M.gguf --text wiki.test.raw
  gguf-eval perplexity model.gguf --text wiki.test.raw --windows 20 --json
  gguf-eval perplexity model.gguf --text wiki.test.raw --context 2048
  gguf-eval perplexity model-Q4_K_M.gguf --text wiki.test.raw --activations rounded

By the definition of llama-perplexity: the text is cut into windows, the second half of each is
counted. llama-perplexity rounds activations to 8 bits before multiplying them with quantized weights;
here they stay f32, so figures of quantized files are a little lower. --activations rounded does as it does.";

#[derive(Debug, Args)]
struct PerplexityArgs {
    /// A GGUF file; of a split model, one of its shards.
    file: PathBuf,
    /// The text, as a file.
    #[arg(short = 'f', long, value_name = "FILE")]
    text: PathBuf,
    /// Tokens in a window.
    #[arg(short, long, value_name = "N", default_value_t = 512, alias = "ctx-size", value_parser = clap::value_parser!(u32).range(4..))]
    context: u32,
    /// Windows to measure at most.
    #[arg(short = 'n', long, value_name = "N", alias = "chunks", value_parser = clap::value_parser!(u32).range(1..))]
    windows: Option<u32>,
    /// Let windows begin so many tokens apart, and count the last so many of each.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    stride: Option<u32>,
    /// The result as one JSON object.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    run: RunArgs,
}

fn run(matches: &ArgMatches, ui: &Ui) -> Result<(), Failure> {
    let args = PerplexityArgs::from_arg_matches(matches).map_err(Failure::usage)?;
    let settings = Settings {
        context: args.context as usize,
        n_chunks: args.windows.map(|n| n as usize),
        stride: args.stride.map(|n| n as usize),
    };
    settings.check().map_err(Failure::usage)?;
    let model = open(&args.file, &args.run, ui)?;
    let tokens = tokens(&model, &args.text)?;
    let start = Instant::now();
    let chunks = chunks_of_text(&model, &tokens, &settings).map_err(|error| at(&args.text, error))?;
    warn_of_length(&model, chunks.first().map_or(0, |chunk| chunk.tokens.len()), ui);
    let mut progress = ProgressLine::new("windows", chunks.len());
    let mut watch = |figures: &Perplexity| {
        progress.update(ui, figures.n_chunks, || format!("{:.4}", figures.value()));
    };
    let figures = measure(&model, &tokens, &settings, &mut watch).map_err(|error| at(&args.file, error))?;
    let n_tokens = figures.n_chunks * settings.context;
    ui.status(&format!("{:.1} tokens a second", n_tokens as f64 / start.elapsed().as_secs_f64()));
    let text = if args.json {
        let value = json!({
            "file": args.file.display().to_string(),
            "text": args.text.display().to_string(),
            "architecture": model.architecture(),
            "activations": args.run.activations.unwrap_or_default().name(),
            "context": args.context,
            "stride": args.stride,
            "windows": figures.n_chunks,
            "tokens_counted": figures.count,
            "perplexity": figures.value(),
            "perplexity_error": figures.error(),
            "mean_log_loss": figures.mean(),
        });
        format!("{value:#}\n")
    } else {
        let error = figures.error().map_or(String::new(), |error| format!(" ± {error:.4}"));
        format!(
            "perplexity {:.4}{error} ({} windows of {})\n",
            figures.value(),
            figures.n_chunks,
            args.context
        )
    };
    ui.data(&text)
}
