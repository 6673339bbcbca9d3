//! Operators of Python that the template engine has otherwise, as functions that rewritten templates call.

use std::sync::Arc;

use minijinja::{
    Environment, Error, ErrorKind, FormatStyle, State, format_filter,
    value::{Kwargs, Object, Rest, Value, ValueKind},
};

use super::{
    errors::{check_fields, checked_len},
    expression::{DICTIONARY_METHODS, TEXT_METHODS},
    lazy::{self, View},
    methods::{self, escaped},
    python::{Tuple, invalid, is_object, is_tuple, text, tuple},
};

/// Adds the functions.
pub(super) fn add_to(environment: &mut Environment<'_>) {
    environment.add_function("__tuple", |items: Rest<Value>| tuple(items.0));
    environment.add_function("__add", |items: Rest<Value>| {
        let mut items = items.0.into_iter();
        let first = items.next().unwrap_or_default();
        items.try_fold(first, add)
    });
    environment.add_function("__mod", modulo);
    environment.add_function("__concat", |items: Rest<Value>| -> Result<String, Error> {
        let texts = items.iter().map(text).collect::<Result<Vec<_>, Error>>()?;
        checked_len(texts.iter().map(String::len).sum())?;
        Ok(texts.concat())
    });
    environment.add_function("__iter", |value: Value| match value.as_str() {
        _ if value.is_none() => Err(invalid("`for` over `None`")),
        Some(text) => Ok(text.chars().map(Value::from).collect::<Vec<_>>().into()),
        None => Ok(value),
    });
    environment.add_function("__lazy", lazy::iterator);
    environment.add_function("range", lazy::range);
    environment.add_function("__value", |value: Value| value);
    environment.add_function("__number", |value: Value| match value.kind() {
        ValueKind::Bool => Value::from(i64::from(value.is_true())),
        _ => value,
    });
    environment.add_function("__divisor", |value: Value| match number(&value) {
        Some(0.0) => Err(invalid("division by zero")),
        _ => Ok(value),
    });
    environment.add_function("__compare", compare);
    environment.add_function("__in", contains);
    environment.add_function("__item", item);
    environment.add_function("__slice", slice);
    environment.add_function("__attribute", attribute);
    environment.add_function("__method", method);
}

fn type_name(value: &Value) -> &'static str {
    match value.kind() {
        ValueKind::Undefined => "Undefined",
        ValueKind::None => "NoneType",
        ValueKind::Bool => "bool",
        ValueKind::Number if value.is_integer() => "int",
        ValueKind::Number => "float",
        ValueKind::String => "str",
        ValueKind::Map => "dict",
        ValueKind::Seq if is_tuple(value) => "tuple",
        ValueKind::Iterable => lazy::type_name(value).unwrap_or("list"),
        ValueKind::Seq => "list",
        _ => "object",
    }
}

fn integer(value: &Value) -> Option<i128> {
    match value.kind() {
        ValueKind::Bool => Some(value.is_true().into()),
        ValueKind::Number if value.is_integer() => i128::try_from(value.clone()).ok(),
        _ => None,
    }
}

/// True for an integer or a boolean.
pub(super) fn is_integer(value: &Value) -> bool {
    integer(value).is_some()
}

pub(super) fn number(value: &Value) -> Option<f64> {
    match value.kind() {
        ValueKind::Bool => Some(if value.is_true() { 1.0 } else { 0.0 }),
        ValueKind::Number => f64::try_from(value.clone()).ok(),
        _ => None,
    }
}

pub(super) fn add(left: Value, right: Value) -> Result<Value, Error> {
    if left.is_undefined() || right.is_undefined() {
        return Err(Error::new(ErrorKind::UndefinedError, "undefined value in a sum"));
    }
    let types = || invalid(format!("cannot add `{}` and `{}`", type_name(&left), type_name(&right)));
    if let (Some(a), Some(b)) = (left.as_str(), right.as_str()) {
        checked_len(a.len() + b.len())?;
        return Ok(if left.is_safe() || right.is_safe() {
            Value::from_safe_string(escaped(&left)? + &escaped(&right)?)
        } else {
            Value::from([a, b].concat())
        });
    }
    if let (Some(a), Some(b)) = (integer(&left), integer(&right)) {
        let sum = a.checked_add(b).ok_or_else(|| invalid("number out of range"))?;
        return Ok(i64::try_from(sum).map_or_else(|_| Value::from(sum), Value::from));
    }
    if let (Some(a), Some(b)) = (number(&left), number(&right)) {
        return Ok(Value::from(a + b));
    }
    let is_list = |value: &Value| ["list", "tuple"].contains(&type_name(value));
    if !is_list(&left) || !is_list(&right) || type_name(&left) != type_name(&right) {
        return Err(types());
    }
    let n_items = left.len().unwrap_or_default().saturating_add(right.len().unwrap_or_default());
    checked_len(n_items.saturating_mul(size_of::<Value>()))?;
    let items: Vec<Value> = left.try_iter()?.chain(right.try_iter()?).collect();
    Ok(if type_name(&left) == "tuple" { tuple(items) } else { items.into() })
}

/// `left < right` and the other orders, for numbers, strings, lists, and tuples.
fn compare(sign: String, left: Value, right: Value) -> Result<bool, Error> {
    if left.is_undefined() || right.is_undefined() {
        return Err(Error::new(ErrorKind::UndefinedError, format!("undefined operand of `{sign}`")));
    }
    let order = if let Some((a, b)) = integer(&left).zip(integer(&right)) {
        Some(a.cmp(&b))
    } else if let Some((a, b)) = number(&left).zip(number(&right)) {
        a.partial_cmp(&b)
    } else {
        let (left_type, right_type) = (type_name(&left), type_name(&right));
        if left_type != right_type || !["str", "list", "tuple"].contains(&left_type) {
            return Err(invalid(format!("`{sign}` between `{left_type}` and `{right_type}`")));
        }
        Some(left.cmp(&right))
    };
    Ok(order.is_some_and(|order| match &sign[..] {
        "<" => order.is_lt(),
        "<=" => order.is_le(),
        ">" => order.is_gt(),
        _ => order.is_ge(),
    }))
}

fn modulo(left: Value, right: Value) -> Result<Value, Error> {
    if let Some(format) = left.as_str() {
        // A tuple contains the arguments, a dictionary the names; anything else is the only argument.
        let arguments: Vec<Value> = match right.downcast_object_ref::<Tuple>() {
            Some(Tuple(items)) => items.clone(),
            None => vec![right],
        };
        return percent(format, &arguments);
    }
    if let (Some(a), Some(b)) = (integer(&left), integer(&right)) {
        let rest = a.checked_rem(b).ok_or_else(|| invalid("division by zero"))?;
        let rest = if rest != 0 && (rest < 0) != (b < 0) { rest + b } else { rest };
        return Ok(i64::try_from(rest).map_or_else(|_| Value::from(rest), Value::from));
    }
    match (number(&left), number(&right)) {
        (Some(_), Some(0.0)) => Err(invalid("division by zero")),
        (Some(a), Some(b)) => Ok(Value::from(a - b * (a / b).floor())),
        _ => Err(invalid(format!("`%` of `{}` and `{}`", type_name(&left), type_name(&right)))),
    }
}

/// `format % arguments`.
pub(super) fn percent(format: &str, arguments: &[Value]) -> Result<Value, Error> {
    check_fields(format, '%')?;
    let arguments = arguments.iter().map(|value| match value.kind() {
        ValueKind::Number | ValueKind::Map | ValueKind::String => Ok(value.clone()),
        ValueKind::Bool => Ok(value.clone()),
        _ => text(value).map(Value::from),
    });
    let arguments = arguments.collect::<Result<Vec<_>, Error>>()?;
    format_filter(FormatStyle::Printf, format, &arguments).map(Value::from)
}

fn contains(needle: Value, container: Value) -> Result<bool, Error> {
    if let Some(text) = container.as_str() {
        let needle = needle.as_str();
        let needle = needle.ok_or_else(|| invalid("`in` of a string requires a string on its left"))?;
        return Ok(text.contains(needle));
    }
    match container.kind() {
        ValueKind::Undefined => Ok(false),
        ValueKind::Map => Ok(container.try_iter()?.any(|key| key == needle)),
        ValueKind::Seq | ValueKind::Iterable => Ok(container.try_iter()?.any(|item| item == needle)),
        _ => Err(invalid(format!("`in` of `{}`", type_name(&container)))),
    }
}

fn undefined(subject: &str) -> Error {
    Error::new(ErrorKind::UndefinedError, format!("{subject} of an undefined value"))
}

fn item(object: Value, key: Value) -> Result<Value, Error> {
    if object.is_undefined() {
        return Err(undefined("item"));
    }
    if lazy::is_iterator(&object) {
        return Ok(Value::UNDEFINED);
    }
    if let Some(view) = object.downcast_object_ref::<View>() {
        let View::Range(range) = view else { return Ok(Value::UNDEFINED) };
        let index = integer(&key).and_then(|at| position(at, lazy::range_len(*range)));
        return Ok(index.map(|index| lazy::range_item(*range, index)).unwrap_or_default());
    }
    let Some(text) = object.as_str() else {
        let Some(list) = object.downcast_object_ref::<Tuple>() else {
            return if object.is_none() { Ok(Value::UNDEFINED) } else { object.get_item(&key) };
        };
        return Ok(integer(&key)
            .and_then(|at| list.0.get(position(at, list.0.len())?).cloned())
            .unwrap_or_default());
    };
    let Some(at) = integer(&key) else { return Ok(Value::UNDEFINED) };
    let at = position(at, text.chars().count());
    Ok(at.and_then(|at| text.chars().nth(at)).map_or(Value::UNDEFINED, Value::from))
}

/// An index, which counts from the end if it is negative.
fn position(at: i128, len: usize) -> Option<usize> {
    let len = i128::try_from(len).ok()?;
    usize::try_from(if at < 0 { at + len } else { at }).ok()
}

fn slice(object: Value, start: Value, stop: Value, step: Value) -> Result<Value, Error> {
    let bound = |value: &Value| match integer(value) {
        Some(bound) => Ok(Some(bound)),
        None if value.is_none() => Ok(None),
        None => Err(invalid("slice indices must be integers or None")),
    };
    let (start, stop, step) = (bound(&start)?, bound(&stop)?, bound(&step)?.unwrap_or(1));
    let items: Vec<Value> = match (object.as_str(), object.kind()) {
        _ if lazy::type_name(&object).is_some_and(|name| name != "range") => return Ok(Value::UNDEFINED),
        (Some(text), _) => text.chars().map(Value::from).collect(),
        (None, ValueKind::Seq | ValueKind::Iterable) => object.try_iter()?.collect(),
        (None, ValueKind::Undefined) => return Err(undefined("slice")),
        _ => return Ok(Value::UNDEFINED),
    };
    if step == 0 {
        return Err(invalid("slice step cannot be zero"));
    }
    let len = i128::try_from(items.len()).unwrap_or(i128::MAX);
    let (low, high) = if step > 0 { (0, len) } else { (-1, len - 1) };
    let clamp = |bound: i128| if bound < 0 { (bound + len).max(low) } else { bound.min(high) };
    let (mut at, stop) = if step > 0 {
        (start.map_or(0, clamp), stop.map_or(len, clamp))
    } else {
        (start.map_or(len - 1, clamp), stop.map_or(-1, clamp))
    };
    if let Some(View::Range([first, _, by])) = object.downcast_object_ref::<View>() {
        let bound = |at: i128| i64::try_from(i128::from(*first) + at * i128::from(*by)).unwrap_or(i64::MAX);
        return lazy::range_of(
            bound(at),
            bound(stop),
            i64::try_from(step).unwrap_or(i64::MAX).saturating_mul(*by),
        );
    }
    let mut found = Vec::new();
    while if step > 0 { at < stop } else { at > stop } {
        found.extend(usize::try_from(at).ok().and_then(|at| items.get(at)).cloned());
        at = at.saturating_add(step);
    }
    Ok(match object.as_str() {
        Some(_) => found.iter().filter_map(|c| c.as_str()).collect::<String>().into(),
        None if type_name(&object) == "tuple" => tuple(found),
        None => found.into(),
    })
}

/// An uncalled method of a dictionary or a string.
#[derive(Debug)]
struct BoundMethod {
    object: Value,
    name: String,
}

impl Object for BoundMethod {
    fn repr(self: &Arc<Self>) -> minijinja::value::ObjectRepr {
        minijinja::value::ObjectRepr::Plain
    }

    fn call(self: &Arc<Self>, state: &State<'_, '_>, arguments: &[Value]) -> Result<Value, Error> {
        method(state, self.object.clone(), self.name.clone(), Rest(arguments.to_vec()))
    }
}

/// An attribute with the name of a method.
pub(super) fn attribute(object: Value, name: String) -> Result<Value, Error> {
    match object.kind() {
        ValueKind::String if TEXT_METHODS.contains(&&name[..]) => {
            Ok(Value::from_object(BoundMethod { object, name }))
        }
        ValueKind::Map if DICTIONARY_METHODS.contains(&&name[..]) && !is_namespace(&object) => {
            Ok(Value::from_object(BoundMethod { object, name }))
        }
        ValueKind::Undefined => Err(undefined("attribute")),
        _ => object.get_attr(&name),
    }
}

/// True for `namespace()`, which has attributes only.
pub(super) fn is_namespace(value: &Value) -> bool {
    is_object(value, "Namespace")
}

fn method(
    state: &State<'_, '_>,
    object: Value,
    name: String,
    arguments: Rest<Value>,
) -> Result<Value, Error> {
    match object.kind() {
        ValueKind::Undefined => return Err(undefined(&format!("method `{name}`"))),
        ValueKind::String => {
            if let Some(made) = methods::text_method(&object, &name, &arguments)? {
                return Ok(made);
            }
            if name == "format" {
                return object.call_method(state, &name, &format_arguments(&object, &arguments)?);
            }
        }
        ValueKind::Map if !is_namespace(&object) => {
            if let Some(made) = methods::dictionary_method(&object, &name, &arguments)? {
                return Ok(made);
            }
        }
        ValueKind::Seq | ValueKind::Iterable
            if ["append", "extend", "insert", "pop", "remove", "sort", "reverse", "clear"]
                .contains(&&name[..]) =>
        {
            return Err(invalid(format!("method `{name}` of a list is not allowed in a sandbox")));
        }
        ValueKind::Seq | ValueKind::Iterable => {
            if let Some(made) = methods::list_method(&object, &name, &arguments)? {
                return Ok(made);
            }
        }
        _ => {}
    }
    object.call_method(state, &name, &arguments)
}

/// Arguments of `str.format`. The engine prints lists and dictionaries by its own rules, so their Python text replaces them.
fn format_arguments(format: &Value, arguments: &[Value]) -> Result<Vec<Value>, Error> {
    let is_plain = |value: &Value| {
        matches!(value.kind(), ValueKind::String | ValueKind::Number | ValueKind::Bool | ValueKind::None)
    };
    let printed =
        |value: &Value| if is_plain(value) { Ok(value.clone()) } else { text(value).map(Value::from) };
    let arguments = arguments.iter().map(|value| match Kwargs::try_from(value.clone()) {
        Ok(names) if value.is_kwargs() => {
            let items = names.args().map(|name| Ok((name, printed(&names.get::<Value>(name)?)?)));
            Ok(Kwargs::from_iter(items.collect::<Result<Vec<_>, Error>>()?).into())
        }
        _ => printed(value),
    });
    check_fields(format.as_str().unwrap_or_default(), '{')?;
    // `{x[0]}` and `{x.y}` read parts of an argument.
    let mut fields = format.as_str().unwrap_or_default().split('{').skip(1);
    let name =
        |field: &str| field.split([':', '}', '!']).next().is_some_and(|name| name.contains(['[', '.']));
    if fields.any(name) {
        Err(invalid("`format` with `[` or `.` in a field name is not supported"))
    } else {
        arguments.collect()
    }
}

/// `dict(...)`: pairs or a dictionary, then names.
pub(super) fn dictionary(pairs: Option<Value>, names: Kwargs) -> Result<Value, Error> {
    let mut items: Vec<(Value, Value)> = Vec::new();
    if let Some(pairs) = pairs {
        for item in pairs.try_iter()? {
            items.push(match pairs.kind() {
                ValueKind::Map => (item.clone(), pairs.get_item(&item)?),
                _ => (item.get_item_by_index(0)?, item.get_item_by_index(1)?),
            });
        }
    }
    let keys: Vec<String> = names.args().map(str::to_owned).collect();
    for key in keys {
        items.push((Value::from(key.as_str()), names.get(&key)?));
    }
    Ok(items.into_iter().collect())
}
