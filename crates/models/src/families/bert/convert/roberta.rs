//! RoBERTa and XLM-RoBERTa, written as `bert`: embeddings, rankers and classifiers.
//!
//! Config keys: those of BERT; the context is shorter by the positions that are cut off.
//!
//! Transforms: positions are counted from the padding token's id on, so that the first rows of
//! their embedding are never used; they are cut off, so that a file cannot be exported.
//!
//! Source: `RobertaModel` and `XLMRobertaModel` in `conversion/bert.py`. Adapters inside a
//! checkpoint (Jina embeddings 3) are not covered.

use crate::families::bert::convert::bert;
use crate::prelude::*;

/// The row of RoBERTa.
pub const ROBERTA: Arch = Arch {
    name: "roberta",
    written: Some("bert"),
    classes: &[
        Class::new("RobertaModel"),
        Class::new("RobertaForMaskedLM"),
        Class::new("RobertaForSequenceClassification"),
        Class::new("Data2VecTextModel"),
    ],
    example: "sentence-transformers/stsb-roberta-base",
    configs: &[ConfigClass::new("roberta"), ConfigClass::new("data2vec-text")],
    tensors: &[bert::EMBEDDINGS, POSITIONS, bert::LAYERS, bert::CLASSIFIER],
    keys,
    drops: |hparams, name| bert::drops(&bert::rename(hparams, name, "roberta.").unwrap_or_default()),
    rename: |hparams, name| bert::rename(hparams, name, "roberta."),
    vocab: ROUTE,
    export: Export::NotExportable("unused position embeddings are not in the file"),
    ..bert::BERT
};

/// Byte-level BPE if there is a tokenizer.json, else WordPiece.
const ROUTE: Route = Route {
    fits: |kind, _| kind == "gpt2",
    ..Route::new("roberta", |writer| match writer.read_json()? {
        Some(hf) if hf.file() != "vocab.txt" => {
            writer.gpt2_of(Some(hf), &BpeStyle::GPT2)?;
            writer.set(token_keys::TOKEN_TYPE_COUNT, writer.ctx.token_types());
            Ok(())
        }
        _ => writer.wordpiece(),
    })
};

/// The row of XLM-RoBERTa.
pub const XLM_ROBERTA: Arch = Arch {
    name: "xlm-roberta",
    classes: &[
        Class::new("XLMRobertaModel"),
        Class::new("XLMRobertaForMaskedLM"),
        Class::new("XLMRobertaForSequenceClassification"),
    ],
    example: "BAAI/bge-m3",
    configs: &[ConfigClass::new("xlm-roberta")],
    vocab: XLM_ROUTE,
    ..ROBERTA
};

/// Unigram.
const XLM_ROUTE: Route = Route {
    fits: |kind, _| kind == "t5",
    class: |kind| (kind == "t5").then_some("XLMRobertaTokenizer"),
    ..Route::new("xlm_roberta", |writer| writer.fairseq_unigram(None))
};

const POSITIONS: &[TensorRule] =
    &[TensorRule::part(&["embeddings.position_embeddings"], "position_embd", used_positions)];

/// Rows of the positions' embedding that are never used.
fn unused(hparams: &Hparams) -> Result<u64, ArchError> {
    // Position ids begin at pad + 1 in fairseq: with padding 1 the first token is at row 2.
    Ok(hparams.get_u64("pad_token_id")?.map_or(0, |id| id.saturating_add(1)))
}

fn used_positions(hparams: &Hparams, _: &Shape) -> Result<RowMap, ArchError> {
    Ok(RowMap::Slice { start: unused(hparams)? })
}

fn keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    let key = "max_position_embeddings";
    match hparams.get_u64(key)? {
        None => bert::keys(hparams, keys),
        // The rows that are cut off are no positions any more.
        Some(length) => {
            // 514 rows of `max_position_embeddings` are 512 positions.
            let length = length.saturating_sub(unused(hparams)?);
            bert::keys(&hparams.with(key, length.into()), keys)
        }
    }
}
