//! Importance matrices: computed from a text, added and merged.

use std::{
    cmp::Ordering,
    path::{Path, PathBuf},
    sync::atomic,
};

use gguf_container::PartNumber;
use gguf_imatrix::{Format, Sums};
use gguf_runtime::{
    Model,
    chunks::{Chunk, Settings, part_chunks, text_chunks},
    importance::{Collector, Gap, gaps, matrices},
};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::{
    error::Error,
    eval_model::{of_open, open, warn_of_length},
    events::Events,
    input_kind::not_an_imatrix,
    outputs::{check_outputs, write_result},
    part_file::{self, NewPart, PartFile, PartOptions, warn_if_empty},
    progress_line::ProgressLine,
    run::{RunOptions, Text},
    text::printable,
    unexecuted,
};
use gguf_types::words;

/// The verb in part files.
pub const VERB: &str = "imatrix";

/// Options of an importance matrix.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ImatrixOptions {
    /// The GGUF file. None only with `merge`.
    pub file: Option<PathBuf>,
    /// Text, or chats in a file that ends in `.jsonl`. None only with `merge`.
    pub text: Option<Text>,
    /// File to write.
    pub output: PathBuf,
    /// Format of the output.
    #[serde(with = "crate::by_name::single")]
    pub format: Format,
    /// Tokens of a chunk.
    pub context: u32,
    /// Limit of the chunks.
    pub chunks: Option<u32>,
    /// Include the output matrix.
    pub process_output: bool,
    /// Matrices to add, or the files of all parts of a run.
    pub merge: Vec<PathBuf>,
    /// Save the output after this many chunks.
    pub save_every: Option<u32>,
    /// Resume an interrupted run.
    pub resume: bool,
    /// Overwrite an existing output.
    pub force: bool,
    /// Options for running the model.
    pub run: RunOptions,
    /// Folder for results whose file cannot be written. An empty path is the current folder.
    pub rescue: PathBuf,
}

impl Default for ImatrixOptions {
    fn default() -> Self {
        ImatrixOptions {
            file: None,
            text: None,
            output: PathBuf::new(),
            format: Format::Gguf,
            context: 512,
            chunks: None,
            process_output: false,
            merge: Vec::new(),
            save_every: None,
            resume: false,
            force: false,
            run: RunOptions::default(),
            rescue: PathBuf::new(),
        }
    }
}

/// Checks that the output of a run can be written.
fn check(args: &ImatrixOptions) -> Result<(), Error> {
    if !args.force && !args.resume && args.output.exists() {
        let error = gguf_container::Error::Exists { path: args.output.clone() };
        return Err(Error::new(error)
            .hint([words!("use [-force] to overwrite it, or [-resume] to continue the run")]));
    }
    // A matrix that is added to itself is read whole before it is replaced, so --merge is no input here.
    let text = args.text.as_ref().and_then(Text::path);
    let inputs: Vec<&Path> = args.file.as_deref().into_iter().chain(text).collect();
    check_outputs(&[&args.output], &inputs, args.force || args.resume)
}

/// A model and the chunks that it reads.
struct Opened {
    model: Model,
    chunks: Vec<Chunk>,
}

impl Opened {
    fn new(args: &ImatrixOptions, file: &Path, text: &Text, events: &dyn Events) -> Result<Opened, Error> {
        let model = open(file, &args.run.of_runtime(), events)?;
        let tokens = text.tokens_or_chats(file, &model, events)?;
        let (context, n_chunks) = (args.context as usize, args.chunks.map(|n| n as usize));
        let settings = Settings { context, n_chunks, stride: None };
        let chunks = text_chunks(&model, &tokens, &settings).map_err(|error| text.failed(file, error))?;
        warn_of_length(&model, context, events);
        Ok(Opened { model, chunks })
    }
}

/// Computes the importance matrix of a model over a text, adds matrices, or merges the parts of a run, and writes the result.
///
/// # Errors
/// Invalid options, a file or text that cannot be read, matrices of different models, an interruption.
///
/// # Examples
/// ```no_run
/// use gguf_toolkit::{ImatrixOptions, Text, imatrix};
///
/// # fn main() -> Result<(), gguf_toolkit::Error> {
/// let options = ImatrixOptions {
///     file: Some("model-bf16.gguf".into()),
///     text: Some(Text::file("calibration.txt")),
///     output: "imatrix.gguf".into(),
///     ..Default::default()
/// };
/// println!("{} entries", imatrix(&options, &())?.entries);
/// # Ok(())
/// # }
/// ```
pub fn imatrix(args: &ImatrixOptions, events: &dyn Events) -> Result<Collected, Error> {
    check(args)?;
    if args.merge.iter().any(|path| part_file::is_part(path)) {
        return merge_parts(args, events);
    }
    let mut start = Sums::new(args.context);
    let mut before: Option<&PathBuf> = None;
    for path in &args.merge {
        let read = Sums::open(path).map_err(|error| not_an_imatrix(path, error))?;
        if let Some((before, problem)) = before.and_then(|before| Some((before, other_names(&start, &read)?)))
        {
            events.warning(format!(
                "{}: the entries differ from those of {}: {problem}",
                path.display(),
                printable(&before.display().to_string())
            ));
        }
        before = Some(path);
        start.add(&read.in_tokens(args.context)).map_err(|error| {
            let hint = match &error {
                gguf_imatrix::Error::InvalidSum { .. } => "omit this matrix, or compute it again",
                _ => "only matrices of the same model can be merged",
            };
            Error::at(path, error).hint([hint])
        })?;
    }
    let (Some(file), Some(text)) = (&args.file, &args.text) else {
        write(args, &start, events)?;
        return Ok(report(args, &start, &Uncovered::default(), events));
    };
    let opened = Opened::new(args, file, text, events)?;
    let mut n_done = 0;
    if args.resume && args.output.exists() {
        (start, n_done) = resumed(args, text)?;
        match n_done.cmp(&opened.chunks.len()) {
            Ordering::Less => events.status(format!("resuming after {n_done} chunks")),
            Ordering::Equal => {
                events.status(format!("{} is already finished", args.output.display()));
                return Ok(report(args, &start, &Uncovered::of(&opened.model, &start), events));
            }
            Ordering::Greater => {
                let n_chunks = opened.chunks.len();
                let message = format!("computed from {n_done} chunks, expected at most {n_chunks}");
                return Err(Error::at(&args.output, message).hint([words!("use [-force] to overwrite it")]));
            }
        }
    } else {
        start.datasets.push(text.name());
    }
    let sums = collect(args, &opened, n_done, &start, events)?;
    let model = &opened.model;
    let uncovered = Uncovered::of(model, &sums);
    if let Some(line) = unexecuted::line(model) {
        events.warning(&line);
    }
    Ok(report(args, &sums, &uncovered, events))
}

/// Names an entry that only one of two matrices has.
fn other_names(before: &Sums, added: &Sums) -> Option<String> {
    let only = |in_one: &Sums, other: &Sums| {
        in_one.entries.keys().find(|name| !other.entries.contains_key(*name)).cloned()
    };
    let (missing, extra) = (only(before, added), only(added, before));
    let found = missing.map(|name| format!("`{}` is missing", printable(&name)));
    found.or_else(|| extra.map(|name| format!("only one of them has entry `{}`", printable(&name))))
}

/// Facts about a run that do not affect its sums.
#[derive(Serialize, Deserialize)]
struct RunFacts {
    text: String,
    /// Matrices that the sums should cover.
    matrices: Vec<String>,
}

/// Reads one part of the text, and writes its sums to `output` for a merge of all parts.
///
/// # Errors
/// As [`imatrix`].
///
/// # Examples
/// ```no_run
/// use gguf_toolkit::{ImatrixOptions, Text, importance};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let options = ImatrixOptions {
///     file: Some("model-bf16.gguf".into()),
///     text: Some(Text::file("calibration.txt")),
///     output: "2.part".into(),
///     ..Default::default()
/// };
/// importance::imatrix_part(&options, "2/8".parse()?, &())?;
/// # Ok(())
/// # }
/// ```
pub fn imatrix_part(args: &ImatrixOptions, number: PartNumber, events: &dyn Events) -> Result<(), Error> {
    check(args)?;
    let (Some(file), Some(text)) = (&args.file, &args.text) else {
        return Err(Error::usage("missing file or text"));
    };
    let Opened { model, chunks } = &Opened::new(args, file, text, events)?;
    let range = part_chunks(&[model], chunks, number);
    warn_if_empty(number, &range, events);
    let mut collector = Collector::new(args.process_output);
    let cancel = events.cancel();
    let mut progress = ProgressLine::new("chunks", range.end);
    let mut n_read = range.start;
    for batch in chunks[range.clone()].chunks(model.sequences_at_once(args.context as usize)) {
        collector.add(model, batch).map_err(|error| of_open(model, error))?;
        n_read += batch.len();
        progress.update(events, n_read, String::new);
        if cancel.load(atomic::Ordering::Relaxed) {
            return Err(Error::interrupted());
        }
    }
    // NaNs are reported with the model that produced them.
    collector.sums(args.context).map_err(|error| of_open(model, error))?;
    let facts = RunFacts { text: text.name(), matrices: matrices(model) };
    let part = NewPart {
        verb: VERB,
        windows: range,
        n_windows: chunks.len(),
        run: json!({
            "model": gguf_refinement::fingerprint(model),
            "text": text.sha256()?,
            "context": args.context,
            "process_output": args.process_output,
            "activations": args.run.activations.name(),
        }),
        facts: serde_json::to_value(&facts).map_err(Error::new)?,
    };
    let ImatrixOptions { output, rescue, .. } = args.clone();
    part.write(&collector.to_part(), &PartOptions { number, output, force: true, rescue }, events)
}

/// The matrix of all parts of one run.
fn merge_parts(args: &ImatrixOptions, events: &dyn Events) -> Result<Collected, Error> {
    if args.file.is_some() {
        return Err(Error::usage("parts can only be merged with parts"));
    }
    let parts = part_file::open_all(&args.merge, VERB)?;
    let collector = collected(&parts)?;
    let (context, facts): (u32, RunFacts) = (parts[0].setting("context")?, parts[0].facts()?);
    let mut sums = Sums::new(context);
    sums.datasets.push(facts.text);
    let collected = collector.sums(context).map_err(Error::new)?;
    sums.add(&collected).map_err(Error::new)?;
    write(args, &sums, events)?;
    let uncovered = Uncovered { gaps: gaps(&facts.matrices, &sums), reported: Vec::new() };
    Ok(report(args, &sums, &uncovered, events))
}

/// The sums of parts.
///
/// # Errors
/// A part that does not match its header.
pub fn collected(parts: &[PartFile]) -> Result<Collector, Error> {
    let mut collector = Collector::new(false);
    for part in parts {
        collector.add_part(part.payload()).map_err(|error| Error::at(&part.path, error))?;
    }
    Ok(collector)
}

/// Facts about a matrix that was written.
#[derive(Debug, Clone, Serialize)]
pub struct Collected {
    /// The file.
    pub output: String,
    /// Number of its entries, one for each matrix.
    pub entries: usize,
    /// Number of chunks that were read.
    pub chunks: i64,
    /// Tokens in a chunk.
    pub context: u32,
    /// Names of the texts.
    pub datasets: Vec<String>,
    /// Tensors without data.
    pub not_covered: Vec<NotCovered>,
}

/// A tensor without data, or with experts without data.
#[derive(Debug, Clone, Serialize)]
pub struct NotCovered {
    /// Name of the tensor.
    pub tensor: String,
    /// Experts without data; empty if the whole tensor has no data.
    pub experts: Vec<usize>,
}

/// Tensors without data.
#[derive(Default)]
struct Uncovered {
    gaps: Vec<Gap>,
    /// Names of those that were reported before.
    reported: Vec<String>,
}

impl Uncovered {
    /// Tensors of a model without data in `sums`.
    fn of(model: &Model, sums: &Sums) -> Uncovered {
        Uncovered { gaps: gaps(&matrices(model), sums), reported: unexecuted::names(model) }
    }
}

/// Reports tensors without data that were not reported before.
fn report(args: &ImatrixOptions, sums: &Sums, uncovered: &Uncovered, events: &dyn Events) -> Collected {
    let Uncovered { gaps, reported } = uncovered;
    for gap in gaps.iter().filter(|gap| !reported.contains(&gap.tensor)) {
        let name = printable(&gap.tensor);
        match gap.experts.as_slice() {
            [] => events.warning(format!("tensor `{name}`: no data; the entry is omitted")),
            experts => events.warning(format!("tensor `{name}`: no token was routed to experts {experts:?}")),
        }
    }
    let not_covered = |gap: &Gap| NotCovered { tensor: gap.tensor.clone(), experts: gap.experts.clone() };
    Collected {
        output: args.output.display().to_string(),
        entries: sums.entries.len(),
        chunks: sums.n_chunks,
        context: sums.chunk_tokens,
        datasets: sums.datasets.clone(),
        not_covered: gaps.iter().map(not_covered).collect(),
    }
}

/// Sums of an earlier run and the number of chunks that it read.
fn resumed(args: &ImatrixOptions, text: &Text) -> Result<(Sums, usize), Error> {
    let path = &args.output;
    let failed = |message: String| {
        Error::at(path, message).hint(["expected the same text, context length and format (GGUF) as in the \
            interrupted run"])
    };
    let sums = Sums::open(path).map_err(|error| not_an_imatrix(path, error))?;
    if sums.format != Format::Gguf {
        return Err(failed("the .dat format does not record the progress of a run".to_owned()));
    }
    if sums.chunk_tokens != args.context {
        return Err(failed(format!("it has chunks of {} tokens", sums.chunk_tokens)));
    }
    if sums.datasets != [text.name()] {
        return Err(failed(format!("its text is {}", sums.datasets.join(", "))));
    }
    let n_done =
        usize::try_from(sums.n_chunks).map_err(|_| failed("negative number of chunks".to_owned()))?;
    Ok((sums, n_done))
}

fn collect(
    args: &ImatrixOptions,
    opened: &Opened,
    n_done: usize,
    start: &Sums,
    events: &dyn Events,
) -> Result<Sums, Error> {
    let Opened { model, chunks } = opened;
    let mut collector = Collector::new(args.process_output);
    let sums = |collector: &Collector| {
        let collected = collector.sums(args.context).map_err(|error| of_open(model, error))?;
        let mut sums = start.clone();
        sums.add(&collected).map_err(Error::new)?;
        Ok::<Sums, Error>(sums)
    };
    let cancel = events.cancel();
    let mut progress = ProgressLine::new("chunks", chunks.len());
    let at_once = model.sequences_at_once(args.context as usize);
    let at_once = args.save_every.map_or(at_once, |every| at_once.min(every as usize));
    let (mut n_read, mut n_saved) = (n_done, n_done);
    // A complete file is not replaced by a partial one.
    let may_save = args.save_every.is_some() || args.resume || !args.output.exists();
    for batch in chunks.get(n_done..).unwrap_or_default().chunks(at_once) {
        collector.add(model, batch).map_err(|error| of_open(model, error))?;
        n_read += batch.len();
        progress.update(events, n_read, String::new);
        let is_due = args.save_every.is_some_and(|every| n_read - n_saved >= every as usize);
        let is_cancelled = cancel.load(atomic::Ordering::Relaxed) && n_read < chunks.len();
        if (is_due && n_read < chunks.len()) || (is_cancelled && may_save) {
            write(args, &sums(&collector)?, &())?;
            n_saved = n_read;
        }
        if is_cancelled {
            return Err(interrupted(args, &Progress { n_saved, n_read, n_chunks: chunks.len() }));
        }
    }
    let sums = sums(&collector)?;
    write(args, &sums, events)?;
    Ok(sums)
}

/// Chunks of an interrupted run.
struct Progress {
    n_saved: usize,
    n_read: usize,
    n_chunks: usize,
}

/// The error of an interrupted run.
fn interrupted(args: &ImatrixOptions, progress: &Progress) -> Error {
    let (Progress { n_saved, n_read, n_chunks }, output) = (progress, &args.output);
    let message = format!("interrupted after {n_read} of {n_chunks} chunks");
    let hint = match args.format {
        _ if *n_saved == 0 => {
            words!("the existing matrix is untouched; use [-save-every N] to save partial results")
        }
        Format::Gguf => {
            words!("{} chunks are saved in {}; use [-resume] to continue", n_saved, output.display())
        }
        _ => format!("{n_saved} chunks are saved in {}", output.display()).into(),
    };
    Error::interrupted_as(message).hint([hint])
}

/// Writes the file atomically. The caller has checked that it may be replaced.
fn write(args: &ImatrixOptions, sums: &Sums, events: &dyn Events) -> Result<(), Error> {
    let path = args.output.as_path();
    let bytes = sums.to_bytes(args.format).map_err(|error| Error::at(path, error))?;
    write_result(path, &bytes, true, &args.rescue)?;
    let tokens = sums.n_chunks * i64::from(sums.chunk_tokens);
    events.status(format!("wrote {}: {} entries from {tokens} tokens", path.display(), sums.entries.len()));
    Ok(())
}
