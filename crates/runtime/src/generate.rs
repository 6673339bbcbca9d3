//! Text from a model, token by token.

use std::{borrow::Cow, collections::BTreeSet, fmt::Display};

use serde::{Deserialize, Serialize};

use crate::{Error, Hidden, Model, Piece, Session, nonfinite::not_finite};

/// Choice of the next token.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Sampling {
    /// Divisor of the logits, 0 or more; 0 is greedy.
    pub temperature: f32,
    /// Only this many of the likeliest tokens; 0 for all.
    pub top_k: usize,
    /// Only the likeliest tokens that together have this probability, from 0 to 1.
    pub top_p: f32,
    /// Only tokens with at least this share of the largest probability, from 0 to 1.
    pub min_p: f32,
    /// Divisor of the positive logits, and factor of the negative ones, of tokens that occurred before; 1 has no effect.
    pub repeat_penalty: f32,
    /// Number of the last tokens that the penalty looks at; -1 for all.
    pub repeat_last_n: i32,
    /// Seed of the random numbers: the same seed gives the same text.
    pub seed: u64,
}

impl Default for Sampling {
    fn default() -> Self {
        Sampling {
            temperature: 0.0,
            top_k: 40,
            top_p: 0.95,
            min_p: 0.0,
            repeat_penalty: 1.0,
            repeat_last_n: 64,
            seed: 0,
        }
    }
}

impl Sampling {
    /// Fails unless every number is in its range.
    ///
    /// # Errors
    /// [`Error::OutOfRange`].
    pub fn check(&self) -> Result<(), Error> {
        let Sampling { temperature, top_p, min_p, repeat_penalty, repeat_last_n, .. } = *self;
        let wrong = |field, found: &dyn Display, expected: &str| {
            Err(Error::OutOfRange { field, found: found.to_string(), expected: expected.to_owned() })
        };
        if !(temperature.is_finite() && temperature >= 0.0) {
            return wrong("the temperature", &temperature, "a number from 0");
        }
        for (field, p) in [("the probability of top-p", top_p), ("the probability of min-p", min_p)] {
            if !(0.0..=1.0).contains(&p) {
                return wrong(field, &p, "from 0 to 1");
            }
        }
        if !(repeat_penalty.is_finite() && repeat_penalty > 0.0) {
            return wrong("the repetition penalty", &repeat_penalty, "a number above 0");
        }
        if repeat_last_n < -1 {
            return wrong("the tokens of the repetition penalty", &repeat_last_n, "a number from -1");
        }
        Ok(())
    }
}

/// Chooses tokens.
#[derive(Debug, Clone)]
pub struct Sampler {
    sampling: Sampling,
    state: u64,
}

impl Sampler {
    /// A sampler at the beginning of its random numbers.
    pub fn new(sampling: Sampling) -> Sampler {
        Sampler { sampling, state: sampling.seed }
    }

    /// The settings.
    pub fn sampling(&self) -> Sampling {
        self.sampling
    }

    /// The next token by a row of logits, after the tokens `past`.
    pub fn choose(&mut self, logits: &[f32], past: &[u32]) -> u32 {
        let Sampling { temperature, top_k, top_p, min_p, .. } = self.sampling;
        let logits = &*self.penalized(logits, past);
        let by_logit = |a: &u32, b: &u32| logits[*b as usize].total_cmp(&logits[*a as usize]).then(a.cmp(b));
        // Greedy: of equal logits the lowest id, as `max_element` finds it.
        if temperature <= 0.0 {
            return (0..logits.len() as u32).min_by(by_logit).unwrap_or(0);
        }
        let mut ids: Vec<u32> = (0..logits.len() as u32).collect();
        if top_k > 0 && top_k < ids.len() {
            // The k largest in any order in O(n); only these are sorted below.
            ids.select_nth_unstable_by(top_k - 1, by_logit);
            ids.truncate(top_k);
        }
        ids.sort_unstable_by(by_logit);
        // p_i is proportional to exp((logit_i - max) / T): T above 1 flattens, below 1 sharpens. The largest taken off,
        // no exponential overflows. The masses of top-p and min-p are measured at this temperature, too.
        let largest = ids.first().map_or(0.0, |id| logits[*id as usize]);
        let weight = |id: &u32| libm::exp(f64::from((logits[*id as usize] - largest) / temperature));
        let weights: Vec<f64> = ids.iter().map(weight).collect();
        let total: f64 = weights.iter().sum();
        let mut mass = 0.0;
        // The token that takes the sum past top_p is still among them. The largest weight is 1.
        let n = weights.iter().take_while(|weight| {
            let is_within = mass < f64::from(top_p) * total && **weight >= f64::from(min_p);
            mass += **weight;
            is_within
        });
        let n = n.count().max(1);
        // The inverse of the distribution function: the token in whose stretch of the sum a random number falls.
        let mut left = self.next_unit() * weights[..n].iter().sum::<f64>();
        for (id, weight) in ids[..n].iter().zip(&weights) {
            left -= weight;
            if left < 0.0 {
                return *id;
            }
        }
        ids[n - 1]
    }

    /// Logits in which tokens that occurred among the last ones are less likely.
    ///
    /// Source: `RepetitionPenaltyLogitsProcessor` of transformers; `llama_sampler_penalties_apply` in `src/llama-sampler.cpp`.
    fn penalized<'a>(&self, logits: &'a [f32], past: &[u32]) -> Cow<'a, [f32]> {
        let Sampling { repeat_penalty: penalty, repeat_last_n, .. } = self.sampling;
        let n = usize::try_from(repeat_last_n).unwrap_or(usize::MAX);
        if penalty == 1.0 || n == 0 || past.is_empty() {
            return Cow::Borrowed(logits);
        }
        let recent: BTreeSet<u32> = past.iter().rev().take(n).copied().collect();
        let mut logits = logits.to_vec();
        for id in recent {
            if let Some(logit) = logits.get_mut(id as usize) {
                *logit = if *logit > 0.0 { *logit / penalty } else { *logit * penalty };
            }
        }
        Cow::Owned(logits)
    }

    /// A number from 0 to 1, the 1 excluded: the generator SplitMix64 (Steele, Lea and Flood, 2014).
    fn next_unit(&mut self) -> f64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Reason for the end of a generated text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum End {
    /// A token that ends texts or turns.
    Stop,
    /// The limit of tokens.
    Length,
    /// A text that repeats itself, in chats.
    Repetition,
    /// The caller.
    Interrupted,
}

/// Continues `prompt`, or answers it in an encoder-decoder model, by at most `limit` tokens; stops before a
/// token that ends texts or turns. `watch` sees every token and returns whether to continue.
///
/// # Errors
/// As [`Sampling::check`], [`Model::need_next_token`], [`Model::begin`] and [`Model::logits`];
/// [`Error::NotFiniteResult`].
pub fn generate(
    model: &Model,
    prompt: &[u32],
    limit: usize,
    sampler: &mut Sampler,
    watch: &mut dyn FnMut(u32) -> bool,
) -> Result<Vec<u32>, Error> {
    sampler.sampling.check()?;
    if !model.is_encoder_decoder() {
        model.need_next_token()?;
    }
    let mut session = Session::new();
    let hidden = model.begin(&mut session, prompt)?;
    generate_from(model, &mut session, prompt, hidden, limit, sampler, watch).map(|(made, _)| made)
}

/// As [`generate`], after a prompt of tokens and images.
///
/// # Errors
/// As [`generate`] and [`Model::read`].
pub fn generate_from_pieces(
    model: &Model,
    prompt: &[Piece<'_>],
    limit: usize,
    sampler: &mut Sampler,
    watch: &mut dyn FnMut(u32) -> bool,
) -> Result<Vec<u32>, Error> {
    sampler.sampling.check()?;
    model.need_next_token()?;
    let n: usize = prompt.iter().map(Piece::n_rows).sum();
    let mut session = Session::new();
    let hidden = model.read(&mut session, prompt, n.saturating_sub(1)..n)?;
    let tokens = prompt.iter().map(|piece| match piece {
        Piece::Tokens(tokens) => *tokens,
        Piece::Picture(_) => &[],
    });
    let tokens = tokens.collect::<Vec<_>>().concat();
    generate_from(model, &mut session, &tokens, hidden, limit, sampler, watch).map(|(made, _)| made)
}

/// Tokens of a prompt that are run between two calls of the caller.
const PIECE: usize = 512;

/// A text that grows in turns. Tokens that a prompt shares with the text so far are not run again.
#[derive(Debug, Default)]
pub struct Turns {
    session: Session,
    /// The tokens that the session has run.
    tokens: Vec<u32>,
}

/// A generated turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Turn {
    /// The tokens.
    pub tokens: Vec<u32>,
    /// Reason for the end.
    pub end: End,
    /// Tokens of the prompt that were not run again.
    pub n_reused: usize,
}

impl Turns {
    /// As [`generate`]. `watch` is also called without a token while the prompt is read.
    ///
    /// # Errors
    /// As [`generate`]; [`Error::TooShort`] for a prompt without tokens.
    pub fn generate(
        &mut self,
        model: &Model,
        prompt: &[u32],
        limit: usize,
        sampler: &mut Sampler,
        watch: &mut dyn FnMut(Option<u32>) -> bool,
    ) -> Result<Turn, Error> {
        let turn = self.turn(model, prompt, limit, sampler, watch);
        if turn.is_err() {
            // States of layers may be ahead of the tokens.
            *self = Turns::default();
        }
        turn
    }

    fn turn(
        &mut self,
        model: &Model,
        prompt: &[u32],
        limit: usize,
        sampler: &mut Sampler,
        watch: &mut dyn FnMut(Option<u32>) -> bool,
    ) -> Result<Turn, Error> {
        sampler.sampling.check()?;
        if model.is_encoder_decoder() {
            let mut session = Session::new();
            let hidden = model.begin(&mut session, prompt)?;
            let watch = &mut |id| watch(Some(id));
            let (tokens, end) = generate_from(model, &mut session, prompt, hidden, limit, sampler, watch)?;
            return Ok(Turn { tokens, end, n_reused: 0 });
        }
        model.need_next_token()?;
        let n_equal = self.tokens.iter().zip(prompt).take_while(|(known, token)| known == token).count();
        // The last token of the prompt is run in any case: its row predicts the next one.
        let n_reused = self.session.rewind(n_equal.min(prompt.len().saturating_sub(1)));
        self.tokens.truncate(n_reused);
        let mut hidden = None;
        for piece in prompt[n_reused..].chunks(PIECE) {
            if !watch(None) {
                return Ok(Turn { tokens: Vec::new(), end: End::Interrupted, n_reused });
            }
            hidden = Some(model.continue_with(&mut self.session, piece)?);
            self.tokens.extend_from_slice(piece);
        }
        let hidden = hidden.ok_or(Error::TooShort { found: 0, needed: 1 })?;
        let (session, watch) = (&mut self.session, &mut |id| watch(Some(id)));
        let (tokens, end) = generate_from(model, session, prompt, hidden, limit, sampler, watch)?;
        self.tokens.extend_from_slice(&tokens);
        self.tokens.truncate(self.session.n_past());
        Ok(Turn { tokens, end, n_reused })
    }
}

/// Token by token, from the rows of a prompt whose last one predicts the first.
fn generate_from(
    model: &Model,
    session: &mut Session,
    prompt: &[u32],
    mut hidden: Hidden,
    limit: usize,
    sampler: &mut Sampler,
    watch: &mut dyn FnMut(u32) -> bool,
) -> Result<(Vec<u32>, End), Error> {
    // The session keeps keys and values, so that each step runs one token and not the entire text again.
    let ends = model.tokenizer().ends();
    let mut logits = vec![0.0; model.n_vocab()];
    let mut all = prompt.to_vec();
    let end = loop {
        let n_made = all.len() - prompt.len();
        if n_made == limit {
            break End::Length;
        }
        if n_made > 0 {
            hidden = model.continue_with(session, &all[all.len() - 1..])?;
        }
        model.logits(&hidden, 0..1, None, &mut logits)?;
        // Every comparison with NaN is false, so that a row with one would still give some token.
        if logits.iter().any(|logit| logit.is_nan()) {
            return Err(not_finite(model, format!("token {} after the prompt", n_made + 1)));
        }
        let id = sampler.choose(&logits, &all);
        if ends.contains(&id) {
            break End::Stop;
        }
        all.push(id);
        if !watch(id) {
            break End::Interrupted;
        }
    };
    Ok((all.split_off(prompt.len()), end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sampling_keeps_to_likeliest_tokens() {
        let logits = [0.0, 5.0, 4.0, -1.0, 4.5];
        let count = |sampling: Sampling| {
            let mut sampler = Sampler::new(sampling);
            let mut seen = [0; 5];
            (0..2000).for_each(|_| seen[sampler.choose(&logits, &[]) as usize] += 1);
            seen
        };
        assert_eq!(count(Sampling::default()), [0, 2000, 0, 0, 0]);
        let two = count(Sampling { temperature: 1.0, top_k: 2, top_p: 1.0, seed: 1, ..Sampling::default() });
        assert_eq!(two[0] + two[2] + two[3], 0);
        // exp(-0.5) to 1
        assert!((two[4] as f64 / 2000.0 - 0.3775).abs() < 0.03, "{two:?}");
        let half = count(Sampling { temperature: 1.0, top_k: 0, top_p: 0.5, seed: 2, ..Sampling::default() });
        assert_eq!(half[0] + half[2] + half[3], 0, "{half:?}");
        let all =
            count(Sampling { temperature: 100.0, top_k: 0, top_p: 1.0, seed: 3, ..Sampling::default() });
        assert!(all.iter().all(|n| *n > 300), "{all:?}");
        // exp(-1) is 0.37, exp(-0.5) is 0.61.
        let near = count(Sampling { temperature: 1.0, min_p: 0.5, seed: 4, ..Sampling::default() });
        assert_eq!(near[0] + near[2] + near[3], 0, "{near:?}");
        assert!(near[4] > 300, "{near:?}");
    }

    #[test]
    fn repeated_tokens_are_penalized() {
        let logits = [-1.0, 5.0, 4.0, -1.5];
        let choose = |repeat_last_n, past: &[u32]| {
            let sampling = Sampling { repeat_penalty: 2.0, repeat_last_n, ..Sampling::default() };
            Sampler::new(sampling).choose(&logits, past)
        };
        assert_eq!(choose(-1, &[]), 1);
        // Once, however often the token occurred: 5 / 2 is less than 4, and 4 / 2 less than 5 / 2.
        assert_eq!(choose(-1, &[1, 1, 0]), 2);
        assert_eq!(choose(-1, &[1, 2, 0]), 1);
        assert_eq!([choose(1, &[1, 0]), choose(2, &[1, 0]), choose(0, &[1])], [1, 2, 1]);
        // Negative logits are multiplied.
        let negative = Sampling { repeat_penalty: 2.0, ..Sampling::default() };
        assert_eq!(Sampler::new(negative).choose(&[-1.0, -1.5], &[0]), 1);
    }
}
