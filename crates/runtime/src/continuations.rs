//! Agreement of greedy continuations: for how many tokens a file generates the same text as its base.
//!
//! KL divergence compares predictions after the same tokens. Here each model reads its own tokens, so a small difference
//! can change all that follows.

use serde::Serialize;

use crate::{
    Error, Model,
    generate::{End, Sampler, Sampling, Turn, Turns},
    stats::{Estimate, Metric, metric},
};

/// Tokens of a prompt.
pub const PROMPT_TOKENS: usize = 64;

/// Tokens of a continuation.
pub const CONTINUATION_TOKENS: usize = 32;

/// Agreement of the greedy continuations of a file with those of its base.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Continuations {
    /// Number of prompts.
    pub n_prompts: usize,
    /// Tokens of a prompt: [`PROMPT_TOKENS`].
    pub prompt_tokens: usize,
    /// Tokens of a continuation: [`CONTINUATION_TOKENS`].
    pub continuation_tokens: usize,
    /// Share of prompts whose continuations do not differ.
    pub same: Estimate,
    /// Mean number of tokens before the first difference; [`CONTINUATION_TOKENS`] for continuations that do not differ.
    pub tokens_before_difference: Estimate,
}

impl Continuations {
    /// Summary of the numbers of tokens that [`tokens_before_difference`] returned for a file.
    pub fn of(n_equal: &[usize]) -> Continuations {
        let n_same = n_equal.iter().filter(|n| **n == CONTINUATION_TOKENS).count();
        Continuations {
            n_prompts: n_equal.len(),
            prompt_tokens: PROMPT_TOKENS,
            continuation_tokens: CONTINUATION_TOKENS,
            same: Estimate::share(n_same, n_equal.len()),
            tokens_before_difference: Estimate::mean_of_few(n_equal.iter().map(|n| *n as f64)),
        }
    }

    /// The metrics as text.
    pub fn metrics(&self) -> Vec<Metric> {
        let n = self.continuation_tokens;
        vec![
            metric(format_args!("same continuation of {n} tokens"), self.same.percent()),
            metric("tokens before first difference", self.tokens_before_difference),
        ]
    }
}

/// Prompts from the tokens of a text: the first [`PROMPT_TOKENS`] of each of `n` parts of equal length. The first token of a
/// prompt is replaced with BOS if the tokenizer adds one, like in [`text_chunks`](crate::chunks::text_chunks).
///
/// # Errors
/// [`Error::TooShort`] for parts that are shorter than a prompt.
pub fn prompts(model: &Model, tokens: &[u32], n: usize) -> Result<Vec<Vec<u32>>, Error> {
    let needed = n.saturating_mul(PROMPT_TOKENS);
    if tokens.len() < needed {
        return Err(Error::TooShort { found: tokens.len(), needed });
    }
    let bos = model.tokenizer().added_bos();
    let prompt = |index: usize| {
        // index < n, so the part begins at least a prompt before the end of the text.
        let begin = (index as u128 * tokens.len() as u128 / n as u128) as usize;
        let mut prompt = tokens[begin..begin + PROMPT_TOKENS].to_vec();
        if let Some(bos) = bos {
            prompt[0] = bos;
        }
        prompt
    };
    Ok((0..n).map(prompt).collect())
}

/// Continues `prompt` greedily with the base and with each of the others, by [`CONTINUATION_TOKENS`] tokens or up to a token
/// that ends texts. Returns the number of tokens of each of the others before the first difference from the base. The end of
/// a text counts as a token. Continuations without a difference have [`CONTINUATION_TOKENS`], even if they end sooner.
///
/// `go_on` is asked before each token. `None` if it returned false.
///
/// # Errors
/// As [`Turns::generate`]; those of the others are [`Error::OfOther`].
pub fn tokens_before_difference(
    base: &Model,
    others: &[Model],
    prompt: &[u32],
    go_on: &dyn Fn() -> bool,
) -> Result<Option<Vec<usize>>, Error> {
    let expected = continuation(base, prompt, &mut |_, _| go_on())?;
    if !go_on() {
        return Ok(None);
    }
    let mut found = Vec::with_capacity(others.len());
    for (index, other) in others.iter().enumerate() {
        // A continuation that differs needs no further tokens.
        let mut is_same = |at: usize, token| expected.tokens.get(at) == Some(&token) && go_on();
        let turn = continuation(other, prompt, &mut is_same)
            .map_err(|error| Error::OfOther { index, error: Box::new(error) })?;
        if !go_on() {
            return Ok(None);
        }
        found.push(n_equal(&expected, &turn));
    }
    Ok(Some(found))
}

/// Greedy tokens after `prompt`. `watch` receives the index of each token and the token, and returns whether to continue.
fn continuation(
    model: &Model,
    prompt: &[u32],
    watch: &mut dyn FnMut(usize, u32) -> bool,
) -> Result<Turn, Error> {
    let mut sampler = Sampler::new(Sampling::default());
    let mut n_made = 0;
    let mut watch = |token: Option<u32>| {
        let Some(token) = token else { return true };
        n_made += 1;
        watch(n_made - 1, token)
    };
    Turns::default().generate(model, prompt, CONTINUATION_TOKENS, &mut sampler, &mut watch)
}

/// Tokens before the first difference; [`CONTINUATION_TOKENS`] for equal continuations.
fn n_equal(expected: &Turn, found: &Turn) -> usize {
    let n = expected.tokens.iter().zip(&found.tokens).take_while(|(a, b)| a == b).count();
    let ends = |turn: &Turn| turn.tokens.len() == n && turn.end != End::Interrupted;
    if ends(expected) && ends(found) { CONTINUATION_TOKENS } else { n }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_tokens_are_counted_up_to_the_end() {
        let turn = |tokens: &[u32], end| Turn { tokens: tokens.to_vec(), end, n_reused: 0 };
        let base = turn(&[1, 2, 3], End::Stop);
        for (tokens, end, expected) in [
            (&[1, 2, 3][..], End::Stop, CONTINUATION_TOKENS),
            (&[1, 2], End::Stop, 2),
            (&[1, 2, 4], End::Interrupted, 2),
            (&[1, 2, 3, 4], End::Interrupted, 3),
            (&[2], End::Interrupted, 0),
            (&[], End::Stop, 0),
        ] {
            assert_eq!(n_equal(&base, &turn(tokens, end)), expected, "{tokens:?}");
        }
        let longest: Vec<u32> = (0..CONTINUATION_TOKENS as u32).collect();
        let (base, mut other) = (turn(&longest, End::Length), turn(&longest, End::Length));
        assert_eq!(n_equal(&base, &other), CONTINUATION_TOKENS);
        // The last token that was made may be the first that differs.
        other = turn(&[&longest[..CONTINUATION_TOKENS - 1], &[99]].concat(), End::Interrupted);
        assert_eq!(n_equal(&base, &other), CONTINUATION_TOKENS - 1);
    }

    #[test]
    fn summary_matches_hand_computed() {
        // 32 and 8 in turn, twelve times: mean 20, variance 144, errors by n - 1 = 11.
        let n_equal: Vec<usize> = (0..12).map(|i| if i % 2 == 0 { CONTINUATION_TOKENS } else { 8 }).collect();
        let found = Continuations::of(&n_equal);
        assert_eq!(
            (found.n_prompts, found.same.value, found.tokens_before_difference.value),
            (12, 0.5, 20.0)
        );
        assert!((found.same.error - (0.25f64 / 11.0).sqrt()).abs() < 1e-15);
        assert!((found.tokens_before_difference.error - (144.0f64 / 11.0).sqrt()).abs() < 1e-12);
    }
}
