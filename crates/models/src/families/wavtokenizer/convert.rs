//! WavTokenizer's decoder, which turns codes of sound into a spectrum.
//!
//! Config keys: those of every text model, sizes of the two towers.
//!
//! Transforms: averages of the training of the code book are left out.
//!
//! Source: `WavTokenizerDecModel` in `conversion/wavtokenizer.py`; names as `convert_pt_to_hf.py` of llama.cpp's
//! `tools/tts` writes them.

use crate::prelude::*;

pub const WAVTOKENIZER: Arch = Arch {
    name: "wavtokenizer-dec",
    classes: &[Class::new("WavTokenizerDec")],
    example: "novateur/WavTokenizer-large-speech-75token",
    needs: &["hidden_size", "n_embd_features", "n_ff", "posnet", "convnext", "vocab_size"],
    tensors: &[ENDS, POSNET, CONVNEXT],
    keys,
    drops: |_, name| {
        let is_training = ["codebook.cluster_size", "codebook.embed_avg", "codebook.inited"];
        is_training.iter().any(|end| name.ends_with(end)).then_some("a sum of the training")
    },
    vocab: Route::NONE,
    export: Export::NotExportable("no program reads such a checkpoint"),
    ..DECODER
};

const ENDS: &[TensorRule] = &[
    TensorRule::copy(&["backbone.embedding"], "token_embd"),
    TensorRule::copy(&["backbone.norm"], "token_embd_norm"),
    TensorRule::copy(&["backbone.embed"], "conv1d"),
    TensorRule::copy(&["backbone.final_layer_norm"], "output_norm"),
    TensorRule::copy(&["head.out"], "output"),
];

/// Layers of convolutions, one of attention among them, and a norm.
const POSNET: &[TensorRule] = &[
    // A layer is either convolutions, attention or a norm.
    TensorRule::copy(&["backbone.posnet.{bid}.conv1"], "posnet.{bid}.conv1").need(Need::Optional),
    TensorRule::copy(&["backbone.posnet.{bid}.conv2"], "posnet.{bid}.conv2").need(Need::Optional),
    TensorRule::copy(&["backbone.posnet.{bid}.norm1"], "posnet.{bid}.norm1")
        .float(FloatType::F32)
        .need(Need::Optional),
    TensorRule::copy(&["backbone.posnet.{bid}.norm2"], "posnet.{bid}.norm2")
        .float(FloatType::F32)
        .need(Need::Optional),
    // gguf-py has the same name for the last norm, and takes the later entry for both.
    TensorRule::copy(&["backbone.posnet.{bid}.norm"], "posnet.{bid}.attn_norm").need(Need::Optional),
    TensorRule::copy(&["backbone.posnet.{bid}.q"], "posnet.{bid}.attn_q").need(Need::Optional),
    TensorRule::copy(&["backbone.posnet.{bid}.k"], "posnet.{bid}.attn_k").need(Need::Optional),
    TensorRule::copy(&["backbone.posnet.{bid}.v"], "posnet.{bid}.attn_v").need(Need::Optional),
    TensorRule::copy(&["backbone.posnet.{bid}.proj_out"], "posnet.{bid}.attn_output").need(Need::Optional),
];

const CONVNEXT: &[TensorRule] = &[
    TensorRule::copy(&["backbone.convnext.{bid}.dwconv"], "convnext.{bid}.dw").need(IN_CONVNEXT),
    TensorRule::copy(&["backbone.convnext.{bid}.norm"], "convnext.{bid}.norm").need(IN_CONVNEXT),
    // Matrices, as convolutions over one position: pw1 (f, in), pw2 (in, f).
    TensorRule::copy(&["backbone.convnext.{bid}.pwconv1"], "convnext.{bid}.pw1").need(IN_CONVNEXT),
    TensorRule::copy(&["backbone.convnext.{bid}.pwconv2"], "convnext.{bid}.pw2").need(IN_CONVNEXT),
    TensorRule::copy(&["backbone.convnext.{bid}.gamma"], "convnext.{bid}.gamma").need(IN_CONVNEXT),
];

const IN_CONVNEXT: Need = Need::If(|hparams, bid| {
    let count = hparams.get("convnext").and_then(|convnext| convnext.get("n_layer")).and_then(Json::as_u64);
    count.is_some_and(|count| bid < count)
});

fn keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    text_keys(hparams, keys)?;
    keys.vocab_size(hparams)?;
    keys.needed("features_length", hparams, &["n_embd_features"])?;
    keys.needed("feed_forward_length", hparams, &["n_ff"])?;
    keys.needed_number("attention.group_norm_epsilon", hparams, &["group_norm_epsilon"])?;
    keys.needed("attention.group_norm_groups", hparams, &["group_norm_groups"])?;
    for part in ["posnet", "convnext"] {
        for (name, key) in [("n_embd", "embedding_length"), ("n_layer", "block_count")] {
            let count = hparams.get(part).and_then(|part| part.get(name));
            let count = count.ok_or_else(|| missing(&format!("{part}.{name}")))?;
            keys.set_prefixed(&format!("{part}.{key}"), Value::U32(to_u32(part, count)?));
        }
    }
    keys.set_prefixed("attention.causal", Value::Bool(false));
    Ok(())
}
