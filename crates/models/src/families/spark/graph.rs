//! Graphs of the models of this family.

use gguf_runtime::graphs::{Activation, Architecture, SlidingWindow, Spec};

pub const GRAPHS: &[Architecture] = &[Architecture::decoder(
    "spark2_5",
    Spec { activation: Activation::GeluErf, sliding: Some(SlidingWindow::EVERY_FOURTH_FULL), ..Spec::NEOX },
)];
