//! Values as Python prints them: `str` and `repr`.
//!
//! Source: `Objects/unicodeobject.c` (`unicode_repr`) and `float_repr` of Python 3.12.

use std::{fmt::Write, sync::Arc};

use minijinja::{
    Error,
    value::{Enumerator, Object, ObjectRepr, Value, ValueKind},
};

pub(super) use super::errors::invalid;
use super::lazy::{self, View};

/// Lists in lists at which Python gives up.
pub(super) const MAX_DEPTH: usize = 990;

/// A tuple, which prints with parentheses.
#[derive(Debug)]
pub(super) struct Tuple(pub(super) Vec<Value>);

impl Object for Tuple {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Seq
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        self.0.get(key.as_usize()?).cloned()
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Seq(self.0.len())
    }
}

/// A tuple as a value.
pub(super) fn tuple(items: Vec<Value>) -> Value {
    Value::from_object(Tuple(items))
}

/// True for a tuple, or a pair that `groupby` makes.
pub(super) fn is_tuple(value: &Value) -> bool {
    value.downcast_object_ref::<Tuple>().is_some() || is_object(value, "GroupTuple")
}

/// True for an object of the engine with a type of this name.
pub(super) fn is_object(value: &Value, name: &str) -> bool {
    value.as_object().is_some_and(|object| object.type_name().ends_with(name))
}

/// The text of a value: `str`.
pub(super) fn text(value: &Value) -> Result<String, Error> {
    match value.as_str() {
        Some(text) => Ok(text.to_owned()),
        None if value.is_undefined() => Ok(String::new()),
        None => {
            let mut text = String::new();
            write_repr(value, 0, &mut text)?;
            Ok(text)
        }
    }
}

/// Adds the `repr` of a value.
pub(super) fn write_repr(value: &Value, depth: usize, text: &mut String) -> Result<(), Error> {
    if depth > MAX_DEPTH {
        return Err(invalid(format!("lists nested deeper than {MAX_DEPTH}")));
    }
    match value.kind() {
        ValueKind::Undefined => *text += "Undefined",
        ValueKind::None => *text += "None",
        ValueKind::Bool => *text += if value.is_true() { "True" } else { "False" },
        ValueKind::String => quote(value.as_str().unwrap_or_default(), text),
        ValueKind::Number if !value.is_integer() => {
            *text += &float(f64::try_from(value.clone())?, ["inf", "-inf", "nan"]);
        }
        ValueKind::Map if is_object(value, "::Loop") => return Err(invalid("`loop` cannot be printed")),
        ValueKind::Map => {
            let is_namespace = is_object(value, "Namespace");
            *text += if is_namespace { "<Namespace {" } else { "{" };
            for (index, key) in value.try_iter()?.enumerate() {
                *text += if index == 0 { "" } else { ", " };
                write_repr(&key, depth + 1, text)?;
                *text += ": ";
                write_repr(&value.get_item(&key)?, depth + 1, text)?;
            }
            *text += if is_namespace { "}>" } else { "}" };
        }
        ValueKind::Iterable if lazy::is_iterator(value) => return Err(lazy::not_printable(value)),
        ValueKind::Seq | ValueKind::Iterable => {
            let view = value.downcast_object_ref::<View>();
            if let Some(View::Range([start, stop, step])) = view {
                let step = if *step == 1 { String::new() } else { format!(", {step}") };
                *text += &format!("range({start}, {stop}{step})");
                return Ok(());
            }
            if let Some(view) = view {
                *text += view.type_name();
                text.push('(');
            }
            let is_tuple = is_tuple(value);
            text.push(if is_tuple { '(' } else { '[' });
            let mut n_items = 0;
            for item in value.try_iter()? {
                *text += if n_items == 0 { "" } else { ", " };
                write_repr(&item, depth + 1, text)?;
                n_items += 1;
            }
            *text += match (is_tuple, n_items) {
                (true, 1) => ",)",
                (true, _) => ")",
                (false, _) => "]",
            };
            *text += if view.is_some() { ")" } else { "" };
        }
        ValueKind::Number => *text += &value.to_string(),
        // Python prints an address.
        _ => return Err(lazy::not_printable(value)),
    }
    Ok(())
}

/// A float: the shortest digits, with an exponent from 1e16 and below 1e-4. `special` are infinity, its negative, and not a number.
pub(super) fn float(value: f64, special: [&str; 3]) -> String {
    if value.is_nan() {
        return special[2].to_owned();
    }
    if value.is_infinite() {
        return special[usize::from(value < 0.0)].to_owned();
    }
    let scientific = format!("{value:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..16).contains(&exponent) {
        let fixed = value.to_string();
        return if fixed.contains('.') { fixed } else { fixed + ".0" };
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}

fn quote(string: &str, text: &mut String) {
    let quote = if string.contains('\'') && !string.contains('"') { '"' } else { '\'' };
    text.push(quote);
    for c in string.chars() {
        match c {
            '\\' => *text += "\\\\",
            '\n' => *text += "\\n",
            '\r' => *text += "\\r",
            '\t' => *text += "\\t",
            c if c == quote => text.extend(['\\', c]),
            c if is_printable(c) => text.push(c),
            c => {
                let code = u32::from(c);
                // Writing to a string cannot fail.
                let _ = match code {
                    ..=0xff => write!(text, "\\x{code:02x}"),
                    0x100..=0xffff => write!(text, "\\u{code:04x}"),
                    _ => write!(text, "\\U{code:08x}"),
                };
            }
        }
    }
    text.push(quote);
}

/// `str.isprintable` of one character. The standard library escapes non-printable characters, but keeps marks
/// after another character.
fn is_printable(c: char) -> bool {
    let mut pair = String::from("a");
    pair.push(c);
    c == '\'' || c == '"' || !pair.escape_debug().to_string()[1..].starts_with('\\')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Next to Python's `repr`.
    #[test]
    fn values_print_like_python() {
        for (value, expected) in [
            (1e16, "1e+16"),
            (9_999_999_999_999_998.0, "9999999999999998.0"),
            (0.0001, "0.0001"),
            (0.000_012_5, "1.25e-05"),
            (1e100, "1e+100"),
            (-0.0, "-0.0"),
            (f64::INFINITY, "inf"),
        ] {
            assert_eq!(float(value, ["inf", "-inf", "nan"]), expected);
        }
        let mut made = String::new();
        quote("a'\u{1}\u{a0}\u{200b}e\u{301}é🦙\u{e0001}\\", &mut made);
        assert_eq!(made, "\"a'\\x01\\xa0\\u200be\u{301}é🦙\\U000e0001\\\\\"");
    }
}
