//! Counts and lists of tensors in messages.

/// Names that a message spells out before it only counts.
const SHOWN: usize = 8;

/// The first eight names in backticks, and how many more there are: one spelling for the errors of all crates.
///
/// ```
/// let names: Vec<String> = (0..10).map(|i| format!("w{i}")).collect();
/// assert_eq!(gguf_types::list_names(&names[..2]), "`w0`, `w1`");
/// assert!(gguf_types::list_names(&names).ends_with("`w7` and 2 more"));
/// ```
pub fn list_names(names: &[impl AsRef<str>]) -> String {
    let shown: Vec<String> = names.iter().take(SHOWN).map(|name| format!("`{}`", name.as_ref())).collect();
    match names.len().saturating_sub(SHOWN) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

/// A number and its noun, which ends with `s` in the plural.
///
/// ```
/// assert_eq!(gguf_types::counted(1, "missing tensor"), "1 missing tensor");
/// assert_eq!(gguf_types::counted(3, "missing tensor"), "3 missing tensors");
/// ```
pub fn counted(n: usize, noun: &str) -> String {
    format!("{n} {noun}{}", if n == 1 { "" } else { "s" })
}
