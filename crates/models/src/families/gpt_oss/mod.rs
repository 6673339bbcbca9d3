//! gpt-oss, by OpenAI.

pub mod convert;
pub mod graph;

use crate::family::Family;

pub const FAMILY: Family = Family { arches: &[convert::GPT_OSS], graphs: graph::GRAPHS, ..Family::EMPTY };
