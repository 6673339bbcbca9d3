//! Translation of the options of llama.cpp's programs to ours.
//!
//! One table for each program maps its options to ours and lists those without a counterpart. [`translate`] applies the table of
//! a verb to the arguments of a call before clap sees them; `--help` and `docs/guides/coming-from-llama-cpp.md` print it. A program that
//! is called by one of these names, through a link, runs the verb that replaces it. `golden/options` has all options of the
//! programs, and a test compares them with the tables.

mod call;
mod common;
mod convert_hf;
mod gguf_split;
mod imatrix;
mod perplexity;
mod program;
mod quantize;
mod translate;
mod words;

pub use call::argument;
pub use program::{Program, Row, Spelled, To};
pub use translate::translate;
pub use words::also;

/// Every program of llama.cpp that one of ours stands for.
pub const PROGRAMS: &[Program] =
    &[convert_hf::PROGRAM, quantize::PROGRAM, imatrix::PROGRAM, perplexity::PROGRAM, gguf_split::PROGRAM];

/// Our program that replaces a program of llama.cpp.
pub fn replaced_by(name: &str) -> Option<&'static str> {
    PROGRAMS.iter().find(|program| program.is_named(name)).map(|program| program.binary)
}
