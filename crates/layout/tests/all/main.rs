//! The order of the modules.

mod module_order;
