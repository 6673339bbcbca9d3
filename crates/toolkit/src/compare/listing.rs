//! The result of a comparison for a person.

use gguf_runtime::{
    report::{Report, labels},
    stats::{fixed, significant},
    tensor_error::{ElementError, FileError},
};

use crate::{
    table::{narrow_table, table, wrapped},
    text::{human_bytes, printable},
};

/// The result for a person: a line for each of several files, then the details of each if `full`. With --html alone,
/// only the page has the tensors.
pub fn listing(report: &Report, shows_tensors: bool, full: bool) -> String {
    let mut text = format!("base {}\n", report.base) + &summary(report);
    for file in &report.files {
        let details = file.predictions.as_ref().filter(|_| full);
        let tensors = file.tensors.as_ref().filter(|_| shows_tensors);
        if details.is_none() && tensors.is_none() {
            continue;
        }
        let (size, bits) = (human_bytes(file.bytes), file.bits_per_weight);
        text += &format!("\n{} ({size}, {bits:.2} bits/weight)\n", file.file);
        if let Some(found) = details {
            let metrics = file.metrics().into_iter();
            let rows: Vec<_> = metrics.map(|metric| vec![metric.name, metric.value]).collect();
            text += &format!("\n{}\n", table(&rows, &[1]));
            let mut rows = vec![["", "KL divergence", "change in probability"].map(str::to_owned).to_vec()];
            for ((name, kl), (_, p_diff)) in
                found.kl_quantiles.named().iter().zip(found.p_diff_quantiles.named())
            {
                let p_diff = format!("{} %", fixed(p_diff * 100.0, 3));
                rows.push(vec![(*name).to_owned(), significant(*kl, 3), p_diff]);
            }
            text += &table(&rows, &[1, 2]);
        }
        if let Some(tensors) = tensors {
            text += &tensors_listing(tensors, full);
        }
    }
    text
}

/// Tables of several files, the smallest first, and the main result.
fn summary(report: &Report) -> String {
    let names = labels(&report.files.iter().map(|file| &file.file[..]).collect::<Vec<_>>());
    let mut measured: Vec<_> = report
        .files
        .iter()
        .zip(&names)
        .filter_map(|(file, name)| Some((file, printable(name), file.predictions.as_ref()?)))
        .collect();
    if measured.len() < 2 {
        return String::new();
    }
    measured.sort_by_key(|(file, ..)| file.bytes);
    let header = ["file", "size", "bpw", "KL divergence", "same top", "PPL / base"];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    for (file, name, found) in &measured {
        rows.push(vec![
            name.clone(),
            human_bytes(file.bytes),
            fixed(file.bits_per_weight, 2),
            found.kl.to_string(),
            found.same_top.percent(),
            found.perplexity_ratio.to_string(),
        ]);
    }
    let mut text = format!("\n{}", narrow_table(&rows, &[1, 2, 3, 4, 5]));
    let first = names.first().map_or("", String::as_str);
    let mut rows = vec![vec!["file".to_owned(), printable(&format!("KL - {first}"))]];
    let has_continuations = measured.iter().any(|(file, ..)| file.continuations.is_some());
    if has_continuations {
        rows[0].extend(["same continuation", "tokens before difference"].map(str::to_owned));
    }
    for (file, name, _) in &measured {
        let difference = file.kl_difference.map_or("0".to_owned(), |difference| difference.to_string());
        let mut row = vec![name.clone(), difference];
        if let Some(continued) = &file.continuations {
            row.extend([continued.same.percent(), continued.tokens_before_difference.to_string()]);
        }
        rows.push(row);
    }
    text += &format!("\n{}", narrow_table(&rows, &[1, 2, 3]));
    let legend =
        format!("KL - {first}: difference from {first}, the first file of the call, paired by chunk");
    text += &wrapped(&printable(&legend), 0);
    if let Some(finding) = report.finding() {
        text += &format!("\n{}", wrapped(&printable(&finding), 0));
    }
    text
}

/// Errors by type; with `full` those of each tensor before.
fn tensors_listing(found: &FileError, full: bool) -> String {
    let decibels = |snr: Option<f64>| snr.map_or("exact".to_owned(), |snr| format!("{snr:.2} dB"));
    let figures = |error: &ElementError| {
        [format!("{:.3e}", error.rmse()), decibels(error.snr_db()), format!("{:.7}", error.cosine())]
    };
    let mut rows = vec![["tensor", "base", "dtype", "RMSE", "SNR", "cosine"].map(str::to_owned).to_vec()];
    for tensor in found.tensors.iter().filter(|_| full) {
        let names = [printable(&tensor.name), tensor.base_dtype.clone(), tensor.dtype.clone()];
        rows.push(names.into_iter().chain(figures(&tensor.error)).collect());
    }
    let mut text = if full { format!("\n{}", narrow_table(&rows, &[3, 4, 5])) } else { String::new() };
    let mut rows =
        vec![["dtype", "tensors", "elements", "RMSE", "SNR", "cosine"].map(str::to_owned).to_vec()];
    for (dtype, n_tensors, error) in found.by_dtype() {
        let counts = [dtype, n_tensors.to_string(), error.n_elems().to_string()];
        rows.push(counts.into_iter().chain(figures(&error)).collect());
    }
    text += &format!("\n{}", table(&rows, &[1, 2, 3, 4, 5]));
    for (which, names) in [("base", &found.only_in_base), ("other", &found.only_in_other)] {
        for name in names {
            text += &format!("only in the {which}: {}\n", printable(name));
        }
    }
    text
}
