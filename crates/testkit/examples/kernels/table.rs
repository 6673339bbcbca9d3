//! Required speed of the kernels, and tables of the measured speed.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
pub struct Report {
    /// CPU, commit and date, as given by the caller.
    pub machine: String,
    pub commit: String,
    pub date: String,
    pub command: String,
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
        let _ = write!(text, " {level} | ratio |");
    }
    text.push_str(" bytes |\n|---|---|---|");
    text.push_str(&"---|---|".repeat(report.levels.len()));
    text.push_str("---|\n");
    for row in &report.encode {
        let _ = write!(
            text,
            "| {} | {} | {} |",
            row.dtype,
            if row.weighted { "yes" } else { "no" },
            row.reference.map_or("-".to_owned(), nanoseconds)
        );
        for ours in &row.ours {
            let ratio = row.reference.map_or("-".to_owned(), |reference| format!("{:.1}", reference / ours));
            let _ = write!(text, " {} | {ratio} |", nanoseconds(*ours));
        }
        let equal = match row.equal {
            Some(true) => "equal",
            Some(false) => "**different**",
            None => "-",
        };
        let _ = writeln!(text, " {equal} |");
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
