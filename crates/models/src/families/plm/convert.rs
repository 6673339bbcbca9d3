//! PLM: latent attention without a rank of queries, and no gate in the feed-forward part.
//!
//! Config keys: those of every text model, rank and lengths of the latent attention.
//!
//! Source: `PLMModel` in `conversion/plm.py`.

use crate::prelude::*;

pub const PLM: Arch = Arch {
    name: "plm",
    classes: &[Class::new("PLMForCausalLM")],
    example: "PLM-Team/PLM-1.8B-Instruct",
    tensors: &[rules::DECODER_ENDS, rules::PRE_NORMS, ATTENTION, rules::UNGATED_MLP],
    keys,
    harmless: &["hidden_act=relu2"],
    from_file: |file, config| {
        config.remove("head_dim");
        file.latent_lengths(config);
    },
    ..DECODER
};

const ATTENTION: &[TensorRule] = &[
    // Queries have no rank: one matrix (heads * (nope + rope), in).
    TensorRule::copy(&["model.layers.{bid}.self_attn.q_proj"], "blk.{bid}.attn_q"),
    // (rank + rope, in): the latent vector, and the one rotated key that all heads share.
    TensorRule::copy(&["model.layers.{bid}.self_attn.kv_a_proj_with_mqa"], "blk.{bid}.attn_kv_a_mqa"),
    TensorRule::copy(&["model.layers.{bid}.self_attn.kv_a_layernorm"], "blk.{bid}.attn_kv_a_norm"),
    TensorRule::copy(&["model.layers.{bid}.self_attn.kv_b_proj"], "blk.{bid}.attn_kv_b"),
    TensorRule::copy(&["model.layers.{bid}.self_attn.o_proj"], "blk.{bid}.attn_output"),
];

fn keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    text_keys(hparams, keys)?;
    keys.vocab_size(hparams)?;
    keys.needed("attention.kv_lora_rank", hparams, &["kv_lora_rank"])?;
    keys.derived_from("rope.dimension_count", &["qk_rope_head_dim"]);
    let rotated = hparams.need_u64(&["qk_rope_head_dim"])?;
    // A key is a part without positions and a rotated one: nope + rope.
    let length = hparams.need_u64(&["qk_nope_head_dim"])?.saturating_add(rotated);
    keys.set_derived("attention.key_length", "qk_nope_head_dim", length)?;
    keys.needed("attention.value_length", hparams, &["v_head_dim"])?;
    keys.needed("rope.dimension_count", hparams, &["qk_rope_head_dim"])
}
