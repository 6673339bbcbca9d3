//! Chameleon, the text part: images are tokens of its vocabulary.
//!
//! Config keys: those of every text model, and the position of norms.
//!
//! Transforms: those of llama. Norms of queries and keys have a vector per head, of which the reference uses
//! the first for all, in the order of permuted heads. The image tokenizer is left out.
//!
//! Source: `ChameleonModel` in `conversion/chameleon.py`.

use crate::prelude::*;

pub const CHAMELEON: Arch = Arch {
    name: "chameleon",
    classes: &[Class::new("ChameleonForConditionalGeneration"), Class::new("ChameleonForCausalLM")],
    example: "facebook/chameleon-7b",
    configs: &[ConfigClass::new("chameleon")],
    tensors: &[rules::DECODER_ENDS, rules::PRE_NORMS, rules::ATTENTION_PERMUTED, QK_NORMS, rules::GATED_MLP],
    keys: |hparams, keys| {
        text_keys(hparams, keys)?;
        // Norms stand after attention and feed-forward part instead of before them.
        keys.flag("swin_norm", hparams, "swin_norm");
        Ok(())
    },
    drops: |_, name| name.starts_with("model.vqmodel").then_some("part of an image, sound or speech model"),
    export: Export::NotExportable("norms of all heads except the first are not stored"),
    ..DECODER
};

const QK_NORMS: &[TensorRule] = &[
    // (heads, head_dim) becomes (head_dim), reordered as rows of permuted queries and keys are.
    TensorRule::part(&["model.layers.{bid}.self_attn.q_norm"], "blk.{bid}.attn_q_norm", first_head),
    TensorRule::part(&["model.layers.{bid}.self_attn.k_norm"], "blk.{bid}.attn_k_norm", first_head),
];

fn first_head(hparams: &Hparams, _: &Shape) -> Result<RowMap, ArchError> {
    Ok(RowMap::FirstHead { head: hparams.head_share()? })
}
