//! Names in the published folder.

use std::path::{Path, PathBuf};

/// Names of the card and of the files next to it.
pub const CARD: &str = "README.md";
pub const TEMPLATE: &str = "chat_template.jinja";
pub const PLOT: &str = "plot.svg";
pub const REPORT: &str = "report.html";
pub const RESULTS: &str = "results.json";
pub const SUMS: &str = "SHA256SUMS";

/// Value of `format`.
pub const FORMAT: &str = "gguf-publish results";

/// Name of the recipe of a file in the folder, by the name of its type in the card.
pub fn recipe_name(label: &str) -> String {
    format!("recipes/{label}.json")
}

/// Path of the recipe of a file, by the name of its type in the card.
pub fn recipe_path(label: &str, out: &Path) -> PathBuf {
    out.join(recipe_name(label))
}
