//! GLM, by Z.ai: text, and images and audio in GLM-V and GLM-ASR.

pub mod audio;
pub mod convert;
pub mod graph;
pub mod projector;
pub mod vision;

use crate::family::Family;
use gguf_layout::Quantization;

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
    quantization: &[Quantization {
        architecture: "glm5-next",
        kept: &[
            "hc_",
            "indexer.attn_q_b",
            "indexer.attn_k",
            "indexer.proj",
            "indexer_compressor_gate",
            "indexer_compressor_ape",
            "ssm_f_a.weight",
            "ssm_f_b.weight",
            "ssm_g_a.weight",
            "ssm_g_b.weight",
            "ssm_beta.weight",
            "attn_kv_a_mqa.weight",
            "attn_k_b.weight",
            "attn_v_b.weight",
        ],
        kept_because: "a small projection of this architecture",
        eight_bits_at_least: &["attn_q_a", "attn_q_b", "nextn.eh_proj"],
        ..Quantization::USUAL
    }],
    graphs: graph::GRAPHS,
    towers: vision::TOWERS,
    encoders: audio::ENCODERS,
    departures: &[convert::chatglm::LENGTH, convert::chatglm::EPSILON, convert::chatglm::ROTATED],
    ..Family::EMPTY
};
