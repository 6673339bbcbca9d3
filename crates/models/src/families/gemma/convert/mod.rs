//! Conversion of the models of this family, one file for each.

pub mod gemma;
pub mod gemma2;
pub mod gemma3;
pub mod gemma3n;
pub mod gemma4;
pub mod gemma4_assistant;
pub mod gemma4_unified;
pub mod gemma_embedding;
pub mod gemma_embedding2;
pub mod vaultgemma;
