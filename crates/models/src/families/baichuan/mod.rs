//! Baichuan 1 and 2, by Baichuan.

pub mod convert;
pub mod graph;

use crate::family::Family;
use gguf_checkpoint::FamilyForm;

pub const FAMILY: Family =
    Family { arches: &[convert::BAICHUAN], graphs: graph::GRAPHS, forms: FORMS, ..Family::EMPTY };

/// Files of mlx-lm 0.32.2.
const FORMS: &[FamilyForm] = &[FamilyForm::refused(&["baichuan_m1"], None, "its output is normalized")];
