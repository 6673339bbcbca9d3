//! Calibration: better GGUF files of the same size.
//!
//! An importance matrix is the diagonal of the Hessian `E[x x^T]` of a matrix's inputs. The full Hessian
//! determines how an error in one weight can be compensated by others. This crate collects Hessians
//! ([`Gram`]) while `gguf_runtime` runs a model over a text, rounds blocks with error feedback, and chooses
//! types under a byte budget. It uses `gguf_runtime` and `gguf_quant`, opens no checkpoint, and is known to
//! `gguf_conversion` only as an encoder of rows.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr, clippy::exit))]
#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]

pub mod budget;
mod error;
mod fingerprint;
mod gram;
pub mod moments;
mod probe;
mod refiner;
mod rounding;
mod steps;
mod training;

pub use error::Error;
pub use fingerprint::{fingerprint, fingerprint_of};
pub use gram::Gram;
pub use probe::{Prober, Replacement, probe};
pub use refiner::{Outcome, Refiner, Spent, StockRows, Unrounded};
pub use rounding::{
    BatchedRounding, Choice, KroneckerRounding, Rounding, RoundingOptions, choose, divergence, is_refinable,
    output_error,
};
pub use steps::Steps;
pub use training::{Trained, TrainingOptions, train};
