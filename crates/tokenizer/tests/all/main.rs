//! Tokenizers of files compared with the reference's ids, and errors for contradictory keys.
#![expect(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

mod module_order;
mod reference_pairs;
mod tokenizer_keys;
