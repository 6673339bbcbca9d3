//! MiniMax M2.
//!
//! Config keys: those of every text model, the length of the experts, the rotated dimensions.
//!
//! Transforms: experts become one tensor.
//!
//! Source: `MiniMaxM2Model` in `conversion/minimax.py`.

use crate::prelude::*;

/// The row.
pub const MINIMAX_M2: Arch = Arch {
    name: "minimax-m2",
    classes: &[Class::new("MiniMaxM2ForCausalLM")],
    example: "MiniMaxAI/MiniMax-M2",
    configs: &[MINIMAX_M2_CONFIG],
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

/// `MiniMaxM2Config` of transformers 5.23.
const MINIMAX_M2_CONFIG: ConfigClass = ConfigClass {
    model_type: "minimax_m2",
    default_theta: 5_000_000.0,
    fields: &[
        &[
            ("vocab_size", INT, Int(200_064)),
            ("hidden_size", INT, Int(3072)),
            ("intermediate_size", INT, Int(1536)),
            ("num_hidden_layers", INT, Int(62)),
            ("num_attention_heads", INT, Int(48)),
            ("num_key_value_heads", INT, Int(8)),
            ("head_dim", INT, Int(128)),
            ("max_position_embeddings", INT, Int(196_608)),
            ("rms_norm_eps", FLOAT, Float(1e-6)),
            ("bos_token_id", INT | NULL, Int(200_034)),
            ("eos_token_id", INT | NULL | INTS, Int(200_020)),
            ("attention_dropout", INT | FLOAT, Float(0.0)),
            ("num_experts_per_tok", INT, Int(8)),
            ("num_local_experts", INT, Int(256)),
            ("output_router_logits", BOOL, Bool(false)),
            ("router_aux_loss_coef", FLOAT, Float(0.001)),
            ("router_jitter_noise", FLOAT, Float(0.0)),
        ],
        DECODER_FIELDS,
    ],
    renamed: &[("num_experts", "num_local_experts")],
    ..BASE
};

/// Keys of every text model, the length of the experts, the rotated dimensions.
///
/// # Errors
///
/// [`ArchError::MissingKey`], [`ArchError::BadKey`].
pub fn keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    text_keys(hparams, keys)?;
    // `intermediate_size` is the length of one expert: no layer is dense.
    keys.needed("expert_feed_forward_length", hparams, &["intermediate_size"])?;
    // The reference needs the older key; transformers states a share of the head instead.
    let rotated = match hparams.get_u64("rotary_dim")? {
        Some(rotated) => rotated,
        None => hparams.rotated(hparams.head_dim()?, Some(1.0))?,
    };
    keys.set_derived("rope.dimension_count", "rotary_dim", rotated)
}
