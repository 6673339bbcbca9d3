//! Comparison of a file with an earlier measurement.

use std::{
    fs,
    num::NonZeroUsize,
    path::{Path, PathBuf},
};

use gguf_container::Model;
use gguf_runtime::{
    Activations,
    chunks::{Settings, text_chunks},
    compare::{Base, run as run_chunks},
    stats::{Comparison, fixed},
};
use serde::{Deserialize, Serialize};

use crate::{
    error::Error,
    eval_model::{open, warn_of_length},
    events::Events,
    hash::digest_of_weights,
    input_kind::{self, Wanted},
    outputs::check_outputs,
    perplexity::measure_chunks,
    progress_line::ProgressLine,
    run::{RunOptions, Text},
    text::{pretty_json, printable},
    vocabularies::{Named, warn_of_difference},
};
use gguf_types::words;

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
    /// None for a value that is only reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    margin_percent: Option<f64>,
}

impl Limit {
    fn highest(&self) -> Option<f64> {
        Some(self.value * (1.0 + self.margin_percent? / 100.0))
    }
}

/// Result of a check.
#[derive(Debug)]
pub enum Checked {
    /// The text of a new baseline, which the caller writes.
    Saved(String),
    /// Each metric with its baseline.
    Compared(Vec<Verdict>),
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
    /// The highest value that is allowed; `None` for a metric without a limit.
    pub highest: Option<f64>,
    /// True if the value exceeds it.
    pub is_worse: bool,
}

/// Fails if a metric of the file at `file` is worse than its limit.
///
/// # Errors
/// The names of these metrics, with [`crate::ErrorKind::Worse`].
pub fn verdict(file: &Path, verdicts: &[Verdict]) -> Result<(), Error> {
    let worse = verdicts.iter().filter(|verdict| verdict.is_worse).map(|verdict| verdict.what);
    let worse: Vec<&str> = worse.collect();
    if worse.is_empty() {
        return Ok(());
    }
    Err(Error::worse(file, format_args!("{} worse than the baseline allows", worse.join(" and "))))
}

impl Verdict {
    fn new(what: &'static str, value: f64, limit: &Limit) -> Verdict {
        let highest = limit.highest();
        // NaN is worse than any number.
        let is_worse = value.is_nan() || highest.is_some_and(|highest| value > highest);
        Verdict { what, value, baseline: limit.value, highest, is_worse }
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

    /// Value, baseline and limit.
    pub fn line(&self) -> String {
        let limit = self.highest.map_or("no limit".to_owned(), |highest| format!("at most {highest:.6}"));
        let (value, baseline) = (self.value, self.baseline);
        format!("{} {value:.6}, baseline {baseline:.6} ({} %), {limit}", self.name(), self.change())
    }
}

/// The verdicts on the file at `file` as a table in Markdown, for the summary of a job.
pub fn markdown(file: &Path, verdicts: &[Verdict]) -> String {
    let is_worse = verdicts.iter().any(|verdict| verdict.is_worse);
    let word = if is_worse { "worse than the baseline allows" } else { "as good as the baseline" };
    let mut text = format!(
        "### `{}`: {word}\n\n| metric | value | baseline | change | limit | |\n|---|--:|--:|--:|--:|---|\n",
        // A name is not Markdown.
        printable(&file.display().to_string()).replace('`', "'")
    );
    for verdict in verdicts {
        let Verdict { value, baseline, highest, is_worse, .. } = verdict;
        let word = if *is_worse { "**worse**" } else { "ok" };
        let (name, change) = (verdict.name(), verdict.change());
        let limit = highest.map_or("none".to_owned(), |highest| format!("{highest:.6}"));
        text += &format!("| {name} | {value:.6} | {baseline:.6} | {change} % | {limit} | {word} |\n");
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
/// if let Checked::Compared(verdicts) = check(&options, &())? {
///     assert!(verdicts.iter().all(|verdict| !verdict.is_worse));
/// }
/// # Ok(())
/// # }
/// ```
pub fn check(args: &CheckOptions, events: &dyn Events) -> Result<Checked, Error> {
    let mut args = args.clone();
    let inputs = [args.file.as_path()].into_iter().chain(args.text.path()).chain(args.base.as_deref());
    if args.save {
        check_outputs(&[&args.baseline], &inputs.collect::<Vec<_>>(), args.force)?;
    } else if args.force || args.context.is_some() || args.chunks.is_some() {
        return Err(Error::usage(words!("[-context] and [-chunks] are set by the baseline"))
            .hint([words!("omit [-context], [-chunks] and [-force], which are for saving a baseline")]));
    }
    let text_sha256 = args.text.sha256()?;
    let baseline = if args.save { None } else { Some(read(&args.baseline)?) };
    let settings = match &baseline {
        None => Settings {
            context: args.context.map_or(Settings::default().context, |n| n as usize),
            n_chunks: args.chunks.map(|n| n as usize),
            stride: None,
        },
        Some(baseline) => {
            if baseline.text_sha256 != text_sha256 {
                return Err(args
                    .text
                    .failed(&args.file, "the text differs from the text of the baseline")
                    .hint([format!("expected SHA-256 {}", baseline.text_sha256)]));
            }
            if baseline.divergence.is_some() && args.base.is_none() {
                return Err(Error::usage(words!("missing [-base]: the baseline has a KL divergence"))
                    .hint([words!("pass the base with [-base]")]));
            }
            if baseline.divergence.is_none() && args.base.is_some() {
                return Err(Error::usage("the baseline was saved without a base")
                    .hint([words!("save the baseline again with [-base], or omit [-base]")]));
            }
            if args.activations.is_some_and(|given| given != baseline.activations) {
                let made =
                    words!("the baseline was saved with [-activations {}]", baseline.activations.name());
                return Err(Error::usage(made));
            }
            args.activations = Some(baseline.activations);
            let settings =
                Settings { context: baseline.context, n_chunks: Some(baseline.windows), stride: None };
            settings.check().map_err(|error| Error::at(&args.baseline, error))?;
            settings
        }
    };
    let base_sha256 = args.base.as_deref().map(|base| weights_of(base, events)).transpose()?;
    let stated = baseline.as_ref().and_then(|baseline| baseline.base_sha256.as_ref());
    if let (Some(base), Some(expected)) = (&args.base, stated)
        && base_sha256.as_ref() != Some(expected)
    {
        return Err(Error::at(base, "the weights differ from those of the base of the baseline").hint([
            words!("expected SHA-256 {} of all tensors (`[gguf-inspect hash -tensors]`)", expected),
        ]));
    }
    let version = baseline.as_ref().map(|baseline| &baseline.version);
    if let Some(version) = version.filter(|version| *version != VERSION) {
        events.note(format!("the baseline was saved by version {version}; this is version {VERSION}"));
    }
    let (windows, perplexity, divergence) = metrics(&args, &settings, events)?;
    let Some(baseline) = baseline else {
        // The divergence is a better measure of the same damage.
        let default = divergence.is_none().then_some(PERPLEXITY_MARGIN);
        let perplexity = Limit { value: perplexity, margin_percent: args.perplexity_margin.or(default) };
        let margin_percent = args.divergence_margin.or(Some(DIVERGENCE_MARGIN));
        let divergence = divergence.map(|value| Limit { value, margin_percent });
        let baseline = Baseline {
            text_sha256,
            base_sha256,
            version: VERSION.to_owned(),
            context: settings.context,
            windows,
            activations: args.activations.unwrap_or_default(),
            perplexity,
            divergence,
        };
        return Ok(Checked::Saved(pretty_json(&baseline)?));
    };
    let limit = |limit: &Limit, given: Option<f64>| Limit {
        margin_percent: given.or(limit.margin_percent),
        ..*limit
    };
    let mut verdicts =
        vec![Verdict::new("perplexity", perplexity, &limit(&baseline.perplexity, args.perplexity_margin))];
    if let (Some(value), Some(stated)) = (divergence, &baseline.divergence) {
        verdicts.push(Verdict::new("divergence", value, &limit(stated, args.divergence_margin)));
    }
    Ok(Checked::Compared(verdicts))
}

/// Perplexity is the same to the last digits unless something changed: kernels that add in
/// another order move it by less than a thousandth of that. Without a base it is the only measure; an equally good
/// quantization can differ by more.
const PERPLEXITY_MARGIN: f64 = 0.1;
/// The divergence is a small difference of large numbers.
const DIVERGENCE_MARGIN: f64 = 2.0;

/// Version of this program, which baselines record.
const VERSION: &str = env!("CARGO_PKG_VERSION");

fn weights_of(path: &Path, events: &dyn Events) -> Result<String, Error> {
    let failed = |error| input_kind::explained(path, Wanted::Gguf, Error::at(path, error));
    let model = Model::open(path).map_err(failed)?;
    digest_of_weights(&model, events)
}

fn read(path: &Path) -> Result<Baseline, Error> {
    let advice = || [words!("save a baseline of a known good file with [-save]")];
    let text = fs::read_to_string(path).map_err(|error| Error::cannot_open(path, error).hint(advice()))?;
    serde_json::from_str(&text).map_err(|error| Error::at(path, error).hint(advice()))
}

/// Windows, perplexity, and with a base the divergence from it.
fn metrics(
    args: &CheckOptions,
    settings: &Settings,
    events: &dyn Events,
) -> Result<(usize, f64, Option<f64>), Error> {
    let options = args.run().of_runtime();
    let model = open(&args.file, &options, events)?;
    let tokens = args.text.tokens(&args.file, &model, events)?;
    let chunks =
        text_chunks(&model, &tokens, settings).map_err(|error| args.text.failed(&args.file, error))?;
    warn_of_length(&model, settings.context, events);
    match &args.base {
        None => {
            let found = measure_chunks(&model, &chunks, 0..chunks.len(), &mut |_| {}, events)
                .map_err(|failure| failure.at(&args.file))?;
            Ok((found.n_chunks, found.value(), None))
        }
        Some(path) => {
            let base = open(path, &options, events)?;
            let own = Named { path: &args.file, model: &model };
            warn_of_difference(own, Named { path, model: &base }, events);
            let mut progress = ProgressLine::new("chunks", chunks.len());
            let mut watch = |n_windows: usize, _: &[_]| {
                progress.update(events, n_windows, String::new);
                true
            };
            let found =
                run_chunks(&Base::Model(&base), &[model], (&chunks, 0..chunks.len()), 1, None, &mut watch)
                    .map_err(|error| Error::at(&args.file, error))?;
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
        let limit = Limit { value: 20.0, margin_percent: Some(1.0) };
        for (value, is_worse) in [(19.0, false), (20.19, false), (20.21, true), (f64::NAN, true)] {
            assert_eq!(Verdict::new("perplexity", value, &limit).is_worse, is_worse, "{value}");
        }
        let line = Verdict::new("perplexity", 21.0, &limit).line();
        assert_eq!(line, "perplexity 21.000000, baseline 20.000000 (+5.000 %), at most 20.200000");
        let reported = Verdict::new("perplexity", 21.0, &Limit { margin_percent: None, ..limit });
        assert!(!reported.is_worse && reported.line().ends_with("(+5.000 %), no limit"));
    }
}
