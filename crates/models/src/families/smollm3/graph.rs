//! Graphs of the models of this family.

use gguf_runtime::graphs::{Architecture, RopeLayers, Spec};

pub const GRAPHS: &[Architecture] = &[Architecture::decoder("smollm3", SMOLLM3)];

/// `no_rope_layer_interval` of SmolLM3 3B is 4.
const SMOLLM3: Spec = Spec { rope_layers: RopeLayers::AllButEveryNth(4), ..Spec::DECODER };
