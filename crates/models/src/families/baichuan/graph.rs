//! Graphs of the models of this family.

use gguf_runtime::graphs::{Alibi, Architecture, Spec};

pub const GRAPHS: &[Architecture] = &[Architecture::decoder("baichuan", BAICHUAN)];

/// 40 layers are Baichuan 13B, with ALiBi; the 7B, of 32, has RoPE.
const BAICHUAN: Spec = Spec { alibi: Alibi::OfLayers(40, 8.0), ..Spec::DECODER };
