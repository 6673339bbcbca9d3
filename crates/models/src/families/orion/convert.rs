//! Orion 14B.
//!
//! Config keys: those of every text model in their own order, without RoPE keys; the norm's epsilon is called
//! `rms_norm_eps` but belongs to a layer norm.
//!
//! Source: `OrionModel` in `conversion/orion.py`.

use crate::prelude::*;

pub const ORION: Arch = Arch {
    name: "orion",
    classes: &[Class::new("OrionForCausalLM")],
    example: "OrionStarAI/Orion-14B-Base",
    tensors: &[rules::DECODER_ENDS, rules::PRE_NORMS, rules::ATTENTION, rules::GATED_MLP],
    keys,
    vocab: Route::SENTENCE_PIECE,
    ..DECODER
};

fn keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    // First of all keys in `OrionModel.set_gguf_parameters`.
    keys.file_type_here();
    keys.set_prefixed("tensor_data_layout", "Meta AI original pth".into());
    let length = ["max_sequence_length", "max_position_embeddings", "model_max_length"];
    keys.needed("context_length", hparams, &length)?;
    keys.needed("embedding_length", hparams, &["hidden_size"])?;
    keys.set_derived("block_count", "num_hidden_layers", hparams.n_layers()?)?;
    keys.needed("feed_forward_length", hparams, &["intermediate_size"])?;
    keys.needed("attention.head_count", hparams, &["num_attention_heads"])?;
    keys.needed("attention.head_count_kv", hparams, &["num_key_value_heads", "num_attention_heads"])?;
    keys.needed_number("attention.layer_norm_epsilon", hparams, &["rms_norm_eps"])
}
