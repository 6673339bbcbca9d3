//! DFlash and DSpark: draft models that predict blocks of tokens, for models of several vendors.

pub mod convert;
pub mod graph;

use crate::family::Family;

pub const FAMILY: Family = Family {
    arches: &[convert::DFLASH, convert::DSPARK, convert::GEMMA4_DSPARK, convert::MUSE_GLIMMER_ASSISTANT],
    drafts: graph::DRAFTS,
    ..Family::EMPTY
};
