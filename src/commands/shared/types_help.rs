//! The list of file types in `--help`.

use convert::recipes::RECIPES;

use super::table::table;

/// Costs of each type, measured by `scripts/measure-types`: name, bits per weight of Qwen3 14B and of the
/// measured model, divergence without and with an importance matrix.
const MEASURED: &str = include_str!("types_measured.tsv");

const EXPLANATION: &str = "\
bits: a weight of Qwen3 14B has so many in a file of the type; divergence: what the type costs, in nats, without and with an importance
matrix, measured on a GPT-2 of 11 million weights (microformer-mgm 0.5.8). Large models lose less: `gguf-eval compare` measures yours.";

/// The examples, then every file type of the table of recipes.
pub(in crate::commands) fn types_help(examples: &str) -> String {
    let header = ["  type", "number", "bits", "divergence", "with matrix", ""].map(str::to_owned).to_vec();
    let mut rows = vec![header];
    for recipe in RECIPES {
        let number = if recipe.copy { String::new() } else { recipe.file_type.id().to_string() };
        let about = match recipe.alias_of {
            Some(other) => format!("another name of {other}"),
            None if recipe.needs_imatrix => format!("{}; needs an importance matrix", recipe.about),
            None => recipe.about.to_owned(),
        };
        let measured = MEASURED.lines().map(|line| line.split('\t').collect::<Vec<_>>());
        let [_, bits, _, plain, weighted] = measured
            .filter_map(|cells| <[&str; 5]>::try_from(cells).ok())
            .find(|cells| cells[0] == recipe.name)
            .unwrap_or_default();
        rows.push(
            [&format!("  {}", recipe.name), &number, bits, plain, weighted, &about]
                .map(str::to_owned)
                .to_vec(),
        );
    }
    format!("{examples}\n\nTypes:\n{}\n{EXPLANATION}", table(&rows, &[1, 2, 3, 4]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_measured_is_of_types_that_there_are() {
        let names: Vec<&str> = MEASURED
            .lines()
            .filter(|line| !line.starts_with('#'))
            .map(|line| line.split('\t').next().unwrap())
            .collect();
        assert!(names.len() > 30);
        for name in names {
            assert!(RECIPES.iter().any(|recipe| recipe.name == name), "{name}");
        }
    }
}
