//! The page: the values that fill the template.

use minijinja::{Environment, context};
use serde::Serialize;

use super::{
    FileReport, Passage, PassageToken, Report,
    chart::{Axis, Chart, Scale, smoothed},
    heat::{decibels, heat_maps},
    labels_of,
};
use crate::{
    Error,
    stats::{Comparison, Estimate, Quantiles, fixed, significant},
    tensor_error::FileError,
};

const TEMPLATE: &str = include_str!("../../templates/report.html");
const STYLE: &str = include_str!("../../templates/style.css");
const TEMPLATE_NAME: &str = "page.html";

/// A page from a template. It can include the common rules as `style.css`, and format numbers with the filter `fixed`.
///
/// Every value is escaped, because names and texts of files are not trusted.
///
/// # Errors
/// [`Error::Template`], which would be our own fault.
pub fn page(template: &str, values: impl Serialize) -> Result<String, Error> {
    let mut environment = Environment::new();
    // An unknown name is a mistake in the template, not an empty text. The ending of the template's name has
    // everything escaped.
    environment.set_undefined_behavior(minijinja::UndefinedBehavior::Strict);
    environment.add_filter("fixed", fixed);
    let failed = |error: minijinja::Error| Error::Template { problem: format!("{error:#}") };
    environment.add_template("style.css", STYLE).map_err(failed)?;
    environment.add_template(TEMPLATE_NAME, template).map_err(failed)?;
    environment.get_template(TEMPLATE_NAME).map_err(failed)?.render(values).map_err(failed)
}

/// A report as one self-contained page: no scripts, no fonts or pictures from elsewhere.
///
/// # Errors
/// As [`page`].
pub fn html(report: &Report) -> Result<String, Error> {
    let report = &Report { files: report.by_size().into_iter().cloned().collect(), ..report.clone() };
    let labels = labels_of(report).into_iter();
    let files: Vec<FileView> = report.files.iter().zip(labels).enumerate().map(FileView::new).collect();
    let base = report.files.iter().find_map(|file| file.predictions.as_ref());
    let values = context! {
        report,
        files,
        finding => report.finding(),
        base_perplexity => base.map(|found| found.base_perplexity.to_string()),
        size_chart => size_chart(report),
        position_chart => position_chart(report),
        chunk_chart => chunk_chart(report),
        heat => heat_maps(&report.files),
        grids => grids(&report.files),
        calibrated => calibrated(report),
        hues => hues(report.files.len()),
        version => env!("CARGO_PKG_VERSION"),
    };
    page(TEMPLATE, values)
}

/// Number and hue, in degrees, of the colours after the eight chosen by hand. Each hue is a golden angle after the previous one.
fn hues(n_files: usize) -> Vec<(usize, u32)> {
    (8..n_files).map(|colour| (colour, ((colour as f64 * 137.508) % 360.0).round() as u32)).collect()
}

/// The values of a file that have to be computed.
#[derive(Serialize)]
struct FileView {
    /// The last part of the path, or the path without one.
    name: String,
    /// The part of the name that differs between the files.
    label: String,
    path: String,
    colour: usize,
    kl: String,
    perplexity: String,
    perplexity_ratio: String,
    same_top: String,
    passage: Option<PassageView>,
}

/// A calibrated file, and the file of about the same size that is not calibrated.
#[derive(Serialize)]
struct CalibratedRow {
    name: String,
    before_name: String,
    before: String,
    after: String,
    change: String,
}

/// A chunk, token by token.
#[derive(Serialize)]
struct PassageView {
    /// From 1.
    chunk: usize,
    tokens: Vec<TokenView>,
}

#[derive(Serialize)]
struct TokenView {
    text: String,
    /// From 0 (little divergence) to 9.
    strength: u32,
    same_top: bool,
    title: String,
}

/// A table with a column for each file.
#[derive(Serialize)]
struct Grid {
    title: &'static str,
    about: &'static str,
    rows: Vec<GridRow>,
}

#[derive(Serialize)]
struct GridRow {
    name: String,
    cells: Vec<String>,
}

/// A value of a file, with the name of its row.
struct Named {
    name: String,
    value: String,
}

impl FileView {
    fn new((index, (file, label)): (usize, (&FileReport, String))) -> FileView {
        let found = file.predictions.as_ref();
        let text = |estimate: Option<Estimate>| estimate.map(|found| found.to_string()).unwrap_or_default();
        FileView {
            name: name_of(&file.file).to_owned(),
            label,
            path: file.file.clone(),
            colour: index,
            kl: text(found.map(|found| found.kl)),
            perplexity: text(found.map(|found| found.perplexity)),
            perplexity_ratio: text(found.map(|found| found.perplexity_ratio)),
            same_top: found.map(|found| found.same_top.percent()).unwrap_or_default(),
            passage: file.passage.as_ref().map(passage_view),
        }
    }
}

fn passage_view(passage: &Passage) -> PassageView {
    /// Divergences, in nats, of the faintest and the full color; the scale between them is logarithmic.
    const FAINT: f64 = 1e-3;
    const FULL: f64 = 1.0;
    let strength = |kl: f64| {
        let place = (kl.max(FAINT) / FAINT).log10() / (FULL / FAINT).log10();
        (place.clamp(0.0, 1.0) * 9.0).round() as u32
    };
    let token = |token: &PassageToken| TokenView {
        text: token.text.clone(),
        strength: strength(token.kl),
        same_top: token.same_top,
        title: format!(
            "{} nats, probability {} % in the base, {} % here",
            fixed(token.kl, 4),
            fixed(token.p_base * 100.0, 2),
            fixed(token.p * 100.0, 2)
        ),
    };
    PassageView { chunk: passage.chunk + 1, tokens: passage.tokens.iter().map(token).collect() }
}

/// Calibrated files, each with a file without calibration of nearly its size: one of the same file type, or else the nearest.
fn calibrated(report: &Report) -> Vec<CalibratedRow> {
    /// Difference of sizes up to which files are compared, as a part of the size.
    const NEAR: f64 = 0.03;
    let labels = labels_of(report);
    let all: Vec<(usize, &FileReport, Estimate)> = report
        .files
        .iter()
        .enumerate()
        .filter_map(|(index, file)| Some((index, file, file.predictions.as_ref()?.kl)))
        .collect();
    let rows =
        all.iter().filter(|(_, file, _)| file.calibration.is_some()).filter_map(|(index, file, kl)| {
            let difference = |other: &FileReport| other.bytes.abs_diff(file.bytes);
            let others = all.iter().filter(|(_, other, _)| {
                other.calibration.is_none() && difference(other) as f64 <= NEAR * file.bytes as f64
            });
            let (before, _, before_kl) =
                others.min_by_key(|(_, other, _)| (other.file_type != file.file_type, difference(other)))?;
            Some(CalibratedRow {
                name: labels[*index].clone(),
                before_name: labels[*before].clone(),
                before: before_kl.to_string(),
                after: kl.to_string(),
                change: format!("{} %", fixed((kl.value / before_kl.value - 1.0) * 100.0, 1)),
            })
        });
    rows.collect()
}

/// Facts of all files side by side.
fn grids(files: &[FileReport]) -> Vec<Grid> {
    let noisiest = noisiest(files);
    let kl = |file: &FileReport| quantiles(file, |found| found.kl_quantiles, |kl| significant(kl, 3));
    let p_diff = |file: &FileReport| {
        quantiles(file, |found| found.p_diff_quantiles, |change| format!("{} %", fixed(change * 100.0, 3)))
    };
    let worst = |file: &FileReport| ratios(file, &noisiest);
    let grids = [
        grid("Metrics", "One standard error is after ±.", files, metrics),
        grid("Distribution of the KL divergence", "In nats.", files, kl),
        grid(
            "Distribution of the change in probability",
            "The probability is that of the token that follows in the text.",
            files,
            p_diff,
        ),
        grid("Error by type", "Signal-to-noise ratio; number of tensors.", files, by_dtype),
        grid("Tensors with the largest error", "Signal-to-noise ratio and type.", files, worst),
    ];
    grids.into_iter().flatten().collect()
}

/// The rows of all files in the order in which they first occur; `None` without rows.
fn grid(
    title: &'static str,
    about: &'static str,
    files: &[FileReport],
    values: impl Fn(&FileReport) -> Vec<Named>,
) -> Option<Grid> {
    let mut rows: Vec<GridRow> = Vec::new();
    for (column, file) in files.iter().enumerate() {
        for Named { name, value } in values(file) {
            let known = rows.iter().position(|row| row.name == name);
            let at = known.unwrap_or_else(|| {
                rows.push(GridRow { name, cells: vec![String::new(); files.len()] });
                rows.len() - 1
            });
            rows[at].cells[column] = value;
        }
    }
    (!rows.is_empty()).then_some(Grid { title, about, rows })
}

fn metrics(file: &FileReport) -> Vec<Named> {
    let metrics = file.metrics().into_iter();
    metrics.map(|metric| Named { name: metric.name, value: metric.value }).collect()
}

fn quantiles(
    file: &FileReport,
    of: fn(&Comparison) -> Quantiles,
    text: impl Fn(f64) -> String,
) -> Vec<Named> {
    let named = file.predictions.iter().flat_map(|found| of(found).named());
    named.map(|(name, value)| Named { name: name.to_owned(), value: text(value) }).collect()
}

fn by_dtype(file: &FileReport) -> Vec<Named> {
    let rows = file.tensors.iter().flat_map(FileError::by_dtype);
    let named = rows.map(|(dtype, n_tensors, error)| Named {
        name: dtype,
        value: format!("{}; {n_tensors}", decibels(error.snr_db())),
    });
    named.collect()
}

/// Names of the tensors with the most noise against their signal in any file, the noisiest first.
fn noisiest(files: &[FileReport]) -> Vec<&str> {
    const SHOWN: usize = 12;
    let tensors = files.iter().flat_map(|file| &file.tensors).flat_map(|found| &found.tensors);
    let mut noisy: Vec<(f64, &str)> =
        tensors.filter_map(|tensor| Some((tensor.error.snr_db()?, tensor.name.as_str()))).collect();
    // Least decibels first: SNR is signal to noise. Tensors without an error have no ratio and are not listed.
    noisy.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut names = Vec::new();
    for (_, name) in noisy {
        if names.len() < SHOWN && !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

fn ratios(file: &FileReport, names: &[&str]) -> Vec<Named> {
    let tensor = |name: &&str| file.tensors.as_ref()?.tensors.iter().find(|tensor| tensor.name == **name);
    let named = names.iter().filter_map(tensor).map(|tensor| Named {
        name: tensor.name.clone(),
        value: format!("{} ({})", decibels(tensor.error.snr_db()), tensor.dtype),
    });
    named.collect()
}

/// File sizes against divergence, if there is more than one file.
fn size_chart(report: &Report) -> Option<Chart> {
    let measured: Vec<(usize, &FileReport, Estimate)> = report
        .files
        .iter()
        .enumerate()
        .filter_map(|(index, file)| Some((index, file, file.predictions.as_ref()?.kl)))
        // The axis of divergences is logarithmic, and the base compared with itself has none.
        .filter(|(.., kl)| kl.value > 0.0)
        .collect();
    if measured.len() < 2 {
        return None;
    }
    let labels = labels_of(report);
    let megabytes = |file: &FileReport| file.bytes as f64 / 1e6;
    let base = report.base_bytes.map(|bytes| bytes as f64 / 1e6);
    let x = Axis::over(measured.iter().map(|(_, file, _)| megabytes(file)), Scale::Linear).widened();
    let x = base.map_or(x, |size| x.with_mark_of(size));
    let ends = |kl: &Estimate| [kl.value - kl.error, kl.value, kl.value + kl.error];
    let y = Axis::over(measured.iter().flat_map(|(.., kl)| ends(kl)), Scale::Log);
    let mut chart = Chart::new(&x, "file size, MB", &y, "KL divergence, nats/token", &[]);
    for (index, file, kl) in measured {
        let size = megabytes(file);
        let detail = format!("{size:.0} MB, {:.2} bits per weight, {kl} nats", file.bits_per_weight);
        chart.point(&labels[index], detail, index, (&x, &y), (size, kl.value));
        let [low, _, high] = ends(&kl);
        chart.bar(&y, low, high);
    }
    if let Some(size) = base {
        chart.base("base", format!("base, {size:.0} MB, no divergence"), &x, size);
    }
    chart.place_names();
    chart.mark_frontier();
    Some(chart)
}

/// Short names for files: the last components of their paths, without the words at the start and the ending that all have in common.
///
/// # Examples
/// ```
/// assert_eq!(gguf_runtime::report::labels(&["out/m-q8_0.gguf", "out/m-q4_0.gguf"]), ["q8_0", "q4_0"]);
/// ```
pub fn labels(paths: &[&str]) -> Vec<String> {
    let names: Vec<&str> = paths.iter().map(|path| name_of(path)).collect();
    let Some(first) = names.first().filter(|_| names.len() > 1) else {
        return names.into_iter().map(str::to_owned).collect();
    };
    let ends = first.char_indices().filter(|(_, c)| *c == '.').map(|(at, _)| &first[at..]);
    let end = ends.filter(|end| names.iter().all(|name| name.ends_with(end))).max_by_key(|end| end.len());
    let stem = |name: &str| end.and_then(|end| name.strip_suffix(end)).unwrap_or(name).to_owned();
    let stems: Vec<String> = names.iter().map(|name| stem(name)).collect();
    // The last word boundary up to which all are equal.
    let is_border = |c: char| "-_. ".contains(c);
    let mut borders = stems[0].char_indices().filter(|(_, c)| is_border(*c)).map(|(at, c)| at + c.len_utf8());
    let is_shared = |at: &usize| stems.iter().all(|stem| stem.starts_with(&stems[0][..*at]));
    let begin = borders.rfind(is_shared).unwrap_or(0);
    let label = |(name, stem): (&&str, &String)| {
        let label = &stem[begin..];
        if label.is_empty() || stems.iter().all(|other| other == stem) {
            (*name).to_owned()
        } else {
            label.to_owned()
        }
    };
    names.iter().zip(&stems).map(label).collect()
}

/// The path's last part.
fn name_of(path: &str) -> &str {
    path.rsplit(['/', '\\']).next().unwrap_or(path)
}

fn position_chart(report: &Report) -> Option<Chart> {
    let first = (report.context / 2) as f64;
    lines(report, |file| &file.kl_by_position, first, "position in the chunk")
}

fn chunk_chart(report: &Report) -> Option<Chart> {
    lines(report, |file| &file.kl_by_chunk, 1.0, "chunk of the text")
}

/// The scale for the lines of several files: logarithmic if their means differ by more than a factor of ten. A linear axis
/// would then show only the largest.
fn scale_of(lines: &[Vec<f64>]) -> Scale {
    let means = lines.iter().map(|line| line.iter().sum::<f64>() / line.len().max(1) as f64);
    let means: Vec<f64> = means.filter(|mean| *mean > 0.0 && mean.is_finite()).collect();
    let largest = means.iter().copied().fold(0.0, f64::max);
    if means.iter().any(|mean| largest > 10.0 * mean) { Scale::Log } else { Scale::Linear }
}

fn lines(report: &Report, values: fn(&FileReport) -> &Vec<f64>, first: f64, x_label: &str) -> Option<Chart> {
    let n = report.files.iter().map(|file| values(file).len()).max().filter(|n| *n > 1)?;
    // The mean over a fortieth of the line to both sides: enough to smooth it, too little to hide a trend.
    let all: Vec<Vec<f64>> = report.files.iter().map(|file| smoothed(values(file), n / 40)).collect();
    let x = Axis::over([first, first + (n - 1) as f64], Scale::Linear).whole();
    let scale = scale_of(&all);
    let y = Axis::over(all.iter().flatten().copied(), scale);
    // The linear axis starts at zero: a truncated one would make small differences look large.
    let y = if scale == Scale::Linear { y.with_zero() } else { y };
    let names = labels_of(report);
    let mut chart = Chart::new(&x, x_label, &y, "KL divergence, nats/token", &names);
    for (index, (name, values)) in names.iter().zip(&all).enumerate() {
        let points = values.iter().enumerate().map(|(at, value)| (first + at as f64, *value));
        // Zero has no place on a logarithmic axis.
        let points: Vec<_> = points.filter(|(_, value)| scale == Scale::Linear || *value > 0.0).collect();
        chart.line(name, index, (&x, &y), &points);
    }
    chart.place_line_names();
    Some(chart)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::{continuations::Continuations, stats::Position};

    fn report(n_files: usize) -> Report {
        let position = |i: usize| Position {
            nll_base: 1.0 + (i % 3) as f64,
            nll: 1.1 + (i % 3) as f64,
            kl: 0.01 * (1 + i % 7) as f64,
            same_top: !i.is_multiple_of(5),
            shared_top_k: 3,
        };
        let positions: Vec<Position> = (0..60).map(position).collect();
        let (kl_by_position, kl_by_chunk) = crate::report::kl_by_place(&positions, 3);
        let file = |index: usize| FileReport {
            file: format!("some/<b>{index}.gguf"),
            bytes: 1000 * (index as u64 + 1),
            bits_per_weight: 4.5,
            predictions: Some(Comparison::of(&positions, 5)),
            kl_by_position: kl_by_position.clone(),
            kl_by_chunk: kl_by_chunk.clone(),
            kl_difference: None,
            continuations: Some(Continuations::of(&[32, 8])),
            tensors: None,
            file_type: None,
            calibration: (index % 2 == 1).then(|| "feedback".to_owned()),
            passage: crate::report::passage(&positions, 3, |_| vec!["<i>a".to_owned(), " b\n".to_owned()]),
        };
        Report {
            base: "base.gguf".into(),
            base_bytes: Some(9000),
            architecture: "llama".into(),
            text: Some("text".into()),
            context: 42,
            activations: "f32",
            chunks: 3,
            files: (0..n_files).map(file).collect(),
        }
    }

    #[test]
    fn page_escapes_names_and_has_charts() {
        let page = html(&report(2)).unwrap();
        assert!(page.contains("&lt;b&gt;1.gguf") && !page.contains("<b>"));
        assert_eq!(page.matches("<svg").count(), 3, "size, position, chunk");
        assert_eq!(page.matches("<polyline").count(), 4);
        assert!(!page.contains("<script") && !page.contains("http"));
    }

    #[test]
    fn different_magnitudes_get_a_logarithmic_axis() {
        let mut report = report(2);
        let labels = |report: &Report| -> Vec<String> {
            position_chart(report).unwrap().y_ticks.into_iter().map(|tick| tick.label).collect()
        };
        assert_eq!(labels(&report)[0], "0");
        // All but one position are exact.
        report.files[1].kl_by_position.fill(0.0);
        report.files[1].kl_by_position[3] = 0.0001;
        let log = labels(&report);
        assert!(!log.contains(&"0".to_owned()) && log.len() > 1, "{log:?}");
    }

    #[test]
    fn tokens_and_calibration_are_shown() {
        let mut report = report(2);
        let page = html(&report).unwrap();
        assert!(page.contains("&lt;i&gt;a</span>") && page.contains(": second half of chunk "), "{page}");
        // The files differ too much in size to be compared.
        assert!(!page.contains("Before and after calibration"));
        report.files[1].bytes = report.files[0].bytes + 10;
        let page = html(&report).unwrap();
        assert!(page.contains("Before and after calibration") && page.contains("<td>0.0 %</td>"), "{page}");
    }

    #[test]
    fn files_are_ranked_by_paired_differences() {
        let finding = |kl_by_chunk: &[[f64; 4]], repeats: usize| {
            let mut report = report(kl_by_chunk.len());
            report.chunks = 4 * repeats;
            for ((file, chunks), name) in report.files.iter_mut().zip(kl_by_chunk).zip(["a", "b", "c"]) {
                file.file = format!("{name}.gguf");
                file.kl_by_chunk = chunks.repeat(repeats);
            }
            report.finding()
        };
        // The chunks differ more than the files.
        let (a, b) = ([0.2, 0.4, 0.6, 2.0], [0.1, 0.2, 0.3, 1.0]);
        let (worse, unsure) =
            ("c is larger than b and worse (by ", "c is larger than b and not measurably better");
        for (files, texts) in [
            (&[b.map(|kl| kl + 0.3), b, b.map(|kl| kl + 0.1)][..], ["Best for the size: a and b; ", worse]),
            (&[b.map(|kl| kl + 0.3), b, b], ["Best for the size: a and b; ", unsure]),
            (&[b.map(|kl| kl + 0.3), b, [0.0, 0.4, 0.1, 1.1]], ["Best for the size: a and b; ", unsure]),
            (
                &[a.map(|kl| kl + 0.3), a, a.map(|kl| kl - 0.1)],
                ["Each file is the best for its size", "larger"],
            ),
        ] {
            let found = finding(files, 2).unwrap_or_default();
            assert!(texts.iter().all(|text| found.contains(text)), "{found}");
            let few = "4 chunks of text are too few to rank these files: measure more chunks.";
            assert_eq!(finding(files, 1).as_deref(), Some(few));
        }
        // The mean difference is 2.29 standard errors; Student's t for 8 chunks is 2.365.
        let found = finding(&[b.map(|kl| kl + 0.3), b, [0.12, 0.1, 0.2, 0.5]], 2).unwrap_or_default();
        assert!(found.contains("c is larger than b, and 8 chunks are too few to rank the two"), "{found}");
        assert_eq!(finding(&[a], 2), None);
        // A byte more of a thousand is the same size.
        let mut close = report(2);
        close.chunks = 8;
        let rows = close.files.iter_mut().zip([("a", 1000, 0.3), ("b", 1001, 0.0)]);
        for (file, (name, bytes, more)) in rows {
            (file.file, file.bytes) = (format!("{name}.gguf"), bytes);
            file.kl_by_chunk = a.map(|kl| kl + more).repeat(2);
            file.predictions.as_mut().unwrap().kl.value += more;
        }
        let found = close.finding().unwrap_or_default();
        assert!(found.starts_with("Best for the size: b; a is as large as b and worse (by 0.3"), "{found}");
        assert!(found.ends_with("8 chunks of text are few; 20 or more give precise metrics."), "{found}");
    }

    #[test]
    fn charts_have_error_bars_names_and_the_base() {
        let report = report(3);
        let page = html(&report).unwrap();
        assert_eq!(page.matches("class=\"bar ").count(), 3);
        assert_eq!(page.matches("class=\"base\"").count(), 2, "in the chart and in the table");
        // A name at the end of each line instead of a legend.
        assert_eq!(page.matches("class=\"end ").count(), 6);
        let ticks = size_chart(&report).unwrap().y_ticks.len();
        assert!(ticks >= 3, "{ticks}");
        let csv = crate::report::csv(&report);
        let rows: Vec<usize> = csv.lines().map(|line| line.split(',').count()).collect();
        assert!(rows.len() == 4 && rows.iter().all(|n| *n == rows[0]), "{csv}");
    }

    #[test]
    fn labels_show_only_distinct_parts() {
        let mut report = report(3);
        for (file, name) in report.files.iter_mut().zip(["q8_0", "q4_k_m", "q4_0"]) {
            file.file = format!("out/smollm2-135m-{name}.gguf");
        }
        assert_eq!(labels_of(&report), ["q8_0", "q4_k_m", "q4_0"]);
        report.files[1].file = "other.gguf".to_owned();
        assert_eq!(labels_of(&report), ["smollm2-135m-q8_0", "other", "smollm2-135m-q4_0"]);
        for file in &mut report.files {
            file.file = "same.gguf".to_owned();
        }
        assert_eq!(labels_of(&report), ["same.gguf"; 3]);
    }

    #[test]
    fn every_file_has_its_own_color() {
        let page = html(&report(20)).unwrap();
        let mut colours = BTreeSet::new();
        for n in 0..20 {
            let name = format!("c{n}: ");
            colours.extend(page.split(&name).skip(1).filter_map(|text| text.split([';', '}']).next()));
        }
        // For bright pages and for dark ones.
        assert_eq!(colours.len(), 40);
        assert!(page.contains("class=\"line c19"));
    }

    #[test]
    fn single_file_has_no_size_chart() {
        let page = html(&report(1)).unwrap();
        assert_eq!(page.matches("<svg").count(), 2);
        html(&report(0)).unwrap();
    }
}
