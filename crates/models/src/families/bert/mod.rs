//! BERT and encoders based on it: embedding models, rerankers and classifiers.

pub mod convert;
pub mod graph;

use crate::families::decision::convert::laya;
use crate::family::Family;
use gguf_checkpoint::FamilyForm;

pub const FAMILY: Family = Family {
    arches: &[
        convert::bert::BERT,
        convert::distilbert::DISTILBERT,
        convert::eurobert::EUROBERT,
        convert::jina_bert::JINA_BERT_V2,
        convert::modern_bert::MODERN_BERT,
        convert::neo_bert::NEO_BERT,
        convert::nomic_bert::NOMIC_BERT,
        convert::nomic_bert_moe::NOMIC_BERT_MOE,
        convert::roberta::ROBERTA,
        convert::roberta::XLM_ROBERTA,
    ],
    forms: &[FamilyForm {
        model_types: &["modernbert"],
        marked: &[laya::MARKED_JULIA, laya::MARKED],
        ..FamilyForm::USUAL
    }],
    graphs: graph::GRAPHS,
    departures: &[
        convert::bert::LABELS,
        convert::bert::POOLER,
        convert::bert::POOLER_BIAS,
        convert::modern_bert::EPSILON,
    ],
    ..Family::EMPTY
};
