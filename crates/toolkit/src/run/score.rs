//! Accuracy of a model on tasks with several answers to choose from.

use std::path::{Path, PathBuf};

use gguf_runtime::{
    choice::{Answer, HellaSwag, MultipleChoice, Score, Tasks, Winogrande, accuracy_difference},
    stats::Estimate,
};
use serde::{Deserialize, Serialize};

use super::Model;
use crate::{
    error::Error, eval_model::warn_of_length, events::Events, progress_line::ProgressLine, text::printable,
    text_file,
};

/// Format of a file of tasks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum TaskFormat {
    /// HellaSwag: six lines for each task.
    #[default]
    Hellaswag,
    /// Winogrande: one line for each task.
    Winogrande,
    /// MMLU, ARC, TruthfulQA and others, in a binary file.
    MultipleChoice,
}

impl TaskFormat {
    /// The name in results.
    pub fn name(self) -> &'static str {
        match self {
            TaskFormat::Hellaswag => "hellaswag",
            TaskFormat::Winogrande => "winogrande",
            TaskFormat::MultipleChoice => "multiple-choice",
        }
    }
}

/// Options of a score.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ScoreOptions {
    /// File of tasks, as `llama-perplexity` reads it.
    pub tasks: PathBuf,
    /// Its format.
    pub format: TaskFormat,
    /// Number of randomly drawn tasks; `None` for all.
    pub n_tasks: Option<usize>,
}

/// Tasks that were read from a file.
pub struct TaskFile {
    path: PathBuf,
    format: TaskFormat,
    tasks: Box<dyn Tasks>,
}

impl TaskFile {
    /// Reads the tasks that `options` selects.
    ///
    /// # Errors
    /// A file that cannot be read, is invalid, or has no tasks.
    ///
    /// # Examples
    /// ```no_run
    /// use gguf_toolkit::{ScoreOptions, TaskFile};
    ///
    /// let options = ScoreOptions { tasks: "hellaswag_val_full.txt".into(), ..Default::default() };
    /// println!("{} tasks", TaskFile::open(&options, &())?.n_tasks());
    /// # Ok::<(), gguf_toolkit::Error>(())
    /// ```
    pub fn open(options: &ScoreOptions, events: &dyn Events) -> Result<TaskFile, Error> {
        let ScoreOptions { tasks: path, format, n_tasks } = options;
        let n_tasks = n_tasks.unwrap_or(usize::MAX);
        let bytes = match format {
            // Binary.
            TaskFormat::MultipleChoice => text_file::bytes(path)?,
            _ => text_file::of_model(path, events)?,
        };
        let failed = |error| Error::at(path, error);
        let tasks: Box<dyn Tasks> = match format {
            TaskFormat::Hellaswag => Box::new(HellaSwag::parse(&bytes, n_tasks).map_err(failed)?),
            TaskFormat::Winogrande => {
                let tasks = Winogrande::parse(&bytes, n_tasks);
                if tasks.n_passed_over() > 0 {
                    let n = tasks.n_passed_over();
                    events.warning(format!("{}: {n} lines are not valid tasks", path.display()));
                }
                Box::new(tasks)
            }
            TaskFormat::MultipleChoice => Box::new(MultipleChoice::parse(&bytes, n_tasks).map_err(failed)?),
        };
        if tasks.n_tasks() == 0 {
            return Err(Error::at(path, "no tasks"));
        }
        Ok(TaskFile { path: path.clone(), format: *format, tasks })
    }

    /// Number of tasks.
    pub fn n_tasks(&self) -> usize {
        self.tasks.n_tasks()
    }
}

/// Result of a score.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Scored {
    /// The model.
    file: String,
    /// Format of the tasks.
    format: &'static str,
    /// The file of tasks.
    tasks: String,
    /// The accuracy.
    pub score: Score,
    /// Difference of the accuracy from that of another model, if one was compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub difference: Option<Estimate>,
    /// Answer to each task, in order.
    pub answers: Vec<Answer>,
}

impl Scored {
    /// Adds the difference of the accuracy from that of `base`, which answered the same tasks. Its standard error is that of
    /// paired differences.
    ///
    /// # Errors
    /// Other tasks.
    pub fn compared_with(mut self, base: &Scored) -> Result<Scored, Error> {
        let tasks = |scored: &Scored| (scored.tasks.clone(), scored.format, scored.answers.len());
        if tasks(&self) != tasks(base) {
            return Err(Error::usage("the results are of different tasks"));
        }
        self.difference = Some(accuracy_difference(&base.answers, &self.answers));
        Ok(self)
    }

    /// The file and the result in a line, for a list of several.
    pub fn line_of_list(&self) -> String {
        let difference = self
            .difference
            .map_or(String::new(), |difference| format!(", difference {}", difference.percent()));
        format!("{}: {}{difference}", printable(&self.file), self.line())
    }

    /// The result in a line.
    pub fn line(&self) -> String {
        let Scored { format, score, .. } = self;
        let [low, high] = score.interval.map(|bound| bound * 100.0);
        format!(
            "{format} {} [{low:.2} %, {high:.2} %] ({} of {} tasks correct, {:.1} % by chance)",
            Estimate { value: score.accuracy, error: score.error }.percent(),
            score.n_right,
            score.n_tasks,
            score.chance * 100.0
        )
    }
}

impl Model {
    /// Fails unless the model predicts the next token, so that it can be scored.
    ///
    /// # Errors
    /// [`Cause::Evaluation`](crate::Cause::Evaluation).
    pub fn check_predicts(&self) -> Result<(), Error> {
        self.inner.need_next_token().map_err(|error| self.failed(error))
    }

    /// Accuracy of the model on tasks, computed as in `llama-perplexity`.
    ///
    /// # Errors
    /// [`Cause::Evaluation`](crate::Cause::Evaluation) for a model that does not predict the next token, for an invalid task, and
    /// for scores that are not finite.
    ///
    /// # Examples
    /// ```no_run
    /// use gguf_toolkit::{Model, RunOptions, ScoreOptions, TaskFile, TaskFormat};
    ///
    /// # fn main() -> Result<(), gguf_toolkit::Error> {
    /// let (tasks, format) = ("winogrande-debiased-eval.csv".into(), TaskFormat::Winogrande);
    /// let tasks = TaskFile::open(&ScoreOptions { tasks, format, ..Default::default() }, &())?;
    /// let model = Model::open("model.gguf", &RunOptions::default())?;
    /// println!("accuracy {:.4}", model.score(&tasks, &())?.score.accuracy);
    /// # Ok(())
    /// # }
    /// ```
    pub fn score(&self, file: &TaskFile, events: &dyn Events) -> Result<Scored, Error> {
        let TaskFile { path, format, tasks } = file;
        let mut answers: Vec<Answer> = Vec::new();
        let mut progress = ProgressLine::new("tasks", tasks.n_tasks());
        for index in 0..tasks.n_tasks() {
            let answer = tasks.answer(index, &self.inner).map_err(|error| match error {
                gguf_runtime::Error::Task { .. } => Error::at(path, error),
                error => self.failed(error),
            });
            answers.push(answer?);
            progress.update(events, index + 1, || {
                format!("accuracy {:.4} %", Score::of(&answers).accuracy * 100.0)
            });
        }
        let longest = answers.iter().map(|answer| answer.n_tokens).max().unwrap_or(0);
        warn_of_length(&self.inner, longest, events);
        let name = |path: &Path| path.display().to_string();
        let (file, tasks, score) = (name(&self.path), name(path), Score::of(&answers));
        Ok(Scored { file, format: format.name(), tasks, score, difference: None, answers })
    }
}
