//! The page: the values that fill the template.

use std::collections::{BTreeMap, BTreeSet};

use minijinja::{Environment, context};
use serde::Serialize;

use super::{
    FileReport, Passage, PassageToken, Report,
    chart::{Axis, Chart, Scale, short, smoothed},
    layer_and_kind,
};
use crate::{Error, stats::fixed, tensor_error::FileError};

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
    let mut files: Vec<FileView> = report.files.iter().enumerate().map(FileView::new).collect();
    for (file, label) in files.iter_mut().zip(labels_of(report)) {
        file.label = label;
    }
    let values = context! {
        report,
        files,
        size_chart => size_chart(report),
        position_chart => position_chart(report),
        window_chart => window_chart(report),
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
    /// The last part of the path, or the entire path where that has none.
    name: String,
    /// The part of the name that differs between the files.
    label: String,
    path: String,
    colour: usize,
    rows: Vec<Row>,
    quantiles: Vec<QuantileRow>,
    dtypes: Vec<DtypeRow>,
    heat: Option<Heat>,
    worst: Vec<TensorRow>,
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

/// A number with its error, formatted.
#[derive(Serialize)]
struct Row {
    name: String,
    value: String,
    error: String,
}

#[derive(Serialize)]
struct QuantileRow {
    name: &'static str,
    kl: String,
    p_diff: String,
}

#[derive(Serialize)]
struct DtypeRow {
    dtype: String,
    tensors: usize,
    elements: u64,
    rmse: String,
    snr: String,
    cosine: String,
}

#[derive(Serialize)]
struct TensorRow {
    name: String,
    dtype: String,
    rmse: String,
    snr: String,
    cosine: String,
}

/// Errors by layer, across, and kind of tensor, down.
#[derive(Serialize)]
struct Heat {
    width: f64,
    height: f64,
    kinds: Vec<Label>,
    layers: Vec<Label>,
    cells: Vec<Cell>,
}

#[derive(Serialize)]
struct Label {
    at: f64,
    text: String,
}

#[derive(Serialize)]
struct Cell {
    x: f64,
    y: f64,
    width: f64,
    /// From 0 (little error) to 100.
    strength: u32,
    title: String,
}

impl FileView {
    fn new((index, file): (usize, &FileReport)) -> FileView {
        let tensors = file.tensors.as_ref();
        FileView {
            name: name_of(&file.file).to_owned(),
            label: String::new(),
            path: file.file.clone(),
            colour: index,
            rows: rows(file),
            quantiles: quantiles(file),
            dtypes: tensors.map(dtypes).unwrap_or_default(),
            heat: tensors.and_then(heat),
            worst: tensors.map(worst).unwrap_or_default(),
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
    let all: Vec<(usize, &FileReport, f64)> = report
        .files
        .iter()
        .enumerate()
        .filter_map(|(index, file)| Some((index, file, file.predictions.as_ref()?.kl.value)))
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
                before: fixed(*before_kl, 5),
                after: fixed(*kl, 5),
                change: format!("{} %", fixed((kl / before_kl - 1.0) * 100.0, 1)),
            })
        });
    rows.collect()
}

fn rows(file: &FileReport) -> Vec<Row> {
    file.metrics()
        .into_iter()
        .map(|metric| Row { name: metric.name, value: metric.value, error: metric.error })
        .collect()
}

fn quantiles(file: &FileReport) -> Vec<QuantileRow> {
    let Some(found) = &file.predictions else { return Vec::new() };
    let pairs = found.kl_quantiles.named().into_iter().zip(found.p_diff_quantiles.named());
    let row = |((name, kl), (_, p_diff)): ((&'static str, f64), (_, f64))| QuantileRow {
        name,
        kl: fixed(kl, 6),
        p_diff: format!("{} %", fixed(p_diff * 100.0, 3)),
    };
    pairs.map(row).collect()
}

fn decibels(snr: Option<f64>) -> String {
    snr.map_or("exact".to_owned(), |snr| format!("{} dB", fixed(snr, 1)))
}

fn dtypes(error: &FileError) -> Vec<DtypeRow> {
    let rows = error.by_dtype().into_iter().map(|(dtype, tensors, error)| DtypeRow {
        dtype,
        tensors,
        elements: error.n_elems(),
        rmse: short(error.rmse()),
        snr: decibels(error.snr_db()),
        cosine: fixed(error.cosine(), 6),
    });
    rows.collect()
}

/// The tensors with the most noise against their signal.
fn worst(error: &FileError) -> Vec<TensorRow> {
    const SHOWN: usize = 12;
    let mut noisy: Vec<_> =
        error.tensors.iter().filter_map(|tensor| Some((tensor.error.snr_db()?, tensor))).collect();
    // Least decibels first: SNR is signal to noise. Tensors without an error have no ratio and are not listed.
    noisy.sort_by(|a, b| a.0.total_cmp(&b.0));
    let rows = noisy.into_iter().take(SHOWN).map(|(snr, tensor)| TensorRow {
        name: tensor.name.clone(),
        dtype: tensor.dtype.clone(),
        rmse: short(tensor.error.rmse()),
        snr: decibels(Some(snr)),
        cosine: fixed(tensor.error.cosine(), 6),
    });
    rows.collect()
}

fn heat(error: &FileError) -> Option<Heat> {
    const LEFT: f64 = 150.0;
    const WIDTH: f64 = 600.0;
    const ROW: f64 = 20.0;
    /// Noise of 60 dB below the signal is invisible in the colours.
    const FAINT_DB: f64 = 60.0;
    let mut kinds: BTreeMap<&str, Vec<(u32, &crate::tensor_error::TensorError)>> = BTreeMap::new();
    let mut layers = BTreeSet::new();
    for tensor in &error.tensors {
        let (Some(layer), kind) = layer_and_kind(&tensor.name) else { continue };
        if tensor.error.snr_db().is_some() {
            kinds.entry(kind).or_default().push((layer, tensor));
            layers.insert(layer);
        }
    }
    let n_layers = layers.last().map(|last| *last as usize + 1)?;
    let width = WIDTH / n_layers as f64;
    // Sixteen labels at most fit under the cells.
    let every = n_layers.div_ceil(16);
    let mut cells = Vec::new();
    let mut labels = Vec::new();
    for (row, (kind, tensors)) in kinds.iter().enumerate() {
        let y = row as f64 * ROW;
        labels.push(Label { at: y + ROW * 0.7, text: (*kind).to_owned() });
        for (layer, tensor) in tensors {
            let snr = tensor.error.snr_db().unwrap_or(FAINT_DB);
            cells.push(Cell {
                x: ((LEFT + f64::from(*layer) * width) * 10.0).round() / 10.0,
                y,
                width: (width * 10.0).round() / 10.0,
                // 0 dB is the full colour, 60 dB the palest that is seen. SNR is a logarithm already, so a linear scale does.
                strength: ((1.0 - snr / FAINT_DB).clamp(0.03, 1.0) * 100.0) as u32,
                title: format!("{} ({}): {}", tensor.name, tensor.dtype, decibels(Some(snr))),
            });
        }
    }
    let height = kinds.len() as f64 * ROW;
    let layers = (0..n_layers)
        .step_by(every)
        .map(|layer| Label { at: LEFT + (layer as f64 + 0.5) * width, text: layer.to_string() });
    Some(Heat { width: LEFT + WIDTH + 10.0, height, kinds: labels, layers: layers.collect(), cells })
}

/// Bits for each weight against divergence, if there is more than one file.
fn size_chart(report: &Report) -> Option<Chart> {
    let measured: Vec<(usize, &FileReport, f64)> = report
        .files
        .iter()
        .enumerate()
        .filter_map(|(index, file)| Some((index, file, file.predictions.as_ref()?.kl.value)))
        // The axis of divergences is logarithmic, and the base compared with itself has none.
        .filter(|(.., kl)| *kl > 0.0)
        .collect();
    if measured.len() < 2 {
        return None;
    }
    let labels = labels_of(report);
    let megabytes = |file: &FileReport| file.bytes as f64 / 1e6;
    let x = Axis::over(measured.iter().map(|(_, file, _)| megabytes(file)), Scale::Linear).widened();
    let y = Axis::over(measured.iter().map(|(.., kl)| *kl), Scale::Log);
    let mut chart = Chart::new(&x, "file size, MB", &y, "mean KL divergence, nats");
    for (index, file, kl) in measured {
        let size = megabytes(file);
        let detail = format!("{size:.0} MB, {:.2} bits per weight, {kl:.5} nats", file.bits_per_weight);
        chart.point(&labels[index], detail, index, (&x, &y), (size, kl));
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

fn labels_of(report: &Report) -> Vec<String> {
    labels(&report.files.iter().map(|file| &file.file[..]).collect::<Vec<_>>())
}

/// The path's last part.
fn name_of(path: &str) -> &str {
    path.rsplit(['/', '\\']).next().unwrap_or(path)
}

fn position_chart(report: &Report) -> Option<Chart> {
    let first = (report.context / 2) as f64;
    lines(report, |file| &file.kl_by_position, first, "position in the chunk")
}

fn window_chart(report: &Report) -> Option<Chart> {
    lines(report, |file| &file.kl_by_window, 1.0, "chunk of the text")
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
    let mut chart = Chart::new(&x, x_label, &y, "mean KL divergence, nats");
    for (index, (file, values)) in report.files.iter().zip(&all).enumerate() {
        let points = values.iter().enumerate().map(|(at, value)| (first + at as f64, *value));
        // Zero has no place on a logarithmic axis.
        let points: Vec<_> = points.filter(|(_, value)| scale == Scale::Linear || *value > 0.0).collect();
        chart.line(name_of(&file.file), index, (&x, &y), &points);
    }
    Some(chart)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        continuations::Continuations,
        stats::{Comparison, Position},
    };

    fn report(n_files: usize) -> Report {
        let position = |i: usize| Position {
            nll_base: 1.0 + (i % 3) as f64,
            nll: 1.1 + (i % 3) as f64,
            kl: 0.01 * (1 + i % 7) as f64,
            same_top: !i.is_multiple_of(5),
            shared_top_k: 3,
        };
        let positions: Vec<Position> = (0..60).map(position).collect();
        let (kl_by_position, kl_by_window) = crate::report::kl_by_place(&positions, 3);
        let file = |index: usize| FileReport {
            file: format!("some/<b>{index}.gguf"),
            bytes: 1000 * (index as u64 + 1),
            bits_per_weight: 4.5,
            predictions: Some(Comparison::of(&positions, 5)),
            kl_by_position: kl_by_position.clone(),
            kl_by_window: kl_by_window.clone(),
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
            windows: 3,
            files: (0..n_files).map(file).collect(),
        }
    }

    #[test]
    fn page_escapes_names_and_has_charts() {
        let page = html(&report(2)).unwrap();
        assert!(page.contains("&lt;b&gt;1.gguf") && !page.contains("<b>"));
        assert_eq!(page.matches("<svg").count(), 3, "size, position, window");
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
        assert!(page.contains("&lt;i&gt;a</span>") && page.contains("The second half of chunk "), "{page}");
        // The files differ too much in size to be compared.
        assert!(!page.contains("Before and after calibration"));
        report.files[1].bytes = report.files[0].bytes + 10;
        let page = html(&report).unwrap();
        assert!(page.contains("Before and after calibration") && page.contains("<td>0.0 %</td>"), "{page}");
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
