//! Templates and tokenizers through the public API of the crate.
#![expect(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

mod module_order;
mod reference_pairs;
mod templates;
mod tokenizer_keys;
