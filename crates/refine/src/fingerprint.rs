//! What tells one model from another.

use eval::Model;
use gguf::Mapped;
use sha2::{Digest, Sha256};

/// Pieces of each file's data that are looked at, and their bytes: a few megabytes at most.
const N_SAMPLES: usize = 256;
const SAMPLE_BYTES: usize = 4096;

/// Length and a digest of the headers of a model and of some of its data.
pub fn fingerprint(model: &Model) -> String {
    let shards = model.file().shards().iter();
    fingerprint_of(shards.map(|(_, file)| (file.bytes(), file.data_offset() as usize)))
}

/// The same of files, each with the length of its header.
pub fn fingerprint_of<'a>(files: impl Iterator<Item = (&'a Mapped, usize)>) -> String {
    let mut digest = Sha256::new();
    let mut n_bytes = 0u64;
    for (bytes, data_offset) in files {
        n_bytes += bytes.len() as u64;
        let data_offset = data_offset.min(bytes.len());
        digest.update((bytes.len() as u64).to_le_bytes());
        digest.update(&bytes[..data_offset]);
        // Pieces at equal distances, so that files of one shape and other weights are told apart without being read.
        let data = &bytes[data_offset..];
        let step = (data.len() / N_SAMPLES).max(SAMPLE_BYTES);
        for start in (0..data.len()).step_by(step) {
            digest.update(&data[start..(start + SAMPLE_BYTES).min(data.len())]);
        }
    }
    format!("{n_bytes} bytes, SHA-256 {}", hex(&digest.finalize()))
}

/// Bytes as digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
