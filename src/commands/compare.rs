//! `gguf-eval compare BASE FILE... --text F`: what quantization cost.

use std::path::{Path, PathBuf};

use clap::{ArgMatches, Args, FromArgMatches};
use eval::{
    Model,
    compare::{Base, cuts_of_file, run as run_windows},
    logits_file::{Layout, LogitsFile, Writer},
    perplexity::{Cut, Settings, cut},
    report::{FileReport, Report, html, kl_by_place},
    stats::{Comparison, Estimate, Position},
    tensor_error,
};

use super::shared::{
    eval_model::{RunArgs, at, open, tokens},
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
    #[arg(short, long, value_name = "N", default_value_t = 512)]
    context: usize,
    /// Windows to compare at most.
    #[arg(short = 'n', long, value_name = "N")]
    windows: Option<usize>,
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

/// Windows and the base that predicts them.
struct Plan {
    cuts: Vec<Cut>,
    text: Option<String>,
    context: usize,
}

fn run(matches: &ArgMatches, ui: &Ui) -> Result<(), Failure> {
    let args = CompareArgs::from_arg_matches(matches).map_err(Failure::usage)?;
    let base = if LogitsFile::is_one(&args.base) {
        Opened::Logits(LogitsFile::open(&args.base).map_err(|error| at(&args.base, error))?)
    } else {
        Opened::Model(Box::new(open(&args.base, &args.run)?))
    };
    check(&args, &base)?;
    let others: Vec<Model> =
        args.files.iter().map(|path| open(path, &args.run)).collect::<Result<_, Failure>>()?;
    let plan = plan(&args, &base, &others)?;
    let found = predictions(&args, &base, &others, &plan, ui)?;
    let mut files = Vec::new();
    for (index, (path, other)) in args.files.iter().zip(&others).enumerate() {
        let positions = found.get(index).map_or(&[][..], Vec::as_slice);
        let (kl_by_position, kl_by_window) = kl_by_place(positions, plan.cuts.len());
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
        windows: plan.cuts.len(),
        files,
    };
    if let Some(path) = &args.html {
        let page = html(&report).map_err(Failure::new)?;
        gguf::Output::write_whole(path, page.as_bytes(), args.force).map_err(Failure::new)?;
        ui.status(&format!("wrote {}", path.display()));
    }
    let text = if args.json {
        serde_json::to_string_pretty(&report).map_err(Failure::new)? + "\n"
    } else {
        listing(&report)
    };
    ui.data(&text)
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
            let cuts = cuts_of_file(other, file, args.windows).map_err(|error| at(&args.base, error))?;
            Ok(Plan { cuts, text: None, context: file.layout().context })
        }
        (Opened::Model(model), Some(text), _) => {
            let tokens = tokens(model, text)?;
            let settings = Settings { context: args.context, windows: args.windows, stride: None };
            let cuts = cut(model, &tokens, &settings).map_err(|error| at(text, error))?;
            Ok(Plan { cuts, text: Some(text.display().to_string()), context: args.context })
        }
        _ => Ok(Plan { cuts: Vec::new(), text: None, context: args.context }),
    }
}

fn predictions(
    args: &CompareArgs,
    base: &Opened,
    others: &[Model],
    plan: &Plan,
    ui: &Ui,
) -> Result<Vec<Vec<Position>>, Failure> {
    if plan.cuts.is_empty() {
        return Ok(Vec::new());
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
    let mut progress = ProgressLine::new("windows", plan.cuts.len());
    let mut watch = |n_windows: usize, found: &[Vec<Position>]| {
        progress.update(ui, n_windows, || {
            let mean = |found: &Vec<Position>| Estimate::mean(found.iter().map(|p| p.kl)).value;
            let means: Vec<String> = found.iter().map(|found| format!("{:.5}", mean(found))).collect();
            format!("divergence {}", means.join(" "))
        });
        !cancel.load(std::sync::atomic::Ordering::Relaxed)
    };
    let k = args.top_k as usize;
    let found = run_windows(&base, others, &plan.cuts, k, writer.as_ref(), &mut watch)
        .map_err(|error| at(&args.base, error))?;
    if cancel.load(std::sync::atomic::Ordering::Relaxed) {
        return Err(Failure::interrupted());
    }
    if let (Some(writer), Some(path)) = (writer, &args.save_logits) {
        writer.finish().map_err(|error| at(path, error))?;
        ui.status(&format!("wrote {}", path.display()));
    }
    Ok(found)
}

/// The file of the base's predictions, with the tokens as they were before a BOS was put in.
fn create(path: &Path, model: &Model, tokens: &[u32], plan: &Plan, force: bool) -> Result<Writer, Failure> {
    let layout = Layout { context: plan.context, n_vocab: model.n_vocab(), n_windows: plan.cuts.len() };
    let tokens = &tokens[..plan.context * plan.cuts.len()];
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
            text += &table(&predictions_rows(found), &[1, 2]);
            text += "\n";
            let mut rows = vec![["", "divergence", "change of probability"].map(str::to_owned).to_vec()];
            for ((name, kl), (_, p_diff)) in
                found.kl_quantiles.named().iter().zip(found.p_diff_quantiles.named())
            {
                rows.push(vec![(*name).to_owned(), format!("{kl:.6}"), format!("{:.3} %", p_diff * 100.0)]);
            }
            text += &table(&rows, &[1, 2]);
        }
        if let Some(tensors) = &file.tensors {
            text += &tensors_listing(tensors);
        }
    }
    text
}

fn predictions_rows(found: &Comparison) -> Vec<Vec<String>> {
    let row = |name: &str, estimate: Estimate, factor: f64, unit: &str| {
        let value = format!("{:.6}{unit}", estimate.value * factor);
        vec![name.to_owned(), value, format!("± {:.6}{unit}", estimate.error * factor)]
    };
    vec![
        row("divergence, mean", found.kl, 1.0, ""),
        row("perplexity", found.perplexity, 1.0, ""),
        row("perplexity of the base", found.base_perplexity, 1.0, ""),
        row("perplexity / base", found.perplexity_ratio, 1.0, ""),
        row("ln of that", found.ln_perplexity_ratio, 1.0, ""),
        row("perplexity - base", found.perplexity_difference, 1.0, ""),
        vec![
            "correlation of log-likelihoods".to_owned(),
            format!("{:.4} %", found.correlation * 100.0),
            String::new(),
        ],
        row("same most likely token", found.same_top, 100.0, " %"),
        row(&format!("most likely {} shared", found.k), found.same_top_k, 100.0, " %"),
        row("change of probability, mean", found.p_diff, 100.0, " %"),
        row("change of probability, RMS", found.p_diff_rms, 100.0, " %"),
    ]
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
