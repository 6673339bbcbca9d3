use gguf_container::{Advice, Mapped};
use gguf_runtime::Model;
use twox_hash::XxHash3_128;

/// Bytes that are digested while the next ones are fetched.
const PIECE_BYTES: usize = 64 << 20;

/// Length and digest of all bytes of a model. Any changed weight gives another fingerprint.
///
/// Callers read all weights anyway. File lengths and times would be faster but less reliable: a copy is the
/// same model, and a file that is overwritten within one clock tick is not.
pub fn fingerprint(model: &Model) -> String {
    let adapters = model.adapters();
    let files = [model.file()].into_iter().chain(adapters.iter().map(|(adapter, _)| adapter.model()));
    let shards = files.flat_map(|file| file.shards());
    let files = fingerprint_of(shards.map(|(_, file)| file.bytes()));
    adapters.iter().fold(files, |files, (_, scale)| files + &format!(", adapter times {scale}"))
}

/// Fingerprint of several files.
pub fn fingerprint_of<'a>(files: impl Iterator<Item = &'a Mapped>) -> String {
    // Fast, not cryptographic: statistics are not a security boundary.
    let mut digest = XxHash3_128::new();
    let mut n_bytes = 0;
    for file in files {
        n_bytes += file.len();
        // The length marks the boundary between files.
        digest.write(&(file.len() as u64).to_le_bytes());
        for start in (0..file.len()).step_by(PIECE_BYTES) {
            let end = (start + PIECE_BYTES).min(file.len());
            file.advise(Advice::WillNeed, end..(end + PIECE_BYTES).min(file.len()));
            digest.write(&file[start..end]);
        }
    }
    format!("{n_bytes} bytes, XXH3 {:032x}", digest.finish_128())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_byte_or_boundary_changes_fingerprint() {
        let of = |files: &[&[u8]]| {
            let files: Vec<Mapped> = files.iter().map(|bytes| Mapped::from(bytes.to_vec())).collect();
            fingerprint_of(files.iter())
        };
        // Longer than two pieces, with a partial last piece.
        let mut bytes = vec![7; 2 * PIECE_BYTES + 12_345];
        let before = of(&[&bytes]);
        assert!(before.starts_with(&format!("{} bytes, XXH3 ", bytes.len())), "{before}");
        for at in [0, 5000, PIECE_BYTES - 1, PIECE_BYTES, PIECE_BYTES + 77_777, bytes.len() - 1] {
            bytes[at] ^= 1;
            assert_ne!(of(&[&bytes]), before, "{at}");
            bytes[at] ^= 1;
        }
        assert_eq!(of(&[&bytes]), before);
        assert_ne!(of(&[&bytes[..100], &bytes[100..]]), before);
        assert_ne!(of(&[&bytes[..100], &bytes[100..]]), of(&[&bytes[..200], &bytes[200..]]));
    }
}
