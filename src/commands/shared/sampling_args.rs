//! Options about the choice of tokens.

use clap::Args;
use gguf_toolkit::run::Sampling;

/// Options about the choice of tokens.
#[derive(Debug, Args)]
pub(in crate::commands) struct SamplingArgs {
    /// Set the sampling temperature.
    ///
    /// 0 is greedy: the most likely token is always chosen. Default: 0 in `generate`; in `chat`, the value that the file
    /// recommends, or 0.3.
    #[arg(long, value_name = "T")]
    pub(in crate::commands) temperature: Option<f32>,
    /// Sample from the K most likely tokens; 0 means all.
    ///
    /// Default: 40; in `chat`, the value that the file recommends.
    #[arg(long, value_name = "K", hide_short_help = true)]
    top_k: Option<usize>,
    /// Sample from the top tokens with total probability P.
    ///
    /// Default: 0.95; in `chat`, the value that the file recommends.
    #[arg(long, value_name = "P", hide_short_help = true)]
    top_p: Option<f32>,
    /// Sample from tokens with P times the top probability.
    ///
    /// Default: 0 in `generate`; in `chat`, the value that the file recommends, or 0.05.
    #[arg(long, value_name = "P", hide_short_help = true)]
    min_p: Option<f32>,
    /// Penalize tokens that already occurred.
    ///
    /// Their positive logits are divided by X, their negative ones multiplied by it. Default: 1, which changes nothing; in
    /// `chat`, the value that the file recommends.
    #[arg(long, value_name = "X", hide_short_help = true)]
    repeat_penalty: Option<f32>,
    /// Set the random seed.
    ///
    /// Default: 0 in `generate`, random in `chat`.
    #[arg(long, value_name = "N", hide_short_help = true)]
    seed: Option<u64>,
}

impl SamplingArgs {
    /// The given values, and defaults for the others.
    pub(in crate::commands) fn or(&self, defaults: Sampling) -> Sampling {
        Sampling {
            temperature: self.temperature.unwrap_or(defaults.temperature),
            top_k: self.top_k.unwrap_or(defaults.top_k),
            top_p: self.top_p.unwrap_or(defaults.top_p),
            min_p: self.min_p.unwrap_or(defaults.min_p),
            repeat_penalty: self.repeat_penalty.unwrap_or(defaults.repeat_penalty),
            repeat_last_n: defaults.repeat_last_n,
            seed: self.seed.unwrap_or(defaults.seed),
        }
    }
}
