//! dots.llm1.
//!
//! Config keys: those of Qwen's mixtures, leading dense layers, the weights of the experts.
//!
//! Transforms: experts become one tensor.
//!
//! Source: `Dots1Model` in `conversion/dots1.py`.

use crate::families::qwen::convert::qwen2moe;
use crate::parts::latent::{CORRECTION, has_shared, is_mixture};
use crate::prelude::*;

pub const DOTS1: Arch = Arch {
    name: "dots1",
    classes: &[Class::new("Dots1ForCausalLM")],
    example: "rednote-hilab/dots.llm1.inst",
    configs: &[ConfigClass::new("dots1")],
    tensors: &[
        rules::DECODER_ENDS,
        rules::PRE_NORMS,
        rules::ATTENTION,
        rules::QK_NORMS,
        // As in DeepSeek: the first `first_k_dense_replace` layers are dense.
        &rules::gated_mlp(Need::If(|hparams, bid| !is_mixture(hparams, bid))),
        &rules::qwen_experts(Need::If(is_mixture)),
        // Other programs than transformers save the stacked tensors of its classes as they are.
        rules::STACKED_EXPERTS,
        &rules::shared_experts(Need::If(has_shared)),
        CORRECTION,
    ],
    keys,
    ..DECODER
};

fn keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    // `Dots1Model` is a `Qwen2MoeModel` in the reference and calls its keys first.
    qwen2moe::keys(hparams, keys)?;
    keys.needed("leading_dense_block_count", hparams, &["first_k_dense_replace"])?;
    keys.needed("expert_shared_count", hparams, &["n_shared_experts"])?;
    keys.needed_number("expert_weights_scale", hparams, &["routed_scaling_factor"])?;
    keys.sigmoid_by_default();
    keys.flag("expert_weights_norm", hparams, "norm_topk_prob");
    Ok(())
}
