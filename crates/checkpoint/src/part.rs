//! Weights files and ranges of their bytes.

use std::{borrow::Cow, collections::BTreeMap, fmt, ops::Range, sync::Arc};

use gguf_container::{Advice, Mapped};

use crate::ReadError;

/// A weights file.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Part {
    /// File name.
    pub file: String,
    /// Header entries besides tensors, if the format has them: `__metadata__` of safetensors.
    pub metadata: BTreeMap<String, String>,
    bytes: Bytes,
}

/// Bytes with another owner. They must not change while they are used.
pub type SharedBytes = Arc<dyn AsRef<[u8]> + Send + Sync>;

#[derive(Debug, Clone)]
enum Bytes {
    Mapped(Mapped),
    Fetched(Arc<dyn Fetched>),
    Shared(Shared),
}

#[derive(Clone)]
struct Shared(SharedBytes);

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes in memory", (*self.0).as_ref().len())
    }
}

/// A weights file that is fetched on demand.
pub(crate) trait Fetched: fmt::Debug + Send + Sync {
    fn n_bytes(&self) -> u64;

    /// Copies bytes `range`, which is inside the file; waits until they have arrived.
    fn read(&self, range: Range<u64>) -> Result<Vec<u8>, ReadError>;

    /// Announces the use of bytes `range`: [`Advice::WillNeed`] starts to fetch them, and must be followed by
    /// one [`Advice::DoneWith`] of the same range, after which the bytes may be released.
    fn advise(&self, advice: Advice, range: Range<u64>);
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
    pub(crate) fn mapped(file: String, bytes: Mapped) -> Part {
        Part { file, metadata: BTreeMap::new(), bytes: Bytes::Mapped(bytes) }
    }

    pub(crate) fn fetched(file: String, bytes: Arc<dyn Fetched>) -> Part {
        Part { file, metadata: BTreeMap::new(), bytes: Bytes::Fetched(bytes) }
    }

    /// Bytes in memory, with a name for messages.
    pub(crate) fn shared(file: String, bytes: SharedBytes) -> Part {
        Part { file, metadata: BTreeMap::new(), bytes: Bytes::Shared(Shared(bytes)) }
    }

    /// Length in bytes.
    pub fn n_bytes(&self) -> u64 {
        match &self.bytes {
            Bytes::Mapped(bytes) => bytes.len() as u64,
            Bytes::Fetched(bytes) => bytes.n_bytes(),
            Bytes::Shared(Shared(bytes)) => (**bytes).as_ref().len() as u64,
        }
    }

    /// Bytes `range` of the file; waits for fetched bytes, and copies them.
    ///
    /// # Errors
    /// [`ReadError::OutOfFile`] if the file is shorter, [`ReadError::NotFetched`],
    /// [`ReadError::Interrupted`].
    pub fn slice(&self, range: Range<u64>) -> Result<Cow<'_, [u8]>, ReadError> {
        let len = self.n_bytes();
        if range.start > range.end || range.end > len {
            let file = self.file.clone();
            return Err(ReadError::OutOfFile { file, begin: range.start, end: range.end, len });
        }
        match &self.bytes {
            // At most the length of a map, which is a usize.
            Bytes::Mapped(bytes) => Ok(Cow::Borrowed(&bytes[range.start as usize..range.end as usize])),
            Bytes::Fetched(bytes) => bytes.read(range).map(Cow::Owned),
            // An owner may return fewer bytes than before.
            Bytes::Shared(Shared(bytes)) => {
                let bytes = (**bytes).as_ref();
                let found = bytes.get(range.start as usize..range.end as usize).map(Cow::Borrowed);
                found.ok_or_else(|| ReadError::OutOfFile {
                    file: self.file.clone(),
                    begin: range.start,
                    end: range.end,
                    len: bytes.len() as u64,
                })
            }
        }
    }

    /// The complete file if it is on disk; `None` if it is fetched or in memory.
    pub fn local(&self) -> Option<&Mapped> {
        match &self.bytes {
            Bytes::Mapped(bytes) => Some(bytes),
            Bytes::Fetched(_) | Bytes::Shared(_) => None,
        }
    }

    /// True if its bytes are fetched on demand.
    pub fn is_fetched(&self) -> bool {
        matches!(self.bytes, Bytes::Fetched(_))
    }

    /// Advises the system about the use of bytes `range`. For a fetched file, each [`Advice::WillNeed`] must
    /// be followed by one [`Advice::DoneWith`] of the same range, sent after the last use of its slices.
    pub fn advise_bytes(&self, advice: Advice, range: Range<u64>) {
        match &self.bytes {
            Bytes::Mapped(bytes) => bytes.advise(advice, range.start as usize..range.end as usize),
            Bytes::Fetched(bytes) => bytes.advise(advice, range),
            Bytes::Shared(_) => {}
        }
    }
}

impl Span {
    /// Reads the bytes.
    ///
    /// # Errors
    /// [`ReadError::PartMissing`], and errors of fetching.
    pub fn of<'a>(&self, parts: &'a [Part]) -> Result<Cow<'a, [u8]>, ReadError> {
        let part = parts.get(self.part).ok_or(ReadError::PartMissing { part: self.part })?;
        part.slice(self.bytes.clone())
    }

    /// Bytes `range`, counted from the start of the span.
    pub fn part_of(&self, range: Range<u64>) -> Span {
        let place = |byte: u64| (self.bytes.start + byte).min(self.bytes.end);
        Span { part: self.part, bytes: place(range.start)..place(range.end) }
    }
}
