//! Families of models, one folder each: all that the engines need to convert and run them.
//!
//! `convert.rs` of a folder has the rows for conversions ([`gguf_layout::Arch`]), `projector.rs` those of its projectors,
//! `graph.rs` how the runtime computes its files ([`gguf_runtime::graphs`]), and `vision.rs` how it sees images. Diffusion models are data
//! (`diffusion/`). A file about conversion imports nothing of the runtime, and the other way round: each checks the other.
//!
//! "The reference" is llama.cpp's converter with gguf-py, as vendored in llama-cpp-python 0.3.36, which reads
//! configs with transformers 5.23. `Source:` lines name a class or function and its file below that tree
//! (`conversion/llama.py`).
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr, clippy::exit))]
#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]

mod diffusion;
mod families;
mod family;
mod parts;
mod prelude;
mod routes;

pub use diffusion::with_diffusion;
pub use family::{ARCHES, DEPARTURES, FAMILIES, FORMS, GRAPHS, PROJECTORS};
pub use routes::{WAITING, Waiting, routes};
