//! Graphs of the models of this family.

use gguf_runtime::graphs::{Architecture, SlidingWindow, Spec};

/// Graphs by the value of `general.architecture`.
pub const GRAPHS: &[Architecture] = &[Architecture::decoder(
    "mellum",
    Spec { sliding: Some(SlidingWindow::EVERY_FOURTH_FULL), ..Spec::NEOX },
)];
