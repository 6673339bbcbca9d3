//! `gguf-inspect`: show, edit, fit, recipe, tokenizer and verify.

mod edit;
mod fit;
mod recipe;
mod several;
mod show;
mod tokenizer;
mod verify_adapters;
mod verify_faults;
mod verify_goldens;
mod verify_programs;
mod verify_source;
