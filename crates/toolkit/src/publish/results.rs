//! Contents of `results.json`, which has all numbers of the card.

use std::{collections::BTreeMap, path::Path};

use serde::Serialize;
use serde_json::Value;

use super::{
    front_matter::OwnKeys,
    importance, measure,
    options::PublishOptions,
    texts::{Named, Text},
};
use crate::{calibration_text::is_word, eval_model::are_few_chunks, events::Events};
use gguf_types::words;

/// A file that is published.
#[derive(Debug, Clone, Serialize)]
pub struct PublishedFile {
    pub name: String,
    pub bytes: u64,
    /// In hexadecimal.
    pub sha256: String,
}

/// A projector or draft next to the model.
#[derive(Debug, Clone, Serialize)]
pub struct PublishedSidecar {
    /// A projector or a draft.
    pub kind: &'static str,
    #[serde(flatten)]
    pub file: PublishedFile,
}

/// Memory for a context length.
#[derive(Debug, Clone, Serialize)]
pub struct Memory {
    pub context: u64,
    pub bytes: gguf_runtime::memory::Bytes,
    pub total: u64,
}

/// A type of the ladder.
#[derive(Debug, Clone, Serialize)]
pub struct Rung {
    /// The type's name.
    pub r#type: String,
    /// Its files; empty if it was omitted.
    pub files: Vec<PublishedFile>,
    pub bytes: u64,
    pub bits_per_weight: f64,
    /// Tensors with a larger type than that of the recipe, because their rows do not fill its blocks.
    pub fallbacks: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub predictions: Option<measure::Figures>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vectors: Option<measure::VectorFigures>,
    /// A type that is no larger and no worse.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dominated_by: Option<String>,
    pub left_out: bool,
    /// Digest of everything that its tensors depend on.
    pub fingerprint: String,
    /// Digest of names, license, sampling defaults and chat template.
    pub head: String,
    /// With one sequence and keys and values in f16; empty if the architecture is unknown.
    pub memory: Vec<Memory>,
}

impl Rung {
    /// Measured loss of the type.
    pub fn cost(&self) -> Option<f64> {
        let predictions = self.predictions.as_ref().map(|found| found.divergence.value);
        predictions.or(self.vectors.as_ref().map(|found| found.distance.value))
    }

    /// Name of its first file.
    pub fn first_name(&self) -> &str {
        self.files.first().map_or("", |file| &file.name)
    }
}

/// Text and settings of the measurements.
#[derive(Debug, Clone, Serialize)]
pub struct Evaluation {
    pub texts: Vec<Named>,
    /// SHA-256 of its tokens, in hexadecimal.
    pub sha256: String,
    /// Tokens in a chunk.
    pub context: usize,
    pub chunks: usize,
    /// Rounding of activations.
    pub activations: &'static str,
    /// Names of its texts that the files are also made with.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub shared: Vec<String>,
}

impl Evaluation {
    /// The measurements on the chunks of a text, if there are any. The files are also made with the texts `shared`.
    pub fn of(
        text: &Text,
        n_chunks: usize,
        shared: Vec<String>,
        args: &PublishOptions,
    ) -> Option<Evaluation> {
        (n_chunks > 0).then(|| Evaluation {
            texts: text.files.clone(),
            sha256: text.digest.clone(),
            context: args.context(),
            chunks: n_chunks,
            activations: args.activations().name(),
            shared,
        })
    }
}

/// Facts about the model, from its file and its source.
#[derive(Debug, Clone, Default, Serialize)]
pub struct ModelFacts {
    pub name: String,
    pub architecture: String,
    /// Elements of all tensors.
    pub parameters: u64,
    /// Context length in tokens that it was trained for.
    pub context_length: u64,
    /// Pooling of an embedder (`mean`, `cls`, `last`), or `rank` of a reranker.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pooling: Option<&'static str>,
    /// The repository that the card names.
    pub base_model: Option<String>,
    /// The repository that it was read from, if it was on the Hub.
    pub source: Option<String>,
    /// The state of that repository.
    pub commit: Option<String>,
    pub license: Option<String>,
    pub license_name: Option<String>,
    pub license_link: Option<String>,
    pub languages: Vec<String>,
    pub pipeline_tag: Option<String>,
}

impl ModelFacts {
    /// Address of the source with its commit, if it was on the Hub.
    pub fn address(&self) -> Option<String> {
        Some(format!("hf://{}@{}", self.source.as_ref()?, self.commit.as_ref()?))
    }
}

/// Texts of a calibration.
#[derive(Debug, Clone, Serialize)]
pub struct CalibrationFacts {
    pub texts: Vec<Named>,
    /// Limit of the tokens of all texts together.
    pub tokens: u32,
}

/// The base that everything is made of and compared with.
#[derive(Debug, Clone, Default, Serialize)]
pub struct BaseFacts {
    pub r#type: String,
    pub bytes: u64,
    /// Digest of tensors, hyperparameters and tokens.
    pub weights: String,
}

/// Contents of `results.json`.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Results {
    pub format: &'static str,
    pub version: u32,
    pub program: String,
    /// The call that makes all files from scratch, an argument each.
    pub command: Vec<String>,
    /// A second call, which removes a type that the first one has to name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub removal: Vec<String>,
    /// Settings, which a later run in a clone of the folder keeps.
    pub settings: Value,
    pub model: ModelFacts,
    pub base: BaseFacts,
    pub importance: Option<importance::ImatrixFacts>,
    /// Texts and tokens of the calibration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calibration: Option<CalibrationFacts>,
    /// Chat with a system prompt and a question in the model's format, if it has a chat template.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt_format: Option<String>,
    /// System prompt that the chat template adds to a chat without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_system: Option<String>,
    /// Sampling defaults of the model, by their names in Ollama.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub sampling: BTreeMap<&'static str, String>,
    /// The chat template in the `Modelfile` of Ollama.
    #[serde(skip)]
    pub ollama_template: Option<String>,
    /// Keys of the publisher in the front matter of the card.
    #[serde(skip)]
    pub own_keys: OwnKeys,
    /// The repository, for the commands in the card.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repo: Option<String>,
    pub evaluation: Option<Evaluation>,
    pub rungs: Vec<Rung>,
    /// Projectors and drafts.
    pub sidecars: Vec<PublishedSidecar>,
    /// Front matter of the card without the publisher's own keys.
    pub front_matter: String,
    /// SHA-256 of the card without front matter and the publisher's own text.
    pub card: String,
    /// Digests of everything else that is published, by name.
    pub others: BTreeMap<String, String>,
}

impl Results {
    /// Warns about facts that the card needs and the source does not state.
    pub fn tell_missing(&self, events: &dyn Events) {
        if self.model.base_model.is_none() && !self.own_keys.has("base_model") {
            events.warning(words!(
                "the card names no base model, so the Hub cannot link it; pass [-base-model OWNER/NAME]"
            ));
        }
        if self.model.license.is_none() && !self.own_keys.has("license") {
            events.warning("the card states no license, because the source does not");
        }
    }

    /// True if the metrics are of few chunks.
    pub fn are_imprecise(&self) -> bool {
        self.evaluation.as_ref().is_some_and(|on| are_few_chunks(on.chunks))
    }

    /// True if the card's command reads texts of the publisher.
    pub fn have_texts(&self) -> bool {
        let evaluation = self.evaluation.iter().flat_map(|on| &on.texts);
        let importance = self.importance.iter().flat_map(|importance| &importance.texts);
        let mut texts =
            evaluation.chain(importance).chain(self.calibration.iter().flat_map(|facts| &facts.texts));
        texts.any(|text| text.sha256.is_some() && !is_word(Path::new(&text.name)))
    }

    /// Files that are published.
    pub fn published(&self) -> impl Iterator<Item = &Rung> {
        self.rungs.iter().filter(|rung| !rung.left_out)
    }
}
