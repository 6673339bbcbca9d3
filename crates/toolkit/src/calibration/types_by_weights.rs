//! Choice of types for a budget without running the model: for models that no graph computes, such as diffusion models, and for
//! models that are too large to be run.
//!
//! With weights alone, the cost of a matrix W of n elements at a type is
//!
//! ```text
//! n * sum (w - w')^2 / sum w^2
//! ```
//!
//! over a sample of its rows, where w' is the value that the type stores. For inputs without preferred directions, the fraction is
//! the error of the matrix's products relative to their energy. All products have about the same influence, whatever the scale of
//! their weights, because models normalize what they multiply; n counts each weight once, so that the total is comparable between
//! models with many small and few large matrices.
//!
//! With an importance matrix a of the columns, the cost is
//!
//! ```text
//! s * sum a (w - w')^2 / sum a w^2
//! ```
//!
//! or the same without a if that is larger, where s is the sensitivity of the matrix's role ([`sensitivities`]). The sums of a stack of experts weigh each expert by
//! the tokens that it saw.
//!
//! The rows are spread evenly, and the choice depends on nothing else.

use std::{path::Path, sync::atomic::Ordering};

use gguf_container::Advice;
use gguf_conversion::{
    Input, KeyOverride, RunOptions, Shards, TensorTask,
    imatrix::Imatrix,
    recipes::{CHOSEN_TYPES_KEY, Recipe},
};
use gguf_quant::{Codec, Level, Rows};
use gguf_refinement::budget::{Item, Offer, choose};
use gguf_types::{DType, words};
use rayon::prelude::*;

use super::{
    budget::BudgetOptions,
    sensitivity::sensitivities,
    types::{Candidate, Choice, NamedInput, padded, report},
};
use crate::{
    error::Error, events::Events, failure::failure, progress_line::ProgressLine, settings::Settings,
    threads::useful_threads,
};

/// Elements of a matrix that are encoded to measure the error of a type: 85 rows of 3072.
const SAMPLE_ELEMS: u64 = 1 << 18;

/// Least rows of each expert of a stack.
const EXPERT_ROWS: u64 = 2;

/// Basis of the costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Basis {
    /// Weights alone.
    Weights,
    /// The importance matrix of the settings, and the roles of the matrices of a decoder.
    Importance,
}

impl Basis {
    /// Name and version of the method. Another version chooses other types for the same input.
    const fn method(self) -> &'static str {
        match self {
            Basis::Weights => "weights1",
            Basis::Importance => "imatrix1",
        }
    }
}

/// The refusal of a calibration for a model that cannot be run.
pub fn no_calibration(path: &Path) -> Error {
    Error::at(
        path,
        words!("[-calibrate] needs a model that can be run, and diffusion models cannot"),
    )
    .hint([words!("[-target-size], [-target-bpw] and [-no-larger-than-type] choose types by the errors of the weights")])
}

impl BudgetOptions {
    /// Settings with the types that were chosen for the budget, if there is one.
    ///
    /// # Errors
    /// A budget that is too small or for several files, an input that cannot be read, an interruption.
    pub fn decide_by_weight_error<I: Input + Sync>(
        &self,
        input: NamedInput<'_, I>,
        recipes: &[&'static Recipe],
        settings: Settings,
        basis: Basis,
        options: &RunOptions,
        events: &dyn Events,
    ) -> Result<Settings, Error> {
        if self.limit.is_none() {
            return Ok(settings);
        }
        let [recipe] = recipes else {
            return Err(Error::usage("types can be optimized only for a single file type"));
        };
        let method = basis.method();
        let key = KeyOverride::parse(&format!("{CHOSEN_TYPES_KEY}=str:{method}")).map_err(Error::new)?;
        let settings = settings.with_key(key);
        let ((dtypes, chosen), n_elems) =
            self.choose_by_weights(input, recipe, &settings, basis, options, events)?;
        let (unit, per) = match basis {
            Basis::Weights => ("mean relative squared error", n_elems),
            Basis::Importance => ("estimated KL divergence", 1.0),
        };
        chosen.report(recipe, unit, per, events);
        Ok(settings.decided(dtypes))
    }

    /// The choice, and the number of elements of all matrices whose type was chosen.
    fn choose_by_weights<I: Input + Sync>(
        &self,
        NamedInput { input, path }: NamedInput<'_, I>,
        recipe: &'static Recipe,
        settings: &Settings,
        basis: Basis,
        options: &RunOptions,
        events: &dyn Events,
    ) -> Result<(Choice, f64), Error> {
        // The limit is for all shards together.
        let mut request = settings.request();
        request.shards = Shards::One;
        let imatrix = match basis {
            Basis::Weights => None,
            Basis::Importance => request.importance.map(|importance| importance.imatrix),
        };
        let mut choices = self.choices(NamedInput { input, path }, recipe, &request)?;
        choices.candidates.iter_mut().for_each(|candidate| candidate.keep_made(imatrix));
        choices.check()?;
        let names: Vec<&str> = choices.candidates.iter().map(|candidate| candidate.facts.name).collect();
        let factors = match basis {
            Basis::Weights => choices.candidates.iter().map(|candidate| n_elems_of(candidate)).collect(),
            Basis::Importance => sensitivities(&names, choices.tensors.iter().map(|facts| facts.name)),
        };
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
                    let columns = imatrix.and_then(|imatrix| Columns::of(imatrix, candidate));
                    errors(&tasks[candidate.tensor], &all_types(candidate), columns, options.level)
                };
                candidates.par_iter().map(of).collect()
            });
            for (candidate, errors) in candidates.iter().zip(measured) {
                let (errors, types) = (errors.map_err(failed)?, all_types(candidate));
                let factor = factors[items.len()];
                let cost = |dtype: &DType| {
                    factor * types.iter().position(|known| known == dtype).map_or(f64::NAN, |at| errors[at])
                };
                let offer = |dtype: &DType| Offer {
                    dtype: *dtype,
                    n_bytes: padded(&candidate.facts, *dtype),
                    cost: cost(dtype),
                };
                of_recipe += cost(&candidate.recipe_type);
                n_elems += n_elems_of(candidate);
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

fn n_elems_of(candidate: &Candidate<'_>) -> f64 {
    candidate.facts.shape.n_elems() as f64
}

/// Importance of the columns of a matrix, or of each matrix of a stack.
#[derive(Debug, Clone, Copy)]
struct Columns<'a> {
    /// (n_matrices, row_elems).
    weights: &'a [f32],
    /// Tokens that each matrix saw. One number, or none, if all saw the same.
    seen: &'a [i64],
}

impl<'a> Columns<'a> {
    fn of(imatrix: &'a Imatrix, candidate: &Candidate<'_>) -> Option<Columns<'a>> {
        let name = candidate.facts.name;
        // The plan refuses an entry of the wrong size.
        let weights = imatrix.weights(name, &candidate.facts).ok().flatten()?;
        Some(Columns { weights, seen: &imatrix.entry(name)?.seen })
    }

    /// Share of each of `n` matrices in the sums. Without tokens, all count alike.
    fn shares(&self, n: usize) -> Vec<f64> {
        let shares: Vec<f64> = self.seen.iter().map(|seen| (*seen).max(0) as f64).collect();
        if shares.len() == n && shares.iter().any(|share| *share > 0.0) { shares } else { vec![1.0; n] }
    }
}

/// The squared error of each type relative to the squares of the weights, over a sample of rows; both are weighted by the importance of
/// the columns if there is one. The result is not less than the error without these weights: a few columns that are large only for
/// the first token of a text can have most of the importance. Zeros have no error.
fn errors(
    task: &TensorTask<'_>,
    types: &[DType],
    columns: Option<Columns<'_>>,
    level: Level,
) -> Result<Vec<f64>, gguf_conversion::Error> {
    let view = task.rows.view();
    let row_elems = view.row_elems.max(1) as usize;
    let n_matrices = columns.map_or(1, |columns| (columns.weights.len() / row_elems).max(1));
    let shares = columns.map_or(vec![1.0], |columns| columns.shares(n_matrices));
    let rows_per_matrix = view.n_rows / n_matrices as u64;
    let n_rows = (SAMPLE_ELEMS / view.row_elems.max(1)).clamp(1, view.n_rows.max(1));
    let n_rows = (n_rows / n_matrices as u64).max(EXPERT_ROWS.min(rows_per_matrix)).max(1);
    let mut values = vec![0.0f32; n_rows as usize * row_elems];
    let mut decoded = vec![0.0f32; values.len()];
    // A type that needs importance weights may be that of the recipe.
    let ones = vec![1.0f32; row_elems];
    let (mut energy, mut plain_energy) = (0.0, 0.0);
    // For each type, the errors with the importance of the columns, and without.
    let mut sums = vec![(0.0, 0.0); types.len()];
    for (matrix, share) in shares.into_iter().enumerate().filter(|(_, share)| *share > 0.0) {
        let weights = columns.map(|columns| &columns.weights[matrix * row_elems..][..row_elems]);
        let start = matrix as u64 * rows_per_matrix;
        for (index, out) in (0..n_rows).zip(values.chunks_exact_mut(row_elems)) {
            // The middle of each share, so that the first and the last row are like any other.
            let row = start + (2 * index + 1) * rows_per_matrix / (2 * n_rows);
            let row = row.min(view.n_rows.saturating_sub(1));
            task.rows.advise(row..row + 1, Advice::WillNeed);
            task.rows.read(row..row + 1, level, out)?;
            task.rows.advise(row..row + 1, Advice::DoneWith);
        }
        let by_column = weights.unwrap_or(&ones);
        energy += share * squares(values.iter().copied(), by_column);
        plain_energy += share * squares(values.iter().copied(), &ones);
        for (sum, dtype) in sums.iter_mut().zip(types) {
            let Some((codec, encode)) = codec(*dtype).and_then(|codec| Some((codec, codec.encode?))) else {
                sum.0 = f64::NAN;
                continue;
            };
            let n_bytes = values.len() as u64 / dtype.block_elems() * dtype.block_bytes();
            let mut blocks = vec![0u8; n_bytes as usize];
            let weights = weights.or(codec.needs_weights.then_some(&ones[..]));
            encode(level, Rows { values: &values, row_elems, weights }, &mut blocks);
            (codec.decode)(level, &blocks, &mut decoded);
            let differences = || values.iter().zip(&decoded).map(|(value, decoded)| value - decoded);
            sum.0 += share * squares(differences(), by_column);
            sum.1 += share * squares(differences(), &ones);
        }
    }
    // NaN for values that are not finite, which the budget refuses.
    let relative = |sum: f64, energy: f64| if energy == 0.0 { 0.0 } else { sum / energy };
    let larger = |(sum, plain): (f64, f64)| {
        let (weighted, plain) = (relative(sum, energy), relative(plain, plain_energy));
        if plain > weighted { plain } else { weighted }
    };
    Ok(sums.into_iter().map(larger).collect())
}

/// Sum of squares, (rows, row_elems), each weighted by its column.
fn squares(values: impl Iterator<Item = f32>, by_column: &[f32]) -> f64 {
    let weighted = values.zip(by_column.iter().cycle());
    weighted.map(|(value, weight)| f64::from(*weight) * f64::from(value) * f64::from(value)).sum()
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use gguf_conversion::RowSource;
    use gguf_layout::RowView;

    use super::*;

    /// A stack of two matrices of two rows: one of equal values, which every type stores well, and one of different values.
    #[derive(Debug)]
    struct Stack;

    impl RowSource for Stack {
        fn view(&self) -> RowView {
            RowView { n_rows: 4, row_elems: 32 }
        }

        fn read(&self, rows: Range<u64>, _: Level, out: &mut [f32]) -> Result<(), gguf_conversion::Error> {
            for (row, out) in rows.zip(out.chunks_exact_mut(32)) {
                for (column, value) in out.iter_mut().enumerate() {
                    *value = if row < 2 { 1.0 } else { (column as f32 * 0.7 + row as f32).sin() };
                }
            }
            Ok(())
        }

        fn input_bytes(&self, n_rows: u64) -> u64 {
            n_rows * 128
        }
    }

    fn error_of(weights: &[f32], seen: &[i64]) -> f64 {
        let task = TensorTask::new("blk.0.ffn_up_exps.weight".into(), Box::new(Stack));
        let columns = Some(Columns { weights, seen });
        errors(&task, &[DType::Q4_0], columns, Level::detect()).unwrap()[0]
    }

    #[test]
    fn experts_count_by_their_tokens() {
        let ones = [1.0; 64];
        let [first, second, both, most] =
            [[10, 0], [0, 10], [10, 10], [90, 10]].map(|seen| error_of(&ones, &seen));
        assert!(first < most && most < both && both < second, "{first} {most} {both} {second}");
        // Without numbers of tokens, all experts count alike.
        assert_eq!(error_of(&ones, &[1, 1]), error_of(&ones, &[7]));
        assert_eq!(error_of(&ones, &[1, 1]), error_of(&ones, &[0, 0]));
    }

    #[test]
    fn unimportant_columns_count_at_least_like_all() {
        let mut weights = [1.0; 64];
        weights[33..].fill(1e-9);
        // The scale of a block suits the only important column, and the others lose more.
        assert!(error_of(&weights, &[0, 1]) >= error_of(&[1.0; 64], &[0, 1]));
    }
}
