//! GGUF model files in about ten calls: one entry point to the crates of gguf-tools.
//!
//! | call | what it does |
//! |---|---|
//! | [`open`] | reads a GGUF: metadata, tensors, their values on demand |
//! | [`convert()`] | converts a Hugging Face checkpoint folder to GGUF files; with `hub_folder` one from the Hub |
//! | [`save`] | writes an in-memory state dict to GGUF files |
//! | [`quantize`] | quantizes a GGUF file to other types |
//! | [`Job::plan`] | lists what a conversion would write, without reading a weight |
//! | [`encode`], [`decode`] | rows of `f32` to blocks of any type, and back |
//! | [`perplexity()`], [`compare`] | measure how well a file predicts a text, alone or against another file |
//! | [`Job::architecture`] | sets an architecture that is not in the table |
//! | [`types`], [`dtypes`], [`architectures`] | list what is supported |
//!
//! ```no_run
//! # fn main() -> Result<(), gguf_toolkit::Error> {
//! gguf_toolkit::convert("Llama-3.2-1B").file_type("q4_k_m").write("llama-q4_k_m.gguf")?;
//! let file = gguf_toolkit::open("llama-q4_k_m.gguf")?;
//! for tensor in file.tensors() {
//!     println!("{} {} {:?}", tensor.name(), tensor.dtype(), tensor.shape());
//! }
//! # Ok(())
//! # }
//! ```
//!
//! Everything else is in the crates below, which are re-exported; these calls use their types.
#![cfg_attr(
    not(test),
    deny(
        clippy::print_stdout,
        clippy::print_stderr,
        clippy::exit,
        clippy::disallowed_methods,
        clippy::disallowed_types
    )
)]

mod blocks;
mod error;
mod fields;
mod file;
#[cfg(feature = "remote")]
mod hub;
mod job;
mod measure;

#[cfg(feature = "remote")]
pub use self::hub::{hub_folder, is_hub_address};
pub use self::{
    blocks::{decode, encode, encode_weighted},
    error::{Cause, Error},
    fields::Fields,
    file::{GgufFile, TensorRef, open},
    job::{Job, Planned, convert, quantize, save},
    measure::{Measuring, compare, perplexity},
};
// The crates themselves.
pub use {arch, convert as conversion, eval, gguf, quant, source, tensor};
// Types in the signatures of the calls.
pub use arch::Arch;
pub use eval::{Activations, perplexity::Perplexity, stats::Comparison};
pub use gguf::{Metadata, Value};
pub use source::{Memory, MemoryTensor};
pub use tensor::DType;

use ::convert::recipes::{RECIPES, Recipe};

/// Every file type that [`Job::file_type`] takes: `q4_k_m` and its like.
pub fn types() -> &'static [Recipe] {
    RECIPES
}

/// Every type of a tensor, encodable or not ([`DType::is_encodable`]).
pub fn dtypes() -> &'static [DType] {
    DType::ALL
}

/// Every architecture that is converted.
pub fn architectures() -> &'static [Arch] {
    arch::ARCHES
}
