//! SHA-256 of files, in digits.

use std::{
    fs,
    io::{ErrorKind, Read},
    path::Path,
};

use sha2::{Digest, Sha256};

use crate::error::Error;

/// Bytes as hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// SHA-256 of a file, in hexadecimal; a piece of it is in memory at a time.
///
/// # Errors
/// The file cannot be read.
pub fn sha256_of(path: &Path) -> Result<String, Error> {
    let mut file = fs::File::open(path).map_err(|error| Error::cannot_open(path, error))?;
    let (mut hasher, mut buffer) = (Sha256::new(), vec![0; 1 << 20]);
    loop {
        match file.read(&mut buffer) {
            Ok(0) => break,
            Ok(n) => hasher.update(&buffer[..n]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(Error::at(path, format_args!("cannot read: {error}"))),
        }
    }
    Ok(hex(&hasher.finalize()))
}
