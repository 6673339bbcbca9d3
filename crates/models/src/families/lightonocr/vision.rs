//! LightOnOCR: the tower and projector of Mistral 3 without markers between rows.
//!
//! Source: `LightOnOcrModel` of transformers 5.23.

use gguf_runtime::graphs::{
    Error, Keys, Weights,
    vision::{Opened, ProjectorKind},
};

use crate::families::mistral::vision;

pub const TOWERS: &[ProjectorKind] = &[ProjectorKind { name: "lightonocr", open }];

pub fn open(keys: &Keys<'_>, weights: &mut Weights<'_>, n_out: usize) -> Result<Opened, Error> {
    Ok(Opened { marks: ("<|vision_start|>", "<|vision_end|>"), ..vision::open(keys, weights, n_out)? })
}
