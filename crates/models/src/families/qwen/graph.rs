//! Graphs of the models of this family.

use gguf_runtime::graphs::{Activation, Architecture, ClassifierSpec, Spec};

pub const GRAPHS: &[Architecture] = &[
    Architecture::decoder("qwen", Spec::NEOX),
    Architecture::decoder("qwen2", Spec::NEOX),
    Architecture::decoder("qwen2moe", Spec { norm_topk_prob: false, ..Spec::NEOX }),
    // The loader does not read the epsilon.
    Architecture::decoder("qwen2vl", Spec { epsilon: Some(0.0), ..Spec::NEOX }),
    Architecture::decoder("qwen3", QWEN3),
    Architecture::decoder("qwen35", QWEN35),
    Architecture::decoder("qwen35moe", QWEN35),
    Architecture::decoder("qwen3moe", Spec::NEOX),
    Architecture::decoder("qwen3next", Spec { mlp_norm: "post_attention_norm", ..Spec::NEOX }),
    Architecture::decoder("qwen3vl", QWEN3),
    Architecture::decoder("qwen3vlmoe", Spec { interleaved_sections: true, ..Spec::NEOX }),
    Architecture::decoder(
        "qwen4exp",
        Spec { delta_gate: Activation::Sigmoid, interleaved_sections: true, ..Spec::NEOX },
    ),
];

/// Sections are those of Qwen 3 VL; text-only models lack them.
const QWEN3: Spec = Spec {
    classifier: ClassifierSpec { is_softmax: true, ..ClassifierSpec::USUAL },
    interleaved_sections: true,
    ..Spec::NEOX
};

/// Differences of `qwen35` and `qwen35moe` from other decoders.
const QWEN35: Spec = Spec { mlp_norm: "post_attention_norm", interleaved_sections: true, ..Spec::NEOX };
