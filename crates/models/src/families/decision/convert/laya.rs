//! Laya and Julia: ModernBERT with a head that scores the options of a question.
//!
//! Config keys: those of ModernBERT; layers of the head, the length of its texts, temperatures.
//!
//! Transforms: those of ModernBERT; layers of the head follow those of the encoder.
//!
//! Source: `ModernBertDecisionModel` in `conversion/bert.py` of llama.cpp build 11549, which is newer than the pinned one.

use gguf_checkpoint::{Folders, Marked, SideFile};

use super::scorer;
use crate::families::bert::convert::{
    bert,
    modern_bert::{self, MODERN_BERT},
};
use crate::prelude::*;

pub const LAYA: Arch = Arch {
    name: "laya",
    written: Some("modern-bert"),
    classes: &[Class::new("ModernBertDecisionModel")],
    example: "convaiinnovations/laya",
    configs: &[],
    tensors: &[modern_bert::ENDS, LAYERS, scorer::ENDS],
    keys,
    drops: |_, name| match name {
        "temperature" => Some("temperatures are keys"),
        _ => name.starts_with("act_head.").then_some("not used for the answer"),
    },
    rename: |hparams, name| match name.strip_prefix("encoder.") {
        Some(name) => Some(name.strip_prefix("model.").unwrap_or(name).to_owned()),
        None => scorer::rename(hparams, name),
    },
    prepare: |hparams, _| {
        let length = hparams.need_u64(&["intermediate_size"])?;
        scorer::prepare(hparams, HEAD_LAYERS, length)
    },
    vocab: Route::new("laya", |writer| vocab(writer, include_str!("../laya.jinja"))),
    harmless: &["decision.architecture", "layer_types"],
    export: Export::NotExportable("the folder of such a model has configs that the file lacks"),
    ..MODERN_BERT
};

pub const JULIA: Arch = Arch {
    name: "julia",
    fits: Some(|input| {
        input.config.get("decision.architecture").is_some_and(|name| name == "JuliaDecisionModel")
    }),
    example: "SupersonicLabs/Julia-1",
    vocab: Route::new("julia", |writer| vocab(writer, include_str!("../julia.jinja"))),
    ..LAYA
};

const CONFIG: &str = "encoder/config.json";

pub const MARKED: Marked = Marked {
    files: &[CONFIG, "rl_agent_config.json"],
    folders: Some(Folders { config: "encoder", tokenizer: "tokenizer" }),
    class: "ModernBertDecisionModel",
    config: Some(SideFile { file: "rl_agent_config.json", prefix: "decision." }),
    ..Marked::PLAIN
};

/// Like [`MARKED`], with another name of the config of the head, which comes first.
pub const MARKED_JULIA: Marked = Marked {
    files: &[CONFIG, "julia_config.json"],
    config: Some(SideFile { file: "julia_config.json", prefix: "decision." }),
    ..MARKED
};

const HEAD_LAYERS: &str = "decision.head_layers";

const LAYERS: &[TensorRule] = &[
    TensorRule::copy(&["layers.{bid}.attn_norm", "head.layers.{bid}.norm1"], "blk.{bid}.attn_norm")
        .need(Need::If(|_, bid| bid > 0)),
    TensorRule::copy(
        &["layers.{bid}.attn.Wqkv", "head.layers.{bid}.self_attn.in_proj"],
        "blk.{bid}.attn_qkv",
    ),
    TensorRule::copy(
        &["layers.{bid}.attn.Wo", "head.layers.{bid}.self_attn.out_proj"],
        "blk.{bid}.attn_output",
    ),
    TensorRule::copy(&["layers.{bid}.mlp.Wi", "head.layers.{bid}.linear1"], "blk.{bid}.ffn_up"),
    TensorRule::copy(&["layers.{bid}.mlp.Wo", "head.layers.{bid}.linear2"], "blk.{bid}.ffn_down"),
    TensorRule::copy(&["layers.{bid}.mlp_norm", "head.layers.{bid}.norm2"], "blk.{bid}.ffn_norm"),
];

fn keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    bert::keys(hparams, keys)?;
    modern_bert::encoder_keys(hparams, keys)?;
    keys.set_prefixed("decision.type", "laya".into());
    keys.needed("decision.block_count", hparams, &[HEAD_LAYERS])?;
    let length = "decision.head_max_len";
    let tokens = hparams.get_u64(length)?.unwrap_or(256);
    keys.set_derived("decision.max_head_tokens", length, tokens)?;
    const OF_KINDS: &str = "decision.temperature";
    if let Some(stated) = hparams.get(OF_KINDS) {
        let values = stated.as_array().ok_or_else(|| bad(OF_KINDS, stated, "a list of numbers"))?;
        scorer::temperatures(keys, ["choice", "score", "noul"].into_iter().zip(values))?;
    }
    scorer::temperatures(keys, hparams.under("decision.temperature_by_options."))
}

/// Writes the tokenizer, and the template with its special tokens.
fn vocab(writer: &mut TokenizerWriter<'_>, template: &str) -> Result<(), VocabError> {
    // The folder of the tokenizer has no config with ids.
    modern_bert::vocab(writer, &BpeStyle { ids_of_config: false, ..modern_bert::STYLE })?;
    let config = writer.tokenizer_config()?;
    let mut text = template.to_owned();
    for name in ["cls", "sep", "mask"] {
        let key = format!("{name}_token");
        let token = config.get(&key).and_then(Json::as_str).ok_or_else(|| VocabError::Malformed {
            file: "tokenizer_config.json".to_owned(),
            problem: format!("missing text `{key}`"),
        })?;
        text = text.replace(&format!("<{key}>"), token);
    }
    scorer::finish_vocab(writer, &text);
    Ok(())
}
