//! Agreement of greedy continuations over prompts of the text.

use std::sync::atomic::Ordering;

use gguf_runtime::{
    continuations::{CONTINUATION_TOKENS, Continuations, PROMPT_TOKENS, tokens_before_difference},
    stats::Estimate,
};

use super::{Opened, Run};
use crate::{
    error::Error,
    eval_model::{of_model, warn_of_length},
    events::Events,
    progress_line::ProgressLine,
};

/// The agreement of each of the others with the base; empty if it was not requested.
pub fn continuations(run: &Run<'_>, events: &dyn Events) -> Result<Vec<Continuations>, Error> {
    let Run { args, base, others, plan } = run;
    let prompts = &plan.prompts;
    let Opened::Model(base) = base else { return Ok(Vec::new()) };
    if prompts.is_empty() {
        return Ok(Vec::new());
    }
    let length = PROMPT_TOKENS + CONTINUATION_TOKENS;
    for model in others.iter().filter(|_| length > plan.context) {
        warn_of_length(model, length, events);
    }
    let cancel = events.cancel();
    let go_on = || !cancel.load(Ordering::Relaxed);
    let mut progress = ProgressLine::new("prompts", prompts.len());
    let mut found = vec![Vec::with_capacity(prompts.len()); others.len()];
    for (index, prompt) in prompts.iter().enumerate() {
        let n_equal = tokens_before_difference(base, others, prompt, &go_on)
            .map_err(|error| of_model(&args.base, &args.files, error))?
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
