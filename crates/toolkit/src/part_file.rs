//! Part files: exact measurements of one of several machines, so that all parts together give the result of a
//! single run.
//!
//! ```text
//! "gguf-tools part\n"
//! u64 header_bytes, header           JSON
//! measurements                       depend on the verb
//! SHA-256 of everything before       32 bytes
//! ```
//!
//! Numbers are little-endian.

use std::{
    ops::Range,
    path::{Path, PathBuf},
};

use gguf_container::{Mapped, PartNumber};
use gguf_quant::Level;
use gguf_runtime::chunks::Chunk;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use crate::{error::Error, events::Events, outputs::write_result};

const MAGIC: &[u8; 16] = b"gguf-tools part\n";
const DIGEST_BYTES: usize = 32;

/// Options of one part of a measurement that several machines share.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PartOptions {
    /// Number of the part, `2/8` in text.
    #[serde(with = "number_as_text")]
    pub number: PartNumber,
    /// File to write.
    pub output: PathBuf,
    /// Overwrite an existing `output`.
    #[serde(default)]
    pub force: bool,
    /// Folder for a result whose file cannot be written. An empty path is the current folder.
    #[serde(default)]
    pub rescue: PathBuf,
}

/// Warns of a part without chunks. Chunks that are computed together stay together, so that all parts give the digits of one run.
pub fn warn_if_empty(number: PartNumber, chunks: &Range<usize>, events: &dyn Events) {
    if chunks.is_empty() {
        events.warning(format!(
            "part {number} has no chunks: there are fewer groups of chunks that are computed together than parts; use fewer parts"
        ));
    }
}

impl PartOptions {
    /// A part that is written to `output`, which must not exist.
    pub fn new(number: PartNumber, output: impl Into<PathBuf>) -> PartOptions {
        PartOptions { number, output: output.into(), force: false, rescue: PathBuf::new() }
    }
}

/// Part numbers in the form of the command line.
mod number_as_text {
    use gguf_container::PartNumber;
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub fn serialize<S: Serializer>(number: &PartNumber, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(number)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PartNumber, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

/// Header of a part file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Header {
    /// The verb that measured.
    pub verb: String,
    /// The version of the program.
    pub program: String,
    /// Number of the part, from 1.
    pub part: u32,
    /// Number of parts.
    pub parts: u32,
    /// CPU level of the kernels, for information; metrics do not depend on it.
    pub cpu: String,
    /// The windows of this part, counted from 0.
    pub windows: Range<usize>,
    /// Windows of all parts.
    pub n_windows: usize,
    /// Settings that the metrics depend on: the same in all parts of a run.
    pub run: Map<String, Value>,
    /// Facts about the run: paths as given.
    #[serde(rename = "told")]
    pub facts: Value,
}

/// A part that was read.
#[derive(Debug)]
pub struct PartFile {
    /// Its path.
    pub path: PathBuf,
    /// Its header.
    pub header: Header,
    bytes: Mapped,
    payload: Range<usize>,
}

/// A part to be written.
pub struct NewPart<'a> {
    /// The verb that measures.
    pub verb: &'a str,
    /// The chunks of this part, counted from 0.
    pub windows: Range<usize>,
    /// Chunks of all parts.
    pub n_windows: usize,
    /// Settings that the metrics depend on.
    pub run: Value,
    /// Facts about the run: paths as given.
    pub facts: Value,
}

impl NewPart<'_> {
    /// Writes the file whole or not at all.
    ///
    /// # Errors
    /// As [`write_result`].
    pub fn write(self, payload: &[u8], part: &PartOptions, events: &dyn Events) -> Result<(), Error> {
        let PartOptions { number, output: path, force, rescue } = part;
        let run = match self.run {
            Value::Object(run) => run,
            other => Map::from_iter([("run".to_owned(), other)]),
        };
        let header = Header {
            verb: self.verb.to_owned(),
            program: env!("CARGO_PKG_VERSION").to_owned(),
            part: number.number(),
            parts: number.count(),
            cpu: Level::detect().name().to_owned(),
            windows: self.windows.clone(),
            n_windows: self.n_windows,
            run,
            facts: self.facts,
        };
        let header = serde_json::to_vec(&header).map_err(Error::new)?;
        let mut bytes = MAGIC.to_vec();
        bytes.extend((header.len() as u64).to_le_bytes());
        bytes.extend(header);
        bytes.extend(payload);
        let digest = Sha256::digest(&bytes);
        bytes.extend(digest);
        write_result(path, &bytes, *force, rescue)?;
        let windows = self.windows.len();
        events.status(format!(
            "wrote {}: part {number}, {windows} of {} chunks",
            path.display(),
            self.n_windows
        ));
        Ok(())
    }
}

/// True if a file starts like a part file.
pub fn is_part(path: &Path) -> bool {
    Mapped::open(path).is_ok_and(|bytes| bytes.starts_with(MAGIC))
}

impl PartFile {
    fn open(path: &Path, verb: &str) -> Result<PartFile, Error> {
        PartFile::parse(path, Mapped::open(path).map_err(|error| Error::cannot_open(path, error))?, verb)
    }

    /// Parses the bytes of the file at `path`.
    ///
    /// # Errors
    /// A file that is not a part, is damaged, or belongs to another verb.
    pub fn parse(path: &Path, bytes: Mapped, verb: &str) -> Result<PartFile, Error> {
        let failed = |message: String| Error::at(path, message);
        if !bytes.starts_with(MAGIC) {
            return Err(failed("not a part file of gguf-eval".to_owned()));
        }
        // The digest is checked first because it detects every truncation and change.
        let Some((content, digest)) = bytes.split_last_chunk::<DIGEST_BYTES>() else {
            return Err(failed(format!("the file ends after {} bytes", bytes.len())));
        };
        if Sha256::digest(content).as_slice() != digest {
            return Err(failed("SHA-256 mismatch: the file is truncated or damaged".to_owned()));
        }
        let start = MAGIC.len() + 8;
        let header_bytes = content.get(MAGIC.len()..start).and_then(|bytes| {
            let n_bytes = u64::from_le_bytes(bytes.try_into().ok()?);
            usize::try_from(n_bytes).ok()
        });
        let end = header_bytes.and_then(|n_bytes| start.checked_add(n_bytes));
        let header = end.and_then(|end| content.get(start..end));
        let (Some(header), Some(end)) = (header, end) else {
            return Err(failed("the file ends inside its header".to_owned()));
        };
        let header: Header =
            serde_json::from_slice(header).map_err(|error| failed(format!("invalid header: {error}")))?;
        if header.verb != verb {
            return Err(failed(format!("expected a part of `{verb}`, found a part of `{}`", header.verb)));
        }
        if PartNumber::new(header.part, header.parts).is_none() {
            return Err(failed(format!("part {} of {} is out of range", header.part, header.parts)));
        }
        if header.windows.start > header.windows.end || header.windows.end > header.n_windows {
            return Err(failed(format!("chunks {:?} of {}", header.windows, header.n_windows)));
        }
        let payload = end..content.len();
        Ok(PartFile { path: path.to_owned(), header, bytes: bytes.clone(), payload })
    }

    /// The measurements.
    pub fn payload(&self) -> &[u8] {
        &self.bytes[self.payload.clone()]
    }

    /// The measurements, if they have this many bytes for each chunk.
    ///
    /// # Errors
    /// Another length.
    pub fn payload_of(&self, window_bytes: usize) -> Result<&[u8], Error> {
        let expected = self.header.windows.len().checked_mul(window_bytes);
        if expected != Some(self.payload.len()) {
            let (windows, found) = (self.header.windows.len(), self.payload.len());
            return Err(Error::at(
                &self.path,
                format_args!("invalid length: {found} bytes for {windows} chunks"),
            ));
        }
        Ok(self.payload())
    }

    /// A setting of the run.
    ///
    /// # Errors
    /// A file without it.
    pub fn setting<T: for<'de> Deserialize<'de>>(&self, name: &str) -> Result<T, Error> {
        let value = self.header.run.get(name).cloned().unwrap_or(Value::Null);
        serde_json::from_value(value)
            .map_err(|error| Error::at(&self.path, format_args!("`{name}`: {error}")))
    }

    /// Facts about the run.
    ///
    /// # Errors
    /// A file of another form.
    pub fn facts<T: for<'de> Deserialize<'de>>(&self) -> Result<T, Error> {
        let facts = self.header.facts.clone();
        serde_json::from_value(facts).map_err(|error| Error::at(&self.path, error))
    }
}

/// Opens the files of all parts of a run, in the order of the parts.
///
/// # Errors
/// A damaged file or one of another kind; parts of different runs; a duplicate or missing part.
pub fn open_all(paths: &[PathBuf], verb: &str) -> Result<Vec<PartFile>, Error> {
    let mut parts: Vec<PartFile> =
        paths.iter().map(|path| PartFile::open(path, verb)).collect::<Result<_, Error>>()?;
    let Some(first) = parts.first() else { return Err(Error::usage("no parts")) };
    for other in &parts[1..] {
        same_run(first, other)?;
    }
    parts.sort_by_key(|part| part.header.part);
    let count = parts.first().map_or(0, |part| part.header.parts);
    let mut neighbours = parts.iter().zip(parts.iter().skip(1));
    if let Some((a, b)) = neighbours.find(|(a, b)| a.header.part == b.header.part) {
        let message = format!("duplicate part {}/{count}: {}", b.header.part, a.path.display());
        return Err(Error::at(&b.path, message));
    }
    let is_there = |number: &u32| parts.iter().any(|part| part.header.part == *number);
    let missing: Vec<String> =
        (1..=count).filter(|number| !is_there(number)).map(|number| number.to_string()).collect();
    if !missing.is_empty() {
        let (noun, verb) = if missing.len() == 1 { ("part", "is") } else { ("parts", "are") };
        return Err(Error::new(format_args!("{noun} {} of {count} {verb} missing", missing.join(", "))));
    }
    // Parts of one run are contiguous; a gap or an overlap comes from another program.
    let mut end = 0;
    for part in &parts {
        if part.header.windows.start != end {
            let message =
                format!("expected chunks from {end}, found chunks from {}", part.header.windows.start);
            return Err(Error::at(&part.path, message));
        }
        end = part.header.windows.end;
    }
    if let Some(last) = parts.last().filter(|last| last.header.n_windows != end) {
        let message = format!("expected chunks up to {}, found chunks up to {end}", last.header.n_windows);
        return Err(Error::at(&last.path, message));
    }
    Ok(parts)
}

/// Fails unless two parts are of one run.
fn same_run(first: &PartFile, other: &PartFile) -> Result<(), Error> {
    let (a, b) = (&first.header, &other.header);
    let differs = |what: &str, a: &dyn std::fmt::Display, b: &dyn std::fmt::Display| {
        let message = format!("part of another run: {what} {b}, but {a} in {}", first.path.display());
        Err(Error::at(&other.path, message))
    };
    if a.program != b.program {
        return differs("its program is", &a.program, &b.program);
    }
    if a.parts != b.parts {
        return differs("the number of its parts is", &a.parts, &b.parts);
    }
    if a.n_windows != b.n_windows {
        return differs("its number of chunks is", &a.n_windows, &b.n_windows);
    }
    let names = a.run.keys().chain(b.run.keys().filter(|name| !a.run.contains_key(*name)));
    for name in names {
        let (a, b) = (a.run.get(name).unwrap_or(&Value::Null), b.run.get(name).unwrap_or(&Value::Null));
        if a != b {
            return differs(&format!("its `{name}` is"), a, b);
        }
    }
    Ok(())
}

/// Fingerprint of a file without a header.
///
/// # Errors
/// A file that cannot be opened.
pub fn fingerprint_of_file(path: &Path) -> Result<String, Error> {
    let bytes = Mapped::open(path).map_err(|error| Error::cannot_open(path, error))?;
    Ok(gguf_refinement::fingerprint_of(std::iter::once(&bytes)))
}

/// Counted positions of each window.
pub fn n_counted(chunks: &[Chunk]) -> usize {
    chunks.first().map_or(0, |chunk| chunk.counted.len())
}
