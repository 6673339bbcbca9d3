//! Gemma 3, the text part.
//!
//! Config keys: those of every text model (of a model with images, those of its `text_config`),
//! `final_logit_softcapping`, `sliding_window`; defaults for what older files leave out.
//!
//! Transforms: one is added to the weights of norms, all others are copied (queries and keys are not permuted).
//! `language_model.` in names is ignored. Image parts go to the projector (`projector/gemma3.rs`).
//!
//! Source: `Gemma3Model` in `conversion/gemma.py`.

use crate::families::gemma::convert::{gemma, gemma2};
use crate::prelude::*;

pub const GEMMA3: Arch = Arch {
    name: "gemma3",
    classes: &[Class::new("Gemma3ForCausalLM"), Class::new("Gemma3ForConditionalGeneration")],
    example: "hf-tiny-v2/tiny-random-Gemma3ForCausalLM",
    configs: &[GEMMA3_TEXT_CONFIG, GEMMA3_CONFIG],
    needs: &["hidden_size", "intermediate_size", "num_hidden_layers"],
    tensors: &[gemma::ENDS, OUTPUT, gemma2::NORMS, rules::ATTENTION, QK_NORMS, rules::GATED_MLP],
    keys,
    vocab: ROUTE,
    window_pattern: every(6),
    harmless: &["layer_types"],
    built_in: &[HEAD_SCALE, BuiltIn::is("use_bidirectional_attention", &["false"])],
    ..DECODER
};

/// The scale of scores.
pub const HEAD_SCALE: BuiltIn =
    BuiltIn::unless("query_pre_attn_scalar", "the head size", |hparams, scalar| {
        gemma2::is_head_size(hparams, scalar, 62)
    });

/// tokenizer.model without a space in front, or the same model as tokenizer.json, else byte-level BPE.
pub const ROUTE: Route = Route::new("gemma3", |writer| {
    let hf = if writer.has_spm() { None } else { writer.read_json()? };
    match hf {
        Some(hf) if !hf.is_llama() => return writer.gpt2_of(Some(hf), &BpeStyle::GPT2),
        None => writer.spm(SpmStyle::Plain)?,
        hf => writer.spm_or_json(hf, SpmStyle::Plain)?,
    }
    writer.set(token_keys::ADD_SPACE_PREFIX, false);
    Ok(())
});

/// The output, where it is not tied to the embedding.
pub const OUTPUT: &[TensorRule] = &[TensorRule::copy(&["lm_head"], "output").need(Need::Optional)];

/// Norms of queries and keys.
pub const QK_NORMS: &[TensorRule] = &[
    TensorRule::norm1p(&["model.layers.{bid}.self_attn.q_norm"], "blk.{bid}.attn_q_norm"),
    TensorRule::norm1p(&["model.layers.{bid}.self_attn.k_norm"], "blk.{bid}.attn_k_norm"),
];

/// `Gemma3TextConfig`.
const GEMMA3_TEXT_CONFIG: ConfigClass = ConfigClass::new("gemma3_text").adjusted(|map| {
    // Five sliding layers, then one that uses full attention.
    adjust::layer_pattern(map, 6)?;
    adjust::nested_rope(map, ("rope_theta", 1_000_000.0), ("rope_local_base_freq", 10_000.0))
});

/// `Gemma3Config`: text and images.
const GEMMA3_CONFIG: ConfigClass =
    ConfigClass::new("gemma3").adjusted(|map| adjust::text_config(map, &GEMMA3_TEXT_CONFIG));

/// Keys of every text model, with the defaults of the 4B model.
pub fn keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    text_keys(hparams, keys)?;
    // Keys that `text_keys` has written from the config keep their place and take the same value;
    // missing ones get the default of the 4B model at the end.
    let count = |key, default| hparams.get_u64(key).map(|count| count.unwrap_or(default));
    let head_dim = count("head_dim", 256)?;
    keys.set_derived(
        "context_length",
        "max_position_embeddings",
        count("max_position_embeddings", 131_072)?,
    )?;
    keys.set_derived("attention.head_count", "num_attention_heads", count("num_attention_heads", 8)?)?;
    let epsilon = hparams.get_f64("rms_norm_eps")?.unwrap_or(1e-6) as f32;
    keys.set_prefixed("attention.layer_norm_rms_epsilon", Value::F32(epsilon));
    keys.set_derived("attention.key_length", "head_dim", head_dim)?;
    keys.set_derived("attention.value_length", "head_dim", head_dim)?;
    // The base of full attention; that of sliding layers is `rope.freq_base_swa`, which `text_keys`
    // writes.
    let theta = hparams.rope().f64_or("rope_theta", 1_000_000.0)? as f32;
    keys.set_prefixed("rope.freq_base", Value::F32(theta));
    if let Some(cap) = hparams.get("attn_logit_softcapping") {
        return Err(bad("attn_logit_softcapping", cap, "null: this architecture has none"));
    }
    if hparams.get_f64("final_logit_softcapping")?.is_some_and(|cap| cap != 0.0) {
        keys.number("final_logit_softcapping", hparams, &["final_logit_softcapping"])?;
    }
    // A pattern of 1 has no sliding layers.
    if hparams.get_u64("sliding_window_pattern")? != Some(1) {
        keys.needed("attention.sliding_window", hparams, &["sliding_window"])?;
    }
    keys.set_derived("attention.head_count_kv", "num_key_value_heads", count("num_key_value_heads", 4)?)
}
