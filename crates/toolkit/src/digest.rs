//! SHA-256 of files, in digits.

use std::{
    fs,
    io::{ErrorKind, Read},
    path::Path,
    sync::atomic::Ordering,
};

use gguf_types::hex;
use sha2::{Digest, Sha256};

use crate::{error::Error, events::Events};

/// SHA-256 of a file, in hexadecimal; a piece of it is in memory at a time.
///
/// # Errors
/// The file cannot be read.
pub fn sha256_of(path: &Path) -> Result<String, Error> {
    sha256_with(path, &())
}

/// As [`sha256_of`], with progress.
///
/// # Errors
/// As [`sha256_of`]; an interruption.
pub fn sha256_with(path: &Path, events: &dyn Events) -> Result<String, Error> {
    let cancel = events.cancel();
    let failed = |error| Error::cannot_open(path, error);
    let mut file = fs::File::open(path).map_err(failed)?;
    let progress = events.progress(file.metadata().map_err(failed)?.len());
    let (mut hasher, mut buffer) = (Sha256::new(), vec![0; 1 << 20]);
    loop {
        if cancel.load(Ordering::Relaxed) {
            return Err(Error::interrupted());
        }
        match file.read(&mut buffer) {
            Ok(0) => return Ok(hex(&hasher.finalize())),
            Ok(n) => {
                hasher.update(&buffer[..n]);
                progress.add(n as u64);
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(Error::at(path, format_args!("cannot read: {error}"))),
        }
    }
}
