//! Options of the verbs that measure chunks in parts.

use std::path::PathBuf;

use clap::Args;
use gguf_toolkit::{ChunkSettings, PartNumber, part_file::PartOptions};

/// Options about the chunks of a text, of the verbs that measure them in parts.
#[derive(Debug, Args)]
pub(in crate::commands) struct ChunkArgs {
    /// Set the context length, in tokens.
    ///
    /// The text is cut into chunks of this length.
    #[arg(short, long, value_name = "N", default_value_t = 512, conflicts_with = "merge", value_parser = clap::value_parser!(u32).range(4..))]
    pub context: u32,
    /// Read at most N chunks of the text.
    #[arg(long, value_name = "N", conflicts_with = "merge", value_parser = clap::value_parser!(u32).range(1..))]
    pub chunks: Option<u32>,
}

impl ChunkArgs {
    /// The same as settings; `stride` is that of chunks that overlap.
    pub fn settings(&self, stride: Option<u32>) -> ChunkSettings {
        let size = |n: u32| n as usize;
        ChunkSettings {
            context: size(self.context),
            n_chunks: self.chunks.map(size),
            stride: stride.map(size),
        }
    }
}

/// Options of the verbs that measure chunks in parts.
#[derive(Debug, Args)]
#[command(next_help_heading = "Parts (several machines)")]
pub(in crate::commands) struct PartArgs {
    /// Process only part K of N.
    ///
    /// The text is divided into N parts, and the result of part K is written to --output.
    #[arg(long, value_name = "K/N", requires = "output", conflicts_with_all = ["merge", "json"], hide_short_help = true)]
    pub part: Option<PartNumber>,
    /// Write the result to FILE.
    #[arg(short, long, value_name = "FILE", requires = "part", hide_short_help = true)]
    pub output: Option<PathBuf>,
    /// Merge files of earlier runs.
    ///
    /// These are the files that --part wrote. The result is exactly that of a single run.
    #[arg(long, value_name = "FILE", num_args = 1.., hide_short_help = true)]
    pub merge: Vec<PathBuf>,
}

impl PartArgs {
    /// The part to process, if one is named.
    pub fn options(&self, force: bool) -> Option<PartOptions> {
        let (number, output) = (self.part?, self.output.clone()?);
        Some(PartOptions { number, output, force, rescue: std::env::temp_dir() })
    }
}
