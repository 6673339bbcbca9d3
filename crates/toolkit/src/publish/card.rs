//! The model card: front matter for the Hub; for people the files, their loss and memory, how they were made and how to
//! verify them. Every number in it is in `results.json`.

use gguf_runtime::stats::{Estimate, fixed};

use super::{
    commands,
    measure::Figures,
    names::{CARD, PLOT, REPORT, RESULTS, SUMS, TEMPLATE},
    own_text,
    results::{Memory, Results, Rung},
    texts::{self, Named},
};
use crate::{failure::quoted, text::human_bytes};
use gguf_types::{counted, words};

/// Use of a measured file: that of the first row whose KL divergence, in nats, it does not exceed. At 0.01 the perplexity is
/// about 1 % higher.
const LOSSES: [(f64, &str); 6] = [
    (0.001, "almost lossless"),
    (0.01, "high quality"),
    (0.03, "good quality"),
    (0.1, "noticeable loss"),
    (0.3, "large loss"),
    (f64::INFINITY, "very large loss"),
];

/// Use of a file without a KL divergence: that of the first row whose bits per weight it has.
const USES: [(f64, &str); 7] = [
    (15.0, "not quantized: a source for other types"),
    (8.0, "almost lossless"),
    (6.0, "very high quality"),
    (5.0, "high quality"),
    (4.0, "balance of size and quality"),
    (3.0, "low memory"),
    (0.0, "very low memory, large loss"),
];

/// The card below its front matter, with the publisher's own text.
pub fn body(results: &Results, own_text: &str) -> String {
    let model = &results.model;
    let mut text = format!("\n# {} GGUF\n\n", escaped(&model.name));
    let of = match &model.base_model {
        Some(base) => format!("[{0}](https://huggingface.co/{0})", escaped(base)),
        None => escaped(&model.name),
    };
    let kind = match model.pooling {
        None | Some("none") => String::new(),
        Some("rank") => ", a reranker,".to_owned(),
        Some(pooling) => format!(", an embedding model with {pooling} pooling,"),
    };
    text += &format!("GGUF files of {of}{kind} for llama.cpp and compatible programs.\n");
    text += &own_text::section(own_text);
    text += &files(results);
    text += &commands::download(results);
    text += &choice(results);
    text += &memory(results);
    text += &commands::section(results);
    text += &prompt_format(results);
    text += &made(results);
    text += &check(results);
    text
}

/// Front matter for the Hub, as YAML, without the publisher's own keys. Strings are quoted as in JSON, which YAML accepts.
pub fn front_matter(results: &Results, quantized_by: Option<&str>) -> String {
    let model = &results.model;
    let quoted = |text: &str| serde_json::Value::from(text).to_string();
    let mut head = String::new();
    let mut line = |key: &str, value: Option<&str>| {
        if let Some(value) = value {
            head += &format!("{key}: {}\n", quoted(value));
        }
    };
    line("base_model", model.base_model.as_deref());
    line("base_model_relation", model.base_model.as_ref().map(|_| "quantized"));
    line("license", model.license.as_deref());
    line("license_name", model.license_name.as_deref());
    line("license_link", model.license_link.as_deref());
    line("library_name", Some("gguf"));
    line("pipeline_tag", model.pipeline_tag.as_deref());
    line("quantized_by", quantized_by);
    let mut list = |key: &str, values: &[String]| {
        if !values.is_empty() {
            head += &format!("{key}:\n");
            values.iter().for_each(|value| head += &format!("- {}\n", quoted(value)));
        }
    };
    list("language", &model.languages);
    let mut tags = vec!["gguf".to_owned(), "quantized".to_owned()];
    tags.extend(results.importance.as_ref().map(|_| "imatrix".to_owned()));
    tags.extend(results.prompt_format.as_ref().map(|_| "conversational".to_owned()));
    list("tags", &tags);
    head
}

fn files(results: &Results) -> String {
    let mut text = "\n## Files\n\n".to_owned();
    let has_predictions = results.rungs.iter().any(|rung| rung.predictions.is_some());
    let has_vectors = results.rungs.iter().any(|rung| rung.vectors.is_some());
    let mut header = vec!["file", "size", "bits/weight", "use"];
    if has_predictions {
        header.extend(["KL divergence", "same top token"]);
    }
    if has_vectors {
        header.extend(["distance", "largest distance"]);
    }
    text += &head_row(&header);
    let recommended = commands::example(results).filter(|(_, is_close)| *is_close).map(|(rung, _)| rung);
    for rung in results.published() {
        let n_more = rung.files.len().saturating_sub(1);
        let more = if n_more > 0 { format!(" and {n_more} more") } else { String::new() };
        let mut cells = vec![
            linked(rung.first_name()) + &more,
            human_bytes(rung.bytes),
            fixed(rung.bits_per_weight, 2),
            usage(rung, recommended, results.are_imprecise()),
        ];
        if let Some(found) = &rung.predictions {
            cells.extend([divergence(found), same_top(found)]);
        }
        if let Some(found) = &rung.vectors {
            cells.extend([with_error(found.distance, 1.0, 6), fixed(found.distance_max, 6)]);
        }
        text += &row(&cells);
    }
    for sidecar in &results.sidecars {
        let mut cells = vec![
            format!("{} ({})", linked(&sidecar.file.name), sidecar.kind),
            human_bytes(sidecar.file.bytes),
        ];
        cells.resize(header.len(), String::new());
        text += &row(&cells);
    }
    if let Some(on) = &results.evaluation {
        let (chunks, context) = (on.chunks, on.context);
        if has_predictions {
            text += &format!(
                "\nKL divergence is the mean Kullback-Leibler divergence from the predictions of the {} \
                    file, in nats, over {chunks} chunks of {context} tokens. Same top token is the share of \
                    positions where both files rank the same token first. The value after ± is one standard \
                    error. Text: {}. Activations: {}.\n\n![Size against KL divergence]({PLOT})\n",
                results.base.r#type,
                escaped(&texts::names(&on.texts)),
                on.activations,
            );
            text += &more_metrics(results);
        } else if has_vectors {
            text += &format!(
                "\nDistance is one minus the cosine similarity of the embeddings of a text by the {} file \
                and by this one, over {chunks} texts of {context} tokens: {}. All metrics are in \
                [{RESULTS}]({RESULTS}).\n",
                results.base.r#type,
                escaped(&texts::names(&on.texts)),
            );
        }
        if results.are_imprecise() {
            text += &format!(
                "\nThe metrics are from only {} of text. They are imprecise: with more text, another file may be \
                    the best choice.\n",
                counted(chunks, "chunk")
            );
        }
        if !on.shared.is_empty() {
            text += &format!(
                "\nThe files are measured on text that they are also made with ({}). The loss on other text is higher.\n",
                escaped(&on.shared.join(", "))
            );
        }
    }
    text += &fallbacks(results);
    for rung in &results.rungs {
        if let Some(better) = &rung.dominated_by {
            let what = if rung.left_out { "is omitted" } else { "is dominated" };
            text += &format!("\n{} {what}: {better} is not larger and has a lower loss.\n", rung.r#type);
        }
    }
    text
}

/// Reason for more bits per weight than files of a type usually have.
fn fallbacks(results: &Results) -> String {
    let files = results.published().filter(|rung| rung.fallbacks > 0);
    let files: Vec<String> = files.map(|rung| format!("{} in {}", rung.fallbacks, rung.r#type)).collect();
    if files.is_empty() {
        return String::new();
    }
    format!(
        "\nSome tensors have a larger type than usual, because their row length is not a multiple of the block \
            size: {}.\n",
        files.join(", ")
    )
}

/// Advice on a file. Only a measured loss makes a file the recommended one.
fn usage(rung: &Rung, recommended: Option<&Rung>, is_imprecise: bool) -> String {
    let usage = usage_of(rung.bits_per_weight, rung.predictions.as_ref().map(|found| found.divergence.value));
    match recommended {
        Some(best) if best.r#type == rung.r#type => {
            format!("{}: {usage}", if is_imprecise { "suggested" } else { "**recommended**" })
        }
        _ => usage.to_owned(),
    }
}

/// Use of a file by its KL divergence or, if that is unknown or the file is not quantized, by its size.
fn usage_of(bits_per_weight: f64, divergence: Option<f64>) -> &'static str {
    let by_size = USES.iter().find(|(bits, _)| bits_per_weight >= *bits).map_or("", |(_, usage)| *usage);
    let divergence = divergence.filter(|_| bits_per_weight < USES[0].0);
    let by_loss = |divergence: f64| {
        // NaN is worse than any number.
        let row = LOSSES.iter().find(|(highest, _)| divergence <= *highest).or(LOSSES.last());
        row.map_or(by_size, |(_, usage)| *usage)
    };
    divergence.map_or(by_size, by_loss)
}

/// The other metrics of predictions, folded.
fn more_metrics(results: &Results) -> String {
    let mut text = "\n<details>\n<summary>Percentiles and perplexity</summary>\n\n".to_owned();
    text += &head_row(&["type", "median", "p99", "p99.9", "perplexity / base"]);
    for rung in results.published() {
        let Some(found) = &rung.predictions else { continue };
        text += &row(&[
            rung.r#type.clone(),
            with_error(found.divergence_median, 1.0, 5),
            with_error(found.divergence_p99, 1.0, 4),
            with_error(found.divergence_p99_9, 1.0, 3),
            with_error(found.perplexity_ratio, 1.0, 4),
        ]);
    }
    text + &format!(
        "\nMedian, p99 and p99.9 are percentiles of the KL divergence.\n\n</details>\n\nAll metrics are in \
            [{RESULTS}]({RESULTS}), charts in [{REPORT}]({REPORT}).\n"
    )
}

/// The files with the lowest loss for each amount of memory, from small to large.
fn choice(results: &Results) -> String {
    /// Context that the choice is for, unless the model has less.
    const CONTEXT: u64 = 8192;
    let contexts = || results.published().next().into_iter().flat_map(|rung| &rung.memory);
    let longest = contexts().map(|memory| memory.context).filter(|context| *context <= CONTEXT).max();
    let Some(context) = longest.or(contexts().map(|memory| memory.context).min()) else {
        return String::new();
    };
    let need = |rung: &Rung| {
        let memory = rung.memory.iter().find(|memory| memory.context == context);
        Some((memory?.total, rung.cost()?))
    };
    let mut files: Vec<_> = results.published().filter_map(|rung| Some((need(rung)?, rung))).collect();
    files.sort_by(|((a, loss_of_a), _), ((b, loss_of_b), _)| a.cmp(b).then(loss_of_a.total_cmp(loss_of_b)));
    let mut best = f64::INFINITY;
    files.retain(|((_, loss), _)| {
        let is_better = *loss < best;
        best = best.min(*loss);
        is_better
    });
    // Of files whose sizes look equal, the last is the best.
    files.reverse();
    files.dedup_by_key(|((memory, _), _)| human_bytes(*memory));
    files.reverse();
    if files.len() < 2 {
        return String::new();
    }
    let loss =
        if files.iter().any(|(_, rung)| rung.predictions.is_some()) { "KL divergence" } else { "distance" };
    let mut text = format!(
        "\n## Choosing a file\n\nThe last row that fits in memory has the lowest {loss}. Memory is for weights and one \
            sequence with a context of {context} tokens.\n\n"
    );
    text += &head_row(&["memory", "file", loss]);
    for ((memory, _), rung) in files {
        let predictions = rung.predictions.as_ref().map(divergence);
        let distance = || rung.vectors.as_ref().map(|found| with_error(found.distance, 1.0, 6));
        text += &row(&[
            human_bytes(memory),
            linked(rung.first_name()),
            predictions.or_else(distance).unwrap_or_default(),
        ]);
    }
    text
}

/// A chat in the model's format.
fn prompt_format(results: &Results) -> String {
    let is_generator = results.rungs.iter().any(|rung| rung.predictions.is_some());
    match &results.prompt_format {
        Some(prompt) => {
            let system = results.default_system.as_ref().map(|system| {
                format!("\nThe template adds this system prompt to a chat without one:\n\n{}", fenced(system))
            });
            format!("\n## Prompt format\n\n{}{}", fenced(prompt), system.unwrap_or_default())
        }
        None if is_generator => "\n## Prompt format\n\nThe model has no chat template.\n".to_owned(),
        None => String::new(),
    }
}

/// A block of text that is shown as it is.
fn fenced(text: &str) -> String {
    // Longer than every fence in the text.
    let ticks = text.split(|c| c != '`').map(str::len).max().unwrap_or(0).max(2) + 1;
    let fence = "`".repeat(ticks);
    format!("{fence}text\n{}\n{fence}\n", text.trim_end_matches('\n'))
}

fn divergence(found: &Figures) -> String {
    with_error(found.divergence, 1.0, 5)
}

fn same_top(found: &Figures) -> String {
    with_error(found.same_top, 100.0, 2) + " %"
}

/// The metrics of a type in a line, as in the card; `None` if it was not measured.
pub fn figures(rung: &Rung) -> Option<String> {
    let label = &rung.r#type;
    if let Some(found) = &rung.predictions {
        let (divergence, same_top) = (divergence(found), same_top(found));
        return Some(format!("{label}: KL divergence {divergence}, same top token {same_top}"));
    }
    let found = rung.vectors.as_ref()?;
    Some(format!("{label}: distance {}", with_error(found.distance, 1.0, 6)))
}

/// Table of memory by type and context length.
fn memory(results: &Results) -> String {
    let Some(first) = results.published().find(|rung| !rung.memory.is_empty()) else {
        return String::new();
    };
    let mut text = "\n## Memory\n\nMemory for weights, KV cache in f16, states and compute \
        buffers, for one sequence:\n\n"
        .to_owned();
    let contexts = first.memory.iter().map(|memory| format!("{} tokens", memory.context));
    let header: Vec<String> = ["type".to_owned()].into_iter().chain(contexts).collect();
    text += &head_row(&header);
    let total = |memory: &Memory| human_bytes(memory.total);
    for rung in results.published() {
        let cells: Vec<String> =
            [rung.r#type.clone()].into_iter().chain(rung.memory.iter().map(total)).collect();
        text += &row(&cells);
    }
    let fit = words!("[gguf-inspect fit . -memory 16GB -context N]");
    text + &format!("\nFor other memory sizes and context lengths, use `{fit}`.\n")
}

fn made(results: &Results) -> String {
    let model = &results.model;
    let mut text = "\n## Reproduce\n\n".to_owned();
    let is_read = |name: &&str| results.command.iter().any(|argument| argument == name);
    let mut files: Vec<String> =
        [CARD, TEMPLATE].into_iter().filter(is_read).map(|name| format!("this {name}")).collect();
    files.extend(results.have_texts().then(|| "the texts".to_owned()));
    let place = match &files[..] {
        [] => String::new(),
        files => format!(" in a folder with {}", files.join(" and ")),
    };
    text += &format!("To make these files with {}, run{place}:\n\n```sh\n", results.program);
    for command in [&results.command, &results.removal].into_iter().filter(|command| !command.is_empty()) {
        let arguments: Vec<String> = command.iter().map(|argument| quoted(argument)).collect();
        text += &(arguments.join(" ") + "\n");
    }
    text += "```\n\n";
    if let (Some(source), Some(commit)) = (&model.source, &model.commit) {
        text += &format!("- Source: {}, commit `{}`\n", escaped(source), escaped(commit));
    }
    text += &format!(
        "- Base: {}, {}; all files are quantized from it\n",
        results.base.r#type,
        human_bytes(results.base.bytes)
    );
    if let Some(importance) = &results.importance {
        text += &format!(
            "- Importance matrix: [{0}]({0}), SHA-256 `{1}`, from {2} chunks of {3} tokens of {4}\n",
            importance.file,
            importance.sha256,
            importance.chunks,
            importance.context,
            with_digests(&importance.texts),
        );
        if importance.unexecuted > 0 {
            text += &format!(
                "- {} matrices of MTP layers, which are not executed, have no importance data and use types \
                    that do not need it\n",
                importance.unexecuted
            );
        }
    }
    if let Some(calibration) = &results.calibration {
        text += &format!(
            "- Calibration: types and rounding chosen on {} tokens of {}\n",
            calibration.tokens,
            with_digests(&calibration.texts)
        );
    }
    if let Some(on) = &results.evaluation {
        text += &format!("- Evaluation text: {}\n", with_digests(&on.texts));
    }
    let quantize = match &results.importance {
        Some(importance) => words!("[gguf-quantize -recipe FILE -imatrix {}]", importance.file),
        None => words!("[gguf-quantize -recipe FILE]"),
    };
    text + &format!("- Types of all tensors: [recipes](recipes), for `{quantize}`\n")
}

/// Names of texts with the digests of their files.
fn with_digests(texts: &[Named]) -> String {
    let text = |text: &Named| {
        let digest = text.sha256.as_ref().map(|digest| format!(" (SHA-256 `{digest}`)"));
        escaped(&text.name) + &digest.unwrap_or_default()
    };
    texts.iter().map(text).collect::<Vec<_>>().join(", ")
}

fn check(results: &Results) -> String {
    let sums = words!("[sha256sum -check {}]", SUMS);
    let file = commands::example(results)
        .map_or_else(|| "FILE.gguf".to_owned(), |(rung, _)| quoted(rung.first_name()));
    let source = results.model.address().map_or_else(|| "SOURCE".to_owned(), |address| quoted(&address));
    let against = words!("[gguf-inspect verify {} -against {}]", file, source);
    format!(
        "\n## Verify\n\n```sh\n{sums}\ngguf-inspect verify {file}\n{against}\n```\n\nThe last command converts every tensor again and compares the \
            result.\n"
    )
}

fn with_error(estimate: Estimate, factor: f64, digits: usize) -> String {
    let value = fixed(estimate.value * factor, digits);
    if estimate.error > 0.0 {
        format!("{value} ± {}", fixed(estimate.error * factor, digits))
    } else {
        value
    }
}

fn head_row(cells: &[impl ToString]) -> String {
    let names: Vec<String> = cells.iter().map(ToString::to_string).collect();
    row(&names) + &row(&vec!["---".to_owned(); cells.len()])
}

fn row(cells: &[String]) -> String {
    format!("| {} |\n", cells.join(" | "))
}

/// Untrusted text for Markdown: on one line, without markup.
fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for c in text.chars() {
        match c {
            c if c.is_control() => escaped.push(' '),
            '|' | '[' | ']' | '<' | '>' | '`' | '\\' | '*' => escaped.extend(['\\', c]),
            c => escaped.push(c),
        }
    }
    escaped
}

/// A link to a file, with its name as text.
fn linked(name: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-/".contains(&byte);
    let target: String = name
        .bytes()
        .map(|byte| if is_plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect();
    format!("[{}]({target})", escaped(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_of_tables_match_expectations() {
        assert_eq!(escaped("a|b\n# c <script>"), "a\\|b # c \\<script\\>");
        assert_eq!(linked("a b(1)-Q8_0.gguf"), "[a b(1)-Q8_0.gguf](a%20b%281%29-Q8_0.gguf)");
        assert_eq!(quoted("it's here"), r"'it'\''s here'");
        for (bits, divergence, usage) in [
            (6.56, Some(0.047), "noticeable loss"),
            (4.85, Some(0.0009), "almost lossless"),
            (8.5, Some(f64::NAN), "very large loss"),
            (16.0, Some(0.0), "not quantized: a source for other types"),
            (6.56, None, "very high quality"),
        ] {
            assert_eq!(usage_of(bits, divergence), usage, "{bits} {divergence:?}");
        }
        assert_eq!(with_error(Estimate { value: 0.98765, error: 0.00123 }, 100.0, 2), "98.77 ± 0.12");
    }
}
