//! Front matter of a model card: YAML between two lines of `---` at the start of README.md.
//!
//! Rules: `Metadata.load_model_card` in `gguf-py/gguf/metadata.py`, llama.cpp as vendored in llama-cpp-python
//! 0.3.36. One difference: front matter that does not parse raises an exception in the reference; here it is
//! a note, because no weight depends on it.

use serde_json::Value as Json;

use crate::yaml;

/// Front matter of `README.md`. Adds a note if it cannot be used.
pub(crate) fn read(card: &[u8], notes: &mut Vec<String>) -> Option<Json> {
    front_matter(card).unwrap_or_else(|error| {
        notes.push(format!("`README.md`: the model card's metadata is ignored: {error}"));
        None
    })
}

/// Front matter as a JSON object; `None` if the card has no front matter.
///
/// # Errors
/// The reason that existing front matter cannot be used.
pub fn front_matter(card: &[u8]) -> Result<Option<Json>, String> {
    let text = std::str::from_utf8(card).map_err(|error| format!("not UTF-8: {error}"))?;
    let mut lines = lines(text);
    if lines.next() != Some("---") {
        return Ok(None);
    }
    let mut head = String::new();
    for line in lines.take_while(|line| *line != "---") {
        head.push_str(line);
        head.push('\n');
    }
    // Norwegian is the only language whose code parses as a boolean, and tabs are invalid indentation.
    let head = head.replace("- no\n", "- \"no\"\n").replace('\t', "  ");
    match yaml::parse(&head)? {
        Json::Object(map) if map.is_empty() => Ok(None),
        Json::Object(map) => Ok(Some(Json::Object(map))),
        Json::Null if head.trim().is_empty() => Ok(None),
        other => Err(format!("expected a mapping, found {}", crate::json::kind(&other))),
    }
}

/// Lines, divided like Python's `str.splitlines`.
fn lines(text: &str) -> impl Iterator<Item = &str> {
    const ENDS: [char; 10] =
        ['\n', '\r', '\u{b}', '\u{c}', '\u{1c}', '\u{1d}', '\u{1e}', '\u{85}', '\u{2028}', '\u{2029}'];
    let mut rest = Some(text).filter(|text| !text.is_empty());
    std::iter::from_fn(move || {
        let text = rest?;
        let Some(end) = text.find(ENDS) else {
            rest = None;
            return Some(text);
        };
        let after = &text[end..];
        let skip = if after.starts_with("\r\n") { 2 } else { after.chars().next().map_or(0, char::len_utf8) };
        rest = Some(&after[skip..]).filter(|rest| !rest.is_empty());
        Some(&text[..end])
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn front_matter_is_parsed() {
        let card = "---\r\nlicense: apache-2.0\r\nlanguage:\r\n- en\r\n- no\r\ntags:\r\n\t- a\r\n---\r\n# \
            Title\r\n---\r\nno: yes\r\n";
        let expected = json!({"license": "apache-2.0", "language": ["en", "no"], "tags": ["a"]});
        assert_eq!(front_matter(card.as_bytes()), Ok(Some(expected)));
        // Without a second line of dashes everything is front matter.
        assert_eq!(front_matter(b"---\na: 1"), Ok(Some(json!({"a": 1}))));
        for none in
            ["", "# Title\n---\na: 1\n---\n", "---\n---\n", "--- \na: 1\n---\n", "\u{feff}---\na: 1\n---\n"]
        {
            assert_eq!(front_matter(none.as_bytes()), Ok(None), "{none:?}");
        }
    }

    #[test]
    fn unusable_front_matter_states_reason() {
        for (card, part) in [
            (&b"---\n\xff\n---\n"[..], "UTF-8"),
            (b"---\n- a\n---\n", "an array"),
            (b"---\na: [\n---\n", "line"),
        ] {
            let error = front_matter(card).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn line_ends_match_python() {
        assert_eq!(lines("a\r\nb\rc\u{85}d\u{2028}\n").collect::<Vec<_>>(), ["a", "b", "c", "d", ""]);
        assert_eq!(lines("").count(), 0);
    }
}
