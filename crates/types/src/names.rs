//! Counts, lists of names and digits in messages.

/// Maximum number of names in a message.
const SHOWN: usize = 8;

/// The first eight names in backticks, and the number of others: one format for the errors of all crates.
///
/// ```
/// let names: Vec<String> = (0..10).map(|i| format!("w{i}")).collect();
/// assert_eq!(gguf_types::list_names(&names[..2]), "`w0`, `w1`");
/// assert!(gguf_types::list_names(&names).ends_with("`w7` and 2 more"));
/// ```
pub fn list_names(names: &[impl AsRef<str>]) -> String {
    let shown: Vec<String> = names.iter().take(SHOWN).map(|name| format!("`{}`", name.as_ref())).collect();
    format!("{}{}", shown.join(", "), and_more(names.len().saturating_sub(SHOWN)))
}

/// The end of a list that omits `n` items; empty for 0.
///
/// ```
/// assert_eq!(gguf_types::and_more(2), " and 2 more");
/// assert_eq!(gguf_types::and_more(0), "");
/// ```
pub fn and_more(n: usize) -> String {
    if n == 0 { String::new() } else { format!(" and {n} more") }
}

/// Bytes as hexadecimal digits.
///
/// ```
/// assert_eq!(gguf_types::hex(&[0, 255]), "00ff");
/// ```
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
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
