//! Graphs of the models of this family.

use gguf_runtime::graphs::{Architecture, NormKind, Spec};

pub const GRAPHS: &[Architecture] = &[
    Architecture::decoder("arwkv7", Spec::DECODER),
    Architecture::decoder("rwkv", RWKV4),
    Architecture::decoder("rwkv6", RWKV),
    Architecture::decoder("rwkv6qwen2", Spec::DECODER),
    Architecture::decoder("rwkv7", RWKV),
];

/// Differences of `rwkv6` and `rwkv7` from other decoders.
const RWKV: Spec = Spec { norm: NormKind::Layer, ..Spec::DECODER };

/// Its checkpoints contain `time_mix_k` and such as factors of the token itself; RWKV 6 turned that round.
const RWKV4: Spec = Spec { lerp_is_of_current: true, ..RWKV };
