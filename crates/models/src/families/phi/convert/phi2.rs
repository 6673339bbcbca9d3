//! Phi 1, 1.5 and 2.
//!
//! Config keys: those of every text model in their own order, without the RoPE base; the feed-forward length
//! is four times the width, whatever the config says.
//!
//! Source: `Phi2Model` in `conversion/phi.py`.

use crate::prelude::*;

pub const PHI2: Arch = Arch {
    name: "phi2",
    classes: &[Class::new("PhiForCausalLM")],
    example: "microsoft/phi-2",
    configs: &[ConfigClass::new("phi")],
    tensors: &[ENDS, LAYERS, ATTENTION],
    keys,
    ..DECODER
};

const ENDS: &[TensorRule] = &[
    TensorRule::copy(&["model.embed_tokens"], "token_embd"),
    TensorRule::copy(&["model.final_layernorm"], "output_norm"),
    TensorRule::copy(&["lm_head"], "output").need(Need::Optional),
];

const LAYERS: &[TensorRule] = &[
    TensorRule::copy(&["model.layers.{bid}.input_layernorm"], "blk.{bid}.attn_norm"),
    TensorRule::copy(&["model.layers.{bid}.mlp.fc1"], "blk.{bid}.ffn_up"),
    TensorRule::copy(&["model.layers.{bid}.mlp.fc2"], "blk.{bid}.ffn_down"),
];

const ATTENTION: &[TensorRule] = &[
    TensorRule::copy(&["model.layers.{bid}.self_attn.q_proj"], "blk.{bid}.attn_q"),
    TensorRule::copy(&["model.layers.{bid}.self_attn.k_proj"], "blk.{bid}.attn_k"),
    TensorRule::copy(&["model.layers.{bid}.self_attn.v_proj"], "blk.{bid}.attn_v"),
    TensorRule::copy(&["model.layers.{bid}.self_attn.dense"], "blk.{bid}.attn_output"),
];

fn keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    let width = hparams.need_u64(&["hidden_size"])?;
    keys.needed("context_length", hparams, &["n_positions", "max_position_embeddings"])?;
    keys.needed("embedding_length", hparams, &["hidden_size"])?;
    // `4 * n_embd` in the reference, whatever `intermediate_size` says.
    keys.set_derived("feed_forward_length", "hidden_size", width.saturating_mul(4))?;
    keys.set_derived("block_count", "num_hidden_layers", hparams.n_layers()?)?;
    keys.needed("attention.head_count", hparams, &["num_attention_heads"])?;
    keys.needed("attention.head_count_kv", hparams, &["num_attention_heads"])?;
    keys.needed_number("attention.layer_norm_epsilon", hparams, &["layer_norm_epsilon", "layer_norm_eps"])?;
    // `int(rot_pct * n_embd) // n_head`: truncated before the division.
    let rotated = hparams.rotated(width, None)? / hparams.n_heads()?.max(1);
    keys.set_derived("rope.dimension_count", "hidden_size", rotated)?;
    keys.file_type_here();
    // Written here, after the file type; the tokenizer keeps its place.
    keys.set(token_keys::ADD_BOS, Value::Bool(false));
    Ok(())
}
