//! How far rounding goes, so that the share of each of its steps can be measured.

use quant::Level;

use crate::RoundingOptions;

/// What is done: each does what those before it do, and one thing more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Steps {
    /// Levels are chosen by descent from those of the encoder, with a shrinkage of 0.3.
    Descent,
    /// Before that errors are carried from column to column.
    Feedback,
    /// The shrinkage is chosen for each matrix on tokens held out.
    Shrinkage,
    /// Scales of groups are searched too.
    Scales,
    /// And the numbers of half precision that they are multiples of.
    #[default]
    Full,
}

impl Steps {
    /// All of them, in their order.
    pub const ALL: [Steps; 5] =
        [Steps::Descent, Steps::Feedback, Steps::Shrinkage, Steps::Scales, Steps::Full];

    /// The name.
    pub fn name(self) -> &'static str {
        match self {
            Steps::Descent => "descent",
            Steps::Feedback => "feedback",
            Steps::Shrinkage => "shrinkage",
            Steps::Scales => "scales",
            Steps::Full => "full",
        }
    }

    /// What is tried on held-out tokens: from little shrinkage, which many tokens allow, to much, which few need.
    pub fn candidates(self, level: Level) -> Vec<RoundingOptions> {
        let shrinkages: &[f32] = if self < Steps::Shrinkage { &[0.3] } else { &[0.3, 0.1, 0.6, 0.8] };
        let full = RoundingOptions { level, ..RoundingOptions::default() };
        let of = |shrinkage: &f32| {
            let full = RoundingOptions { shrinkage: *shrinkage, ..full };
            // Without a search of scales a plain sweep stands in its place.
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
