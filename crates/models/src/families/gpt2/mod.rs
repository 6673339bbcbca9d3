//! GPT-2, by OpenAI, and ruGPT-3 XL.

pub mod convert;
pub mod graph;

use crate::family::Family;
use gguf_checkpoint::FamilyForm;

pub const FAMILY: Family = Family {
    arches: &[convert::gpt2::GPT2, convert::rugpt3xl::RUGPT3XL],
    graphs: graph::GRAPHS,
    forms: FORMS,
    ..Family::EMPTY
};

/// Files of mlx-lm 0.32.2.
const FORMS: &[FamilyForm] = &[FamilyForm::refused(&["gpt2"], None, "its matrices are transposed")];
