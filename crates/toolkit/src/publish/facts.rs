//! Facts about the model for the card: from the keys of the file and the head of the source's card.

use std::path::Path;

use gguf_checkpoint::hub::Repo;
use gguf_container::Value;
use gguf_runtime::{chat::Chat, embed::Pooling};
use gguf_tokenizer::keys::CHAT_TEMPLATE;
use serde_json::{Value as Json, json};

use super::{base::Source, measure::predicts_tokens, options::PublishOptions, results::ModelFacts};
use crate::{
    error::Error,
    events::Events,
    run::{ChatOptions, render_prompt},
};

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
        pooling: model.pooling().map(Pooling::name),
        base_model: args.base_model.clone().or(repo.clone()),
        source: repo,
        commit,
        license: text("general.license").or(card("license")),
        license_name: text("general.license.name").or(card("license_name")),
        license_link: text("general.license.link").or(card("license_link")),
        languages: languages.map(|text| String::from_utf8_lossy(text).into_owned()).collect(),
        pipeline_tag: card("pipeline_tag")
            .filter(|tag| tag != "text-generation" || predicts_tokens(model))
            .or_else(|| pipeline(source, model).map(str::to_owned)),
    }
}

/// The prompt that the chat template makes of a system prompt and a question, without the system prompt if the template
/// refuses one; none without a template.
pub fn prompt_format(model: &gguf_runtime::Model, path: &Path, events: &dyn Events) -> Option<String> {
    let metadata = model.file().metadata();
    metadata.get(CHAT_TEMPLATE).filter(|_| predicts_tokens(model))?;
    let question = json!({"role": "user", "content": "{prompt}"});
    let chats = [
        json!([{"role": "system", "content": "{system_prompt}"}, question]),
        json!([question]),
        json!([{"role": "user", "content": [{"type": "text", "text": "{prompt}"}]}]),
    ];
    // The card must not depend on the day.
    let options = ChatOptions { date: Some("2026-01-01".to_owned()), ..ChatOptions::default() };
    let mut problem = None;
    for chat in chats {
        let chat = Chat::parse(&chat.to_string()).map_err(Error::new);
        match chat.and_then(|chat| render_prompt(path, metadata, &chat, &options)) {
            Ok(made) if made.prompt.contains("{prompt}") => return Some(made.prompt),
            Ok(_) => {}
            Err(error) => problem = problem.or(Some(error)),
        }
    }
    let problem = problem.map_or_else(String::new, |problem| format!(": {problem}"));
    events.warning(format!(
        "the card has no prompt format, because the chat template cannot be rendered{problem}"
    ));
    None
}

/// Pipeline tag of the model if its source does not name one.
fn pipeline(source: &Source, model: &gguf_runtime::Model) -> Option<&'static str> {
    let has_projector = matches!(source, Source::Checkpoint(checkpoint) if checkpoint.projector.is_some());
    match () {
        () if has_projector => Some("image-text-to-text"),
        () if predicts_tokens(model) => Some("text-generation"),
        () if model.pooling() == Some(Pooling::Rank) => Some("text-ranking"),
        () if model.is_encoder_decoder() || model.audio_input().is_some() => None,
        () => Some("feature-extraction"),
    }
}
