//! `gguf-inspect tokenizer FILE`: the ids of a text by the tokenizer keys of a GGUF alone; with
//! `--against SRC`, whether they are the ids that the checkpoint's own tokenizer gives.
//!
//! Both sides of a check are independent of the converter: the Hugging Face library reads tokenizer.json,
//! and the crate `eval` reads the keys.

use std::{
    fmt::Write,
    path::{Path, PathBuf},
};

use clap::Args;
use eval::tokenize::{Reading, Tokenizer};
use gguf::File;
use serde_json::json;

use crate::{
    commands::{Command, shared::text_file, show},
    failure::{EXIT_FAILURE, Failure},
    ui::Ui,
};

/// The row of [`super::COMMANDS`].
pub const COMMAND: Command = Command {
    verb: Some("tokenizer"),
    about: "Encode text, or compare the tokenizer with its source",
    examples: EXAMPLES,
    define: TokenizerArgs::augment_args,
    run: |matches, ui| run(Command::args(matches)?, ui),
    ..Command::of("gguf-inspect")
};

const EXAMPLES: &str = "\
Examples:
  gguf-inspect tokenizer model.gguf --text prompt.txt
  gguf-inspect tokenizer model.gguf --against Llama-3.2-1B
  gguf-inspect tokenizer model.gguf --against Llama-3.2-1B --text wiki.test.raw

Without --against, the output has one line per token: its id and its text. With --against, the token
ids of llama.cpp are reported separately, because for some pre-tokenizers llama.cpp only
approximates the original.";

/// Encoded where no text is given: scripts, code, whitespace, digits, emoji, marks.
const TEXT: &str = include_str!("tokenizer_text.txt");

#[derive(Debug, Args)]
struct TokenizerArgs {
    /// GGUF file, or the first shard of a split model.
    file: PathBuf,
    /// Compare with SRC.
    ///
    /// SRC is the folder of the checkpoint, or its `tokenizer.json`. The exit code is 1 if any token ID differs.
    #[arg(long, alias = "check", value_name = "SRC")]
    against: Option<PathBuf>,
    /// Read the text from FILE.
    ///
    /// Without it, a short built-in text in many scripts is encoded.
    #[arg(short = 'f', long, value_name = "FILE")]
    text: Option<PathBuf>,
    /// Treat special tokens in the text as plain text.
    #[arg(long)]
    plain: bool,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

fn run(args: TokenizerArgs, ui: &Ui) -> Result<(), Failure> {
    let bytes = match &args.text {
        Some(path) => text_file::bytes(path)?,
        None => TEXT.as_bytes().to_vec(),
    };
    let file = show::open_foreign(&args.file)?;
    let Some(source) = &args.against else { return list(&args, &file, &bytes, ui) };
    // The library takes UTF-8 only; so both sides get the same.
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let ours = |reading| {
        let tokenizer = Tokenizer::from_metadata_as(file.metadata(), reading);
        tokenizer.map_err(|error| Failure::at(&args.file, error))
    };
    let (path, mut library) = library(source)?;
    library.set_encode_special_tokens(args.plain);
    let meant = ours(Reading::Model)?;
    let theirs = library_ids(&path, &library, &text, false)?;
    let encode = |tokenizer: &Tokenizer, text: &str, add_special| {
        tokenizer.encode(text, add_special, !args.plain).map_err(|error| Failure::at(&args.file, error))
    };
    let found = encode(&meant, &text, false)?;
    let in_llama_cpp = encode(&ours(Reading::LlamaCpp)?, &text, false)?;
    let difference = Difference::new(&theirs, &found);
    let llama_cpp = Difference::new(&theirs, &in_llama_cpp);
    let around = (library_ids(&path, &library, "a", true)?, encode(&meant, "a", true)?);

    let first = difference.first.map(|(at_source, at_file)| {
        let spelled = |ids: &[u32], at: usize| -> Vec<String> {
            let end = ids.len().min(at + SHOWN);
            ids[at.min(end)..end].iter().map(|id| format!("{id} {}", token(&meant, *id))).collect()
        };
        let before = meant.decode(&found[at_file.saturating_sub(SHOWN)..at_file]).unwrap_or_default();
        let before = String::from_utf8_lossy(&before).into_owned();
        (at_file, before, spelled(&theirs, at_source), spelled(&found, at_file))
    });
    let mut report = String::new();
    if args.json {
        let first = first.as_ref().map(
            |(at, before, source, file)| json!({"at": at, "after": before, "source": source, "file": file}),
        );
        let value = json!({
            "text_bytes": text.len(),
            "ids": theirs.len(),
            "differing": difference.count,
            "first": first,
            "differing_in_llama_cpp": llama_cpp.count,
            "around": {"source": around.0, "file": around.1},
        });
        let _ = writeln!(report, "{value}");
    } else {
        let _ = writeln!(report, "text        {} bytes", text.len());
        let _ = writeln!(report, "ids         {}", theirs.len());
        let _ = writeln!(report, "differing   {}", difference.count);
        let _ = writeln!(report, "llama.cpp   {} differing", llama_cpp.count);
        if let Some((at, before, source, file)) = &first {
            let _ = writeln!(report, "first       at id {at}, after {before:?}");
            let _ = writeln!(report, "  source    {}", source.join(", "));
            let _ = writeln!(report, "  file      {}", file.join(", "));
        }
        if around.0 != around.1 {
            let _ = writeln!(
                report,
                "around `a`  source {:?}, file {:?}: added tokens differ",
                around.0, around.1
            );
        }
    }
    ui.data(&report)?;
    if difference.count > 0 {
        return Err(Failure {
            code: EXIT_FAILURE,
            ..Failure::at(
                &args.file,
                format_args!(
                    "{} of {} ids differ from those of {}",
                    difference.count,
                    theirs.len(),
                    path.display()
                ),
            )
        });
    }
    Ok(())
}

/// Prints the ids of a text, special tokens in it found, none added around it.
fn list(args: &TokenizerArgs, file: &File, text: &[u8], ui: &Ui) -> Result<(), Failure> {
    let failed = |error| Failure::at(&args.file, error);
    let tokenizer = Tokenizer::from_metadata_as(file.metadata(), Reading::Model).map_err(failed)?;
    let ids = tokenizer.encode(text, false, !args.plain).map_err(failed)?;
    if args.json {
        return ui.data(&format!("{}\n", json!({"text_bytes": text.len(), "ids": ids})));
    }
    let mut lines = String::with_capacity(ids.len() * 12);
    for id in ids {
        let _ = writeln!(lines, "{id} {}", token(&tokenizer, id));
    }
    ui.data(&lines)
}

/// Ids shown at the first difference.
const SHOWN: usize = 8;

fn token(tokenizer: &Tokenizer, id: u32) -> String {
    format!("{:?}", String::from_utf8_lossy(tokenizer.token_text(id).unwrap_or_default()))
}

/// The checkpoint's tokenizer, as the Hugging Face library reads it.
fn library(source: &Path) -> Result<(PathBuf, tokenizers::Tokenizer), Failure> {
    let path = if source.is_dir() { source.join("tokenizer.json") } else { source.to_owned() };
    if !path.is_file() {
        return Err(Failure::at(&path, "missing file")
            .hint(["the comparison needs a tokenizer.json; save one with transformers"]));
    }
    let mut tokenizer = tokenizers::Tokenizer::from_file(&path).map_err(|error| Failure::at(&path, error))?;
    tokenizer.with_padding(None);
    tokenizer.with_truncation(None).map_err(|error| Failure::at(&path, error))?;
    Ok((path, tokenizer))
}

fn library_ids(
    path: &Path,
    tokenizer: &tokenizers::Tokenizer,
    text: &str,
    add_special: bool,
) -> Result<Vec<u32>, Failure> {
    let encoding = tokenizer.encode_fast(text, add_special).map_err(|error| Failure::at(path, error))?;
    Ok(encoding.get_ids().to_vec())
}

/// Difference between two lists of token IDs.
struct Difference {
    /// Ids of the first list that have no equal, or of the second where it has more of them.
    count: usize,
    /// The first place, in either list.
    first: Option<(usize, usize)>,
}

/// So many equal ids in a row end a difference.
const AGREED: usize = 4;
/// So far is looked for the end of a difference.
const REACH: usize = 256;

impl Difference {
    /// Walks both lists; where they part, the nearest place where they agree again is taken.
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
