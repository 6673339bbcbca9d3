//! YAML by the rules of YAML 1.1, as JSON.
//!
//! Plain words are booleans, numbers or null by the rules of PyYAML 6's `SafeLoader`
//! (`resolver.py`), because the reference reads model cards with it: `no` is false, `0o7` is
//! text, `1:30` is ninety. Dates stay text.

use std::collections::HashMap;

use saphyr_parser::{Event, Parser, ScalarStyle, Tag};
use serde_json::{Map, Number, Value as Json};

/// Maximum number of nodes of a document, copies made by aliases included.
const MAX_NODES: usize = 200_000;
/// Maximum nesting of lists and maps.
const MAX_DEPTH: usize = 64;

/// A list or map that is still open.
struct Open {
    value: Json,
    /// Key that waits for its value, in a map.
    key: Option<String>,
    /// Maps that `<<` merges; keys of the map itself take precedence.
    merged: Vec<Json>,
    anchor: usize,
}

/// First document of `text`; null if there is no document.
///
/// # Errors
/// The problem and its location.
pub(crate) fn parse(text: &str) -> Result<Json, String> {
    let mut anchors: HashMap<usize, (Json, usize)> = HashMap::new();
    let mut open: Vec<Open> = Vec::new();
    let mut n_nodes = 0;
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|error| error.to_string())?;
        let at = || format!("line {} column {}", span.start.line(), span.start.col() + 1);
        let (value, anchor) = match event {
            Event::SequenceStart(anchor, _) | Event::MappingStart(anchor, _) => {
                if open.len() == MAX_DEPTH {
                    return Err(format!("more than {MAX_DEPTH} levels at {}", at()));
                }
                let value = match event {
                    Event::SequenceStart(..) => Json::Array(Vec::new()),
                    _ => Json::Object(Map::new()),
                };
                open.push(Open { value, key: None, merged: Vec::new(), anchor });
                continue;
            }
            Event::SequenceEnd | Event::MappingEnd => match open.pop() {
                Some(done) => (merge(done.value, done.merged), done.anchor),
                None => continue,
            },
            Event::Scalar(text, style, anchor, tag) => (scalar(&text, style, tag.as_deref()), anchor),
            Event::Alias(anchor) => match anchors.get(&anchor) {
                Some((value, size)) => {
                    n_nodes += size;
                    if n_nodes > MAX_NODES {
                        return Err(format!("aliases expand to more than {MAX_NODES} values at {}", at()));
                    }
                    (value.clone(), 0)
                }
                None => return Err(format!("an alias of a value that is not complete at {}", at())),
            },
            Event::Nothing | Event::StreamStart | Event::DocumentStart(_) => continue,
            Event::StreamEnd | Event::DocumentEnd => break,
        };
        n_nodes += 1;
        if n_nodes > MAX_NODES {
            return Err(format!("more than {MAX_NODES} values at {}", at()));
        }
        if anchor > 0 {
            anchors.insert(anchor, (value.clone(), size(&value)));
        }
        let Some(parent) = open.last_mut() else { return Ok(value) };
        match (&mut parent.value, parent.key.take()) {
            (Json::Array(items), _) => items.push(value),
            (Json::Object(_), None) => parent.key = Some(key(value)),
            (Json::Object(_), Some(key)) if key == "<<" => match value {
                Json::Array(maps) => parent.merged.extend(maps),
                map => parent.merged.push(map),
            },
            (Json::Object(map), Some(key)) => {
                map.insert(key, value);
            }
            _ => {}
        }
    }
    Ok(Json::Null)
}

/// Adds merged entries that the map lacks.
fn merge(mut value: Json, merged: Vec<Json>) -> Json {
    if let Json::Object(map) = &mut value {
        for other in merged {
            if let Json::Object(other) = other {
                for (key, value) in other {
                    map.entry(key).or_insert(value);
                }
            }
        }
    }
    value
}

fn size(value: &Json) -> usize {
    match value {
        Json::Array(items) => 1 + items.iter().map(size).sum::<usize>(),
        Json::Object(map) => 1 + map.values().map(size).sum::<usize>(),
        _ => 1,
    }
}

fn key(value: Json) -> String {
    match value {
        Json::String(text) => text,
        other => other.to_string(),
    }
}

fn scalar(text: &str, style: ScalarStyle, tag: Option<&Tag>) -> Json {
    let is_text = tag.is_some_and(|tag| tag.is_yaml_core_schema() && tag.suffix == "str");
    if style != ScalarStyle::Plain || is_text {
        return Json::String(text.to_owned());
    }
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Json::Null,
        "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => return Json::Bool(true),
        "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => return Json::Bool(false),
        _ => {}
    }
    integer(text)
        .map(Json::Number)
        .or_else(|| float(text).and_then(Number::from_f64).map(Json::Number))
        .unwrap_or_else(|| Json::String(text.to_owned()))
}

fn sign(text: &str) -> (bool, &str) {
    match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    }
}

/// Digits and underscores that begin with a digit.
fn is_decimal(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_digit()) && text.bytes().all(|b| b.is_ascii_digit() || b == b'_')
}

/// True for the second or a later number of a sexagesimal one.
fn is_base_60_digits(text: &str) -> bool {
    match text.as_bytes() {
        [digit] => digit.is_ascii_digit(),
        [ten, digit] => (b'0'..=b'5').contains(ten) && digit.is_ascii_digit(),
        _ => false,
    }
}

fn integer(text: &str) -> Option<Number> {
    let (negative, body) = sign(text);
    let digits = |body: &str, base: u32| {
        let plain: String = body.chars().filter(|c| *c != '_').collect();
        i128::from_str_radix(&plain, base).ok().filter(|_| !plain.starts_with(['+', '-']))
    };
    let magnitude = if let Some(bits) = body.strip_prefix("0b") {
        digits(bits, 2)?
    } else if let Some(hex) = body.strip_prefix("0x") {
        digits(hex, 16)?
    } else if body == "0" {
        0
    } else if let Some(octal) = body.strip_prefix('0') {
        digits(octal, 8)?
    } else if is_decimal(body) {
        digits(body, 10)?
    } else {
        let (first, rest) = body.split_once(':')?;
        if !is_decimal(first) || !rest.split(':').all(is_base_60_digits) {
            return None;
        }
        rest.split(':')
            .try_fold(digits(first, 10)?, |sum, part| sum.checked_mul(60)?.checked_add(digits(part, 10)?))?
    };
    let value = if negative { -magnitude } else { magnitude };
    u64::try_from(value).map(Number::from).ok().or_else(|| i64::try_from(value).map(Number::from).ok())
}

fn float(text: &str) -> Option<f64> {
    let (_, body) = sign(text);
    let (mantissa, exponent) = match body.find(['e', 'E']) {
        Some(at) => (&body[..at], Some(&body[at + 1..])),
        None => (body, None),
    };
    // YAML 1.1 requires the sign of an exponent and the point.
    if let Some(exponent) = exponent {
        let digits = exponent.strip_prefix(['+', '-'])?;
        if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
    }
    let (whole, fraction) = mantissa.split_once('.')?;
    let is_fraction = |text: &str| text.bytes().all(|b| b.is_ascii_digit() || b == b'_');
    let valid = if whole.is_empty() {
        is_decimal(fraction) && body.len() == text.len()
    } else {
        is_decimal(whole) && is_fraction(fraction)
    };
    let plain: String = text.chars().filter(|c| *c != '_').collect();
    if valid { plain.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn plain_scalars_resolve_as_in_pyyaml() {
        // Left: text; right: json.dumps(yaml.safe_load(text)) by PyYAML 6.0.3, dates as text.
        let cases = [
            ("no", json!(false)),
            ("On", json!(true)),
            ("oN", json!("oN")),
            ("~", json!(null)),
            ("", json!(null)),
            ("y", json!("y")),
            ("12", json!(12)),
            ("-12", json!(-12)),
            ("+1_000", json!(1000)),
            ("0x1F", json!(31)),
            ("0b101", json!(5)),
            ("017", json!(15)),
            ("0o17", json!("0o17")),
            ("08", json!("08")),
            ("1:30", json!(90)),
            ("1:60", json!("1:60")),
            ("1.5", json!(1.5)),
            ("1.", json!(1.0)),
            (".5", json!(0.5)),
            ("-.5", json!("-.5")),
            ("1e5", json!("1e5")),
            ("1.0e5", json!("1.0e5")),
            ("1.0e+5", json!(100000.0)),
            ("6.02E-3", json!(0.00602)),
            ("1.2.3", json!("1.2.3")),
            ("2024-01-02", json!("2024-01-02")),
            ("'12'", json!("12")),
            ("\"no\"", json!("no")),
            ("!!str 12", json!("12")),
            ("apache-2.0", json!("apache-2.0")),
            ("v1_0", json!("v1_0")),
            ("_1", json!("_1")),
            ("0", json!(0)),
            ("0_7", json!(7)),
            ("-0x10", json!(-16)),
            ("1_2.3_4", json!(12.34)),
        ];
        for (text, expected) in cases {
            assert_eq!(parse(text), Ok(expected), "{text:?}");
        }
    }

    #[test]
    fn lists_maps_anchors_and_merges_are_read() {
        let text = "a: &x {k: 1, l: 2}\nb:\n- *x\n- [1, 'two', null]\nc:\n  <<: *x\n  l: 3\n1: one\na2: >-\n\x20 folded\n  text\n";
        let expected = json!({
            "a": {"k": 1, "l": 2}, "b": [{"k": 1, "l": 2}, [1, "two", null]], "c": {"l": 3, "k": 1}, "1": "one",
            "a2": "folded text",
        });
        assert_eq!(parse(text), Ok(expected));
    }

    #[test]
    fn invalid_and_hostile_documents_are_refused() {
        for text in ["a: [1", "a: b: c", "a: *none", "&a [*a]"] {
            assert!(parse(text).is_err(), "{text:?} {:?}", parse(text));
        }
        let deep = "[".repeat(100_000);
        assert!(parse(&deep).is_err());
        assert!(parse(&"- ".repeat(65)).unwrap_err().contains("levels"), "{:?}", parse(&"- ".repeat(65)));
        assert!(parse(&"- ".repeat(64)).is_ok());
        let mut bomb = "- &a0 [x, x, x, x, x, x, x, x, x]\n".to_owned();
        for i in 1..12 {
            let alias = format!("*a{}, ", i - 1).repeat(9);
            bomb += &format!("- &a{i} [{alias}]\n");
        }
        assert!(parse(&bomb).unwrap_err().contains("aliases"));
    }
}
