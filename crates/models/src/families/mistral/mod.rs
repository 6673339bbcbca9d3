//! Mistral models with their own classes. Older models use classes of the llama family.

pub mod convert;
pub mod graph;
pub mod vision;

use crate::family::Family;
use gguf_layout::Wrapper;

pub const FAMILY: Family = Family {
    arches: &[
        convert::mistral3::MISTRAL3,
        convert::mistral4::MISTRAL4,
        convert::mistral_large::MISTRAL_MOE_PARAMS,
    ],
    wrappers: &[Wrapper { model_type: "voxtral", usual_text: "llama" }],
    graphs: graph::GRAPHS,
    towers: vision::TOWERS,
    ..Family::EMPTY
};
