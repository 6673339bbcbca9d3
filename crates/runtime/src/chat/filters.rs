//! Filters and tests of Jinja that the template engine has otherwise.
//!
//! Source: `jinja2/filters.py` and `jinja2/tests.py` 3.1.6.

use minijinja::{
    Environment, Error, ErrorKind, State,
    value::{Kwargs, Rest, Value, ValueKind},
};

use super::{
    errors::checked_count,
    expression::DICTIONARY_METHODS,
    lazy::{self, is_iterator},
    methods, numbers,
    operators::{self, is_namespace, percent},
    python::{invalid, text, tuple},
    python_json,
};

/// Adds the filters and tests.
pub(super) fn add_to(environment: &mut Environment<'_>) {
    environment.add_filter("tojson", python_json::filter);
    for name in ["length", "count"] {
        environment.add_filter(name, length);
    }
    environment.add_filter(
        "string",
        |value: Value| if value.is_safe() { Ok(value) } else { text(&value).map(Value::from) },
    );
    environment.add_filter("join", join);
    environment.add_filter("list", list);
    environment.add_filter("items", |value: Value| {
        if value.is_undefined() { Ok(Value::from(Vec::<Value>::new())) } else { methods::items(&value) }
    });
    environment.add_filter("title", |value: Value| text(&value).map(|text| title(&text)));
    environment.add_filter("capitalize", |value: Value| text(&value).map(|text| methods::capitalized(&text)));
    environment.add_filter("upper", |value: Value| text(&value).map(|text| text.to_uppercase()));
    environment.add_filter("lower", |value: Value| text(&value).map(|text| text.to_lowercase()));
    environment.add_filter("trim", |value: Value, chars: Option<String>| {
        text(&value).map(|text| methods::stripped(&text, chars.as_deref(), true, true).to_owned())
    });
    environment.add_filter("indent", indent);
    environment.add_filter(
        "batch",
        |state: &State<'_, '_>, value: Value, count: usize, fill: Option<Value>| {
            minijinja::filters::batch(state, value, checked_count(count)?, fill)
        },
    );
    environment.add_filter(
        "slice",
        |state: &State<'_, '_>, value: Value, count: usize, fill: Option<Value>| {
            minijinja::filters::slice(state, value, checked_count(count)?, fill)
        },
    );
    environment.add_filter("safe", |value: Value| text(&value).map(Value::from_safe_string));
    for name in ["e", "escape"] {
        environment.add_filter(name, |value: Value| methods::escaped(&value).map(Value::from_safe_string));
    }
    environment.add_filter("format", |format: String, arguments: Rest<Value>| percent(&format, &arguments));
    environment.add_filter("dictsort", dictsort);
    numbers::add_to(environment);
    environment.add_filter("last", last);
    environment.add_filter("attr", attribute);
    environment.add_filter("replace", replace);
    environment.add_filter("wordcount", |value: Value| {
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        text(&value).map(|text| text.split(|c| !is_word(c)).filter(|word| !word.is_empty()).count())
    });
    environment.add_filter("forceescape", |value: Value| {
        methods::escaped(&text(&value)?.into()).map(Value::from_safe_string)
    });
    environment.add_filter("center", |value: Value, width: Option<usize>| {
        let arguments = [Value::from(width.unwrap_or(80))];
        methods::text_method(&text(&value)?.into(), "center", &arguments)
    });
    environment.add_filter("striptags", minijinja_contrib::filters::striptags);
    environment.add_filter("filesizeformat", minijinja_contrib::filters::filesizeformat);
    environment.add_function("joiner", minijinja_contrib::globals::joiner);
    // It prints long values on several lines.
    environment.remove_filter("pprint");
    environment.add_test("iterable", is_iterable);
    environment.add_test("sequence", |value: &Value| {
        matches!(value.kind(), ValueKind::String | ValueKind::Seq | ValueKind::Undefined)
            || value.kind() == ValueKind::Map && !is_namespace(value)
            || value.kind() == ValueKind::Iterable
                && lazy::type_name(value).is_none_or(|name| name == "range")
    });
    environment.add_test("mapping", |value: &Value| value.kind() == ValueKind::Map && !is_namespace(value));
    environment
        .add_test("number", |value: &Value| matches!(value.kind(), ValueKind::Number | ValueKind::Bool));
    environment.add_test("integer", |value: &Value| value.kind() == ValueKind::Number && value.is_integer());
    environment.add_test("float", |value: &Value| value.kind() == ValueKind::Number && !value.is_integer());
    environment.add_test("escaped", |value: &Value| value.is_safe());
}

fn is_iterable(value: &Value) -> bool {
    match value.kind() {
        ValueKind::Map => !is_namespace(value),
        kind => {
            matches!(kind, ValueKind::String | ValueKind::Seq | ValueKind::Iterable | ValueKind::Undefined)
        }
    }
}

fn length(value: Value) -> Result<usize, Error> {
    match value.kind() {
        ValueKind::Undefined => Ok(0),
        _ if is_iterator(&value) => {
            Err(invalid("`length` does not accept an iterator; convert it with `list` first"))
        }
        ValueKind::Iterable if value.len().is_none() => Ok(value.try_iter()?.count()),
        _ => value.len().ok_or_else(|| invalid(format!("`length` of a value of type {}", value.kind()))),
    }
}

fn list(value: Value) -> Result<Vec<Value>, Error> {
    match value.as_str() {
        Some(text) => Ok(text.chars().map(Value::from).collect()),
        None if is_iterable(&value) => Ok(value.try_iter()?.collect()),
        None => Err(invalid(format!("`list` of a value of type {}", value.kind()))),
    }
}

fn join(value: Value, separator: Option<Value>, names: Kwargs) -> Result<String, Error> {
    let separator = match separator {
        Some(separator) => Some(separator),
        None => names.get::<Option<Value>>("d")?,
    };
    let attribute: Option<Value> = names.get("attribute")?;
    names.assert_all_used()?;
    let separator = separator.map_or_else(|| Ok(String::new()), |separator| text(&separator))?;
    let items = list(value)?;
    let texts = items.iter().map(|item| match &attribute {
        Some(attribute) => text(&item.get_item(attribute)?),
        None => text(item),
    });
    let texts = texts.collect::<Result<Vec<_>, Error>>()?;
    methods::joined(&texts, &separator)
}

fn last(value: Value) -> Result<Value, Error> {
    if is_iterator(&value) {
        return Err(invalid("`last` does not accept an iterator; convert it with `list` first"));
    }
    Ok(list(value)?.pop().unwrap_or_default())
}

/// `attr`: attributes only, not keys of dictionaries.
fn attribute(value: Value, name: String) -> Result<Value, Error> {
    match value.kind() {
        ValueKind::Map if !is_namespace(&value) && !DICTIONARY_METHODS.contains(&&name[..]) => {
            Ok(Value::UNDEFINED)
        }
        _ => operators::attribute(value, name),
    }
}

fn replace(value: Value, old: Value, new: Value, n: Option<i64>) -> Result<Value, Error> {
    let (value, old, new) = (text(&value)?, text(&old)?, text(&new)?);
    methods::check_replacement(&value, &old, &new)?;
    Ok(match n.and_then(|n| usize::try_from(n).ok()) {
        Some(n) => value.replacen(&old, &new, n).into(),
        None => value.replace(&old, &new).into(),
    })
}

/// Words start after blanks, hyphens and opening brackets.
fn title(text: &str) -> String {
    let (mut made, mut is_begin) = (String::new(), true);
    for c in text.chars() {
        let is_border = c.is_whitespace() || "-({[<".contains(c);
        if is_begin && !is_border {
            made.extend(c.to_uppercase())
        } else {
            made.extend(c.to_lowercase())
        }
        is_begin = is_border;
    }
    made
}

fn indent(
    value: Value,
    width: Option<Value>,
    first: Option<bool>,
    blank: Option<bool>,
    names: Kwargs,
) -> Result<String, Error> {
    let width = match width {
        Some(width) => Some(width),
        None => names.get::<Option<Value>>("width")?,
    };
    let named = |given: Option<bool>, name: &str| match given {
        Some(given) => Ok::<bool, Error>(given),
        None => Ok(names.get::<Option<bool>>(name)?.unwrap_or(false)),
    };
    let (first, blank) = (named(first, "first")?, named(blank, "blank")?);
    names.assert_all_used()?;
    let indention = match width {
        Some(width) => match (width.as_str(), width.as_usize()) {
            (Some(text), _) => text.to_owned(),
            (None, Some(n)) if n <= 1 << 16 => " ".repeat(n),
            _ => return Err(Error::new(ErrorKind::InvalidOperation, "invalid width of `indent`")),
        },
        None => " ".repeat(4),
    };
    // A newline at the end is kept.
    let text = text(&value)? + "\n";
    methods::check_replacement(&text, "\n", &indention)?;
    let mut lines = methods::lines(&text, false).into_iter();
    let mut made = String::new();
    if first {
        made += &indention;
    }
    made += lines.next().unwrap_or_default();
    for line in lines {
        made.push('\n');
        if blank || !line.is_empty() {
            made += &indention;
        }
        made += line;
    }
    Ok(made)
}

fn dictsort(
    value: Value,
    case_sensitive: Option<bool>,
    by: Option<String>,
    reverse: Option<bool>,
    names: Kwargs,
) -> Result<Value, Error> {
    let case_sensitive = case_sensitive.or(names.get("case_sensitive")?).unwrap_or(false);
    let by = by.or(names.get("by")?).unwrap_or_else(|| "key".to_owned());
    let reverse = reverse.or(names.get("reverse")?).unwrap_or(false);
    names.assert_all_used()?;
    let at = match &by[..] {
        "key" => 0,
        "value" => 1,
        _ => return Err(invalid("`dictsort` sorts by `key` or `value`")),
    };
    let mut pairs = Vec::new();
    for key in value.try_iter()? {
        let pair = [key.clone(), value.get_item(&key)?];
        let sorted_by = match (pair[at].as_str(), case_sensitive) {
            (Some(text), false) => Value::from(text.to_lowercase()),
            _ => pair[at].clone(),
        };
        pairs.push((sorted_by, pair));
    }
    pairs.sort_by(|(a, _), (b, _)| if reverse { b.cmp(a) } else { a.cmp(b) });
    Ok(pairs.into_iter().map(|(_, pair)| tuple(pair.to_vec())).collect::<Vec<_>>().into())
}
