//! Methods of Python's strings and dictionaries.
//!
//! Source: the documentation of `str` and `dict` of Python 3.12.

use minijinja::{
    Error, ErrorKind,
    value::{Kwargs, Value, ValueKind, from_args},
};

use super::{
    errors::checked_len,
    lazy::view,
    python::{invalid, text, tuple},
};

/// `str.isspace` of one character.
fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c)
}

/// The text of a value with HTML escaped, except if it is `safe`.
pub(super) fn escaped(value: &Value) -> Result<String, Error> {
    let text = text(value)?;
    if value.is_safe() {
        return Ok(text);
    }
    let mut made = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => made += "&amp;",
            '<' => made += "&lt;",
            '>' => made += "&gt;",
            '\'' => made += "&#39;",
            '"' => made += "&#34;",
            c => made.push(c),
        }
    }
    Ok(made)
}

/// `str.title`: a letter is a capital unless it follows a letter.
pub(super) fn title(text: &str) -> String {
    let mut made = String::with_capacity(text.len());
    let mut is_inside = false;
    for c in text.chars() {
        if is_inside {
            made.extend(c.to_lowercase())
        } else {
            made.extend(c.to_uppercase())
        }
        is_inside = c.is_lowercase() || c.is_uppercase();
    }
    made
}

/// `str.capitalize`.
pub(super) fn capitalized(text: &str) -> String {
    let mut chars = text.chars();
    let Some(first) = chars.next() else { return String::new() };
    first.to_uppercase().chain(chars.as_str().to_lowercase().chars()).collect()
}

/// `str.strip` of the sides that are named.
pub(super) fn stripped<'a>(text: &'a str, chars: Option<&str>, left: bool, right: bool) -> &'a str {
    let strips = |c: char| chars.map_or_else(|| is_space(c), |chars| chars.contains(c));
    let text = if left { text.trim_start_matches(strips) } else { text };
    if right { text.trim_end_matches(strips) } else { text }
}

/// `str.splitlines`.
pub(super) fn lines(text: &str, keep_ends: bool) -> Vec<&str> {
    let (mut lines, mut rest) = (Vec::new(), text);
    let is_end = |c: char| {
        matches!(
            c,
            '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{1c}'..='\u{1e}' | '\u{85}' | '\u{2028}' | '\u{2029}'
        )
    };
    while !rest.is_empty() {
        let Some(at) = rest.find(is_end) else {
            lines.push(rest);
            break;
        };
        let len = if rest[at..].starts_with("\r\n") {
            2
        } else {
            rest[at..].chars().next().map_or(0, char::len_utf8)
        };
        lines.push(&rest[..if keep_ends { at + len } else { at }]);
        rest = &rest[at + len..];
    }
    lines
}

/// Pieces of a text at white space, from the left or from the right.
fn words(text: &str, n_splits: Option<usize>, from_right: bool) -> Vec<&str> {
    let (mut pieces, mut rest) = (Vec::new(), stripped(text, None, !from_right, from_right));
    while !rest.is_empty() {
        let at = if n_splits == Some(pieces.len()) {
            None
        } else if !from_right {
            rest.find(is_space)
        } else {
            rest.rfind(is_space)
        };
        let Some(at) = at else {
            // The last piece keeps blanks at its far end, except if there was no limit.
            pieces.push(stripped(rest, None, from_right, !from_right && n_splits != Some(pieces.len())));
            break;
        };
        let after = at + rest[at..].chars().next().map_or(0, char::len_utf8);
        let (piece, remaining) =
            if from_right { (&rest[after..], &rest[..at]) } else { (&rest[..at], &rest[after..]) };
        pieces.push(piece);
        rest = stripped(remaining, None, !from_right, from_right);
    }
    if from_right {
        pieces.reverse();
    }
    pieces
}

/// `str.split` and `str.rsplit`.
fn split<'a>(
    text: &'a str,
    separator: Option<&str>,
    n_splits: Option<usize>,
    from_right: bool,
) -> Result<Vec<&'a str>, Error> {
    let Some(separator) = separator else { return Ok(words(text, n_splits, from_right)) };
    if separator.is_empty() {
        return Err(invalid("empty separator"));
    }
    let n_pieces = n_splits.map_or(usize::MAX, |n| n.saturating_add(1));
    Ok(if from_right {
        let mut pieces: Vec<&str> = text.rsplitn(n_pieces, separator).collect();
        pieces.reverse();
        pieces
    } else {
        text.splitn(n_pieces, separator).collect()
    })
}

/// The part of a text from character `start` to `stop`, and the byte that it begins at.
fn part(text: &str, start: Option<i64>, stop: Option<i64>) -> Option<(&str, usize)> {
    let n_chars = i64::try_from(text.chars().count()).ok()?;
    let clamp = |bound: i64| if bound < 0 { (bound + n_chars).max(0) } else { bound.min(n_chars) };
    if start.is_some_and(|start| start > n_chars) {
        return None;
    }
    let (start, stop) = (start.map_or(0, clamp), stop.map_or(n_chars, clamp));
    let byte = |at: i64| {
        let at = usize::try_from(at).unwrap_or(0);
        text.char_indices().nth(at).map_or(text.len(), |(byte, _)| byte)
    };
    let (start, stop) = (byte(start), byte(stop));
    (start <= stop).then(|| (&text[start..stop], start))
}

/// A string, or the strings of a tuple.
fn alternatives(value: &Value) -> Result<Vec<String>, Error> {
    let texts = |value: &Value| value.as_str().map(str::to_owned).ok_or_else(|| invalid("expected a string"));
    match value.as_str() {
        Some(text) => Ok(vec![text.to_owned()]),
        None => value.try_iter()?.map(|item| texts(&item)).collect(),
    }
}

/// A method of a string, called by its name with its arguments.
type TextMethod = fn(&str, &str, &[Value]) -> Result<Value, Error>;

/// Calls a method of a string. `None`: there is no such method here.
pub(super) fn text_method(value: &Value, name: &str, arguments: &[Value]) -> Result<Option<Value>, Error> {
    let text = value.as_str().unwrap_or_default();
    let method: TextMethod = match name {
        "strip" | "lstrip" | "rstrip" => strip,
        "split" | "rsplit" => pieces,
        "partition" | "rpartition" => partition,
        "removeprefix" | "removesuffix" => remove_affix,
        "find" | "rfind" | "index" | "rindex" | "count" => find,
        "startswith" | "endswith" => has_affix,
        "replace" => replace,
        "join" => join,
        "splitlines" => split_lines,
        "zfill" => zero_fill,
        "ljust" | "rjust" | "center" => justify,
        "expandtabs" => expand_tabs,
        "swapcase" => swap_case,
        _ => return without_arguments(text, name, arguments),
    };
    method(text, name, arguments).map(Some)
}

/// Calls a method of a string that takes no arguments.
fn without_arguments(text: &str, name: &str, arguments: &[Value]) -> Result<Option<Value>, Error> {
    let all = |test: fn(char) -> bool| Value::from(!text.is_empty() && text.chars().all(test));
    let cased = |is_wanted: fn(char) -> bool, is_other: fn(char) -> bool| {
        Value::from(text.chars().any(is_wanted) && !text.chars().any(is_other))
    };
    let made = match name {
        "upper" => text.to_uppercase().into(),
        "lower" | "casefold" => text.to_lowercase().into(),
        "title" => title(text).into(),
        "capitalize" => capitalized(text).into(),
        "isspace" => all(is_space),
        "isalpha" => all(char::is_alphabetic),
        "isalnum" => all(char::is_alphanumeric),
        "isdigit" | "isdecimal" | "isnumeric" => all(char::is_numeric),
        "isascii" => text.is_ascii().into(),
        "islower" => cased(char::is_lowercase, char::is_uppercase),
        "isupper" => cased(char::is_uppercase, char::is_lowercase),
        _ => return Ok(None),
    };
    from_args::<()>(arguments).map(|()| Some(made))
}

fn strip(text: &str, name: &str, arguments: &[Value]) -> Result<Value, Error> {
    let (chars,): (Option<String>,) = from_args(arguments)?;
    Ok(stripped(text, chars.as_deref(), name != "rstrip", name != "lstrip").into())
}

fn pieces(text: &str, name: &str, arguments: &[Value]) -> Result<Value, Error> {
    let (separator, n_splits, names): (Option<String>, Option<i64>, Kwargs) = from_args(arguments)?;
    let separator = match separator {
        Some(separator) => Some(separator),
        None => names.get::<Option<String>>("sep")?,
    };
    let n_splits = match n_splits {
        Some(n_splits) => Some(n_splits),
        None => names.get::<Option<i64>>("maxsplit")?,
    };
    names.assert_all_used()?;
    let n_splits = n_splits.and_then(|n| usize::try_from(n).ok());
    let pieces = split(text, separator.as_deref(), n_splits, name == "rsplit")?;
    Ok(pieces.into_iter().map(Value::from).collect::<Vec<_>>().into())
}

fn partition(text: &str, name: &str, arguments: &[Value]) -> Result<Value, Error> {
    let (separator,): (String,) = from_args(arguments)?;
    if separator.is_empty() {
        return Err(invalid("empty separator"));
    }
    let (found, otherwise) = match name {
        "partition" => (text.split_once(&separator), [text, "", ""]),
        _ => (text.rsplit_once(&separator), ["", "", text]),
    };
    let parts = found.map_or(otherwise, |(before, after)| [before, &separator, after]);
    Ok(tuple(parts.into_iter().map(Value::from).collect()))
}

fn remove_affix(text: &str, name: &str, arguments: &[Value]) -> Result<Value, Error> {
    let (affix,): (String,) = from_args(arguments)?;
    let rest = match name {
        "removeprefix" => text.strip_prefix(&affix),
        _ => text.strip_suffix(&affix),
    };
    Ok(rest.unwrap_or(text).into())
}

fn find(text: &str, name: &str, arguments: &[Value]) -> Result<Value, Error> {
    let (needle, start, stop): (String, Option<i64>, Option<i64>) = from_args(arguments)?;
    let found = part(text, start, stop);
    if name == "count" {
        let n_found = found.map_or(0, |(part, _)| {
            if needle.is_empty() { part.chars().count() + 1 } else { part.matches(&needle).count() }
        });
        return Ok(Value::from(n_found));
    }
    let byte = found.and_then(|(part, from)| {
        let at = if name.starts_with('r') { part.rfind(&needle) } else { part.find(&needle) };
        at.map(|at| at + from)
    });
    match byte {
        Some(byte) => Ok(Value::from(text[..byte].chars().count())),
        None if name.ends_with("index") => Err(invalid("substring not found")),
        None => Ok(Value::from(-1)),
    }
}

fn has_affix(text: &str, name: &str, arguments: &[Value]) -> Result<Value, Error> {
    let (affix, start, stop): (Value, Option<i64>, Option<i64>) = from_args(arguments)?;
    let affixes = alternatives(&affix)?;
    let found = part(text, start, stop);
    let fits = |affix: &String| {
        found.is_some_and(|(part, _)| match name {
            "startswith" => part.starts_with(affix),
            _ => part.ends_with(affix),
        })
    };
    Ok(affixes.iter().any(fits).into())
}

fn replace(text: &str, _: &str, arguments: &[Value]) -> Result<Value, Error> {
    let (old, new, n, names): (String, String, Option<i64>, Kwargs) = from_args(arguments)?;
    let n = match n {
        Some(n) => Some(n),
        None => names.get::<Option<i64>>("count")?,
    };
    names.assert_all_used()?;
    check_replacement(text, &old, &new)?;
    Ok(match n.and_then(|n| usize::try_from(n).ok()) {
        Some(n) => text.replacen(&old, &new, n).into(),
        None => text.replace(&old, &new).into(),
    })
}

fn join(text: &str, _: &str, arguments: &[Value]) -> Result<Value, Error> {
    let (items,): (Value,) = from_args(arguments)?;
    let items: Vec<String> = match items.as_str() {
        Some(text) => text.chars().map(String::from).collect(),
        None => items
            .try_iter()?
            .map(|item| item.as_str().map(str::to_owned).ok_or_else(|| invalid("`join` expects strings")))
            .collect::<Result<_, Error>>()?,
    };
    Ok(joined(&items, text)?.into())
}

fn split_lines(text: &str, _: &str, arguments: &[Value]) -> Result<Value, Error> {
    let (keep_ends, names): (Option<bool>, Kwargs) = from_args(arguments)?;
    let keep_ends = match keep_ends {
        Some(keep_ends) => keep_ends,
        None => names.get::<Option<bool>>("keepends")?.unwrap_or(false),
    };
    names.assert_all_used()?;
    Ok(lines(text, keep_ends).into_iter().map(Value::from).collect::<Vec<_>>().into())
}

fn zero_fill(text: &str, _: &str, arguments: &[Value]) -> Result<Value, Error> {
    let (width,): (usize,) = from_args(arguments)?;
    let (sign, digits) = match text.strip_prefix(['-', '+']) {
        Some(digits) => text.split_at(text.len() - digits.len()),
        None => ("", text),
    };
    let n_zeros = checked_width(width)?.saturating_sub(text.chars().count());
    Ok(format!("{sign}{}{digits}", "0".repeat(n_zeros)).into())
}

fn justify(text: &str, name: &str, arguments: &[Value]) -> Result<Value, Error> {
    let (width, fill): (usize, Option<char>) = from_args(arguments)?;
    let fill = fill.unwrap_or(' ').to_string();
    let n_fill = checked_width(width)?.saturating_sub(text.chars().count());
    let left = match name {
        "ljust" => 0,
        "rjust" => n_fill,
        _ => n_fill / 2 + (n_fill & width & 1),
    };
    Ok(format!("{}{text}{}", fill.repeat(left), fill.repeat(n_fill - left)).into())
}

fn expand_tabs(text: &str, _: &str, arguments: &[Value]) -> Result<Value, Error> {
    let (width,): (Option<usize>,) = from_args(arguments)?;
    let width = checked_width(width.unwrap_or(8))?;
    check_replacement(text, "\t", &" ".repeat(width))?;
    let (mut made, mut column) = (String::new(), 0);
    for c in text.chars() {
        if c == '\t' {
            let n = width.saturating_sub(column % width.max(1));
            made.extend(std::iter::repeat_n(' ', n));
            column += n;
        } else {
            made.push(c);
            column = if matches!(c, '\n' | '\r') { 0 } else { column + 1 };
        }
    }
    Ok(made.into())
}

fn swap_case(text: &str, _: &str, arguments: &[Value]) -> Result<Value, Error> {
    from_args::<()>(arguments)?;
    let swapped = text
        .chars()
        .map(|c| if c.is_uppercase() { c.to_lowercase().to_string() } else { c.to_uppercase().to_string() });
    Ok(swapped.collect::<String>().into())
}

/// Texts with a separator between them.
pub(super) fn joined(texts: &[String], separator: &str) -> Result<String, Error> {
    let n_bytes: usize = texts.iter().map(String::len).sum();
    checked_len(n_bytes.saturating_add(separator.len().saturating_mul(texts.len())))?;
    Ok(texts.join(separator))
}

/// Checks the size of a text in which every `old` becomes `new`.
pub(super) fn check_replacement(text: &str, old: &str, new: &str) -> Result<(), Error> {
    if new.len() <= old.len() {
        return Ok(());
    }
    checked_len(text.matches(old).count().saturating_mul(new.len()).saturating_add(text.len()))
}

/// A width that a template may ask for.
fn checked_width(width: usize) -> Result<usize, Error> {
    const MAX_WIDTH: usize = 1 << 20;
    if width <= MAX_WIDTH {
        Ok(width)
    } else {
        Err(invalid(format!("width {width} is larger than {MAX_WIDTH}")))
    }
}

/// Calls a method of a dictionary. `None`: there is no such method here.
pub(super) fn dictionary_method(
    value: &Value,
    name: &str,
    arguments: &[Value],
) -> Result<Option<Value>, Error> {
    let made = match name {
        "items" => from_args::<()>(arguments).and_then(|()| items(value))?,
        "keys" => {
            from_args::<()>(arguments).and_then(|()| Ok(view("dict_keys", value.try_iter()?.collect())))?
        }
        "values" => {
            let () = from_args(arguments)?;
            let values = value.try_iter()?.map(|key| value.get_item(&key));
            view("dict_values", values.collect::<Result<Vec<_>, Error>>()?)
        }
        "copy" => from_args::<()>(arguments).map(|()| value.clone())?,
        "get" => {
            let (key, default): (Value, Option<Value>) = from_args(arguments)?;
            // A key may be there without a value.
            if value.try_iter()?.any(|found| found == key) {
                value.get_item(&key)?
            } else {
                default.unwrap_or_else(|| Value::from(()))
            }
        }
        "pop" | "update" | "setdefault" | "clear" | "popitem" => {
            let problem = format!("method `{name}` of a dictionary is not allowed in a sandbox");
            return Err(Error::new(ErrorKind::InvalidOperation, problem));
        }
        _ => return Ok(None),
    };
    Ok(Some(made))
}

/// Pairs of a dictionary, as tuples.
pub(super) fn items(value: &Value) -> Result<Value, Error> {
    if value.kind() != ValueKind::Map {
        return Err(invalid("`items` expects a dictionary"));
    }
    let pairs = value.try_iter()?.map(|key| Ok(tuple(vec![key.clone(), value.get_item(&key)?])));
    pairs.collect::<Result<Vec<_>, Error>>().map(|pairs| view("dict_items", pairs))
}

/// Calls a method of a list or a tuple. `None`: there is no such method here.
pub(super) fn list_method(value: &Value, name: &str, arguments: &[Value]) -> Result<Option<Value>, Error> {
    let made = match name {
        "count" => {
            let (item,): (Value,) = from_args(arguments)?;
            Value::from(value.try_iter()?.filter(|found| *found == item).count())
        }
        "index" => {
            let (item,): (Value,) = from_args(arguments)?;
            let at = value.try_iter()?.position(|found| found == item);
            Value::from(at.ok_or_else(|| invalid("value not found in the list"))?)
        }
        "copy" => from_args::<()>(arguments).map(|()| value.clone())?,
        _ => return Ok(None),
    };
    Ok(Some(made))
}
