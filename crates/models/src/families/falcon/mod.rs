//! Falcon, by TII.

pub mod convert;
pub mod graph;

use crate::family::Family;
use gguf_layout::Quantization;

/// Its architectures and projectors.
pub const FAMILY: Family = Family {
    arches: &[convert::falcon::FALCON, convert::falcon_h1::FALCON_H1],
    quantization: &[Quantization { architecture: "falcon", has_own_rules: true, ..Quantization::USUAL }],
    graphs: graph::GRAPHS,
    ..Family::EMPTY
};
