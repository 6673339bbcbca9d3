//! Choice of files: by name, by ladder or by available memory.

use gguf_conversion::recipes::Recipe;
use gguf_runtime::memory::{Demand, Use};
use serde::{Deserialize, Serialize};

use crate::{error::Error, text::human_bytes};

/// A ladder: types from small to large.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Ladder {
    /// The most popular types.
    Small,
    /// Types from 2 to 8 bits.
    Full,
}

impl Ladder {
    /// Every ladder with its name.
    pub const ALL: &[(Ladder, &str)] = &[(Ladder::Small, "small"), (Ladder::Full, "full")];

    fn names(self) -> &'static [&'static str] {
        match self {
            Ladder::Small => &["q3_k_m", "q4_k_m", "q5_k_m", "q6_k", "q8_0"],
            Ladder::Full => &[
                "iq2_xxs", "iq2_m", "q2_k", "iq3_xxs", "q3_k_m", "iq4_xs", "q4_k_s", "q4_k_m", "q5_k_s",
                "q5_k_m", "q6_k", "q8_0",
            ],
        }
    }

    /// Its types.
    ///
    /// # Errors
    /// An unknown name in the table, which a test rules out.
    pub fn types(self) -> Result<Vec<&'static Recipe>, Error> {
        self.names().iter().map(|name| Recipe::from_name(name).map_err(Error::new)).collect()
    }
}

/// A type that could be written, and the memory that it needs.
pub struct Rung {
    pub recipe: &'static Recipe,
    pub demand: Demand,
}

/// For each budget the largest type that fits, each once, from small to large.
///
/// # Errors
/// A budget that nothing fits.
pub fn for_budgets(rungs: &[Rung], budgets: &[u64], used: &Use) -> Result<Vec<&'static Recipe>, Error> {
    let mut chosen: Vec<(u64, &'static Recipe)> = Vec::new();
    for budget in budgets {
        let mut best: Option<(u64, &'static Recipe)> = None;
        for rung in rungs {
            let total = rung.demand.bytes(used).map_err(Error::new)?.total();
            if total <= *budget && best.is_none_or(|(weights, _)| rung.demand.weights > weights) {
                best = Some((rung.demand.weights, rung.recipe));
            }
        }
        let best = best.ok_or_else(|| {
            let smallest =
                rungs.iter().filter_map(|rung| rung.demand.bytes(used).ok()).map(|bytes| bytes.total()).min();
            let smallest = smallest.map_or_else(String::new, human_bytes);
            let message = format!("no file fits in {} with {} tokens", human_bytes(*budget), used.context);
            Error::new(message).hint([format!("the smallest type of the ladder needs {smallest}")])
        })?;
        if !chosen.iter().any(|(_, recipe)| recipe.name == best.1.name) {
            chosen.push(best);
        }
    }
    chosen.sort_by_key(|(weights, _)| *weights);
    Ok(chosen.into_iter().map(|(_, recipe)| recipe).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ladders_list_known_types() {
        for (ladder, _) in Ladder::ALL {
            let types = ladder.types().unwrap();
            assert_eq!(types.len(), ladder.names().len());
            assert!(types.iter().all(|recipe| !recipe.copy));
        }
    }

    #[test]
    fn budget_gets_largest_fitting_type() {
        let rung = |name: &str, weights: u64| Rung {
            recipe: Recipe::from_name(name).unwrap(),
            demand: Demand { weights, layers: Vec::new(), n_embd: 1, n_vocab: 0, context_length: 0 },
        };
        let rungs = [rung("q2_k", 100_000), rung("q4_k_m", 200_000), rung("q8_0", 400_000)];
        let names = |budgets: &[u64]| {
            for_budgets(&rungs, budgets, &Use::default())
                .map(|chosen| chosen.iter().map(|recipe| recipe.name).collect::<Vec<_>>())
        };
        assert_eq!(names(&[450_000, 250_000, 260_000]).unwrap(), ["Q4_K_M", "Q8_0"]);
        assert!(names(&[450_000, 50_000]).unwrap_err().to_string().contains("no file fits in 50.0 kB"));
    }
}
