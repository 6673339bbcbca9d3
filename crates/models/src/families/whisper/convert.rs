//! Whisper and Distil-Whisper. The reference has no converter for it, and llama.cpp does not run it. Keys are
//! those of the GGUF specification, with 32-bit integers for counts as everywhere in gguf-py; tensor names
//! are those of the specification with the prefixes `enc.` and `dec.`, as gguf-py has them for T5.
//!
//! Config keys: those of the specification, separately for encoder and decoder, which may have different
//! numbers of layers. Lengths of feed-forward parts follow from the tensors.
//!
//! Transforms: convolutions and position embeddings stay in single precision, like the reference's
//! other models. The output is the embedding, and left out if a file repeats it.
//!
//! Source: the section on Whisper and the standardized tensor names of the GGUF specification;
//! `MODEL_TENSORS[T5]` in `gguf-py/gguf/constants.py`.

use crate::prelude::*;

pub const WHISPER: Arch = Arch {
    name: "whisper",
    classes: &[Class::new("WhisperForConditionalGeneration")],
    example: "openai/whisper-tiny",
    configs: &[ConfigClass::new("whisper")],
    needs: &["d_model", "encoder_layers", "decoder_layers", "vocab_size"],
    tensors: &[ENDS, ENCODER, DECODER_LAYERS],
    decoder_layers: Some("decoder_layers"),
    prepare: |hparams, _| {
        // `block_count` is not written; layers of the table are counted by this key.
        let n_layers = hparams.need_u64(&["encoder_layers"])?;
        Ok(hparams.with("num_hidden_layers", n_layers.into()))
    },
    keys,
    ..DECODER
};

const ENDS: &[TensorRule] = &[
    TensorRule::copy(&["model.encoder.conv1"], "enc.conv1d.1"),
    TensorRule::copy(&["model.encoder.conv2"], "enc.conv1d.2"),
    TensorRule::copy(&["model.encoder.embed_positions"], "enc.pos_embd"),
    TensorRule::copy(&["model.encoder.layer_norm"], "enc.output_norm"),
    TensorRule::copy(&["model.decoder.embed_tokens"], "token_embd"),
    TensorRule::copy(&["model.decoder.embed_positions"], "dec.pos_embd"),
    TensorRule::copy(&["model.decoder.layer_norm"], "dec.output_norm"),
    // Tied in every release; some files contain it again.
    TensorRule::copy(&["proj_out"], "output").need(Need::Optional).unless_equal("token_embd"),
];

const ENCODER: &[TensorRule] = &[
    TensorRule::copy(&["model.encoder.layers.{bid}.self_attn_layer_norm"], "enc.blk.{bid}.attn_norm"),
    TensorRule::copy(&["model.encoder.layers.{bid}.self_attn.q_proj"], "enc.blk.{bid}.attn_q"),
    TensorRule::copy(&["model.encoder.layers.{bid}.self_attn.k_proj"], "enc.blk.{bid}.attn_k"),
    TensorRule::copy(&["model.encoder.layers.{bid}.self_attn.v_proj"], "enc.blk.{bid}.attn_v"),
    TensorRule::copy(&["model.encoder.layers.{bid}.self_attn.out_proj"], "enc.blk.{bid}.attn_output"),
    TensorRule::copy(&["model.encoder.layers.{bid}.final_layer_norm"], "enc.blk.{bid}.ffn_norm"),
    TensorRule::copy(&["model.encoder.layers.{bid}.fc1"], "enc.blk.{bid}.ffn_up"),
    TensorRule::copy(&["model.encoder.layers.{bid}.fc2"], "enc.blk.{bid}.ffn_down"),
];

const DECODER_LAYERS: &[TensorRule] = &[
    TensorRule::copy(&["model.decoder.layers.{bid}.self_attn_layer_norm"], "dec.blk.{bid}.attn_norm"),
    TensorRule::copy(&["model.decoder.layers.{bid}.self_attn.q_proj"], "dec.blk.{bid}.attn_q"),
    TensorRule::copy(&["model.decoder.layers.{bid}.self_attn.k_proj"], "dec.blk.{bid}.attn_k"),
    TensorRule::copy(&["model.decoder.layers.{bid}.self_attn.v_proj"], "dec.blk.{bid}.attn_v"),
    TensorRule::copy(&["model.decoder.layers.{bid}.self_attn.out_proj"], "dec.blk.{bid}.attn_output"),
    TensorRule::copy(
        &["model.decoder.layers.{bid}.encoder_attn_layer_norm"],
        "dec.blk.{bid}.cross_attn_norm",
    ),
    TensorRule::copy(&["model.decoder.layers.{bid}.encoder_attn.q_proj"], "dec.blk.{bid}.cross_attn_q"),
    TensorRule::copy(&["model.decoder.layers.{bid}.encoder_attn.k_proj"], "dec.blk.{bid}.cross_attn_k"),
    TensorRule::copy(&["model.decoder.layers.{bid}.encoder_attn.v_proj"], "dec.blk.{bid}.cross_attn_v"),
    TensorRule::copy(
        &["model.decoder.layers.{bid}.encoder_attn.out_proj"],
        "dec.blk.{bid}.cross_attn_output",
    ),
    TensorRule::copy(&["model.decoder.layers.{bid}.final_layer_norm"], "dec.blk.{bid}.ffn_norm"),
    TensorRule::copy(&["model.decoder.layers.{bid}.fc1"], "dec.blk.{bid}.ffn_up"),
    TensorRule::copy(&["model.decoder.layers.{bid}.fc2"], "dec.blk.{bid}.ffn_down"),
];

fn keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    // The order of the section on Whisper in the specification: encoder, then decoder.
    keys.needed("encoder.context_length", hparams, &["max_source_positions"])?;
    keys.needed("encoder.embedding_length", hparams, &["d_model"])?;
    keys.needed("encoder.block_count", hparams, &["encoder_layers"])?;
    keys.needed("encoder.mels_count", hparams, &["num_mel_bins"])?;
    keys.needed("encoder.attention.head_count", hparams, &["encoder_attention_heads"])?;
    keys.needed("decoder.context_length", hparams, &["max_target_positions"])?;
    keys.needed("decoder.embedding_length", hparams, &["d_model"])?;
    keys.needed("decoder.block_count", hparams, &["decoder_layers"])?;
    keys.needed("decoder.attention.head_count", hparams, &["decoder_attention_heads"])?;
    keys.file_type_here();
    Ok(())
}
