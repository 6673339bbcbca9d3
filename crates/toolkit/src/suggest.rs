//! Suggestions for unknown names.

use std::collections::BTreeMap;

use strsim::levenshtein;

/// Returns up to three parts of names that are nearest to `pattern`; empty if all are far.
/// `attn_q` of `blk.7.attn_q.weight` is a part.
pub fn suggest<'a>(pattern: &str, names: impl Iterator<Item = &'a str>) -> Vec<String> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let words = |text: &'_ str| -> Vec<String> {
        let words = text.split(|c| !is_word(c));
        let is_distinctive = |word: &&str| {
            word.len() > 1
                && word.contains(|c: char| c.is_ascii_alphabetic())
                && !["blk", "weight"].contains(word)
        };
        words.filter(is_distinctive).map(str::to_owned).collect()
    };
    // Letters after a backslash are character classes.
    let mut plain = String::new();
    let mut letters = pattern.chars();
    while let Some(letter) = letters.next() {
        if letter == '\\' {
            letters.next();
            plain.push(' ');
        } else {
            plain.push(letter.to_ascii_lowercase());
        }
    }
    let wanted = words(&plain);
    let mut distances: BTreeMap<String, usize> = BTreeMap::new();
    for part in names.flat_map(words) {
        let of_word = |word: &String| {
            let distance = levenshtein(word, &part);
            (distance * 2 <= word.len().max(3)).then_some(distance)
        };
        if let Some(distance) = wanted.iter().filter_map(of_word).min() {
            distances.insert(part, distance);
        }
    }
    let mut nearest: Vec<(usize, String)> =
        distances.into_iter().map(|(part, distance)| (distance, part)).collect();
    nearest.sort();
    nearest.into_iter().take(3).map(|(_, part)| part).collect()
}

/// Returns the one or two of `names` that are nearest to `word`, ignoring case and separators; empty if all are far. Among
/// equally near names, those with a longer common prefix come first.
pub fn nearest<'a>(word: &str, names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let letters = |text: &str| text.to_ascii_lowercase().replace(['_', '-', '.'], "");
    let word = letters(word);
    let far = |name: &&str| {
        let name = letters(name);
        let n_alike = word.bytes().zip(name.bytes()).take_while(|(a, b)| a == b).count();
        (levenshtein(&word, &name), std::cmp::Reverse(n_alike))
    };
    let mut near: Vec<&str> = names.filter(|name| far(name).0 * 2 <= word.len().max(3)).collect();
    near.sort_by_key(far);
    // Names that are farther than the nearest are noise.
    let least = near.first().map(|name| far(name).0);
    near.retain(|name| Some(far(name).0) == least);
    near.truncate(2);
    near
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn similar_names_are_suggested() {
        let names = ["blk.0.attn_q.weight", "blk.1.attn_k.weight", "blk.0.ffn_down.weight", "output.weight"];
        let near = |pattern: &str| suggest(pattern, names.into_iter()).join(" ");
        assert_eq!(near("atn_q"), "attn_q attn_k");
        assert_eq!(near(r"blk\.\d+\.FFN_dwn"), "ffn_down");
        assert_eq!(near("ouput"), "output");
        assert_eq!(near("zzz"), "");
    }

    #[test]
    fn nearest_names_are_suggested() {
        let types = ["q4_0", "q4_k_m", "q4_k_s", "f16", "bf16", "iq3_xxs"];
        let nearest = |word: &str| nearest(word, types.into_iter()).join(" ");
        assert_eq!(nearest("q4km"), "q4_k_m");
        assert_eq!(nearest("fp16"), "f16");
        assert_eq!(nearest("Q4_K_XL"), "q4_k_m q4_k_s");
        assert_eq!(nearest("hello"), "");
    }
}
