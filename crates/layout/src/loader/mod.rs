//! Files that llama.cpp does not load: keys and tensors that its loader asks for, compared with those of a file.
//!
//! `common.txt` contains the facts that all architectures share, and the texts of [`Families::loader`](crate::Families::loader)
//! those of each architecture. `scripts/loader-tables` extracts them from the loading functions of the reference. A section starts
//! with the names of its architectures:
//!
//! ```text
//! need FORM KEY ... [when COND]    keys that must be there; those that begin with a dot follow the architecture's name
//! read FORM KEY ... [when COND]    keys that may be there
//! default KEY VALUE                value of a key that is missing
//! set FIELD = FORMULA              a size or switch; `@` is the layer at which it is read
//! refuse [LOOPS] CONDITION         values that are refused
//! @ [LOOPS] [when CONDITION]       head of the tensors that follow
//! NAME [SIZES] FLAGS               a tensor: o optional, d shared with another use, s skipped, r any shape of the size,
//!                                  `=` before an expression of flags, `?` if unknown
//! ```
//!
//! The form of a key is `u32` (a single value), `u32*LENGTH` (or a list of this length), `u32~` (lists are not read),
//! `[i32/u32]` (a list with these types; single values are not read) or `[str]!` (a list).
//! Conditions and sizes that the script could not follow are `?`. Whatever depends on them is never reported.
//!
//! Source: `load_hparams`, `load_arch_hparams` and `load_arch_tensors` of the model classes (src/llama-model.cpp, src/models),
//! `create_tensor` and `done_getting_tensors` (src/llama-model-loader.cpp) of
//! llama.cpp build 11549.

mod check;
mod expression;
mod key_types;
mod names;
mod positions;
mod refusal;
mod table;
mod vocabulary;

pub use check::{is_default, refusals};
pub use key_types::KeyTypes;
pub use names::TensorNames;
pub use positions::{Positions, Property, positions};
pub use refusal::Refusal;

/// The tensor may be missing.
const OPTIONAL: i64 = 1;
/// Another use of a tensor that is created elsewhere; not counted.
const DUPLICATE: i64 = 2;
/// Counted and not loaded.
const SKIP: i64 = 4;
/// Only the number of elements must agree.
const RESHAPE: i64 = 16;
