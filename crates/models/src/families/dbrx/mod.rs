//! DBRX, by Databricks.

pub mod convert;
pub mod graph;

use crate::family::Family;
use gguf_checkpoint::FamilyForm;

pub const FAMILY: Family =
    Family { arches: &[convert::DBRX], graphs: graph::GRAPHS, forms: FORMS, ..Family::EMPTY };

/// Files of mlx-lm 0.32.2.
const FORMS: &[FamilyForm] = &[FamilyForm::refused(&["dbrx"], Some(".ffn."), "its experts are split")];
