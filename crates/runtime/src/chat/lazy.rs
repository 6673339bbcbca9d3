//! Objects of Python that templates can read, but not print or subscript like lists: iterators, ranges, and views of dictionaries.

use std::{
    fmt,
    sync::{Arc, Mutex},
};

use minijinja::{
    Error,
    value::{Enumerator, Object, ObjectRepr, Value},
};

use super::errors::{MAX_ELEMENTS, invalid};

/// Result of `map` and similar filters. It can be read once, is never false, and has no length.
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
    // A reversed string is a string.
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
    /// Start, end and step of a range.
    Range([i64; 3]),
}

impl View {
    fn items(&self) -> Vec<Value> {
        match self {
            View::Dictionary(_, items) => items.clone(),
            View::Range(range) => (0..range_len(*range)).map(|index| range_item(*range, index)).collect(),
        }
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
        Enumerator::Values(self.items())
    }
}

/// A view of a dictionary. `name` is its type.
pub(super) fn view(name: &'static str, items: Vec<Value>) -> Value {
    Value::from_object(View::Dictionary(name, items))
}

/// `range(stop)` or `range(start, stop, step)`.
pub(super) fn range(first: i64, second: Option<i64>, step: Option<i64>) -> Result<Value, Error> {
    let (start, stop) = second.map_or((0, first), |stop| (first, stop));
    range_of(start, stop, step.unwrap_or(1))
}

/// The range from `start` to `stop`, exclusive.
pub(super) fn range_of(start: i64, stop: i64, step: i64) -> Result<Value, Error> {
    if step == 0 {
        return Err(invalid("the step of a range cannot be zero"));
    }
    let range = [start, stop, step];
    if range_len(range) > MAX_ELEMENTS {
        return Err(invalid(format!("a range of more than {MAX_ELEMENTS} numbers")));
    }
    Ok(Value::from_object(View::Range(range)))
}

/// Number of elements of a range with a start, an end and a step that is not zero.
pub(super) fn range_len([start, stop, step]: [i64; 3]) -> usize {
    let (distance, step) = (i128::from(stop) - i128::from(start), i128::from(step));
    let len = (distance + step - step.signum()) / step;
    usize::try_from(len.max(0)).unwrap_or(usize::MAX)
}

/// The element of a range at an index below its length.
pub(super) fn range_item([start, _, step]: [i64; 3], index: usize) -> Value {
    // The element lies between start and end, so wrapped intermediate results are correct.
    Value::from(start.wrapping_add((index as i64).wrapping_mul(step)))
}

/// Python's name for the type of an object.
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

/// Error for printing an object that Python prints as an address.
pub(super) fn not_printable(value: &Value) -> Error {
    match value.downcast_object_ref::<Iterator>() {
        Some(iterator) => {
            invalid(format!("the iterator that filter `{}` returns cannot be printed", iterator.filter))
        }
        None => invalid(format!("a value of type {} cannot be printed", value.kind())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Expected values are those of Python.
    #[test]
    fn ranges_match_python() {
        for (range, len, last) in [
            ([0, 7, 3], 3, 6),
            ([7, 0, -3], 3, 1),
            ([0, 6, 3], 2, 3),
            ([-5, -1, 1], 4, -2),
            ([i64::MIN, i64::MAX, i64::MAX], 3, i64::MAX - 1),
            ([i64::MAX, i64::MIN, i64::MIN], 2, -1),
        ] {
            assert_eq!(range_len(range), len, "{range:?}");
            assert_eq!(range_item(range, len - 1), Value::from(last), "{range:?}");
        }
        for range in [[0, 0, 1], [3, 0, 1], [0, 3, -1], [0, -1, 5]] {
            assert_eq!(range_len(range), 0, "{range:?}");
        }
    }
}
