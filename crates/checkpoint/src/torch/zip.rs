//! The archive that `torch.save` writes since torch 1.6.
//!
//! ```text
//! ROOT/data.pkl      the state dict, a pickle that names storages by key
//! ROOT/byteorder     `little`; older files lack it
//! ROOT/data/KEY      the bytes of one storage, as they are in memory
//! ROOT/version ...   ignored
//! ```
//!
//! Entries are stored without compression, so a storage is a range of the file. Sizes come from the directory
//! at the end: torch writes local headers without them. A compressed entry is refused, as are entries that
//! share bytes, by which a small file could claim to be a large one.
//!
//! Source: `_save` and `_load` in `serialization.py`, `serialize.cc` of torch 2.15.

use std::{collections::HashMap, ops::Range};

use rawzip::{CompressionMethod, ZipArchive};

use crate::pickle_error::ZipError;

/// First bytes of every such file.
pub(super) const MAGIC: &[u8] = b"PK\x03\x04";
const PICKLE: &str = "/data.pkl";

#[derive(Debug)]
pub(super) struct Archive {
    root: String,
    /// Byte ranges in the file, by name without the root.
    entries: HashMap<String, Range<u64>>,
}

/// Parses the directory of an archive and checks every entry.
pub(super) fn read(bytes: &[u8]) -> Result<Archive, ZipError> {
    let broken = |error: rawzip::Error| ZipError::Broken { problem: error.to_string() };
    let archive = ZipArchive::from_slice(bytes).map_err(broken)?;
    let mut all: Vec<(String, Range<u64>, u64)> = Vec::new();
    let mut directory = archive.entries();
    while let Some(header) = directory.next_entry().map_err(broken)? {
        let entry = std::str::from_utf8(header.file_path().as_bytes());
        let entry = entry.map_err(|error| ZipError::Broken { problem: error.to_string() })?.to_owned();
        let inner = entry.split_once('/').map_or("", |(_, inner)| inner);
        if inner == "constants.pkl" || inner.starts_with("code/") {
            return Err(ZipError::TorchScript { entry });
        }
        let is_stored = header.compression_method() == CompressionMethod::STORE
            && header.compressed_size_hint() == header.uncompressed_size_hint()
            && !header.flags().is_encrypted();
        if !is_stored {
            return Err(ZipError::NotStored { entry });
        }
        let local = header.local_header_offset();
        let Ok(found) = archive.get_entry(header.wayfinder()) else {
            let (begin, file_bytes) = (local, bytes.len() as u64);
            let end = begin.saturating_add(header.compressed_size_hint());
            return Err(ZipError::OutOfFile { entry, begin, end, file_bytes });
        };
        let (begin, end) = found.compressed_data_range();
        all.push((entry, begin..end, local));
    }
    check_overlaps(&mut all)?;
    let is_pickle = |entry: &&str| entry.ends_with(PICKLE);
    let mut pickles = all.iter().map(|(entry, ..)| entry.as_str()).filter(is_pickle);
    let root = match (pickles.next(), pickles.next()) {
        (Some(pickle), None) => pickle.strip_suffix(PICKLE).unwrap_or_default().to_owned(),
        (Some(_), Some(second)) => return Err(ZipError::Twice { entry: second.to_owned() }),
        _ => return Err(ZipError::Missing { entry: format!("*{PICKLE}") }),
    };
    let mut entries = HashMap::with_capacity(all.len());
    for (entry, range, _) in all {
        // Entries outside the root are not torch's.
        let Some(name) = entry.strip_prefix(&root).and_then(|name| name.strip_prefix('/')) else { continue };
        if entries.insert(name.to_owned(), range).is_some() {
            return Err(ZipError::Twice { entry });
        }
    }
    let archive = Archive { root, entries };
    archive.check_byte_order(bytes)?;
    Ok(archive)
}

/// Refuses entries that share bytes, including local headers.
fn check_overlaps(all: &mut [(String, Range<u64>, u64)]) -> Result<(), ZipError> {
    all.sort_by_key(|(_, range, local)| (*local, range.end));
    for pair in all.windows(2) {
        let ((first, range, _), (second, _, local)) = (&pair[0], &pair[1]);
        if *local < range.end {
            return Err(ZipError::Overlap { first: first.clone(), second: second.clone(), at: *local });
        }
    }
    Ok(())
}

impl Archive {
    /// Location of the bytes of `ROOT/name` in the file.
    pub fn entry(&self, name: &str) -> Result<Range<u64>, ZipError> {
        let range = self.entries.get(name).cloned();
        range.ok_or_else(|| ZipError::Missing { entry: format!("{}/{name}", self.root) })
    }

    fn check_byte_order(&self, bytes: &[u8]) -> Result<(), ZipError> {
        let Some(range) = self.entries.get("byteorder") else { return Ok(()) };
        // Inside the file, as checked by `read`.
        let text = String::from_utf8_lossy(&bytes[range.start as usize..range.end as usize]);
        if text.trim() == "little" {
            return Ok(());
        }
        let found = text.chars().take(16).collect();
        Err(ZipError::ByteOrder { entry: format!("{}/byteorder", self.root), found })
    }
}
