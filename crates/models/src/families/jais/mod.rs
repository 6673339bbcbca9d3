//! Jais, by Inception.

pub mod convert;
pub mod graph;

use crate::family::Family;
use gguf_layout::Quantization;

pub const FAMILY: Family = Family {
    arches: &[convert::jais::JAIS, convert::jais2::JAIS2],
    quantization: &[Quantization { architecture: "jais2", layers_of_70b: Some(68), ..Quantization::USUAL }],
    graphs: graph::GRAPHS,
    ..Family::EMPTY
};
