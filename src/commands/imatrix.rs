//! `gguf-eval imatrix FILE --text F -o IM`: makes importance matrices, and adds them.

use std::{
    path::{Path, PathBuf},
    sync::atomic::Ordering,
};

use clap::{Args, builder::PossibleValue};
use eval::{
    Model,
    chunks::{Chunk, Settings, part_chunks, text_chunks},
    importance::{Collector, Gap, gaps, matrices},
};
use gguf::PartNumber;
use imatrix::{Format, Sums};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::shared::{
    chats,
    digest::sha256_of,
    eval_model::{RunArgs, at, of_open, open, warn_of_length},
    input_kind::not_an_imatrix,
    outputs::{check_outputs, write_result},
    part_file::{self, NewPart, PartFile},
    progress_line::ProgressLine,
    unexecuted,
};
use crate::{
    commands::Command,
    failure::Failure,
    ui::{Ui, cancel_on_interrupt, printable},
};

/// The row of [`super::COMMANDS`].
pub const COMMAND: Command = Command {
    verb: Some(VERB),
    about: "Compute the importance matrix of a model, or merge several",
    examples: EXAMPLES,
    define: ImatrixArgs::augment_args,
    run: |matches, ui| run(Command::args(matches)?, ui),
    ..Command::of("gguf-eval")
};

pub(super) const VERB: &str = "imatrix";

const EXAMPLES: &str = "\
Examples:
  gguf-eval imatrix model-BF16.gguf --text calibration.txt -o imatrix.gguf
  gguf-eval imatrix --merge english.gguf code.gguf -o both.gguf
  gguf-eval imatrix model-BF16.gguf --text calibration.txt -o imatrix.gguf --save-every 100 --resume
  gguf-eval imatrix --merge old.dat -o new.gguf
  gguf-eval imatrix model-BF16.gguf --text calibration.txt --part 2/8 -o 2.part
  gguf-eval imatrix --merge *.part -o imatrix.gguf
  gguf-quantize model-BF16.gguf model-{ftype}.gguf iq2_xxs --imatrix imatrix.gguf

The output format is that of llama-imatrix: GGUF, or the older .dat format. Tensors without data,
for example multi-token prediction layers and experts that received no tokens, are reported. Merging
the files of all parts gives the same bytes as a single run.";

#[derive(Debug, Args)]
struct ImatrixArgs {
    /// GGUF file, or any shard of a split model.
    ///
    /// Use the most precise file that you have.
    #[arg(required_unless_present = "merge", requires = "text")]
    file: Option<PathBuf>,
    /// Read the text from FILE.
    ///
    /// A .jsonl file holds one chat per line, which is rendered with the chat template of the model.
    #[arg(short = 'f', long, value_name = "FILE", requires = "file")]
    text: Option<PathBuf>,
    /// Write the result to FILE.
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Set the format of the output.
    ///
    /// `gguf`, or `dat` for the older format.
    #[arg(long, value_name = "FORMAT", default_value = "gguf", value_parser = formats(), hide_possible_values = true)]
    format: String,
    /// Set the context length, in tokens.
    ///
    /// The text is cut into chunks of this length. With --merge, it is the length of the chunks in files of the older format.
    #[arg(short, long, alias = "ctx", value_name = "N", default_value_t = 512, value_parser = clap::value_parser!(u32).range(4..))]
    context: u32,
    /// Read at most N chunks of the text.
    #[arg(long, alias = "windows", value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    chunks: Option<u32>,
    /// Include the output matrix.
    #[arg(long, hide_short_help = true)]
    process_output: bool,
    /// Process only part K of N.
    ///
    /// The text is divided into N parts. The file of part K is an input of --merge.
    #[arg(long, value_name = "K/N", conflicts_with_all = ["merge", "resume", "save_every", "json", "format"], hide_short_help = true)]
    part: Option<PartNumber>,
    /// Merge files of earlier runs.
    ///
    /// These are importance matrices, whose sums are added to those of this run, or the files that --part wrote.
    #[arg(long, value_name = "FILE", num_args = 1.., conflicts_with = "resume")]
    merge: Vec<PathBuf>,
    /// Save the output after every N chunks.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    save_every: Option<u32>,
    /// Resume an interrupted run.
    ///
    /// Continues from a saved output of a run with the same text and context length.
    #[arg(long)]
    resume: bool,
    /// Overwrite existing outputs.
    #[arg(long)]
    force: bool,
    /// Print the result as JSON.
    ///
    /// The report lists what was written and the tensors without data.
    #[arg(long, hide_short_help = true)]
    json: bool,
    #[command(flatten)]
    run: RunArgs,
}

fn formats() -> Vec<PossibleValue> {
    Format::ALL.iter().map(|(name, _)| PossibleValue::new(name)).collect()
}

fn run(args: ImatrixArgs, ui: &Ui) -> Result<(), Failure> {
    let format =
        Format::ALL.iter().find(|(name, _)| *name == args.format).map_or(Format::Gguf, |(_, format)| *format);
    if !args.force && !args.resume && args.output.exists() {
        let error = gguf::Error::Exists { path: args.output.clone() };
        return Err(
            Failure::new(error).hint(["use --force to overwrite it, or --resume to continue the run"])
        );
    }
    // A matrix that is added to itself is read whole before it is replaced, so --merge is no input here.
    let inputs: Vec<&PathBuf> = args.file.iter().chain(&args.text).collect();
    check_outputs(&[&args.output], &inputs, args.force || args.resume)?;
    if args.merge.iter().any(|path| part_file::is_part(path)) {
        return merge_parts(&args, format, ui);
    }
    let mut start = Sums::new(args.context);
    let mut before: Option<&PathBuf> = None;
    for path in &args.merge {
        let read = Sums::open(path).map_err(|error| not_an_imatrix(path, error))?;
        if let Some((before, problem)) = before.and_then(|before| Some((before, other_names(&start, &read)?)))
        {
            ui.warning(&format!(
                "{}: the entries differ from those of {}: {problem}",
                path.display(),
                printable(&before.display().to_string())
            ));
        }
        before = Some(path);
        start.add(&read.in_tokens(args.context)).map_err(|error| {
            let hint = match &error {
                imatrix::Error::NotFinite { .. } => "omit this matrix, or compute it again",
                _ => "only matrices of the same model can be merged",
            };
            Failure::at(path, error).hint([hint])
        })?;
    }
    let (Some(file), Some(text)) = (&args.file, &args.text) else {
        write(&args.output, &start, format, ui)?;
        return report(&args, &start, (&[], &[]), ui);
    };
    let model = open(file, &args.run, ui)?;
    let tokens = chats::tokens(&model, text, ui)?;
    let (context, n_chunks) = (args.context as usize, args.chunks.map(|n| n as usize));
    let settings = Settings { context, n_chunks, stride: None };
    let chunks = text_chunks(&model, &tokens, &settings).map_err(|error| at(text, error))?;
    warn_of_length(&model, context, ui);
    if let Some(number) = args.part {
        return part(&args, number, &model, &chunks, text, ui);
    }
    let mut n_done = 0;
    if args.resume && args.output.exists() {
        (start, n_done) = resumed(&args, text)?;
        ui.status(&format!("resuming after {n_done} chunks"));
    } else {
        start.datasets.push(text.display().to_string());
    }
    let sums = collect(&args, &model, (&chunks, n_done), &start, format, ui)?;
    let gaps = gaps(&matrices(&model), &sums);
    if let Some(line) = unexecuted::line(&model) {
        ui.warning(&line);
    }
    report(&args, &sums, (&gaps, &unexecuted::names(&model)), ui)
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
    /// The matrices that are to be covered.
    matrices: Vec<String>,
}

/// Reads one part of the windows, and writes its sums as they are.
fn part(
    args: &ImatrixArgs,
    number: PartNumber,
    model: &Model,
    chunks: &[Chunk],
    text: &Path,
    ui: &Ui,
) -> Result<(), Failure> {
    let range = part_chunks(&[model], chunks, number);
    let mut collector = Collector::new(args.process_output);
    let cancel = cancel_on_interrupt();
    let mut progress = ProgressLine::new("chunks", range.end);
    let mut n_read = range.start;
    for batch in chunks[range.clone()].chunks(model.sequences_at_once(args.context as usize)) {
        collector.add(model, batch).map_err(|error| of_open(model, error))?;
        n_read += batch.len();
        progress.update(ui, n_read, String::new);
        if cancel.load(Ordering::Relaxed) {
            return Err(Failure::interrupted());
        }
    }
    // NaNs are reported with the model that produced them.
    collector.sums(args.context).map_err(|error| of_open(model, error))?;
    let facts = RunFacts { text: text.display().to_string(), matrices: matrices(model) };
    let part = NewPart {
        verb: VERB,
        number,
        windows: range,
        n_windows: chunks.len(),
        run: json!({
            "model": refine::fingerprint(model),
            "text": sha256_of(text)?,
            "context": args.context,
            "process_output": args.process_output,
            "activations": args.run.activations.unwrap_or_default().name(),
        }),
        facts: serde_json::to_value(&facts).map_err(Failure::new)?,
    };
    part.write(&args.output, &collector.to_part(), true, ui)
}

/// The matrix of all parts of one run.
fn merge_parts(args: &ImatrixArgs, format: Format, ui: &Ui) -> Result<(), Failure> {
    if args.file.is_some() {
        return Err(Failure::usage("parts can only be merged with parts"));
    }
    let parts = part_file::open_all(&args.merge, VERB)?;
    let collector = collected(&parts)?;
    let (context, facts): (u32, RunFacts) = (parts[0].setting("context")?, parts[0].facts()?);
    let mut sums = Sums::new(context);
    sums.datasets.push(facts.text);
    let collected = collector.sums(context).map_err(Failure::new)?;
    sums.add(&collected).map_err(Failure::new)?;
    write(&args.output, &sums, format, ui)?;
    report(args, &sums, (&gaps(&facts.matrices, &sums), &[]), ui)
}

/// The sums of parts.
///
/// # Errors
/// A part that has not what its header says.
pub(super) fn collected(parts: &[PartFile]) -> Result<Collector, Failure> {
    let mut collector = Collector::new(false);
    for part in parts {
        collector.add_part(part.payload()).map_err(|error| Failure::at(&part.path, error))?;
    }
    Ok(collector)
}

/// Names what is not covered and not in `named`, and prints everything as JSON on request.
fn report(
    args: &ImatrixArgs,
    sums: &Sums,
    (gaps, named): (&[Gap], &[String]),
    ui: &Ui,
) -> Result<(), Failure> {
    for gap in gaps.iter().filter(|gap| !named.contains(&gap.tensor)) {
        let name = printable(&gap.tensor);
        match gap.experts.as_slice() {
            [] => ui.warning(&format!("tensor `{name}`: no data; the entry is omitted")),
            experts => ui.warning(&format!("tensor `{name}`: no token was routed to experts {experts:?}")),
        }
    }
    if !args.json {
        return Ok(());
    }
    let gaps: Vec<_> =
        gaps.iter().map(|gap| json!({ "tensor": gap.tensor, "experts": gap.experts })).collect();
    let value = json!({
        "output": args.output.display().to_string(),
        "entries": sums.entries.len(),
        "windows": sums.n_chunks,
        "context": sums.chunk_tokens,
        "datasets": sums.datasets,
        "not_covered": gaps,
    });
    ui.data(&format!("{value:#}\n"))
}

/// Sums of an earlier run and the number of chunks that it read.
fn resumed(args: &ImatrixArgs, text: &Path) -> Result<(Sums, usize), Failure> {
    let path = &args.output;
    let failed = |message: String| {
        Failure::at(path, message)
            .hint(["expected the same text, context length and format (GGUF) as in the \
            interrupted run"])
    };
    let sums = Sums::open(path).map_err(|error| not_an_imatrix(path, error))?;
    if sums.format != Format::Gguf {
        return Err(failed("the .dat format does not record the progress of a run".to_owned()));
    }
    if sums.chunk_tokens != args.context {
        return Err(failed(format!("it has chunks of {} tokens", sums.chunk_tokens)));
    }
    if sums.datasets != [text.display().to_string()] {
        return Err(failed(format!("its text is {}", sums.datasets.join(", "))));
    }
    let n_done =
        usize::try_from(sums.n_chunks).map_err(|_| failed("negative number of chunks".to_owned()))?;
    Ok((sums, n_done))
}

fn collect(
    args: &ImatrixArgs,
    model: &Model,
    (chunks, n_done): (&[Chunk], usize),
    start: &Sums,
    format: Format,
    ui: &Ui,
) -> Result<Sums, Failure> {
    let mut collector = Collector::new(args.process_output);
    let sums = |collector: &Collector| {
        let collected = collector.sums(args.context).map_err(|error| of_open(model, error))?;
        let mut sums = start.clone();
        sums.add(&collected).map_err(Failure::new)?;
        Ok::<Sums, Failure>(sums)
    };
    let cancel = cancel_on_interrupt();
    let mut progress = ProgressLine::new("chunks", chunks.len());
    let at_once = model.sequences_at_once(args.context as usize);
    let at_once = args.save_every.map_or(at_once, |every| at_once.min(every as usize));
    let (mut n_read, mut n_saved) = (n_done, n_done);
    // A complete file is not replaced by a partial one.
    let may_save = args.save_every.is_some() || args.resume || !args.output.exists();
    for batch in chunks.get(n_done..).unwrap_or_default().chunks(at_once) {
        collector.add(model, batch).map_err(|error| of_open(model, error))?;
        n_read += batch.len();
        progress.update(ui, n_read, String::new);
        let is_due = args.save_every.is_some_and(|every| n_read - n_saved >= every as usize);
        let is_cancelled = cancel.load(Ordering::Relaxed) && n_read < chunks.len();
        if (is_due && n_read < chunks.len()) || (is_cancelled && may_save) {
            write(&args.output, &sums(&collector)?, format, &Ui { quiet: true, ..*ui })?;
            n_saved = n_read;
        }
        if is_cancelled {
            return Err(interrupted(&args.output, format, (n_saved, n_read, chunks.len())));
        }
    }
    let sums = sums(&collector)?;
    write(&args.output, &sums, format, ui)?;
    Ok(sums)
}

/// The end by Ctrl-C after `n_read` of `n` windows, of which `n_saved` are in the output.
fn interrupted(output: &Path, format: Format, (n_saved, n_read, n): (usize, usize, usize)) -> Failure {
    let message = format!("interrupted after {n_read} of {n} chunks");
    let hint = match format {
        _ if n_saved == 0 => {
            "the existing matrix is untouched; use --save-every N to save partial results".to_owned()
        }
        Format::Gguf => {
            format!("{n_saved} chunks are saved in {}; use --resume to continue", output.display())
        }
        _ => format!("{n_saved} chunks are saved in {}", output.display()),
    };
    Failure { message, ..Failure::interrupted() }.hint([hint])
}

/// Writes the file atomically. The caller has checked that it may be replaced.
fn write(path: &Path, sums: &Sums, format: Format, ui: &Ui) -> Result<(), Failure> {
    let bytes = sums.to_bytes(format).map_err(|error| Failure::at(path, error))?;
    write_result(path, &bytes, true)?;
    let tokens = sums.n_chunks * i64::from(sums.chunk_tokens);
    ui.status(&format!("wrote {}: {} entries from {tokens} tokens", path.display(), sums.entries.len()));
    Ok(())
}
