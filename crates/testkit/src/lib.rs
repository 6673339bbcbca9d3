//! Seeded data, nasty blocks and golden comparison, for tests only.
//!
//! Data is made of integer arithmetic and single, exactly rounded f32 operations, so that
//! `scripts/golden/quant.py` makes the same bits with numpy.

mod data;
mod golden;
mod levels;
mod modules;
mod mutate;

pub use data::{Data, Importance, bytes, mix, normal};
pub use golden::{QuantCase, Task, compare_blocks, decoded_sha256, from_hex, sha256};
pub use levels::{REQUIRE_LEVELS, require_levels};
pub use modules::module_order;
pub use mutate::{Draw, NASTY, mutants, mutate, number};
