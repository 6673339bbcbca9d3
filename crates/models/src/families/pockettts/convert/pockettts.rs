//! Text model of Pocket TTS. It sees text and continuous latents, and its hidden states, not its logits, are the output.
//!
//! Config keys: those of every text model. Checkpoints have no config; see `config.rs`.
//!
//! Transforms: queries, keys and values are one matrix in thirds. Two learned inputs become rows of the embedding: the start of
//! a voice, in models that have it, and the start of sound, which is a latent and therefore multiplied by the matrix that brings
//! latents to the width of the model.
//!
//! Source: `PocketTTSModel` in `conversion/pockettts.py`.

use gguf_layout::projector::parts::third;

use super::config::WITH_VOICE_START;
use crate::prelude::*;

pub const POCKETTTS: Arch = Arch {
    name: "pockettts",
    classes: &[Class::new("PocketTTSModel")],
    example: "kyutai/pocket-tts",
    // The config is complete.
    raw_config: true,
    tensors: &[ENDS, LAYERS],
    drops: |_, name| {
        let is_other = name.starts_with("mimi.")
            || ["flow_net.", "out_eos.", "emb_mean", "emb_std", "speaker_proj_weight"]
                .iter()
                .any(|start| name.strip_prefix("flow_lm.").is_some_and(|rest| rest.starts_with(start)));
        is_other.then_some("part of an image, sound or speech model")
    },
    vocab: Route::new("pockettts", |writer| {
        let with_voice_start = writer.input.config.get(WITH_VOICE_START) == Some(&Json::Bool(true));
        // The first is the last row of the embedding as the checkpoint has it.
        let specials = ["<|pad|>", "<|bos_before_voice|>", "<|audio_bos|>"];
        if with_voice_start {
            writer.unigram_with_specials(&specials)
        } else {
            writer.unigram_with_specials(&[specials[0], specials[2]])
        }
    }),
    harmless: &["audio_config"],
    export: Export::NotExportable("a row of its embedding is a product of two tensors"),
    ..DECODER
};

const ENDS: &[TensorRule] = &[
    TensorRule::copy(
        &[
            "flow_lm.input_linear.weight",
            "flow_lm.bos_emb",
            "flow_lm.conditioner.embed.weight",
            "flow_lm.bos_before_voice",
        ],
        "token_embd",
    )
    .bare(".weight")
    .rows(RowRule::Extend(|hparams| if hparams.is_true(WITH_VOICE_START) { 4 } else { 3 })),
    TensorRule::copy(&["flow_lm.out_norm"], "output_norm"),
];

const LAYERS: &[TensorRule] = &[
    TensorRule::copy(&["flow_lm.transformer.layers.{bid}.norm1"], "blk.{bid}.attn_norm"),
    TensorRule::part(&[IN_PROJ], "blk.{bid}.attn_q", third::<0>),
    TensorRule::part(&[IN_PROJ], "blk.{bid}.attn_k", third::<1>),
    TensorRule::part(&[IN_PROJ], "blk.{bid}.attn_v", third::<2>),
    TensorRule::copy(&["flow_lm.transformer.layers.{bid}.self_attn.out_proj"], "blk.{bid}.attn_output"),
    TensorRule::copy(&["flow_lm.transformer.layers.{bid}.norm2"], "blk.{bid}.ffn_norm"),
    TensorRule::copy(&["flow_lm.transformer.layers.{bid}.linear1"], "blk.{bid}.ffn_up"),
    TensorRule::copy(&["flow_lm.transformer.layers.{bid}.linear2"], "blk.{bid}.ffn_down"),
];

const IN_PROJ: &str = "flow_lm.transformer.layers.{bid}.self_attn.in_proj";
