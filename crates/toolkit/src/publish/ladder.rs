//! Choice of files: by name, by ladder or by available memory.

use gguf_conversion::recipes::Recipe;
use gguf_runtime::memory::{Demand, Use};
use serde::{Deserialize, Serialize};

use crate::{error::Error, sizes::parse_size, text::human_bytes};

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

/// Parses the name of a ladder.
#[cfg(feature = "clap")]
pub fn ladder() -> impl clap::builder::TypedValueParser<Value = Ladder> {
    crate::arguments::choice(Ladder::ALL.iter().map(|(ladder, name)| (*name, "", *ladder)))
}

/// A file of a publication: a type by its rules, or a type whose tensors get other types so that the file has a size.
#[derive(Debug, Clone, Copy)]
pub struct Entry {
    pub recipe: &'static Recipe,
    /// Limit of the file in bytes.
    pub target_size: Option<u64>,
}

impl Entry {
    /// The file of a type.
    pub fn of_type(recipe: &'static Recipe) -> Entry {
        Entry { recipe, target_size: None }
    }

    /// Its name in the card and in file names: `Q4_K_M` or `Q4_K_M-5GB`.
    pub fn label(&self) -> String {
        let name = self.recipe.canonical_name();
        self.target_size.map_or_else(|| name.to_owned(), |size| format!("{name}-{}", size_label(size)))
    }
}

/// A size in a file name: `5GB`, `4.25GB`.
pub fn size_label(bytes: u64) -> String {
    let units = [("GB", 1_000_000_000), ("MB", 1_000_000), ("KB", 1000), ("B", 1)];
    let (unit, scale) = units.into_iter().find(|(_, scale)| bytes >= *scale).unwrap_or(("B", 1));
    let number = format!("{:.3}", bytes as f64 / scale as f64);
    format!("{}{unit}", number.trim_end_matches('0').trim_end_matches('.'))
}

/// A size as an option takes it: with a unit if that is exact.
pub fn size_argument(bytes: u64) -> String {
    let label = size_label(bytes);
    if parse_size(&label) == Ok(bytes) { label } else { bytes.to_string() }
}

/// The entry for a target size. Its type is the largest of `sizes` that fits, or else the smallest, and decides which tensors
/// are not quantized.
pub fn for_size(sizes: &[(&'static Recipe, u64)], target_size: u64) -> Option<Entry> {
    let fitting = sizes.iter().filter(|(_, bytes)| *bytes <= target_size).max_by_key(|(_, bytes)| *bytes);
    let (recipe, _) = fitting.or_else(|| sizes.iter().min_by_key(|(_, bytes)| *bytes))?;
    Some(Entry { recipe, target_size: Some(target_size) })
}

/// For each budget the largest type that fits, each once, from small to large.
pub fn for_budgets(
    sizes: &[(&'static Recipe, u64)],
    demand: &Demand,
    budgets: &[u64],
    used: &Use,
) -> Result<Vec<&'static Recipe>, Error> {
    let totals = sizes.iter().map(|&(recipe, weights)| {
        let bytes = Demand { weights, ..demand.clone() }.bytes(used).map_err(Error::new)?;
        Ok((recipe, weights, bytes.total()))
    });
    let totals = totals.collect::<Result<Vec<_>, Error>>()?;
    let mut chosen: Vec<(u64, &'static Recipe)> = Vec::new();
    for budget in budgets {
        let fitting = totals.iter().filter(|(_, _, total)| total <= budget);
        let best = fitting.max_by_key(|(_, weights, _)| *weights).ok_or_else(|| {
            let smallest =
                totals.iter().map(|(_, _, total)| *total).min().map_or_else(String::new, human_bytes);
            let message = format!("no file fits in {} with {} tokens", human_bytes(*budget), used.context);
            Error::new(message).hint([format!("the smallest type of the ladder needs {smallest}")])
        })?;
        if !chosen.iter().any(|(_, recipe)| recipe.name == best.0.name) {
            chosen.push((best.1, best.0));
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
    fn target_size_is_part_of_the_label() {
        let sizes = ["q2_k", "q4_k_m", "q8_0"].map(|name| Recipe::from_name(name).unwrap());
        let sizes: Vec<_> = sizes.into_iter().zip([3_000_000_000, 5_000_000_000, 9_000_000_000]).collect();
        let label = |size| for_size(&sizes, size).unwrap().label();
        assert_eq!(label(5_000_000_000), "Q4_K_M-5GB");
        assert_eq!(label(8_250_000_000), "Q4_K_M-8.25GB");
        assert_eq!(label(900_000), "Q2_K-900KB");
        for (size, argument) in [(900_000, "900KB"), (8_250_000_000, "8.25GB"), (5 << 30, "5368709120")] {
            assert_eq!(size_argument(size), argument);
        }
    }

    #[test]
    fn budget_gets_largest_fitting_type() {
        let demand = Demand { weights: 0, layers: Vec::new(), n_embd: 1, n_vocab: 0, context_length: 0 };
        let sizes = [("q2_k", 100_000), ("q4_k_m", 200_000), ("q8_0", 400_000)]
            .map(|(name, bytes)| (Recipe::from_name(name).unwrap(), bytes));
        let names = |budgets: &[u64]| {
            for_budgets(&sizes, &demand, budgets, &Use::default())
                .map(|chosen| chosen.iter().map(|recipe| recipe.name).collect::<Vec<_>>())
        };
        assert_eq!(names(&[450_000, 250_000, 260_000]).unwrap(), ["Q4_K_M", "Q8_0"]);
        assert!(names(&[450_000, 50_000]).unwrap_err().to_string().contains("no file fits in 50.0 kB"));
    }
}
