//! Errors of templates.

use minijinja::{Error, ErrorKind};

/// An error of a template.
pub(super) fn invalid(problem: impl Into<std::borrow::Cow<'static, str>>) -> Error {
    Error::new(ErrorKind::InvalidOperation, problem)
}
