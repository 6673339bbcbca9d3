//! The metrics of the files as a table for other programs.

use super::{FileReport, Report};
use crate::stats::{Comparison, Estimate};

/// Estimates of a file with the names of their columns.
type Column = (&'static str, fn(&FileReport) -> Option<Estimate>);

fn of(file: &FileReport, estimate: fn(&Comparison) -> Estimate) -> Option<Estimate> {
    file.predictions.as_ref().map(estimate)
}

/// The names are those of the JSON form. Each column is followed by one of its standard errors.
const COLUMNS: &[Column] = &[
    ("kl", |file| of(file, |found| found.kl)),
    ("kl_difference", |file| file.kl_difference),
    ("base_perplexity", |file| of(file, |found| found.base_perplexity)),
    ("perplexity", |file| of(file, |found| found.perplexity)),
    ("perplexity_ratio", |file| of(file, |found| found.perplexity_ratio)),
    ("same_top", |file| of(file, |found| found.same_top)),
    ("same_top_k", |file| of(file, |found| found.same_top_k)),
    ("p_diff", |file| of(file, |found| found.p_diff)),
    ("p_diff_rms", |file| of(file, |found| found.p_diff_rms)),
    ("same_continuation", |file| file.continuations.map(|found| found.same)),
    ("tokens_before_difference", |file| file.continuations.map(|found| found.tokens_before_difference)),
];

/// A row for each file in CSV (RFC 4180), with all digits. Values that were not measured are empty.
pub fn csv(report: &Report) -> String {
    let mut text = "file,bytes,bits_per_weight".to_owned();
    for (name, _) in COLUMNS {
        text += &format!(",{name},{name}_error");
    }
    text += "\r\n";
    for file in &report.files {
        text += &format!("{},{},{}", field(&file.file), file.bytes, file.bits_per_weight);
        for (_, estimate) in COLUMNS {
            match estimate(file) {
                Some(Estimate { value, error }) => text += &format!(",{value},{error}"),
                None => text += ",,",
            }
        }
        text += "\r\n";
    }
    text
}

/// A text as a field: quoted if it contains a separator.
fn field(text: &str) -> String {
    if text.contains([',', '"', '\r', '\n']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}
