//! The list of file types in `--help`.

use gguf_toolkit::{table::table, types};

use super::help::examples;

/// Costs of each type, measured by `scripts/measure-types`: name, bits per weight of Qwen3 14B and of the
/// measured model, divergence without and with an importance matrix.
pub const MEASURED: &str = include_str!("types_measured.tsv");

const EXPLANATION: &str = "bits: bits per weight of Qwen3 14B. KL div, imatrix: KL divergence from the \
    original in nats, without and with an importance matrix, measured on a GPT-2 with 11 million weights \
    (microformer-mgm 0.5.8). Larger models lose less; measure yours with `gguf-eval compare`.";

/// Examples and notes of a program, then every file type of the table of recipes.
pub fn types_help(binary: &str) -> String {
    let header = ["  type", "id", "bits", "KL div", "imatrix", ""].map(str::to_owned).to_vec();
    let mut rows = vec![header];
    for recipe in types() {
        let number = if recipe.copy { String::new() } else { recipe.file_type.id().to_string() };
        let about = match recipe.alias_of {
            Some(other) => format!("same as {other}"),
            None if recipe.needs_imatrix => format!("{}; needs imatrix", recipe.about),
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
    format!("{}\n\nTypes:\n{}\n{EXPLANATION}", examples(binary, None), table(&rows, &[1, 2, 3, 4]))
}
