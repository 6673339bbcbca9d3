//! `gguf-eval score FILE --hellaswag F`: how often a model finds the right ending.

use std::path::PathBuf;

use clap::{ArgGroup, Args};
use gguf_toolkit::{Model, ScoreOptions, TaskFile, TaskFormat};
use serde_json::json;

use super::shared::eval_args::{RunArgs, options};
use crate::{commands::Command, failure::Failure, ui::Ui};

/// The row of [`super::COMMANDS`].
pub const COMMAND: Command = Command {
    verb: Some("score"),
    about: "Score a model on HellaSwag, Winogrande or multiple-choice tasks",
    examples: EXAMPLES,
    define: |command| {
        ScoreArgs::augment_args(command)
            .override_usage("gguf-eval score [OPTIONS] --hellaswag FILE <FILE>")
            .group(
                ArgGroup::new("format").args(["hellaswag", "winogrande", "multiple_choice"]).required(true),
            )
    },
    run: |matches, ui| run(Command::args(matches)?, ui),
    ..Command::of("gguf-eval")
};

const EXAMPLES: &str = "\
Examples:
  gguf-eval score model.gguf --hellaswag hellaswag_val_full.txt --tasks 400
  gguf-eval score model.gguf --winogrande winogrande-debiased-eval.csv
  gguf-eval score model.gguf --multiple-choice mmlu-validation.bin --tasks 200 --json

File formats, order of tasks and scores are the same as in llama-perplexity. A HellaSwag task has
six lines: the context, the index of the correct ending (from 0), and four endings. A Winogrande
task is one line:
index,sentence with _,first,second,1 or 2 (the last line counts only if an empty line follows).
Multiple-choice files are binary.";

#[derive(Debug, Args)]
struct ScoreArgs {
    /// GGUF file, or any shard of a split model.
    file: PathBuf,
    /// Read HellaSwag tasks from FILE.
    #[arg(long, value_name = "FILE")]
    hellaswag: Option<PathBuf>,
    /// Read Winogrande tasks from FILE.
    #[arg(long, value_name = "FILE")]
    winogrande: Option<PathBuf>,
    /// Read multiple-choice tasks from FILE.
    ///
    /// MMLU, ARC, TruthfulQA and others.
    #[arg(long, value_name = "FILE")]
    multiple_choice: Option<PathBuf>,
    /// Run only N randomly drawn tasks.
    ///
    /// Default: all of them. llama-perplexity draws 400 HellaSwag tasks by default.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    tasks: Option<u32>,
    /// Print the result as JSON.
    ///
    /// It includes every answer.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    run: RunArgs,
}

fn run(args: ScoreArgs, ui: &Ui) -> Result<(), Failure> {
    let files = [
        (args.hellaswag, TaskFormat::Hellaswag),
        (args.winogrande, TaskFormat::Winogrande),
        (args.multiple_choice, TaskFormat::MultipleChoice),
    ];
    let file = files.into_iter().find_map(|(file, format)| Some((file?, format)));
    let (tasks, format) = file.ok_or_else(|| Failure::usage("missing task file"))?;
    let n_tasks = args.tasks.map(|tasks| tasks as usize);
    let tasks = TaskFile::open(&ScoreOptions { tasks, format, n_tasks }, ui)?;
    let scored = Model::open_with(&args.file, &options(&args.run)?, ui)?.score(&tasks, ui)?;
    match args.json {
        true => ui.data(&format!("{:#}\n", json!(scored))),
        false => ui.data(&(scored.line() + "\n")),
    }
}
