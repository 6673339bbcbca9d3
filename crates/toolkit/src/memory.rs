//! Memory of this machine, and the file type that suits it.

use std::{
    hint::black_box,
    sync::atomic::{AtomicUsize, Ordering},
    time::Instant,
};

use gguf_conversion::{Conversion, Input, recipes::Recipe};
use gguf_types::{Words, words};
use sysinfo::{MemoryRefreshKind, System};

use crate::{cause::Cause, error::Error, file_type::FileType, text::human_bytes, threads::useful_threads};

/// Types that [`suited`] chooses from in order of preference, with the largest share of the memory that a file may take, in percent.
///
/// Four bits are the usual trade-off, so a file with more bits must be small: it takes more memory and is slower. The rest of the
/// memory is for the KV cache, buffers and other programs.
pub const SHARES: [(FileType, u64); 6] = [
    (FileType::Q8_0, 25),
    (FileType::Q6_K, 25),
    (FileType::Q5_K_M, 25),
    (FileType::Q4_K_M, 65),
    (FileType::Q3_K_M, 65),
    (FileType::Q2_K, 80),
];

/// Bytes of a q4_k_m file of a model with a billion parameters, at 4.88 bits for each.
const SMALL_AT_FOUR_BITS: u64 = 610_000_000;

/// Memory of this machine in bytes, or the limit of its container if that is lower; `None` if the system does not report it.
///
/// # Examples
/// ```
/// assert!(gguf_toolkit::memory::total().is_none_or(|bytes| bytes > 0));
/// ```
pub fn total() -> Option<u64> {
    let mut system = System::new();
    system.refresh_memory_specifics(MemoryRefreshKind::nothing().with_ram());
    let bytes = system.total_memory();
    if bytes == 0 {
        return None;
    }
    Some(system.cgroup_limits().map_or(bytes, |limits| limits.total_memory.min(bytes)))
}

/// Bytes per second that all threads together read from memory, measured for a fraction of a second. Each call gives another value.
pub(crate) fn bandwidth() -> f64 {
    /// More than caches hold.
    const N_BYTES: u64 = 256 << 20;
    const N_PASSES: usize = 3;
    /// Words that a thread takes at a time.
    const PIECE: usize = 1 << 17;
    let n_bytes = total().map_or(N_BYTES, |total| N_BYTES.min(total / 16));
    let words = vec![1u64; n_bytes as usize / size_of::<u64>()];
    let pieces: Vec<&[u64]> = words.chunks(PIECE).collect();
    let pass = |_| {
        let next = AtomicUsize::new(0);
        let start = Instant::now();
        gguf_container::run_in_threads(useful_threads(None), || {
            while let Some(piece) = pieces.get(next.fetch_add(1, Ordering::Relaxed)) {
                black_box(sum(piece));
            }
        });
        n_bytes as f64 / start.elapsed().as_secs_f64()
    };
    (0..N_PASSES).map(pass).fold(0.0, f64::max)
}

/// Sum of words, as independent sums that do not wait for each other.
fn sum(words: &[u64]) -> u64 {
    let mut sums = [0u64; 8];
    for eight in words.as_chunks::<8>().0 {
        sums.iter_mut().zip(eight).for_each(|(sum, word)| *sum = sum.wrapping_add(*word));
    }
    sums.into_iter().fold(0, u64::wrapping_add)
}

/// Length of a file of a type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TypeSize {
    /// The type.
    pub file_type: FileType,
    /// Length of the file in bytes.
    pub n_bytes: u64,
}

impl TypeSize {
    /// True if the file takes at most this share of the memory.
    fn is_within(&self, percent: u64, memory: u64) -> bool {
        u128::from(self.n_bytes) * 100 <= u128::from(memory) * u128::from(percent)
    }
}

/// The types that [`suited`] chooses from, best first.
pub(crate) fn types() -> impl Iterator<Item = (FileType, &'static Recipe)> {
    SHARES.into_iter().filter_map(|(file_type, _)| Some((file_type, file_type.recipe()?)))
}

/// Length of all files of a conversion.
///
/// # Errors
/// A plan that cannot be made.
pub(crate) fn n_bytes<I: Input>(conversion: &Conversion<'_, I>) -> Result<u64, gguf_conversion::Error> {
    Ok(conversion.plan()?.files().iter().map(|file| file.plan.file_len()).sum())
}

/// The file type for a memory size, with the size of its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Suited {
    /// The type.
    pub file_type: FileType,
    /// Size of the file in bytes.
    pub n_bytes: u64,
    /// The memory in bytes.
    pub memory: u64,
    /// The type for other needs: the best one that fits, or q4_k_m instead of q8_0.
    pub other: Option<TypeSize>,
}

impl Suited {
    /// One line for people: the type, its size and the alternative.
    pub fn words(&self) -> Words {
        let Suited { file_type, n_bytes, memory, other } = self;
        let chosen = words!(
            "type {}: file of {} for {} of memory",
            file_type,
            human_bytes(*n_bytes),
            human_bytes(*memory)
        );
        let Some(other) = other else { return chosen };
        let purpose = if *file_type == FileType::Q8_0 { "smaller" } else { "best quality" };
        let line =
            chosen + words!("; {}: [-type {}] ({})", purpose, other.file_type, human_bytes(other.n_bytes));
        let chosen = TypeSize { file_type: *file_type, n_bytes: *n_bytes };
        let is_small =
            |size: &TypeSize| size.file_type == FileType::Q4_K_M && size.n_bytes < SMALL_AT_FOUR_BITS;
        if [&chosen, other].into_iter().any(is_small) {
            return line + words!("; small models lose noticeably at 4 bits");
        }
        line
    }
}

/// Chooses the first type of [`SHARES`] whose file is small enough for a machine with `memory` bytes. `n_bytes` returns the size of
/// a file by its type.
///
/// # Errors
/// A model that is too large for the memory, or an error of `n_bytes`.
///
/// # Examples
/// ```
/// use gguf_toolkit::{FileType, memory};
///
/// # fn main() -> Result<(), gguf_toolkit::Error> {
/// // A model of 8 billion parameters.
/// let n_bytes = |file_type| match file_type {
///     FileType::Q8_0 => Ok(8_540_000_000),
///     FileType::Q6_K => Ok(6_600_000_000),
///     FileType::Q5_K_M => Ok(5_730_000_000),
///     FileType::Q4_K_M => Ok(4_920_000_000),
///     _ => Ok(4_020_000_000),
/// };
/// assert_eq!(memory::suited(16_000_000_000, n_bytes)?.file_type, FileType::Q4_K_M);
/// assert_eq!(memory::suited(32_000_000_000, n_bytes)?.file_type, FileType::Q6_K);
/// # Ok(())
/// # }
/// ```
pub fn suited(memory: u64, mut n_bytes: impl FnMut(FileType) -> Result<u64, Error>) -> Result<Suited, Error> {
    let [.., (_, most)] = SHARES;
    let mut larger: Vec<TypeSize> = Vec::new();
    for (file_type, percent) in SHARES {
        let size = TypeSize { file_type, n_bytes: n_bytes(file_type)? };
        if size.is_within(percent, memory) {
            let other = if larger.is_empty() {
                let file_type = FileType::Q4_K_M;
                Some(TypeSize { file_type, n_bytes: n_bytes(file_type)? })
            } else {
                larger.into_iter().find(|size| size.is_within(most, memory))
            };
            return Ok(Suited { file_type, n_bytes: size.n_bytes, memory, other });
        }
        larger.push(size);
    }
    let smallest = larger.last().map_or(0, |size| size.n_bytes);
    let message = format!("model too large for {} of memory", human_bytes(memory));
    Err(Error::new(message).hint([words!(
        "a file of type q2_k has {}; to write it nevertheless, use [-type q2_k]",
        human_bytes(smallest)
    )]))
}

/// The file type for `memory` or, by default, for the memory of this machine.
///
/// # Errors
/// As [`suited`]; [`Cause::NoType`] if the memory is unknown.
pub(crate) fn suited_here(
    memory: Option<u64>,
    mut n_bytes: impl FnMut(&'static Recipe) -> Result<u64, Error>,
) -> Result<Suited, Error> {
    let memory = memory.or_else(total).ok_or_else(|| Error::usage(Cause::NoType))?;
    suited(memory, |file_type| n_bytes(file_type.recipe().ok_or_else(|| Error::usage(Cause::NoType))?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Billions of bytes of a model with this many billions of parameters.
    fn sizes(billions: u64) -> impl FnMut(FileType) -> Result<u64, Error> {
        move |file_type| {
            let bits = match file_type {
                FileType::Q8_0 => 850,
                FileType::Q6_K => 656,
                FileType::Q5_K_M => 569,
                FileType::Q4_K_M => 489,
                FileType::Q3_K_M => 400,
                _ => 316,
            };
            Ok(billions * 1_000_000_000 * bits / 800)
        }
    }

    #[test]
    fn usual_models_get_expected_types() {
        let name = |billions, gigabytes: u64| {
            suited(gigabytes * 1_000_000_000, sizes(billions)).map(|suited| suited.file_type.to_string())
        };
        for (billions, gigabytes, expected) in [
            (1, 8, "q8_0"),
            (3, 16, "q8_0"),
            (8, 8, "q4_k_m"),
            (8, 16, "q4_k_m"),
            (8, 32, "q6_k"),
            (8, 64, "q8_0"),
            (14, 16, "q4_k_m"),
            (32, 32, "q4_k_m"),
        ] {
            assert_eq!(name(billions, gigabytes).unwrap(), expected, "{billions} B in {gigabytes} GB");
        }
        assert_eq!(name(20, 8).unwrap_err().to_string(), "model too large for 8.00 GB of memory");
        assert_eq!(name(20, 10).unwrap(), "q2_k");
    }

    #[test]
    fn line_names_the_alternative() {
        let text = |gigabytes: u64| {
            suited(gigabytes * 1_000_000_000, sizes(8)).map(|suited| suited.words().to_string()).unwrap()
        };
        // Only a type that fits.
        for (gigabytes, expected) in [
            (
                64,
                words!("type q8_0: file of 8.50 GB for 64.0 GB of memory; smaller: [-type q4_k_m] (4.89 GB)"),
            ),
            (
                16,
                words!(
                    "type q4_k_m: file of 4.89 GB for 16.0 GB of memory; best quality: [-type q8_0] (8.50 GB)"
                ),
            ),
            (
                8,
                words!(
                    "type q4_k_m: file of 4.89 GB for 8.00 GB of memory; best quality: [-type q5_k_m] (5.69 GB)"
                ),
            ),
            (4, words!("type q2_k: file of 3.16 GB for 4.00 GB of memory")),
        ] {
            assert_eq!(text(gigabytes), expected.to_string());
        }
    }
}
