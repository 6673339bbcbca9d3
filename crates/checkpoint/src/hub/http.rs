//! Requests to the Hub: token, redirects, retries.

use std::{
    fs,
    io::{self, Read},
    ops::Range,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use ureq::{
    Agent, Body,
    http::{HeaderMap, Response, Uri, header, uri::Scheme},
    tls::{PemItem, RootCerts, TlsConfig, parse_pem},
};

use super::{HubError, Settings, without_secrets};

/// Maximum number of attempts for a request.
const MAX_ATTEMPTS: u32 = 7;
/// Delay before the first retry; it doubles with each attempt.
const FIRST_WAIT: Duration = Duration::from_millis(250);
/// Maximum delay between two attempts, whatever the Hub requests.
const LONGEST_WAIT: Duration = Duration::from_secs(300);
/// Maximum number of redirects per request.
const MAX_REDIRECTS: usize = 5;
/// A connection without data for this long counts as broken.
const SILENCE: Duration = Duration::from_secs(30);

/// Number of idle connections that are kept: one for each thread that fetches, and some to spare.
const MAX_IDLE: usize = 8;

pub(super) struct Client {
    agent: Agent,
    /// The Hub's scheme and authority: only it receives the token.
    hub: Uri,
    endpoint: String,
    token: Option<String>,
    /// Set from anywhere to stop.
    cancel: Arc<AtomicBool>,
    /// True after the first answer of a server.
    is_reached: AtomicBool,
}

/// Reason for a failed attempt.
pub(super) enum Attempt {
    /// Retry, after the time that the Hub requests.
    Later(HubError, Option<Duration>),
    Never(HubError),
}

impl Attempt {
    /// A failure that another attempt may resolve.
    pub fn later(uri: &Uri, problem: String) -> Attempt {
        Attempt::Later(answer_error(uri, problem), None)
    }

    /// The file has changed on the server.
    pub fn changed(uri: &Uri, property: &'static str, expected: &str, found: &str) -> Attempt {
        let (expected, found) = (expected.to_owned(), found.to_owned());
        Attempt::Never(HubError::Changed { address: shown(uri), property, expected, found })
    }
}

pub(super) struct Answer {
    /// Status 200 or 206.
    pub response: Response<Body>,
    pub uri: Uri,
    /// Headers of the Hub's own answer, if it redirected to another server.
    pub linked: Option<HeaderMap>,
}

impl Client {
    pub fn new(settings: &Settings, cancel: Arc<AtomicBool>) -> Result<Client, HubError> {
        let roots = match &settings.certificates {
            Some(file) => {
                certificates_in(file).map_err(|error| HubError::Io { path: file.clone(), error })?
            }
            None => RootCerts::WebPki,
        };
        let agent: Agent = Agent::config_builder()
            .tls_config(TlsConfig::builder().root_certs(roots).build())
            .http_status_as_error(false)
            // Redirects are followed here, to keep the signed address.
            .max_redirects(0)
            .user_agent(concat!("gguf-tools/", env!("CARGO_PKG_VERSION")))
            .max_idle_connections_per_host(MAX_IDLE)
            .timeout_connect(Some(SILENCE))
            .timeout_recv_response(Some(2 * SILENCE))
            .timeout_per_read(Some(SILENCE))
            .build()
            .into();
        let endpoint = settings.endpoint.clone();
        let hub = parse(&endpoint, &without_secrets(&endpoint))?;
        Ok(Client {
            agent,
            hub,
            endpoint,
            token: settings.token.read()?,
            cancel,
            is_reached: AtomicBool::new(false),
        })
    }

    /// An address of the Hub; `path` begins with a slash and is escaped.
    pub fn address(&self, path: &str) -> Result<Uri, HubError> {
        parse(&format!("{}{path}", self.endpoint), path)
    }

    /// An address on the Hub or elsewhere.
    pub fn elsewhere(&self, address: &str) -> Result<Uri, HubError> {
        parse(address, &without_secrets(address))
    }

    /// Calls `attempt` until it succeeds, fails for good, or has failed too often. Attempts that set the flag
    /// made progress and do not count.
    pub fn persist<T>(
        &self,
        mut attempt: impl FnMut(&mut bool) -> Result<T, Attempt>,
    ) -> Result<T, HubError> {
        let mut n_failed = 0;
        loop {
            self.check_cancelled()?;
            let mut has_progress = false;
            match attempt(&mut has_progress) {
                Ok(done) => return Ok(done),
                Err(Attempt::Never(error)) => return Err(error),
                Err(Attempt::Later(error, retry_after)) => {
                    if has_progress {
                        n_failed = 0;
                        continue;
                    }
                    n_failed += 1;
                    if n_failed >= MAX_ATTEMPTS {
                        return Err(error);
                    }
                    self.wait(retry_after.unwrap_or(FIRST_WAIT * (1 << (n_failed - 1))).min(LONGEST_WAIT))?;
                }
            }
        }
    }

    fn wait(&self, time: Duration) -> Result<(), HubError> {
        let until = Instant::now() + time;
        while let Some(left) = until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
            self.check_cancelled()?;
            thread::sleep(left.min(Duration::from_millis(100)));
        }
        Ok(())
    }

    pub fn check_cancelled(&self) -> Result<(), HubError> {
        if self.cancel.load(Ordering::Relaxed) { Err(HubError::Interrupted) } else { Ok(()) }
    }

    /// Requests `range` of `uri`, or the complete file, and follows redirects.
    pub fn get(&self, uri: &Uri, range: Option<&Range<u64>>) -> Result<Answer, Attempt> {
        let mut uri = uri.clone();
        let mut linked = None;
        for _ in 0..MAX_REDIRECTS {
            let response = self.send(&uri, range)?;
            match response.status().as_u16() {
                200 | 206 => return Ok(Answer { response, uri, linked }),
                301 | 302 | 303 | 307 | 308 => {
                    let next = self.target_of(&uri, &response)?;
                    if self.is_hub(&uri) && !self.is_hub(&next) {
                        linked = Some(response.headers().clone());
                    }
                    uri = next;
                }
                _ => return Err(self.failure(&uri, response)),
            }
        }
        let problem = format!("more than {MAX_REDIRECTS} redirects");
        Err(Attempt::Never(answer_error(&uri, problem)))
    }

    /// True for the Hub itself, false for servers that it redirects to.
    pub fn is_hub(&self, uri: &Uri) -> bool {
        let place = |uri: &Uri| (uri.scheme().cloned(), uri.host().map(str::to_lowercase), uri.port_u16());
        place(uri) == place(&self.hub)
    }

    fn send(&self, uri: &Uri, range: Option<&Range<u64>>) -> Result<Response<Body>, Attempt> {
        // Byte counts refer to the file, so the transfer must not be compressed.
        let mut request = self.agent.get(uri).header(header::ACCEPT_ENCODING, "identity");
        if let Some(Range { start, end }) = range {
            request = request.header(header::RANGE, format!("bytes={start}-{}", end.saturating_sub(1)));
        }
        if let Some(token) = self.token.as_ref().filter(|_| self.is_hub(uri)) {
            request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
        }
        let called = request.call();
        let is_unknown_host = called.as_ref().is_err_and(is_unknown_host);
        let is_reached = self.is_reached.fetch_or(called.is_ok(), Ordering::Relaxed);
        called.map_err(|error| {
            let error_text = answer_error(uri, error.to_string());
            match error {
                // Later in a run, the network may come back.
                error if is_unknown_host && !is_reached => {
                    let host = uri.host().unwrap_or_default();
                    Attempt::Never(answer_error(uri, format!("cannot reach {host}: {error}")))
                }
                // TLS problems have this kind; closed connections have others.
                ureq::Error::Io(error) if error.kind() == io::ErrorKind::InvalidData => {
                    Attempt::Never(HubError::Certificate { address: shown(uri), problem: error.to_string() })
                }
                ureq::Error::BadUri(_) | ureq::Error::Http(_) | ureq::Error::InvalidProxyUrl => {
                    Attempt::Never(error_text)
                }
                _ => Attempt::Later(error_text, None),
            }
        })
    }

    fn target_of(&self, from: &Uri, response: &Response<Body>) -> Result<Uri, Attempt> {
        let to = text(response.headers(), "location").unwrap_or_default();
        let redirect = |reason| {
            let to = without_secrets(to);
            Attempt::Never(HubError::Redirect { address: shown(from), to, reason })
        };
        let absolute = match (from.scheme(), from.authority()) {
            (Some(scheme), Some(authority)) if to.starts_with('/') && !to.starts_with("//") => {
                format!("{scheme}://{authority}{to}")
            }
            _ => to.to_owned(),
        };
        let next: Uri = absolute.parse().map_err(|_| redirect("which is not a valid URL"))?;
        match next.scheme() {
            Some(scheme) if *scheme == Scheme::HTTPS => Ok(next),
            Some(scheme) if *scheme == Scheme::HTTP && from.scheme() == Some(&Scheme::HTTP) => Ok(next),
            Some(scheme) if *scheme == Scheme::HTTP => Err(redirect("which is not encrypted")),
            _ => Err(redirect("which is not a web address")),
        }
    }

    /// Classifies a status other than success.
    fn failure(&self, uri: &Uri, mut response: Response<Body>) -> Attempt {
        let status = response.status().as_u16();
        let headers = response.headers();
        let is_hub = self.is_hub(uri);
        let code = text(headers, "x-error-code").unwrap_or_default().to_owned();
        let message = text(headers, "x-error-message").map(str::to_owned);
        let retry_after = text(headers, "retry-after").and_then(|seconds| seconds.trim().parse().ok());
        // A connection can be reused once its body was read; a long body is not worth reading.
        let _ = response.body_mut().as_reader().take(16 << 10).read_to_end(&mut Vec::new());
        match status {
            // From another server this status may mean that a signature has expired.
            401 | 403 | 404 | 410 if is_hub => {
                let meaning = match (status, code.as_str()) {
                    (_, "GatedRepo") => "the model is gated",
                    (_, "RevisionNotFound") => "no such revision",
                    (_, "EntryNotFound") => "no such file",
                    (401, _) => "no such model, or it is private",
                    (403, _) => "no access",
                    _ => "no such model",
                };
                let reason = message.unwrap_or_else(|| meaning.to_owned());
                let (has_token, is_gated) = (self.token.is_some(), code == "GatedRepo");
                let address = shown(uri);
                Attempt::Never(HubError::Refused { address, status, reason, has_token, is_gated })
            }
            _ => {
                let error = answer_error(uri, format!("the server returned status {status}"));
                match status {
                    401 | 403 | 404 | 408 | 410 | 429 | 500..=599 => {
                        Attempt::Later(error, retry_after.map(Duration::from_secs))
                    }
                    _ => Attempt::Never(error),
                }
            }
        }
    }

    /// Reads a complete answer of at most `limit` bytes.
    pub fn get_whole(&self, uri: &Uri, limit: u64) -> Result<(HeaderMap, Vec<u8>), HubError> {
        self.persist(|_| {
            let mut answer = self.get(uri, None)?;
            let mut bytes = Vec::new();
            let read = answer.response.body_mut().as_reader().take(limit + 1).read_to_end(&mut bytes);
            read.map_err(|error| Attempt::later(uri, error.to_string()))?;
            if bytes.len() as u64 > limit {
                let problem = format!("the response has more than {limit} bytes");
                return Err(Attempt::Never(answer_error(uri, problem)));
            }
            Ok((answer.response.headers().clone(), bytes))
        })
    }
}

/// True if the name of a server has no address. The standard library has no kind for it.
fn is_unknown_host(error: &ureq::Error) -> bool {
    match error {
        ureq::Error::HostNotFound => true,
        ureq::Error::Io(error) => error.to_string().starts_with("failed to lookup address information"),
        _ => false,
    }
}

fn certificates_in(file: &Path) -> io::Result<RootCerts> {
    let wrong = |reason: String| io::Error::new(io::ErrorKind::InvalidData, reason);
    let bytes = fs::read(file)?;
    let items = parse_pem(&bytes).collect::<Result<Vec<_>, _>>().map_err(|error| wrong(error.to_string()))?;
    let certificates = items.into_iter().filter_map(|item| match item {
        PemItem::Certificate(certificate) => Some(certificate),
        _ => None,
    });
    let certificates: Vec<_> = certificates.collect();
    if certificates.is_empty() {
        Err(wrong("it does not contain a certificate".to_owned()))
    } else {
        Ok(RootCerts::from(certificates))
    }
}

pub(super) fn answer_error(uri: &Uri, problem: String) -> HubError {
    HubError::Answer { address: shown(uri), problem }
}

/// An address without possible secrets.
pub(super) fn shown(uri: &Uri) -> String {
    without_secrets(&uri.to_string())
}

pub(super) fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

fn parse(address: &str, shown: &str) -> Result<Uri, HubError> {
    let wrong =
        || HubError::Answer { address: shown.to_owned(), problem: "it is not a valid URL".to_owned() };
    let uri: Uri = address.parse().map_err(|_| wrong())?;
    if uri.scheme().is_none() || uri.host().is_none() { Err(wrong()) } else { Ok(uri) }
}

/// Escapes text for a path: everything but letters, digits and `-_.~`, and slashes too unless
/// `keeps_slashes`.
pub(super) fn escaped(text: &str, keeps_slashes: bool) -> String {
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || b"-_.~".contains(&b) || (keeps_slashes && b == b'/');
    text.bytes().map(|b| if is_plain(b) { char::from(b).to_string() } else { format!("%{b:02X}") }).collect()
}
