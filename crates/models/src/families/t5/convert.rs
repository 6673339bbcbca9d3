//! T5, Flan-T5, mT5 and umT5, and the encoder of T5 alone.
//!
//! Config keys: widths under their own names, the context (512 by default), buckets of relative positions,
//! the decoder's start token.
//!
//! Transforms: the embedding may be in the file up to three times; the first counts.
//!
//! Source: `T5Model` and `T5EncoderModel` in `conversion/t5.py`.

use crate::prelude::*;

/// The row of the entire model.
pub const T5: Arch = Arch {
    name: "t5",
    classes: &[
        Class::new("T5ForConditionalGeneration"),
        Class::new("T5WithLMHeadModel"),
        Class::new("MT5ForConditionalGeneration"),
        Class::new("UMT5ForConditionalGeneration"),
        Class::new("UMT5Model"),
    ],
    example: "google-t5/t5-small",
    configs: &[T5_CONFIG, MT5_CONFIG, UMT5_CONFIG],
    needs: &["d_model", "d_ff", "d_kv", "num_layers", "num_heads", "vocab_size"],
    tensors: &[EMBEDDING, ENCODER, DECODER_LAYERS],
    decoder_layers: Some("num_decoder_layers"),
    keys: |hparams, keys| keys_of(hparams, keys, true),
    vocab: ROUTE,
    harmless: &["is_gated_act"],
    from_file,
    built_in: &[
        ACTIVATION,
        PROJECTION,
        DISTANCE,
        // Predictions of the first models are divided by the root of the width.
        BuiltIn::is("scale_decoder_outputs", &["false"]),
    ],
    ..DECODER
};

/// The activation of the feed-forward part.
const ACTIVATION: BuiltIn =
    BuiltIn::unless("dense_act_fn", "gelu_new in gated layers and relu in others", |hparams, activation| {
        if hparams.is_true("is_gated_act") {
            activation.as_str().is_none_or(|activation| activation.starts_with("gelu"))
        } else {
            activation == "relu"
        }
    });

/// Distance beyond which all positions share a bucket: `max_distance` in `llama-graph.cpp`.
const DISTANCE: BuiltIn = BuiltIn::is("relative_attention_max_distance", &["128"]);

/// [`ACTIVATION`] in configs that transformers did not save.
const PROJECTION: BuiltIn =
    BuiltIn::unless("feed_forward_proj", "relu or gated-gelu", |hparams, activation| {
        hparams.get("dense_act_fn").is_some() || activation == "relu" || activation == "gated-gelu"
    });

/// Unigram, or SentencePiece BPE (Pile-T5).
const ROUTE: Route = Route::new("t5", |writer| writer.unigram());

/// The row of the encoder.
pub const T5_ENCODER: Arch = Arch {
    name: "t5encoder",
    classes: &[Class::new("T5EncoderModel"), Class::new("MT5EncoderModel"), Class::new("UMT5EncoderModel")],
    example: "sentence-transformers/sentence-t5-base",
    configs: &[],
    tensors: &[EMBEDDING, ENCODER],
    keys: |hparams, keys| keys_of(hparams, keys, false),
    harmless: &["is_gated_act", "scale_decoder_outputs"],
    built_in: &[ACTIVATION, PROJECTION, DISTANCE],
    ..T5
};

const EMBEDDING: &[TensorRule] =
    &[TensorRule::copy(&["shared", "encoder.embed_tokens", "decoder.embed_tokens"], "token_embd")
        .rows(RowRule::First)];

const ENCODER: &[TensorRule] = &[
    TensorRule::copy(&["encoder.block.{bid}.layer.0.SelfAttention.q"], "enc.blk.{bid}.attn_q"),
    TensorRule::copy(&["encoder.block.{bid}.layer.0.SelfAttention.k"], "enc.blk.{bid}.attn_k"),
    TensorRule::copy(&["encoder.block.{bid}.layer.0.SelfAttention.v"], "enc.blk.{bid}.attn_v"),
    TensorRule::copy(&["encoder.block.{bid}.layer.0.SelfAttention.o"], "enc.blk.{bid}.attn_o"),
    TensorRule::copy(
        &["encoder.block.{bid}.layer.0.SelfAttention.relative_attention_bias"],
        "enc.blk.{bid}.attn_rel_b",
    )
    .need(Need::Optional),
    TensorRule::copy(&["encoder.block.{bid}.layer.0.layer_norm"], "enc.blk.{bid}.attn_norm"),
    // T5 1.0 has one matrix, 1.1 and Flan also have a gate; both become `ffn_up`.
    TensorRule::copy(&["encoder.block.{bid}.layer.1.DenseReluDense.wi"], "enc.blk.{bid}.ffn_up")
        .in_layers(is_not_gated),
    TensorRule::copy(&["encoder.block.{bid}.layer.1.DenseReluDense.wi_1"], "enc.blk.{bid}.ffn_up")
        .need(IS_GATED),
    TensorRule::copy(&["encoder.block.{bid}.layer.1.DenseReluDense.wi_0"], "enc.blk.{bid}.ffn_gate")
        .need(IS_GATED),
    TensorRule::copy(&["encoder.block.{bid}.layer.1.DenseReluDense.wo"], "enc.blk.{bid}.ffn_down"),
    TensorRule::copy(&["encoder.block.{bid}.layer.1.layer_norm"], "enc.blk.{bid}.ffn_norm"),
    TensorRule::copy(&["encoder.final_layer_norm"], "enc.output_norm"),
];

const DECODER_LAYERS: &[TensorRule] = &[
    TensorRule::copy(&["decoder.block.{bid}.layer.0.SelfAttention.q"], "dec.blk.{bid}.attn_q"),
    TensorRule::copy(&["decoder.block.{bid}.layer.0.SelfAttention.k"], "dec.blk.{bid}.attn_k"),
    TensorRule::copy(&["decoder.block.{bid}.layer.0.SelfAttention.v"], "dec.blk.{bid}.attn_v"),
    TensorRule::copy(&["decoder.block.{bid}.layer.0.SelfAttention.o"], "dec.blk.{bid}.attn_o"),
    optional(
        &["decoder.block.{bid}.layer.0.SelfAttention.relative_attention_bias"],
        "dec.blk.{bid}.attn_rel_b",
    ),
    TensorRule::copy(&["decoder.block.{bid}.layer.0.layer_norm"], "dec.blk.{bid}.attn_norm"),
    TensorRule::copy(&["decoder.block.{bid}.layer.1.EncDecAttention.q"], "dec.blk.{bid}.cross_attn_q"),
    TensorRule::copy(&["decoder.block.{bid}.layer.1.EncDecAttention.k"], "dec.blk.{bid}.cross_attn_k"),
    TensorRule::copy(&["decoder.block.{bid}.layer.1.EncDecAttention.v"], "dec.blk.{bid}.cross_attn_v"),
    TensorRule::copy(&["decoder.block.{bid}.layer.1.EncDecAttention.o"], "dec.blk.{bid}.cross_attn_o"),
    optional(
        &["decoder.block.{bid}.layer.1.EncDecAttention.relative_attention_bias"],
        "dec.blk.{bid}.cross_attn_rel_b",
    ),
    TensorRule::copy(&["decoder.block.{bid}.layer.1.layer_norm"], "dec.blk.{bid}.cross_attn_norm"),
    TensorRule::copy(&["decoder.block.{bid}.layer.2.DenseReluDense.wi"], "dec.blk.{bid}.ffn_up")
        .in_layers(is_not_gated),
    TensorRule::copy(&["decoder.block.{bid}.layer.2.DenseReluDense.wi_1"], "dec.blk.{bid}.ffn_up")
        .need(IS_GATED),
    TensorRule::copy(&["decoder.block.{bid}.layer.2.DenseReluDense.wi_0"], "dec.blk.{bid}.ffn_gate")
        .need(IS_GATED),
    TensorRule::copy(&["decoder.block.{bid}.layer.2.DenseReluDense.wo"], "dec.blk.{bid}.ffn_down"),
    TensorRule::copy(&["decoder.block.{bid}.layer.2.layer_norm"], "dec.blk.{bid}.ffn_norm"),
    TensorRule::copy(&["decoder.final_layer_norm"], "dec.output_norm"),
    optional(&["lm_head"], "output"),
];

/// True if the feed-forward part has a gate in addition to its first matrix.
const IS_GATED: Need = Need::If(|hparams, bid| !is_not_gated(hparams, bid));

fn is_not_gated(hparams: &Hparams, _: u64) -> bool {
    let kind = hparams.get("feed_forward_proj").and_then(Json::as_str);
    !kind.is_some_and(|kind| kind.starts_with("gated-"))
}

/// Sets the kind of the feed-forward part, which no key states, and the config class that the encoder shares with T5.
fn from_file(file: &FileKeys<'_>, config: &mut Map<String, Json>) {
    config.insert("model_type".into(), T5_CONFIG.model_type.into());
    let is_gated = file.shape("enc.blk.0.ffn_gate.weight").is_some();
    config.insert("feed_forward_proj".into(), if is_gated { "gated-gelu" } else { "relu" }.into());
}

const fn optional(hf: &'static [&'static str], gguf: &'static str) -> TensorRule {
    TensorRule::copy(hf, gguf).need(Need::Optional)
}

/// `T5Config`.
const T5_CONFIG: ConfigClass = ConfigClass::new("t5").adjusted(|map| {
    // As many as encoder layers, if the file states one number.
    if map.get("num_decoder_layers").is_none_or(Json::is_null) {
        let n_layers = map.get("num_layers").cloned().unwrap_or_default();
        map.insert("num_decoder_layers".into(), n_layers);
    }
    let is_tied = map.get("tie_word_embeddings") != Some(&Json::Bool(false));
    map.entry("scale_decoder_outputs").or_insert(is_tied.into());
    Ok(())
});

/// `MT5Config`.
const MT5_CONFIG: ConfigClass = ConfigClass::new("mt5").adjusted(T5_CONFIG.adjust);

/// `UMT5Config`.
const UMT5_CONFIG: ConfigClass = ConfigClass::new("umt5").adjusted(MT5_CONFIG.adjust);

fn keys_of(hparams: &Hparams, keys: &mut Keys, decoder: bool) -> Result<(), ArchError> {
    // Relative positions have no longest one; T5 was trained with 512 tokens.
    keys.set_derived("context_length", "n_positions", hparams.get_u64("n_positions")?.unwrap_or(512))?;
    keys.needed("embedding_length", hparams, &["d_model"])?;
    keys.needed("feed_forward_length", hparams, &["d_ff"])?;
    keys.set_derived("block_count", "num_layers", hparams.n_layers()?)?;
    if decoder {
        keys.count("decoder_block_count", hparams, &["num_decoder_layers"])?;
    }
    keys.needed("attention.head_count", hparams, &["num_heads"])?;
    keys.needed("attention.key_length", hparams, &["d_kv"])?;
    keys.needed("attention.value_length", hparams, &["d_kv"])?;
    keys.needed_number("attention.layer_norm_epsilon", hparams, &["layer_norm_epsilon"])?;
    keys.needed("attention.relative_buckets_count", hparams, &["relative_attention_num_buckets"])?;
    // One epsilon under both names, as the reference writes it; T5's norm is an RMS norm.
    keys.needed_number("attention.layer_norm_rms_epsilon", hparams, &["layer_norm_epsilon"])?;
    if decoder {
        // Newer files leave it out; then it is the padding token, like in every published one.
        let start = hparams.get_u64("decoder_start_token_id")?.or(hparams.get_u64("pad_token_id")?);
        let start = start.and_then(|id| u32::try_from(id).ok()).unwrap_or(0);
        keys.set_prefixed("decoder_start_token_id", Value::U32(start));
    }
    keys.file_type_here();
    Ok(())
}
