//! NeoBERT: an encoder with rotary positions and gates, with or without a classifier.
//!
//! Config keys: those of BERT; the feed-forward length is two thirds of what the config states; the first token pools.
//!
//! Transforms: the head that guesses words is left out.
//!
//! Source: `NeoBert` in `conversion/bert.py`.

use crate::families::bert::convert::bert;
use crate::prelude::*;

pub const NEO_BERT: Arch = Arch {
    name: "neo-bert",
    classes: &[
        Class::new("NeoBERT"),
        Class::new("NeoBERTLMHead"),
        Class::new("NeoBERTForSequenceClassification"),
    ],
    example: "chandar-lab/NeoBERT",
    configs: &[],
    tensors: &[EMBEDDINGS, LAYERS, CLASSIFIER],
    keys,
    export_name: |_, class, name| {
        let is_inner =
            class.name != "NeoBERT" && !name.starts_with("dense.") && !name.starts_with("classifier.");
        let name = name.replace("classifier.out_proj.", "classifier.");
        Some(if is_inner { format!("model.{name}") } else { name })
    },
    rename: |hparams, name| bert::rename(hparams, name, "model."),
    prepare: |hparams, tensors| Ok(bert::with_classes(hparams, tensors)),
    drops: |_, name| name.starts_with("decoder.").then_some("part of what the model was trained with"),
    vocab: bert::ROUTE,
    from_file: |file, config| {
        // 3/2 of the length, rounded up: two thirds, rounded down, are the length again.
        let length = file.count("feed_forward_length").map(|length| length.saturating_mul(3).div_ceil(2));
        set(config, "intermediate_size", length);
        let epsilon = file.number("attention.layer_norm_rms_epsilon");
        config.extend(epsilon.map(|epsilon| ("norm_eps".to_owned(), epsilon.into())));
    },
    ..DECODER
};

const EMBEDDINGS: &[TensorRule] =
    &[TensorRule::copy(&["encoder"], "token_embd"), TensorRule::copy(&["layer_norm"], "enc.output_norm")];

const LAYERS: &[TensorRule] = &[
    TensorRule::copy(&["transformer_encoder.{bid}.attention_norm"], "blk.{bid}.attn_norm"),
    TensorRule::copy(&["transformer_encoder.{bid}.qkv"], "blk.{bid}.attn_qkv"),
    TensorRule::copy(&["transformer_encoder.{bid}.wo"], "blk.{bid}.attn_output"),
    TensorRule::copy(&["transformer_encoder.{bid}.ffn_norm"], "blk.{bid}.ffn_norm"),
    // (2 f, hidden): both matrices of the gated part in one, under the name of up
    TensorRule::copy(&["transformer_encoder.{bid}.ffn.w12"], "blk.{bid}.ffn_up"),
    TensorRule::copy(&["transformer_encoder.{bid}.ffn.w3"], "blk.{bid}.ffn_down"),
];

const CLASSIFIER: &[TensorRule] = &[
    TensorRule::copy(&["dense", "classifier"], "cls").need(Need::Optional),
    TensorRule::copy(&["classifier.out_proj"], "cls.output").need(Need::Optional),
];

fn keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    bert::keys(hparams, keys)?;
    // f = 2/3 of what is stated: three matrices of f then weigh what two of the stated length would.
    let length = hparams.need_u64(&["intermediate_size"])?.saturating_mul(2) / 3;
    keys.set_derived("feed_forward_length", "intermediate_size", length)?;
    keys.set_prefixed("rope.freq_base", Value::F32(10_000.0));
    keys.unscaled_by_default();
    let epsilon = hparams.get_f64("norm_eps")?.unwrap_or(1e-6) as f32;
    keys.set_prefixed("attention.layer_norm_rms_epsilon", Value::F32(epsilon));
    // The vector of the first token is the text's.
    keys.set_prefixed("pooling_type", Value::U32(2));
    Ok(())
}
