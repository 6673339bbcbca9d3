//! The CPU level as a value: detected once, listable, forcible by an environment variable.

use std::{fmt, sync::OnceLock};

/// The environment variable that forces a level: `scalar`, `avx2`, `avx512`, `neon`.
pub const LEVEL_VARIABLE: &str = "GGUF_CPU_LEVEL";

/// A set of vector instructions. Owning any value but [`Level::Scalar`] proves that the CPU
/// and the operating system permit its instructions: values come from [`Level::available`] only.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Level(Kind);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Kind {
    Scalar,
}

impl Level {
    /// Plain Rust, everywhere.
    #[expect(non_upper_case_globals, reason = "reads as the variant of an enum")]
    pub const Scalar: Level = Level(Kind::Scalar);

    /// The levels that this machine can run, slowest first.
    pub fn available() -> Vec<Level> {
        vec![Level::Scalar]
    }

    /// The level to use: the best available one, or the one that [`LEVEL_VARIABLE`] names.
    /// A name that is unknown or not available here is ignored; programs check it with
    /// [`Level::from_name`] at the start.
    pub fn detect() -> Level {
        static DETECTED: OnceLock<Level> = OnceLock::new();
        *DETECTED.get_or_init(|| {
            let forced = std::env::var(LEVEL_VARIABLE).ok().and_then(|name| Level::from_name(&name));
            forced.or_else(|| Level::available().last().copied()).unwrap_or(Level::Scalar)
        })
    }

    /// The level of this name, if this machine can run it.
    pub fn from_name(name: &str) -> Option<Level> {
        Level::available().into_iter().find(|level| level.name() == name)
    }

    /// The name as [`LEVEL_VARIABLE`] takes it.
    pub fn name(self) -> &'static str {
        match self.0 {
            Kind::Scalar => "scalar",
        }
    }
}

impl fmt::Debug for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
