//! Required speed of the kernels, and tables of the measured speed.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

/// Everything that one run measured.
#[derive(Serialize, Deserialize)]
pub struct Report {
    /// CPU, commit and date, as the caller names them.
    pub machine: String,
    pub commit: String,
    pub date: String,
    pub command: String,
    /// Shape of the data.
    pub rows: usize,
    pub row_elems: usize,
    pub runs: usize,
    /// Levels, best first; `ours` and `decode` below are in this order.
    pub levels: Vec<String>,
    pub encode: Vec<Encode>,
    pub decode: Vec<Decode>,
}

/// Medians of one type's encoder, ns per element, one thread.
#[derive(Serialize, Deserialize)]
pub struct Encode {
    pub dtype: String,
    pub weighted: bool,
    pub reference: Option<f64>,
    pub ours: Vec<f64>,
    /// True if all bytes equal the reference's; `None` without a reference.
    pub equal: Option<bool>,
}

/// Medians of one type's decoder, ns per element, one thread.
#[derive(Serialize, Deserialize)]
pub struct Decode {
    pub dtype: String,
    pub ours: Vec<f64>,
}

/// Required ratio to the reference's speed at the best level, and the target.
pub fn goal(dtype: &str, weighted: bool) -> Option<(f64, &'static str)> {
    match (dtype, weighted) {
        ("q2_K" | "q4_K" | "q5_K", _) => Some((12.0, "16")),
        ("q3_K" | "q6_K", _) => Some((8.0, "12")),
        ("q4_0" | "q4_1" | "q5_0" | "q5_1", true) => Some((10.0, "16")),
        ("q4_0" | "q8_0", false) => Some((4.0, "memory")),
        ("iq4_nl" | "iq4_xs", _) => Some((12.0, "20")),
        ("iq1_s" | "iq1_m" | "iq2_xxs" | "iq2_xs" | "iq2_s" | "iq3_xxs" | "iq3_s", _) => Some((6.0, "15")),
        _ => None,
    }
}

/// The part of a goal that AVX2 must reach.
const AVX2_PART: f64 = 0.55;

/// Both tables as Markdown.
pub fn markdown(report: &Report) -> String {
    let mut text = format!(
        "{} x {} normal values, one thread, medians of {} runs that take turns, ns per element. {}, commit {}, {}, `{}`.\n\n",
        report.rows,
        report.row_elems,
        report.runs,
        report.machine,
        report.commit,
        report.date,
        report.command
    );
    text.push_str("| type | weights | reference |");
    for level in &report.levels {
        let _ = write!(text, " {level} | ratio | required |");
    }
    text.push_str(" goal | bytes |\n|---|---|---|");
    text.push_str(&"---|---|---|".repeat(report.levels.len()));
    text.push_str("---|---|\n");
    for row in &report.encode {
        let goal = goal(&row.dtype, row.weighted);
        let _ = write!(
            text,
            "| {} | {} | {} |",
            row.dtype,
            if row.weighted { "yes" } else { "no" },
            row.reference.map_or("-".to_owned(), nanoseconds)
        );
        for (level, ours) in report.levels.iter().zip(&row.ours) {
            let must = goal.map(|(must, _)| if level == "avx2" { must * AVX2_PART } else { must });
            let ratio = row.reference.map(|reference| reference / ours);
            let mark = match (ratio, must) {
                (Some(ratio), Some(must)) if ratio < must => " **missed**",
                _ => "",
            };
            let _ = write!(
                text,
                " {} | {}{mark} | {} |",
                nanoseconds(*ours),
                ratio.map_or("-".to_owned(), |ratio| format!("{ratio:.1}")),
                must.map_or("-".to_owned(), |must| format!("{must:.1}"))
            );
        }
        let equal = match row.equal {
            Some(true) => "equal",
            Some(false) => "**different**",
            None => "-",
        };
        let _ = writeln!(text, " {} | {equal} |", goal.map_or("-", |(_, aim)| aim));
    }
    text.push_str("\nDecoding, GB of f32 a second:\n\n| type |");
    for level in &report.levels {
        let _ = write!(text, " {level} |");
    }
    let _ = writeln!(text, "\n|---|{}", "---|".repeat(report.levels.len()));
    for row in &report.decode {
        let _ = write!(text, "| {} |", row.dtype);
        for ours in &row.ours {
            let _ = write!(text, " {:.1} |", 4.0 / ours);
        }
        text.push('\n');
    }
    text
}

fn nanoseconds(value: f64) -> String {
    if value < 1.0 { format!("{value:.3}") } else { format!("{value:.2}") }
}
