//! Choice of types for a budget: the cost of each matrix at one type is measured, its cost at other types
//! predicted, and bytes are spent where they help most.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::atomic::Ordering,
};

use gguf_conversion::{
    Conversion, Importance, Input, OutputRequest, PlannedFile, Request,
    imatrix::Imatrix,
    recipes::{Reason, Recipe, TensorFacts, layer_of},
};
use gguf_imatrix::{Entry, Sums};
use gguf_quant::Level;
use gguf_refinement::{
    Prober, Refiner, Replacement,
    budget::{Chosen, Item, Offer, choose, predicted},
    probe,
};
use gguf_runtime::Model;
use gguf_types::{DType, words};
use serde::Serialize;

use super::{
    budget::{Budget, BudgetOptions},
    names::{calibration_key, failed, unnamed},
    probed::Probed,
    texts::WINDOW,
};
use crate::{
    error::Error, events::Events, failure::failure, progress_line::ProgressLine, settings::Settings,
    text::human_bytes,
};

/// Version of the method of the probes.
const PROBES: &str = "probes3";

/// Approximate bits per weight of the type of a probe.
const PROBED_BITS: f64 = 4.5;

/// Approximate number of tokens that probes read, and their limit per window. All matrices are measured on the same
/// positions, so few of them are enough.
const PROBE_TOKENS: usize = WINDOW / 2;
const PROBE_WINDOW: usize = WINDOW / 4;

/// Matrices with the same input whose products meet in one product. Their losses weigh about the same, so
/// they are probed together and each counts for half.
const TOGETHER: &[(&str, &str)] =
    &[("attn_q.", "attn_k."), ("ffn_gate.", "ffn_up."), ("ffn_gate_exps.", "ffn_up_exps.")];

/// Share of the codecs' divergence that remains after rounding by moments, roughly (`docs/notes/quality.md`).
const REFINED: f64 = 0.6;

/// Default types to choose from: those with fast kernels in every runtime.
const USUAL: &[DType] =
    &[DType::Q2_K, DType::Q3_K, DType::IQ4_XS, DType::Q4_K, DType::Q5_K, DType::Q6_K, DType::Q8_0];
/// Default types for rows whose length is not a multiple of 256.
const USUAL_NARROW: &[DType] =
    &[DType::Q4_0, DType::IQ4_NL, DType::Q4_1, DType::Q5_0, DType::Q5_1, DType::Q8_0];

/// Chosen types and their expected divergence.
#[derive(Debug, Clone, Serialize)]
pub struct ChosenTypes {
    /// Limit of the file in bytes.
    pub budget: u64,
    /// Size of the file in bytes.
    pub bytes: u64,
    /// Predicted divergence with these types and rounding by moments, in nats.
    pub predicted: f64,
    /// Predicted divergence with the types of the recipe, in nats.
    pub predicted_of_recipe: f64,
    /// Size of the file with the types of the recipe, in bytes.
    #[serde(skip)]
    pub bytes_of_recipe: u64,
    /// Type and cost of each tensor.
    pub tensors: BTreeMap<String, (&'static str, f64)>,
}

impl ChosenTypes {
    /// The chosen types with their numbers of tensors, for people.
    fn counts(&self) -> String {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        self.tensors.values().for_each(|(dtype, _)| *counts.entry(dtype).or_default() += 1);
        let counts: Vec<String> = counts.iter().map(|(dtype, count)| format!("{count} {dtype}")).collect();
        counts.join(", ")
    }

    /// Reports the choice, with predictions in a unit for `per` elements.
    pub(super) fn report(&self, recipe: &Recipe, unit: &str, per: f64, events: &dyn Events) {
        let [bytes, budget, of_recipe] = [self.bytes, self.budget, self.bytes_of_recipe].map(human_bytes);
        events.status(format!("chose {} for {bytes} of {budget}", self.counts()));
        events.status(format!(
            "{unit} {:.5} ({} of {of_recipe}: {:.5})",
            self.predicted / per,
            recipe.name,
            self.predicted_of_recipe / per,
        ));
    }
}

/// Type of each tensor, and facts about the choice.
pub type Choice = (BTreeMap<String, DType>, ChosenTypes);

/// An open input and its path.
#[derive(Debug)]
pub struct NamedInput<'a, I> {
    /// The input.
    pub input: &'a I,
    /// Its path, for messages.
    pub path: &'a Path,
}

impl<I> Clone for NamedInput<'_, I> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<I> Copy for NamedInput<'_, I> {}

/// Inputs of the choice.
pub struct Bench<'a> {
    pub base: &'a Path,
    pub model: &'a Model,
    pub refiner: &'a Refiner,
    pub imatrix: &'a Imatrix,
    pub windows: &'a [Vec<u32>],
    pub level: Level,
    /// Folder of probes, and the name of model and text.
    pub kept: (&'a Path, &'a str),
}

/// A matrix whose type is chosen.
pub(super) struct Candidate<'a> {
    pub facts: TensorFacts<'a>,
    /// Its index among the tensors of the input.
    pub tensor: usize,
    /// Its type in the recipe.
    pub recipe_type: DType,
    pub dtypes: Vec<DType>,
}

impl Candidate<'_> {
    /// Keeps the types that the existing importance weights allow, or only that of the recipe.
    pub(super) fn keep_made(&mut self, imatrix: Option<&Imatrix>) {
        let has_weights = imatrix.is_some_and(|imatrix| imatrix.entry(self.facts.name).is_some());
        let needs_weights =
            |dtype: &DType| gguf_quant::codec(*dtype).is_some_and(|codec| codec.needs_weights);
        self.dtypes.retain(|dtype| has_weights || !needs_weights(dtype));
        if self.dtypes.is_empty() {
            self.dtypes.push(self.recipe_type);
        }
    }
}

/// Alternatives for each matrix.
pub(super) struct Choices<'a> {
    /// The file with the types of the recipe.
    pub file: PlannedFile,
    pub tensors: Vec<TensorFacts<'a>>,
    pub candidates: Vec<Candidate<'a>>,
    /// Bytes of everything except the candidates, with the types of the recipe.
    pub fixed: u64,
    /// Limit of the file in bytes.
    pub budget: u64,
}

impl Choices<'_> {
    /// Fails if the smallest types are too large.
    pub(super) fn check(&self) -> Result<(), Error> {
        let smallest = |candidate: &Candidate<'_>| {
            candidate.dtypes.iter().map(|dtype| padded(&candidate.facts, *dtype)).min()
        };
        let least = self.fixed + self.candidates.iter().filter_map(smallest).sum::<u64>();
        if least <= self.budget {
            return Ok(());
        }
        let (budget, human) = (self.budget, human_bytes(least));
        let message = format!(
            "target size of {budget} bytes is too small: the smallest file with the allowed types is {least} bytes ({human})"
        );
        Err(Error::new(message)
            .hint([words!("raise the target size, or allow smaller types with [-allow-types]")]))
    }
}

/// Bytes of a tensor in a file, with padding.
pub(super) fn padded(facts: &TensorFacts<'_>, dtype: DType) -> u64 {
    let n_bytes = facts.shape.n_bytes(dtype).unwrap_or(u64::MAX / 2);
    n_bytes.next_multiple_of(gguf_container::DEFAULT_ALIGNMENT.into())
}

/// An importance matrix with an entry for every matrix, as large in the header as the later one of `texts`.
fn pending_imatrix(tensors: &[TensorFacts<'_>], texts: &[PathBuf]) -> Imatrix {
    let mut sums = Sums::new(WINDOW as u32);
    sums.n_chunks = 1;
    sums.datasets.extend(texts.iter().map(|text| text.display().to_string()));
    let matrices = tensors.iter().filter(|facts| facts.shape.n_dims() > 1);
    let entry = |facts: &TensorFacts<'_>| {
        let n_weights = facts.shape.n_elems() / facts.shape.dim(1).max(1);
        (facts.name.to_owned(), Entry { sums: vec![1.0; n_weights as usize], counts: vec![1] })
    };
    sums.entries = matrices.map(entry).collect();
    Imatrix::from_sums(sums)
}

impl BudgetOptions {
    /// True if a calibration chooses types: for the limit or, without one, unless they are kept.
    pub fn chooses_types(&self) -> bool {
        self.limit.is_some() || !self.keep_types
    }

    /// Fails if types are to be chosen for a model that can be run, and nothing is known about its inputs: there are neither
    /// texts nor an importance matrix.
    ///
    /// # Errors
    /// A budget without calibration texts and importance matrix.
    pub(crate) fn check_basis(&self, has_texts: bool, has_imatrix: bool) -> Result<(), Error> {
        match &self.limit {
            Some(limit) if !has_texts && !has_imatrix => Err(Error::usage(words!(
                "[-{}] needs calibration texts or an importance matrix",
                limit.option()
            ))
            .hint([words!("pass texts with [-calibrate], or a matrix with [-imatrix]")])),
            _ => Ok(()),
        }
    }

    /// Options of a call that keep types, have a limit, or choose types for the size of the only file type. An unreachable limit
    /// is an error before anything is read.
    ///
    /// # Errors
    /// A budget that is too small, or one for several files.
    pub fn settle<I: Input>(
        &self,
        input: NamedInput<'_, I>,
        recipes: &[&'static Recipe],
        settings: &Settings,
        texts: &[PathBuf],
        events: &dyn Events,
    ) -> Result<BudgetOptions, Error> {
        if self.keep_types || self.limit.is_some() {
            return self.check(input, recipes, settings, texts).map(|()| self.clone());
        }
        let kept = BudgetOptions { keep_types: true, ..self.clone() };
        // With nothing to choose, no note is printed.
        if settings.has_fixed_types() || recipes.iter().all(|recipe| !recipe.default.is_quantized()) {
            return Ok(kept);
        }
        let [_] = recipes else {
            events.note("types are not optimized: this needs a single file type");
            return Ok(kept);
        };
        self.check(input, recipes, settings, texts).map(|()| self.clone()).or_else(|failure| {
            events.note(format!("types are not optimized: {}", failure));
            Ok(kept)
        })
    }

    /// Chooses a type for each matrix that `recipe` would quantize and reports the choice; none if it is
    /// implied and no better.
    ///
    /// # Errors
    /// A budget that is too small, a model that cannot be run, an interruption.
    pub fn choose(
        &self,
        recipe: &'static Recipe,
        settings: &Settings,
        bench: &Bench<'_>,
        events: &dyn Events,
    ) -> Result<Option<Choice>, Error> {
        if let (None, Err(error)) = (&self.limit, bench.model.need_next_token()) {
            events.note(format!("types are not optimized: {error}"));
            return Ok(None);
        }
        let conversion = Conversion::open_gguf(gguf_models::FAMILIES, bench.base)
            .map_err(|error| Error::at(bench.base, error))?;
        let request = settings.request();
        let choices =
            self.choices(NamedInput { input: conversion.input(), path: bench.base }, recipe, &request)?;
        choices.check()?;
        let Choices { file, tensors, mut candidates, mut fixed, budget } = choices;
        // Nothing can be measured of a matrix that is not executed.
        candidates.retain(|candidate| {
            let is_executed = bench.model.is_executed(candidate.facts.name);
            fixed += if is_executed { 0 } else { padded(&candidate.facts, candidate.recipe_type) };
            is_executed
        });
        candidates.iter_mut().for_each(|candidate| candidate.keep_made(Some(bench.imatrix)));
        let (items, predicted_of_recipe) = measure(&candidates, bench, events)?;
        let chosen = choose(&items, budget.saturating_sub(fixed)).map_err(Error::new)?;
        let (dtypes, report) =
            report((&file, &tensors), (&items, &chosen), predicted_of_recipe, (budget, fixed));
        if self.limit.is_none() && report.predicted >= report.predicted_of_recipe {
            events.note("types are not optimized: no better ones are predicted");
            return Ok(None);
        }
        report.report(file.recipe, "predicted KL divergence", 1.0, events);
        Ok(Some((dtypes, report)))
    }

    /// Fails if no types make the file small enough, like [`BudgetOptions::choose`]. The plan has an importance matrix as
    /// large as the one of `texts`.
    ///
    /// # Errors
    /// A budget that is too small, or one for several files.
    fn check<I: Input>(
        &self,
        input: NamedInput<'_, I>,
        recipes: &[&'static Recipe],
        settings: &Settings,
        texts: &[PathBuf],
    ) -> Result<(), Error> {
        if !self.chooses_types() {
            return Ok(());
        }
        let [recipe] = recipes else {
            return Err(Error::usage("types can be optimized only for a single file type"));
        };
        let pending = pending_imatrix(&input.input.tensors(recipe), texts);
        let mut request = settings.request();
        request.keys.push(calibration_key(&unnamed())?);
        request.importance.get_or_insert(Importance { imatrix: &pending, path: None });
        let choices = self.choices(input, recipe, &request)?;
        choices.check()?;
        let may_requantize = request.allow_requantize || input.input.has_originals();
        let quantized = |candidate: &&Candidate<'_>| candidate.facts.dtype.is_quantized();
        match choices.candidates.iter().find(quantized).filter(|_| !may_requantize) {
            Some(Candidate { facts, recipe_type, .. }) => {
                let (tensor, from, to) = (facts.name.to_owned(), facts.dtype, *recipe_type);
                let error = gguf_conversion::Error::Requantize { tensor, from, to };
                Err(failure(input.path, error))
            }
            None => Ok(()),
        }
    }

    /// Alternatives for each matrix.
    pub(super) fn choices<'a, I: Input>(
        &self,
        NamedInput { input, path }: NamedInput<'a, I>,
        recipe: &'static Recipe,
        request: &Request<'_>,
    ) -> Result<Choices<'a>, Error> {
        let plan_by = |recipe, request: &Request<'_>| {
            let output = OutputRequest::by_rules(recipe);
            let mut files = input.plan(&output, request).map_err(|error| Error::at(path, error))?;
            match files.len() {
                1 => Ok(files.swap_remove(0)),
                _ => Err(Error::usage("types can be optimized only for a file without shards")),
            }
        };
        let file = plan_by(recipe, request)?;
        let tensors = input.tensors(recipe);
        let candidates = self.candidates(&file, &tensors);
        let of_recipe: u64 =
            candidates.iter().map(|candidate| padded(&candidate.facts, candidate.recipe_type)).sum();
        let fixed = file.plan.file_len() - of_recipe;
        let budget = match &self.limit {
            Some(Budget::Size(size)) => *size,
            Some(Budget::Bpw(bits)) => {
                // Bits of a weight count data alone.
                let data = |of: fn(&gguf_container::PlannedTensor) -> u64| {
                    file.plan.tensors().iter().map(of).sum::<u64>()
                };
                let header = file.plan.file_len() - data(|tensor| tensor.n_bytes);
                (bits * data(|tensor| tensor.shape.n_elems()) as f64 / 8.0) as u64 + header
            }
            Some(Budget::SameAs(name)) => {
                // The promise is about tensor data; the header has a separate key.
                let other = Recipe::from_name(name).map_err(Error::usage)?;
                plan_by(other, request)?.plan.file_len()
            }
            None => file.plan.file_len(),
        };
        Ok(Choices { file, tensors, candidates, fixed, budget })
    }

    /// Matrices that the recipe quantizes and that have no requested type.
    fn candidates<'a>(&self, file: &PlannedFile, tensors: &[TensorFacts<'a>]) -> Vec<Candidate<'a>> {
        let mut candidates = Vec::new();
        // The recipe's own types are among the alternatives.
        let mut of_recipe: Vec<DType> = Vec::new();
        for choice in &file.choices {
            if choice.dtype.is_quantized() && !of_recipe.contains(&choice.dtype) {
                of_recipe.push(choice.dtype);
            }
        }
        for choice in &file.choices {
            let facts = tensors[choice.tensor];
            let is_named = matches!(
                choice.reason,
                Reason::TensorType(_) | Reason::TokenEmbeddingOption | Reason::OutputOption
            );
            if !choice.dtype.is_quantized() || is_named {
                continue;
            }
            let fits = |dtype: &&DType| facts.shape.row_elems().is_multiple_of(dtype.block_elems());
            let usual = if facts.shape.row_elems().is_multiple_of(256) { USUAL } else { USUAL_NARROW };
            let more = of_recipe.iter().filter(|dtype| !usual.contains(dtype));
            let mut dtypes: Vec<DType> = match &self.allow_types[..] {
                [] => usual.iter().chain(more).filter(fits).copied().collect(),
                allowed => allowed.iter().filter(fits).copied().collect(),
            };
            // If no allowed type fits, the type of the recipe stays.
            if dtypes.is_empty() {
                dtypes.push(choice.dtype);
            }
            let (tensor, recipe_type) = (choice.tensor, choice.dtype);
            candidates.push(Candidate { facts, tensor, recipe_type, dtypes });
        }
        candidates
    }
}

/// Types of all tensors, and facts about the choice.
pub(super) fn report(
    (file, tensors): (&PlannedFile, &[TensorFacts<'_>]),
    (items, chosen): (&[Item], &Chosen),
    predicted_of_recipe: f64,
    (budget, fixed): (u64, u64),
) -> Choice {
    let of_recipe = file.choices.iter().map(|choice| (tensors[choice.tensor].name.to_owned(), choice.dtype));
    let mut dtypes: BTreeMap<String, DType> = of_recipe.collect();
    let mut tensors_by_name = BTreeMap::new();
    for (item, pick) in items.iter().zip(&chosen.picks) {
        let offer = item.offers[*pick];
        dtypes.insert(item.name.clone(), offer.dtype);
        tensors_by_name.insert(item.name.clone(), (offer.dtype.name(), offer.cost));
    }
    let report = ChosenTypes {
        budget,
        bytes: fixed + chosen.n_bytes,
        predicted: chosen.cost,
        predicted_of_recipe,
        bytes_of_recipe: file.plan.file_len(),
        tensors: tensors_by_name,
    };
    (dtypes, report)
}

/// Measures the cost of each matrix at one type and predicts it at the others. Also returns the predicted sum for the types of
/// the recipe.
fn measure(
    candidates: &[Candidate<'_>],
    bench: &Bench<'_>,
    events: &dyn Events,
) -> Result<(Vec<Item>, f64), Error> {
    let weights = |name: &str| bench.imatrix.entries.get(name).map(|entry| &entry.weights[..]);
    // A type that is too fine has a divergence that is lost in rounding; one that is too coarse predicts finer types badly. The
    // choice does not depend on the size of the file.
    let distance = |dtype: &DType| (dtype.bits_per_elem() - PROBED_BITS).abs();
    let nearest = |a: &&DType, b: &&DType| distance(a).total_cmp(&distance(b));
    let probed: Vec<DType> = candidates
        .iter()
        .map(|candidate| candidate.dtypes.iter().min_by(nearest).copied().unwrap_or(candidate.recipe_type))
        .collect();
    let costs = costs(candidates, &probed, bench, events)?;
    let (mut items, mut of_recipe) = (Vec::with_capacity(candidates.len()), 0.0);
    for ((candidate, probed), cost) in candidates.iter().zip(&probed).zip(costs) {
        let Candidate { facts, dtypes, recipe_type, .. } = candidate;
        let mut all = dtypes.clone();
        if !all.contains(recipe_type) {
            all.push(*recipe_type);
        }
        let errors = bench.refiner.stock_errors(facts.name, &all, weights(facts.name), bench.level);
        let errors = errors.map_err(|error| failed(bench.base, error))?;
        let error_of =
            |dtype: DType| all.iter().position(|known| *known == dtype).map_or(f64::NAN, |at| errors[at]);
        let offer = |dtype: &DType| {
            let refined = if bench.refiner.applies_to(facts.name, *dtype) { REFINED } else { 1.0 };
            let cost = refined * predicted(cost, error_of(*dtype), error_of(*probed));
            Offer { dtype: *dtype, n_bytes: padded(facts, *dtype), cost }
        };
        of_recipe += offer(recipe_type).cost;
        items.push(Item { name: facts.name.to_owned(), offers: dtypes.iter().map(offer).collect() });
    }
    Ok((items, of_recipe))
}

/// Divergence of the model with each of `candidates` replaced by its type: stored by an earlier run, or
/// measured now.
fn costs(
    candidates: &[Candidate<'_>],
    types: &[DType],
    bench: &Bench<'_>,
    events: &dyn Events,
) -> Result<Vec<f64>, Error> {
    let (folder, of) = bench.kept;
    let known = Probed::open(folder, format!("{PROBES}, {PROBE_TOKENS} by {PROBE_WINDOW} tokens\n{of}"));
    let names = || candidates.iter().map(|candidate| candidate.facts.name);
    let types: BTreeMap<&str, DType> = names().zip(types.iter().copied()).collect();
    let mut new = together(names());
    new.retain(|probe| probe.iter().any(|name| known.cost(name, types[&name[..]]).is_none()));
    // A probe runs the layers from its matrix on.
    let n_layers = names().filter_map(layer_of).max().map_or(1, |last| last + 1);
    let costs: Vec<f64> =
        new.iter().map(|probe| (n_layers - layer_of(&probe[0]).unwrap_or(0)) as f64).collect();
    let line = ProgressLine::with_costs("probes", &costs);
    let mut prober = Stock { bench, types, known, line, events };
    let beginnings = || bench.windows.iter().map(|window| &window[..window.len().min(PROBE_WINDOW)]);
    // As far apart in the texts as possible. Chats are short windows, of which there are more.
    let n_tokens: usize = beginnings().map(<[u32]>::len).sum();
    let windows: Vec<Vec<u32>> =
        beginnings().step_by((n_tokens / PROBE_TOKENS).max(1)).map(<[u32]>::to_vec).collect();
    probe(bench.model, &windows, &new, &mut prober).map_err(|error| match error {
        gguf_refinement::Error::Interrupted => Error::interrupted(),
        error => failed(bench.base, error),
    })?;
    let cost = |name: &str| prober.known.cost(name, prober.types[name]).unwrap_or(f64::NAN);
    Ok(names().map(cost).collect())
}

/// Probes of matrices: one for each, except those of [`TOGETHER`].
fn together<'a>(names: impl Iterator<Item = &'a str>) -> Vec<Vec<String>> {
    let (mut probes, mut places) = (Vec::new(), BTreeMap::new());
    for name in names {
        // Name of the first of both.
        let first =
            TOGETHER.iter().fold(name.to_owned(), |name, (first, second)| name.replace(second, first));
        let place = *places.entry(first).or_insert(probes.len());
        probes.resize(probes.len().max(place + 1), Vec::new());
        probes[place].push(name.to_owned());
    }
    probes
}

/// Replaces matrices by the results of the codecs.
struct Stock<'a> {
    bench: &'a Bench<'a>,
    types: BTreeMap<&'a str, DType>,
    known: Probed,
    line: ProgressLine,
    events: &'a dyn Events,
}

impl Prober for Stock<'_> {
    fn replacement(&mut self, tensor: &str) -> Result<Replacement, gguf_refinement::Error> {
        let dtype = self.types[tensor];
        let weights = self.bench.imatrix.entries.get(tensor).map(|entry| &entry.weights[..]);
        self.bench.refiner.stock(tensor, dtype, weights, self.bench.level)
    }

    fn found(&mut self, tensors: &[String], cost: f64) -> Result<(), gguf_refinement::Error> {
        let of_types: Vec<_> = tensors.iter().map(|tensor| (&tensor[..], self.types[&tensor[..]])).collect();
        Ok(self.known.note(&of_types, cost / tensors.len() as f64)?)
    }

    fn progress(&mut self, done: usize, _: usize) -> bool {
        self.line.update(self.events, done, String::new);
        !self.events.cancel().load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_and_gates_are_probed_in_groups() {
        let names =
            ["token_embd", "blk.0.attn_q", "blk.0.attn_k", "blk.0.attn_v", "blk.1.attn_k", "blk.1.ffn_up"]
                .map(|name| format!("{name}.weight"));
        let probes = together(names.iter().map(String::as_str));
        let printed: Vec<String> =
            probes.iter().map(|probe| probe.join(" ").replace(".weight", "")).collect();
        let expected =
            ["token_embd", "blk.0.attn_q blk.0.attn_k", "blk.0.attn_v", "blk.1.attn_k", "blk.1.ffn_up"];
        assert_eq!(printed, expected);
    }
}
