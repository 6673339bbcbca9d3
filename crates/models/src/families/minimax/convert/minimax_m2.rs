//! MiniMax M2.
//!
//! Config keys: those of every text model, the length of the experts, the rotated dimensions.
//!
//! Transforms: experts become one tensor.
//!
//! Source: `MiniMaxM2Model` in `conversion/minimax.py`.

use crate::prelude::*;

pub const MINIMAX_M2: Arch = Arch {
    name: "minimax-m2",
    classes: &[Class::new("MiniMaxM2ForCausalLM")],
    example: "MiniMaxAI/MiniMax-M2",
    configs: &[ConfigClass::new("minimax_m2")],
    tensors: &[
        rules::DECODER_ENDS,
        rules::PRE_NORMS,
        rules::ATTENTION,
        rules::QK_NORMS,
        rules::MIXTRAL_EXPERTS,
        &[CORRECTION],
    ],
    keys,
    ..DECODER
};

/// Bias that is added to the experts' scores before the choice.
pub const CORRECTION: TensorRule = TensorRule::copy(
    // Two spellings, by release.
    &[
        "model.layers.{bid}.block_sparse_moe.e_score_correction",
        "model.layers.{bid}.block_sparse_moe.gate.e_score_correction",
    ],
    "blk.{bid}.exp_probs_b",
)
.need(Need::Optional);

/// Keys of every text model, the length of the experts, the rotated dimensions.
pub fn keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    text_keys(hparams, keys)?;
    // `intermediate_size` is the length of one expert: no layer is dense.
    keys.needed("expert_feed_forward_length", hparams, &["intermediate_size"])?;
    keys.sigmoid_by_default();
    // The reference needs the older key; transformers states a share of the head instead.
    let rotated = match hparams.get_u64("rotary_dim")? {
        Some(rotated) => rotated,
        None => hparams.rotated(hparams.head_dim()?, Some(1.0))?,
    };
    keys.set_derived("rope.dimension_count", "rotary_dim", rotated)
}
