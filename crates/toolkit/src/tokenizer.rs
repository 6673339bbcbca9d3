//! Token ids of a text by the tokenizer keys of a GGUF file, and their comparison with the checkpoint's own tokenizer.
//!
//! Both sides of a comparison are independent of the converter: the Hugging Face library reads tokenizer.json,
//! and the crate `gguf_runtime` reads the keys.

use std::{
    fmt::Write,
    path::{Path, PathBuf},
    time::Duration,
};

use gguf_container::File;
use gguf_tokenizer::{Encoder, Reading, Tokenizer};
use serde_json::{Value as Json, json};

use crate::{
    error::Error,
    template_guard::{Limits, within},
};

/// Default text: many scripts, code, whitespace, digits, emoji, combining marks.
pub const TEXT: &str = include_str!("tokenizer_text.txt");

/// Returns the token ids of a text, without added tokens around it. Special tokens in the text are recognized unless `plain`.
///
/// # Errors
/// A file without a valid tokenizer, or a text that it cannot encode.
pub fn encode(path: &Path, file: &File, text: &[u8], plain: bool) -> Result<Vec<u32>, Error> {
    tokenizer(path, file, Reading::Model)?.encode(text, false, !plain).map_err(|error| Error::at(path, error))
}

/// A line with id and text for each of `ids`.
///
/// # Errors
/// A file without a valid tokenizer.
pub fn listing(path: &Path, file: &File, ids: &[u32]) -> Result<String, Error> {
    let tokenizer = tokenizer(path, file, Reading::Model)?;
    let mut lines = String::with_capacity(ids.len() * 12);
    for id in ids {
        let _ = writeln!(lines, "{id} {}", token(&tokenizer, *id));
    }
    Ok(lines)
}

fn tokenizer(path: &Path, file: &File, reading: Reading) -> Result<Encoder, Error> {
    Tokenizer::from_gguf(file.metadata()).encoder(reading).map_err(|error| Error::at(path, error))
}

/// Comparison of the ids of a text.
#[derive(Debug)]
pub struct Compared {
    /// The GGUF file.
    pub file: PathBuf,
    /// The file of the checkpoint's tokenizer.
    pub source: PathBuf,
    /// Number of ids by the checkpoint's tokenizer.
    pub n_ids: usize,
    /// Number of ids that differ.
    pub n_differing: usize,
    /// Number of ids that differ in llama.cpp, which only approximates some pre-tokenizers.
    pub n_differing_in_llama_cpp: usize,
    text_bytes: usize,
    first: Option<First>,
    /// The ids of `a` with added tokens: by the checkpoint and by the file.
    around: (Vec<u32>, Vec<u32>),
}

/// The first difference: index of the id in the file, text before it, and the next ids of both.
type First = (usize, String, Vec<String>, Vec<String>);

/// Compares the token ids of a text with those of the checkpoint's tokenizer (a folder or a `tokenizer.json`).
///
/// # Errors
/// A tokenizer that cannot be read.
pub fn compare(path: &Path, file: &File, source: &Path, text: &[u8], plain: bool) -> Result<Compared, Error> {
    // The library takes only UTF-8, so both sides get the same text.
    let text = String::from_utf8_lossy(text).into_owned();
    let (source, [theirs, around]) = library_ids(source, &text, plain)?;
    let meant = tokenizer(path, file, Reading::Model)?;
    let encode = |tokenizer: &Encoder, text: &str, add_special| {
        tokenizer.encode(text, add_special, !plain).map_err(|error| Error::at(path, error))
    };
    let found = encode(&meant, &text, false)?;
    let in_llama_cpp = encode(&tokenizer(path, file, Reading::LlamaCpp)?, &text, false)?;
    let difference = Difference::new(&theirs, &found);
    let around = (around, encode(&meant, "a", true)?);
    let first = difference.first.map(|(at_source, at_file)| {
        let spelled = |ids: &[u32], at: usize| -> Vec<String> {
            let end = ids.len().min(at + SHOWN);
            ids[at.min(end)..end].iter().map(|id| format!("{id} {}", token(&meant, *id))).collect()
        };
        let before = meant.decode(&found[at_file.saturating_sub(SHOWN)..at_file]).unwrap_or_default();
        let before = String::from_utf8_lossy(&before).into_owned();
        (at_file, before, spelled(&theirs, at_source), spelled(&found, at_file))
    });
    Ok(Compared {
        file: path.to_owned(),
        source,
        n_ids: theirs.len(),
        n_differing: difference.count,
        n_differing_in_llama_cpp: Difference::new(&theirs, &in_llama_cpp).count,
        text_bytes: text.len(),
        first,
        around,
    })
}

impl Compared {
    /// All facts.
    pub fn json(&self) -> Json {
        let first = self.first.as_ref().map(
            |(at, before, source, file)| json!({"at": at, "after": before, "source": source, "file": file}),
        );
        json!({
            "text_bytes": self.text_bytes,
            "ids": self.n_ids,
            "differing": self.n_differing,
            "first": first,
            "differing_in_llama_cpp": self.n_differing_in_llama_cpp,
            "around": {"source": self.around.0, "file": self.around.1},
        })
    }

    /// Fails if ids differ.
    ///
    /// # Errors
    /// The number of ids that differ.
    pub fn verdict(&self) -> Result<(), Error> {
        let Compared { n_differing, n_ids, source, .. } = self;
        match n_differing {
            0 => Ok(()),
            _ => {
                let source = source.display();
                let message = format_args!("{n_differing} of {n_ids} ids differ from those of {source}");
                Err(Error::at(&self.file, message))
            }
        }
    }

    /// A line for each fact.
    pub fn text(&self) -> String {
        let mut report = format!("text        {} bytes\n", self.text_bytes);
        // Writing to a string cannot fail.
        let _ = writeln!(report, "ids         {}", self.n_ids);
        let _ = writeln!(report, "differing   {}", self.n_differing);
        let _ = writeln!(report, "llama.cpp   {} differing", self.n_differing_in_llama_cpp);
        if let Some((at, before, source, file)) = &self.first {
            let _ = writeln!(report, "first       at id {at}, after {before:?}");
            let _ = writeln!(report, "  source    {}", source.join(", "));
            let _ = writeln!(report, "  file      {}", file.join(", "));
        }
        let (source, file) = &self.around;
        if source != file {
            let _ = writeln!(report, "around `a`  source {source:?}, file {file:?}: added tokens differ");
        }
        report
    }
}

/// Ids shown at the first difference.
const SHOWN: usize = 8;

fn token(tokenizer: &Encoder, id: u32) -> String {
    format!("{:?}", String::from_utf8_lossy(tokenizer.token_text(id).unwrap_or_default()))
}

/// The file of the checkpoint's tokenizer, and ids as the Hugging Face library makes them: of the text, and of `a` with added tokens.
fn library_ids(source: &Path, text: &str, plain: bool) -> Result<(PathBuf, [Vec<u32>; 2]), Error> {
    let path = if source.is_dir() { source.join("tokenizer.json") } else { source.to_owned() };
    if !path.is_file() {
        return Err(Error::at(&path, "missing file")
            .hint(["the comparison needs a tokenizer.json; save one with transformers"]));
    }
    let bytes = std::fs::read(&path).map_err(|error| Error::cannot_open(&path, error))?;
    // A file of other people may take any time and memory; a long text takes more than a short one.
    let size = (bytes.len() + text.len()) as u64;
    let limits = Limits {
        subject: "tokenizer.json",
        bytes: (1 << 30) + 1024 * size,
        time: Duration::from_secs(20 + (text.len() as u64 >> 16)),
    };
    let text = text.to_owned();
    let made = within(&limits, move || {
        let mut library = gguf_tokenizer::huggingface::library(&bytes)?;
        library.set_encode_special_tokens(plain);
        let ids = |text: &str, add_special| match library.encode_fast(text, add_special) {
            Ok(encoding) => Ok(encoding.get_ids().to_vec()),
            Err(error) => Err(error.to_string()),
        };
        Ok([ids(&text, false)?, ids("a", true)?])
    });
    let made = made.and_then(|made: Result<_, String>| made.map_err(Error::new));
    made.map(|ids| (path.clone(), ids)).map_err(|error| Error::at(&path, error.to_string()))
}

/// Difference between two lists of token IDs.
struct Difference {
    /// Number of unmatched ids, in the list that has more of them.
    count: usize,
    /// The first place, in either list.
    first: Option<(usize, usize)>,
}

/// Number of consecutive equal ids that end a difference.
const AGREED: usize = 4;
/// Number of ids to search for the end of a difference.
const REACH: usize = 256;

impl Difference {
    /// Walks both lists. After a difference, it continues at the nearest place where they agree again.
    fn new(one: &[u32], other: &[u32]) -> Difference {
        let mut difference = Difference { count: 0, first: None };
        let (mut i, mut j) = (0, 0);
        while i < one.len() || j < other.len() {
            let equal = one[i..].iter().zip(&other[j..]).take_while(|(a, b)| a == b).count();
            (i, j) = (i + equal, j + equal);
            if i == one.len() && j == other.len() {
                break;
            }
            difference.first.get_or_insert((i, j));
            let agree = |skip: usize, skip_other: usize| {
                let (a, b) = (
                    one.get(i + skip..).unwrap_or_default(),
                    other.get(j + skip_other..).unwrap_or_default(),
                );
                let rest = AGREED.min(a.len()).min(b.len());
                // The ends agree only with each other.
                a[..rest] == b[..rest] && (rest == AGREED || a.len() == b.len())
            };
            let found = (1..REACH).find_map(|distance| {
                (0..=distance).flat_map(|less| [(distance, less), (less, distance)]).find(
                    |(skip, skip_other)| {
                        i + skip <= one.len() && j + skip_other <= other.len() && agree(*skip, *skip_other)
                    },
                )
            });
            let (skip, skip_other) = found.unwrap_or((one.len() - i, other.len() - j));
            difference.count += skip.max(skip_other);
            (i, j) = (i + skip, j + skip_other);
        }
        difference
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn difference(one: &[u32], other: &[u32]) -> (usize, Option<(usize, usize)>) {
        let difference = Difference::new(one, other);
        (difference.count, difference.first)
    }

    #[test]
    fn differences_are_counted_once() {
        let ids: Vec<u32> = (0..100).collect();
        assert_eq!(difference(&ids, &ids), (0, None));
        assert_eq!(difference(&[], &[]), (0, None));
        let mut other = ids.clone();
        other[10] = 1000;
        assert_eq!(difference(&ids, &other), (1, Some((10, 10))));
        // One id became three, and later two became one.
        other.splice(10..11, [1000, 1001, 1002]);
        other.splice(50..52, [2000]);
        assert_eq!(difference(&ids, &other), (5, Some((10, 10))));
        assert_eq!(difference(&ids, &ids[..97]), (3, Some((97, 97))));
        assert_eq!(difference(&[1, 2], &[]), (2, Some((0, 0))));
        assert_eq!(difference(&ids, &[7; 1000]).1, Some((0, 0)));
    }
}
