//! Files with text: option files, and texts that a model reads.

use std::{
    collections::HashSet,
    fs,
    path::{Path, PathBuf},
};

use gguf_container::{BrokenDownload, Metadata, Value};

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
        events.warning(format!("{}: {problem}; the bytes are tokenized unchanged", path.display()));
    }
    Ok(bytes)
}

/// Warns about texts to measure on that the files are also made with: on other text, results are worse. Returns these texts.
pub fn warn_of_overlap(
    measured: &[impl AsRef<Path>],
    made: &[impl AsRef<Path>],
    events: &dyn Events,
) -> Vec<PathBuf> {
    // Files that cannot be read are reported by their reader.
    let read = |path: &Path| Some((path.to_owned(), fs::read(path).ok()?));
    let made: Vec<_> = made.iter().filter_map(|path| read(path.as_ref())).collect();
    let mut found = Vec::new();
    for (path, text) in measured.iter().filter_map(|path| read(path.as_ref())) {
        let Some((other, _)) = made.iter().find(|(_, other)| overlap(&text, other)) else { continue };
        let is_same = fs::canonicalize(&path).ok() == fs::canonicalize(other).ok();
        let other = if is_same { String::new() } else { format!(" ({})", other.display()) };
        events.warning(format!(
            "{}: measured on a text that the files are made with{other}; results on other text are worse",
            path.display()
        ));
        found.push(path);
    }
    found
}

/// Warns if a file states that its importance matrix is from a text of this name.
pub fn warn_of_dataset(file: &Path, metadata: &Metadata, text: &Path, events: &dyn Events) {
    let dataset = metadata.get("quantize.imatrix.dataset").and_then(Value::as_str);
    if dataset.is_some_and(|dataset| Path::new(dataset).file_name() == text.file_name()) {
        events.warning(format!(
            "{}: made with an importance matrix of `{}`; results on other text are worse",
            file.display(),
            text.display()
        ));
    }
}

/// Minimum length of a line that identifies its text, in bytes.
const TELLING_LINE_BYTES: usize = 32;

/// True if two texts are equal, or if most of the smaller one, by its long lines, is in the other.
fn overlap(a: &[u8], b: &[u8]) -> bool {
    if a == b {
        return true;
    }
    let (small, large) = if a.len() < b.len() { (a, b) } else { (b, a) };
    let lines = |text| <[u8]>::split(text, |byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    let is_telling = |line: &&[u8]| line.len() >= TELLING_LINE_BYTES;
    let known: HashSet<&[u8]> = lines(large).filter(is_telling).collect();
    let mut n_bytes = 0;
    let mut n_shared = 0;
    for line in lines(small).filter(is_telling) {
        n_bytes += line.len();
        n_shared += if known.contains(line) { line.len() } else { 0 };
    }
    2 * n_shared > n_bytes
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
    fn texts_overlap_by_content() {
        let line = |n: usize| format!("This is the sentence with the number {n} of a longer text.\n");
        let text = |lines: std::ops::Range<usize>| lines.map(line).collect::<String>().into_bytes();
        assert!(overlap(b"short", b"short"));
        assert!(overlap(&text(0..10), &text(5..40)) == overlap(&text(5..40), &text(0..10)));
        assert!(overlap(&text(0..10), &text(0..40)), "one is the beginning of the other");
        assert!(!overlap(&text(0..10), &text(10..40)));
        assert!(!overlap(&text(0..10), &text(6..40)), "less than half of it");
        assert!(!overlap(b"short", b"other"));
    }

    #[test]
    fn encodings_are_recognized() {
        assert_eq!(problem("Zürich \u{feff}".as_bytes()), None);
        assert!(problem(b"\xff\xfea\0").is_some_and(|problem| problem.contains("UTF-16")));
        assert!(problem(b"a\0b\0c\0d\0").is_some_and(|problem| problem.contains("zero bytes")));
        assert!(problem(b"Z\xfcrich").is_some_and(|problem| problem.ends_with("offset 1")));
    }
}
