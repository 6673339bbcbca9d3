//! Commands of the card that run a file: llama.cpp, Ollama with its `Modelfile`, LM Studio.

use std::path::Path;

use super::results::{Results, Rung};
use crate::{failure::quoted, modelfile::text as lines};
use gguf_types::{Words, words};

/// Name of the file for Ollama.
pub const MODELFILE: &str = "Modelfile";

/// Largest KL divergence, in nats, of the file in the commands. The perplexity of such a file is at most 1 % higher than that of
/// the base, for text that the base writes. On other text it can be lower by chance, so it is not a criterion.
const MAX_DIVERGENCE: f64 = 0.01;

/// The file in the commands: the smallest whose KL divergence is at most [`MAX_DIVERGENCE`], or else the one with the lowest
/// loss. True if it is the former.
pub fn example(results: &Results) -> Option<(&Rung, bool)> {
    let rungs: Vec<&Rung> = results.published().filter(|rung| !rung.files.is_empty()).collect();
    let limit = rungs.iter().any(|rung| rung.predictions.is_some()).then_some(MAX_DIVERGENCE);
    let files: Vec<_> = rungs.iter().map(|rung| (rung.bytes, rung.cost().unwrap_or(f64::INFINITY))).collect();
    let (index, is_close) = recommended(&files, limit)?;
    Some((rungs.get(index)?, is_close))
}

/// Index of the smallest of files, given as bytes and loss, whose loss is within the limit, or else of the one with the lowest
/// loss. True if it is the former.
fn recommended(files: &[(u64, f64)], limit: Option<f64>) -> Option<(usize, bool)> {
    let files = || files.iter().copied().enumerate();
    let close = files().filter(|(_, (_, loss))| limit.is_some_and(|limit| *loss <= limit));
    if let Some((index, _)) = close.min_by_key(|(_, (bytes, _))| *bytes) {
        return Some((index, true));
    }
    files().min_by(|(_, (_, a)), (_, (_, b))| a.total_cmp(b)).map(|(index, _)| (index, false))
}

/// The projector next to the model.
fn projector(results: &Results) -> Option<&str> {
    let projector = results.sidecars.iter().find(|sidecar| sidecar.kind == "projector")?;
    Some(&projector.file.name)
}

/// Contents of the `Modelfile`, for models that predict tokens and fit in one file, as Ollama imports them.
pub fn modelfile(results: &Results) -> Option<String> {
    let (rung, _) =
        example(results).filter(|(rung, _)| rung.predictions.is_some() && rung.files.len() == 1)?;
    let files = std::iter::once(rung.first_name()).chain(projector(results));
    let files: Vec<String> = files.map(|name| format!("./{name}")).collect();
    let files = files.iter().map(String::as_str);
    Some(lines(files, results.ollama_template.as_deref(), &results.sampling))
}

/// Commands that download the file of the other commands.
pub fn download(results: &Results) -> String {
    let (Some(repo), Some((rung, _))) = (&results.repo, example(results)) else { return String::new() };
    let [repo, pattern] = [repo.clone(), format!("*{}*", rung.r#type)].map(|argument| quoted(&argument));
    let model = words!("[hf download {} -include {} -local-dir .]", repo, pattern);
    let projector = projector(results).map_or_else(String::new, |file| {
        format!("{}\n", words!("[hf download {} {} -local-dir .]", repo, quoted(file)))
    });
    let of = &rung.r#type;
    format!("\nTo download one type, here {of}, run:\n\n```sh\n{model}\n{projector}```\n")
}

/// The upload of a folder to its repository.
pub fn upload(repo: Option<&str>, folder: &Path) -> Words {
    let folder = quoted(&folder.to_string_lossy());
    words!("to upload the folder, run `[hf upload {} {} .]`", quoted(repo.unwrap_or("OWNER/NAME")), folder)
}

/// The section of the card.
pub fn section(results: &Results) -> String {
    let Some((rung, is_close)) = example(results) else { return String::new() };
    let file = quoted(rung.first_name());
    let mut text = "\n## Run\n".to_owned();
    if rung.vectors.is_some() {
        let commands = match results.model.pooling {
            Some("rank") => words!("[llama-server -m {} -reranking]\n", file).to_string(),
            pooling => {
                let pooling =
                    pooling.map_or_else(Words::default, |pooling| words!(" [-pooling {}]", pooling));
                let embedding = words!("[-embedding]");
                format!(
                    "llama-embedding -m {file}{pooling} -p 'Some text'\nllama-server -m {file} {embedding}{pooling}\n"
                )
            }
        };
        text += &format!("\n```sh\n{commands}```\n");
        return text;
    }
    if rung.predictions.is_none() {
        return String::new();
    }
    let why = if is_close {
        format!("the smallest file with a KL divergence of at most {MAX_DIVERGENCE} nats")
    } else {
        "the file with the lowest KL divergence".to_owned()
    };
    text += &format!("\nThe commands use {}, {why}.\n", rung.r#type);
    // Model of the Hub with its type, or a file of this folder.
    let model = match &results.repo {
        Some(repo) => format!("-hf {}", quoted(&format!("{repo}:{}", rung.r#type))),
        None => format!("-m {file}"),
    };
    text += &format!("\nllama.cpp:\n\n```sh\nllama-cli {model}\nllama-server {model}\n");
    if let Some(projector) = projector(results) {
        let command = words!("[llama-mtmd-cli -m {} -mmproj {} -image IMAGE -p]", file, quoted(projector));
        text += &format!("{command} 'Describe the image.'\n");
    }
    text += "```\n";
    let name = quoted(&model_name(&results.model.name));
    if modelfile(results).is_some() {
        text += "\nOllama:\n\n```sh\n";
        if let Some(repo) = &results.repo {
            text += &format!("ollama run {}\n", quoted(&format!("hf.co/{repo}:{}", rung.r#type)));
        } else {
            text += &format!("ollama create {name} -f {MODELFILE}\nollama run {name}\n");
        }
        text += "```\n";
        if results.repo.is_some() {
            text += &format!(
                "\nTo import a downloaded file, run `ollama create {name} -f {MODELFILE}` in its folder.\n"
            );
        }
    }
    text += "\nLM Studio:\n\n```sh\n";
    text += &match &results.repo {
        Some(repo) => format!("lms get {}\n", quoted(&format!("https://huggingface.co/{repo}"))),
        None => format!("lms import {file}\n"),
    };
    text + "```\n"
}

/// A name for Ollama: lower case, without spaces.
fn model_name(name: &str) -> String {
    let plain =
        |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c.to_ascii_lowercase() } else { '-' };
    name.chars().map(plain).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recommended_file_is_smallest_close_one() {
        let files = [(300, 0.001), (100, 0.2), (200, 0.009)];
        assert_eq!(recommended(&files, Some(MAX_DIVERGENCE)), Some((2, true)));
        assert_eq!(recommended(&files[1..2], Some(MAX_DIVERGENCE)), Some((0, false)));
        // Distances between vectors have no limit.
        assert_eq!(recommended(&files, None), Some((0, false)));
        assert_eq!(recommended(&[(1, f64::NAN), (2, 0.3)], Some(MAX_DIVERGENCE)), Some((1, false)));
        assert_eq!(recommended(&[], None), None);
    }
}
