//! Mistral models with their own classes. Older models use classes of the llama family.

pub mod convert;

use crate::family::Family;

/// Its architectures and projectors.
pub const FAMILY: Family = Family {
    arches: &[
        convert::mistral3::MISTRAL3,
        convert::mistral4::MISTRAL4,
        convert::mistral_large::MISTRAL_MOE_PARAMS,
    ],
    ..Family::EMPTY
};
