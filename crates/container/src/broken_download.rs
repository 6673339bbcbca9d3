//! Detection of files left by broken downloads, by their first bytes.

/// A file that a broken download leaves instead of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum BrokenDownload {
    /// The text file that Git LFS leaves in place of a large file.
    LfsPointer,
    /// A web page, such as that of a login or of an error.
    WebPage,
    /// Preallocated space that was never written.
    Zeros,
}

/// First bytes of a Git LFS pointer (`docs/spec.md` of git-lfs).
const LFS_POINTER: &[u8] = b"version https://git-lfs.github.com/spec/";
/// Maximum length of a Git LFS pointer, in bytes.
const LFS_POINTER_BYTES: usize = 1024;
/// Number of zeros that identify an unwritten file.
const N_ZEROS: usize = 64;

impl BrokenDownload {
    /// Kind of a file that begins with these bytes, or `None` for other content. 2048 bytes are enough.
    ///
    /// ```
    /// let page = b"<!DOCTYPE html><html>";
    /// assert_eq!(gguf_container::BrokenDownload::of(page), Some(gguf_container::BrokenDownload::WebPage));
    /// assert_eq!(gguf_container::BrokenDownload::of(b"GGUF"), None);
    /// ```
    pub fn of(bytes: &[u8]) -> Option<BrokenDownload> {
        let text = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes).trim_ascii_start();
        let begins = |with: &str| {
            text.get(..with.len()).is_some_and(|start| start.eq_ignore_ascii_case(with.as_bytes()))
        };
        match bytes {
            _ if bytes.len() < LFS_POINTER_BYTES && bytes.starts_with(LFS_POINTER) => {
                Some(BrokenDownload::LfsPointer)
            }
            _ if begins("<!doctype html") || begins("<html") || begins("<head") => {
                Some(BrokenDownload::WebPage)
            }
            _ if bytes.get(..N_ZEROS).is_some_and(|start| start.iter().all(|byte| *byte == 0)) => {
                Some(BrokenDownload::Zeros)
            }
            _ => None,
        }
    }

    /// Name of this kind of file, for error messages.
    pub fn name(self) -> &'static str {
        match self {
            BrokenDownload::LfsPointer => "a Git LFS pointer",
            BrokenDownload::WebPage => "an HTML page",
            BrokenDownload::Zeros => "a file that starts with zeros",
        }
    }

    /// Advice for the user.
    pub fn hint(self) -> &'static str {
        match self {
            BrokenDownload::LfsPointer => "run `git lfs pull`, or download the file again",
            BrokenDownload::WebPage => {
                "download the file again, using the link to the file and not to its web page"
            }
            BrokenDownload::Zeros => "the download did not complete; download the file again",
        }
    }
}
