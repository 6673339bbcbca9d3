//! Choice of a dtype for each tensor of a model.
//!
//! A recipe (Q4_K_M, IQ3_XS, ...) is a default dtype and a mix of rules that depend on a tensor's role, its
//! layer, its row length and a few facts about the model. Everything follows the reference: [`RECIPES`] is
//! its list of file types, `rules.rs` its mixes as data, `allow.rs` the tensors that it never changes,
//! `fallback.rs` its types for rows that do not fill blocks. `diffusion.rs` has the rules for diffusion
//! models. This module does not read weights or open files.
//!
//! Source: `src/llama-quant.cpp` of llama.cpp as vendored in llama-cpp-python 0.3.36, tested with the
//! reference's own snapshots in `golden/recipes/`. Improvements over harmful behavior of the reference are
//! switches in [`Differences`], off by default.

mod allow;
mod assign;
mod category;
mod choose;
mod diffusion;
mod error;
mod facts;
mod fallback;
mod metadata;
mod model;
mod options;
mod order;
mod reason;
mod role;
mod rules;
mod stated;
mod table;
mod weighted;

pub use self::{
    allow::keep_reason,
    assign::assign,
    category::Category,
    error::RecipeError,
    facts::{Assignment, TensorFacts},
    fallback::Fallback,
    metadata::{
        CHOSEN_TYPES_KEY, GUESSED, QUANTIZATION_VERSION, ZeroBytes, diffusion_metadata, quantized_metadata,
        stored_file_type,
    },
    model::{ModelFacts, is_70b},
    options::{Differences, Overrides, TensorType},
    order::{compare_names, layer_of, reference_order},
    reason::{KeepReason, Reason},
    role::Role,
    rules::When,
    stated::{CALIBRATION_KEY, CALIBRATION_METHODS, StatedType, stated_type},
    table::{FileType, RECIPES, Recipe},
    weighted::requires_imatrix,
};
pub(crate) use stated::label_warning;
