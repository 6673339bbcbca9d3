//! Gradients of the outputs of matrices, in addition to statistics of their inputs.

use std::path::Path;

use gguf_refinement::moments::{MomentsCache, Options, Plan, Texts, gather_outputs};
use gguf_runtime::Model;

use super::{
    gathered::{Folder, Progress},
    names::failed,
};
use crate::{error::Error, events::Events, text::human_bytes};

/// Folder inside that of the other statistics.
const FOLDER: &str = "gradients";

/// Tokens of the backward pass, at most about twice as many. More cost time and hardly help (`docs/notes/quality.md`).
const TOKENS: usize = 4096;

/// Memory for the sums of one output: 5,792 rows. Wider outputs gain less than their sums cost (`docs/notes/quality.md`).
const WIDEST_BYTES: u64 = 256 << 20;

/// Runs the model and its backward pass over chunks, or reads the result from the folder. None if the model
/// has no backward pass, which is reported.
///
/// # Errors
/// As [`super::gathered::gather`].
pub fn gather(
    model: &Model,
    base: &Path,
    texts: &Texts,
    folder: &Folder,
    events: &dyn Events,
) -> Result<Option<MomentsCache>, Error> {
    let texts = &texts.spread(TOKENS);
    // Wide inputs need many tokens, gradients of their matrices do not.
    let options = Options { least_per_column: 0.0, widest_bytes: WIDEST_BYTES, ..Options::default() };
    let of_base = |error| failed(base, error);
    let inputs = Plan::new(model, texts, &options).map_err(of_base)?;
    let plan = match inputs.plan_outputs(model, &options) {
        // Models that do not predict a next token have no backward pass either.
        Err(gguf_refinement::Error::Eval(
            error @ (gguf_runtime::Error::NoBackwardPass { .. }
            | gguf_runtime::Error::NoNextToken { .. }
            | gguf_runtime::Error::NoLogits { .. }),
        )) => {
            events.note(format!("rounding with input statistics alone: {error}"));
            return Ok(None);
        }
        plan => plan.map_err(of_base)?,
    };
    events.status(format!(
        "gradients over {} tokens: {} of memory{}, {} of statistics",
        texts.n_tokens(),
        human_bytes(plan.memory_bytes()),
        if plan.is_spilled {
            format!(" and {} of disk space", human_bytes(plan.state_bytes))
        } else {
            String::new()
        },
        human_bytes(plan.file_bytes),
    ));
    let path = folder.path.join(FOLDER);
    let open = || MomentsCache::open(&path, model, texts, &options, &plan);
    let mut moments = folder.opened(&path, open).map_err(of_base)?;
    let mut progress = Progress::new("steps of the backward pass", events);
    let gathered = gather_outputs(model, texts, &options, &plan, Some(&mut moments), &mut progress);
    gathered.map_err(|error| folder.stopped(base, error))?;
    Ok(Some(moments))
}
