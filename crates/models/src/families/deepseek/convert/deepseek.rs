//! DeepSeek MoE 16B, the first one.
//!
//! Config keys: those of every text model, leading dense layers, lengths and number of experts.
//!
//! Transforms: those of llama; experts become one tensor.
//!
//! Source: `DeepseekModel` in `conversion/deepseek.py`.

use crate::parts::latent::{has_shared, is_mixture};
use crate::prelude::*;

pub const DEEPSEEK: Arch = Arch {
    name: "deepseek",
    classes: &[Class::new("DeepseekForCausalLM")],
    example: "deepseek-ai/deepseek-moe-16b-chat",
    tensors: &[
        rules::DECODER_ENDS,
        rules::PRE_NORMS,
        rules::ATTENTION_PERMUTED,
        // The first layer is dense (`first_k_dense_replace` 1), the others have experts.
        &rules::gated_mlp(Need::If(|hparams, bid| !is_mixture(hparams, bid))),
        &rules::qwen_experts(Need::If(is_mixture)),
        &rules::shared_experts(Need::If(has_shared)),
    ],
    keys,
    vocab: Route::SENTENCE_PIECE_OR_GPT2,
    built_in: &[KEEPS_EXPERT_WEIGHTS],
    ..DECODER
};

fn keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    text_keys(hparams, keys)?;
    // `head_dim` if the config has it, else width / heads.
    keys.set_derived("rope.dimension_count", "head_dim", hparams.head_dim()?)?;
    keys.unscaled_by_default();
    keys.needed("leading_dense_block_count", hparams, &["first_k_dense_replace"])?;
    keys.vocab_size(hparams)?;
    keys.needed("expert_feed_forward_length", hparams, &["moe_intermediate_size"])?;
    // The first DeepSeek MoE does not scale; the key is needed by the graph that it shares.
    keys.set_prefixed("expert_weights_scale", Value::F32(1.0));
    keys.needed("expert_count", hparams, &["n_routed_experts"])?;
    keys.needed("expert_shared_count", hparams, &["n_shared_experts"])
}
