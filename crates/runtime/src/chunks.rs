//! A text cut into chunks, and the logits of their counted positions in batches: the common part of
//! perplexity, divergence and importance.
//!
//! A text is cut into chunks of `context` tokens. The first token of each is replaced with BOS if the
//! tokenizer adds one. Only predictions from the middle of a chunk on are counted, so every counted token has
//! half a chunk of context.
//!
//! Source: `perplexity` and `perplexity_v2` in `tools/perplexity/perplexity.cpp` of llama.cpp
//! (llama-cpp-python 0.3.36).

use std::ops::Range;

use gguf_container::PartNumber;
use serde::{Deserialize, Serialize};

use crate::{Error, Hidden, Model, Observer, Sequence};

/// Parameters for cutting a text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Tokens in a chunk, 4 at least.
    pub context: usize,
    /// The number of chunks at most, 1 at least; `None` for all of the text.
    pub n_chunks: Option<usize>,
    /// Tokens from the start of one chunk to the start of the next, from 1 to `2 * context - 2`; `None` for chunks
    /// that do not overlap. With a stride, chunks are half a stride longer, rounded up to a multiple of 256, keep
    /// their first token, and only their last stride is counted.
    pub stride: Option<usize>,
}

impl Default for Settings {
    fn default() -> Self {
        Settings { context: 512, n_chunks: None, stride: None }
    }
}

/// The shortest chunk. The counted positions are `context / 2 .. context - 1`, because the last token
/// predicts one of the next chunk. 4 tokens give a single prediction, after BOS and two tokens; 2 tokens would not give
/// any.
pub const LEAST_CONTEXT: usize = 4;

/// The reference runs chunks with a stride in whatever context it has, and makes contexts a multiple of this
/// (`llama_context::llama_context`).
const CONTEXT_STEP: usize = 256;

impl Settings {
    /// Fails unless every number is in its range.
    ///
    /// # Errors
    /// [`Error::OutOfRange`].
    pub fn check(&self) -> Result<(), Error> {
        let wrong = |field, found: usize, expected: String| {
            Err(Error::OutOfRange { field, found: found.to_string(), expected })
        };
        if self.context < LEAST_CONTEXT {
            return wrong(
                "the number of tokens in a chunk",
                self.context,
                format!("{LEAST_CONTEXT} or more"),
            );
        }
        if self.n_chunks == Some(0) {
            return wrong("the number of chunks", 0, "1 or more".to_owned());
        }
        // A chunk of `context + stride / 2` tokens has room for a stride of counted ones and one before them as
        // long as `stride + 1 <= context + stride / 2`.
        let longest = self.context.saturating_mul(2) - 2;
        match self.stride {
            Some(stride) if stride == 0 || stride > longest => {
                wrong("the stride", stride, format!("from 1 to {longest}, twice the chunk length"))
            }
            _ => Ok(()),
        }
    }
}

/// A piece of a text, and its counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk {
    /// Its tokens; the first is the one that begins texts, if the tokenizer adds one.
    pub tokens: Vec<u32>,
    /// The positions whose predictions are counted.
    pub counted: Range<usize>,
    /// The token that each should predict.
    pub targets: Vec<u32>,
}

impl Chunk {
    /// Sequence for the model.
    pub fn sequence(&self) -> Sequence<'_> {
        Sequence { tokens: &self.tokens, outputs: self.counted.clone() }
    }
}

/// Cuts the tokens of a text (made with the special tokens added) into chunks, all of the same length.
///
/// # Errors
/// As [`Settings::check`]; [`Error::TooShort`] when there are fewer than two chunks' worth of tokens, as the
/// reference refuses it.
pub fn text_chunks(model: &Model, tokens: &[u32], settings: &Settings) -> Result<Vec<Chunk>, Error> {
    settings.check()?;
    let context = settings.context;
    let bos = model.tokenizer().added_bos();
    let (len, step, counted, n_chunks) = match settings.stride {
        None => (context, context, context / 2..context - 1, tokens.len() / context),
        Some(stride) => {
            let len = context.saturating_add(stride / 2).checked_next_multiple_of(CONTEXT_STEP);
            let len = len.unwrap_or(usize::MAX);
            let n_chunks = tokens.len().saturating_sub(len).div_ceil(stride);
            (len, stride, len - stride - 1..len - 1, n_chunks)
        }
    };
    let needed = len.saturating_mul(2);
    if tokens.len() < needed {
        return Err(Error::TooShort { found: tokens.len(), needed });
    }
    let n_chunks = settings.n_chunks.map_or(n_chunks, |requested| requested.min(n_chunks));
    let chunk = |i: usize| {
        let all = &tokens[i * step..i * step + len];
        let mut tokens = all.to_vec();
        // Chunks of the reference with a stride keep their first token: they overlap, and the token before it
        // is part of the text.
        if let (Some(bos), None) = (bos, settings.stride) {
            tokens[0] = bos;
        }
        // Position i predicts token i + 1, also where that token was replaced in the next chunk's input.
        Chunk { tokens, counted: counted.clone(), targets: all[counted.start + 1..=counted.end].to_vec() }
    };
    Ok((0..n_chunks).map(chunk).collect())
}

/// Number of chunks that run together: the minimum over the models.
fn chunks_at_once(models: &[&Model], context: usize) -> usize {
    models.iter().map(|model| model.sequences_at_once(context)).min().unwrap_or(1)
}

/// Groups of chunks that run together, in order. Running them one by one gives the same results as
/// one run, to the last bit.
pub fn groups(models: &[&Model], chunks: &[Chunk]) -> impl Iterator<Item = Range<usize>> + use<> {
    let at_once = chunks_at_once(models, chunks.first().map_or(1, |chunk| chunk.tokens.len()));
    groups_of(chunks.len(), at_once)
}

/// This many chunks in groups of `at_once`, the last with what is left.
fn groups_of(n_chunks: usize, at_once: usize) -> impl Iterator<Item = Range<usize>> + use<> {
    (0..n_chunks).step_by(at_once).map(move |first| first..first.saturating_add(at_once).min(n_chunks))
}

/// The chunks of one part of a measurement that several machines do.
///
/// Parts are complete groups of chunks that run together, the same groups that one run has: products of up to three rows add in
/// another order than those of more, so that other groups could give other last digits.
pub fn part_chunks(models: &[&Model], chunks: &[Chunk], part: PartNumber) -> Range<usize> {
    let at_once = chunks_at_once(models, chunks.first().map_or(1, |chunk| chunk.tokens.len()));
    let groups = part.range(chunks.len().div_ceil(at_once));
    let first = |group: usize| (group * at_once).min(chunks.len());
    first(groups.start)..first(groups.end)
}

/// Runs models over chunks, and hands out the rows of their counted positions a few at a time.
///
/// Chunks run together, so that each weight is decoded once for many tokens, and the logits of a batch are
/// computed on demand, so that several models can be compared row by row without a file of logits.
pub struct LogitBatches<'a> {
    models: Vec<&'a Model>,
    chunks: &'a [Chunk],
    /// End of the chunks to run.
    end: usize,
    chunks_at_once: usize,
    rows_at_once: usize,
    /// The chunks that were run last.
    group: Range<usize>,
    /// Hidden rows of each model: one per counted position.
    hidden: Vec<Hidden>,
    n_rows: usize,
    next_row: usize,
}

impl<'a> LogitBatches<'a> {
    /// Over those in `range` of chunks of equal length, which are counted through from the first of all. Batches are as
    /// small as the model with the longest rows needs them.
    pub fn new(models: Vec<&'a Model>, chunks: &'a [Chunk], range: Range<usize>) -> LogitBatches<'a> {
        let context = chunks.first().map_or(1, |chunk| chunk.tokens.len());
        let chunks_at_once = chunks_at_once(&models, context);
        let rows_at_once = models.iter().map(|model| model.logit_rows_at_once()).min().unwrap_or(1);
        LogitBatches {
            models,
            chunks,
            end: range.end.min(chunks.len()),
            chunks_at_once,
            rows_at_once,
            group: range.start..range.start,
            hidden: Vec::new(),
            n_rows: 0,
            next_row: 0,
        }
    }

    /// The next rows; `None` after the last chunk. `observer` sees every product of the forward pass, if one
    /// is run for these rows.
    pub fn next(&mut self, observer: Option<&mut dyn Observer>) -> Result<Option<LogitBatch<'_>>, Error> {
        self.next_watched(observer, &mut |_| true)
    }

    /// Like [`LogitBatches::next`]. `begins` receives the number of each model before it runs, and returns whether to
    /// continue; otherwise the result is `None`.
    pub fn next_watched(
        &mut self,
        mut observer: Option<&mut dyn Observer>,
        begins: &mut dyn FnMut(usize) -> bool,
    ) -> Result<Option<LogitBatch<'_>>, Error> {
        while self.next_row == self.n_rows {
            if self.group.end >= self.end {
                return Ok(None);
            }
            let end = (self.group.end + self.chunks_at_once).min(self.end);
            self.group = self.group.end..end;
            let sequences: Vec<Sequence<'_>> =
                self.chunks[self.group.clone()].iter().map(Chunk::sequence).collect();
            self.hidden.clear();
            for (index, model) in self.models.iter().enumerate() {
                if !begins(index) {
                    return Ok(None);
                }
                // A reborrow for each model: an observer is lent, not given.
                let observer = observer.as_mut().map(|observer| &mut **observer as &mut dyn Observer);
                self.hidden.push(model.run(&sequences, observer)?);
            }
            self.n_rows = sequences.iter().map(|sequence| sequence.outputs.len()).sum();
            self.next_row = 0;
        }
        let rows = self.next_row..(self.next_row + self.rows_at_once).min(self.n_rows);
        self.next_row = rows.end;
        Ok(Some(LogitBatch {
            models: &self.models,
            hidden: &self.hidden,
            chunks: &self.chunks[self.group.clone()],
            first_chunk: self.group.start,
            rows,
        }))
    }
}

/// Some rows of some chunks, for each of the models.
pub struct LogitBatch<'b> {
    models: &'b [&'b Model],
    hidden: &'b [Hidden],
    chunks: &'b [Chunk],
    first_chunk: usize,
    /// Rows of `hidden`.
    rows: Range<usize>,
}

/// The token that a row of a batch should predict, with its position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Target {
    /// Its chunk, from 0 over the entire text, including chunks that are not run.
    pub chunk: usize,
    /// Its place among the counted positions of the chunk, from 0.
    pub index: usize,
    /// The token that comes next in the text.
    pub token: u32,
    /// True if it is the last one of its chunk.
    pub is_last: bool,
}

impl LogitBatch<'_> {
    /// Target tokens of the rows, in order.
    pub fn targets(&self) -> impl ExactSizeIterator<Item = Target> + '_ {
        // All chunks have as many counted positions as the first.
        let n = self.chunks[0].counted.len();
        self.rows.clone().map(move |row| {
            let (chunk, index) = (row / n, row % n);
            Target {
                chunk: self.first_chunk + chunk,
                index,
                token: self.chunks[chunk].targets[index],
                is_last: index + 1 == n,
            }
        })
    }

    /// Chunks of which no further rows come after this batch.
    pub fn n_chunks_done(&self) -> usize {
        self.first_chunk + self.rows.end / self.chunks[0].counted.len()
    }

    /// Fills `logits` with what the model of number `model` predicts: (n_rows, n_vocab), row-major.
    pub fn logits(
        &self,
        model: usize,
        observer: Option<&mut dyn Observer>,
        logits: &mut Vec<f32>,
    ) -> Result<(), Error> {
        let (hidden, model) = (&self.hidden[model], self.models[model]);
        logits.resize(self.rows.len() * model.n_vocab(), 0.0);
        model.logits(hidden, self.rows.clone(), observer, logits)
    }
}

impl Model {
    /// The rows of the counted positions of chunks, batch by batch.
    pub fn logit_batches<'a>(&'a self, chunks: &'a [Chunk]) -> LogitBatches<'a> {
        LogitBatches::new(vec![self], chunks, 0..chunks.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_cover_all_chunks_in_order() {
        for (n_chunks, at_once) in [(0, 4), (1, 4), (4, 4), (9, 4), (70_000, 1), (5, usize::MAX)] {
            let mut end = 0;
            for group in groups_of(n_chunks, at_once) {
                assert_eq!(group.start, end);
                assert!(!group.is_empty() && group.len() <= at_once);
                end = group.end;
            }
            assert_eq!(end, n_chunks, "by {at_once}");
        }
    }

    #[test]
    fn numbers_out_of_range_are_refused() {
        let check = |context, n_chunks, stride| Settings { context, n_chunks, stride }.check();
        for (context, n_chunks, stride) in
            [(4, None, None), (512, Some(1), Some(1)), (100, None, Some(198)), (usize::MAX, None, Some(5))]
        {
            assert!(check(context, n_chunks, stride).is_ok(), "{context} {n_chunks:?} {stride:?}");
        }
        for (context, n_chunks, stride) in [
            (0, None, None),
            (3, None, None),
            (512, Some(0), None),
            (512, None, Some(0)),
            (100, None, Some(199)),
        ] {
            let error = check(context, n_chunks, stride).unwrap_err();
            assert!(matches!(error, Error::OutOfRange { .. }), "{context} {n_chunks:?} {stride:?}");
        }
    }
}
