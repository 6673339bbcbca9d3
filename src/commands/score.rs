//! `gguf-eval score FILE --hellaswag F`: how often a model finds the right ending.

use std::path::PathBuf;

use clap::{ArgGroup, Args};
use gguf_toolkit::{Model, ScoreOptions, TaskFile, TaskFormat, run::Scored};
use serde_json::json;

use super::shared::eval_args::{LoraArgs, RunArgs, options};
use crate::{commands::Command, failure::Failure, ui::Ui};

/// The row of [`super::COMMANDS`].
pub const COMMAND: Command = Command {
    verb: Some("score"),
    about: "Score a model on HellaSwag, Winogrande or multiple-choice tasks",
    define: |command| {
        ScoreArgs::augment_args(command)
            .override_usage("gguf-eval score [OPTIONS] --hellaswag FILE <FILE> [FILES]...")
            .group(
                ArgGroup::new("format").args(["hellaswag", "winogrande", "multiple_choice"]).required(true),
            )
    },
    run: |matches, ui| run(Command::args(matches)?, ui),
    ..Command::of("gguf-eval")
};

#[derive(Debug, Args)]
struct ScoreArgs {
    /// GGUF file, or any shard of a split model.
    file: PathBuf,
    /// Other files to compare with the first one.
    ///
    /// Each result has the difference of its accuracy from that of the first file. The standard error is that of paired
    /// differences, because all files answer the same tasks.
    files: Vec<PathBuf>,
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
    /// It includes every answer. Results of several files are a list.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    adapters: LoraArgs,
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
    let options = options(&args.run, &args.adapters)?;
    // Before the first one runs.
    let open = |file| {
        let model = Model::open_with(file, &options, ui)?;
        model.check_predicts()?;
        Ok(model)
    };
    let models: Vec<Model> =
        [&args.file].into_iter().chain(&args.files).map(open).collect::<Result<_, Failure>>()?;
    let mut all: Vec<Scored> = Vec::new();
    for model in &models {
        let scored = model.score(&tasks, ui)?;
        let scored = if let Some(first) = all.first() { scored.compared_with(first)? } else { scored };
        all.push(scored);
    }
    match (&all[..], args.json) {
        ([one], true) => ui.data(&format!("{:#}\n", json!(one))),
        ([one], false) => ui.data(&(one.line() + "\n")),
        (_, true) => ui.data(&format!("{:#}\n", json!(all))),
        (_, false) => all.iter().try_for_each(|scored| ui.data(&(scored.line_of_list() + "\n"))),
    }
}
