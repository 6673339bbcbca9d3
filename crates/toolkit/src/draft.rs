//! Acceptance of a draft model's tokens by its target.

use std::{fmt::Write as _, path::PathBuf, sync::atomic::Ordering, time::Instant};

use gguf_runtime::{
    chunks::{Settings, text_chunks},
    draft::{Acceptance, DraftModel, Estimate, Limits, write},
    stats,
};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::{
    error::Error,
    eval_model::{open, warn_of_length},
    events::Events,
    input_kind::{self, Wanted},
    progress_line::ProgressLine,
    run::{RunOptions, Text},
};

/// Options of a measurement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DraftOptions {
    /// The model that a draft proposes tokens for: a GGUF file, or any shard of a split model.
    pub target: PathBuf,
    /// The draft model: a small model with the same tokens, or a model that reads states of the target.
    pub draft: PathBuf,
    /// The text whose chunks are the prompts.
    pub text: Text,
    /// Chunks of the text. Each of them is a prompt.
    pub chunks: Settings,
    /// Number of tokens to generate after each prompt, at least 1. An end-of-text token ends it early; the last step may exceed it.
    pub n_tokens: usize,
    /// Number of tokens to propose in a step, at least 1. Drafts that propose blocks are limited to the length of a block.
    pub n_proposed: usize,
    /// Options for running both models.
    pub run: RunOptions,
}

impl Default for DraftOptions {
    fn default() -> Self {
        DraftOptions {
            target: PathBuf::new(),
            draft: PathBuf::new(),
            text: Text::default(),
            chunks: Settings::default(),
            n_tokens: 128,
            n_proposed: 8,
            run: RunOptions::default(),
        }
    }
}

/// Continues the chunks of a text by greedy decoding with a draft, and counts the proposed tokens that the target accepts.
///
/// # Errors
/// [`Cause::Evaluation`](crate::Cause::Evaluation) for invalid options, for files that cannot be run or do not belong together,
/// and for a text of fewer than two chunks; a text that cannot be read; an interruption.
///
/// # Examples
/// ```no_run
/// use gguf_toolkit::{DraftOptions, Text, draft};
///
/// # fn main() -> Result<(), gguf_toolkit::Error> {
/// let options = DraftOptions {
///     target: "Llama-3.1-8B-Instruct-Q4_K_M.gguf".into(),
///     draft: "EAGLE3-Llama-3.1-8B-Instruct-Q8_0.gguf".into(),
///     text: Text::file("prompts.txt"),
///     ..Default::default()
/// };
/// let measured = draft(&options, &())?;
/// println!("{}", measured.listing());
/// # Ok(())
/// # }
/// ```
pub fn draft(options: &DraftOptions, events: &dyn Events) -> Result<Measured, Error> {
    options.chunks.check().map_err(Error::usage)?;
    for (name, n) in
        [("number of tokens", options.n_tokens), ("number of proposed tokens", options.n_proposed)]
    {
        if n == 0 {
            return Err(Error::usage(format!("{name}: expected 1 or more, found 0")));
        }
    }
    let DraftOptions { target: target_path, draft: draft_path, text, chunks, run, .. } = options;
    let runtime_options = run.of_runtime();
    let target = open(target_path, &runtime_options, events)?;
    let draft = DraftModel::open(draft_path, &target, &runtime_options);
    let failed = |error| input_kind::explained(draft_path, Wanted::Gguf, Error::at(draft_path, error));
    let draft = draft.map_err(failed)?;
    let tokens = text.tokens(target_path, &target, events)?;
    let chunks = text_chunks(&target, &tokens, chunks).map_err(|error| text.failed(target_path, error))?;
    let n_prompt = chunks.first().map_or(0, |chunk| chunk.tokens.len());
    warn_of_length(&target, n_prompt.saturating_add(options.n_tokens), events);
    if let Some(id) = draft.differing_token() {
        events.warning(format!(
            "{}: token {id} differs between the draft and its target; the draft may belong to another model",
            draft_path.display()
        ));
    }
    if let Some(most) = draft.most_tokens().filter(|most| *most < options.n_proposed) {
        events
            .warning(format!("{}: the draft proposes at most {most} tokens in a step", draft_path.display()));
    }

    let cancel = events.cancel();
    let _guard = events.ends_soon(Box::new(Error::interrupted));
    let limits = Limits { n_tokens: options.n_tokens, n_proposed: options.n_proposed };
    let (mut acceptance, mut n_written) = (Acceptance::default(), 0);
    let mut progress = ProgressLine::new("chunks", chunks.len());
    let start = Instant::now();
    for (i, chunk) in chunks.iter().enumerate() {
        let written = write(&target, &draft, &chunk.tokens, limits, &mut || !cancel.load(Ordering::Relaxed))
            .map_err(|error| Error::at(target_path, error))?;
        if cancel.load(Ordering::Relaxed) {
            return Err(Error::interrupted());
        }
        n_written += written.tokens.len();
        acceptance.add(written.steps);
        progress.update(events, i + 1, || {
            acceptance.mean().map_or(String::new(), |mean| format!("{:.3} accepted per step", mean.value))
        });
    }
    events.status(format!("speed {:.1} tokens/s", n_written as f64 / start.elapsed().as_secs_f64()));
    Ok(Measured {
        facts: Facts {
            target: target_path.display().to_string(),
            draft: draft_path.display().to_string(),
            architecture: target.architecture().to_owned(),
            draft_architecture: draft.architecture().to_owned(),
            reads_states: draft.reads_states(),
            text: text.name(),
            activations: run.activations.name().to_owned(),
            n_prompt,
            n_written,
            n_proposed: options.n_proposed,
        },
        acceptance,
    })
}

/// Facts about a run.
#[derive(Debug, Clone)]
struct Facts {
    target: String,
    draft: String,
    architecture: String,
    draft_architecture: String,
    reads_states: bool,
    text: String,
    activations: String,
    n_prompt: usize,
    n_written: usize,
    n_proposed: usize,
}

/// Result of a measurement.
#[derive(Debug, Clone)]
pub struct Measured {
    facts: Facts,
    /// The steps.
    pub acceptance: Acceptance,
}

impl Measured {
    /// All facts and metrics as JSON.
    pub fn json(&self) -> serde_json::Value {
        let Measured { facts, acceptance } = self;
        let mean = acceptance.mean();
        let positions = (0..acceptance.longest()).map(|position| {
            let at = acceptance.at(position);
            json!({
                "position": position + 1,
                "rate": at.map(|at| at.value),
                "rate_error": at.and_then(|at| at.error),
            })
        });
        json!({
            "target": facts.target,
            "draft": facts.draft,
            "architecture": facts.architecture,
            "draft_architecture": facts.draft_architecture,
            "draft_reads_states": facts.reads_states,
            "text": facts.text,
            "activations": facts.activations,
            "prompts": acceptance.n_texts(),
            "prompt_tokens": facts.n_prompt,
            "tokens_written": facts.n_written,
            "tokens_proposed_per_step": facts.n_proposed,
            "steps": acceptance.n_steps(),
            "accepted_per_step": mean.map(|mean| mean.value),
            "accepted_per_step_error": mean.and_then(|mean| mean.error),
            "tokens_per_step": mean.map(|mean| mean.value + 1.0),
            "acceptance_by_position": positions.collect::<Vec<_>>(),
        })
    }

    /// The result as text.
    pub fn listing(&self) -> String {
        let Measured { facts, acceptance } = self;
        let Some(mean) = acceptance.mean() else {
            return format!("no steps: all {} prompts end with an end-of-text token\n", acceptance.n_texts());
        };
        let mut out = format!(
            "accepted {} tokens per step, {:.4} written ({} steps, {} prompts of {} tokens)\n",
            shown(mean),
            mean.value + 1.0,
            acceptance.n_steps(),
            acceptance.n_texts(),
            facts.n_prompt
        );
        for position in 0..acceptance.longest() {
            if let Some(at) = acceptance.at(position) {
                let _ = writeln!(out, "position {:>2}  accepted {}", position + 1, shown(at));
            }
        }
        out
    }
}

/// A value with its standard error.
fn shown(estimate: Estimate) -> stats::Estimate {
    stats::Estimate { value: estimate.value, error: estimate.error.unwrap_or_default() }
}
