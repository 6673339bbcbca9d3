//! Graphs of the models of this family.

use gguf_runtime::graphs::{Alibi, Architecture, Size, Spec};

pub const GRAPHS: &[Architecture] = &[Architecture::decoder("baichuan", Spec::DECODER).sized(baichuan)];

/// 40 layers are Baichuan 13B, with ALiBi; the 7B, of 32, has RoPE.
fn baichuan(size: Size, spec: Spec) -> Spec {
    if size.n_layer == 40 { Spec { rope: None, alibi: Alibi::Always(8.0), ..spec } } else { spec }
}
