//! Phi 3.5, mixture of experts.
//!
//! Config keys: those of Phi 3, the experts.
//!
//! Transforms: experts become one tensor. Factors of `longrope` scaling like in Phi 3.
//!
//! Source: `PhiMoeModel` in `conversion/phi.py`.

use crate::families::phi::convert::phi3;
use crate::prelude::*;

pub const PHIMOE: Arch = Arch {
    name: "phimoe",
    // The second is how transformers spells it, which the reference does not know.
    classes: &[Class::new("PhiMoEForCausalLM"), Class::new("PhimoeForCausalLM")],
    example: "microsoft/Phi-3.5-MoE-instruct",
    configs: &[ConfigClass::new("phimoe")],
    // Q, K and V are apart here, unlike in the dense Phi 3, and the norms have biases.
    tensors: &[rules::DECODER_ENDS, rules::PRE_NORMS, rules::ATTENTION, rules::MIXTRAL_EXPERTS],
    keys,
    computed: phi3::computed,
    vocab: phi3::ROUTE,
    caveats: |_| {
        vec![
            "llama.cpp computes RMS norms for layer norms, and weights of experts that sum to one: results will \
                differ from transformers"
                .into(),
        ]
    },
    ..DECODER
};

fn keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    // `PhiMoeModel` is a `Phi3MiniModel` in the reference and calls its keys first.
    phi3::keys(hparams, keys)?;
    keys.needed("expert_used_count", hparams, &["num_experts_per_tok", "num_experts_per_token"])?;
    keys.needed("expert_count", hparams, &["num_local_experts", "num_experts"])
}
