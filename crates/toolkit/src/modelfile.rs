//! `Modelfile`, by which Ollama imports a file.

mod go_template;
pub mod syntax;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use gguf_container::{File, Metadata, Value};
use gguf_runtime::chat::{Chat, Conversation, Date, Settings, SpecialTokens, render_chat};
use gguf_tokenizer::keys::CHAT_TEMPLATE;

use self::go_template::GoTemplate;
use crate::{error::Error, template_guard::guarded};

/// Contents of the `Modelfile` of a model and its projector, which are named as Ollama finds them.
pub fn text<'a>(
    files: impl IntoIterator<Item = &'a str>,
    template: Option<&str>,
    sampling: &BTreeMap<&'static str, String>,
) -> String {
    let mut text: String = files.into_iter().map(|name| format!("FROM {name}\n")).collect();
    text.extend(template);
    text.extend(sampling.iter().map(|(name, value)| format!("PARAMETER {name} {value}\n")));
    text
}

/// The `Modelfile` at `out` for written files, the model first.
///
/// # Errors
/// A file that cannot be read.
pub fn of_files(out: &Path, files: &[PathBuf]) -> Result<String, Error> {
    let Some(model) = files.first() else { return Err(Error::new("no model for a Modelfile")) };
    let file = File::open(model).map_err(|error| Error::at(model, error))?;
    let metadata = file.metadata();
    let folder = out.parent().unwrap_or(Path::new(""));
    // Paths start at the `Modelfile`.
    let name = |path: &PathBuf| match path.strip_prefix(folder) {
        Ok(name) if !name.is_absolute() => format!("./{}", name.display()),
        _ => std::fs::canonicalize(path).unwrap_or_else(|_| path.clone()).display().to_string(),
    };
    let names: Vec<String> = files.iter().map(name).collect();
    Ok(text(names.iter().map(String::as_str), template(metadata).as_deref(), &sampling(metadata)))
}

/// Sampling defaults of the model, by their names in a `Modelfile`.
pub fn sampling(metadata: &Metadata) -> BTreeMap<&'static str, String> {
    let names = [
        ("temp", "temperature"),
        ("top_k", "top_k"),
        ("top_p", "top_p"),
        ("min_p", "min_p"),
        ("penalty_repeat", "repeat_penalty"),
        ("penalty_last_n", "repeat_last_n"),
    ];
    let text = |value: &Value| match value {
        Value::F32(number) => Some(number.to_string()),
        value => value.to_string().parse::<i64>().ok().map(|number| number.to_string()),
    };
    let found = |(key, name): (&str, &'static str)| {
        Some((name, text(metadata.get(&format!("general.sampling.{key}"))?)?))
    };
    names.into_iter().filter_map(found).collect()
}

/// The chat template as lines of a `Modelfile`, if it writes messages in order, without tools and reasoning, which a Go
/// template could not keep.
pub fn template(metadata: &Metadata) -> Option<String> {
    let template = metadata.get(CHAT_TEMPLATE).and_then(Value::as_str)?;
    // Tools and reasoning are not translated, and a date would be that of the translation.
    if ["tools", "think", "reasoning", "strftime_now", "date_string"]
        .iter()
        .any(|word| template.contains(word))
    {
        return None;
    }
    let tokens = SpecialTokens::of_file(metadata);
    let render = |messages: &[(&str, &str)], generation_prompt: bool| {
        let chat = Chat::of(&Conversation::of(messages));
        let (template, tokens) = (template.to_owned(), tokens.clone());
        let made = guarded(move || {
            render_chat(&template, &chat, &Settings { tokens: &tokens, generation_prompt, date: Date::FIXED })
        });
        made.ok()?.ok()
    };
    GoTemplate::find(&render, &SpecialTokens::added_bos(metadata))?.lines()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// BOS of SmolLM2 begins each message and is not added; BOS of Llama is added.
    #[test]
    fn bos_text_is_omitted_only_if_ollama_adds_it() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../golden/programs/modelfiles.json");
        let rows: serde_json::Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        for (row, tokens, adds) in
            [(0, ["<|im_start|>", "<|im_end|>"], Some(false)), (1, ["<s>", "</s>"], None)]
        {
            let mut metadata = Metadata::from([
                ("tokenizer.ggml.model".to_owned(), Value::from("llama")),
                ("tokenizer.ggml.tokens".to_owned(), Value::from(tokens.to_vec())),
                ("tokenizer.ggml.bos_token_id".to_owned(), Value::from(0u32)),
                ("tokenizer.ggml.eos_token_id".to_owned(), Value::from(1u32)),
                (CHAT_TEMPLATE.to_owned(), Value::from(rows[row]["template"].as_str().unwrap())),
            ]);
            if let Some(adds) = adds {
                metadata.set("tokenizer.ggml.add_bos_token", adds);
            }
            let expected = format!("TEMPLATE \"\"\"{}\"\"\"\n", rows[row]["go"].as_str().unwrap());
            let found = template(&metadata).unwrap();
            assert!(found.starts_with(&expected), "{found}");
        }
    }
}
