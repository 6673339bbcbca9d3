//! `gguf-eval check FILE --baseline B.json`: comparison of a file with an earlier measurement.

use std::{
    fs,
    path::{Path, PathBuf},
};

use clap::Args;
use eval::{
    Activations,
    chunks::{Settings, text_chunks},
    compare::{Base, run as run_chunks},
    perplexity::measure,
    stats::{Comparison, fixed},
};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::shared::{
    digest::sha256_of,
    eval_model::{RunArgs, at, open, tokens, warn_of_length},
    outputs::{check_outputs, write_result},
    progress_line::ProgressLine,
    vocabularies,
};
use crate::{
    commands::Command,
    failure::Failure,
    ui::{ERROR, GOOD, Ui, pretty_json},
};

/// The row of [`super::COMMANDS`].
pub const COMMAND: Command = Command {
    verb: Some("check"),
    about: "Fail if a model is worse than a saved baseline",
    examples: EXAMPLES,
    define: CheckArgs::augment_args,
    run: |matches, ui| run(Command::args(matches)?, ui),
    ..Command::of("gguf-eval")
};

const EXAMPLES: &str = "\
Examples:
  gguf-eval check q4.gguf --base bf16.gguf --text t.txt --baseline b.json --save
  gguf-eval check q4.gguf --base bf16.gguf --text t.txt --baseline b.json

The first command writes the baseline; the second compares the model with it. The exit code is 1 if perplexity or,
with --base, the KL divergence exceeds the baseline by more than the margin, or if the check cannot
run; usage errors exit with 2. With --json, the result has `is_worse`; if the check cannot run, the
output is an object with `error` and `hints`. The baseline stores perplexity, KL divergence, context
length, number of chunks, margins, precision of activations and a checksum of the text.";

#[derive(Debug, Args)]
struct CheckArgs {
    /// GGUF file, or any shard of a split model.
    #[arg(value_name = "MODEL")]
    file: PathBuf,
    /// Compare with the baseline in FILE (JSON).
    #[arg(long, value_name = "FILE")]
    baseline: PathBuf,
    /// Read the text from FILE.
    #[arg(short = 'f', long, value_name = "FILE")]
    text: PathBuf,
    /// Use MODEL as the base.
    ///
    /// This is the GGUF file from which the checked file was made. The KL divergence from it is checked as well.
    #[arg(long, value_name = "MODEL")]
    base: Option<PathBuf>,
    /// Write the baseline instead of comparing with it.
    #[arg(long)]
    save: bool,
    /// Overwrite existing outputs.
    #[arg(long)]
    force: bool,
    /// Set the context length, in tokens.
    ///
    /// Use with --save (default: 512). Otherwise the value in the baseline is used.
    #[arg(short, long, alias = "ctx", value_name = "N", value_parser = clap::value_parser!(u32).range(4..))]
    context: Option<u32>,
    /// Read at most N chunks of the text.
    ///
    /// Use with --save. Otherwise the value in the baseline is used.
    #[arg(long, alias = "windows", value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    chunks: Option<u32>,
    /// Allow perplexity to rise by PERCENT.
    ///
    /// Default: the margin in the baseline, or 0.1 with --save.
    #[arg(long, value_name = "PERCENT", value_parser = percent, hide_short_help = true)]
    perplexity_margin: Option<f64>,
    /// Allow the KL divergence to rise by PERCENT.
    ///
    /// Default: the margin in the baseline, or 2 with --save.
    #[arg(long, value_name = "PERCENT", value_parser = percent, hide_short_help = true)]
    divergence_margin: Option<f64>,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    run: RunArgs,
}

fn percent(text: &str) -> Result<f64, String> {
    match text.trim_end_matches('%').parse::<f64>() {
        Ok(percent) if percent.is_finite() && percent >= 0.0 => Ok(percent),
        _ => Err("expected a percentage of 0 or more".to_owned()),
    }
}

/// Saved metrics of a file, and how much worse they may get.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Baseline {
    /// SHA-256 of the text.
    text_sha256: String,
    context: usize,
    windows: usize,
    #[serde(default)]
    activations: Activations,
    perplexity: Limit,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    divergence: Option<Limit>,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Limit {
    value: f64,
    margin_percent: f64,
}

impl Limit {
    fn highest(&self) -> f64 {
        self.value * (1.0 + self.margin_percent / 100.0)
    }
}

/// A metric and its baseline.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct Verdict {
    what: &'static str,
    value: f64,
    baseline: f64,
    highest: f64,
    is_worse: bool,
}

impl Verdict {
    fn new(what: &'static str, value: f64, limit: &Limit) -> Verdict {
        let highest = limit.highest();
        // NaN is worse than any number.
        let is_worse = value.is_nan() || value > highest;
        Verdict { what, value, baseline: limit.value, highest, is_worse }
    }

    fn line(&self) -> String {
        let change = fixed((self.value / self.baseline - 1.0) * 100.0, 3);
        let sign = if change.starts_with('-') { "" } else { "+" };
        let (verdict, style) = if self.is_worse { ("worse", ERROR) } else { ("ok", GOOD) };
        let name = if self.what == "divergence" { "KL divergence" } else { self.what };
        format!(
            "{style}{verdict}:{style:#} {name} {:.6}, baseline {:.6} ({sign}{change} %), at most {:.6}\n",
            self.value, self.baseline, self.highest
        )
    }
}

fn run(args: CheckArgs, ui: &Ui) -> Result<(), Failure> {
    let wants_json = args.json;
    let verdicts = match check(args, ui) {
        Err(failure) if wants_json => {
            let object = json!({"error": failure.message, "hints": failure.hints});
            ui.data(&format!("{object:#}\n"))?;
            return Err(failure);
        }
        found => found?,
    };
    let Some((file, verdicts)) = verdicts else { return Ok(()) };
    if wants_json {
        ui.json(&verdicts)?;
    } else {
        ui.styled_data(&verdicts.iter().map(Verdict::line).collect::<String>())?;
    }
    let worse: Vec<&str> =
        verdicts.iter().filter(|verdict| verdict.is_worse).map(|verdict| verdict.what).collect();
    if worse.is_empty() {
        return Ok(());
    }
    Err(Failure::at(&file, format_args!("{} worse than the baseline allows", worse.join(" and "))))
}

/// Compares a file with its baseline; no verdicts if the baseline is saved.
fn check(mut args: CheckArgs, ui: &Ui) -> Result<Option<(PathBuf, Vec<Verdict>)>, Failure> {
    let inputs = [&args.file, &args.text].into_iter().chain(&args.base);
    if args.save {
        check_outputs(&[&args.baseline], &inputs.collect::<Vec<_>>(), args.force)?;
    } else if args.force || args.context.is_some() || args.chunks.is_some() {
        return Err(Failure::usage("--context and --chunks are set by the baseline")
            .hint(["omit --context, --chunks and --force, which are for saving a baseline"]));
    }
    let text_sha256 = sha256_of(&args.text)?;
    let baseline = if args.save { None } else { Some(read(&args.baseline)?) };
    let settings = match &baseline {
        None => Settings {
            context: args.context.map_or(Settings::default().context, |n| n as usize),
            n_chunks: args.chunks.map(|n| n as usize),
            stride: None,
        },
        Some(baseline) => {
            if baseline.text_sha256 != text_sha256 {
                return Err(Failure::at(&args.text, "the text differs from the text of the baseline")
                    .hint([format!("expected SHA-256 {}", baseline.text_sha256)]));
            }
            if baseline.divergence.is_some() && args.base.is_none() {
                return Err(Failure::usage("missing --base: the baseline has a KL divergence")
                    .hint(["pass the base with --base"]));
            }
            if args.run.activations.is_some_and(|given| given != baseline.activations) {
                let made =
                    format!("the baseline was saved with --activations {}", baseline.activations.name());
                return Err(Failure::usage(made));
            }
            args.run.activations = Some(baseline.activations);
            let settings =
                Settings { context: baseline.context, n_chunks: Some(baseline.windows), stride: None };
            settings.check().map_err(|error| Failure::at(&args.baseline, error))?;
            settings
        }
    };
    let (windows, perplexity, divergence) = metrics(&args, &settings, ui)?;
    let margin = |given: Option<f64>, else_percent: f64| given.unwrap_or(else_percent);
    let Some(baseline) = baseline else {
        let perplexity =
            Limit { value: perplexity, margin_percent: margin(args.perplexity_margin, PERPLEXITY_MARGIN) };
        let divergence = divergence
            .map(|value| Limit { value, margin_percent: margin(args.divergence_margin, DIVERGENCE_MARGIN) });
        let baseline = Baseline {
            text_sha256,
            context: settings.context,
            windows,
            activations: args.run.activations.unwrap_or_default(),
            perplexity,
            divergence,
        };
        let json = pretty_json(&baseline)?;
        ui.data(&json)?;
        write_result(&args.baseline, json.as_bytes(), args.force)?;
        ui.status(&format!("wrote {}", args.baseline.display()));
        return Ok(None);
    };
    let limit =
        |limit: &Limit, given| Limit { margin_percent: margin(given, limit.margin_percent), ..*limit };
    let mut verdicts =
        vec![Verdict::new("perplexity", perplexity, &limit(&baseline.perplexity, args.perplexity_margin))];
    if let (Some(value), Some(stated)) = (divergence, &baseline.divergence) {
        verdicts.push(Verdict::new("divergence", value, &limit(stated, args.divergence_margin)));
    }
    Ok(Some((args.file.clone(), verdicts)))
}

/// Perplexity is the same to the last digits unless something changed: kernels that add in
/// another order move it by less than a thousandth of that.
const PERPLEXITY_MARGIN: f64 = 0.1;
/// The divergence is a small difference of large numbers.
const DIVERGENCE_MARGIN: f64 = 2.0;

fn read(path: &Path) -> Result<Baseline, Failure> {
    let advice = ["save a baseline of a known good file with --save"];
    let text = fs::read_to_string(path).map_err(|error| Failure::cannot_open(path, error).hint(advice))?;
    serde_json::from_str(&text).map_err(|error| Failure::at(path, error).hint(advice))
}

/// Windows, perplexity, and with a base the divergence from it.
fn metrics(args: &CheckArgs, settings: &Settings, ui: &Ui) -> Result<(usize, f64, Option<f64>), Failure> {
    let model = open(&args.file, &args.run, ui)?;
    let tokens = tokens(&model, &args.text, ui)?;
    let chunks = text_chunks(&model, &tokens, settings).map_err(|error| at(&args.text, error))?;
    warn_of_length(&model, settings.context, ui);
    let mut progress = ProgressLine::new("chunks", chunks.len());
    match &args.base {
        None => {
            let mut watch = |found: &eval::perplexity::Perplexity| {
                progress.update(ui, found.n_chunks, || format!("perplexity {:.4}", found.value()));
            };
            let found =
                measure(&model, &tokens, settings, &mut watch).map_err(|error| at(&args.file, error))?;
            Ok((found.n_chunks, found.value(), None))
        }
        Some(path) => {
            let base = open(path, &args.run, ui)?;
            vocabularies::warn_of_difference((&args.file, &model), (path, &base), ui);
            let mut watch = |n_windows: usize, _: &[_]| {
                progress.update(ui, n_windows, String::new);
                true
            };
            let found =
                run_chunks(&Base::Model(&base), &[model], (&chunks, 0..chunks.len()), 1, None, &mut watch)
                    .map_err(|error| at(&args.file, error))?;
            let found = Comparison::of(&found[0], 1);
            Ok((chunks.len(), found.perplexity.value, Some(found.kl.value)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn worse_is_above_the_margin() {
        let limit = Limit { value: 20.0, margin_percent: 1.0 };
        for (value, is_worse) in [(19.0, false), (20.19, false), (20.21, true), (f64::NAN, true)] {
            assert_eq!(Verdict::new("perplexity", value, &limit).is_worse, is_worse, "{value}");
        }
        let line = Verdict::new("perplexity", 21.0, &limit).line();
        let line = anstream::adapter::strip_str(&line).to_string();
        assert_eq!(line, "worse: perplexity 21.000000, baseline 20.000000 (+5.000 %), at most 20.200000\n");
    }
}
