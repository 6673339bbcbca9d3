//! GPT-J and GPT-NeoX, by EleutherAI.

pub mod convert;
pub mod graph;

use crate::family::Family;
use gguf_checkpoint::FamilyForm;

pub const FAMILY: Family = Family {
    arches: &[convert::gptj::GPTJ, convert::gptneox::GPTNEOX],
    graphs: graph::GRAPHS,
    forms: FORMS,
    ..Family::EMPTY
};

/// Files of mlx-lm 0.32.2.
const FORMS: &[FamilyForm] = &[
    FamilyForm { model_types: &["gptj"], mlx_names: &[("model.", "transformer.")], ..FamilyForm::USUAL },
    FamilyForm {
        model_types: &["gpt_neox"],
        mlx_names: &[
            ("model.h.", "gpt_neox.layers."),
            ("model.embed_out.", "embed_out."),
            ("model.", "gpt_neox."),
        ],
        ..FamilyForm::USUAL
    },
];
