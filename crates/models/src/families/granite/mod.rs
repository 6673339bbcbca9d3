//! Granite, by IBM.

pub mod convert;
pub mod graph;
pub mod projector;

use crate::family::Family;
use gguf_checkpoint::FamilyForm;
use gguf_layout::{CountedLayers, Quantization, Wrapper};

pub const FAMILY: Family = Family {
    arches: &[
        convert::granite::GRANITE,
        convert::granite_swa::GRANITE_SWA,
        convert::granite_swa::GRANITEMOE_SWA,
        convert::granite_switch::GRANITE_SWITCH,
        convert::granitehybrid::GRANITE4,
        convert::granitehybrid::GRANITE4_MOE,
        convert::granitehybrid::GRANITEHYBRID,
        convert::granitemoe::GRANITEMOE,
    ],
    projectors: &[projector::speech::GRANITE_SPEECH, projector::vision::GRANITE4_VISION],
    quantization: &[
        // An additional layer routes between adapters.
        Quantization { architecture: "graniteswitch", layers: CountedLayers::OneMore, ..Quantization::USUAL },
    ],
    wrappers: &[
        Wrapper { model_type: "granite_speech", usual_text: "granite" },
        Wrapper { model_type: "granite_speech_plus", usual_text: "granite" },
    ],
    graphs: graph::GRAPHS,
    forms: FORMS,
    departures: &[
        convert::granitehybrid::ROTATES,
        convert::granitehybrid::LENGTH,
        convert::granite_swa::PATTERN,
    ],
    ..Family::EMPTY
};

/// Files of mlx-lm 0.32.2.
const FORMS: &[FamilyForm] = &[FamilyForm::refused(
    &["granitemoe", "granitemoehybrid"],
    Some("gate_proj."),
    "its gate and up are split",
)];
