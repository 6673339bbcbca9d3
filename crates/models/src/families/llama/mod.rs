//! Llama, by Meta, and the many models with its classes; images in Llama 4.

pub mod convert;
pub mod graph;
pub mod projector;
pub mod vision;

use crate::family::Family;
use gguf_checkpoint::FamilyForm;
use gguf_layout::Quantization;

pub const FAMILY: Family = Family {
    arches: &[
        convert::helium::HELIUM,
        convert::llama::LLAMA,
        convert::llama4::LLAMA4,
        convert::llama_embed::LLAMA_EMBED,
        convert::native::META_PARAMS,
        convert::native::MISTRAL_PARAMS,
        convert::native::MISTRAL3_PARAMS,
        convert::native::MIXTRAL_PARAMS,
    ],
    projectors: &[projector::LLAMA4],
    quantization: &[
        Quantization {
            architecture: "llama",
            layers_of_70b: Some(80),
            only_grouped_70b: true,
            ..Quantization::USUAL
        },
        Quantization {
            architecture: "llama-embed",
            layers_of_70b: Some(80),
            only_grouped_70b: true,
            ..Quantization::USUAL
        },
    ],
    graphs: graph::GRAPHS,
    forms: FORMS,
    towers: vision::TOWERS,
    departures: &[convert::native::LENGTH],
    ..Family::EMPTY
};

/// Files of mlx-lm 0.32.2.
const FORMS: &[FamilyForm] = &[FamilyForm::refused(
    &["llama4", "llama4_text"],
    Some(".gate_proj."),
    "its experts are split and transposed",
)];
