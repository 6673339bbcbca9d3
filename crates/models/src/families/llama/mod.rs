//! Llama, by Meta, and the many models with its classes; pictures in Llama 4.

pub mod convert;
pub mod projector;

use crate::family::Family;

/// Its architectures and projectors.
pub const FAMILY: Family = Family {
    arches: &[
        convert::llama::LLAMA,
        convert::llama4::LLAMA4,
        convert::llama_embed::LLAMA_EMBED,
        convert::native::META_PARAMS,
        convert::native::MISTRAL_PARAMS,
        convert::native::MISTRAL3_PARAMS,
        convert::native::MIXTRAL_PARAMS,
    ],
    projectors: &[projector::LLAMA4],
};
