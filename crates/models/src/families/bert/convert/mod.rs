//! Conversion of the models of this family, one file for each.

pub mod bert;
pub mod distilbert;
pub mod eurobert;
pub mod jina_bert;
pub mod modern_bert;
pub mod neo_bert;
pub mod nomic_bert;
pub mod nomic_bert_moe;
pub mod roberta;
