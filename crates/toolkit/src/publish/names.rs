//! Names in the published folder.

/// Names of the card and of the files next to it.
pub const CARD: &str = "README.md";
pub const TEMPLATE: &str = "chat_template.jinja";
pub const PLOT: &str = "plot.svg";
pub const REPORT: &str = "report.html";
pub const RESULTS: &str = "results.json";
pub const SUMS: &str = "SHA256SUMS";

/// Value of `format`.
pub const FORMAT: &str = "gguf-publish results";
