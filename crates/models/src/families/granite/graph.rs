//! Graphs of the models of this family.

use gguf_runtime::graphs::{Architecture, LogitScale, RopeLayers, SlidingWindow, Spec};

pub const GRAPHS: &[Architecture] = &[
    Architecture::decoder("granite", GRANITE),
    Architecture::decoder("granite_swa", Spec { sliding: Some(SlidingWindow::EVERY_FOURTH_FULL), ..GRANITE }),
    Architecture::decoder("granitehybrid", GRANITE),
    Architecture::decoder("granitemoe", GRANITE),
    Architecture::decoder("graniteswitch", GRANITE),
];

/// Granite 4 has models without positions.
const GRANITE: Spec =
    Spec { logit_scale: LogitScale::Divide, rope_layers: RopeLayers::Stated, ..Spec::DECODER };
