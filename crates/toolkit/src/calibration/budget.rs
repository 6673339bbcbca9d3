//! Limits of a file's size, for which types are chosen.

use gguf_types::DType;
use serde::{Deserialize, Serialize};

/// Types that are chosen for a size.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args), command(next_help_heading = "Size limits"))]
#[serde(default, deny_unknown_fields)]
pub struct BudgetOptions {
    /// Keep the tensor types that the file type sets.
    ///
    /// By default, if only one file type is given, --calibrate also chooses the tensor types, without making the file
    /// larger.
    #[cfg_attr(
        feature = "clap",
        arg(long, requires = "calibrate", conflicts_with = "budget", hide_short_help = true)
    )]
    pub keep_types: bool,
    /// Limit of the file. Without one, a calibration chooses types for the size that the file type gives, if they are better.
    #[cfg_attr(feature = "clap", command(flatten))]
    pub limit: Option<Budget>,
    /// Choose only from this comma-separated list of types.
    ///
    /// Default: the types with fast kernels in all runtimes.
    #[cfg_attr(feature = "clap", arg(long, value_name = "DTYPES", value_delimiter = ',', requires = "budget", value_parser = crate::arguments::encodable(), hide_possible_values = true, hide_short_help = true))]
    #[serde(with = "crate::by_name::list")]
    pub allow_types: Vec<DType>,
}

/// Limit of a file's size.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Budget {
    /// A number of bytes.
    #[serde(rename = "target_size")]
    Size(u64),
    /// A number of bits per weight.
    #[serde(rename = "target_bpw")]
    Bpw(f64),
    /// The size of a file of this type.
    #[serde(rename = "no_larger_than_type")]
    SameAs(String),
}

/// The arguments of a [`Budget`].
#[cfg(feature = "clap")]
#[derive(clap::Args)]
#[group(id = "budget", multiple = false)]
#[command(next_help_heading = "Size limits")]
struct BudgetArgs {
    /// Choose types so that the file is no larger than SIZE.
    ///
    /// SIZE is in bytes or has a unit: K, M, G or KB, MB, GB (powers of 1000), or KiB, MiB, GiB. The file type still
    /// determines which matrices are not quantized, and appears in the default file name. Requires --calibrate or --imatrix.
    /// With --imatrix alone, types are chosen by the errors of the weights, their importance and the roles of the matrices,
    /// without running the model. Diffusion models need neither. The limit does not include the headers of further shards.
    #[arg(long, value_name = "SIZE", value_parser = crate::sizes::parse_size, hide_short_help = true)]
    target_size: Option<u64>,
    /// Choose types for at most BITS per weight.
    ///
    /// Requires --calibrate or --imatrix in the same cases as --target-size.
    #[arg(long, value_name = "BITS", value_parser = crate::arguments::parse_bits, hide_short_help = true)]
    target_bpw: Option<f64>,
    /// Choose types for a file no larger than a TYPE file.
    ///
    /// Requires --calibrate or --imatrix in the same cases as --target-size.
    #[arg(long, value_name = "TYPE", hide_short_help = true)]
    no_larger_than_type: Option<String>,
}

#[cfg(feature = "clap")]
impl From<BudgetArgs> for Budget {
    fn from(args: BudgetArgs) -> Budget {
        match (args.target_size, args.target_bpw, args.no_larger_than_type) {
            (Some(size), ..) => Budget::Size(size),
            (_, Some(bits), _) => Budget::Bpw(bits),
            (.., name) => Budget::SameAs(name.unwrap_or_default()),
        }
    }
}

#[cfg(feature = "clap")]
crate::arguments::value_of_flags!(Budget, BudgetArgs);

impl Budget {
    /// The option that sets the limit.
    pub(super) fn option(&self) -> &'static str {
        match self {
            Budget::Size(_) => "target-size",
            Budget::Bpw(_) => "target-bpw",
            Budget::SameAs(_) => "no-larger-than-type",
        }
    }
}
