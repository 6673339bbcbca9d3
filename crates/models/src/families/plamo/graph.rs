//! Graphs of the models of this family.

use gguf_runtime::graphs::{Architecture, SlidingBase, SlidingWindow, Spec};

pub const GRAPHS: &[Architecture] = &[
    Architecture::decoder("plamo", Spec::NEOX),
    Architecture::decoder("plamo2", Spec::NEOX),
    Architecture::decoder(
        "plamo3",
        Spec {
            sliding: Some(SlidingWindow {
                period: 8,
                base: SlidingBase::StatedOrUsual,
                same_scaling: false,
                ..SlidingWindow::EVERY_FOURTH_FULL
            }),
            ..Spec::NEOX
        },
    ),
];
