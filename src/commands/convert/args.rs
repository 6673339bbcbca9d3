//! Options of several commands of `gguf-convert`.

use clap::Args;
use gguf_toolkit::{FileType, Recipe};

use crate::commands::shared::values;

/// Options about downloads.
#[derive(Debug, Args)]
#[command(next_help_heading = "Checkpoint")]
pub struct KeepArgs {
    /// Store downloads in the local Hugging Face cache.
    ///
    /// Checksums are verified. By default, downloads are not stored.
    #[arg(long, conflicts_with = "dry_run", hide_short_help = true)]
    pub keep: bool,
}

/// The option `--type`.
#[derive(Debug, Args)]
pub struct TypeArgs {
    /// Set the output type, for example bf16.
    ///
    /// A comma-separated list writes several files in one pass. `auto` is bf16 or f16, depending on the dtype of the
    /// first matrix. The end of `gguf-convert --help` lists the types.
    #[arg(
        short = 't',
        long = "type",
        value_name = "TYPE",
        value_delimiter = ',',
        value_parser = values::type_name(),
        hide_possible_values = true
    )]
    pub types: Vec<FileType>,
}

impl TypeArgs {
    /// Recipes of the types, without `auto`.
    pub fn recipes(&self) -> Vec<&'static Recipe> {
        self.types.iter().filter_map(|file_type| file_type.recipe()).collect()
    }
}
