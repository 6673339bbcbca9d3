//! `gguf-eval compare BASE FILE... --text F`: what quantization cost.

use std::path::{Path, PathBuf};

use clap::{ArgMatches, Args, FromArgMatches};
use eval::{
    Model,
    chunks::{Chunk, Settings, chunks_of_text},
    compare::{Base, chunks_of_file, run as run_chunks},
    logits_file::{Layout, LogitsFile, Writer},
    report::{FileReport, Report, html, kl_by_place},
    stats::{Comparison, Estimate, Position, fixed},
    tensor_error,
};

use super::shared::{
    eval_model::{RunArgs, at, open, tokens, warn_of_length},
    outputs::{check_outputs, write_result},
    progress_line::ProgressLine,
};
use crate::{
    commands::{Command, shared::table::table},
    failure::Failure,
    ui::{Ui, cancel_on_interrupt, human_bytes},
};

/// The row of [`super::COMMANDS`].
pub const COMMAND: Command = Command {
    binary: "gguf-eval",
    verb: Some("compare"),
    define: |command| {
        CompareArgs::augment_args(command)
            .about("Compares what files predict with what their base predicts.")
            .after_help(EXAMPLES)
    },
    ui: |matches| Ui { quiet: matches.get_flag("quiet"), verbose: false },
    run,
};

const EXAMPLES: &str = "\
Examples:
  gguf-eval compare model-BF16.gguf model-Q4_K_M.gguf --text wiki.test.raw
  gguf-eval compare model-BF16.gguf model-Q*.gguf --text wiki.test.raw --windows 20 --html report.html
  gguf-eval compare model-BF16.gguf model-Q4_K_M.gguf --tensors
  gguf-eval compare model-BF16.gguf --text wiki.test.raw --save-logits base.kld
  gguf-eval compare base.kld model-Q4_K_M.gguf --activations rounded --json

All files run together, window by window; no file of logits is needed. Files of logits that
llama-perplexity --kl-divergence-base wrote are read in the place of the base, and --save-logits
writes them. Divergences are in nats. Activations stay f32, where llama-perplexity rounds them to 8 bits
before multiplying them with quantized weights; --activations rounded does as it does.";

#[derive(Debug, Args)]
struct CompareArgs {
    /// The base: a GGUF file, or saved predictions of one.
    base: PathBuf,
    /// The GGUF files to compare with it.
    files: Vec<PathBuf>,
    /// The text, as a file.
    #[arg(short = 'f', long, value_name = "FILE")]
    text: Option<PathBuf>,
    /// Tokens in a window.
    #[arg(short, long, value_name = "N", default_value_t = 512, alias = "ctx-size", value_parser = clap::value_parser!(u32).range(4..))]
    context: u32,
    /// Windows to compare at most.
    #[arg(short = 'n', long, value_name = "N", alias = "chunks", value_parser = clap::value_parser!(u32).range(1..))]
    windows: Option<u32>,
    /// How many of the most likely tokens to look for among the other's.
    #[arg(long, value_name = "K", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1000))]
    top_k: u32,
    /// Also the error of each tensor; without a text nothing else.
    #[arg(long)]
    tensors: bool,
    /// Write the result as a page with charts, tensors included.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write the base's predictions in llama-perplexity's format (2 bytes for each token of the
    /// vocabulary at each position).
    #[arg(long, value_name = "FILE", requires = "text")]
    save_logits: Option<PathBuf>,
    /// Replace files that exist.
    #[arg(long)]
    force: bool,
    /// The result as one JSON object.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    run: RunArgs,
}

/// What the base is.
enum Opened {
    Model(Box<Model>),
    Logits(LogitsFile),
}

/// What is run over the text.
struct Plan {
    chunks: Vec<Chunk>,
    text: Option<String>,
    context: usize,
}

/// What running the text gave.
struct Predictions {
    /// The positions of each of the others.
    positions: Vec<Vec<Position>>,
    /// Whether the base's predictions could be saved, if that was wanted.
    saved: Result<(), Failure>,
}

fn run(matches: &ArgMatches, ui: &Ui) -> Result<(), Failure> {
    let args = CompareArgs::from_arg_matches(matches).map_err(Failure::usage)?;
    let outputs: Vec<&Path> = args.html.iter().chain(&args.save_logits).map(PathBuf::as_path).collect();
    let inputs = [&args.base].into_iter().chain(&args.files).chain(&args.text);
    check_outputs(&outputs, &inputs.map(PathBuf::as_path).collect::<Vec<_>>(), args.force)?;
    let base = if LogitsFile::is_one(&args.base) {
        Opened::Logits(LogitsFile::open(&args.base).map_err(|error| at(&args.base, error))?)
    } else {
        Opened::Model(Box::new(open(&args.base, &args.run, ui)?))
    };
    check(&args, &base)?;
    let others: Vec<Model> =
        args.files.iter().map(|path| open(path, &args.run, ui)).collect::<Result<_, Failure>>()?;
    let plan = plan(&args, &base, &others)?;
    for model in others.iter().filter(|_| !plan.chunks.is_empty()) {
        warn_of_length(model, plan.context, ui);
    }
    let Predictions { positions: found, saved } = predictions(&args, &base, &others, &plan, ui)?;
    let mut files = Vec::new();
    for (index, (path, other)) in args.files.iter().zip(&others).enumerate() {
        let positions = found.get(index).map_or(&[][..], Vec::as_slice);
        let (kl_by_position, kl_by_window) = kl_by_place(positions, plan.chunks.len());
        let tensors = match &base {
            Opened::Model(base) if args.tensors || args.html.is_some() => {
                let progress = ui.progress(n_bytes(base));
                let done = |bytes| progress.add(bytes);
                let found = base.install(|| tensor_error::compare(base.file(), other.file(), &done));
                Some(found.map_err(|error| at(path, error))?)
            }
            _ => None,
        };
        files.push(FileReport {
            file: path.display().to_string(),
            bytes: n_bytes(other),
            bits_per_weight: bits_per_weight(other),
            predictions: (!positions.is_empty()).then(|| Comparison::of(positions, args.top_k as usize)),
            kl_by_position,
            kl_by_window,
            tensors,
        });
    }
    let (base_bytes, architecture) = match &base {
        Opened::Model(model) => (Some(n_bytes(model)), model.architecture().to_owned()),
        Opened::Logits(_) => (None, others.first().map_or("", Model::architecture).to_owned()),
    };
    let report = Report {
        base: args.base.display().to_string(),
        base_bytes,
        architecture,
        text: plan.text,
        activations: args.run.activations.unwrap_or_default().name(),
        context: plan.context,
        windows: plan.chunks.len(),
        files,
    };
    // The result is printed first: what goes wrong with a file must not take it along.
    let text = if args.json {
        serde_json::to_string_pretty(&report).map_err(Failure::new)? + "\n"
    } else {
        listing(&report)
    };
    ui.data(&text)?;
    saved?;
    if let Some(path) = &args.html {
        let page = html(&report).map_err(Failure::new)?;
        write_result(path, page.as_bytes(), args.force)?;
        ui.status(&format!("wrote {}", path.display()));
    }
    Ok(())
}

/// Refuses calls that ask for nothing, or for what the base cannot give.
fn check(args: &CompareArgs, base: &Opened) -> Result<(), Failure> {
    let is_saved = matches!(base, Opened::Logits(_));
    if args.files.is_empty() && args.save_logits.is_none() {
        return Err(Failure::usage("there is no file to compare with the base"));
    }
    if is_saved && (args.tensors || args.save_logits.is_some() || args.text.is_some()) {
        let message = "the base is saved predictions, which have a text of their own and no tensors";
        return Err(Failure::usage(message).hint(["leave out --tensors, --save-logits and --text"]));
    }
    if !is_saved && args.text.is_none() && !args.tensors {
        return Err(Failure::usage("there is no text to predict")
            .hint(["give one with --text, or compare tensors alone with --tensors"]));
    }
    Ok(())
}

fn plan(args: &CompareArgs, base: &Opened, others: &[Model]) -> Result<Plan, Failure> {
    match (base, &args.text, others.first()) {
        (Opened::Logits(file), _, Some(other)) => {
            let n_chunks = args.windows.map(|n| n as usize);
            let chunks = chunks_of_file(other, file, n_chunks).map_err(|error| at(&args.base, error))?;
            Ok(Plan { chunks, text: None, context: file.layout().context })
        }
        (Opened::Model(model), Some(text), _) => {
            let tokens = tokens(model, text)?;
            let (context, n_chunks) = (args.context as usize, args.windows.map(|n| n as usize));
            let settings = Settings { context, n_chunks, stride: None };
            let chunks = chunks_of_text(model, &tokens, &settings).map_err(|error| at(text, error))?;
            Ok(Plan { chunks, text: Some(text.display().to_string()), context })
        }
        _ => Ok(Plan { chunks: Vec::new(), text: None, context: args.context as usize }),
    }
}

fn predictions(
    args: &CompareArgs,
    base: &Opened,
    others: &[Model],
    plan: &Plan,
    ui: &Ui,
) -> Result<Predictions, Failure> {
    if plan.chunks.is_empty() {
        return Ok(Predictions { positions: Vec::new(), saved: Ok(()) });
    }
    let base = match base {
        Opened::Model(model) => Base::Model(model),
        Opened::Logits(file) => Base::File(file),
    };
    let writer = match (&args.save_logits, &args.text, &base) {
        (Some(path), Some(text), Base::Model(model)) => {
            Some(create(path, model, &tokens(model, text)?, plan, args.force)?)
        }
        _ => None,
    };
    let cancel = cancel_on_interrupt();
    let mut progress = ProgressLine::new("windows", plan.chunks.len());
    let mut watch = |n_windows: usize, found: &[Vec<Position>]| {
        progress.update(ui, n_windows, || {
            let mean = |found: &Vec<Position>| Estimate::mean(found.iter().map(|p| p.kl)).value;
            let means: Vec<String> = found.iter().map(|found| format!("{:.5}", mean(found))).collect();
            format!("divergence {}", means.join(" "))
        });
        !cancel.load(std::sync::atomic::Ordering::Relaxed)
    };
    let k = args.top_k as usize;
    let found = run_chunks(&base, others, &plan.chunks, k, writer.as_ref(), &mut watch)
        .map_err(|error| at(&args.base, error))?;
    if cancel.load(std::sync::atomic::Ordering::Relaxed) {
        return Err(Failure::interrupted());
    }
    let saved = match (writer, &args.save_logits) {
        (Some(writer), Some(path)) => writer.finish().map_err(|error| at(path, error)),
        _ => Ok(()),
    };
    if let (Ok(()), Some(path)) = (&saved, &args.save_logits) {
        ui.status(&format!("wrote {}", path.display()));
    }
    Ok(Predictions { positions: found, saved })
}

/// The file of the base's predictions, with the tokens as they were before a BOS was put in.
fn create(path: &Path, model: &Model, tokens: &[u32], plan: &Plan, force: bool) -> Result<Writer, Failure> {
    let layout = Layout { context: plan.context, n_vocab: model.n_vocab(), n_windows: plan.chunks.len() };
    let tokens = &tokens[..plan.context * plan.chunks.len()];
    Writer::create(path, layout, tokens, force).map_err(|error| at(path, error))
}

fn n_bytes(model: &Model) -> u64 {
    model.file().shards().iter().map(|(_, file)| file.bytes().len() as u64).sum()
}

fn elements(model: &Model) -> u64 {
    model.file().tensors().map(|(_, info)| info.shape.n_elems()).sum()
}

fn bits_per_weight(model: &Model) -> f64 {
    let bytes: u64 = model.file().tensors().map(|(_, info)| info.n_bytes).sum();
    tensor::bits_per_weight(elements(model), bytes)
}

fn listing(report: &Report) -> String {
    let mut text = format!("base {}\n", report.base);
    for file in &report.files {
        let (size, bits) = (human_bytes(file.bytes), file.bits_per_weight);
        text += &format!("\n{} ({size}, {bits:.2} bits/weight)\n\n", file.file);
        if let Some(found) = &file.predictions {
            let figures = found.figures().into_iter();
            let rows: Vec<Vec<String>> = figures.map(|it| vec![it.name, it.value, it.error]).collect();
            text += &table(&rows, &[1, 2]);
            text += "\n";
            let mut rows = vec![["", "divergence", "change of probability"].map(str::to_owned).to_vec()];
            for ((name, kl), (_, p_diff)) in
                found.kl_quantiles.named().iter().zip(found.p_diff_quantiles.named())
            {
                let p_diff = format!("{} %", fixed(p_diff * 100.0, 3));
                rows.push(vec![(*name).to_owned(), fixed(*kl, 6), p_diff]);
            }
            text += &table(&rows, &[1, 2]);
        }
        if let Some(tensors) = &file.tensors {
            text += &tensors_listing(tensors);
        }
    }
    text
}

fn tensors_listing(found: &tensor_error::FileError) -> String {
    let decibels = |snr: Option<f64>| snr.map_or("exact".to_owned(), |snr| format!("{snr:.2} dB"));
    let figures = |error: &tensor_error::ElementError| {
        [format!("{:.3e}", error.rmse()), decibels(error.snr_db()), format!("{:.7}", error.cosine())]
    };
    let mut rows = vec![["tensor", "base", "dtype", "RMSE", "SNR", "cosine"].map(str::to_owned).to_vec()];
    for tensor in &found.tensors {
        let names = [crate::ui::printable(&tensor.name), tensor.base_dtype.clone(), tensor.dtype.clone()];
        rows.push(names.into_iter().chain(figures(&tensor.error)).collect());
    }
    let mut text = format!("\n{}", table(&rows, &[3, 4, 5]));
    let mut rows =
        vec![["dtype", "tensors", "elements", "RMSE", "SNR", "cosine"].map(str::to_owned).to_vec()];
    for (dtype, n_tensors, error) in found.by_dtype() {
        let counts = [dtype, n_tensors.to_string(), error.n_elems().to_string()];
        rows.push(counts.into_iter().chain(figures(&error)).collect());
    }
    text += &format!("\n{}", table(&rows, &[1, 2, 3, 4, 5]));
    for (which, names) in [("base", &found.only_in_base), ("other", &found.only_in_other)] {
        for name in names {
            text += &format!("only in the {which}: {}\n", crate::ui::printable(name));
        }
    }
    text
}
