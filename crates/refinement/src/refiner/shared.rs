//! Metrics and factors that the matrices of one input share: query, key and value, gate and up.

use std::sync::{Arc, Mutex, PoisonError};

use gguf_types::DType;
use rayon::prelude::*;

use crate::{
    Error, Gram,
    rounding::{Choice, Rounding, RoundingOptions, SIDE_BY_SIDE, choose_by},
};

/// Number of inputs that are kept. Between two matrices of an input, a file has few others.
const KEPT: usize = 4;

/// Memory limit for everything that is kept, in bytes. The latest input is kept regardless of its size.
const MOST_BYTES: u64 = 256 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tokens {
    /// Training tokens, which decide levels while options are compared.
    Training,
    All,
}

#[derive(Debug, Default)]
pub(super) struct OfInput {
    made: Vec<(Tokens, RoundingOptions, Arc<Rounding>)>,
}

impl OfInput {
    /// [`choose`](crate::choose), reusing known roundings.
    pub fn choose(
        &mut self,
        fit: &Gram,
        held: &Gram,
        dtype: DType,
        weights: &[f32],
        stock: &[u8],
        candidates: &[RoundingOptions],
    ) -> Result<Option<Choice>, Error> {
        let n_columns = fit.n_columns();
        let make = |options: &RoundingOptions| Rounding::for_type(fit, options, dtype).map(Arc::new);
        let known = |this: &OfInput, options: &RoundingOptions| {
            this.known(Tokens::Training, options, n_columns, dtype)
        };
        // Factors of wide inputs are computed in order and not kept.
        if n_columns <= SIDE_BY_SIDE {
            let mut missing = candidates.to_vec();
            missing.retain(|options| known(self, options).is_none());
            let made: Result<Vec<_>, Error> = missing.par_iter().with_max_len(1).map(make).collect();
            let made = missing.iter().zip(made?);
            self.made.extend(made.map(|(options, made)| (Tokens::Training, *options, made)));
        }
        let rounding = |options: &RoundingOptions| known(self, options).map_or_else(|| make(options), Ok);
        choose_by(&rounding, held, dtype, weights, stock, candidates)
    }

    /// Rounding of a type, if known.
    fn known(
        &self,
        tokens: Tokens,
        options: &RoundingOptions,
        n_columns: usize,
        dtype: DType,
    ) -> Option<Arc<Rounding>> {
        let unit = Rounding::unit_of(n_columns, dtype);
        let is_it = |(of, with, made): &&(Tokens, RoundingOptions, Arc<Rounding>)| {
            (*of, with, made.unit()) == (tokens, options, unit)
        };
        self.made.iter().find(is_it).map(|(.., made)| Arc::clone(made))
    }

    /// Rounding after the choice, with Hessians over all tokens.
    pub fn over_all(
        &mut self,
        fit: Gram,
        held: &Gram,
        options: &RoundingOptions,
        dtype: DType,
    ) -> Result<Arc<Rounding>, Error> {
        if let Some(known) = self.known(Tokens::All, options, fit.n_columns(), dtype) {
            return Ok(known);
        }
        let mut all = fit;
        all.add(held);
        let made = Arc::new(Rounding::for_type(&all, options, dtype)?);
        self.made.push((Tokens::All, *options, Arc::clone(&made)));
        Ok(made)
    }

    fn n_bytes(&self) -> u64 {
        self.made.iter().map(|(.., made)| made.n_bytes()).sum()
    }
}

/// An input: file and index of its statistics.
type Place = (usize, usize);

#[derive(Debug, Default)]
pub(super) struct Shared {
    /// Oldest first.
    inputs: Mutex<Vec<(Place, Arc<Mutex<OfInput>>)>>,
}

impl Shared {
    /// Roundings of an input. The caller locks them while it prepares a matrix, outside the thread pool, so that
    /// no factor is computed twice.
    pub fn of(&self, place: Place) -> Arc<Mutex<OfInput>> {
        let mut inputs = self.inputs.lock().unwrap_or_else(PoisonError::into_inner);
        let at = inputs.iter().position(|(known, _)| *known == place);
        let input = at.map_or_else(|| (place, Arc::default()), |at| inputs.remove(at));
        // Inputs in use are not counted; they are locked.
        let n_bytes = |input: &Arc<Mutex<OfInput>>| input.try_lock().map_or(0, |input| input.n_bytes());
        let mut left = MOST_BYTES;
        let mut n_kept = 0;
        // Latest first.
        let mut is_kept: Vec<bool> = inputs
            .iter()
            .rev()
            .map(|(_, input)| {
                let n_bytes = n_bytes(input);
                let fits = n_kept + 1 < KEPT && n_bytes <= left;
                left -= if fits { n_bytes } else { left };
                n_kept += 1;
                fits
            })
            .collect();
        inputs.retain(|_| is_kept.pop().unwrap_or(false));
        inputs.push(input);
        Arc::clone(&inputs[inputs.len() - 1].1)
    }

    pub fn clear(&self) {
        self.inputs.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gram(n: usize) -> Gram {
        let sums = (0..n * n).map(|at| if at % (n + 1) == 0 { 2.0 } else { 0.5 }).collect();
        Gram::from_sums(n, 10, sums).unwrap()
    }

    #[test]
    fn roundings_of_an_input_are_made_once_per_options_and_unit() {
        let mut input = OfInput::default();
        let options = RoundingOptions::default();
        let other = RoundingOptions { shrinkage: 0.8, ..options };
        let mut made = |options, dtype| input.over_all(gram(32), &gram(32), options, dtype).unwrap();
        let first = made(&options, DType::Q4_0);
        assert!(Arc::ptr_eq(&first, &made(&options, DType::Q5_0)));
        assert!(!Arc::ptr_eq(&first, &made(&other, DType::Q4_0)));
        assert!(!Arc::ptr_eq(&first, &made(&options, DType::IQ3_XXS)), "eight columns at a time");
    }

    #[test]
    fn latest_inputs_are_kept() {
        let shared = Shared::default();
        let first = shared.of((0, 0));
        first
            .lock()
            .unwrap()
            .over_all(gram(16), &gram(16), &RoundingOptions::default(), DType::Q4_0)
            .unwrap();
        (1..KEPT).for_each(|at| drop(shared.of((0, at))));
        assert!(Arc::ptr_eq(&first, &shared.of((0, 0))), "it was used last");
        (0..KEPT).for_each(|at| drop(shared.of((1, at))));
        assert!(!Arc::ptr_eq(&first, &shared.of((0, 0))));
        shared.clear();
        assert_eq!(shared.inputs.lock().unwrap().len(), 0);
    }
}
