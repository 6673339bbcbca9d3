//! Graphs of the models of this family.

use gguf_runtime::graphs::{Architecture, Gating, IndexerSpec, Spec};

pub const GRAPHS: &[Architecture] = &[
    Architecture::decoder("hunyuan-dense", HUNYUAN),
    Architecture::decoder("hunyuan-moe", HUNYUAN),
    Architecture::decoder("hunyuan_vl", HUNYUAN),
    Architecture::decoder("hy_v3", Spec { norm_topk_prob: false, gating: Gating::Sigmoid, ..Spec::NEOX }),
    Architecture::decoder(
        "hy_v4",
        Spec {
            norm_topk_prob: false,
            bounds_argument: true,
            indexer: IndexerSpec { rope: None, rotates_end: true, usual_epsilon: true },
            // The halves of `HYV4Attention` in transformers 5.24; the reference rotates neighbours.
            ..Spec::NEOX
        },
    ),
];

/// Differences of `hunyuan-dense` and `hunyuan-moe` and `hunyuan_vl` from other decoders.
const HUNYUAN: Spec = Spec { qk_norm_after_rope: true, ..Spec::NEOX };
