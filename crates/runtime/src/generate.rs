//! Text from a model, token by token.

use serde::{Deserialize, Serialize};

use crate::{Error, Hidden, Model, Piece, Session, nonfinite::not_finite};

/// Choice of the next token.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Sampling {
    /// Divisor of the logits, 0 or more; 0 is greedy.
    pub temperature: f32,
    /// Only so many of the likeliest tokens; 0 for all.
    pub top_k: usize,
    /// Only the likeliest tokens that together have this probability, from 0 to 1.
    pub top_p: f32,
    /// Seed of the random numbers: the same seed gives the same text.
    pub seed: u64,
}

impl Default for Sampling {
    fn default() -> Self {
        Sampling { temperature: 0.0, top_k: 40, top_p: 0.95, seed: 0 }
    }
}

impl Sampling {
    /// Fails unless every number is in its range.
    ///
    /// # Errors
    /// [`Error::OutOfRange`].
    pub fn check(&self) -> Result<(), Error> {
        let Sampling { temperature, top_p, .. } = *self;
        let wrong = |field, found: f32, expected: &str| {
            Err(Error::OutOfRange { field, found: found.to_string(), expected: expected.to_owned() })
        };
        if !(temperature.is_finite() && temperature >= 0.0) {
            return wrong("the temperature", temperature, "a number from 0");
        }
        if !(0.0..=1.0).contains(&top_p) {
            return wrong("the probability of top-p", top_p, "from 0 to 1");
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

    /// The next token by a row of logits.
    pub fn choose(&mut self, logits: &[f32]) -> u32 {
        let Sampling { temperature, top_k, top_p, .. } = self.sampling;
        let by_logit = |a: &u32, b: &u32| logits[*b as usize].total_cmp(&logits[*a as usize]).then(a.cmp(b));
        let mut ids: Vec<u32> = (0..logits.len() as u32).collect();
        // Greedy: of equal logits the lowest id, as `max_element` finds it.
        if temperature <= 0.0 {
            return ids.into_iter().min_by(by_logit).unwrap_or(0);
        }
        if top_k > 0 && top_k < ids.len() {
            // The k largest in any order in O(n); only these are sorted below.
            ids.select_nth_unstable_by(top_k - 1, by_logit);
            ids.truncate(top_k);
        }
        ids.sort_unstable_by(by_logit);
        // p_i is proportional to exp((logit_i - max) / T): T above 1 flattens, below 1 sharpens. The largest taken off,
        // no exponential overflows. The mass of top-p is measured at this temperature, too.
        let largest = ids.first().map_or(0.0, |id| logits[*id as usize]);
        let weight = |id: &u32| libm::exp(f64::from((logits[*id as usize] - largest) / temperature));
        let weights: Vec<f64> = ids.iter().map(weight).collect();
        let total: f64 = weights.iter().sum();
        let mut mass = 0.0;
        // The token that takes the sum past top_p is still among them.
        let n = weights.iter().take_while(|weight| {
            let is_within = mass < f64::from(top_p) * total;
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

    /// A number from 0 to 1, the 1 excluded: the generator SplitMix64 (Steele, Lea and Flood, 2014).
    fn next_unit(&mut self) -> f64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }
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
    generate_from(model, session, hidden, limit, sampler, watch)
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
    generate_from(model, session, hidden, limit, sampler, watch)
}

/// Token by token, from the rows of a prompt whose last one predicts the first.
fn generate_from(
    model: &Model,
    mut session: Session,
    mut hidden: Hidden,
    limit: usize,
    sampler: &mut Sampler,
    watch: &mut dyn FnMut(u32) -> bool,
) -> Result<Vec<u32>, Error> {
    // The session keeps keys and values, so that each step runs one token and not the whole text again.
    let ends = model.tokenizer().ends();
    let mut logits = vec![0.0; model.n_vocab()];
    let mut made = Vec::new();
    while made.len() < limit {
        model.logits(&hidden, 0..1, None, &mut logits)?;
        // Every comparison with NaN is false, so that a row with one would still give some token.
        if logits.iter().any(|logit| logit.is_nan()) {
            return Err(not_finite(model, format!("token {} after the prompt", made.len() + 1)));
        }
        let id = sampler.choose(&logits);
        if ends.contains(&id) {
            break;
        }
        made.push(id);
        if !watch(id) {
            break;
        }
        hidden = model.continue_with(&mut session, &[id])?;
    }
    Ok(made)
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
            (0..2000).for_each(|_| seen[sampler.choose(&logits) as usize] += 1);
            seen
        };
        assert_eq!(count(Sampling::default()), [0, 2000, 0, 0, 0]);
        let two = count(Sampling { temperature: 1.0, top_k: 2, top_p: 1.0, seed: 1 });
        assert_eq!(two[0] + two[2] + two[3], 0);
        // exp(-0.5) to 1
        assert!((two[4] as f64 / 2000.0 - 0.3775).abs() < 0.03, "{two:?}");
        let half = count(Sampling { temperature: 1.0, top_k: 0, top_p: 0.5, seed: 2 });
        assert_eq!(half[0] + half[2] + half[3], 0, "{half:?}");
        let all = count(Sampling { temperature: 100.0, top_k: 0, top_p: 1.0, seed: 3 });
        assert!(all.iter().all(|n| *n > 300), "{all:?}");
    }
}
