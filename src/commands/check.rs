//! `gguf-eval check FILE --baseline B.json`: comparison of a file with an earlier measurement.

use std::{
    fs::OpenOptions,
    io::Write,
    path::{Path, PathBuf},
};

use clap::Args;

use gguf_toolkit::{
    Text,
    check::{self, CheckOptions, Checked, Verdict},
};

use super::shared::{cpu_level::cpu_level, eval_args::RunArgs, outputs::write_result};
use crate::{
    commands::Command,
    failure::Failure,
    ui::{ERROR, GOOD, Ui},
};

/// The row of [`super::COMMANDS`].
pub const COMMAND: Command = Command {
    verb: Some("check"),
    about: "Fail if a model is worse than a saved baseline",
    define: CheckArgs::augment_args,
    run: |matches, ui| run(Command::args(matches)?, ui),
    ..Command::of("gguf-eval")
};

#[derive(Debug, Args)]
struct CheckArgs {
    /// GGUF file, or any shard of a split model.
    #[arg(value_name = "MODEL")]
    file: PathBuf,
    /// Compare with the baseline in FILE (JSON).
    #[arg(long, value_name = "FILE")]
    baseline: PathBuf,
    /// Read the text from FILE.
    #[arg(short = 'f', long, value_name = "FILE")]
    text: PathBuf,
    /// Use MODEL as the base.
    ///
    /// This is the GGUF file from which the checked file was made. The KL divergence from it is checked instead of the
    /// perplexity.
    #[arg(long, value_name = "MODEL")]
    base: Option<PathBuf>,
    /// Accept a base with other weights than that of the baseline.
    ///
    /// Use it if the model was trained again. The divergence of the file from its base is compared with the divergence in the
    /// baseline, by chunks of the same text. The file is worse only if the mean difference exceeds two standard errors (more
    /// below ten chunks), too.
    #[arg(long, requires = "base", conflicts_with = "save", hide_short_help = true)]
    new_base: bool,
    /// Write the baseline instead of comparing with it.
    #[arg(long)]
    save: bool,
    /// Overwrite existing outputs.
    #[arg(long)]
    force: bool,
    /// Set the context length, in tokens.
    ///
    /// Use with --save (default: 512). Otherwise the value in the baseline is used.
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(4..))]
    context: Option<u32>,
    /// Read at most N chunks of the text.
    ///
    /// Use with --save. Otherwise the value in the baseline is used.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    chunks: Option<u32>,
    /// Allow perplexity to rise by PERCENT.
    ///
    /// Default: the margin in the baseline. With --save, it is 0.1, or no limit if there is a --base.
    #[arg(long, value_name = "PERCENT", value_parser = percent, hide_short_help = true)]
    perplexity_margin: Option<f64>,
    /// Allow the KL divergence to rise by PERCENT.
    ///
    /// Default: the margin in the baseline, or 2 with --save.
    #[arg(long, value_name = "PERCENT", value_parser = percent, hide_short_help = true)]
    divergence_margin: Option<f64>,
    /// Append the result to FILE as a table in Markdown.
    ///
    /// In GitHub Actions, `--markdown "$GITHUB_STEP_SUMMARY"` shows it in the summary of the job.
    #[arg(long, value_name = "FILE", conflicts_with = "save")]
    markdown: Option<PathBuf>,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    run: RunArgs,
}

fn percent(text: &str) -> Result<f64, String> {
    match text.trim_end_matches('%').parse::<f64>() {
        Ok(percent) if percent.is_finite() && percent >= 0.0 => Ok(percent),
        _ => Err("expected a percentage of 0 or more".to_owned()),
    }
}

fn run(args: CheckArgs, ui: &Ui) -> Result<(), Failure> {
    cpu_level()?;
    let options = CheckOptions {
        file: args.file,
        baseline: args.baseline,
        text: Text::File(args.text),
        base: args.base,
        new_base: args.new_base,
        save: args.save,
        force: args.force,
        context: args.context,
        chunks: args.chunks,
        perplexity_margin: args.perplexity_margin,
        divergence_margin: args.divergence_margin,
        threads: args.run.threads,
        activations: args.run.activations,
    };
    let report = match check::check(&options, ui)? {
        Checked::Saved(saved) => {
            write_result(&options.baseline, saved.json.as_bytes(), options.force)?;
            let line = format!("saved {}: {}\n", options.baseline.display(), saved.summary);
            return ui.data(if args.json { &saved.json } else { &line });
        }
        Checked::Compared(report) => report,
    };
    if args.json {
        ui.json(&report)?;
    } else {
        ui.styled_data(&report.metrics.iter().map(styled).collect::<String>())?;
    }
    if let Some(path) = &args.markdown {
        append(path, &check::markdown(&options.file, &report))?;
    }
    report.verdict(&options.file)
}

fn append(path: &Path, text: &str) -> Result<(), Failure> {
    let file = OpenOptions::new().create(true).append(true).open(path);
    let written = file.and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|error| Failure::at(path, format_args!("cannot write: {error}")))
}

fn styled(verdict: &Verdict) -> String {
    let style = if verdict.is_worse { ERROR } else { GOOD };
    match verdict.word() {
        // Neither good nor bad.
        "-" => format!("- {}\n", verdict.lines()),
        word => format!("{style}{word}:{style:#} {}\n", verdict.lines()),
    }
}
