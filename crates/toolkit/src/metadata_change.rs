//! Old and new value of a metadata key, on one line that shows the difference.

use gguf_container::Value;

use crate::{
    line_diff::{Step, steps},
    metadata_json::{SHOWN_CHARS, entry, short},
    text::printable,
};

/// Characters before and after a difference that are shown.
const AROUND: usize = 24;

/// `OLD -> NEW`, of long values the first difference and the number of differences.
pub fn change(old: &Value, new: &Value) -> String {
    let texts = old.as_str().zip(new.as_str());
    let is_long = |text: &str| text.chars().nth(SHOWN_CHARS).is_some();
    match texts.filter(|(old, new)| is_long(old) || is_long(new)) {
        Some((old, new)) => of_texts(old, new),
        None => format!("{}{} -> {}", first_item(old, new), short(old), short(new)),
    }
}

/// The first item in which two lists differ.
fn first_item(old: &Value, new: &Value) -> String {
    let (Some(_), Some(_)) = (old.as_array(), new.as_array()) else { return String::new() };
    let items =
        |value| entry(value).get("value").and_then(|items| items.as_array()).cloned().unwrap_or_default();
    let (old, new) = (items(old), items(new));
    let at = old.iter().zip(&new).position(|(old, new)| old != new);
    at.map_or_else(String::new, |at| {
        let text = |item: &serde_json::Value| printable(&item.to_string());
        format!("item {at} {} -> {}; ", text(&old[at]), text(&new[at]))
    })
}

/// Differences of two texts, word by word.
fn of_texts(old: &str, new: &str) -> String {
    let is_end = |letter: char| letter.is_whitespace() || ['}', '\'', '"', '>'].contains(&letter);
    let (a, b): (Vec<&str>, Vec<&str>) =
        (old.split_inclusive(is_end).collect(), new.split_inclusive(is_end).collect());
    // Runs of words that differ: their first byte in both texts, and their lengths.
    let (mut runs, mut in_a, mut in_b, mut was_equal) = (Vec::new(), 0, 0, true);
    let (mut words_a, mut words_b) = (a.iter(), b.iter());
    for step in steps(&a, &b) {
        if step != Step::Both && was_equal {
            runs.push([in_a, in_b, in_a, in_b]);
        }
        was_equal = step == Step::Both;
        in_a += if step == Step::OnlyB { 0 } else { words_a.next().map_or(0, |word| word.len()) };
        in_b += if step == Step::OnlyA { 0 } else { words_b.next().map_or(0, |word| word.len()) };
        if let Some(run) = runs.last_mut().filter(|_| !was_equal) {
            (run[2], run[3]) = (in_a, in_b);
        }
    }
    let Some([from_a, from_b, to_a, to_b]) = runs.first().copied() else { return String::new() };
    let more = match runs.len() {
        1 => String::new(),
        n => format!(" (the first of {n} differences)"),
    };
    format!("{} -> {}{more}", excerpt(old, from_a, to_a), excerpt(new, from_b, to_b))
}

/// A part of a text with its surroundings. Both offsets are ends of words.
fn excerpt(text: &str, from: usize, to: usize) -> String {
    let before = text[..from].char_indices().rev().nth(AROUND - 1).map_or(0, |(at, _)| at);
    let after = text[to..].char_indices().nth(AROUND).map_or(text.len(), |(at, _)| to + at);
    let dots = |is_cut| if is_cut { "..." } else { "" };
    let middle: String = text[from..to].chars().take(SHOWN_CHARS).collect();
    let is_short = middle.len() == to - from;
    let shown = if is_short { &text[before..after] } else { &text[before..from + middle.len()] };
    format!("{}{}{}", dots(before > 0), printable(shown), dots(!is_short || after < text.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_difference_of_long_values_is_shown() {
        let template = |extra: &str| {
            let text =
                "{{ bos_token }}{% for message in messages %}<|{{ message['role'] }}|>{{ message['content']";
            Value::from(format!("{text}{extra} }}}}{{% endfor %}}").as_str())
        };
        let text = change(&template(""), &template(" | trim"));
        assert_eq!(
            text,
            "...|>{{ message['content'] }}{% endfor %} -> ...|>{{ message['content'] | trim }}{% endfor %}"
        );
        let list = |text: &str| Value::from(vec![text, "b"]);
        assert_eq!(change(&list("a"), &list("c")), "item 0 \"a\" -> \"c\"; [2 items] -> [2 items]");
        assert_eq!(change(&Value::U32(1), &Value::U32(2)), "1 -> 2");
    }
}
