//! Towers of the models of this family that see images.

pub mod qwen2vl;
mod qwen3vl;

use gguf_runtime::graphs::vision::ProjectorKind;

pub const TOWERS: &[ProjectorKind] = &[
    ProjectorKind { name: "qwen2vl_merger", open: qwen2vl::open_2 },
    ProjectorKind { name: "qwen2.5vl_merger", open: qwen2vl::open_25 },
    ProjectorKind { name: "qwen3vl_merger", open: qwen3vl::open },
];
