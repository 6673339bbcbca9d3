//! Beginning of a file on the web, fetched by ranges as needed.

use std::{
    io::Read,
    sync::{Arc, atomic::AtomicBool},
};

use ureq::http::Uri;

use super::{
    HubError, Repo, Settings,
    http::{Attempt, Client, escaped, text},
    transfer::{parse_range, plain_tag},
};

/// The fetched beginning of a file on the web.
pub struct RemoteHead {
    client: Client,
    address: Uri,
    bytes: Vec<u8>,
    /// Length in bytes, once known.
    n_bytes: Option<u64>,
    /// Tag of the first answer: bytes of two versions must not be mixed.
    tag: Option<String>,
}

impl RemoteHead {
    /// Creates the head of a file from its address: `http://` or `https://`, or
    /// `hf://OWNER/MODEL[@REVISION]/FILE` of the Hub. Nothing is fetched yet.
    ///
    /// # Errors
    /// [`HubError::Name`], [`HubError::Answer`] for an invalid address.
    pub fn new(settings: &Settings, address: &str, cancel: Arc<AtomicBool>) -> Result<RemoteHead, HubError> {
        let client = Client::new(settings, cancel)?;
        // The query of a download may contain a signature.
        let address = if Repo::is_address(address) && !address.contains('?') {
            let (repo, file) = file_of(address)?;
            let (id, revision) = (escaped(repo.id(), true), escaped(repo.revision(), false));
            client.address(&format!("/{id}/resolve/{revision}/{}", escaped(&file, true)))?
        } else {
            client.elsewhere(address)?
        };
        Ok(RemoteHead { client, address, bytes: Vec::new(), n_bytes: None, tag: None })
    }

    /// Bytes fetched so far.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Length of the file, once known.
    pub fn n_bytes(&self) -> Option<u64> {
        self.n_bytes
    }

    /// Fetches until the first `n_bytes` of the file, or the complete file, are available. Returns true if
    /// any bytes were added.
    ///
    /// # Errors
    /// [`HubError`].
    pub fn fetch(&mut self, n_bytes: u64) -> Result<bool, HubError> {
        let before = self.bytes.len() as u64;
        let end = self.n_bytes.map_or(n_bytes, |whole| whole.min(n_bytes));
        if end <= before {
            return Ok(false);
        }
        let RemoteHead { client, address, bytes, n_bytes, tag } = self;
        client.persist(|has_progress| {
            let begin = bytes.len() as u64;
            let mut answer = client.get(address, Some(&(begin..end)))?;
            let headers = answer.response.headers();
            if let Some(found) = text(headers, "etag").map(plain_tag) {
                let first = tag.get_or_insert_with(|| found.to_owned());
                if first != found {
                    return Err(Attempt::changed(address, "the tag", first, found));
                }
            }
            let is_range = answer.response.status().as_u16() == 206;
            let range = text(headers, "content-range").and_then(parse_range);
            let length = text(headers, "content-length").and_then(|length| length.parse().ok());
            match range {
                Some((first, _, whole)) if is_range && first == begin => *n_bytes = whole.or(*n_bytes),
                _ if is_range => {
                    return Err(Attempt::later(address, "the server returned a different range".to_owned()));
                }
                // The server sends the complete file.
                _ => *n_bytes = length.or(*n_bytes),
            }
            let mut body = answer.response.body_mut().as_reader();
            let mut skip = if is_range { 0 } else { begin };
            let mut piece = vec![0; 64 << 10];
            let end = n_bytes.map_or(end, |whole| whole.min(end));
            while (bytes.len() as u64) < end {
                client.check_cancelled().map_err(Attempt::Never)?;
                let limit = (skip + end - bytes.len() as u64).min(piece.len() as u64) as usize;
                match body.read(&mut piece[..limit]) {
                    // The end of a file whose length the server does not state.
                    Ok(0) if n_bytes.is_none() => break,
                    Ok(0) => {
                        let problem = format!("the connection ended at byte {}", bytes.len());
                        return Err(Attempt::later(address, problem));
                    }
                    Ok(n_read) => {
                        let skipped = skip.min(n_read as u64) as usize;
                        skip -= skipped as u64;
                        bytes.extend_from_slice(&piece[skipped..n_read]);
                        *has_progress |= n_read > skipped;
                    }
                    Err(error) => return Err(Attempt::later(address, error.to_string())),
                }
            }
            Ok(())
        })?;
        Ok(self.bytes.len() as u64 > before)
    }
}

/// Model and file of an address: `hf://OWNER/MODEL[@REVISION]/FILE`, or the page or the download of a file.
fn file_of(address: &str) -> Result<(Repo, String), HubError> {
    let wrong = || HubError::Name { text: address.to_owned(), reason: "write hf://OWNER/MODEL/FILE" };
    let (repo, file) = match address.strip_prefix("hf://").map(|path| path.splitn(3, '/').collect::<Vec<_>>())
    {
        Some(parts) if parts.len() == 3 => (Repo::parse(&parts[..2].join("/"))?, Some(parts[2].to_owned())),
        Some(_) => return Err(wrong()),
        None => Repo::parse_with_file(address)?,
    };
    let is_part = |part: &str| !(part.is_empty() || part == "." || part == "..");
    Ok((repo, file.filter(|file| file.split('/').all(is_part)).ok_or_else(wrong)?))
}
