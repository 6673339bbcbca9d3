//! Splits a GGUF file into shards.

use std::path::PathBuf;

use gguf_container::{CopyPlan, Model, SplitLimits, shard_file_name};
use gguf_models::FAMILIES;
use serde::{Deserialize, Serialize};

use crate::{
    copy_files::{Copied, Copies, Overwrite, open_model},
    error::Error,
    events::Events,
};

/// Limits of shards.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args), command(next_help_heading = "Tensors, metadata and shards"))]
#[serde(default, deny_unknown_fields)]
pub struct ShardOptions {
    /// Limit each shard to SIZE of tensor data.
    ///
    /// SIZE is in bytes or has a unit: K, M, G or KB, MB, GB (powers of 1000), or KiB, MiB, GiB.
    #[cfg_attr(feature = "clap", arg(long, value_name = "SIZE", value_parser = crate::sizes::parse_size, help_heading = crate::arguments::MAIN))]
    pub split_max_size: Option<u64>,
    /// Limit each shard to N tensors.
    #[cfg_attr(feature = "clap", arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), hide_short_help = true))]
    pub split_max_tensors: Option<u64>,
}

impl ShardOptions {
    /// Shards of at most `n` tensors.
    pub fn tensors(n: u64) -> ShardOptions {
        ShardOptions { split_max_tensors: Some(n), ..ShardOptions::default() }
    }

    /// The largest number of bytes, and of tensors.
    pub(crate) fn limits(self) -> (Option<u64>, Option<u64>) {
        (self.split_max_size, self.split_max_tensors)
    }
}

/// Options of a split. Without limits, there is one shard.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SplitOptions {
    /// GGUF file, or any shard of a split model.
    pub file: PathBuf,
    /// Path of the shards without `-00001-of-00003.gguf`.
    pub prefix: PathBuf,
    /// Limits of a shard. A tensor that is larger gets its own shard.
    pub shards: ShardOptions,
    /// Write a first shard that contains only metadata.
    pub no_tensor_first: bool,
    /// Overwrite existing outputs.
    pub force: bool,
    /// Write nothing.
    pub dry_run: bool,
}

impl SplitOptions {
    /// The shards, with all offsets fixed.
    ///
    /// # Errors
    /// A prefix without a file name; a file that cannot be read; more shards than their numbers can count.
    pub fn plan(&self) -> Result<Copies, Error> {
        let ends_in_slash = self.prefix.as_os_str().as_encoded_bytes().ends_with(b"/");
        // Readers find the other shards by the text of the name; the folder may have any name.
        let name = self.prefix.file_name().and_then(|name| name.to_str());
        if name.is_none() || ends_in_slash {
            let prefix = self.prefix.to_string_lossy();
            return Err(Error::usage(format_args!("`{prefix}`: expected a file name prefix")));
        }
        let (max_bytes, max_tensors) = self.shards.limits();
        let limits = SplitLimits { max_bytes, max_tensors, no_tensor_first: self.no_tensor_first };
        let model = open_model(&self.file)?;
        let plan = |model: &Model| {
            let tensors = model.tensors().map(|(_, info)| (info.name.as_str(), info.shape));
            CopyPlan::split(model, limits, FAMILIES.ranks(model.metadata(), tensors))
        };
        Copies::new(&self.file, model, plan, |count| self.names(count))
    }

    fn names(&self, count: usize) -> Vec<PathBuf> {
        let count = count as u32;
        let name = |no| {
            let mut name = self.prefix.clone().into_os_string();
            name.push(shard_file_name("", no, count));
            PathBuf::from(name)
        };
        (1..=count).map(name).collect()
    }
}

/// Splits a GGUF file into shards. The files are byte-identical to those of `llama-gguf-split`, and the first one gets
/// its final name last.
///
/// # Errors
/// As [`SplitOptions::plan`]; an output that cannot be written; an interruption.
///
/// # Examples
/// ```no_run
/// use gguf_toolkit::split::{ShardOptions, SplitOptions, split};
///
/// # fn main() -> Result<(), gguf_toolkit::Error> {
/// let options = SplitOptions {
///     file: "model.gguf".into(),
///     prefix: "shards/model".into(),
///     shards: ShardOptions { split_max_size: Some(2_000_000_000), ..ShardOptions::default() },
///     ..SplitOptions::default()
/// };
/// for file in split(&options, &())?.files {
///     println!("{}: {} bytes", file.path, file.file_bytes);
/// }
/// # Ok(())
/// # }
/// ```
pub fn split(options: &SplitOptions, events: &dyn Events) -> Result<Copied, Error> {
    options.plan()?.run(Overwrite { force: options.force, dry_run: options.dry_run }, events)
}
