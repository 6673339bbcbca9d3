//! From the tensors of a checkpoint and an architecture's table to output tensors.
//!
//! A table ([`rules`]) is searched by name ([`Index`]); a [`Context`] says what a row makes of one tensor; [`map`] and
//! [`adapt`] go over all tensors of a checkpoint or of an adapter.

mod combined;
mod context;
pub mod drops;
mod index;
mod lora;
pub mod lost;
mod mapping;
mod missing;
mod numbers;
pub mod rules;
mod transposed;

pub use context::{Context, TowerLayers, computed};
pub use index::{CORRECTION_BIAS, Found, Index, SUFFIXES};
pub use lora::{Adapted, AdapterScale, Base, adapt};
pub use mapping::map;
