//! Turns the measurements of `scripts/bench` into tables and a chart:
//! `bench_report FOLDER` prints the tables as Markdown; `bench_report FOLDER MARKDOWN SVG` writes them and the
//! chart.
//!
//! FOLDER contains `rows/NAME.jsonl`, with one line per run of a program, and optionally `kernels.json`. Each
//! row states its machine, commit and date.

#[path = "kernels/table.rs"]
mod table;

use std::{env, error::Error, fmt::Write as _, fs, path::Path};

use serde::Deserialize;

#[derive(Deserialize)]
struct Run {
    row: String,
    who: String,
    seconds: f64,
    peak_kb: f64,
    machine: String,
    commit: String,
    date: String,
    command: String,
}

struct Series<'a> {
    row: &'a str,
    who: &'a str,
    runs: Vec<&'a Run>,
}

impl Series<'_> {
    fn seconds(&self) -> f64 {
        median(self.runs.iter().map(|run| run.seconds))
    }

    fn peak_mb(&self) -> f64 {
        median(self.runs.iter().map(|run| run.peak_kb)) / 1024.0
    }
}

/// Names of the files with results, in display order.
const ROWS: [&str; 9] = ["q4_k_m", "bf16", "iq2_xxs", "threads", "memory", "iq4_xs", "q2_k", "q6_k", "q8_0"];

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let (folder, outputs) = match arguments.as_slice() {
        [folder] => (folder, None),
        [folder, markdown, svg] => (folder, Some((markdown, svg))),
        _ => return Err("usage: bench_report FOLDER [MARKDOWN SVG]".into()),
    };
    let folder = Path::new(folder);
    let mut runs = Vec::new();
    for name in ROWS {
        runs.push(read(&folder.join("rows").join(format!("{name}.jsonl")))?);
    }
    let all: Vec<(usize, Vec<Series<'_>>)> = runs.iter().map(|runs| series(runs)).enumerate().collect();
    let kernels = match fs::read_to_string(folder.join("kernels.json")) {
        Ok(text) => Some(serde_json::from_str::<table::Report>(&text)?),
        Err(_) => None,
    };
    let text = markdown(&all, kernels.as_ref());
    match outputs {
        None => print!("{text}"),
        Some((markdown, svg)) => {
            fs::write(markdown, text)?;
            fs::write(svg, chart(&all))?;
        }
    }
    Ok(())
}

/// Runs of a row; `None` if it has not been measured.
fn read(path: &Path) -> Result<Vec<Run>, Box<dyn Error>> {
    let Ok(text) = fs::read_to_string(path) else { return Ok(Vec::new()) };
    text.lines()
        .map(|line| serde_json::from_str(line).map_err(|e| format!("{}: {e}", path.display()).into()))
        .collect()
}

fn series(runs: &[Run]) -> Vec<Series<'_>> {
    let mut all: Vec<Series<'_>> = Vec::new();
    for run in runs {
        match all.iter_mut().find(|series| series.row == run.row && series.who == run.who) {
            Some(series) => series.runs.push(run),
            None => all.push(Series { row: &run.row, who: &run.who, runs: vec![run] }),
        }
    }
    all
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut sorted: Vec<f64> = values.collect();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    if sorted.len().is_multiple_of(2) { (sorted[middle - 1] + sorted[middle]) / 2.0 } else { sorted[middle] }
}

fn who<'a, 'b>(all: &'b [Series<'a>], who: &str) -> Option<&'b Series<'a>> {
    all.iter().find(|series| series.who == who)
}

/// Requirement of a row, in one phrase.
fn verdict(name: &str, all: &[Series<'_>]) -> Option<String> {
    let ours = who(all, "ours")?;
    let times = |other: &Series<'_>| other.seconds() / ours.seconds();
    match name {
        "bf16" => {
            let cp = who(all, "cp")?;
            let mut text = format!("{:.2} x the time of `cp`", 1.0 / times(cp));
            if let Some(synced) = who(all, "cp, synced") {
                let _ = write!(text, ", {:.2} x that of `cp` and `sync`", 1.0 / times(synced));
            }
            if let Some(reference) = who(all, "reference") {
                let _ = write!(text, ", {:.1} x faster than the reference", times(reference));
            }
            Some(text)
        }
        "threads" => Some(format!("{:.2} x", times(who(all, "ours, 1 thread")?))),
        "memory" => {
            let double = who(all, "ours, twice the layers")?;
            let more = (double.peak_mb() / ours.peak_mb() - 1.0) * 100.0;
            Some(format!("{:.0} MB, {more:+.0} % for twice the layers", ours.peak_mb()))
        }
        _ => Some(format!("{:.1} x", times(who(all, "reference")?))),
    }
}

fn markdown(all: &[(usize, Vec<Series<'_>>)], kernels: Option<&table::Report>) -> String {
    let mut text = String::from(
        "# Benchmarks\n\nWritten by `scripts/bench report` from the results of `scripts/bench` and `scripts/bench \
         kernels`.\n\n## Whole programs\n\nMedians of runs that take turns. The checkpoint is llama-shaped, with \
         1.17 billion bf16 parameters in 24 layers unless the row says otherwise. `reference` is \
         convert_hf_to_gguf.py, llama-quantize, or the two in sequence.\n\n\
         | what | who | runs | seconds | peak memory |\n|---|---|---|---|---|\n",
    );
    let measured = || all.iter().filter(|(_, series)| !series.is_empty());
    for series in measured().flat_map(|(_, series)| series) {
        let memory = match series.peak_mb() {
            0.0 => "-".to_owned(),
            megabytes => format!("{megabytes:.0} MB"),
        };
        let _ = writeln!(
            text,
            "| {} | {} | {} | {:.2} | {memory} |",
            series.row,
            series.who,
            series.runs.len(),
            series.seconds()
        );
    }
    text.push_str("\n| what | ratio |\n|---|---|\n");
    for (at, series) in measured() {
        let verdict = verdict(ROWS[*at], series).unwrap_or_else(|| "not compared".to_owned());
        let _ = writeln!(text, "| {} | {verdict} |", series[0].row);
    }
    text.push_str("\nMachines and commands:\n\n");
    for run in measured().filter_map(|(_, series)| series[0].runs.first()) {
        let _ = writeln!(
            text,
            "- {}: {}, commit {}, {}, `{}`",
            run.row, run.machine, run.commit, run.date, run.command
        );
    }
    if let Some(kernels) = kernels {
        let _ = write!(text, "\n## Kernels\n\n{}", table::markdown(kernels));
    }
    text
}

/// Bars of seconds on a logarithmic axis, ours above the compared program.
fn chart(all: &[(usize, Vec<Series<'_>>)]) -> String {
    let rows: Vec<(&Series<'_>, &Series<'_>)> = all
        .iter()
        .filter_map(|(_, series)| {
            Some((who(series, "ours")?, who(series, "reference").or_else(|| who(series, "cp"))?))
        })
        .collect();
    let height = 60 + rows.len() * 52;
    let x = |seconds: f64| 260.0 + (seconds.max(0.1) / 0.1).log10() / 3.6 * 400.0;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 780 {height}\" font-family=\"sans-serif\" \
         font-size=\"13\">\n<rect width=\"780\" height=\"{height}\" fill=\"#ffffff\"/>\n\
         <text x=\"260\" y=\"20\" fill=\"#333333\">seconds, less is better (logarithmic); \
         green: gguf-tools, grey: the reference</text>\n"
    );
    for (tick, label) in [(0.1, "0.1"), (1.0, "1"), (10.0, "10"), (100.0, "100")] {
        let at = x(tick);
        let _ = writeln!(
            svg,
            "<line x1=\"{at:.0}\" y1=\"30\" x2=\"{at:.0}\" y2=\"{}\" stroke=\"#dddddd\"/>\
             <text x=\"{at:.0}\" y=\"{}\" text-anchor=\"middle\" fill=\"#777777\">{label}</text>",
            height - 22,
            height - 8
        );
    }
    for (i, (ours, reference)) in rows.iter().enumerate() {
        let y = 38 + i * 52;
        let (a, b) = (ours.seconds(), reference.seconds());
        let _ = writeln!(
            svg,
            "<text x=\"252\" y=\"{}\" text-anchor=\"end\" fill=\"#333333\">{}</text>",
            y + 25,
            ours.row
        );
        let labels = [
            (y, a, "#2a7f62", format!("{a:.2} s, {:.1} x", b / a)),
            (y + 20, b, "#b9b9b9", format!("{b:.1} s")),
        ];
        for (y, seconds, colour, label) in labels {
            let _ = writeln!(
                svg,
                "<rect x=\"260\" y=\"{y}\" width=\"{:.0}\" height=\"17\" fill=\"{colour}\"/>\
                 <text x=\"{:.0}\" y=\"{}\" fill=\"#333333\">{label}</text>",
                x(seconds) - 260.0,
                x(seconds) + 6.0,
                y + 13
            );
        }
    }
    svg.push_str("</svg>\n");
    svg
}
