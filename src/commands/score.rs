//! `gguf-eval score FILE --hellaswag F`: how often a model finds the right ending.

use std::path::PathBuf;

use clap::{ArgGroup, Args};
use gguf_runtime::choice::{Answer, HellaSwag, MultipleChoice, Score, Tasks, Winogrande};
use gguf_toolkit::{eval_model::warn_of_length, progress_line::ProgressLine, text_file};
use serde_json::json;

use super::shared::eval_args::{RunArgs, open};
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
    let n_tasks = args.tasks.map_or(usize::MAX, |tasks| tasks as usize);
    let read = |path: &PathBuf| text_file::of_model(path, ui);
    let (name, path, tasks): (&str, &PathBuf, Box<dyn Tasks>) =
        match (&args.hellaswag, &args.winogrande, &args.multiple_choice) {
            (Some(path), ..) => {
                let tasks =
                    HellaSwag::parse(&read(path)?, n_tasks).map_err(|error| Failure::at(path, error))?;
                ("hellaswag", path, Box::new(tasks))
            }
            (_, Some(path), _) => {
                let tasks = Winogrande::parse(&read(path)?, n_tasks);
                if tasks.n_passed_over() > 0 {
                    ui.warning(&format!(
                        "{}: {} lines are not valid tasks",
                        path.display(),
                        tasks.n_passed_over()
                    ));
                }
                ("winogrande", path, Box::new(tasks))
            }
            (.., Some(path)) => {
                let tasks =
                    MultipleChoice::parse(&read(path)?, n_tasks).map_err(|error| Failure::at(path, error))?;
                ("multiple-choice", path, Box::new(tasks))
            }
            _ => return Err(Failure::usage("missing task file")),
        };
    if tasks.n_tasks() == 0 {
        return Err(Failure::at(path, "no tasks"));
    }
    let model = open(&args.file, &args.run, ui)?;
    let mut answers: Vec<Answer> = Vec::new();
    let mut progress = ProgressLine::new("tasks", tasks.n_tasks());
    for index in 0..tasks.n_tasks() {
        answers.push(tasks.answer(index, &model).map_err(|error| Failure::at(path, error))?);
        progress.update(ui, index + 1, || format!("accuracy {:.4} %", Score::of(&answers).accuracy * 100.0));
    }
    warn_of_length(&model, answers.iter().map(|answer| answer.n_tokens).max().unwrap_or(0), ui);
    let score = Score::of(&answers);
    let text = if args.json {
        let value = json!({
            "file": args.file.display().to_string(),
            "format": name,
            "tasks": path.display().to_string(),
            "score": score,
            "answers": answers,
        });
        format!("{value:#}\n")
    } else {
        let [low, high] = score.interval.map(|bound| bound * 100.0);
        format!(
            "{name} {:.4} % ± {:.4} [{low:.4} %, {high:.4} %] ({} of {} tasks correct, {:.1} % by chance)\n",
            score.accuracy * 100.0,
            score.error * 100.0,
            score.n_right,
            score.n_tasks,
            score.chance * 100.0
        )
    };
    ui.data(&text)
}
