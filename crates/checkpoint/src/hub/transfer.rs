//! Random access to the bytes of one file of the Hub, with retries.

use std::{
    io::Read,
    ops::Range,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use ureq::http::{HeaderMap, Uri};

use super::{
    HubError, Repo,
    http::{Answer, Attempt, Client, escaped, text},
    listing::Entry,
};

/// Bytes that are read from a connection at a time.
const PIECE_BYTES: usize = 64 << 10;

pub(super) struct RemoteFile {
    client: Arc<Client>,
    entry: Entry,
    address: Uri,
    /// Last redirect target, which is valid for some time.
    signed: Mutex<Option<Uri>>,
    /// Host and tag of the first answer: bytes of two files must not be mixed.
    tag: Mutex<Option<(String, String)>>,
    /// True if the server answered a range request with the complete file.
    ignores_ranges: AtomicBool,
}

/// Body of an answer, opened for reading.
struct Opened {
    answer: Answer,
    /// Position in the file of its first byte.
    begin: u64,
}

/// Receives bytes of a file, each once and in order, with the position of the first.
pub(super) type Sink<'a> = dyn FnMut(u64, &[u8]) -> Result<(), HubError> + 'a;

impl RemoteFile {
    pub fn new(client: Arc<Client>, repo: &Repo, commit: &str, entry: Entry) -> Result<RemoteFile, HubError> {
        let (id, path) = (escaped(repo.id(), true), escaped(&entry.path, true));
        let address = client.address(&format!("/{id}/resolve/{commit}/{path}"))?;
        let (signed, tag, ignores_ranges) = (Mutex::new(None), Mutex::new(None), AtomicBool::new(false));
        Ok(RemoteFile { client, entry, address, signed, tag, ignores_ranges })
    }

    pub fn entry(&self) -> &Entry {
        &self.entry
    }

    /// True if the run was cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.client.check_cancelled().is_err()
    }

    /// True if the server answers range requests with complete files.
    pub fn ignores_ranges(&self) -> bool {
        self.ignores_ranges.load(Ordering::Relaxed)
    }

    /// Sends bytes `range` to `sink`. A broken connection is reopened at the next missing byte.
    pub fn read(&self, range: Range<u64>, sink: &mut Sink<'_>) -> Result<(), HubError> {
        let mut next = range.start;
        if range.is_empty() {
            return Ok(());
        }
        self.client.persist(|has_progress| self.attempt(&mut next, range.end, sink, has_progress))
    }

    /// One connection, from `next` on.
    fn attempt(
        &self,
        next: &mut u64,
        end: u64,
        sink: &mut Sink<'_>,
        has_progress: &mut bool,
    ) -> Result<(), Attempt> {
        let Opened { mut answer, begin } = self.open(*next..end)?;
        let is_range = answer.response.status().as_u16() == 206;
        let mut reader = answer.response.body_mut().as_reader();
        let mut piece = vec![0; PIECE_BYTES];
        let mut place = begin;
        while *next < end {
            self.client.check_cancelled().map_err(Attempt::Never)?;
            // Reading beyond the range would make the connection useless.
            let limit = piece.len().min((end - place) as usize);
            let n_bytes = match reader.read(&mut piece[..limit]) {
                Ok(0) => return Err(self.later(format!("the connection ended at byte {place} of {end}"))),
                Ok(n_bytes) => n_bytes,
                Err(error) => return Err(self.later(format!("at byte {place}: {error}"))),
            };
            let received = place..place + n_bytes as u64;
            place = received.end;
            // If ranges are ignored, the bytes before the range come first.
            if received.end > *next {
                let new = &piece[(*next - received.start.min(*next)) as usize..n_bytes];
                let skipped = (n_bytes - new.len()) as u64;
                sink(received.start + skipped, new).map_err(Attempt::Never)?;
                *next = received.end;
                *has_progress = true;
            }
        }
        if is_range {
            // A connection can only be reused once the end of its body was read. The bytes themselves do not
            // matter.
            let _ = reader.read(&mut piece[..1]);
        }
        Ok(())
    }

    /// Requests a range from the last redirect target or from the Hub.
    fn open(&self, range: Range<u64>) -> Result<Opened, Attempt> {
        let signed = self.signed().clone();
        let uri = signed.as_ref().unwrap_or(&self.address);
        let answer = self.client.get(uri, Some(&range)).inspect_err(|_| *self.signed() = None)?;
        if let Some(linked) = &answer.linked {
            self.check_linked(linked)?;
        }
        self.check_tag(&answer)?;
        let begin = self.check_range(&answer, &range)?;
        *self.signed() = (!self.client.is_hub(&answer.uri)).then(|| answer.uri.clone());
        Ok(Opened { answer, begin })
    }

    /// Checks by the Hub's headers that the target of a redirect is the listed file.
    fn check_linked(&self, headers: &HeaderMap) -> Result<(), Attempt> {
        let listed = self.entry.checksum.digits();
        let is_alike = |tag: &&str| tag.len() == listed.len() && tag.bytes().all(|b| b.is_ascii_hexdigit());
        match text(headers, "x-linked-etag").map(plain_tag).filter(is_alike) {
            Some(tag) if !tag.eq_ignore_ascii_case(listed) => Err(self.changed("the tag", listed, tag)),
            _ => Ok(()),
        }
    }

    /// Checks that the tag of a file stays the same while the same host answers.
    fn check_tag(&self, answer: &Answer) -> Result<(), Attempt> {
        let Some(tag) = text(answer.response.headers(), "etag").map(plain_tag) else { return Ok(()) };
        let host = answer.uri.host().unwrap_or_default();
        let mut first = self.tag.lock().unwrap_or_else(PoisonError::into_inner);
        match &*first {
            Some((first_host, first_tag)) if first_host == host && first_tag != tag => {
                Err(self.changed("the tag", first_tag, tag))
            }
            Some((first_host, _)) if first_host == host => Ok(()),
            _ => {
                *first = Some((host.to_owned(), tag.to_owned()));
                Ok(())
            }
        }
    }

    /// Checks that an answer has the requested range or the complete file, and returns the position of its
    /// first byte.
    fn check_range(&self, answer: &Answer, range: &Range<u64>) -> Result<u64, Attempt> {
        let n_bytes = self.entry.n_bytes;
        let headers = answer.response.headers();
        if text(headers, "content-encoding").is_some_and(|encoding| encoding != "identity") {
            return Err(self.later("the server returned an unexpected encoding".to_owned()));
        }
        if answer.response.status().as_u16() == 200 {
            let length = text(headers, "content-length").and_then(|length| length.parse::<u64>().ok());
            if let Some(length) = length.filter(|length| *length != n_bytes) {
                return Err(self.changed("the length", &n_bytes.to_string(), &length.to_string()));
            }
            if *range != (0..n_bytes) {
                self.ignores_ranges.store(true, Ordering::Relaxed);
            }
            return Ok(0);
        }
        let received = text(headers, "content-range").unwrap_or_default();
        let Some((first, last, length)) = parse_range(received) else {
            return Err(self.later(format!("invalid byte range `{received}`")));
        };
        if let Some(length) = length.filter(|length| *length != n_bytes) {
            return Err(self.changed("the length", &n_bytes.to_string(), &length.to_string()));
        }
        if first != range.start || last >= range.end {
            let requested = format!("bytes {} to {}", range.start, range.end - 1);
            return Err(self.later(format!("expected bytes {requested}, found {first} to {last}")));
        }
        Ok(first)
    }

    fn signed(&self) -> MutexGuard<'_, Option<Uri>> {
        self.signed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn later(&self, problem: String) -> Attempt {
        Attempt::later(&self.address, problem)
    }

    fn changed(&self, property: &'static str, expected: &str, found: &str) -> Attempt {
        Attempt::changed(&self.address, property, expected, found)
    }
}

/// A tag without quotes and without the prefix of weak ones.
pub(super) fn plain_tag(tag: &str) -> &str {
    tag.trim().trim_start_matches("W/").trim_matches('"')
}

/// First and last byte, and the length of the file if stated, of `bytes FIRST-LAST/LENGTH`.
pub(super) fn parse_range(text: &str) -> Option<(u64, u64, Option<u64>)> {
    let (range, length) = text.trim().strip_prefix("bytes")?.trim_start().split_once('/')?;
    let (first, last) = range.split_once('-')?;
    let length = if length == "*" { None } else { Some(length.parse().ok()?) };
    Some((first.parse().ok()?, last.parse().ok()?, length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_and_tags_are_parsed() {
        assert_eq!(parse_range("bytes 0-7/100"), Some((0, 7, Some(100))));
        assert_eq!(parse_range("bytes 5-9/*"), Some((5, 9, None)));
        for odd in ["", "bytes", "bytes */100", "bytes 1-x/3", "lines 0-1/2", "bytes 0-1"] {
            assert_eq!(parse_range(odd), None, "{odd}");
        }
        assert_eq!((plain_tag("\"ab\""), plain_tag("W/\"ab\""), plain_tag("ab")), ("ab", "ab", "ab"));
    }
}
