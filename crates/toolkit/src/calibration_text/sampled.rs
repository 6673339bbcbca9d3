//! Text that the model writes itself: samples from its distribution, from the beginning of a text.

use std::sync::atomic::Ordering;

use gguf_runtime::{
    Model,
    generate::{End, Sampler, Sampling, Turns},
};

use crate::{error::Error, eval_model::of_open, events::Events, progress_line::ProgressLine};

/// Samples at temperature 1 in chunks of `length` tokens, at least `n_tokens` in all.
///
/// Each chunk begins with BOS. A sample that ends before the end of its chunk is followed by EOS, BOS and another one. The seed of a
/// chunk is its number, so the same model gives the same text on every machine.
///
/// # Errors
/// A model without BOS or that cannot be run; an interruption.
pub fn chunks(
    model: &Model,
    n_tokens: usize,
    length: usize,
    events: &dyn Events,
) -> Result<Vec<Vec<u32>>, Error> {
    let tokenizer = model.tokenizer();
    let Some(bos) = tokenizer.bos().or_else(|| tokenizer.eos()) else {
        return Err(Error::new("the model has no BOS token, so texts cannot be drawn from it")
            .hint(["pass a text, or `builtin`"]));
    };
    let cancel = events.cancel();
    let n_chunks = n_tokens.div_ceil(length);
    let mut progress = ProgressLine::new("sampled chunks", n_chunks);
    let mut chunks = Vec::with_capacity(n_chunks);
    for seed in 0..n_chunks {
        let sampling =
            Sampling { temperature: 1.0, top_k: 0, top_p: 1.0, seed: seed as u64, ..Sampling::default() };
        let mut sampler = Sampler::new(sampling);
        let mut chunk = Vec::with_capacity(length);
        while chunk.len() < length {
            chunk.push(bos);
            let n_left = length - chunk.len();
            let mut go_on = |_| !cancel.load(Ordering::Relaxed);
            let turn = Turns::default()
                .generate(model, &[bos], n_left, &mut sampler, &mut go_on)
                .map_err(|error| of_open(model, error))?;
            if turn.end == End::Interrupted {
                return Err(Error::interrupted());
            }
            chunk.extend(turn.tokens);
            // A text that ended has room for its end.
            chunk.extend(tokenizer.eos().filter(|_| turn.end == End::Stop));
        }
        chunks.push(chunk);
        progress.update(events, seed + 1, String::new);
    }
    Ok(chunks)
}
