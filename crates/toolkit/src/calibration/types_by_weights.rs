//! Choice of types for a budget without running the model: for models that no graph computes, such as diffusion models.
//!
//! The cost of a matrix W of n elements at a type is
//!
//! ```text
//! n * sum (w - w')^2 / sum w^2
//! ```
//!
//! over a sample of its rows, where w' is the value that the type stores. For inputs without preferred directions, the fraction is
//! the error of the matrix's products relative to their energy. All products have about the same influence, whatever the scale of
//! their weights, because models normalize what they multiply; n counts each weight once, so that the total is comparable between
//! models with many small and few large matrices. The rows are spread evenly, and the choice depends on nothing else.

use std::{path::Path, sync::atomic::Ordering};

use gguf_container::Advice;
use gguf_conversion::{
    Input, KeyOverride, RunOptions, TensorTask,
    recipes::{CHOSEN_TYPES_KEY, Recipe},
};
use gguf_quant::{Codec, Level, Rows};
use gguf_refinement::budget::{Item, Offer, choose};
use gguf_types::DType;
use rayon::prelude::*;

use super::types::{BudgetOptions, Candidate, Choice, NamedInput, padded, report};
use crate::{
    error::Error, events::Events, failure::failure, progress_line::ProgressLine, settings::Settings,
    text::human_bytes, threads::useful_threads,
};

/// Elements of a matrix that are encoded to measure the error of a type: 85 rows of 3072.
const SAMPLE_ELEMS: u64 = 1 << 18;

/// Name and version of the method. Another version chooses other types for the same weights.
const METHOD: &str = "weights1";

/// The refusal of a calibration for a model that cannot be run.
pub fn no_calibration(path: &Path) -> Error {
    Error::at(path, "--calibrate needs a model that can be run, and diffusion models cannot").hint([
        "--target-size, --target-bpw and --no-larger-than-type choose types by the errors of the weights",
    ])
}

impl BudgetOptions {
    /// Settings with the types that were chosen for the budget, if there is one.
    ///
    /// # Errors
    /// A budget that is too small or for several files, an input that cannot be read, an interruption.
    pub fn settled_by_weights<I: Input + Sync>(
        &self,
        input: NamedInput<'_, I>,
        recipes: &[&'static Recipe],
        settings: Settings,
        options: &RunOptions,
        events: &dyn Events,
    ) -> Result<Settings, Error> {
        if !self.is_wanted() {
            return Ok(settings);
        }
        let [recipe] = recipes else {
            return Err(Error::usage("types can be optimized only for a single file type"));
        };
        let key = KeyOverride::parse(&format!("{CHOSEN_TYPES_KEY}=str:{METHOD}")).map_err(Error::new)?;
        let settings = settings.with_key(key);
        let ((dtypes, chosen), n_elems) =
            self.choose_by_weights(input, recipe, &settings, options, events)?;
        events.status(&format!(
            "chose {} for {} of {}: mean relative squared error {:.3e} (with the types of {}: {:.3e})",
            chosen.counts(),
            human_bytes(chosen.bytes),
            human_bytes(chosen.budget),
            chosen.predicted / n_elems,
            recipe.name,
            chosen.predicted_of_recipe / n_elems,
        ));
        Ok(settings.decided(dtypes))
    }

    /// The choice, and the number of elements of all matrices whose type was chosen.
    fn choose_by_weights<I: Input + Sync>(
        &self,
        NamedInput { input, path }: NamedInput<'_, I>,
        recipe: &'static Recipe,
        settings: &Settings,
        options: &RunOptions,
        events: &dyn Events,
    ) -> Result<(Choice, f64), Error> {
        let request = settings.request();
        let mut choices = self.choices(NamedInput { input, path }, recipe, &request)?;
        // Nothing is known about the inputs, so types that need importance data cannot be made.
        for Candidate { dtypes, recipe_type, .. } in &mut choices.candidates {
            dtypes.retain(|dtype| codec(*dtype).is_some_and(|codec| !codec.needs_weights));
            if dtypes.is_empty() {
                dtypes.push(*recipe_type);
            }
        }
        choices.check()?;
        let failed = |error| failure(path, error);
        let tasks = input.tasks(&request).map_err(failed)?;
        let costs = vec![1.0; choices.candidates.len()];
        let mut line = ProgressLine::with_costs("measuring errors", &costs);
        let pool = rayon::ThreadPoolBuilder::new().num_threads(useful_threads(options.threads));
        let pool = pool.build().map_err(|error| Error::new(error.to_string()))?;
        let (mut items, mut of_recipe, mut n_elems) = (Vec::new(), 0.0, 0.0);
        let n_together = pool.current_num_threads() * 4;
        for candidates in choices.candidates.chunks(n_together.max(1)) {
            if events.cancel().load(Ordering::Relaxed) {
                return Err(Error::interrupted());
            }
            let measured: Vec<Result<Vec<f64>, gguf_conversion::Error>> = pool.install(|| {
                let of = |candidate: &Candidate<'_>| {
                    errors(&tasks[candidate.tensor], &all_types(candidate), options.level)
                };
                candidates.par_iter().map(of).collect()
            });
            for (candidate, errors) in candidates.iter().zip(measured) {
                let (errors, types) = (errors.map_err(failed)?, all_types(candidate));
                let n = candidate.facts.shape.n_elems() as f64;
                let cost = |dtype: &DType| {
                    n * types.iter().position(|known| known == dtype).map_or(f64::NAN, |at| errors[at])
                };
                let offer = |dtype: &DType| Offer {
                    dtype: *dtype,
                    n_bytes: padded(&candidate.facts, *dtype),
                    cost: cost(dtype),
                };
                of_recipe += cost(&candidate.recipe_type);
                n_elems += n;
                items.push(Item {
                    name: candidate.facts.name.to_owned(),
                    offers: candidate.dtypes.iter().map(offer).collect(),
                });
                line.update(events, items.len(), String::new);
            }
        }
        let chosen = choose(&items, choices.budget.saturating_sub(choices.fixed)).map_err(Error::new)?;
        let found = report(
            (&choices.file, &choices.tensors),
            (&items, &chosen),
            of_recipe,
            (choices.budget, choices.fixed),
        );
        Ok((found, n_elems.max(1.0)))
    }
}

/// The types that may be chosen for a matrix, and that of the recipe.
fn all_types(candidate: &Candidate<'_>) -> Vec<DType> {
    let mut types = candidate.dtypes.clone();
    if !types.contains(&candidate.recipe_type) {
        types.push(candidate.recipe_type);
    }
    types
}

fn codec(dtype: DType) -> Option<&'static Codec> {
    gguf_quant::codec(dtype).filter(|codec| codec.encode.is_some())
}

/// The squared error of each type relative to the squares of the weights, over a sample of rows. Zeros have no error.
fn errors(task: &TensorTask<'_>, types: &[DType], level: Level) -> Result<Vec<f64>, gguf_conversion::Error> {
    let view = task.rows.view();
    let n_rows = (SAMPLE_ELEMS / view.row_elems.max(1)).clamp(1, view.n_rows.max(1));
    let row_elems = view.row_elems as usize;
    let mut values = vec![0.0f32; n_rows as usize * row_elems];
    for (index, out) in (0..n_rows).zip(values.chunks_exact_mut(row_elems.max(1))) {
        // The middle of each share, so that the first and the last row are like any other.
        let row = (2 * index + 1) * view.n_rows / (2 * n_rows);
        let row = row.min(view.n_rows.saturating_sub(1));
        task.rows.advise(row..row + 1, Advice::WillNeed);
        task.rows.read(row..row + 1, level, out)?;
        task.rows.advise(row..row + 1, Advice::DoneWith);
    }
    let energy = squares(values.iter().copied());
    let mut decoded = vec![0.0f32; values.len()];
    // The recipe's own type, which is measured too, may need importance weights.
    let ones = vec![1.0f32; row_elems];
    let mut error = |dtype: &DType| {
        let Some((codec, encode)) = codec(*dtype).and_then(|codec| Some((codec, codec.encode?))) else {
            return f64::NAN;
        };
        let n_bytes = values.len() as u64 / dtype.block_elems() * dtype.block_bytes();
        let mut blocks = vec![0u8; n_bytes as usize];
        let weights = codec.needs_weights.then_some(&ones[..]);
        encode(level, Rows { values: &values, row_elems, weights }, &mut blocks);
        (codec.decode)(level, &blocks, &mut decoded);
        let error = squares(values.iter().zip(&decoded).map(|(value, decoded)| value - decoded));
        // NaN for values that are not finite, which the budget refuses.
        if energy == 0.0 { 0.0 } else { error / energy }
    };
    Ok(types.iter().map(&mut error).collect())
}

fn squares(values: impl Iterator<Item = f32>) -> f64 {
    values.map(|value| f64::from(value) * f64::from(value)).sum()
}
