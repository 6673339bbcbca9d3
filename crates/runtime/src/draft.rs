//! Speculative decoding: a draft model proposes tokens, and its target accepts those that it would have chosen itself.
//!
//! A step of greedy decoding, after a text whose last token the target has not run yet:
//!
//! ```text
//! d_1 .. d_n = tokens that the draft proposes
//! t_0 .. t_n = the target's likeliest tokens after the last token, d_1, .., d_n, from one run
//! a          = the largest number with d_1 = t_0, .., d_a = t_(a-1)
//! d_1 .. d_a t_a are appended to the text
//! ```
//!
//! The result is the text that the target would generate by itself. `a` is the number of accepted tokens; a step appends `a + 1`.
//!
//! Source: arXiv 2211.17192; `common/speculative.cpp` of llama.cpp (llama-cpp-python 0.3.36).

use std::path::Path;

use gguf_container::Metadata;
use gguf_tokenizer::keys::TOKENS;

use crate::{
    Error, Hidden, Model, Options, Session,
    draft_graph::{Draft, Read},
    keys::Keys,
    nonfinite::not_finite,
    ops::Rows,
    weights::Weights,
};

/// A draft model, open next to its target.
pub struct DraftModel {
    kind: Kind,
    architecture: String,
    differing_token: Option<u32>,
}

enum Kind {
    /// A small model with the target's vocabulary.
    Plain(Box<Model>),
    /// A draft that reads states of the target.
    OfStates(Box<dyn Draft>),
}

impl DraftModel {
    /// Opens the draft at `path` for a target.
    ///
    /// # Errors
    /// As [`Model::open`] and [`Model::need_next_token`]; [`Error::DraftVocabulary`], [`Error::DraftWidth`].
    pub fn open(path: &Path, target: &Model, options: &Options) -> Result<DraftModel, Error> {
        let file = gguf_container::Model::open(path)?;
        let keys = Keys::new(file.metadata())?;
        let architecture = keys.architecture.clone();
        let Some(kind) = options.graphs.drafts.iter().find(|kind| kind.name == architecture) else {
            let model = Model::new(file, options)?;
            model.need_next_token()?;
            need_same_tokens(&model, target)?;
            return Ok(DraftModel {
                kind: Kind::Plain(Box::new(model)),
                architecture,
                differing_token: None,
            });
        };
        let mut weights = Weights::new(&file);
        if keys.count("block_count")?.is_some_and(|n| n > weights.n_tensors()) {
            return Err(keys.wrong("block_count", "at most the number of tensors"));
        }
        let draft = (kind.open)(&keys, &mut weights, &mut Weights::new(target.file()))?;
        weights.check_all_known(&architecture)?;
        if draft.target_width() != target.n_embd() {
            return Err(Error::DraftWidth { expected: draft.target_width(), found: target.n_embd() });
        }
        let differing_token = differing_token(file.metadata(), target.file().metadata());
        Ok(DraftModel { kind: Kind::OfStates(draft), architecture, differing_token })
    }

    /// The value of `general.architecture`.
    pub fn architecture(&self) -> &str {
        &self.architecture
    }

    /// The first id whose text in the draft's file differs from that in the target's. Such a draft is probably that of
    /// another model: its proposals are tokens of the wrong vocabulary.
    pub fn differing_token(&self) -> Option<u32> {
        self.differing_token
    }

    /// True if it reads states of its target.
    pub fn reads_states(&self) -> bool {
        matches!(self.kind, Kind::OfStates(_))
    }

    /// The largest number of tokens that it can propose at once; `None` for any number.
    pub fn most_tokens(&self) -> Option<usize> {
        match &self.kind {
            Kind::Plain(_) => None,
            Kind::OfStates(draft) => draft.most_tokens(),
        }
    }
}

/// Fails unless all ids that both vocabularies contain have the same text.
fn need_same_tokens(draft: &Model, target: &Model) -> Result<(), Error> {
    let n = draft.n_vocab().min(target.n_vocab()) as u32;
    let (own, of_target) = (draft.tokenizer(), target.tokenizer());
    match (0..n).find(|id| own.token_text(*id) != of_target.token_text(*id)) {
        Some(id) => Err(Error::DraftVocabulary { id }),
        None => Ok(()),
    }
}

/// The first id that both vocabularies contain with different texts. Files of drafts may lack the vocabulary.
fn differing_token(draft: &Metadata, target: &Metadata) -> Option<u32> {
    let [own, of_target] = [draft, target].map(|metadata| metadata.texts(TOKENS).ok().flatten());
    let (own, of_target) = (own?, of_target?);
    own.iter().zip(of_target.iter()).position(|(own, of_target)| own != of_target).map(|id| id as u32)
}

/// A step of speculative decoding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// Tokens that the draft proposed.
    pub proposed: Vec<u32>,
    /// Number that the target accepted.
    pub n_accepted: usize,
}

/// Limits of [`write()`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Minimum number of tokens to generate, unless an end-of-text token comes first. The last step may exceed it.
    pub n_tokens: usize,
    /// Maximum number of tokens to propose in a step.
    pub n_proposed: usize,
}

/// A text generated with a draft.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Written {
    /// Its tokens, without the prompt.
    pub tokens: Vec<u32>,
    /// The steps.
    pub steps: Vec<Step>,
}

/// Continues `prompt` by greedy decoding with a draft, up to an end-of-text token. `watch` is called before each step; if it returns
/// false, the text ends there.
///
/// # Errors
/// As [`Model::need_next_token`], [`Model::run`] and [`Draft::propose`]; [`Error::TooShort`] for a prompt of fewer than two tokens,
/// [`Error::NoLayerStates`], [`Error::NotFiniteResult`].
pub fn write(
    target: &Model,
    draft: &DraftModel,
    prompt: &[u32],
    limits: Limits,
    watch: &mut dyn FnMut() -> bool,
) -> Result<Written, Error> {
    target.need_next_token()?;
    // The last token of a text is always one that the target has not run.
    let [first @ .., _] = prompt else { return Err(Error::TooShort { found: 0, needed: 2 }) };
    if first.is_empty() {
        return Err(Error::TooShort { found: 1, needed: 2 });
    }
    let layers = match &draft.kind {
        Kind::Plain(_) => &[],
        Kind::OfStates(draft) => draft.target_layers(),
    };
    let n_most = draft.most_tokens().unwrap_or(limits.n_proposed).min(limits.n_proposed);
    let ends = target.tokenizer().ends();
    let mut run = Run { model: target, session: Session::new(), layers };
    let mut drafting = Drafting { draft, session: Session::new(), target };
    let mut tokens = prompt.to_vec();
    let (_, mut states) = run.read(first, first.len())?;
    let mut steps = Vec::new();
    while tokens.len() < prompt.len() + limits.n_tokens && !tokens.last().is_some_and(|id| ends.contains(id))
    {
        if !watch() {
            break;
        }
        let proposed = drafting.propose(&tokens, &states, n_most)?;
        let before = run.session.has_states().then(|| run.session.clone());
        let last = tokens[tokens.len() - 1];
        let read: Vec<u32> = std::iter::once(last).chain(proposed.iter().copied()).collect();
        let n_run = run.session.n_past();
        let (chosen, all_states) = run.read(&read, 0)?;
        let n_accepted = proposed.iter().zip(&chosen).take_while(|(own, of_target)| own == of_target).count();
        // An end-of-text token ends the step, too.
        let new = chosen[..=n_accepted].iter().copied();
        let end = new.clone().position(|id| ends.contains(&id)).unwrap_or(n_accepted);
        tokens.extend(new.take(end + 1));
        states = all_states.select_rows(&(0..=n_accepted).collect::<Vec<_>>());
        let n_proposed = proposed.len();
        steps.push(Step { proposed, n_accepted });
        if n_accepted < n_proposed {
            match before {
                None => {
                    run.session.rewind(n_run + n_accepted + 1);
                }
                // A recurrent state cannot be rewound.
                Some(before) => {
                    run.session = before;
                    run.read(&read[..=n_accepted], n_accepted)?;
                }
            }
        }
    }
    Ok(Written { tokens: tokens.split_off(prompt.len()), steps })
}

/// A target and its session.
struct Run<'m> {
    model: &'m Model,
    session: Session,
    layers: &'m [usize],
}

impl Run<'_> {
    /// Runs tokens. Returns the likeliest token after each from index `first`, and the states of all.
    fn read(&mut self, tokens: &[u32], first: usize) -> Result<(Vec<u32>, Rows), Error> {
        let (hidden, states) =
            self.model.continue_with_states(&mut self.session, tokens, first, self.layers)?;
        Ok((likeliest(self.model, &hidden)?, states))
    }
}

/// A draft and its session.
struct Drafting<'m> {
    draft: &'m DraftModel,
    session: Session,
    target: &'m Model,
}

impl Drafting<'_> {
    /// Proposes at most `n` tokens after a text. `states` are those of the tokens that the target has run since the last call.
    fn propose(&mut self, text: &[u32], states: &Rows, n: usize) -> Result<Vec<u32>, Error> {
        match &self.draft.kind {
            Kind::OfStates(draft) => {
                let next = &text[text.len() - states.nrows()..];
                let read = Read { states, next, activations: self.target.activations() };
                let session = &mut self.session;
                self.target.install(|| draft.propose(&read, session, n))
            }
            Kind::Plain(model) => {
                let mut proposed = Vec::new();
                let n_past = self.session.n_past();
                let mut hidden = model.continue_with(&mut self.session, &text[n_past..])?;
                let kept = self.session.has_states().then(|| self.session.clone());
                for i in 0..n {
                    let id = likeliest(model, &hidden)?[0];
                    // The token is only in the draft's vocabulary.
                    if id as usize >= self.target.n_vocab() {
                        break;
                    }
                    proposed.push(id);
                    if i + 1 < n {
                        hidden = model.continue_with(&mut self.session, &[id])?;
                    }
                }
                match kept {
                    Some(kept) => self.session = kept,
                    None => {
                        self.session.rewind(text.len());
                    }
                }
                Ok(proposed)
            }
        }
    }
}

/// The likeliest token of each row; the lowest id among equal ones.
fn likeliest(model: &Model, hidden: &Hidden) -> Result<Vec<u32>, Error> {
    let (n_rows, n_vocab) = (hidden.n_rows(), model.n_vocab());
    let mut logits = vec![0.0; n_rows * n_vocab];
    model.logits(hidden, 0..n_rows, None, &mut logits)?;
    if logits.iter().any(|logit| logit.is_nan()) {
        return Err(not_finite(model, "a token of a text".to_owned()));
    }
    Ok(logits.chunks(n_vocab.max(1)).map(largest).collect())
}

/// Index of the largest value; the first among equal ones.
pub fn largest(values: &[f32]) -> u32 {
    let by_value = |best: usize, at: usize| if values[at] > values[best] { at } else { best };
    (0..values.len()).reduce(by_value).unwrap_or(0) as u32
}

/// Acceptance over several texts.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Acceptance {
    /// The steps of each text.
    texts: Vec<Vec<Step>>,
}

/// A quotient with its standard error.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// Its value.
    pub value: f64,
    /// One standard error, from the differences between texts; `None` with fewer than two.
    pub error: Option<f64>,
}

impl Acceptance {
    /// Adds the steps of a text.
    pub fn add(&mut self, steps: Vec<Step>) {
        self.texts.push(steps);
    }

    /// Number of steps.
    pub fn n_steps(&self) -> usize {
        self.texts.iter().map(Vec::len).sum()
    }

    /// Number of texts.
    pub fn n_texts(&self) -> usize {
        self.texts.len()
    }

    /// Mean number of accepted tokens in a step.
    pub fn mean(&self) -> Option<Estimate> {
        self.quotient(|step| (step.n_accepted as f64, 1.0))
    }

    /// The largest number of tokens that were proposed in a step.
    pub fn longest(&self) -> usize {
        self.texts.iter().flatten().map(|step| step.proposed.len()).max().unwrap_or(0)
    }

    /// Fraction of the tokens proposed at a position, counted from 0, that were accepted.
    pub fn at(&self, position: usize) -> Option<Estimate> {
        self.quotient(|step| {
            let is_there = step.proposed.len() > position;
            (f64::from(u8::from(is_there && step.n_accepted > position)), f64::from(u8::from(is_there)))
        })
    }

    /// Sum of the first part divided by the sum of the second. Steps of one text depend on each other, so texts are the independent
    /// observations: with sums `a_i` and `b_i` of `n` texts and the quotient `r`,
    ///
    /// ```text
    /// error = sqrt(n / (n - 1) sum (a_i - r b_i)^2) / sum b_i
    /// ```
    fn quotient(&self, parts: impl Fn(&Step) -> (f64, f64)) -> Option<Estimate> {
        let sums = self.texts.iter().map(|steps| {
            steps.iter().map(&parts).fold((0.0, 0.0), |(a, b), (more_a, more_b)| (a + more_a, b + more_b))
        });
        // Texts without a step carry no information.
        let sums: Vec<(f64, f64)> = sums.filter(|(_, b)| *b > 0.0).collect();
        let (a, b) = sums.iter().fold((0.0, 0.0), |(a, b), (more_a, more_b)| (a + more_a, b + more_b));
        if b <= 0.0 {
            return None;
        }
        let (value, n) = (a / b, sums.len() as f64);
        let squares: f64 = sums.iter().map(|(a, b)| (a - value * b) * (a - value * b)).sum();
        let error = (sums.len() > 1).then(|| (n / (n - 1.0) * squares).sqrt() / b);
        Some(Estimate { value, error })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn acceptance_is_per_step_and_position() {
        let step = |n_proposed, n_accepted| Step { proposed: vec![0; n_proposed], n_accepted };
        let mut acceptance = Acceptance::default();
        assert_eq!(acceptance.mean(), None);
        acceptance.add(vec![step(3, 3), step(3, 0)]);
        assert_eq!(acceptance.mean(), Some(Estimate { value: 1.5, error: None }));
        acceptance.add(vec![step(3, 1), step(1, 1)]);
        acceptance.add(Vec::new());
        // 5 tokens in 4 steps; by text, 3 in 2 and 2 in 2 steps: a - r b is 0.5 and -0.5.
        let mean = acceptance.mean().unwrap();
        assert!((mean.value - 1.25).abs() < 1e-12 && (mean.error.unwrap() - 0.25).abs() < 1e-12, "{mean:?}");
        let at = |position| acceptance.at(position).unwrap().value;
        assert_eq!([at(0), at(1), at(2)], [0.75, 1.0 / 3.0, 1.0 / 3.0]);
        assert_eq!((acceptance.at(3), acceptance.longest(), acceptance.n_steps()), (None, 3, 4));
    }

    #[test]
    fn largest_is_first_of_equals() {
        assert_eq!(largest(&[0.0, 2.0, 1.0, 2.0]), 1);
    }
}
