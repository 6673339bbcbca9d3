//! Talkie.
//!
//! Config keys: those of every text model; the epsilon of the norms, which have no weights, is that of f32. The
//! scale of the logits is a tensor of the checkpoint.
//!
//! Transforms: the checkpoint rotates in the other direction, so the second half of each head of Q and K changes
//! its sign. The gain of each head becomes a matrix with rows of one element. Gains of projections keep their
//! values under the name of a scale.
//!
//! Source: `TalkieModel` in `conversion/talkie.py`.

use crate::prelude::*;

pub const TALKIE: Arch = Arch {
    name: "talkie",
    classes: &[Class::new("TalkieForCausalLM")],
    example: "lewtun/talkie-1930-13b-it-hf",
    needs: &[
        "hidden_size",
        "intermediate_size",
        "num_hidden_layers",
        "num_attention_heads",
        "head_dim",
        "vocab_size",
    ],
    tensors: &[ENDS, LAYERS],
    numbers: &[NumberRule::new("lm_head_gain.w_g", "talkie.logit_scale")],
    keys: |hparams, keys| {
        text_keys(hparams, keys)?;
        // `F.rms_norm` takes this epsilon if it is given none.
        keys.set_prefixed("attention.layer_norm_rms_epsilon", Value::F32(f32::EPSILON));
        Ok(())
    },
    ..DECODER
};

const ENDS: &[TensorRule] = &[
    TensorRule::copy(&["model.embed"], "token_embd"),
    TensorRule::copy(&["lm_head"], "output").bare(".weight"),
];

const LAYERS: &[TensorRule] = &[
    TensorRule::copy(&["model.blocks.{bid}.attn.attn_query"], "blk.{bid}.attn_q").element_of(other_direction),
    TensorRule::copy(&["model.blocks.{bid}.attn.attn_key"], "blk.{bid}.attn_k").element_of(other_direction),
    TensorRule::copy(&["model.blocks.{bid}.attn.attn_value"], "blk.{bid}.attn_v"),
    TensorRule::copy(&["model.blocks.{bid}.attn.attn_resid"], "blk.{bid}.attn_output"),
    TensorRule::copy(&["model.blocks.{bid}.attn.head_gain.head_g"], "blk.{bid}.attn_q_norm")
        .bare(".weight")
        .shape(rules::COLUMN),
    TensorRule::copy(&["model.blocks.{bid}.attn_gain.a_g"], "blk.{bid}.attn_output").bare(".scale"),
    TensorRule::copy(&["model.blocks.{bid}.mlp.mlp_gate"], "blk.{bid}.ffn_gate"),
    TensorRule::copy(&["model.blocks.{bid}.mlp.mlp_linear"], "blk.{bid}.ffn_up"),
    TensorRule::copy(&["model.blocks.{bid}.mlp.mlp_resid"], "blk.{bid}.ffn_down"),
    TensorRule::copy(&["model.blocks.{bid}.mlp_gain.a_g"], "blk.{bid}.ffn_down").bare(".scale"),
    TensorRule::copy(&["model.blocks.{bid}.embed_skip.a_g"], "blk.{bid}.layer_output_scale").bare(".weight"),
];

/// A rotation by the negative angle is the rotation with the second half of each head negated before and after.
fn other_direction(hparams: &Hparams, _: u64, _: &str) -> Result<ElementMap, ArchError> {
    Ok(ElementMap::NegateHalf { head: hparams.need_u64(&["head_dim"])? })
}
