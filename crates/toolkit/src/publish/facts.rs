//! Facts about the model for the card: from the keys of the file and the head of the source's card.

use gguf_checkpoint::hub::Repo;
use gguf_container::Value;
use serde_json::Value as Json;

use super::{base::Source, options::PublishOptions, results::ModelFacts};

/// The facts of a model.
pub fn of(source: &Source, model: &gguf_runtime::Model, args: &PublishOptions) -> ModelFacts {
    let metadata = model.file().metadata();
    let text = |key: &str| metadata.get(key).and_then(Value::as_str).map(str::to_owned);
    let card =
        |key: &str| source.card().and_then(|card| card.get(key)).and_then(Json::as_str).map(str::to_owned);
    let commit = source.commit();
    // Only models of the Hub have a commit.
    let repo = commit.as_ref().and_then(|_| Repo::parse(&args.src.to_string_lossy()).ok());
    let repo = repo.map(|repo| repo.id().to_owned());
    let languages = metadata.texts("general.languages").ok().flatten();
    let languages = languages.iter().flat_map(|texts| texts.iter());
    ModelFacts {
        name: text("general.name").unwrap_or_else(|| "Model".to_owned()),
        architecture: model.architecture().to_owned(),
        parameters: model.file().tensors().map(|(_, info)| info.shape.n_elems()).sum(),
        context_length: model.context_length() as u64,
        base_model: args.base_model.clone().or(repo.clone()),
        source: repo,
        commit,
        license: text("general.license").or(card("license")),
        license_name: text("general.license.name").or(card("license_name")),
        license_link: text("general.license.link").or(card("license_link")),
        languages: languages.map(|text| String::from_utf8_lossy(text).into_owned()).collect(),
        pipeline_tag: card("pipeline_tag").or_else(|| pipeline(source, model).map(str::to_owned)),
    }
}

/// Pipeline tag of the model if its source does not name one.
fn pipeline(source: &Source, model: &gguf_runtime::Model) -> Option<&'static str> {
    let has_projector = matches!(source, Source::Checkpoint(checkpoint) if checkpoint.projector.is_some());
    match () {
        () if has_projector => Some("image-text-to-text"),
        () if model.need_next_token().is_ok() => Some("text-generation"),
        () if model.is_encoder_decoder() || model.audio_input().is_some() => None,
        () => Some("feature-extraction"),
    }
}
