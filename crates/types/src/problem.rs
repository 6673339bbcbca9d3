//! Facts and hints of errors.

use std::collections::BTreeMap;

use crate::Words;

/// Known facts of an error by name: `file`, `tensor`, `key`, `expected` and `found`. All are strings, because they come from many
/// types; sizes have the unit given in the message.
pub type Facts = BTreeMap<&'static str, String>;

/// An error with a hint. By default, an error answers like the error within it.
pub trait Problem: Fields {
    /// Hint for the user.
    fn hint(&self) -> Option<Words> {
        self.inner()?.hint()
    }

    /// True if the user stopped the work.
    fn is_interruption(&self) -> bool {
        self.inner().is_some_and(Problem::is_interruption)
    }

    /// True if the message names its file, so that callers do not add a path.
    fn names_its_file(&self) -> bool {
        self.inner().is_some_and(Problem::names_its_file)
    }
}

/// Facts of an error from the fields of its variants. Derive it.
pub trait Fields {
    /// Known facts, also of the error within this one.
    fn facts(&self) -> Facts;
    /// The error within this one.
    fn inner(&self) -> Option<&dyn Problem>;
}

/// Parts of derived implementations. The most specific method of the type of a field applies.
#[doc(hidden)]
pub mod derived {
    use std::{fmt, path::PathBuf};

    use super::Problem;

    #[derive(Debug)]
    pub struct Of<'a, T: ?Sized>(pub &'a T);

    pub trait Value {
        fn value(&self) -> Option<String>;
    }

    impl<T: fmt::Display + ?Sized> Value for Of<'_, T> {
        fn value(&self) -> Option<String> {
            Some(self.0.to_string())
        }
    }

    macro_rules! values {
        ($($field:ty: |$value:ident| $text:expr;)+) => {$(
            impl Of<'_, $field> {
                pub fn value(&self) -> Option<String> {
                    let $value = self.0;
                    $text
                }
            }
        )+};
    }

    values! {
        PathBuf: |path| Some(path.display().to_string());
        Option<String>: |text| text.clone();
        // The first of several tensors; the message lists more.
        Vec<String>: |names| names.first().cloned();
        Vec<&str>: |names| Some(names.join(", "));
        Vec<u64>: |dims| Some(format!("{dims:?}"));
    }

    pub trait Known<'a> {
        fn problem(&self) -> Option<&'a dyn Problem>;
    }

    impl<'a, T: Problem> Known<'a> for Of<'a, T> {
        fn problem(&self) -> Option<&'a dyn Problem> {
            Some(self.0)
        }
    }

    impl<'a, T: Problem> Of<'a, Box<T>> {
        pub fn problem(&self) -> Option<&'a dyn Problem> {
            Some(&**self.0)
        }
    }

    pub trait Unknown {
        fn problem(&self) -> Option<&'static dyn Problem>;
    }

    impl<T: ?Sized> Unknown for &Of<'_, T> {
        fn problem(&self) -> Option<&'static dyn Problem> {
            None
        }
    }
}
