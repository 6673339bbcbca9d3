//! Filters of numbers: `int`, `float`, `round`, `sum`.
//!
//! Source: `jinja2/filters.py` 3.1.6.

use minijinja::{
    Environment, Error,
    value::{Kwargs, Value, ValueKind},
};

use super::{
    operators::{add, is_integer, number},
    python::invalid,
};

/// Adds the filters.
pub(super) fn add_to(environment: &mut Environment<'_>) {
    environment.add_filter("int", int);
    environment.add_filter("float", float);
    environment.add_filter("round", round);
    environment.add_filter("sum", sum);
}

/// A positional argument, or the named one.
fn argument(given: Option<Value>, names: &Kwargs, name: &str) -> Result<Option<Value>, Error> {
    match given {
        Some(given) => Ok(Some(given)),
        None => names.get::<Option<Value>>(name),
    }
}

/// The number in a text, parsed like Python's `float`.
fn parsed(text: &str) -> Option<f64> {
    text.trim().replace('_', "").parse().ok()
}

fn int(value: Value, default: Option<Value>, base: Option<Value>, names: Kwargs) -> Result<Value, Error> {
    let default = argument(default, &names, "default")?.unwrap_or_else(|| Value::from(0));
    let base = argument(base, &names, "base")?.map_or(Ok(10), u32::try_from)?;
    names.assert_all_used()?;
    if is_integer(&value) {
        return Ok(Value::from(i128::try_from(value)?));
    }
    let whole = |number: f64| number.is_finite().then(|| Value::from(number.trunc() as i128));
    let made = match (value.as_str(), value.kind()) {
        (Some(text), _) => {
            let digits = text.trim().replace('_', "").to_lowercase();
            let prefix = match base {
                16 => "0x",
                8 => "0o",
                2 => "0b",
                _ => "",
            };
            let digits = digits.strip_prefix(prefix).unwrap_or(&digits);
            let read = if (2..=36).contains(&base) { i128::from_str_radix(digits, base).ok() } else { None };
            read.map(Value::from).or_else(|| parsed(text).and_then(whole))
        }
        (None, ValueKind::Number) => whole(f64::try_from(value)?),
        _ => None,
    };
    let made = made.unwrap_or(default);
    // The engine stores small integers as `i64`.
    Ok(made.as_i64().map_or(made, Value::from))
}

fn float(value: Value, default: Option<Value>, names: Kwargs) -> Result<Value, Error> {
    let default = argument(default, &names, "default")?.unwrap_or_else(|| Value::from(0.0));
    names.assert_all_used()?;
    let made = value.as_str().map_or_else(|| number(&value), parsed);
    Ok(made.map_or(default, Value::from))
}

fn round(
    value: Value,
    precision: Option<Value>,
    method: Option<Value>,
    names: Kwargs,
) -> Result<Value, Error> {
    let precision = argument(precision, &names, "precision")?.map_or(Ok(0), i32::try_from)?;
    let method = argument(method, &names, "method")?;
    names.assert_all_used()?;
    let method = method.as_ref().and_then(Value::as_str).unwrap_or("common");
    let precision = precision.clamp(-300, 300);
    if is_integer(&value) && method == "common" && precision >= 0 {
        return Ok(value);
    }
    let number = f64::try_from(value).map_err(|_| invalid("`round` expects a number"))?;
    let scale = 10f64.powi(precision);
    Ok(Value::from(match method {
        // Like Python's `round`: the exact value is rounded, and halves go to even.
        "common" if precision >= 0 => {
            let digits = usize::try_from(precision).unwrap_or(0);
            format!("{number:.digits$}").parse().unwrap_or(number)
        }
        "common" => (number * scale).round_ties_even() / scale,
        "ceil" => (number * scale).ceil() / scale,
        "floor" => (number * scale).floor() / scale,
        other => return Err(invalid(format!("unknown method `{other}` of `round`"))),
    }))
}

fn sum(value: Value, attribute: Option<Value>, start: Option<Value>, names: Kwargs) -> Result<Value, Error> {
    let attribute = argument(attribute, &names, "attribute")?;
    let start = argument(start, &names, "start")?.unwrap_or_else(|| Value::from(0));
    names.assert_all_used()?;
    value.try_iter()?.try_fold(start, |total, item| {
        let item = match &attribute {
            Some(attribute) => item.get_item(attribute)?,
            None => item,
        };
        add(total, item)
    })
}
