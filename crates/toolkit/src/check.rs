//! Comparison of a file with an earlier measurement.

use std::{
    fs,
    num::NonZeroUsize,
    path::{Path, PathBuf},
};

use gguf_runtime::{
    Activations,
    chunks::{Settings, text_chunks},
    compare::{Base, Step, run as run_chunks},
    report::kl_by_place,
    stats::{Comparison, Estimate, Position, fixed, significant},
};
use serde::{Deserialize, Serialize};

use crate::{
    container_file::open_model,
    error::Error,
    eval_model::{open, warn_of_few_chunks, warn_of_length},
    events::Events,
    failure::quoted,
    hash::digest_of_weights,
    outputs::check_outputs,
    perplexity::measure_chunks,
    progress_line::ProgressLine,
    run::{RunOptions, Text},
    text::{pretty_json, printable},
    vocabularies::{Named, warn_of_difference},
};
use gguf_types::{counted, words};

/// Options of a check.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CheckOptions {
    /// The GGUF file.
    pub file: PathBuf,
    /// The baseline.
    pub baseline: PathBuf,
    /// The text.
    pub text: Text,
    /// The file that the checked file was made from. With it, the KL divergence is checked, and the perplexity only if it has
    /// a margin.
    pub base: Option<PathBuf>,
    /// Accept a base with other weights than that of the baseline, after a retraining. The file is worse only if the paired
    /// difference exceeds two standard errors (more with few chunks), too.
    pub new_base: bool,
    /// Measure a new baseline instead of comparing with it.
    pub save: bool,
    /// Overwrite an existing baseline.
    pub force: bool,
    /// Tokens of a chunk, with `save`. Default: 512.
    pub context: Option<u32>,
    /// Maximum number of chunks. Requires `save`.
    pub chunks: Option<u32>,
    /// Percent by which the perplexity may rise. Default: that of the baseline. A new baseline has 0.1, or no limit with a
    /// base.
    pub perplexity_margin: Option<f64>,
    /// Percent by which the KL divergence may rise. Default: that of the baseline, or 2.
    pub divergence_margin: Option<f64>,
    /// Number of threads; `None` for one per core.
    pub threads: Option<NonZeroUsize>,
    /// Precision of activations. Default: that of the baseline.
    pub activations: Option<Activations>,
}

impl CheckOptions {
    fn run(&self) -> RunOptions {
        RunOptions {
            threads: self.threads,
            activations: self.activations.unwrap_or_default(),
            adapters: Vec::new(),
        }
    }
}

/// Saved metrics of a file, and how much worse they may get.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Baseline {
    /// SHA-256 of the text.
    text_sha256: String,
    /// [`digest_of_weights`] of the base.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    base_sha256: Option<String>,
    /// Version of this program.
    version: String,
    context: usize,
    chunks: usize,
    #[serde(default)]
    activations: Activations,
    perplexity: Limit,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    divergence: Option<Limit>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Limit {
    value: f64,
    /// None for a value that is only reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    margin_percent: Option<f64>,
    /// As in [`Metric`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    by_chunk: Vec<f64>,
}

impl Limit {
    fn highest(&self) -> Option<f64> {
        Some(self.value * (1.0 + self.margin_percent? / 100.0))
    }
}

impl Baseline {
    /// The chunks to measure.
    ///
    /// # Errors
    /// Another text, or options that differ from those of the baseline.
    fn settings(&self, args: &CheckOptions, text_sha256: &str) -> Result<Settings, Error> {
        if self.text_sha256 != text_sha256 {
            return Err(args
                .text
                .failed(&args.file, "the text differs from the text of the baseline")
                .hint([format!("expected SHA-256 {}, found {text_sha256}", self.text_sha256)]));
        }
        if self.divergence.is_some() && args.base.is_none() {
            return Err(Error::usage(words!("missing [-base]: the baseline has a KL divergence"))
                .hint([words!("pass the base with [-base]")]));
        }
        if self.divergence.is_none() && args.base.is_some() {
            return Err(Error::usage("the baseline was saved without a base")
                .hint([words!("save the baseline again with [-base], or omit [-base]")]));
        }
        if args.activations.is_some_and(|given| given != self.activations) {
            return Err(Error::usage(words!(
                "the baseline was saved with [-activations {}]",
                self.activations.name()
            )));
        }
        let settings = Settings { context: self.context, n_chunks: Some(self.chunks), stride: None };
        settings.check().map_err(|error| Error::at(&args.baseline, error))?;
        Ok(settings)
    }
}

/// A measured metric.
struct Metric {
    value: f64,
    /// Mean in each chunk, in nats. For the perplexity, it is that of the negative log-likelihood.
    by_chunk: Vec<f64>,
}

impl Metric {
    fn limit(self, margin_percent: Option<f64>) -> Limit {
        Limit { value: self.value, margin_percent, by_chunk: self.by_chunk }
    }
}

struct Metrics {
    n_chunks: usize,
    perplexity: Metric,
    divergence: Option<Metric>,
}

/// Result of a check.
#[derive(Debug)]
pub enum Checked {
    /// A new baseline, which the caller writes.
    Saved(NewBaseline),
    /// The comparison with the baseline.
    Compared(CheckReport),
}

/// A new baseline.
#[derive(Debug)]
pub struct NewBaseline {
    /// Its text.
    pub json: String,
    /// Its metrics and the number of chunks, in a line.
    pub summary: String,
}

/// Result of a comparison with a baseline.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CheckReport {
    /// True if a metric is worse than its limit.
    pub is_worse: bool,
    /// True if the base has other weights than that of the baseline.
    pub is_new_base: bool,
    /// Tokens in a chunk.
    pub context: usize,
    /// Chunks of the text.
    pub chunks: usize,
    /// Each metric over the text, with its baseline.
    pub metrics: Vec<Verdict>,
}

/// A metric and its baseline.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Verdict {
    /// Name of the metric.
    pub what: &'static str,
    /// Its value.
    pub value: f64,
    /// The value in the baseline.
    pub baseline: f64,
    /// Mean difference from the baseline, in nats, paired by chunk. For the perplexity, it is that of the negative log-likelihood.
    /// `None` if the baseline has other chunks.
    pub difference: Option<Estimate>,
    /// The highest value that is allowed; `None` for a metric without a limit.
    pub highest: Option<f64>,
    /// True if the value exceeds it and, with a new base, the difference is above zero by more than two standard errors,
    /// [widened](Estimate::widened) for few chunks.
    pub is_worse: bool,
}

impl CheckReport {
    /// Fails if a metric of the file at `file` is worse than its limit.
    ///
    /// # Errors
    /// The names of these metrics, with [`crate::ErrorKind::Worse`].
    pub fn verdict(&self, file: &Path) -> Result<(), Error> {
        let worse = self.metrics.iter().filter(|verdict| verdict.is_worse).map(|verdict| verdict.what);
        let worse: Vec<&str> = worse.collect();
        if worse.is_empty() {
            return Ok(());
        }
        Err(Error::worse(file, format_args!("{} worse than the baseline allows", worse.join(" and "))))
    }
}

impl Verdict {
    fn new(what: &'static str, found: &Metric, limit: &Limit, is_new_base: bool) -> Verdict {
        let (value, highest) = (found.value, limit.highest());
        let n_chunks = found.by_chunk.len();
        let difference = (n_chunks > 0 && n_chunks == limit.by_chunk.len())
            .then(|| Estimate::paired(&limit.by_chunk, &found.by_chunk));
        // With the same base, the metrics of an unchanged file are the same to the last digits. With another one, they change
        // by chance, too.
        let is_sure = !is_new_base
            || difference.is_some_and(|difference| difference.widened(n_chunks).is_surely_positive());
        // NaN is worse than any number.
        let is_worse = value.is_nan() || is_sure && highest.is_some_and(|highest| value > highest);
        Verdict { what, value, baseline: limit.value, difference, highest, is_worse }
    }

    /// The result in a word; `-` for a metric without a limit.
    pub fn word(&self) -> &'static str {
        match self.highest {
            _ if self.is_worse => "worse",
            Some(_) => "ok",
            None => "-",
        }
    }

    fn name(&self) -> &'static str {
        if self.what == "divergence" { "KL divergence" } else { self.what }
    }

    /// Percent above the baseline, with a sign.
    fn change(&self) -> String {
        let change = fixed((self.value / self.baseline - 1.0) * 100.0, 3);
        let sign = if change.starts_with('-') { "" } else { "+" };
        format!("{sign}{change}")
    }

    /// Value, baseline and limit, and the difference on a second line.
    pub fn lines(&self) -> String {
        let limit =
            self.highest.map_or("no limit".to_owned(), |highest| format!("at most {}", shown(highest)));
        let (value, baseline) = (shown(self.value), shown(self.baseline));
        let difference = self
            .difference
            .map_or(String::new(), |difference| format!("\n  difference {difference} nats, paired by chunk"));
        format!("{} {value}, baseline {baseline} ({} %), {limit}{difference}", self.name(), self.change())
    }
}

/// The digits that a margin of a tenth of a percent needs.
fn shown(value: f64) -> String {
    significant(value, 6)
}

/// The result for the file at `file` as a table in Markdown, for the summary of a job.
pub fn markdown(file: &Path, report: &CheckReport) -> String {
    let word = if report.is_worse { "worse than the baseline allows" } else { "as good as the baseline" };
    let mut text = format!(
        "### `{}`: {word}\n\n| metric | value | baseline | change | difference (nats) | limit | |\n\
         |---|--:|--:|--:|--:|--:|---|\n",
        // A name is not Markdown.
        printable(&file.display().to_string()).replace('`', "'")
    );
    for verdict in &report.metrics {
        let word = if verdict.is_worse { "**worse**" } else { verdict.word() };
        let (value, baseline) = (shown(verdict.value), shown(verdict.baseline));
        let (name, change) = (verdict.name(), verdict.change());
        let difference = verdict.difference.map_or(String::new(), |difference| difference.to_string());
        let limit = verdict.highest.map_or("none".to_owned(), shown);
        text +=
            &format!("| {name} | {value} | {baseline} | {change} % | {difference} | {limit} | {word} |\n");
    }
    text
}

/// Compares a file with its baseline, or measures a new baseline.
///
/// # Errors
/// Invalid options, a file, text or baseline that cannot be read, a text that differs from that of the baseline.
///
/// # Examples
/// ```no_run
/// use gguf_toolkit::{
///     Text,
///     check::{CheckOptions, Checked, check},
/// };
///
/// # fn main() -> Result<(), gguf_toolkit::Error> {
/// let options = CheckOptions {
///     file: "model-q4_k_m.gguf".into(),
///     baseline: "baseline.json".into(),
///     text: Text::file("wiki.test.raw"),
///     ..Default::default()
/// };
/// if let Checked::Compared(report) = check(&options, &())? {
///     assert!(!report.is_worse);
/// }
/// # Ok(())
/// # }
/// ```
pub fn check(args: &CheckOptions, events: &dyn Events) -> Result<Checked, Error> {
    let mut args = args.clone();
    let inputs = [args.file.as_path()].into_iter().chain(args.text.path()).chain(args.base.as_deref());
    if args.save {
        let checked = check_outputs(&[&args.baseline], &inputs.collect::<Vec<_>>(), args.force);
        let hint = (args.baseline.is_file() && !args.force)
            .then_some("overwriting the baseline accepts the measured file as good");
        checked.map_err(|error| error.hint(hint))?;
    } else if args.force || args.context.is_some() || args.chunks.is_some() {
        return Err(Error::usage(words!("[-context] and [-chunks] are set by the baseline"))
            .hint([words!("omit [-context], [-chunks] and [-force], which are for saving a baseline")]));
    }
    let text_sha256 = args.text.sha256()?;
    let baseline = if args.save { None } else { Some(read(&args)?) };
    let settings = match &baseline {
        None => Settings {
            context: args.context.map_or(Settings::default().context, |n| n as usize),
            n_chunks: args.chunks.map(|n| n as usize),
            stride: None,
        },
        Some(baseline) => baseline.settings(&args, &text_sha256)?,
    };
    if let Some(baseline) = &baseline {
        args.activations = Some(baseline.activations);
    }
    let base_sha256 = args.base.as_deref().map(|base| weights_of(base, events)).transpose()?;
    let stated = baseline.as_ref().and_then(|baseline| baseline.base_sha256.as_ref());
    let is_other_base = stated.is_some_and(|expected| base_sha256.as_ref() != Some(expected));
    let is_new_base = is_other_base && args.new_base;
    if is_other_base
        && !args.new_base
        && let (Some(base), Some(expected)) = (&args.base, stated)
    {
        return Err(Error::at(base, "the weights differ from those of the base of the baseline").hint([
            words!("expected SHA-256 {} of all tensors (`[gguf-inspect hash -tensors]`)", expected),
            words!("to compare the divergences from both bases, pass [-new-base]"),
        ]));
    }
    let version = baseline.as_ref().map(|baseline| &baseline.version);
    if let Some(version) = version.filter(|version| *version != VERSION) {
        events.note(format!("the baseline was saved by version {version}; this is version {VERSION}"));
    }
    let Metrics { n_chunks, perplexity, divergence } = metrics(&args, &settings, events)?;
    let Some(baseline) = baseline else {
        // The divergence is a better measure of the same damage.
        let default = divergence.is_none().then_some(PERPLEXITY_MARGIN);
        let margin = args.divergence_margin.or(Some(DIVERGENCE_MARGIN));
        let summary = summary(&perplexity, divergence.as_ref(), n_chunks);
        let baseline = Baseline {
            text_sha256,
            base_sha256,
            version: VERSION.to_owned(),
            context: settings.context,
            chunks: n_chunks,
            activations: args.activations.unwrap_or_default(),
            perplexity: perplexity.limit(args.perplexity_margin.or(default)),
            divergence: divergence.map(|found| found.limit(margin)),
        };
        return Ok(Checked::Saved(NewBaseline { json: pretty_json(&baseline)?, summary }));
    };
    let limit = |limit: &Limit, given: Option<f64>| Limit {
        margin_percent: given.or(limit.margin_percent),
        ..limit.clone()
    };
    let of_perplexity = limit(&baseline.perplexity, args.perplexity_margin);
    let mut metrics = vec![Verdict::new("perplexity", &perplexity, &of_perplexity, is_new_base)];
    if let (Some(found), Some(stated)) = (divergence, &baseline.divergence) {
        let stated = limit(stated, args.divergence_margin);
        metrics.push(Verdict::new("divergence", &found, &stated, is_new_base));
    }
    if is_new_base && metrics.iter().any(|verdict| verdict.difference.is_none()) {
        let message = format_args!(
            "{n_chunks} chunks cannot be paired with those of the baseline, which has values of {}",
            baseline.perplexity.by_chunk.len()
        );
        return Err(Error::at(&args.file, message).hint([words!(
            "save the baseline again with [-save] if the tokenizer differs or the baseline is old"
        )]));
    }
    let is_worse = metrics.iter().any(|verdict| verdict.is_worse);
    let context = settings.context;
    Ok(Checked::Compared(CheckReport { is_worse, is_new_base, context, chunks: n_chunks, metrics }))
}

fn summary(perplexity: &Metric, divergence: Option<&Metric>, n_chunks: usize) -> String {
    let kl = divergence.map(|found| format!("KL {}, ", significant(found.value, 3))).unwrap_or_default();
    format!("{kl}perplexity {}, {}", significant(perplexity.value, 4), counted(n_chunks, "chunk"))
}

/// Perplexity is the same to the last digits unless something changed: kernels that add in
/// another order move it by less than a thousandth of that. Without a base, no other metric is available; an equally good
/// quantization can differ by more.
const PERPLEXITY_MARGIN: f64 = 0.1;
/// The divergence is a small difference of large numbers.
const DIVERGENCE_MARGIN: f64 = 2.0;

/// Version of this program, which baselines record.
const VERSION: &str = env!("CARGO_PKG_VERSION");

fn weights_of(path: &Path, events: &dyn Events) -> Result<String, Error> {
    digest_of_weights(&open_model(path)?, events)
}

fn read(args: &CheckOptions) -> Result<Baseline, Error> {
    let path = &args.baseline;
    let advice = || {
        let text = args.text.path().unwrap_or(Path::new("TEXT"));
        let [file, text, baseline] =
            [args.file.as_path(), text, path.as_path()].map(|path| quoted(&path.to_string_lossy()));
        let command = match &args.base {
            None => words!("`[gguf-eval check {} -text {} -baseline {} -save]`", file, text, baseline),
            Some(base) => words!(
                "`[gguf-eval check {} -base {} -text {} -baseline {} -save]`",
                file,
                quoted(&base.to_string_lossy()),
                text,
                baseline
            ),
        };
        [words!("to save a baseline, run this with a known good file: ") + command]
    };
    let text = fs::read_to_string(path).map_err(|error| Error::cannot_open(path, error).hint(advice()))?;
    serde_json::from_str(&text).map_err(|error| Error::at(path, error).hint(advice()))
}

/// The perplexity, and with a base the divergence from it.
fn metrics(args: &CheckOptions, settings: &Settings, events: &dyn Events) -> Result<Metrics, Error> {
    let options = args.run().of_runtime();
    let model = open(&args.file, &options, events)?;
    let tokens = args.text.tokens(&args.file, &model, events)?;
    let chunks =
        text_chunks(&model, &tokens, settings).map_err(|error| args.text.failed(&args.file, error))?;
    warn_of_length(&model, settings.context, events);
    let n_chunks = chunks.len();
    if args.save {
        warn_of_few_chunks(n_chunks, events);
    }
    let by_chunk = |values: &[f64]| -> Vec<f64> {
        let of_chunk = values.chunks((values.len() / n_chunks.max(1)).max(1));
        of_chunk.map(|values| Estimate::mean(values.iter().copied()).value).collect()
    };
    match &args.base {
        None => {
            let mut losses = Vec::new();
            let mut add = |log_probability: f64| losses.push(-log_probability);
            let found = measure_chunks(&model, &chunks, 0..n_chunks, &mut add, events)
                .map_err(|failure| failure.at(&args.file))?;
            let perplexity = Metric { value: found.value(), by_chunk: by_chunk(&losses) };
            Ok(Metrics { n_chunks: found.n_chunks, perplexity, divergence: None })
        }
        Some(path) => {
            let base = open(path, &options, events)?;
            let own = Named { path: &args.file, model: &model };
            warn_of_difference(own, Named { path, model: &base }, events);
            let mut progress = ProgressLine::new("chunks", n_chunks);
            let mut watch = |step: Step<'_>| {
                if let Step::Compared { n_chunks, .. } = step {
                    progress.update(events, n_chunks, String::new);
                }
                true
            };
            let found =
                run_chunks(&Base::Model(&base), &[model], (&chunks, 0..n_chunks), 1, None, &mut watch)
                    .map_err(|error| Error::at(&args.file, error))?;
            let positions: &[Position] = found.first().map_or(&[][..], Vec::as_slice);
            let losses: Vec<f64> = positions.iter().map(|position| position.nll).collect();
            let (_, kl_by_chunk) = kl_by_place(positions, n_chunks);
            let found = Comparison::of(positions, 1);
            let perplexity = Metric { value: found.perplexity.value, by_chunk: by_chunk(&losses) };
            let divergence = Metric { value: found.kl.value, by_chunk: kl_by_chunk };
            Ok(Metrics { n_chunks, perplexity, divergence: Some(divergence) })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn worse_is_above_the_margin() {
        let limit = Limit { value: 20.0, margin_percent: Some(1.0), by_chunk: vec![2.9, 3.1, 3.0] };
        let verdict = |value, by_chunk: &[f64], limit: &Limit, is_new_base| {
            let found = Metric { value, by_chunk: by_chunk.to_vec() };
            Verdict::new("perplexity", &found, limit, is_new_base)
        };
        let (sure, unsure) = ([3.0, 3.2, 3.1], [2.9, 3.1, 3.6]);
        for (value, by_chunk, [is_worse, is_worse_with_new_base]) in [
            (19.0, sure, [false, false]),
            (20.19, sure, [false, false]),
            (20.21, sure, [true, true]),
            (20.21, unsure, [true, false]),
            (f64::NAN, unsure, [true, true]),
        ] {
            let found = [false, true].map(|is_new| verdict(value, &by_chunk, &limit, is_new).is_worse);
            assert_eq!(found, [is_worse, is_worse_with_new_base], "{value}");
        }
        let lines = verdict(21.0, &unsure, &limit, false).lines();
        let expected =
            "perplexity 21.0000, baseline 20.0000 (+5.000 %), at most 20.2000\n  difference 0.20 ± 0.20 nats";
        assert!(lines.starts_with(expected), "{lines}");
        let reported = verdict(21.0, &[], &Limit { margin_percent: None, ..limit }, false);
        assert!(!reported.is_worse && reported.lines().ends_with("(+5.000 %), no limit"));
    }
}
