//! The CPU level as a value: listed, detected once, or chosen by the program.
//!
//! Vector code is written once, generic over [`fearless_simd::Simd`], and compiled for each level into the
//! same binary. That crate was chosen over `std::arch` because its tokens make the kernels safe Rust, over
//! `pulp` and `wide` because it has native 512-bit vectors with mask registers on stable Rust, and over
//! `multiversion` because a lane-per-block kernel needs explicit vectors. It never contracts a multiplication
//! and an addition by itself, which bit-exactness requires.

use std::{fmt, sync::OnceLock};

/// Environment variable from which programs take a level for [`Level::choose`]: `scalar`, `avx2`, `avx512`,
/// `neon`. The library does not read it.
pub const LEVEL_VARIABLE: &str = "GGUF_CPU_LEVEL";

/// The result of [`Level::detect`].
static USED: OnceLock<Level> = OnceLock::new();

/// A set of vector instructions. Owning any value but [`Level::Scalar`] proves that the CPU and the operating
/// system permit its instructions: values come from [`Level::available`], which also asks the operating
/// system.
#[derive(Clone, Copy)]
pub struct Level(Kind);

/// Token for vector code, held by [`Level`].
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    Scalar,
    #[cfg(target_arch = "x86_64")]
    Avx2(fearless_simd::x86::Avx2),
    #[cfg(target_arch = "x86_64")]
    Avx512(fearless_simd::x86::Avx512),
    #[cfg(target_arch = "aarch64")]
    Neon(fearless_simd::aarch64::Neon),
}

/// Names of all levels of any machine, slowest first for each architecture.
pub const LEVEL_NAMES: &[&str] = &["scalar", "avx2", "avx512", "neon"];

impl Level {
    /// Plain Rust, everywhere.
    #[expect(non_upper_case_globals, reason = "reads as the variant of an enum")]
    pub const Scalar: Level = Level(Kind::Scalar);

    /// Levels that this machine can run, slowest first.
    pub fn available() -> Vec<Level> {
        // Asks the operating system too: a CPU may have registers that are not saved for a process.
        let best = fearless_simd::Level::new();
        let mut levels = vec![Level::Scalar];
        #[cfg(target_arch = "x86_64")]
        {
            levels.extend(best.as_avx2().map(|token| Level(Kind::Avx2(token))));
            levels.extend(best.as_avx512().map(|token| Level(Kind::Avx512(token))));
        }
        #[cfg(target_arch = "aarch64")]
        levels.extend(best.as_neon().map(|token| Level(Kind::Neon(token))));
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        let _ = best;
        levels
    }

    /// Default level: the best available one, or the one passed to [`Level::choose`].
    pub fn detect() -> Level {
        *USED.get_or_init(|| Level::available().last().copied().unwrap_or(Level::Scalar))
    }

    /// Makes [`Level::detect`] return `level`. For programs, before their first work.
    ///
    /// # Errors
    /// The level in use, if one has been detected or chosen before.
    ///
    /// # Examples
    /// ```
    /// use gguf_quant::Level;
    ///
    /// assert!(Level::choose(Level::Scalar).is_ok());
    /// assert_eq!(Level::detect(), Level::Scalar);
    /// ```
    pub fn choose(level: Level) -> Result<(), Level> {
        let used = *USED.get_or_init(|| level);
        if used == level { Ok(()) } else { Err(used) }
    }

    /// The level with this name in any case, if this machine can run it.
    pub fn from_name(name: &str) -> Option<Level> {
        Level::available().into_iter().find(|level| level.name().eq_ignore_ascii_case(name))
    }

    /// Name, as in [`LEVEL_VARIABLE`].
    pub fn name(self) -> &'static str {
        match self.0 {
            Kind::Scalar => "scalar",
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2(_) => "avx2",
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512(_) => "avx512",
            #[cfg(target_arch = "aarch64")]
            Kind::Neon(_) => "neon",
        }
    }

    /// Runs work with this level's instructions: plain loops over slices are vectorized with its width and
    /// give equal bits at every level, because sums are never reordered.
    ///
    /// Only inlined code benefits: the closure and its callees should be `#[inline(always)]`.
    #[inline(always)]
    pub fn vectorize<R>(self, work: impl FnOnce() -> R) -> R {
        at_level!(self, simd => work(), work())
    }

    /// Runs work that is written with vectors, with this level's vectors.
    #[inline(always)]
    pub fn run<W: Vectors>(self, work: W) -> W::Output {
        at_level!(self, simd => work.run(simd), work.scalar())
    }

    #[inline(always)]
    pub(crate) fn kind(self) -> Kind {
        self.0
    }
}

/// Work of other crates that is written once, generic over vectors, and compiled for each level.
pub trait Vectors {
    /// Result type.
    type Output;

    /// Runs with a level's vectors, which all have a fused multiply-add. It and its callees should be
    /// `#[inline(always)]` or carry `#[simd]`.
    fn run<S: fearless_simd::Simd>(self, simd: S) -> Self::Output;

    /// Plain Rust version, which defines the meaning of [`Vectors::run`].
    fn scalar(self) -> Self::Output;
}

/// Runs one of two expressions by level: `at_level!(level, simd => vector, scalar)`.
///
/// The vector expression is compiled once for each level with that level's instructions enabled; `simd` is
/// bound to the token. Its callees must be `#[inline(always)]` or carry `#[simd]`, or they would be compiled
/// without those instructions.
macro_rules! at_level {
    ($level:expr, $simd:ident => $vector:expr, $scalar:expr) => {
        match $crate::Level::kind($level) {
            $crate::level::Kind::Scalar => $scalar,
            #[cfg(target_arch = "x86_64")]
            $crate::level::Kind::Avx2($simd) => fearless_simd::Simd::vectorize(
                $simd,
                #[inline(always)]
                || $vector,
            ),
            #[cfg(target_arch = "x86_64")]
            $crate::level::Kind::Avx512($simd) => fearless_simd::Simd::vectorize(
                $simd,
                #[inline(always)]
                || $vector,
            ),
            #[cfg(target_arch = "aarch64")]
            $crate::level::Kind::Neon($simd) => fearless_simd::Simd::vectorize(
                $simd,
                #[inline(always)]
                || $vector,
            ),
        }
    };
}
pub(crate) use at_level;

impl fmt::Debug for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl PartialEq for Level {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Eq for Level {}
