//! Ling and Ring (Bailing), by inclusionAI: mixtures of experts, and images in Ling 3.

pub mod convert;
pub mod graph;
pub mod projector;

use crate::family::Family;
use gguf_layout::Quantization;

/// Its architectures and projectors.
pub const FAMILY: Family = Family {
    arches: &[
        convert::bailingmoe::BAILINGMOE,
        convert::bailingmoe2::BAILINGMOE2,
        convert::bailingmoe3::BAILINGMOE3,
    ],
    projectors: &[projector::LING3VL],
    quantization: &[Quantization {
        architecture: "bailingmoe3",
        only_feed_forward_has_experts: true,
        ..Quantization::USUAL
    }],
    graphs: graph::GRAPHS,
    ..Family::EMPTY
};
