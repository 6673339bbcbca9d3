//! Reasons for the type of a tensor.

use std::fmt;

use super::{Category, Role, rules::When};

/// Reason to keep a tensor unquantized.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeepReason {
    /// All tensors are copied.
    Copy,
    /// One dimension: quantizing a vector gains too little.
    Vector,
    /// Its name does not end with `weight`.
    NotAWeight,
    /// A convolution or another tensor of three or more dimensions, in a diffusion model.
    NotAMatrix,
    /// The output matrix, kept on request.
    OutputOnRequest,
    /// A kind of tensor that is small or sensitive to quantization.
    Sensitive(&'static str),
}

/// Reason for a tensor's type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// Keeps its type.
    Kept(KeepReason),
    /// The option for token embeddings.
    TokenEmbeddingOption,
    /// The option for the output matrix.
    OutputOption,
    /// Index of the matching pattern in [`super::Overrides::tensor_types`].
    TensorType(usize),
    /// The recipe's default, because mixes are turned off.
    Pure,
    /// The recipe's default, because no rule matches.
    Default,
    /// A rule of the mix.
    Rule {
        /// The tensor's role.
        category: Category,
        /// True if the model has no output matrix, so that its token embedding counts as one.
        tied: bool,
        /// Conditions of the rule.
        when: &'static [When],
    },
    /// A rule of the mix for diffusion models.
    Role {
        /// The tensor's role.
        role: Role,
        /// Limit of the rule to the first tensors of the role.
        first: Option<u32>,
    },
    /// A tensor that this architecture keeps at eight bits or more.
    Q8_0AtLeast,
    /// The option for tensors from 8-bit floats.
    Fp8Option,
    /// Blocks of this type store the checkpoint's codes.
    Repacked,
    /// Loaders do not decode other types of this tensor.
    Repaired,
    /// A recipe file.
    RecipeFile,
}

impl fmt::Display for KeepReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            KeepReason::Copy => "copied",
            KeepReason::Vector => "a vector",
            KeepReason::NotAWeight => "name does not end in `weight`",
            KeepReason::NotAMatrix => "not a matrix",
            KeepReason::OutputOnRequest => "output matrix, on request",
            KeepReason::Sensitive(tensor) => tensor,
        })
    }
}

impl fmt::Display for Category {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Category::TokenEmbd => "token embedding",
            Category::AttnQ => "attention queries",
            Category::AttnV => "attention values",
            Category::AttnK => "attention keys",
            Category::AttnQkv => "attention queries, keys and values",
            Category::AttnKvB => "attention keys and values",
            Category::AttnOutput => "attention output",
            Category::FfnUp => "feed-forward up",
            Category::FfnGate => "feed-forward gate",
            Category::FfnDown => "feed-forward down",
            Category::Output => "output matrix",
            Category::Other => "other",
        })
    }
}

impl fmt::Display for Reason {
    /// One line without the dtype.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Kept(reason) => write!(f, "kept: {reason}"),
            Reason::TokenEmbeddingOption => f.write_str("requested: token embedding type"),
            Reason::OutputOption => f.write_str("requested: output tensor type"),
            Reason::TensorType(index) => write!(f, "requested: tensor type {}", index + 1),
            Reason::Pure => f.write_str("requested: one type for all"),
            Reason::Default => f.write_str("default"),
            Reason::Q8_0AtLeast => f.write_str("rule: at least 8 bits in this architecture"),
            Reason::Fp8Option => f.write_str("requested: type for FP8 weights"),
            Reason::Repacked => f.write_str("same values as in the checkpoint"),
            Reason::Repaired => f.write_str("repaired: loaders do not decode it"),
            Reason::RecipeFile => f.write_str("recipe file"),
            Reason::Role { role, first: None } => write!(f, "rule: {role}"),
            Reason::Role { role, first: Some(n) } => write!(f, "rule: {role}, first {n} such tensors"),
            Reason::Rule { category, tied, when } => {
                // Tied concerns only the embedding.
                let tied = *tied && *category == Category::TokenEmbd;
                write!(f, "rule: {category}{}", if tied { " that is also the output matrix" } else { "" })?;
                for (i, when) in when.iter().enumerate() {
                    write!(f, "{}{when}", if i == 0 { ", " } else { " and " })?;
                }
                Ok(())
            }
        }
    }
}
