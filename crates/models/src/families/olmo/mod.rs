//! OLMo, by the Allen Institute for AI.

pub mod convert;
pub mod graph;

use crate::family::Family;
use gguf_checkpoint::FamilyForm;
use gguf_layout::Quantization;

pub const FAMILY: Family = Family {
    arches: &[convert::olmo::OLMO, convert::olmo2::OLMO2, convert::olmoe::OLMOE],
    quantization: &[Quantization { architecture: "olmo", layers_of_70b: Some(80), ..Quantization::USUAL }],
    graphs: graph::GRAPHS,
    forms: FORMS,
    ..Family::EMPTY
};

/// Files of mlx-lm 0.32.2.
const FORMS: &[FamilyForm] = &[FamilyForm::refused(&["olmo_hybrid"], None, "its projections are joined")];
