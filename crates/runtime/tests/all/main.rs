//! Templates through the public API of the crate.
#![expect(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

mod module_order;
mod templates;
