//! Errors of templates, and the bounds of their numbers and texts.

use minijinja::{Error, ErrorKind};

/// An error of a template.
pub(super) fn invalid(problem: impl Into<std::borrow::Cow<'static, str>>) -> Error {
    Error::new(ErrorKind::InvalidOperation, problem)
}

/// Longest text and largest list that a template may make, in bytes.
const MAX_BYTES: usize = 16 << 20;
/// Largest number of elements that a template may ask for (`MAX_RANGE` of `jinja2/sandbox.py`).
pub(super) const MAX_ELEMENTS: usize = 100_000;
/// Most digits of a width or precision in a format.
const FIELD_DIGITS: usize = 4;

/// Checks the size of a text or list before it is made.
pub(super) fn checked_len(n_bytes: usize) -> Result<(), Error> {
    if n_bytes <= MAX_BYTES {
        Ok(())
    } else {
        Err(invalid(format!("a text or list of more than {MAX_BYTES} bytes")))
    }
}

/// A number of elements that a template may ask for.
pub(super) fn checked_count(count: usize) -> Result<usize, Error> {
    if count <= MAX_ELEMENTS { Ok(count) } else { Err(invalid(format!("more than {MAX_ELEMENTS} elements"))) }
}

/// Checks the width and the precision of every field of a format: `%5.3f`, or `{:5.3f}` if `opening` is a brace.
pub(super) fn check_fields(format: &str, opening: char) -> Result<(), Error> {
    for field in format.split(opening).skip(1) {
        let spec = if opening == '{' {
            field.split('}').next().and_then(|field| Some(field.split_once(':')?.1)).unwrap_or_default()
        } else {
            let unnamed =
                field.strip_prefix('(').and_then(|rest| Some(rest.split_once(')')?.1)).unwrap_or(field);
            unnamed.split(char::is_alphabetic).next().unwrap_or_default()
        };
        let is_long = spec.split(|c: char| !c.is_ascii_digit()).any(|digits| digits.len() > FIELD_DIGITS);
        if is_long || opening == '%' && spec.contains('*') {
            return Err(invalid(format!("a width or precision of more than {FIELD_DIGITS} digits")));
        }
    }
    Ok(())
}
