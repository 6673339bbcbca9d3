//! Facts about the model for the card: from the keys of the file and the head of the source's card.

use std::{collections::BTreeMap, path::Path};

use gguf_checkpoint::hub::Repo;
use gguf_container::{Metadata, Value};
use gguf_runtime::{
    chat::{Chat, SpecialTokens},
    embed::Pooling,
};
use gguf_tokenizer::keys::CHAT_TEMPLATE;
use serde_json::{Value as Json, json};

use super::{
    base::Source, go_template::GoTemplate, measure::predicts_tokens, options::PublishOptions,
    results::ModelFacts,
};
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

/// Sampling defaults of the model, by their names in a `Modelfile` of Ollama.
pub fn sampling(metadata: &Metadata) -> BTreeMap<&'static str, String> {
    let names = [
        ("temp", "temperature"),
        ("top_k", "top_k"),
        ("top_p", "top_p"),
        ("min_p", "min_p"),
        ("penalty_repeat", "repeat_penalty"),
    ];
    let text = |value: &Value| match value {
        Value::F32(number) => Some(number.to_string()),
        value => value.as_u64().map(|number| number.to_string()),
    };
    let found = |(key, name): (&str, &'static str)| {
        Some((name, text(metadata.get(&format!("general.sampling.{key}"))?)?))
    };
    names.into_iter().filter_map(found).collect()
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

/// The chat template as lines of a `Modelfile`, if it writes messages in order, without tools and reasoning, which a Go
/// template could not keep.
pub fn ollama_template(model: &gguf_runtime::Model, path: &Path) -> Option<String> {
    let metadata = model.file().metadata();
    let template = metadata.get(CHAT_TEMPLATE).and_then(Value::as_str)?;
    // Tools and reasoning are not translated, and a date would be that of the translation.
    if ["tools", "think", "reasoning", "strftime_now", "date_string"]
        .iter()
        .any(|word| template.contains(word))
    {
        return None;
    }
    let render = |messages: &[(&str, &str)], asks: bool| {
        let messages = messages.iter().map(|(role, content)| json!({"role": role, "content": content}));
        let chat = Chat::parse(&Json::from(messages.collect::<Vec<Json>>()).to_string()).ok()?;
        let date = Some("2026-01-01".to_owned());
        let options = ChatOptions { date, add_generation_prompt: asks, ..ChatOptions::default() };
        render_prompt(path, metadata, &chat, &options).ok().map(|made| made.prompt)
    };
    GoTemplate::find(&render, &SpecialTokens::of_model(model).bos)?.lines()
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
