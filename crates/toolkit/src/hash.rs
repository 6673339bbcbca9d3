//! Digests of files and of tensors, as `sha256sum` writes and checks them.

use std::{
    path::{Path, PathBuf},
    sync::atomic::Ordering,
};

use gguf_container::{Advice, File, Model, TensorInfo};
use gguf_types::hex;
use serde::{Deserialize, Serialize, Serializer};
use sha2::{Digest, Sha256};

use crate::{
    container_file, digest::sha256_with, error::Error, events::Events, input_files::files_in,
    text::printable, text_file,
};

/// Options of digests.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HashOptions {
    /// GGUF files. A folder stands for the GGUF files in it.
    pub files: Vec<PathBuf>,
    /// Also compute the digest of each tensor, and one of all tensors of a file.
    pub tensors: bool,
}

/// SHA-256 digests of files and tensors.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Digests {
    /// In the order of the files and of their tensors.
    pub lines: Vec<Line>,
}

/// A digest of a file or a tensor.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Line {
    /// The file, `FILE:TENSOR`, or `FILE:*` for all tensors of a file.
    pub name: String,
    /// SHA-256 in hexadecimal digits.
    pub digest: String,
}

/// Computes digests of files and, with [`HashOptions::tensors`], of their tensors.
///
/// # Errors
/// A file that cannot be read or is not a GGUF file; an interruption.
///
/// # Examples
/// ```no_run
/// use gguf_toolkit::hash::{HashOptions, hash};
///
/// # fn main() -> Result<(), gguf_toolkit::Error> {
/// let digests = hash(&HashOptions { files: vec!["model.gguf".into()], tensors: true }, &())?;
/// print!("{}", digests.text());
/// # Ok(())
/// # }
/// ```
pub fn hash(options: &HashOptions, events: &dyn Events) -> Result<Digests, Error> {
    let mut lines = Vec::new();
    for path in &files_in(&options.files)? {
        // A name that is not UTF-8 would be another one in the list.
        let Some(name) = path.to_str() else {
            return Err(Error::at(path, "the name is not UTF-8"));
        };
        // Only GGUF files: a file with a damaged header should not get a digest. Tensors of unknown size have
        // no separate digest.
        let file =
            if options.tensors { container_file::open(path)? } else { container_file::open_foreign(path)? };
        lines.push(Line { name: name.to_owned(), digest: sha256_with(path, events)? });
        if options.tensors {
            lines.extend(of_tensors(name, &file, events)?);
        }
    }
    Ok(Digests { lines })
}

impl Digests {
    /// The lines as `sha256sum` writes them.
    pub fn text(&self) -> String {
        self.lines.iter().map(|Line { name, digest }| line(name, digest)).collect()
    }
}

/// A map from names to digests.
impl Serialize for Digests {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.lines.iter().map(|line| (&line.name, &line.digest)))
    }
}

/// A line as `sha256sum` writes it; it marks names with line ends and backslashes, and escapes those.
fn line(name: &str, digest: &str) -> String {
    let escaped = name.replace('\\', "\\\\").replace('\n', "\\n").replace('\r', "\\r");
    let mark = if escaped == name { "" } else { "\\" };
    format!("{mark}{digest}  {escaped}\n")
}

/// Parses a line of [`line`]; `None` for any other line.
fn parse(line: &str) -> Option<Line> {
    let (line, is_escaped) = line.strip_prefix('\\').map_or((line, false), |rest| (rest, true));
    let (digest, name) = line.split_at_checked(64)?;
    // Two spaces, or a space and a star for binary.
    let name = name.strip_prefix("  ").or_else(|| name.strip_prefix(" *"))?;
    if !digest.bytes().all(|byte| byte.is_ascii_hexdigit()) || name.is_empty() {
        return None;
    }
    let mut plain = String::with_capacity(name.len());
    let mut chars = name.chars();
    while let Some(c) = chars.next() {
        plain.push(match (c, is_escaped) {
            ('\\', true) => match chars.next()? {
                'n' => '\n',
                'r' => '\r',
                '\\' => '\\',
                _ => return None,
            },
            (c, _) => c,
        });
    }
    Some(Line { name: plain, digest: digest.to_ascii_lowercase() })
}

fn of_tensor(file: &File, info: &TensorInfo) -> Result<String, Error> {
    let data = file.data(info).map_err(Error::new)?;
    let start = file.range(info).map_err(Error::new)?.start;
    let mut hasher = Sha256::new();
    // Whole blocks at a time, whose bytes can be swapped.
    let step = info.dtype.whole_blocks(4 << 20) as usize;
    for (index, piece) in data.chunks(step).enumerate() {
        hasher.update(file.endian().to_little(info.dtype, piece));
        let from = start + index * step;
        file.bytes().advise(Advice::DoneWith, from..from + piece.len());
    }
    Ok(hex(&hasher.finalize()))
}

/// SHA-256 of the names, types, shapes and data of all tensors of a model, whose metadata do not matter. For a model of one file
/// it is the digest of `FILE:*`.
///
/// # Errors
/// The data cannot be read; an interruption.
pub fn digest_of_weights(model: &Model, events: &dyn Events) -> Result<String, Error> {
    let (_, digest) = of_all(&model.tensors().collect::<Vec<_>>(), events)?;
    Ok(digest)
}

/// A line for each tensor, and one for all.
fn of_tensors(name: &str, file: &File, events: &dyn Events) -> Result<Vec<Line>, Error> {
    let (tensors, all) = of_all(&file.tensors().iter().map(|info| (file, info)).collect::<Vec<_>>(), events)?;
    let all = Line { name: "*".to_owned(), digest: all };
    let lines = tensors.into_iter().chain([all]);
    Ok(lines.map(|line| Line { name: format!("{name}:{}", line.name), ..line }).collect())
}

/// The digest of each tensor by its name, and the digest of all.
fn of_all(tensors: &[(&File, &TensorInfo)], events: &dyn Events) -> Result<(Vec<Line>, String), Error> {
    let cancel = events.cancel();
    let progress = events.progress(tensors.iter().map(|(_, info)| info.n_bytes).sum());
    let (mut lines, mut described) = (Vec::new(), Vec::new());
    for (file, info) in tensors {
        if cancel.load(Ordering::Relaxed) {
            return Err(Error::interrupted());
        }
        let digest = of_tensor(file, info)?;
        progress.add(info.n_bytes);
        // Dimensions of 1 at the end are written by some programs and not by others.
        let shape = info.shape.without_trailing_ones();
        described.push((info.name.clone(), format!("{digest}  {} {} {shape}\n", info.name, info.dtype)));
        lines.push(Line { name: info.name.clone(), digest });
    }
    described.sort_unstable();
    let mut all = Sha256::new();
    described.iter().for_each(|(_, line)| all.update(line));
    Ok((lines, hex(&all.finalize())))
}

/// A file or tensor of a list of digests.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Checked {
    /// Its name in the list.
    pub name: String,
    /// `OK`, `FAILED` or `MISSING`.
    pub state: &'static str,
}

impl Checked {
    /// True if the digest is that of the list.
    pub fn is_ok(&self) -> bool {
        self.state == "OK"
    }

    /// A line as `sha256sum --check` prints it.
    pub fn line(&self) -> String {
        format!("{}: {}\n", printable(&self.name), self.state)
    }
}

/// Fails unless all files and tensors of the list at `list` have the digests in it.
///
/// # Errors
/// The number of those that differ or are missing.
pub fn verdict(list: &Path, results: &[Checked]) -> Result<(), Error> {
    match (results.iter().filter(|checked| !checked.is_ok()).count(), results.len()) {
        (0, _) => Ok(()),
        (n_bad, n_all) => {
            let message = format_args!("{n_bad} of {n_all} files have a wrong checksum or are missing");
            Err(Error::at(list, message))
        }
    }
}

/// Verifies the files and tensors of a list of digests.
///
/// # Errors
/// A list that cannot be read, is empty or has a line of another form; an interruption.
pub fn check(list: &Path, events: &dyn Events) -> Result<Vec<Checked>, Error> {
    let text = text_file::options(list)?;
    let mut results = Vec::new();
    // Digests of all tensors of the file in the last lines.
    let mut known: (String, Vec<Line>) = (String::new(), Vec::new());
    for (index, text) in text.lines().enumerate().filter(|(_, text)| !text.is_empty()) {
        let Some(Line { name, digest: expected }) = parse(text) else {
            return Err(Error::at(
                list,
                format_args!("line {}: expected a checksum and a file name", index + 1),
            ));
        };
        let found = if Path::new(&name).is_file() {
            Some(sha256_with(Path::new(&name), events)?)
        } else {
            of_named_tensor(&name, &mut known, events)?
        };
        let state = match found {
            Some(found) if found == expected => "OK",
            Some(_) => "FAILED",
            None => "MISSING",
        };
        results.push(Checked { name, state });
    }
    if results.is_empty() {
        return Err(Error::at(list, "empty list"));
    }
    Ok(results)
}

/// The digest of `FILE:TENSOR`; `None` if the file or the tensor does not exist.
fn of_named_tensor(
    name: &str,
    known: &mut (String, Vec<Line>),
    events: &dyn Events,
) -> Result<Option<String>, Error> {
    // Both names may contain colons: the file is the longest prefix that exists.
    let mut ends = name.match_indices(':').map(|(at, _)| at);
    let Some(at) = ends.rfind(|at| Path::new(&name[..*at]).is_file()) else { return Ok(None) };
    let file = &name[..at];
    if known.0 != file {
        *known = (file.to_owned(), of_tensors(file, &container_file::open(Path::new(file))?, events)?);
    }
    Ok(known.1.iter().find(|line| line.name == name).map(|line| line.digest.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_match_sha256sum() {
        let digest = "0".repeat(64);
        for name in ["model.gguf", "a b", "with\\backslash", "two\nlines", "x.gguf:blk.0.attn_q.weight"] {
            let expected = Line { name: name.to_owned(), digest: digest.clone() };
            assert_eq!(parse(line(name, &digest).trim_end()), Some(expected));
        }
        assert_eq!(line("a\\b", &digest), format!("\\{digest}  a\\\\b\n"));
        for bad in ["", "x", &digest, &format!("{digest} x"), &format!("{}  x", "g".repeat(64))] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }
}
