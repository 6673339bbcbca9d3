//! GGUF files that are better at the same size.
//!
//! An importance matrix is the diagonal of `E[x x^T]`, the second moments of what goes into a matrix. The whole matrix says more: an
//! error in one weight can be made good by its neighbours. This crate gathers those moments ([`Gram`]) while `eval` runs a model
//! over a text, rounds blocks with them, and chooses types under a budget. It stands above `eval` and `quant`; it opens no
//! checkpoint, and `convert` knows of it no more than rows that come encoded.
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

pub mod budget;
mod error;
mod fingerprint;
mod gram;
pub mod moments;
mod probe;
mod refiner;
mod rounding;
mod steps;

pub use error::Error;
pub use fingerprint::{fingerprint, fingerprint_of, hex};
pub use gram::Gram;
pub use probe::{Prober, Replacement, probe};
pub use refiner::{Left, Outcome, Refiner, Spent, StockRows};
pub use rounding::{
    BothSides, Choice, Rounding, RoundingOptions, choose, divergence, is_refinable, output_error,
};
pub use steps::Steps;
