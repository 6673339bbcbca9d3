//! The mixes as data: dtypes by role, recipe and conditions.
//!
//! In every list the first matching rule decides; otherwise the recipe's default stays. Source:
//! `llama_tensor_get_type_impl` in `src/llama-quant.cpp`, llama-cpp-python 0.3.36. Its branch for fused QKV
//! is dead, because an earlier branch takes it.

use std::fmt;

use gguf_types::DType::{self, *};

use super::FileType::{self as F};

/// A condition on the model, the tensor or its position among tensors of its role.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum When {
    /// At least four query heads share one key-value head.
    Grouped,
    /// Like [`When::Grouped`], or at least four experts.
    GroupedOrExperts,
    /// Eight experts, like Mixtral.
    EightExperts,
    /// Any other number of experts.
    NotEightExperts,
    /// In the first eighth of the layers.
    FirstEighth,
    /// In the first sixteenth of the layers.
    FirstSixteenth,
    /// In neither the first nor the last eighth of the layers.
    Middle,
    /// In the first or the last eighth of the layers, or every third in between.
    MoreBits,
    /// Among the first this many of its role.
    Before(u32),
    /// With an importance matrix.
    Weighted,
    /// Without an importance matrix.
    Unweighted,
    /// The architecture has its own rules.
    OwnRules,
    /// The architecture uses the general rules.
    UsualRules,
    /// A stack of expert matrices.
    ExpertStack,
    /// The row does not fill blocks of the default dtype.
    PartialBlock,
    /// A 70B model, whose values are an eighth of its queries in size.
    Model70b,
}

impl fmt::Display for When {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            When::Grouped => "4 or more query heads per KV head",
            When::GroupedOrExperts => "4 or more query heads per KV head, or 4 or more experts",
            When::EightExperts => "8 experts",
            When::NotEightExperts => "unless there are 8 experts",
            When::FirstEighth => "first eighth of the layers",
            When::FirstSixteenth => "first sixteenth of the layers",
            When::Middle => "middle three quarters of the layers",
            When::MoreBits => "first and last eighth of the layers, and every third between",
            When::Before(n) => return write!(f, "first {n} such tensors"),
            When::Weighted => "with importance matrix",
            When::Unweighted => "without importance matrix",
            When::OwnRules => "architecture with special rules",
            When::UsualRules => "architecture without special rules",
            When::ExpertStack => "expert tensors",
            When::PartialBlock => "row is not a multiple of the default block size",
            When::Model70b => "70B model",
        })
    }
}

/// A rule: for these file types (all, if the list is empty) and under all these conditions.
pub(super) struct Rule {
    pub(super) of: &'static [F],
    pub(super) when: &'static [When],
    pub(super) then: DType,
}

const fn rule(of: &'static [F], when: &'static [When], then: DType) -> Rule {
    Rule { of, when, then }
}

const ANY: &[F] = &[];

/// File types below three bits, which have their own rules.
pub(super) const LOW: &[F] = &[F::IQ2_XXS, F::IQ2_XS, F::IQ1_S, F::IQ2_S, F::IQ2_M, F::IQ1_M];

/// The output matrix, and a token embedding that doubles as one.
pub(super) const OUTPUT: &[Rule] = &[
    rule(&[F::MXFP4_MOE], &[], Q8_0),
    rule(ANY, &[When::OwnRules], Q8_0),
    rule(ANY, &[When::PartialBlock], Q8_0),
    rule(&[F::IQ2_XXS, F::IQ2_XS, F::IQ3_XXS, F::IQ1_S, F::IQ2_S, F::IQ2_M, F::IQ1_M], &[], Q5_K),
    rule(&[F::Q8_0], &[], Q8_0),
    rule(ANY, &[], Q6_K),
];

/// All other tensors of the recipe for experts in mxfp4.
pub(super) const MXFP4_MOE: &[Rule] = &[rule(ANY, &[When::ExpertStack], MXFP4), rule(ANY, &[], Q8_0)];

/// A token embedding of a model with an output matrix.
pub(super) const EMBEDDING: &[Rule] = &[
    rule(&[F::IQ2_XXS, F::IQ2_XS, F::IQ1_S, F::IQ1_M], &[], Q2_K),
    rule(&[F::IQ2_S, F::IQ2_M, F::IQ3_XXS], &[], IQ3_S),
    rule(&[F::TQ1_0, F::TQ2_0, F::Q2_0], &[], Q4_K),
];

/// Values, below three bits.
pub(super) const LOW_VALUES: &[Rule] = &[
    rule(ANY, &[When::GroupedOrExperts], Q4_K),
    rule(&[F::IQ2_S, F::IQ2_M], &[], IQ3_S),
    rule(ANY, &[], Q2_K),
];

/// Keys, below three bits.
pub(super) const LOW_KEYS: &[Rule] = &[rule(ANY, &[When::EightExperts], Q4_K)];

/// Feed-forward down, below three bits. The position is counted, not parsed from the name.
pub(super) const LOW_DOWN: &[Rule] =
    &[rule(&[F::IQ2_S, F::IQ2_M], &[When::FirstEighth], IQ3_S), rule(ANY, &[When::FirstEighth], Q2_K)];

/// The output projection of attention, below three bits.
pub(super) const LOW_ATTN_OUTPUT: &[Rule] = &[
    rule(ANY, &[When::EightExperts], Q5_K),
    rule(&[F::IQ1_S, F::IQ1_M], &[], IQ2_XXS),
    rule(&[F::IQ2_S, F::IQ2_M], &[], IQ3_S),
];

pub(super) const VALUES: &[Rule] = &[
    rule(&[F::Q2_K, F::Q2_K_S, F::IQ3_XXS, F::IQ3_XS, F::IQ3_S], &[When::Grouped], Q4_K),
    rule(&[F::Q2_K], &[], Q3_K),
    rule(&[F::IQ3_XXS], &[When::Unweighted], IQ3_S),
    rule(&[F::IQ3_XXS], &[], IQ3_XXS),
    rule(&[F::IQ3_M], &[], Q4_K),
    rule(&[F::Q3_K_M], &[When::Before(2)], Q5_K),
    rule(&[F::Q3_K_M], &[], Q4_K),
    rule(&[F::Q3_K_L], &[], Q5_K),
    rule(&[F::IQ4_NL, F::IQ4_XS], &[When::Grouped], Q5_K),
    rule(&[F::Q4_K_M, F::Q5_K_M], &[When::MoreBits], Q6_K),
    rule(&[F::Q4_K_S], &[When::Before(4)], Q5_K),
];

pub(super) const KEYS: &[Rule] = &[
    rule(ANY, &[When::EightExperts], Q8_0),
    rule(&[F::IQ3_XS], &[], IQ3_XXS),
    rule(&[F::IQ3_XXS], &[], IQ2_S),
];

pub(super) const QUERIES: &[Rule] = &[rule(&[F::IQ3_XS], &[], IQ3_XXS), rule(&[F::IQ3_XXS], &[], IQ2_S)];

pub(super) const DOWN: &[Rule] = &[
    rule(&[F::Q2_K], &[], Q3_K),
    rule(&[F::Q2_K_S], &[When::FirstEighth], Q4_K),
    rule(&[F::IQ3_XXS], &[When::Unweighted, When::FirstEighth], Q4_K),
    rule(&[F::IQ3_XXS], &[When::Unweighted], Q3_K),
    rule(&[F::Q3_K_M], &[When::FirstSixteenth], Q5_K),
    rule(&[F::Q3_K_M], &[When::UsualRules], Q4_K),
    rule(&[F::Q3_K_M], &[When::MoreBits], Q4_K),
    rule(&[F::Q3_K_M], &[], Q3_K),
    rule(&[F::IQ3_M], &[When::FirstEighth], Q4_K),
    rule(&[F::IQ3_M], &[When::EightExperts, When::MoreBits], Q4_K),
    rule(&[F::Q3_K_L], &[When::OwnRules], Q4_K),
    rule(&[F::Q3_K_L], &[], Q5_K),
    rule(&[F::Q4_K_M], &[When::OwnRules, When::FirstSixteenth], Q6_K),
    rule(&[F::Q4_K_M], &[When::OwnRules, When::MoreBits], Q5_K),
    rule(&[F::Q4_K_M], &[When::OwnRules], Q4_K),
    rule(&[F::Q4_K_M, F::Q5_K_M], &[When::MoreBits], Q6_K),
    rule(&[F::IQ4_NL, F::IQ4_XS], &[When::Unweighted, When::FirstEighth], Q5_K),
    rule(&[F::Q4_K_S], &[When::UsualRules, When::FirstEighth], Q5_K),
    // With an importance matrix, Q4_0 and Q5_0 sometimes fail in the first layers; without one the types with
    // a minimum do, so they are used only here.
    rule(&[F::Q4_0], &[When::Weighted, When::FirstEighth], Q4_1),
    rule(&[F::Q5_0], &[When::Weighted, When::FirstEighth], Q5_1),
];

pub(super) const ATTN_OUTPUT: &[Rule] = &[
    rule(&[F::Q3_K_L], &[When::OwnRules], Q4_K),
    rule(
        &[
            F::Q2_K,
            F::IQ3_XS,
            F::IQ3_XXS,
            F::Q3_K_S,
            F::Q3_K_M,
            F::IQ4_NL,
            F::Q4_K_S,
            F::Q4_K_M,
            F::IQ3_S,
            F::IQ3_M,
            F::IQ4_XS,
        ],
        &[When::UsualRules, When::EightExperts],
        Q5_K,
    ),
    rule(&[F::Q2_K], &[When::UsualRules, When::NotEightExperts], Q3_K),
    rule(&[F::IQ3_XXS], &[When::UsualRules, When::NotEightExperts], IQ3_S),
    rule(&[F::Q3_K_M, F::IQ3_M], &[When::UsualRules, When::NotEightExperts], Q4_K),
    rule(&[F::Q3_K_L], &[When::UsualRules, When::NotEightExperts], Q5_K),
];

pub(super) const GATE_UP: &[Rule] = &[rule(&[F::IQ3_XS], &[When::Middle], IQ3_XXS)];
