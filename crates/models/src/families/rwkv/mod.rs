//! RWKV: recurrent models without attention.

pub mod convert;
pub mod graph;

use crate::family::Family;
use gguf_checkpoint::FamilyForm;

pub const FAMILY: Family = Family {
    arches: &[
        convert::rwkv::RWKV,
        convert::rwkv6::RWKV6,
        convert::rwkv6::RWKV6QWEN2,
        convert::rwkv7::ARWKV7,
        convert::rwkv7::RWKV7,
    ],
    graphs: graph::GRAPHS,
    forms: FORMS,
    ..Family::EMPTY
};

/// Files of mlx-lm 0.32.2.
const FORMS: &[FamilyForm] = &[FamilyForm::refused(&["rwkv7"], None, "its vectors have a different shape")];
