//! Configs and tokenizers.

use gguf_layout::{Input, Options, SourceTensor};
use gguf_tokenizer::huggingface::{Route, VocabContext};
use gguf_tokenizer::{Reading, Tokenizer};
use gguf_types::Shape;
use serde_json::Value as Json;

use crate::pieces;

/// `{"config": {...}, "tensors": {"NAME": [DIMENSIONS]}}`, and any of the small files under `files`.
fn input(json: &Json) -> Option<Input<'_>> {
    let dims = |shape: &Json| -> Option<Vec<u64>> { shape.as_array()?.iter().map(Json::as_u64).collect() };
    let tensor = |(name, shape): (&String, &Json)| {
        Some(SourceTensor { name: name.clone(), shape: Shape::new(&dims(shape)?).ok()?, folded: None })
    };
    let tensors = json.get("tensors")?.as_object()?.iter().filter_map(tensor).collect();
    let files = json.get("files").and_then(Json::as_object).into_iter().flatten();
    let files = files.filter_map(|(name, text)| Some((name.clone(), text.as_str()?.as_bytes()))).collect();
    let config = json.get("config")?.clone();
    Some(Input { config, tensors, files, decoded: true, ..Input::default() })
}

pub(super) fn config(bytes: &[u8]) -> bool {
    let Ok(json) = serde_json::from_slice::<Json>(bytes) else { return false };
    let Some(input) = input(&json) else { return false };
    gguf_layout::resolve_weights(&input, &Options::new(gguf_models::FAMILIES)).is_ok()
}

pub(super) fn projector(bytes: &[u8]) -> bool {
    let Ok(json) = serde_json::from_slice::<Json>(bytes) else { return false };
    let Some(input) = input(&json) else { return false };
    gguf_layout::resolve_projector(&input, &Options::new(gguf_models::FAMILIES)).is_ok()
}

/// Files of a tokenizer, and one named `route` with the name of the route.
pub(super) fn tokenizer(bytes: &[u8]) -> bool {
    let files = pieces::split(bytes);
    let name = pieces::of(&files, "route").unwrap_or_default();
    let known = gguf_models::routes().into_iter().find(|known| known.name.as_bytes() == name.trim_ascii());
    let config = pieces::of(&files, "config.json");
    let config: Json = config.and_then(|bytes| serde_json::from_slice(bytes).ok()).unwrap_or_default();
    let files = files.into_iter().map(|(name, bytes)| (name.to_owned(), bytes)).collect();
    let input = Input { config, files, ..Input::default() };
    reads_tokenizer(&input, known.unwrap_or_default())
}

pub(super) fn sentencepiece(bytes: &[u8]) -> bool {
    let input = Input { files: vec![("tokenizer.model".to_owned(), bytes)], ..Input::default() };
    reads_tokenizer(&input, Route::SENTENCE_PIECE)
}

fn reads_tokenizer(input: &Input<'_>, route: Route) -> bool {
    let Ok(vocab) = Tokenizer::from_huggingface(&input.tokenizer_files(), route, &VocabContext::default())
    else {
        return false;
    };
    if let Ok(tokenizer) = vocab.tokenizer.encoder(Reading::LlamaCpp) {
        let _ = tokenizer.encode("Ein  \u{20ac} \u{0301}<s>\n123456", true, true);
    }
    true
}
