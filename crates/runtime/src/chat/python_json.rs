//! The filter `tojson` of chat templates: `json.dumps` of Python.
//!
//! Source: `tojson` in `utils/chat_template_utils.py` of transformers 5.24, which escapes no HTML; Python's `json` module.

use std::fmt::Write;

use minijinja::{
    Error,
    value::{Kwargs, Rest, Value, ValueKind, from_args},
};

use super::{
    lazy,
    python::{MAX_DEPTH, float, invalid},
};

/// The parameters of `tojson`.
struct Style {
    ensure_ascii: bool,
    /// Text in front of a line, once for each level.
    indent: Option<String>,
    between_items: String,
    after_key: String,
    sort_keys: bool,
}

/// The filter.
pub(super) fn filter(value: Value, options: Rest<Value>) -> Result<String, Error> {
    type Options = (Option<Value>, Option<Value>, Option<Value>, Option<Value>, Kwargs);
    let (ensure_ascii, indent, separators, sort_keys, names): Options = from_args(&options)?;
    let named = |given: Option<Value>, name: &str| match given {
        Some(given) => Ok(Some(given)),
        None => names.get::<Option<Value>>(name),
    };
    let ensure_ascii = named(ensure_ascii, "ensure_ascii")?.is_some_and(|value| value.is_true());
    let sort_keys = named(sort_keys, "sort_keys")?.is_some_and(|value| value.is_true());
    let indent = match named(indent, "indent")?.filter(|indent| !indent.is_none()) {
        Some(indent) => Some(match (indent.as_str(), indent.as_i64()) {
            (Some(text), _) => text.to_owned(),
            (None, Some(n)) => " ".repeat(usize::try_from(n).unwrap_or(0).min(64)),
            (None, None) => return Err(invalid("`indent` of `tojson` must be a number or a string")),
        }),
        None => None,
    };
    let separators = named(separators, "separators")?.filter(|separators| !separators.is_none());
    names.assert_all_used()?;
    let (between_items, after_key) = match separators {
        Some(pair) => {
            let part = |at| -> Result<String, Error> {
                let part = pair.get_item_by_index(at)?;
                part.as_str().map(str::to_owned).ok_or_else(|| invalid("`separators` must be two strings"))
            };
            (part(0)?, part(1)?)
        }
        None => (if indent.is_some() { "," } else { ", " }.to_owned(), ": ".to_owned()),
    };
    let mut text = String::new();
    Style { ensure_ascii, indent, between_items, after_key, sort_keys }.write(&value, 0, &mut text)?;
    Ok(text)
}

impl Style {
    fn write(&self, value: &Value, depth: usize, text: &mut String) -> Result<(), Error> {
        if depth > MAX_DEPTH {
            return Err(invalid(format!("lists nested deeper than {MAX_DEPTH}")));
        }
        match value.kind() {
            ValueKind::None => *text += "null",
            ValueKind::Map => {
                let mut keys: Vec<Value> = value.try_iter()?.collect();
                if self.sort_keys {
                    keys.sort();
                }
                self.between('{', '}', depth, text, &keys, |key, text| {
                    self.key(key, text)?;
                    *text += &self.after_key;
                    self.write(&value.get_item(key)?, depth + 1, text)
                })?;
            }
            ValueKind::Seq | ValueKind::Iterable => {
                if let Some(name) = lazy::type_name(value) {
                    return Err(invalid(format!(
                        "`tojson` does not accept a value of type `{name}`; convert it with `list` first"
                    )));
                }
                let items: Vec<Value> = value.try_iter()?.collect();
                self.between('[', ']', depth, text, &items, |item, text| self.write(item, depth + 1, text))?;
            }
            ValueKind::String => self.quote(value.as_str().unwrap_or_default(), text),
            ValueKind::Bool => *text += if value.is_true() { "true" } else { "false" },
            ValueKind::Number => *text += &number(value)?,
            kind => return Err(invalid(format!("`tojson` of a value of type {kind}"))),
        }
        Ok(())
    }

    /// A key: numbers and constants become strings.
    fn key(&self, key: &Value, text: &mut String) -> Result<(), Error> {
        let spelled = match key.kind() {
            ValueKind::String => key.as_str().unwrap_or_default().to_owned(),
            ValueKind::None => "null".to_owned(),
            ValueKind::Bool => if key.is_true() { "true" } else { "false" }.to_owned(),
            ValueKind::Number => number(key)?,
            kind => return Err(invalid(format!("`tojson` of a key of type {kind}"))),
        };
        self.quote(&spelled, text);
        Ok(())
    }

    /// Items between brackets, on a line each if there is an indent.
    fn between(
        &self,
        open: char,
        close: char,
        depth: usize,
        text: &mut String,
        items: &[Value],
        mut write_item: impl FnMut(&Value, &mut String) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let new_line = |depth: usize, text: &mut String| {
            if let (Some(indent), false) = (&self.indent, items.is_empty()) {
                text.push('\n');
                text.extend(std::iter::repeat_n(&indent[..], depth));
            }
        };
        text.push(open);
        for (index, item) in items.iter().enumerate() {
            *text += if index == 0 { "" } else { &self.between_items };
            new_line(depth + 1, text);
            write_item(item, text)?;
        }
        new_line(depth, text);
        text.push(close);
        Ok(())
    }

    fn quote(&self, string: &str, text: &mut String) {
        text.push('"');
        for c in string.chars() {
            match c {
                '"' => *text += "\\\"",
                '\\' => *text += "\\\\",
                '\n' => *text += "\\n",
                '\r' => *text += "\\r",
                '\t' => *text += "\\t",
                '\u{8}' => *text += "\\b",
                '\u{c}' => *text += "\\f",
                c if (c as u32) < 0x20 || self.ensure_ascii && c > '~' => {
                    for unit in c.encode_utf16(&mut [0; 2]) {
                        // Writing to a string cannot fail.
                        let _ = write!(text, "\\u{unit:04x}");
                    }
                }
                c => text.push(c),
            }
        }
        text.push('"');
    }
}

fn number(value: &Value) -> Result<String, Error> {
    Ok(if value.is_integer() {
        value.to_string()
    } else {
        float(f64::try_from(value.clone())?, ["Infinity", "-Infinity", "NaN"])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dumps(value: Value, indent: Option<usize>) -> String {
        let options = indent.map(|indent| Kwargs::from_iter([("indent", Value::from(indent))]).into());
        filter(value, Rest(options.into_iter().collect())).unwrap()
    }

    /// Compares with the output of Python 3.11's `json.dumps(value, ensure_ascii=False)`.
    #[test]
    fn json_is_printed_as_in_python() {
        let value = Value::from_serialize([(1, "a<b>'\"\n\u{1}é")]);
        assert_eq!(dumps(value, None), "[[1, \"a<b>'\\\"\\n\\u0001é\"]]");
        let value =
            minijinja::context! { a => vec![1.5], b => Value::from(()), c => Vec::<u8>::new(), d => true };
        assert_eq!(dumps(value.clone(), None), r#"{"a": [1.5], "b": null, "c": [], "d": true}"#);
        let lines = "{\n  \"a\": [\n    1.5\n  ],\n  \"b\": null,\n  \"c\": [],\n  \"d\": true\n}";
        assert_eq!(dumps(value, Some(2)), lines);
    }
}
