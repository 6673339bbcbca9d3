//! Bytes of files at offsets, on every system.

use std::{fs, io};

/// Writes `bytes` at `offset`, independently of other writers.
#[cfg(unix)]
pub(crate) fn write_all_at(file: &fs::File, bytes: &[u8], offset: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::write_all_at(file, bytes, offset)
}

/// Writes `bytes` at `offset`, independently of other writers.
#[cfg(windows)]
pub(crate) fn write_all_at(file: &fs::File, mut bytes: &[u8], mut offset: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        match std::os::windows::fs::FileExt::seek_write(file, bytes, offset) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(n) => {
                bytes = &bytes[n..];
                offset += n as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Number of bytes copied at a time if they have to be read.
const COPY_BYTES: u64 = 1 << 20;

/// Copies a range of one file to an offset in another.
pub(super) fn copy_range(
    source: &fs::File,
    mut from: u64,
    to: &fs::File,
    mut at: u64,
    mut len: u64,
) -> io::Result<()> {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    while len > 0 {
        use rustix::io::Errno;
        let wanted = usize::try_from(len).unwrap_or(usize::MAX);
        // Both offsets are advanced by the copied bytes.
        match rustix::fs::copy_file_range(source, Some(&mut from), to, Some(&mut at), wanted) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(copied) => len -= copied as u64,
            Err(Errno::INTR) => {}
            // Not every kernel and file system supports this; the rest is read and written.
            Err(Errno::XDEV | Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP | Errno::PERM | Errno::BADF) => {
                break;
            }
            Err(errno) => return Err(errno.into()),
        }
    }
    let mut buffer = vec![0; len.min(COPY_BYTES) as usize];
    while len > 0 {
        let piece = &mut buffer[..len.min(COPY_BYTES) as usize];
        read_exact_at(source, piece, from)?;
        write_all_at(to, piece, at)?;
        (from, at, len) = (from + piece.len() as u64, at + piece.len() as u64, len - piece.len() as u64);
    }
    Ok(())
}

/// Fills `buffer` with bytes from `offset` on.
#[cfg(unix)]
pub(crate) fn read_exact_at(file: &fs::File, buffer: &mut [u8], offset: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, buffer, offset)
}

/// Fills `buffer` with bytes from `offset` on.
#[cfg(windows)]
pub(crate) fn read_exact_at(file: &fs::File, mut buffer: &mut [u8], mut offset: u64) -> io::Result<()> {
    while !buffer.is_empty() {
        match std::os::windows::fs::FileExt::seek_read(file, buffer, offset) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(n) => {
                buffer = &mut buffer[n..];
                offset += n as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
