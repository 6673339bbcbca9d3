//! Nanbeige 4.2, by Nanbeige.

pub mod convert;
pub mod graph;

use crate::family::Family;
use gguf_layout::{CountedLayers, Quantization};

pub const FAMILY: Family = Family {
    arches: &[convert::NANBEIGE],
    quantization: &[Quantization {
        architecture: "nanbeige",
        layers: CountedLayers::Repeated("num_loops"),
        ..Quantization::USUAL
    }],
    graphs: graph::GRAPHS,
    ..Family::EMPTY
};
