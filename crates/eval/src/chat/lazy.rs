//! Objects of Python that templates can read but not print or subscript as lists: iterators, ranges, and views of dictionaries.

use std::{
    fmt,
    sync::{Arc, Mutex},
};

use minijinja::{
    Error,
    value::{Enumerator, Object, ObjectRepr, Value},
};

use super::errors::invalid;

/// What `map` and other filters return: it is read once, is never false, and has no length.
pub(super) struct Iterator {
    filter: String,
    items: Mutex<Vec<Value>>,
}

impl fmt::Debug for Iterator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<iterator of {}>", self.filter)
    }
}

impl Object for Iterator {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Iterable
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        let items = self.items.lock().map(|mut items| std::mem::take(&mut *items)).unwrap_or_default();
        Enumerator::Iter(Box::new(items.into_iter()))
    }

    fn enumerator_len(self: &Arc<Self>) -> Option<usize> {
        None
    }
}

/// `__lazy(items, filter)`: the items that a filter returned, as an iterator.
pub(super) fn iterator(value: Value, filter: String) -> Result<Value, Error> {
    // A string that is reversed is a string.
    if value.as_str().is_some() {
        return Ok(value);
    }
    let items = value.try_iter()?.collect();
    Ok(Value::from_object(Iterator { filter, items: Mutex::new(items) }))
}

/// A view of a dictionary, or a range.
#[derive(Debug)]
pub(super) enum View {
    /// Keys, values or items of a dictionary: the type and the elements.
    Dictionary(&'static str, Vec<Value>),
    /// Start, end, step and elements of a range.
    Range([i64; 3], Vec<Value>),
}

impl View {
    fn items(&self) -> &[Value] {
        let (View::Dictionary(_, items) | View::Range(_, items)) = self;
        items
    }

    pub(super) fn type_name(&self) -> &'static str {
        match self {
            View::Dictionary(name, _) => name,
            View::Range(..) => "range",
        }
    }
}

impl Object for View {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Iterable
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Values(self.items().to_vec())
    }
}

/// A view of a dictionary with this name of its type.
pub(super) fn view(name: &'static str, items: Vec<Value>) -> Value {
    Value::from_object(View::Dictionary(name, items))
}

/// Most elements of a range (`MAX_RANGE` of `jinja2/sandbox.py`).
const MAX_RANGE: usize = 100_000;

/// `range(stop)` or `range(start, stop, step)`.
pub(super) fn range(first: i64, second: Option<i64>, step: Option<i64>) -> Result<Value, Error> {
    let (start, stop) = second.map_or((0, first), |stop| (first, stop));
    range_of(start, stop, step.unwrap_or(1))
}

/// The range from `start` to in front of `stop`.
pub(super) fn range_of(start: i64, stop: i64, step: i64) -> Result<Value, Error> {
    if step == 0 {
        return Err(invalid("the step of a range cannot be zero"));
    }
    let (mut items, mut at) = (Vec::new(), Some(start));
    while let Some(number) = at.filter(|at| if step > 0 { *at < stop } else { *at > stop }) {
        if items.len() == MAX_RANGE {
            return Err(invalid(format!("a range of more than {MAX_RANGE} numbers")));
        }
        items.push(Value::from(number));
        at = number.checked_add(step);
    }
    Ok(Value::from_object(View::Range([start, stop, step], items)))
}

/// The type of one of these objects, in Python's words.
pub(super) fn type_name(value: &Value) -> Option<&'static str> {
    match value.downcast_object_ref::<View>() {
        Some(view) => Some(view.type_name()),
        None => value.downcast_object_ref::<Iterator>().map(|_| "generator"),
    }
}

/// True for the result of a filter that returns an iterator.
pub(super) fn is_iterator(value: &Value) -> bool {
    value.downcast_object_ref::<Iterator>().is_some()
}

/// Error of a template that prints an object whose text in Python is an address.
pub(super) fn not_printable(value: &Value) -> Error {
    match value.downcast_object_ref::<Iterator>() {
        Some(iterator) => {
            invalid(format!("the iterator that filter `{}` returns cannot be printed", iterator.filter))
        }
        None => invalid(format!("a value of type {} cannot be printed", value.kind())),
    }
}
