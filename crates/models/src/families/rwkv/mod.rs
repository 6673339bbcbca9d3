//! RWKV: recurrent models without attention.

pub mod convert;
pub mod graph;

use crate::family::Family;

/// Its architectures and projectors.
pub const FAMILY: Family = Family {
    arches: &[
        convert::rwkv::RWKV,
        convert::rwkv6::RWKV6,
        convert::rwkv6::RWKV6QWEN2,
        convert::rwkv7::ARWKV7,
        convert::rwkv7::RWKV7,
    ],
    graphs: graph::GRAPHS,
    ..Family::EMPTY
};
