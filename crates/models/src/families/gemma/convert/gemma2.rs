//! Gemma 2.
//!
//! Config keys: those of Gemma 1, both soft caps, and `sliding_window`.
//!
//! Transforms: one is added to the weights of norms. An output matrix next to the embedding is left out.
//!
//! Source: `Gemma2Model` in `conversion/gemma.py`.

use crate::families::gemma::convert::gemma;
use crate::prelude::*;

pub const GEMMA2: Arch = Arch {
    name: "gemma2",
    classes: &[Class::new("Gemma2ForCausalLM")],
    example: "trl-internal-testing/tiny-Gemma2ForCausalLM",
    configs: &[ConfigClass::new("gemma2")],
    tensors: &[gemma::ENDS, NORMS, rules::ATTENTION, rules::GATED_MLP],
    keys,
    drops: gemma::drop_output,
    vocab: ROUTE,
    window_pattern: every(2),
    harmless: &["hidden_act", "layer_types", "query_pre_attn_scalar=144", "sliding_window_size"],
    built_in: &[BuiltIn::unless("query_pre_attn_scalar", "the head size", |hparams, scalar| {
        is_head_size(hparams, scalar, 46)
    })],
    ..DECODER
};

/// tokenizer.model, no space in front.
const ROUTE: Route = Route::new("gemma2", |writer| {
    writer.spm(SpmStyle::Plain)?;
    writer.set(token_keys::ADD_SPACE_PREFIX, false);
    Ok(())
});

/// True if `query_pre_attn_scalar` is the head size that llama.cpp scales by. It recognizes the 27B model, which uses another one,
/// by its number of layers.
pub fn is_head_size(hparams: &Hparams, scalar: &Json, n_layers_of_27b: u64) -> bool {
    let head = match hparams.n_layers() {
        Ok(n_layers) if n_layers == n_layers_of_27b => hparams.head_share(),
        _ => hparams.head_dim(),
    };
    scalar.as_f64().is_none_or(|scalar| head.is_ok_and(|head| head as f64 == scalar))
}

/// Norms before and after attention, and before and after the feed-forward part.
pub const NORMS: &[TensorRule] = &[
    TensorRule::norm1p(&["model.layers.{bid}.input_layernorm"], "blk.{bid}.attn_norm"),
    TensorRule::norm1p(&["model.layers.{bid}.post_attention_layernorm"], "blk.{bid}.post_attention_norm"),
    TensorRule::norm1p(&["model.layers.{bid}.pre_feedforward_layernorm"], "blk.{bid}.ffn_norm"),
    TensorRule::norm1p(&["model.layers.{bid}.post_feedforward_layernorm"], "blk.{bid}.post_ffw_norm"),
];

fn keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    // The lines of Gemma 1 in their order, then the caps.
    gemma::keys(hparams, keys)?;
    // Scores x become c tanh(x / c).
    for name in ["attn_logit_softcapping", "final_logit_softcapping"] {
        keys.number(name, hparams, &[name])?;
        // `null` disables the cap. llama.cpp has 50 and 30 built in; c tanh(x / c) is x up to rounding for a large c.
        if hparams.get(name).is_none() {
            keys.set_prefixed(name, Value::F32(1e6));
        }
    }
    // Every second layer slides; llama.cpp knows which.
    keys.needed("attention.sliding_window", hparams, &["sliding_window"])
}
