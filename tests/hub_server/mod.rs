//! A Hub of one model, `org/MODEL`, and a storage on another port that its weights are redirected to, as the real one
//! does; both over plain HTTP on this machine. The storage fails on purpose.

use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    path::Path,
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

use sha1::Digest;

pub const COMMIT: &str = "89abcdef0123456789abcdef0123456789abcdef";
pub const TOKEN: &str = "hf_secret";

/// Fault of the storage in a request for weights.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// Ends the connection after this many bytes of the body.
    Cut(usize),
    /// Answers with a status and a header line.
    Status(u16, &'static str),
    /// Sends the entire file whatever range is asked for.
    IgnoreRange,
    /// As that, and ends the connection after this many bytes.
    IgnoreRangeAndCut(usize),
    /// Sends the body in pieces with a pause between them.
    Slow,
    /// Says nothing for as long as the test runs.
    Hang,
    /// Sends a range that begins a byte later.
    OtherRange,
    /// States another length of the entire file.
    OtherLength,
    /// Sends another tag than before.
    OtherTag,
    /// Changes a byte.
    OtherByte,
    /// Redirects to this address.
    Redirect(String),
}

/// One request, as it came.
#[derive(Debug, Clone)]
pub struct Request {
    /// True if it reached the storage.
    pub at_storage: bool,
    pub path: String,
    pub range: Option<(usize, usize)>,
    pub token: Option<String>,
}

#[derive(Default)]
struct State {
    /// Path to bytes.
    files: BTreeMap<String, Vec<u8>>,
    /// Files in large file storage; others come from the Hub itself.
    large: Option<fn(&str) -> bool>,
    /// Faults of the storage: each with the number of affected requests.
    faults: Vec<(Fault, usize)>,
    /// Faults of the Hub.
    hub_faults: Vec<(Fault, usize)>,
    log: Vec<Request>,
    /// Signatures count; the storage takes those from this one on.
    signature: usize,
    valid_from: usize,
    storage: String,
    needs_token: bool,
}

impl State {
    fn is_large(&self, path: &str) -> bool {
        self.large.is_some_and(|is_large| is_large(path))
    }
}

#[derive(Clone)]
pub struct HubServer {
    pub endpoint: String,
    state: Arc<Mutex<State>>,
}

/// Files of a folder and of those in it, by path.
fn files_of(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if path.is_dir() {
            files
                .extend(files_of(&path).into_iter().map(|(inner, bytes)| (format!("{name}/{inner}"), bytes)));
        } else {
            files.insert(name, fs::read(&path).unwrap());
        }
    }
    files
}

impl HubServer {
    /// Serves the files of a folder. Files for which `is_large` is true are in the storage.
    pub fn of(folder: &Path, is_large: fn(&str) -> bool) -> HubServer {
        let files = files_of(folder);
        let state = Arc::new(Mutex::new(State { files, large: Some(is_large), ..State::default() }));
        let listen = |at_storage| {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = format!("http://{}", listener.local_addr().unwrap());
            let state = Arc::clone(&state);
            thread::spawn(move || {
                for stream in listener.incoming().flatten() {
                    let state = Arc::clone(&state);
                    thread::spawn(move || drop(serve(&stream, &state, at_storage)));
                }
            });
            address
        };
        state.lock().unwrap().storage = listen(true);
        HubServer { endpoint: listen(false), state }
    }

    /// From now on this goes wrong at the storage, for this many requests of weights.
    pub fn fail(&self, fault: Fault, times: usize) {
        self.state.lock().unwrap().faults.push((fault, times));
    }

    /// The same for requests of files and listings at the Hub itself.
    pub fn fail_at_hub(&self, fault: Fault, times: usize) {
        self.state.lock().unwrap().hub_faults.push((fault, times));
    }

    /// Ends all faults and forgets all requests.
    pub fn reset(&self) {
        let mut state = self.state.lock().unwrap();
        (state.faults, state.hub_faults, state.log) = Default::default();
    }

    /// Only who gives the token is answered.
    pub fn need_token(&self) {
        self.state.lock().unwrap().needs_token = true;
    }

    /// Addresses that were signed until now are of no use any more.
    pub fn expire_signatures(&self) {
        let mut state = self.state.lock().unwrap();
        state.valid_from = state.signature + 1;
    }

    pub fn log(&self) -> Vec<Request> {
        self.state.lock().unwrap().log.clone()
    }
}

fn sha256(bytes: &[u8]) -> String {
    gguf_testkit::sha256(bytes)
}

fn git(bytes: &[u8]) -> String {
    let mut hash = sha1::Sha1::new();
    hash.update(format!("blob {}\0", bytes.len()));
    hash.update(bytes);
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Takes the fault that is due; none where nothing is wrong.
fn next_fault(faults: &mut Vec<(Fault, usize)>) -> Option<Fault> {
    let (fault, left) = faults.first_mut()?;
    let fault = fault.clone();
    *left -= 1;
    if *left == 0 {
        faults.remove(0);
    }
    Some(fault)
}

/// Reads one request.
fn read_request(stream: &TcpStream, at_storage: bool) -> std::io::Result<Request> {
    let mut lines = BufReader::new(stream).lines();
    let first = lines.next().unwrap_or(Ok(String::new()))?;
    let path = first.split(' ').nth(1).unwrap_or_default().to_owned();
    let (mut range, mut token) = (None, None);
    for line in lines {
        let line = line?;
        let Some((name, value)) = line.split_once(": ") else { break };
        match name.to_lowercase().as_str() {
            "range" => {
                let (first, last) = value.strip_prefix("bytes=").unwrap().split_once('-').unwrap();
                range = Some((first.parse().unwrap(), last.parse::<usize>().unwrap() + 1));
            }
            "authorization" => token = value.strip_prefix("Bearer ").map(str::to_owned),
            _ => {}
        }
    }
    Ok(Request { at_storage, path, range, token })
}

fn plain(mut stream: &TcpStream, status: u16, header: &str, body: &str) -> std::io::Result<()> {
    let length = body.len();
    write!(
        stream,
        "HTTP/1.1 {status} X\r\nContent-Length: {length}\r\nConnection: close\r\n{header}\r\n{body}"
    )
}

/// Answers one request.
fn serve(stream: &TcpStream, state: &Mutex<State>, at_storage: bool) -> std::io::Result<()> {
    let request = read_request(stream, at_storage)?;
    let Request { path, range, token, .. } = request.clone();
    let mut state = state.lock().unwrap();
    state.log.push(request);
    let fault = next_fault(if at_storage { &mut state.faults } else { &mut state.hub_faults });
    match &fault {
        Some(Fault::Status(status, header)) => return plain(stream, *status, &format!("{header}\r\n"), "no"),
        Some(Fault::Redirect(to)) => return plain(stream, 302, &format!("Location: {to}\r\n"), ""),
        _ => {}
    }
    if !at_storage && state.needs_token && token.as_deref() != Some(TOKEN) {
        return plain(stream, 401, "X-Error-Code: GatedRepo\r\n", "no");
    }
    if !at_storage && !path.contains("/resolve/") {
        return list(stream, &state, &path);
    }
    let address = path.split('?').next().unwrap();
    // PLACE/resolve/REVISION/FILE; the storage has only the name.
    let file = address.split_once("/resolve/").and_then(|(_, rest)| rest.split_once('/'));
    let name = file.map_or_else(|| address.rsplit('/').next().unwrap(), |(_, name)| name).to_owned();
    let Some(bytes) = state.files.get(&name).cloned() else { return plain(stream, 404, "", "") };
    if !at_storage && state.is_large(&name) {
        state.signature += 1;
        let (storage, signature) = (&state.storage, state.signature);
        let tag = sha256(&bytes);
        let header = format!(
            "Location: {storage}/signed/{name}?signature={signature}\r\nX-Linked-Etag: \"{tag}\"\r\nX-Repo-Commit: {COMMIT}\r\n"
        );
        return plain(stream, 302, &header, "");
    }
    if at_storage {
        let signature: usize = path.rsplit('=').next().unwrap().parse().unwrap();
        if signature < state.valid_from {
            return plain(stream, 403, "", "expired");
        }
    }
    drop(state);
    if fault == Some(Fault::Hang) {
        loop {
            thread::park();
        }
    }
    send(stream, bytes, range, fault)
}

/// Answers a request for revisions or for names of files, in two pages.
fn list(stream: &TcpStream, state: &State, path: &str) -> std::io::Result<()> {
    match path.split('?').next().unwrap() {
        "/api/models/org/model/revision/main" => plain(stream, 200, "", &format!(r#"{{"sha": "{COMMIT}"}}"#)),
        tree if tree == format!("/api/models/org/model/tree/{COMMIT}") => {
            let half = state.files.len() / 2;
            let is_second = path.contains("cursor=2");
            let entries = state.files.iter().enumerate();
            let page = entries.filter(|(i, _)| (*i >= half) == is_second).map(|(_, (path, bytes))| {
                let lfs = state
                    .is_large(path)
                    .then(|| format!(r#", "lfs": {{"oid": "{}", "size": {}}}"#, sha256(bytes), bytes.len()));
                let (oid, size, lfs) = (git(bytes), bytes.len(), lfs.unwrap_or_default());
                format!(r#"{{"type": "file", "path": "{path}", "size": {size}, "oid": "{oid}"{lfs}}}"#)
            });
            let body = format!("[{}]", page.collect::<Vec<_>>().join(", "));
            let link = format!("Link: <http://{}{path}&cursor=2>; rel=\"next\"\r\n", stream.local_addr()?);
            plain(stream, 200, if is_second { "" } else { &link }, &body)
        }
        "/api/models/org/model/revision/none" => plain(
            stream,
            404,
            "X-Error-Code: RevisionNotFound\r\nX-Error-Message: Invalid rev id: none\r\n",
            "",
        ),
        _ => plain(stream, 401, "", ""),
    }
}

/// Sends a file or a range of it, with what goes wrong.
fn send(
    mut stream: &TcpStream,
    mut bytes: Vec<u8>,
    range: Option<(usize, usize)>,
    fault: Option<Fault>,
) -> std::io::Result<()> {
    let length = bytes.len();
    let tag =
        if fault == Some(Fault::OtherTag) { "other".to_owned() } else { sha256(&bytes)[..32].to_owned() };
    let range = range.filter(|_| !matches!(fault, Some(Fault::IgnoreRange | Fault::IgnoreRangeAndCut(_))));
    let mut head = format!("Connection: close\r\nETag: \"{tag}\"\r\n");
    if fault == Some(Fault::OtherByte) {
        bytes[length / 2] ^= 1;
    }
    let (status, body) = match range {
        Some((first, end)) => {
            let first = if fault == Some(Fault::OtherRange) { first + 1 } else { first };
            let stated = if fault == Some(Fault::OtherLength) { length + 1 } else { length };
            let end = end.min(length);
            head += &format!("Content-Range: bytes {first}-{}/{stated}\r\n", end - 1);
            (206, &bytes[first..end])
        }
        None => (200, &bytes[..]),
    };
    let n_bytes = body.len();
    write!(stream, "HTTP/1.1 {status} OK\r\nContent-Length: {n_bytes}\r\n{head}\r\n")?;
    match fault {
        Some(Fault::Cut(after) | Fault::IgnoreRangeAndCut(after)) => {
            stream.write_all(&body[..after.min(n_bytes)])?
        }
        Some(Fault::Slow) => {
            for piece in body.chunks(n_bytes.div_ceil(8).max(1)) {
                stream.write_all(piece)?;
                stream.flush()?;
                thread::sleep(Duration::from_millis(20));
            }
        }
        _ => stream.write_all(body)?,
    }
    stream.flush()?;
    stream.shutdown(std::net::Shutdown::Write)?;
    // Closing with bytes unread would reset the connection, and what was sent with it.
    let _ = stream.take(1 << 16).read_to_end(&mut Vec::new());
    Ok(())
}
