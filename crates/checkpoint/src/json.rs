//! JSON as written by Python.

use serde_json::Value as Json;

use crate::Error;

/// Parses a JSON file.
///
/// Python's writer spells numbers that JSON lacks as `NaN`, `Infinity` and `-Infinity`, and configs contain
/// them (`time_step_limit` of Mamba 2). They are read as `{"__float__": "NaN"}` and so on, the form of
/// transformers 5.
pub(crate) fn parse(file: &str, bytes: &[u8]) -> Result<Json, Error> {
    serde_json::from_slice(bytes).or_else(|error| {
        let Some(respelled) = respell_special_floats(bytes) else {
            return Err(Error::Json { file: file.to_owned(), error });
        };
        serde_json::from_slice(&respelled).map_err(|_| Error::Json { file: file.to_owned(), error })
    })
}

pub(crate) fn parse_object(file: &str, bytes: &[u8]) -> Result<Json, Error> {
    let value = parse(file, bytes)?;
    if value.is_object() {
        return Ok(value);
    }
    let (expected, found) = ("an object".to_owned(), kind(&value).to_owned());
    Err(Error::JsonForm { file: file.to_owned(), expected, found })
}

/// Replaces special floats outside strings with objects; `None` if there are no special floats.
fn respell_special_floats(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let (mut at, mut copied) = (0, 0);
    let mut in_string = false;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' if in_string => at += 1,
            b'"' => in_string = !in_string,
            _ if in_string => {}
            _ => {
                let word = ["-Infinity", "Infinity", "NaN"]
                    .into_iter()
                    .find(|w| bytes[at..].starts_with(w.as_bytes()));
                if let Some(word) = word {
                    out.extend_from_slice(&bytes[copied..at]);
                    out.extend_from_slice(format!("{{\"__float__\":\"{word}\"}}").as_bytes());
                    at += word.len();
                    copied = at;
                    continue;
                }
            }
        }
        at += 1;
    }
    out.extend_from_slice(&bytes[copied..]);
    (copied > 0).then_some(out)
}

/// Kind of a value, for messages.
pub(crate) fn kind(value: &Json) -> &'static str {
    match value {
        Json::Null => "null",
        Json::Bool(_) => "a boolean",
        Json::Number(_) => "a number",
        Json::String(_) => "a string",
        Json::Array(_) => "an array",
        Json::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn python_special_floats_are_read() {
        let text = br#"{"a": [0.0, Infinity, -Infinity], "NaN \" Infinity": NaN, "x\\": "NaN"}"#;
        let expected = json!({
            "a": [0.0, {"__float__": "Infinity"}, {"__float__": "-Infinity"}],
            "NaN \" Infinity": {"__float__": "NaN"},
            "x\\": "NaN",
        });
        assert_eq!(parse("config.json", text).unwrap(), expected);
    }

    #[test]
    fn errors_give_position_in_original_text() {
        let error = parse("config.json", b"{\"a\": NaN,\n \"b\": }").unwrap_err();
        assert!(matches!(&error, Error::Json { file, .. } if file == "config.json"), "{error}");
        for text in [&b""[..], b"{", b"\"\\", b"Na", b"\xff", b"[1] x"] {
            assert!(matches!(parse("f", text), Err(Error::Json { .. })), "{text:?}");
        }
        let deep = [b'['; 100_000];
        assert!(matches!(parse("f", &deep), Err(Error::Json { .. })));
    }

    #[test]
    fn floats_round_to_nearest() {
        // A value on which the fast path of serde_json is off by one unit.
        let value = parse("f", b"[122.416294033786585]").unwrap();
        let nearest: f64 = "122.416294033786585".parse().unwrap();
        assert_eq!(value[0].as_f64().unwrap().to_bits(), nearest.to_bits());
    }
}
