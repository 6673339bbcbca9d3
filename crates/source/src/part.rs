//! Weights files and ranges of their bytes.

use std::ops::Range;

use gguf::Mapped;

use crate::ReadError;

/// A weights file.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Part {
    /// Its name.
    pub file: String,
    /// Its bytes, mapped.
    pub bytes: Mapped,
}

/// Bytes of one weights file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    /// Index into [`Checkpoint::parts`](crate::Checkpoint::parts).
    pub part: usize,
    /// From the start of the file.
    pub bytes: Range<u64>,
}

impl Part {
    /// Bytes `range` of the file.
    ///
    /// # Errors
    /// [`ReadError::OutOfFile`] where the file is shorter.
    pub fn slice(&self, range: Range<u64>) -> Result<&[u8], ReadError> {
        let len = self.bytes.len() as u64;
        if range.start > range.end || range.end > len {
            let file = self.file.clone();
            return Err(ReadError::OutOfFile { file, begin: range.start, end: range.end, len });
        }
        // At most the length of a map, which is a usize.
        Ok(&self.bytes[range.start as usize..range.end as usize])
    }
}

impl Span {
    /// The bytes themselves.
    ///
    /// # Errors
    /// [`ReadError::PartMissing`] and whatever hinders a file that is fetched piece by piece.
    pub fn of<'a>(&self, parts: &'a [Part]) -> Result<&'a [u8], ReadError> {
        let part = parts.get(self.part).ok_or(ReadError::PartMissing { part: self.part })?;
        part.slice(self.bytes.clone())
    }

    /// Bytes `range` of it, counted from its own start.
    pub fn part_of(&self, range: Range<u64>) -> Span {
        let place = |byte: u64| (self.bytes.start + byte).min(self.bytes.end);
        Span { part: self.part, bytes: place(range.start)..place(range.end) }
    }
}
