//! Graphs of the models of this family.

use gguf_runtime::graphs::{Architecture, Spec};

pub const GRAPHS: &[Architecture] = &[Architecture::decoder(
    "chameleon",
    // Tokens 4 to 8195 are parts of pictures, which the model is not asked to make.
    Spec { qk_layer_norm: Some(1e-5), never_predicted: Some((4, 8196)), ..Spec::DECODER },
)];
