//! Did you mean: the names that are nearest to what was given.

use std::collections::BTreeMap;

/// Up to three parts of names that are nearest to what `pattern` spells; none where all are far.
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
    // Letters behind a backslash stand for classes of letters.
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
            let distance = distance(word, &part);
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

/// Letters to put in, take out or change to make one word of the other.
fn distance(a: &str, b: &str) -> usize {
    let b = b.as_bytes();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, letter) in a.bytes().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, other) in b.iter().enumerate() {
            let changed = diagonal + usize::from(letter != *other);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_near() {
        let names = ["blk.0.attn_q.weight", "blk.1.attn_k.weight", "blk.0.ffn_down.weight", "output.weight"];
        let near = |pattern: &str| suggest(pattern, names.into_iter()).join(" ");
        assert_eq!(near("atn_q"), "attn_q attn_k");
        assert_eq!(near(r"blk\.\d+\.FFN_dwn"), "ffn_down");
        assert_eq!(near("ouput"), "output");
        assert_eq!(near("zzz"), "");
        assert_eq!(distance("kitten", "sitting"), 3);
    }
}
