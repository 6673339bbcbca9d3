//! Bytes, characters and their categories.

use std::{borrow::Cow, sync::OnceLock};

use regex_syntax::hir::{Class, HirKind};

/// Length of the character that a lead byte announces; 1 for other bytes.
///
/// Source: `unicode_len_utf8` in `src/unicode.cpp` of llama.cpp, as vendored in llama-cpp-python 0.3.36.
pub(super) fn announced_len(lead: u8) -> usize {
    match lead >> 4 {
        0..=11 => 1,
        12 | 13 => 2,
        14 => 3,
        _ => 4,
    }
}

/// Replaces every byte that is not part of a character.
///
/// Source: `unicode_cpts_from_utf8`. It accepts surrogates and overlong forms; here they count as invalid
/// bytes.
pub(super) fn replaced(bytes: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = std::str::from_utf8(bytes) {
        return Cow::Borrowed(text);
    }
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
    }
    Cow::Owned(text)
}

/// Characters of a Unicode category, as sorted ranges.
pub(super) struct Category(Vec<(char, char)>);

impl Category {
    /// Parses a class such as `\p{P}`; an invalid class is empty.
    fn new(class: &str) -> Self {
        let ranges = match regex_syntax::parse(class).map(|hir| hir.into_kind()) {
            Ok(HirKind::Class(Class::Unicode(class))) => {
                class.ranges().iter().map(|range| (range.start(), range.end())).collect()
            }
            _ => Vec::new(),
        };
        Category(ranges)
    }

    /// True if the category contains a character.
    pub(super) fn has(&self, c: char) -> bool {
        // Ranges are sorted and disjoint: only the last one that starts at or before `c` can contain it.
        let after = self.0.partition_point(|(start, _)| *start <= c);
        after > 0 && c <= self.0[after - 1].1
    }
}

macro_rules! categories {
    ($($(#[$doc:meta])* $name:ident = $class:literal;)*) => {$(
        $(#[$doc])*
        pub(super) fn $name() -> &'static Category {
            static CATEGORY: OnceLock<Category> = OnceLock::new();
            CATEGORY.get_or_init(|| Category::new($class))
        }
    )*};
}

categories! {
    /// Numbers of every kind: digits, letters that are numbers, fractions.
    numbers = r"\p{N}";
    punctuation = r"\p{P}";
    marks = r"\p{M}";
    /// Nonspacing marks of Unicode 8, which Hugging Face's BERT strips.
    old_nonspacing_marks = r"[\p{Mn}&&\p{Age:8.0}]";
    /// Punctuation of Unicode 8.
    old_punctuation = r"[\p{P}&&\p{Age:8.0}]";
    /// Control, format and private characters of Unicode 8.
    old_others = r"[[\p{Cc}\p{Cf}\p{Co}]&&\p{Age:8.0}]";
    /// Control, format, surrogate, private and unassigned characters.
    other_category = r"\p{C}";
    unassigned = r"\p{Cn}";
}

/// Lower case if it is one character, like in a table of single characters.
pub(super) fn simple_lower(c: char) -> char {
    let mut lower = c.to_lowercase();
    match (lower.next(), lower.next()) {
        (Some(lower), None) => lower,
        _ => c,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_utf8_bytes_are_replaced_singly() {
        assert_eq!(replaced(b"a\xf0\x9f\x98z"), "a\u{fffd}\u{fffd}\u{fffd}z");
        assert_eq!(replaced("é".as_bytes()), "é");
    }

    #[test]
    fn categories_hold_expected_characters() {
        assert!(numbers().has('Ⅷ') && !numbers().has('x'));
        assert!(punctuation().has('_') && !punctuation().has('+'));
        assert!(marks().has('\u{903}') && !old_nonspacing_marks().has('\u{903}'));
        // A mark since Unicode 14.
        assert!(marks().has('\u{c3c}') && !old_nonspacing_marks().has('\u{c3c}'));
        assert!(old_nonspacing_marks().has('\u{301}') && old_punctuation().has('\u{2e3a}'));
        assert!(old_others().has('\u{e000}') && old_others().has('\u{200d}') && !old_others().has('\u{378}'));
        assert!(other_category().has('\u{200d}') && !unassigned().has('\u{200d}'));
        assert!(!Category::new("(").has('('));
    }
}
