//! Ling and Ring (Bailing), by inclusionAI: mixtures of experts, and images in Ling 3; Sarvam.

pub mod convert;
pub mod graph;
pub mod projector;

use crate::family::Family;
use gguf_checkpoint::FamilyForm;
use gguf_layout::Quantization;

pub const FAMILY: Family = Family {
    arches: &[
        convert::bailingmoe::BAILINGMOE,
        convert::bailingmoe2::BAILINGMOE2,
        convert::bailingmoe3::BAILINGMOE3,
        convert::sarvam::SARVAM,
    ],
    projectors: &[projector::LING3VL],
    quantization: &[Quantization {
        architecture: "bailingmoe3",
        only_feed_forward_has_experts: true,
        ..Quantization::USUAL
    }],
    graphs: graph::GRAPHS,
    forms: FORMS,
    ..Family::EMPTY
};

/// Files of mlx-lm 0.32.2.
const FORMS: &[FamilyForm] = &[FamilyForm {
    model_types: &["bailing_moe", "bailing_moe_v2", "bailing_moe_linear"],
    mlx_names: &[(".mlp.gate.gate_proj.", ".mlp.gate.")],
    ..FamilyForm::USUAL
}];
