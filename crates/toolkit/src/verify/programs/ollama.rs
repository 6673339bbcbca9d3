//! Chat templates in Ollama.
//!
//! `ollama create` compares the template of a file with those that Ollama has. The closest one replaces it if fewer than 100
//! characters have to be inserted, removed or replaced. Since 0.30 the template of the file is used nevertheless if it has more
//! capabilities (tools, thinking), and if no template is close.
//!
//! Source: `Named` in `template/template.go`, `shouldPreferChatTemplate` in `server/images.go`, `createModel` in `server/create.go`
//! and `compatClipArches` in `llm/llama_server.go` of ollama/ollama@fb3076099. The boundary of 0.30 is commit 9db4bdbad.

use std::{collections::BTreeMap, mem, sync::LazyLock};

use gguf_container::{Metadata, Value};
use gguf_runtime::chat::SpecialTokens;
use gguf_tokenizer::keys::CHAT_TEMPLATE;
use gguf_types::words;
use serde::Deserialize;

use crate::{
    error::Error,
    template_guard::guarded,
    text::shortened,
    verify::{
        behavior::default_system,
        prompts::difference,
        report::Finding,
        trials::{ANSWER, NEXT, SHOWN, SYSTEM, USER, render},
    },
};

/// Summary of a file whose template Ollama uses.
pub const OWN_TEMPLATE: &str = "with the template of the file";

/// Number of edits from which a template is not taken for a known one.
const MAX_DISTANCE: usize = 100;

/// Architectures with prompts in the code of Ollama.
const WITH_RENDERER: &[&str] = &["gemma4", "laguna", "nemotron_h", "nemotron_h_moe", "nemotron_h_omni"];

/// Architectures with a vision tower in the file of the text model that Ollama reads.
const WITH_TOWER: &[&str] = &[
    "gemma3",
    "gemma4",
    "qwen35",
    "qwen35moe",
    "qwen25vl",
    "qwen3vl",
    "qwen3vlmoe",
    "mistral3",
    "deepseekocr",
    "glmocr",
    "llama4",
    "nemotron_h_omni",
];

/// Texts of a template that writes the results of tools, besides the calls.
const TOOL_RESULTS: &[&str] = &[
    "tool_response",
    "tool_results",
    "role'] == 'tool'",
    "role'] == \"tool\"",
    "role\"] == 'tool'",
    "role\"] == \"tool\"",
    "message.role == 'tool'",
    "message.role == \"tool\"",
    "ipython",
];

/// Facts about a template of Ollama: `tools` if it passes tools, stop words, and prompts of [`CHATS`].
#[derive(Debug, Deserialize)]
struct Facts {
    tools: bool,
    prompts: [String; 3],
    stop: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
struct Known {
    names: BTreeMap<String, Facts>,
    /// Names and Jinja texts, in the order of Ollama's list. The first of equally close ones counts.
    templates: Vec<(String, String)>,
}

static KNOWN: LazyLock<Known> = LazyLock::new(|| {
    // A test reads the file.
    serde_json::from_str(include_str!("ollama.json")).unwrap_or_default()
});

/// Chats whose prompts are compared, and their names.
const CHATS: [(&str, &[(&str, &str)]); 3] = [
    ("a question", &[("user", USER)]),
    ("a system prompt and a question", &[("system", SYSTEM), ("user", USER)]),
    ("two questions", &[("user", USER), ("assistant", ANSWER), ("user", NEXT)]),
];

/// Template of Ollama that is closest to the chat template of a model.
#[derive(Debug, Clone, Copy)]
pub struct OllamaTemplate {
    /// Its name in Ollama.
    pub name: &'static str,
    /// Number of characters to insert, remove or replace to get Ollama's version of the model's template.
    pub distance: usize,
    facts: &'static Facts,
}

impl OllamaTemplate {
    /// The template that Ollama finds for a Jinja template; `None` if it finds none.
    ///
    /// Texts longer than 65,535 characters are never found here. Ollama's counter overflows with them.
    ///
    /// # Examples
    /// ```
    /// use gguf_toolkit::verify::OllamaTemplate;
    ///
    /// let template = "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + \
    ///     '<|im_end|>' + '\n'}}{% endfor %}";
    /// assert!(OllamaTemplate::find(template).is_some_and(|found| found.name == "chatml" && found.distance < 100));
    /// assert!(OllamaTemplate::find("").is_none());
    /// ```
    pub fn find(template: &str) -> Option<OllamaTemplate> {
        let longest = KNOWN.templates.iter().map(|(_, known)| known.len()).max().unwrap_or(0);
        let text: Vec<char> = template.chars().take(longest + MAX_DISTANCE).collect();
        let mut found = None;
        let mut limit = MAX_DISTANCE;
        // Ollama does not look for the template of a model that has none.
        for (name, known) in KNOWN.templates.iter().filter(|_| !text.is_empty()) {
            let known: Vec<char> = known.chars().collect();
            if let Some(distance) = distance_below(limit, &text, &known) {
                limit = distance;
                found = KNOWN.names.get(name).map(|facts| OllamaTemplate { name, distance, facts });
            }
        }
        found
    }

    /// Words at which Ollama stops the generation.
    pub fn stop(&self) -> &'static [String] {
        &self.facts.stop
    }

    /// True if Ollama 0.30 and later use the template of the file nevertheless, because it has more capabilities.
    pub fn yields_to(&self, template: &str) -> bool {
        let tools = usize::from(has_tools(template));
        let n_own = usize::from(self.facts.tools);
        let writes_calls = ["tool_calls", "assistant_tool_call"].iter().any(|text| template.contains(text));
        let has_round_trip = writes_calls && TOOL_RESULTS.iter().any(|text| template.contains(text));
        // The template of Ollama that passes tools writes their results, too.
        tools + usize::from(has_thinking(template)) > n_own && (n_own == 0 || has_round_trip)
    }
}

fn has_tools(template: &str) -> bool {
    ["tools", "tool_call"].iter().any(|text| template.contains(text))
}

fn has_thinking(template: &str) -> bool {
    let has = |text: &str| template.contains(text);
    let splits = has("content.split('</think>')") || has("content.split(\"</think>\")");
    has("<think>") && has("</think>") || splits && !has("reasoning_content") && !has("<SPECIAL_12>")
}

/// Levenshtein distance of two texts if it is less than `limit`.
///
/// Cells further than `limit` from the diagonal are not computed, so the time is that of the shorter text times `limit`.
fn distance_below(limit: usize, a: &[char], b: &[char]) -> Option<usize> {
    if a.len().abs_diff(b.len()) >= limit {
        return None;
    }
    // row[j]: distance of the first i characters of `a` and the first j of `b`, at most `limit`.
    let mut row: Vec<usize> = (0..=b.len()).map(|j| j.min(limit)).collect();
    for (i, x) in a.iter().enumerate() {
        let low = (i + 2).saturating_sub(limit);
        let high = b.len().min(i + limit);
        let first = if low == 0 { mem::replace(&mut row[0], (i + 1).min(limit)) } else { row[low - 1] };
        let (mut diagonal, mut left) = (first, if low == 0 { row[0] } else { limit });
        let mut least = left;
        for j in low.max(1)..=high {
            let cost = if *x == b[j - 1] { diagonal } else { 1 + diagonal.min(left).min(row[j]) };
            diagonal = mem::replace(&mut row[j], cost.min(limit));
            left = row[j];
            least = least.min(left);
        }
        if least >= limit {
            return None;
        }
    }
    row.last().copied().filter(|distance| *distance < limit)
}

/// True if Ollama reads the vision tower in the file of the text model of this architecture.
pub fn reads_tower(architecture: &str) -> bool {
    WITH_TOWER.contains(&architecture)
}

/// Lines of a `Modelfile` that replace what a file states.
#[derive(Debug, Clone, Copy, Default)]
pub struct Replaced {
    /// TEMPLATE.
    pub template: bool,
    /// SYSTEM.
    pub system: bool,
}

/// Summary and findings about the chat template in Ollama.
///
/// # Errors
/// A chat template that takes too much memory or time.
pub fn prompts(metadata: &Metadata, modelfile: Replaced) -> Result<(String, Vec<Finding>), Error> {
    let text = |key: &str| metadata.get(key).and_then(Value::as_str);
    let architecture = text("general.architecture").unwrap_or_default();
    if metadata.contains(&format!("{architecture}.pooling_type")) {
        return Ok(Default::default());
    }
    if WITH_RENDERER.contains(&architecture) {
        let message =
            format!("`{CHAT_TEMPLATE}` is ignored: Ollama writes the prompts of `{architecture}` by itself");
        return Ok(("with its own prompts".to_owned(), vec![Finding::note("ollama_template", message)]));
    }
    if modelfile.template {
        return Ok(("with the template of the Modelfile".to_owned(), Vec::new()));
    }
    let Some(template) = text(CHAT_TEMPLATE).filter(|template| !template.is_empty()) else {
        let message = format!("missing `{CHAT_TEMPLATE}`: Ollama sends prompts without a template");
        return Ok(("without a template".to_owned(), vec![Finding::note("ollama_template", message)]));
    };
    let Some(found) = OllamaTemplate::find(template) else {
        let message = format!(
            "`{CHAT_TEMPLATE}` is not close to a template of Ollama: releases before 0.30 send prompts without a template"
        );
        return Ok((OWN_TEMPLATE.to_owned(), vec![Finding::note("ollama_template", message)]));
    };
    let OllamaTemplate { name, distance, .. } = found;
    let (tokens, source) = (SpecialTokens::of(metadata), template.to_owned());
    let added_bos = SpecialTokens::added_bos(metadata);
    let (different, system) =
        guarded(move || (found.different(&source, &tokens, &added_bos), default_system(&source, &tokens)))?;
    let replaced = format!("{}template `{name}`", if distance > 0 { "nearest " } else { "" });
    if found.yields_to(template) {
        let lost: Vec<&str> = [(has_tools(template), "tools"), (has_thinking(template), "thinking")]
            .into_iter()
            .filter_map(|(has, what)| has.then_some(what))
            .collect();
        let message = format!(
            "releases of Ollama before 0.30 replace `{CHAT_TEMPLATE}` with their {replaced}, which loses: {}",
            lost.join(", ")
        );
        return Ok((OWN_TEMPLATE.to_owned(), vec![Finding::note("ollama_template", message)]));
    }
    let mut findings = Vec::new();
    if let Some(different) = different {
        let message = format!(
            "Ollama replaces `{CHAT_TEMPLATE}` with its {replaced}, whose prompts differ: {different}"
        );
        findings.push(Finding::warning("ollama_template", message));
        if !system.is_empty() && !modelfile.system {
            let text = shortened(&system.join(" "), SHOWN);
            findings.push(Finding::warning(
                "ollama_system",
                format!("Ollama loses the default system prompt: `{text}`"),
            ));
        }
        let advice = words!(
            "write TEMPLATE into the Modelfile, as `[gguf-inspect show FILE -modelfile Modelfile]` does if the template has no tools \
                and no reasoning"
        );
        findings.push(Finding::note("hint", advice));
    }
    Ok((format!("with its {replaced}"), findings))
}

impl OllamaTemplate {
    /// The first difference between prompts of the model's template and of this one, if any. `added_bos` is the text of BOS if
    /// the tokenizer adds the token, else empty.
    pub fn different(&self, template: &str, tokens: &SpecialTokens, added_bos: &str) -> Option<String> {
        CHATS.iter().zip(&self.facts.prompts).find_map(|((name, chat), theirs)| {
            // A chat that the template refuses has no prompt to compare with.
            let made = render(template, chat, tokens).ok()?;
            let ours = made.strip_prefix(added_bos).unwrap_or(&made);
            let different = difference(&shown(ours), &shown(theirs), "Ollama")?;
            Some(format!("{name}: {different}"))
        })
    }
}

/// A prompt with placeholders that people understand.
fn shown(prompt: &str) -> String {
    let names = [(USER, "{question}"), (NEXT, "{question}"), (SYSTEM, "{system}"), (ANSWER, "{answer}")];
    names.iter().fold(prompt.to_owned(), |text, (word, name)| text.replace(word, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The whole matrix, by the definition.
    fn slow(a: &[char], b: &[char]) -> usize {
        let mut cells = vec![vec![0; b.len() + 1]; a.len() + 1];
        for i in 0..=a.len() {
            for j in 0..=b.len() {
                cells[i][j] = match (i, j) {
                    (0, n) | (n, 0) => n,
                    _ => (cells[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]))
                        .min(cells[i - 1][j] + 1)
                        .min(cells[i][j - 1] + 1),
                };
            }
        }
        cells[a.len()][b.len()]
    }

    #[test]
    fn distance_in_a_band_is_the_distance() {
        let mut state = 1u32;
        let mut next = |n: u32| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 16) % n
        };
        for _ in 0..400 {
            let mut text = |n| (0..next(n)).map(|_| ['a', 'b', 'é'][next(3) as usize]).collect::<Vec<char>>();
            let (a, b) = (text(24), text(24));
            let expected = slow(&a, &b);
            for limit in [1, 2, 5, 9, 30] {
                assert_eq!(
                    distance_below(limit, &a, &b),
                    (expected < limit).then_some(expected),
                    "{a:?} {b:?} {limit}"
                );
            }
        }
    }

    #[test]
    fn known_templates_are_complete() {
        assert_eq!((KNOWN.templates.len(), KNOWN.names.len()), (37, 19));
        for (name, text) in &KNOWN.templates {
            let found = OllamaTemplate::find(text);
            assert!(found.is_some_and(|found| found.name == name && found.distance == 0), "{name}");
        }
    }
}
