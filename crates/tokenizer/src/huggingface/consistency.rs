//! Compares the files of a tokenizer with each other, and with the written vocabulary.

use std::collections::BTreeSet;

use gguf_container::{Array, Value};
use serde::Deserialize;
use serde_json::Value as Json;
use tokenizers::NormalizedString;

use super::added::class_as_loaded;
use super::error::listed_names;
use super::hf::{AddedToken, HfTokenizer, Tokens, json_object, step_type, steps, tokenizer_config};
use super::spm_model::SpmModel;
use super::writer::TokenizerWriter;
use crate::token_type::TokenType;
use crate::{TokenizerFiles, byte_alphabet, keys};

pub(super) struct Listed {
    file: &'static str,
    pub token: AddedToken,
}

/// Entries of all files that list added tokens. Files that cannot be read are reported by the code that needs
/// them.
pub(super) fn listed(input: &TokenizerFiles<'_>, hf: Option<&HfTokenizer>) -> Vec<Listed> {
    let object = |file| json_object(input, file).ok().flatten().unwrap_or_default();
    let mut all = Vec::new();
    let mut add = |file, id: Option<u64>, token: AddedToken| {
        let id = id.and_then(|id| u32::try_from(id).ok()).or(token.id);
        all.push(Listed { file, token: AddedToken { id, ..token } });
    };
    for (text, id) in object("added_tokens.json") {
        add("added_tokens.json", id.as_u64(), AddedToken { special: false, ..AddedToken::special(&text) });
    }
    for token in hf.into_iter().flat_map(|hf| &hf.added_tokens) {
        add("tokenizer.json", None, token.clone());
    }
    let parsed = |token: Json| serde_json::from_value::<AddedToken>(token).ok();
    let mut config = tokenizer_config(input).ok().flatten().unwrap_or_default();
    if let Some(Json::Object(decoder)) =
        config.remove("added_tokens_decoder").filter(|list| *list != Json::Object(Default::default()))
    {
        for (id, token) in decoder {
            if let Some(token) = parsed(token) {
                add("tokenizer_config.json", id.parse().ok(), token);
            }
        }
    } else {
        for token in object("special_tokens_map.json").into_iter().filter_map(|(_, token)| parsed(token)) {
            add("special_tokens_map.json", None, token);
        }
    }
    all
}

/// Maximum number of entries in a message.
const NAMED: usize = 4;

struct Written<'a> {
    tokens: &'a gguf_container::Strings,
    types: &'a [i32],
}

impl Written<'_> {
    fn of(keys: &gguf_container::Metadata) -> Option<Written<'_>> {
        let list = |key| keys.get(key).and_then(Value::as_array);
        let Some(Array::String(tokens)) = list(keys::TOKENS) else { return None };
        let types = if let Some(Array::I32(types)) = list(keys::TOKEN_TYPE) { types.as_slice() } else { &[] };
        Some(Written { tokens, types })
    }

    fn text(&self, id: u32) -> Option<&[u8]> {
        self.tokens.get(id as usize)
    }

    fn is(&self, id: usize, kind: TokenType) -> bool {
        self.types.get(id).is_some_and(|found| *found == kind.id())
    }

    /// True if the token with this id has this text, in the spelling of any kind of vocabulary.
    fn has(&self, id: u32, text: &str) -> bool {
        let Some(written) = self.text(id) else { return false };
        written == text.as_bytes()
            || written == text.replace('\u{2581}', " ").as_bytes()
            || written.strip_prefix("\u{2581}".as_bytes()) == Some(text.as_bytes())
            || text.strip_prefix("##").is_some_and(|rest| written == rest.as_bytes())
            || byte_alphabet::bytes_of(text).is_some_and(|bytes| written == bytes)
    }
}

/// Warns of added tokens that contradict the written vocabulary, of special tokens that llama.cpp does not
/// find in a text, and of a tokenizer of another model.
pub(super) fn check_written(writer: &mut TokenizerWriter<'_>, listed: &[Listed]) {
    let mut warnings = Vec::new();
    if let Some(written) = Written::of(&writer.vocab.tokenizer.keys) {
        warnings.extend(other_ids(&written, listed));
        let is_text = |listed: &&Listed| {
            let token = &listed.token;
            token.special
                && token.id.is_some_and(|id| {
                    written.is(id as usize, TokenType::Normal) && written.has(id, &token.content)
                })
        };
        let names = names(listed.iter().filter(is_text));
        warnings.extend(names.map(|names| {
            format!("special tokens that the file has as ordinary text, so llama.cpp does not find them in prompts: {names}")
        }));
        warnings.extend(without_token(&written));
    }
    writer.vocab.warnings.append(&mut warnings);
}

/// Entries whose id has another text in the vocabulary.
fn other_ids(written: &Written<'_>, listed: &[Listed]) -> Option<String> {
    let mut found = Vec::new();
    for Listed { file, token } in listed {
        let Some(id) = token.id.filter(|id| written.text(*id).is_some() && !written.has(*id, &token.content))
        else {
            continue;
        };
        let other = String::from_utf8_lossy(written.text(id).unwrap_or_default()).into_owned();
        let moved = written.tokens.iter().position(|text| text == token.content.as_bytes());
        let moved = moved.map_or(String::new(), |at| format!(", which has id {at}"));
        found.push(format!("id {id} is `{other}`, but `{}` in {file}{moved}", token.content));
    }
    let more = gguf_types::and_more(found.len().saturating_sub(NAMED));
    found.truncate(NAMED);
    (!found.is_empty())
        .then(|| format!("the tokenizer files contradict each other: {}{more}", found.join("; ")))
}

/// Number of rows without a token that padding does not explain: at least one in this many, and at least this
/// number.
const MOST_PADDING: (usize, usize) = (10, 64);

fn without_token(written: &Written<'_>) -> Option<String> {
    let n_rows = written.tokens.len();
    let is_filler = |id: &usize| {
        written.is(*id, TokenType::Unused) && written.tokens.get(*id) == Some(format!("[PAD{id}]").as_bytes())
    };
    let n_fillers = (0..n_rows).filter(is_filler).count();
    (n_fillers >= MOST_PADDING.1 && n_fillers > n_rows / MOST_PADDING.0).then(|| {
        format!(
            "the tokenizer has {} tokens for {n_rows} rows of the embedding: check that its files belong to this model",
            n_rows - n_fillers
        )
    })
}

/// Warns of texts that llama.cpp tokenizes differently although all ids agree: spaces after special tokens,
/// and tokens matched in normalized text.
pub(super) fn check_texts(writer: &mut TokenizerWriter<'_>, hf: Option<&HfTokenizer>, listed: &[Listed]) {
    let keys = &writer.vocab.tokenizer.keys;
    let model = keys.get(keys::MODEL).and_then(Value::as_str).unwrap_or_default();
    let adds_space = !matches!(keys.get(keys::ADD_SPACE_PREFIX), Some(Value::Bool(false)));
    let config = tokenizer_config(writer.input).ok().flatten().unwrap_or_default();
    if model == "llama" && adds_space && prepends_once(writer.input, &config, hf) {
        let texts: Vec<&str> = keys::SPECIAL_TOKENS
            .iter()
            .filter_map(|(name, _)| config.get(*name))
            .filter_map(|token| token.as_str().or_else(|| token.get("content")?.as_str()))
            .chain(["<unk>", "<s>", "</s>"])
            .collect();
        let marks = names(listed.iter().filter(|listed| !texts.contains(&listed.token.content.as_str())));
        if let Some(names) = marks {
            writer.warn(format!(
                "llama.cpp puts a space before text that follows a special token, but transformers does not: text after {names} \
                    is tokenized differently than in training; no metadata key expresses this"
            ));
        }
    }
    let composes =
        hf.is_some_and(|hf| steps(&hf.normalizer).into_iter().any(|step| step_type(step) == "NFC"));
    if composes {
        let is_decomposed = |listed: &&Listed| {
            let mut text = NormalizedString::from(listed.token.content.as_str());
            listed.token.is_normalized() && text.nfc().get() != listed.token.content
        };
        if let Some(names) = names(listed.iter().filter(is_decomposed)) {
            writer.warn(format!(
                "added tokens with decomposed characters, which the tokenizer finds in composed text (NFC) and llama.cpp does \
                    not: {names}"
            ));
        }
    }
}

/// Texts of entries for a message, if any.
fn names<'a>(listed: impl Iterator<Item = &'a Listed>) -> Option<String> {
    let texts: BTreeSet<&str> = listed.map(|listed| listed.token.content.as_str()).collect();
    let names: Vec<String> = texts.into_iter().map(|text| format!("`{text}`")).collect();
    (!names.is_empty()).then(|| listed_names(&names))
}

/// True if a space is prepended to a text, but not to text after special tokens.
///
/// Source: `_get_prepend_scheme` and `LlamaTokenizer.__init__` of transformers 5.24.
fn prepends_once(
    input: &TokenizerFiles<'_>,
    config: &serde_json::Map<String, Json>,
    hf: Option<&HfTokenizer>,
) -> bool {
    if class_as_loaded(input, hf) == "LlamaTokenizer" {
        return config.get("legacy") != Some(&Json::Bool(true));
    }
    let schemes = hf.into_iter().flat_map(|hf| steps(&hf.pre_tokenizer));
    schemes.into_iter().any(|step| step.get("prepend_scheme").is_some_and(|scheme| scheme == "first"))
}

/// Notes if the tokens of tokenizer.json differ from the model's. Like in the reference, the model is used:
/// it has scores, which tokenizer.json lacks.
pub(super) fn model_and_json(writer: &mut TokenizerWriter<'_>, model: &SpmModel<'_>) {
    #[derive(Deserialize)]
    struct File {
        model: Model,
    }
    #[derive(Deserialize)]
    struct Model {
        #[serde(default)]
        vocab: Tokens,
    }
    let Some(bytes) = writer.file("tokenizer.json") else { return };
    let file: File = match serde_json::from_slice(bytes) {
        Ok(file) => file,
        // The code that needs this file reports its errors.
        Err(_) => return,
    };
    let reason = "using `tokenizer.model`, which has the scores";
    // Added tokens after the pieces in tokenizer.json are counted, not compared.
    let (mut differing, mut first, mut more) = (0usize, None, 0usize);
    for (text, id) in &file.model.vocab.0 {
        match model.pieces.get(*id as usize) {
            Some(piece) if piece.text == text => {}
            Some(piece) => {
                differing += 1;
                first.get_or_insert((*id, piece.text, text.as_str()));
            }
            None => more += 1,
        }
    }
    if let Some((id, piece, text)) = first {
        writer.warn(format!(
            "`tokenizer.model` and `tokenizer.json` disagree on {differing} tokens: id {id} is `{piece}` and \
                `{text}`; {reason}"
        ));
    }
    let listed = file.model.vocab.0.len();
    if listed > 0 && (more > 0 || listed < model.pieces.len()) {
        writer.note(format!(
            "`tokenizer.model` has {} tokens, but `tokenizer.json` has {listed}; {reason}",
            model.pieces.len()
        ));
    }
}
