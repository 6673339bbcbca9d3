//! Templates through the public API of the crate.

mod module_order;
mod templates;
