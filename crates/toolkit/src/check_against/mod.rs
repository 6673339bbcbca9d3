//! Comparison of a GGUF file with the original model: finds out why a converted model behaves differently.
//!
//! The original is known by a [`record`], which Python writes where the model is in memory. The comparison reports which part is
//! responsible for a difference, in the order in which text passes through a model:
//!
//! 1. **Tokenizer.** Special tokens, tokens around a text, token ids of texts.
//! 2. **Template.** Prompts of conversations.
//! 3. **Weights.** The rows of each tensor, from the record or from the checkpoint.
//! 4. **Graph.** Hyperparameters, and predictions for the token ids of the record, so that a wrong tokenizer does not count as
//!    wrong weights. If predictions differ, the inputs of the products with weights show where the computation begins to differ.

mod logits;
mod prompts;
pub mod record;
mod report;
mod tokens;
mod weights;

use std::{collections::HashMap, num::NonZeroUsize, path::PathBuf};

use gguf_runtime::{Activations, Model};
use gguf_tokenizer::{Reading, Tokenizer};
use serde::{Deserialize, Serialize};

pub use self::{
    logits::{Bounds, Predictions, ProductInput},
    report::{CheckAgainstReport, Part, Responsible},
};
use self::{record::Record, weights::Expected};
use crate::{
    error::Error,
    eval_model,
    events::Events,
    input_kind::{self, Wanted},
    verify::{Check, Finding, Report, against},
};

/// Options of a comparison with an original model.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CheckAgainst {
    /// GGUF file, or any shard of a split model.
    pub file: PathBuf,
    /// JSON part of the record of the original.
    pub record: PathBuf,
    /// Folder with the checkpoint of the original. Its tensors replace the rows of the record.
    pub weights: Option<PathBuf>,
    /// Number of threads; `None` for one per core.
    pub threads: Option<NonZeroUsize>,
}

impl CheckAgainst {
    /// A comparison of a file with a record.
    pub fn new(file: impl Into<PathBuf>, record: impl Into<PathBuf>) -> CheckAgainst {
        CheckAgainst { file: file.into(), record: record.into(), ..CheckAgainst::default() }
    }

    /// Compares, and reports which part of the file differs.
    ///
    /// # Errors
    /// A file, record or checkpoint that cannot be read, an interruption. Differences are findings of the report.
    ///
    /// # Examples
    /// ```no_run
    /// use gguf_toolkit::check_against::CheckAgainst;
    ///
    /// # fn main() -> Result<(), gguf_toolkit::Error> {
    /// let report = CheckAgainst::new("tuned-q4_k_m.gguf", "tuned.record.json").run(&())?;
    /// print!("{}", report.text());
    /// assert!(report.is_same());
    /// # Ok(())
    /// # }
    /// ```
    pub fn run(&self, events: &dyn Events) -> Result<CheckAgainstReport, Error> {
        let file = gguf_container::Model::open(&self.file)
            .map_err(|error| input_kind::explained(&self.file, Wanted::Gguf, Error::at(&self.file, error)))?;
        let record = Record::open(&self.record)?;
        let mut report = Report::new(&self.file, false);
        tokenizer(&file, &record, &mut report)?;
        let expected = Expected::of(&record);
        self.weights(&file, &record, &expected, &mut report, events)?;
        let products = expected.as_ref().map(Expected::products).unwrap_or_default();
        let predictions = self.predictions(file, &record, &products, &mut report, events)?;
        Ok(CheckAgainstReport::new(report, predictions))
    }

    /// Compares hyperparameters and tensors.
    fn weights(
        &self,
        file: &gguf_container::Model,
        record: &Record,
        expected: &Result<Expected, String>,
        report: &mut Report,
        events: &dyn Events,
    ) -> Result<(), Error> {
        if let Ok(expected) = expected {
            report.push(expected.keys(file.metadata()));
        }
        report.push(match (&self.weights, expected) {
            (Some(checkpoint), _) => against::checkpoint_tensors(file, checkpoint, self.threads, events)?,
            (None, Ok(expected)) => expected.tensors(record, file)?,
            (None, Err(problem)) => Check::new("weights").skipped(problem),
        });
        Ok(())
    }

    fn predictions(
        &self,
        file: gguf_container::Model,
        record: &Record,
        products: &HashMap<String, String>,
        report: &mut Report,
        events: &dyn Events,
    ) -> Result<Option<Predictions>, Error> {
        if record.facts.sequences.is_empty() {
            report.push(Check::new("predictions").skipped("the record has no predictions"));
            return Ok(None);
        }
        let options = eval_model::options(self.threads, Activations::F32);
        let model = match Model::new(file, &options) {
            Ok(model) => model,
            Err(error) => {
                let mut check = Check::new("predictions");
                match error {
                    gguf_runtime::Error::UnknownArchitecture { .. }
                    | gguf_runtime::Error::DraftAlone { .. } => {
                        check = check.skipped(&error.to_string());
                    }
                    error => check.push(Finding::error("run", error)),
                }
                report.push(check);
                return Ok(None);
            }
        };
        let (check, predictions) = logits::check(&model, record, products, events)?;
        report.push(check);
        Ok(predictions)
    }
}

/// Compares special tokens, token ids and prompts.
fn tokenizer(file: &gguf_container::Model, record: &Record, report: &mut Report) -> Result<(), Error> {
    let metadata = file.metadata();
    let Some(special) = &record.facts.special else {
        report.push(Check::new("token ids").skipped("the record has no tokenizer"));
        return Ok(());
    };
    match Tokenizer::from_gguf(metadata).encoder(Reading::LlamaCpp) {
        Ok(tokenizer) => {
            report.push(tokens::special(metadata, &tokenizer, special));
            report.push(tokens::texts(metadata, &tokenizer, &record.facts.texts));
            report.push(prompts::check(metadata, &tokenizer, &record.facts)?);
        }
        Err(error) => {
            let mut check = Check::new("token ids");
            check.push(Finding::error("tokenizer", error));
            report.push(check);
        }
    }
    Ok(())
}
