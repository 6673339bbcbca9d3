//! Towers of the models of this family that see images.

mod gemma3;
mod gemma4;
mod gemma4_unified;

use gguf_runtime::graphs::vision::ProjectorKind;

pub const TOWERS: &[ProjectorKind] = &[
    ProjectorKind { name: "gemma3", open: gemma3::open },
    ProjectorKind { name: "gemma4v", open: gemma4::open },
    ProjectorKind { name: "gemma4uv", open: gemma4_unified::open },
];
