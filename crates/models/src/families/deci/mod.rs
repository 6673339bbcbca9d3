//! DeciLM, and the Nemotron models from the same architecture search.

pub mod convert;
pub mod graph;

use crate::family::Family;
use gguf_layout::Quantization;

pub const FAMILY: Family = Family {
    arches: &[convert::DECI],
    quantization: &[Quantization { architecture: "deci", layers_of_70b: Some(80), ..Quantization::USUAL }],
    graphs: graph::GRAPHS,
    ..Family::EMPTY
};
