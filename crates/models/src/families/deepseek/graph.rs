//! Graphs of the models of this family.

use crate::parts::gating;
use gguf_runtime::graphs::{Architecture, Gating, IndexerSpec, RopeKind, SlidingWindow, Spec, YarnMscale};

pub const GRAPHS: &[Architecture] = &[
    Architecture::decoder("deepseek", DEEPSEEK),
    Architecture::decoder("deepseek2", Spec { yarn_mscale: YarnMscale::Scores, ..DEEPSEEK })
        .sized(gating::sigmoid_by_size),
    Architecture::decoder("deepseek2-ocr", DEEPSEEK2_OCR),
    Architecture::decoder(
        "deepseek4",
        Spec {
            bounds_argument: true,
            reads_yarn_range: true,
            sliding: Some(SlidingWindow { period: 0, ..SlidingWindow::EVERY_FOURTH_FULL }),
            ..Spec::DECODER
        },
    ),
    Architecture::decoder(
        "deepseek32",
        Spec {
            gating: Gating::Sigmoid,
            yarn_mscale: YarnMscale::Scores,
            indexer: IndexerSpec { rope: Some(RopeKind::Neox), ..Spec::DECODER.indexer },
            ..DEEPSEEK
        },
    ),
];

/// Differences of `deepseek` from other decoders.
const DEEPSEEK: Spec = Spec { norm_topk_prob: false, ..Spec::DECODER };

/// DeepSeek 2 with plain attention.
const DEEPSEEK2_OCR: Spec = Spec { zero_rotates_all: true, norm_topk_prob: false, ..Spec::NEOX };
