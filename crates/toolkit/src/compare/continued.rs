//! Agreement of greedy continuations over prompts of the text.

use std::{
    path::{Path, PathBuf},
    sync::atomic::Ordering,
};

use gguf_runtime::{
    Model,
    continuations::{CONTINUATION_TOKENS, Continuations, PROMPT_TOKENS, tokens_before_difference},
    stats::Estimate,
};

use crate::{
    error::Error,
    eval_model::{of_model, warn_of_length},
    events::Events,
    progress_line::ProgressLine,
};

/// A base and the others, with their paths.
pub struct Models<'a> {
    pub base: (&'a Path, &'a Model),
    pub paths: &'a [PathBuf],
    pub others: &'a [Model],
}

/// The agreement of each of the others with the base.
pub fn continuations(
    models: &Models<'_>,
    prompts: &[Vec<u32>],
    events: &dyn Events,
) -> Result<Vec<Continuations>, Error> {
    let Models { base: (base_path, base), paths, others } = *models;
    others.iter().for_each(|model| warn_of_length(model, PROMPT_TOKENS + CONTINUATION_TOKENS, events));
    let cancel = events.cancel();
    let go_on = || !cancel.load(Ordering::Relaxed);
    let mut progress = ProgressLine::new("prompts", prompts.len());
    let mut found = vec![Vec::with_capacity(prompts.len()); others.len()];
    for (index, prompt) in prompts.iter().enumerate() {
        let n_equal = tokens_before_difference(base, others, prompt, &go_on)
            .map_err(|error| of_model(base_path, paths, error))?
            .ok_or_else(Error::interrupted)?;
        found.iter_mut().zip(n_equal).for_each(|(found, n)| found.push(n));
        progress.update(events, index + 1, || {
            let means = found.iter().map(|found| Estimate::mean(found.iter().map(|n| *n as f64)).value);
            let means: Vec<String> = means.map(|mean| format!("{mean:.1}")).collect();
            format!("tokens before difference {}", means.join(", "))
        });
    }
    Ok(found.iter().map(|found| Continuations::of(found)).collect())
}
