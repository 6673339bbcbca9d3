//! EXAONE 4.5: the tower of Qwen 2.5 VL with grouped-query attention.
//!
//! Source: `Exaone4_5_VisionModel` of transformers 5.23.

use gguf_runtime::graphs::{
    Error, Keys, Weights,
    vision::{Opened, ProjectorKind},
};

use crate::families::qwen::vision::qwen2vl;

pub const TOWERS: &[ProjectorKind] = &[ProjectorKind { name: "exaone4_5", open }];

pub fn open(keys: &Keys<'_>, weights: &mut Weights<'_>, n_out: usize) -> Result<Opened, Error> {
    qwen2vl::open_windowed(keys, weights, n_out, false, ("<vision>", "</vision>"))
}
