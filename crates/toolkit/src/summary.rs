//! The summary of a file on one screen: model, size, types, origin, prompt, memory, and a verdict.

use std::{collections::BTreeSet, path::Path};

use gguf_container::{Array, File, Metadata, Model, TensorInfo, Value};
use gguf_conversion::recipes::CALIBRATION_KEY;
use gguf_models::FAMILIES;
use gguf_runtime::{
    chat::{Chat, Conversation, Date, Settings, SpecialTokens, render_chat},
    memory::{Demand, Use},
};
use gguf_tokenizer::keys;
use serde::Serialize;

use crate::{
    container_file::open_foreign,
    error::Error,
    events::Events,
    file_type::stated_file_type,
    hub::HubOptions,
    table::wrapped,
    template_guard::guarded,
    text::{file_name, grouped, human_bytes, printable, shortened},
    totals::{Total, totals},
    verify::{Finding, Severity, VerifyOptions, Which, default_system, verify_opened},
};

/// Longest context whose memory is estimated, in tokens.
const CONTEXT: u64 = 8192;
/// Characters of a prompt or another text of the file that are shown.
const MAX_TEXT: usize = 200;
/// Problems that are listed.
const MAX_PROBLEMS: usize = 5;
/// Column of the values.
const COLUMN: usize = 12;
/// Message of the user in the prompt that is shown.
const MESSAGE: &str = "{prompt}";

/// Facts about a file.
///
/// # Examples
/// ```no_run
/// let summary = gguf_toolkit::summary("model.gguf".as_ref(), &())?;
/// print!("{}", summary.text());
/// # Ok::<(), gguf_toolkit::Error>(())
/// ```
#[derive(Debug, Clone, Serialize)]
pub struct Summary {
    /// `general.name`, or the name of the file.
    pub name: String,
    /// `general.architecture`.
    pub architecture: Option<String>,
    /// `general.type` of a file that is not a model: `adapter`, `mmproj`, `imatrix`.
    pub kind: Option<String>,
    /// Models of a diffusion architecture, such as `Wan 2.1 and 2.2`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub diffusion: Option<&'static str>,
    /// Number of weights.
    pub parameters: u64,
    /// Files of a split model.
    pub n_files: usize,
    /// Bytes of all files.
    pub file_bytes: u64,
    /// Bits per weight.
    pub bits_per_weight: f64,
    /// Types by their bytes, the largest first.
    pub types: Vec<TypeShare>,
    /// `general.file_type` by its name.
    pub file_type: Option<String>,
    /// Ranks and alpha of a LoRA adapter.
    pub adapter: Option<String>,
    /// Statements of the metadata about the origin and the making of the file.
    pub origin: Vec<Origin>,
    /// Length of the contexts in training, in tokens.
    pub context_length: Option<u64>,
    /// Kind of RoPE scaling.
    pub rope_scaling: Option<String>,
    /// Kind of tokenizer, pre-tokenizer and number of tokens.
    pub tokenizer: Option<String>,
    /// The prompt of one message of a user.
    pub prompt: Option<String>,
    /// The system prompt that the chat template adds if a chat has none.
    pub default_system: Option<String>,
    /// Memory to run the model.
    pub memory: Option<MemoryUse>,
    /// Problems that need no weights to be found, and hints about them.
    pub findings: Vec<Finding>,
    /// Reasons why the loader of llama.cpp was not tried.
    pub not_checked: Option<String>,
}

/// Part of a file that a type has.
#[derive(Debug, Clone, Serialize)]
pub struct TypeShare {
    /// Name of the type, which may be that of a fork.
    pub dtype: String,
    /// Bytes of its tensors.
    pub bytes: u64,
}

/// A statement of the metadata.
#[derive(Debug, Clone, Serialize)]
pub struct Origin {
    /// The subject for people.
    pub what: &'static str,
    /// The value.
    pub value: String,
}

/// Memory of a run.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct MemoryUse {
    /// Tokens of the context.
    pub context: u64,
    /// Bytes.
    pub bytes: u64,
}

/// Keys about the origin of a file.
const ORIGINS: &[(&str, &str)] = &[
    ("base model", "general.base_model.0.repo_url"),
    ("author", "general.author"),
    ("made by", "general.organization"),
    ("finetune", "general.finetune"),
    ("license", "general.license"),
    ("quantized", "general.quantized_by"),
    ("importance", "quantize.imatrix.dataset"),
    ("chunks", "quantize.imatrix.chunks_count"),
    ("calibrated", CALIBRATION_KEY),
    ("texts", "imatrix.datasets"),
    ("chunks", "imatrix.chunk_count"),
    ("address", "general.url"),
    ("source", "general.repo_url"),
];

/// Summarizes a file, or a split model by any of its shards. Weights are not read.
///
/// # Errors
/// A file that cannot be read. Other problems are [`Summary::findings`].
pub fn summary(path: &Path, events: &dyn Events) -> Result<Summary, Error> {
    of_file(path, &open_foreign(path)?, events)
}

/// The summary of the file at `path`, which was opened.
///
/// # Errors
/// As [`summary`].
pub(crate) fn of_file(path: &Path, file: &File, events: &dyn Events) -> Result<Summary, Error> {
    let only = Which::ALL.iter().map(|(which, ..)| *which);
    let only = only.filter(|which| ![Which::Blocks, Which::Source].contains(which)).collect();
    let options = VerifyOptions { file: path.to_owned(), only, ..VerifyOptions::default() };
    let opened = Model::open(path);
    let (findings, not_checked) = match verify_opened(&opened, &options, &HubOptions::default(), events) {
        Ok(report) => {
            let loader = report.checks().iter().find(|check| check.name == "loader");
            let not_checked = loader.and_then(|check| check.not_checked.clone());
            (report.checks().iter().flat_map(|check| check.findings.clone()).collect(), not_checked)
        }
        // The template, which takes too much memory or time.
        Err(error) => (vec![Finding::error("template", error)], None),
    };
    let model = opened.ok();
    let metadata = model.as_ref().map_or(file.metadata(), Model::metadata);
    let text = |key: &str| metadata.get(key).and_then(Value::as_str).map(str::to_owned);
    // A template that fails is a finding.
    let (prompt, default_system) = prompts(metadata).unwrap_or_default();
    let mut summary = Summary {
        name: text("general.name").unwrap_or_else(|| file_name(path)),
        architecture: text("general.architecture"),
        kind: text("general.type").filter(|kind| kind != "model"),
        diffusion: None,
        parameters: 0,
        n_files: 1,
        file_bytes: file.bytes().len() as u64,
        bits_per_weight: 0.0,
        types: Vec::new(),
        file_type: stated_file_type(metadata).map(str::to_owned),
        adapter: None,
        origin: origin(metadata),
        context_length: None,
        rope_scaling: None,
        tokenizer: tokenizer(metadata),
        prompt,
        default_system,
        memory: None,
        findings,
        not_checked,
    };
    let tensors: Vec<_> = match &model {
        Some(model) => model.tensors().map(|(_, info)| info).collect(),
        None => file.tensors().iter().collect(),
    };
    let shapes = tensors.iter().map(|info| (info.name.as_str(), info.shape));
    let diffusion = FAMILIES.diffusion_file(metadata, shapes).and_then(|file| file.row);
    summary.diffusion = diffusion.map(|row| row.models.as_str());
    summary.adapter = adapter(metadata, &tensors);
    let (types, all) = totals(tensors, file);
    summary.types =
        types.into_iter().map(|(dtype, Total { bytes, .. })| TypeShare { dtype, bytes }).collect();
    (summary.parameters, summary.bits_per_weight) = (all.elements, all.bits_per_weight());
    if let Some(architecture) = &summary.architecture {
        let key = |name: &str| metadata.get(&format!("{architecture}.{name}"));
        summary.context_length = key("context_length").and_then(Value::as_u64);
        let scaling = key("rope.scaling.type").and_then(Value::as_str);
        summary.rope_scaling = scaling.filter(|kind| *kind != "none").map(str::to_owned);
    }
    if let Some(model) = &model {
        summary.n_files = model.shards().len();
        summary.file_bytes = model.file_bytes();
        summary.memory = memory(model, summary.context_length);
    }
    Ok(summary)
}

/// Ranks and alpha of a LoRA adapter.
fn adapter(metadata: &Metadata, tensors: &[&TensorInfo]) -> Option<String> {
    let of_b = tensors.iter().filter(|tensor| tensor.name.ends_with(".lora_b"));
    let ranks: BTreeSet<u64> = of_b.map(|tensor| tensor.shape.dim(0)).collect();
    let ranks: Vec<String> = ranks.iter().map(u64::to_string).collect();
    let alpha = metadata.get("adapter.lora.alpha").and_then(Value::as_f64);
    let alpha = alpha.map_or_else(|| "no alpha".to_owned(), |alpha| format!("alpha {}", alpha as f32));
    (!ranks.is_empty()).then(|| format!("rank {}, {alpha}", ranks.join(", ")))
}

/// The statements of [`ORIGINS`] that the metadata have.
fn origin(metadata: &Metadata) -> Vec<Origin> {
    let of = |(what, key): &(&'static str, &str)| {
        let value = match metadata.get(key)? {
            Value::String(text) => String::from_utf8_lossy(text).into_owned(),
            Value::Array(Array::String(texts)) => {
                texts.iter().map(|text| String::from_utf8_lossy(text)).collect::<Vec<_>>().join(", ")
            }
            value => value.as_u64()?.to_string(),
        };
        Some(Origin { what, value })
    };
    ORIGINS.iter().filter_map(of).collect()
}

/// Kind and size of a tokenizer.
fn tokenizer(metadata: &Metadata) -> Option<String> {
    let text = |key: &str| metadata.get(key).and_then(Value::as_str);
    let n_tokens = metadata.get(keys::TOKENS).and_then(Value::as_array).map_or(0, Array::len);
    let pre = text(keys::PRE).map(|pre| format!(", pre-tokenizer {pre}")).unwrap_or_default();
    Some(format!("{}, {n_tokens} tokens{pre}", text(keys::MODEL)?))
}

/// The prompt of one message, and the default system prompt. None without a template, or with one that fails.
pub(crate) fn prompts(metadata: &Metadata) -> Result<(Option<String>, Option<String>), Error> {
    let Some(template) = metadata.get(keys::CHAT_TEMPLATE).and_then(Value::as_str).map(str::to_owned) else {
        return Ok((None, None));
    };
    let tokens = SpecialTokens::of_file(metadata);
    guarded(move || {
        let chat = Chat::of(&Conversation::of(&[("user", MESSAGE)]));
        let settings = Settings { tokens: &tokens, generation_prompt: true, date: Date::FIXED };
        let plain = render_chat(&template, &chat, &settings).ok();
        // Templates of vision models may ignore texts that are not in a list of parts.
        let prompt = plain
            .filter(|text| text.contains(MESSAGE))
            .or_else(|| render_chat(&template, &chat.with_parts(), &settings).ok());
        let system = default_system(&template, &tokens);
        (prompt, (!system.is_empty()).then(|| system.join(" ")))
    })
}

fn memory(model: &Model, context_length: Option<u64>) -> Option<MemoryUse> {
    let context = context_length.filter(|length| *length > 0).map_or(CONTEXT, |length| length.min(CONTEXT));
    memory_with(model, [context]).pop()
}

/// Memory with each of these numbers of tokens; empty for an unknown memory layout.
pub(crate) fn memory_with(model: &Model, contexts: impl IntoIterator<Item = u64>) -> Vec<MemoryUse> {
    let Ok(demand) = Demand::of(&gguf_models::GRAPHS, model) else { return Vec::new() };
    let with = |context| {
        let bytes = demand.bytes(&Use { context, ..Use::default() }).ok()?.total();
        Some(MemoryUse { context, bytes })
    };
    contexts.into_iter().filter_map(with).collect()
}

impl Summary {
    /// One screen for people.
    pub fn text(&self) -> String {
        let mut text = format!("{}\n", cut(&self.name));
        for (name, value) in self.rows() {
            text += &wrapped(&format!("{name:<COLUMN$}{value}"), COLUMN);
        }
        let hints = self.findings.iter().filter(|finding| finding.code == "hint");
        for finding in self.problems().take(MAX_PROBLEMS).chain(hints) {
            text += &wrapped(&format!("{}: {}", finding.severity.name(), printable(&finding.message)), 2);
        }
        match self.problems().count().saturating_sub(MAX_PROBLEMS) {
            0 => text,
            n => text + &format!("{n} more, see `gguf-inspect verify`\n"),
        }
    }

    /// The facts of the screen by name, the verdict, if there is one, last. Texts of the file are escaped and cut.
    pub(crate) fn rows(&self) -> Vec<(&'static str, String)> {
        let mut rows = Vec::new();
        let mut row = |name: &'static str, value: &str| rows.push((name, value.to_owned()));
        let kind = self.kind.as_ref().map(|kind| format!("{kind} file")).into_iter();
        let what: Vec<String> = kind.chain(self.architecture.clone()).map(|text| cut(&text)).collect();
        // Statistics are not weights, and no program loads them as a model.
        let is_matrix = self.kind.as_deref() == Some("imatrix");
        let parameters =
            (self.parameters > 0 && !is_matrix).then(|| format!("{} parameters", grouped(self.parameters)));
        row("model", &[what, parameters.into_iter().collect()].concat().join(", "));
        if let Some(models) = self.diffusion {
            row("family", models);
        }
        let files = if self.n_files > 1 { format!("{} files, ", self.n_files) } else { String::new() };
        let file_type = self.file_type.as_ref().map(|name| format!("{}, ", cut(name))).unwrap_or_default();
        let bits =
            if is_matrix { String::new() } else { format!(", {:.2} bits/weight", self.bits_per_weight) };
        row("size", &format!("{files}{file_type}{}{bits}", human_bytes(self.file_bytes)));
        if !self.types.is_empty() {
            row("types", &self.shares().collect::<Vec<_>>().join(", "));
        }
        if let Some(adapter) = &self.adapter {
            row("adapter", &cut(adapter));
        }
        for origin in &self.origin {
            row(origin.what, &cut(&origin.value));
        }
        if let Some(length) = self.context_length {
            let scaling = self.rope_scaling.as_ref().map(|kind| format!(", RoPE scaling {}", cut(kind)));
            row("context", &format!("{length} tokens{}", scaling.unwrap_or_default()));
        }
        for (name, value) in
            [("tokenizer", &self.tokenizer), ("prompt", &self.prompt), ("system", &self.default_system)]
        {
            if let Some(value) = value {
                row(name, &cut(value));
            }
        }
        if let Some(MemoryUse { context, bytes }) = self.memory {
            row("memory", &format!("{} with {context} tokens of context", human_bytes(bytes)));
        }
        if !is_matrix || self.problems().next().is_some() {
            row("verdict", &self.verdict());
        }
        rows
    }

    /// Types with their part of the bytes, such as `q6_K 12.5 %`.
    pub(crate) fn shares(&self) -> impl Iterator<Item = String> {
        let all = self.types.iter().map(|share| share.bytes).fold(0, u64::saturating_add).max(1);
        let share = move |share: &TypeShare| {
            format!("{} {:.1} %", share.dtype, 100.0 * share.bytes as f64 / all as f64)
        };
        self.types.iter().map(share)
    }

    fn problems(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(|finding| finding.severity != Severity::Note)
    }

    /// A sentence about the problems.
    fn verdict(&self) -> String {
        let count = |severity| self.findings.iter().filter(|finding| finding.severity == severity).count();
        let of = |n: usize, word: &str| format!("{n} {word}{}", if n == 1 { "" } else { "s" });
        match (count(Severity::Error), count(Severity::Warning)) {
            (0, 0) => match &self.not_checked {
                Some(why) => format!("loading was not checked: {}", printable(why)),
                None => "header ok; weights not checked: run `gguf-inspect verify`".to_owned(),
            },
            (0, n) => of(n, "warning"),
            (n, 0) => of(n, "error"),
            (errors, warnings) => format!("{}, {}", of(errors, "error"), of(warnings, "warning")),
        }
    }
}

/// A text of the file, escaped and cut.
fn cut(text: &str) -> String {
    shortened(text, MAX_TEXT)
}
