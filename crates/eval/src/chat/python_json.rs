//! The filter `tojson` of chat templates: `json.dumps` of Python.
//!
//! Source: `tojson` in `_compile_jinja_template` of transformers 5.23, which keeps characters as they are and escapes no HTML; Python's
//! default separators.

use std::fmt::Write;

use minijinja::{
    Error, ErrorKind,
    value::{Kwargs, Value, ValueKind},
};

/// The filter. Of its arguments `indent` counts; `ensure_ascii`, `separators` and `sort_keys` are taken and change nothing here.
pub(super) fn filter(value: Value, options: Kwargs) -> Result<String, Error> {
    let indent: Option<usize> = options.get("indent")?;
    for name in ["ensure_ascii", "separators", "sort_keys"] {
        // Asking for it is what keeps it from being an unknown argument.
        let _known: Option<Value> = options.get(name)?;
    }
    options.assert_all_used()?;
    let mut text = String::new();
    write(&value, indent, 0, &mut text)?;
    Ok(text)
}

/// Lists in lists beyond which Python gives up.
const MAX_DEPTH: usize = 990;

fn write(value: &Value, indent: Option<usize>, depth: usize, text: &mut String) -> Result<(), Error> {
    if depth > MAX_DEPTH {
        let problem = format!("lists nested deeper than {MAX_DEPTH}");
        return Err(Error::new(ErrorKind::InvalidOperation, problem));
    }
    match value.kind() {
        ValueKind::None | ValueKind::Undefined => *text += "null",
        ValueKind::Map => {
            let keys: Vec<Value> = value.try_iter()?.collect();
            between(('{', '}'), indent, depth, text, &keys, |key, text| {
                quote(&key.to_string(), text);
                *text += ": ";
                write(&value.get_item(key)?, indent, depth + 1, text)
            })?;
        }
        ValueKind::Seq | ValueKind::Iterable => {
            let items: Vec<Value> = value.try_iter()?.collect();
            between(('[', ']'), indent, depth, text, &items, |item, text| {
                write(item, indent, depth + 1, text)
            })?;
        }
        ValueKind::String => quote(value.as_str().unwrap_or_default(), text),
        ValueKind::Bool => *text += if value.is_true() { "true" } else { "false" },
        // A number is spelled as it is printed.
        _ => *text += &value.to_string(),
    }
    Ok(())
}

/// Items between brackets, on a line each where there is an indent.
fn between(
    (open, close): (char, char),
    indent: Option<usize>,
    depth: usize,
    text: &mut String,
    items: &[Value],
    mut write_item: impl FnMut(&Value, &mut String) -> Result<(), Error>,
) -> Result<(), Error> {
    let new_line = |depth: usize, text: &mut String| {
        if let (Some(indent), false) = (indent, items.is_empty()) {
            text.push('\n');
            text.extend(std::iter::repeat_n(' ', indent.min(16) * depth));
        }
    };
    text.push(open);
    for (index, item) in items.iter().enumerate() {
        // Python puts no space behind a comma that ends a line.
        *text += if index == 0 {
            ""
        } else if indent.is_some() {
            ","
        } else {
            ", "
        };
        new_line(depth + 1, text);
        write_item(item, text)?;
    }
    new_line(depth, text);
    text.push(close);
    Ok(())
}

fn quote(string: &str, text: &mut String) {
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
            c if (c as u32) < 0x20 => {
                // Writing to a string cannot fail.
                let _ = write!(text, "\\u{:04x}", c as u32);
            }
            c => text.push(c),
        }
    }
    text.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dumps(value: Value, indent: Option<usize>) -> String {
        let mut text = String::new();
        write(&value, indent, 0, &mut text).unwrap();
        text
    }

    /// Each beside what Python 3.11's `json.dumps(value, ensure_ascii=False)` prints.
    #[test]
    fn as_python_prints_it() {
        let value = Value::from_serialize([(1, "a<b>'\"\n\u{1}é")]);
        assert_eq!(dumps(value, None), "[[1, \"a<b>'\\\"\\n\\u0001é\"]]");
        let value =
            minijinja::context! { a => vec![1.5], b => Value::from(()), c => Vec::<u8>::new(), d => true };
        assert_eq!(dumps(value.clone(), None), r#"{"a": [1.5], "b": null, "c": [], "d": true}"#);
        let lines = "{\n  \"a\": [\n    1.5\n  ],\n  \"b\": null,\n  \"c\": [],\n  \"d\": true\n}";
        assert_eq!(dumps(value, Some(2)), lines);
    }
}
