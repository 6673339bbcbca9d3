//! MiniCPM 1 and 2.
//!
//! Config keys: those of every text model, and three scales that are computed.
//!
//! Transforms: rows of Q and K are permuted like those of llama. Factors of long contexts become the
//! computed tensors `rope_factors_long` and `rope_factors_short`.
//!
//! Source: `MiniCPMModel` in `conversion/minicpm.py`.

use crate::families::phi::convert::phi3;
use crate::prelude::*;

pub const MINICPM: Arch = Arch {
    name: "minicpm",
    classes: &[Class::new("MiniCPMForCausalLM")],
    example: "openbmb/MiniCPM-2B-sft-bf16",
    tensors: &[rules::DECODER_ENDS, rules::PRE_NORMS, rules::ATTENTION_PERMUTED, rules::GATED_MLP],
    keys,
    computed: |hparams| factors(hparams, hparams.head_share()?),
    vocab: Route::SENTENCE_PIECE,
    ..DECODER
};

fn keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    text_keys(hparams, keys)?;
    keys.derived_from("embedding_scale", &["scale_emb"]);
    keys.derived_from("residual_scale", &["scale_depth"]);
    keys.derived_from("logit_scale", &["dim_model_base"]);
    // Embeddings times scale_emb, each residual times scale_depth / sqrt(layers), logits divided by width / dim_model_base.
    let depth = (hparams.n_layers()? as f64).sqrt();
    let width = hparams.need_f64("hidden_size")?;
    for (key, scale) in [
        ("embedding_scale", hparams.need_f64("scale_emb")?),
        ("residual_scale", hparams.need_f64("scale_depth")? / depth),
        ("logit_scale", width / hparams.need_f64("dim_model_base")?),
    ] {
        keys.set_prefixed(key, Value::F32(scale as f32));
    }
    Ok(())
}

/// The factors of long contexts for `dims` rotated dimensions, if the config has any.
pub fn factors(hparams: &Hparams, dims: u64) -> Result<Vec<Computed>, ArchError> {
    // `generate_extra_tensors` writes factors if the config has any, whatever type of scaling it
    // names.
    let has = |key| hparams.rope().get(key).is_some();
    if has("long_factor") || has("short_factor") { phi3::long_factors(hparams, dims) } else { Ok(Vec::new()) }
}
