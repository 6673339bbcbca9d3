//! pplx-decider: the body of Qwen 3.5 with a row of output for each code of an option.
//!
//! Config keys: those of Qwen 3.5, and the temperature of `decision_config.json`.
//!
//! Transforms: the rows of `readout.safetensors` become those of their tokens in an output of zeros.
//!
//! Source: `PplxDeciderModel` in `conversion/pplx_decider.py` of llama.cpp build 11549, which is newer than the pinned one.

use gguf_checkpoint::{Marked, SideFile};

use super::{ON_QWEN35, Temperatures};
use crate::families::qwen::convert::{qwen3next, qwen35};
use crate::prelude::*;

pub const PPLX_DECIDER: Arch = Arch {
    name: "pplx-decider",
    classes: &[Class { decides: true, ..Class::inner("PplxDeciderModel", "model.") }],
    example: "perplexity-ai/pplx-decider-v1-27b",
    tensors: &[
        READOUT,
        qwen3next::LAYERS,
        qwen3next::FULL_ATTENTION,
        qwen35::LINEAR_ATTENTION,
        rules::GATED_MLP,
    ],
    keys: |hparams, keys| {
        super::keys(hparams, keys, "pplx-decider")?;
        let value = hparams.get("decision.temperature").ok_or_else(|| missing_in(CONFIG, "temperature"))?;
        let choice = to_f32("decision.temperature", value)?;
        Temperatures { choice, score: choice, noul: choice }.set(keys);
        Ok(())
    },
    prepare,
    vocab: Route::new("pplx_decider", |writer| super::vocab(writer, include_str!("../pplx_decider.jinja"))),
    export: Export::NotExportable("the output has rows of zeros, which the checkpoint lacks"),
    ..ON_QWEN35
};

const CONFIG: &str = "decision_config.json";

pub const MARKED: Marked = Marked {
    files: &[CONFIG, "readout.safetensors"],
    class: "PplxDeciderModel",
    config: Some(SideFile { file: CONFIG, prefix: "decision." }),
    weights: Some(SideFile { file: "readout.safetensors", prefix: "readout." }),
    weights_first: true,
    ..Marked::PLAIN
};

const READOUT: &[TensorRule] =
    &[TensorRule::copy(&["model.readout", "readout"], "output").rows(RowRule::Scatter(|hparams| {
        let ids = hparams.get("decision.token_ids").ok_or_else(|| missing_in(CONFIG, "token_ids"))?;
        let rows = ids.as_array().and_then(|ids| ids.iter().map(Json::as_u64).collect());
        let rows = rows.ok_or_else(|| bad_in(CONFIG, "token_ids", ids, "a list of token ids"))?;
        Ok(Scatter { rows, n_rows: hparams.need_u64(&["vocab_size"])? })
    }))];

/// Checks that the output is as long as the embedding, because its length is only in the config.
fn prepare(hparams: Hparams, tensors: &[SourceTensor]) -> Result<Hparams, ArchError> {
    let n_tokens = hparams.need_u64(&["vocab_size"])?;
    let embedding = tensors.iter().find(|tensor| tensor.name.ends_with("embed_tokens.weight"));
    if embedding.is_some_and(|embedding| embedding.shape.n_rows() != n_tokens) {
        return Err(bad("vocab_size", &n_tokens.into(), "the number of rows of the embedding"));
    }
    (ON_QWEN35.prepare)(hparams, tensors)
}
