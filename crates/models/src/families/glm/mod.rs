//! GLM, by Z.ai: text, and pictures and sound in GLM-V and GLM-ASR.

pub mod convert;
pub mod projector;

use crate::family::Family;

/// Its architectures and projectors.
pub const FAMILY: Family = Family {
    arches: &[
        convert::chatglm::CHATGLM,
        convert::glm4::GLM4,
        convert::glm4_moe_lite::GLM4_MOE_LITE,
        convert::glm4moe::GLM4MOE,
        convert::glm5_next::GLM5_NEXT,
        convert::glm_dsa::GLM_DSA,
    ],
    projectors: &[projector::glm4v::GLM4V, projector::glm4v::GLM5V, projector::glmasr::GLMASR],
};
