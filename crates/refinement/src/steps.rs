//! Stages of rounding, so that the gain of each can be measured.

use gguf_quant::Level;

use crate::RoundingOptions;

/// Stages. Each includes the ones before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Steps {
    /// Coordinate descent from the encoder's levels, with a shrinkage of 0.3.
    Descent,
    /// Error feedback first.
    Feedback,
    /// Shrinkage chosen per matrix on held-out tokens.
    Shrinkage,
    /// Search of group scales.
    Scales,
    /// Fit of the half-precision factors of each block.
    #[default]
    Full,
}

impl Steps {
    /// All stages, in order.
    pub const ALL: [Steps; 5] =
        [Steps::Descent, Steps::Feedback, Steps::Shrinkage, Steps::Scales, Steps::Full];

    /// Name of the stage.
    pub fn name(self) -> &'static str {
        match self {
            Steps::Descent => "descent",
            Steps::Feedback => "feedback",
            Steps::Shrinkage => "shrinkage",
            Steps::Scales => "scales",
            Steps::Full => "full",
        }
    }

    /// Options to try on held-out tokens, from little shrinkage (suits many tokens) to much (suits few).
    pub fn candidates(self, level: Level) -> Vec<RoundingOptions> {
        let shrinkages: &[f32] = if self < Steps::Shrinkage { &[0.3] } else { &[0.3, 0.1, 0.6, 0.8] };
        let full = RoundingOptions { level, ..RoundingOptions::default() };
        let of = |shrinkage: &f32| {
            let full = RoundingOptions { shrinkage: *shrinkage, ..full };
            // Without a scale search, one more plain sweep is done.
            let levels = RoundingOptions { scale_sweeps: 0, sweeps: full.scale_sweeps + full.sweeps, ..full };
            match self {
                Steps::Descent => RoundingOptions { feedback: false, ..levels },
                Steps::Feedback | Steps::Shrinkage => levels,
                Steps::Scales => RoundingOptions { fit: false, ..full },
                Steps::Full => full,
            }
        };
        shrinkages.iter().map(of).collect()
    }
}
