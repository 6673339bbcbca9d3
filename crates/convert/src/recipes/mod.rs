//! Which dtype each tensor of a model gets.
//!
//! A recipe (Q4_K_M, IQ3_XS, ...) is a default dtype and a mix of rules that look at a tensor's
//! role, its place among the layers, its row length and a few facts of the model. All of it is
//! the reference's: [`RECIPES`] is its list of file types, `rules.rs` its mixes as data,
//! `allow.rs` the tensors that it never touches, `fallback.rs` what it takes where a row holds
//! no whole blocks. Nothing here reads a weight or opens a file.
//!
//! Source: `src/llama-quant.cpp` of llama.cpp as vendored in llama-cpp-python 0.3.36, held to
//! by the reference's own snapshots in `golden/recipes/`. Where it has a habit that hurts, the
//! better way is a switch in [`Differences`], off unless requested.

mod allow;
mod assign;
mod category;
mod choose;
mod error;
mod facts;
mod fallback;
mod metadata;
mod model;
mod options;
mod order;
mod reason;
mod rules;
mod stated;
mod table;

pub use self::{
    allow::kept,
    assign::{assign, requires_imatrix},
    category::Category,
    error::RecipeError,
    facts::{Assignment, TensorFacts},
    fallback::Fallback,
    metadata::{GUESSED, QUANTIZATION_VERSION, ZeroBytes, quantized_metadata, stored_file_type},
    model::{ModelFacts, is_70b},
    options::{Differences, Overrides, TensorType},
    order::{compare_names, layer_of, reference_order},
    reason::{Kept, Reason},
    rules::When,
    stated::{CALIBRATION_METHODS, StatedType, stated_type},
    table::{FileType, RECIPES, Recipe},
};
pub(crate) use stated::label_warning;
