//! Files with text: option files, and texts that a model reads.

use std::{fs, path::Path};

use gguf_container::BrokenDownload;

use crate::{error::Error, events::Events};

/// The bytes of a file with text.
///
/// # Errors
/// A file that cannot be read, or the remains of a broken download.
pub fn bytes(path: &Path) -> Result<Vec<u8>, Error> {
    let bytes = fs::read(path).map_err(|error| Error::cannot_open(path, error))?;
    // A web page may be the intended text.
    match BrokenDownload::of(&bytes).filter(|kind| *kind != BrokenDownload::WebPage) {
        Some(kind) => {
            Err(Error::at(path, format_args!("{}, expected a text", kind.name())).hint([kind.hint()]))
        }
        None => Ok(bytes),
    }
}

/// The text of an option file, without a UTF-8 byte order mark.
///
/// # Errors
/// A file that cannot be read or is not UTF-8.
pub fn options(path: &Path) -> Result<String, Error> {
    let bytes = bytes(path)?;
    if is_utf16(&bytes) {
        return Err(Error::at(path, "expected UTF-8, found UTF-16").hint(["save the file as UTF-8"]));
    }
    let text = String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        Error::at(path, format!("expected UTF-8, found an invalid byte at offset {at}"))
    })?;
    Ok(text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text))
}

/// The bytes of a text that a model reads. Warns if they are not UTF-8, since the bytes are tokenized unchanged.
///
/// # Errors
/// A file that cannot be read.
pub fn of_model(path: &Path, events: &dyn Events) -> Result<Vec<u8>, Error> {
    let bytes = bytes(path)?;
    if let Some(problem) = problem(&bytes) {
        events.warning(&format!("{}: {problem}; the bytes are tokenized unchanged", path.display()));
    }
    Ok(bytes)
}

fn is_utf16(bytes: &[u8]) -> bool {
    bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff])
}

/// Problem with the encoding of a text.
fn problem(bytes: &[u8]) -> Option<String> {
    if is_utf16(bytes) {
        return Some("expected UTF-8, found UTF-16".to_owned());
    }
    if let Err(error) = std::str::from_utf8(bytes) {
        return Some(format!("expected UTF-8, found an invalid byte at offset {}", error.valid_up_to()));
    }
    // Letters of UTF-16 have a zero byte each.
    let n_zeros = bytes.iter().take(4096).filter(|byte| **byte == 0).count();
    (n_zeros * 4 > bytes.len().min(4096))
        .then(|| "the file has many zero bytes and may be UTF-16 or binary".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encodings_are_recognized() {
        assert_eq!(problem("Zürich \u{feff}".as_bytes()), None);
        assert!(problem(b"\xff\xfea\0").is_some_and(|problem| problem.contains("UTF-16")));
        assert!(problem(b"a\0b\0c\0d\0").is_some_and(|problem| problem.contains("zero bytes")));
        assert!(problem(b"Z\xfcrich").is_some_and(|problem| problem.ends_with("offset 1")));
    }
}
