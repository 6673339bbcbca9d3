//! Lists of tensor names in messages.

/// Names that a message spells out before it only counts.
const SHOWN: usize = 8;

/// The first eight names in backticks, and how many more there are: one spelling for the errors of all crates.
///
/// ```
/// let names: Vec<String> = (0..10).map(|i| format!("w{i}")).collect();
/// assert_eq!(tensor::list_names(&names[..2]), "`w0`, `w1`");
/// assert!(tensor::list_names(&names).ends_with("`w7` and 2 more"));
/// ```
pub fn list_names(names: &[impl AsRef<str>]) -> String {
    let shown: Vec<String> = names.iter().take(SHOWN).map(|name| format!("`{}`", name.as_ref())).collect();
    match names.len().saturating_sub(SHOWN) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}
