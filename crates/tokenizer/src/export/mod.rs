//! Export: from the `tokenizer.*` keys of a GGUF file to the tokenizer files of a Hugging Face folder.
//!
//! tokenizer.json says everything; tokenizer_config.json names the special tokens, so that the
//! converter and transformers find them again. The class is the generic one, because classes
//! with a name rebuild parts of tokenizer.json to their own taste.

mod bpe;
mod error;
mod lines;
mod spm;
mod tokens;
mod unigram;
mod wordpiece;
mod world;

use std::collections::HashMap;

use gguf_container::{Array, KeyError, Metadata};
use serde_json::{Map, Value as Json};

use crate::huggingface::Route;
use crate::huggingface::token_type::TokenType;
use crate::json::pretty;
use crate::keys;
pub use error::ExportError;
use tokens::Tokens;

/// The special tokens that configs name: the name there, and the part of the key here.
const SPECIALS: &[(&str, &str)] = &[
    ("bos_token", "bos"),
    ("eos_token", "eos"),
    ("unk_token", "unknown"),
    ("sep_token", "seperator"),
    ("pad_token", "padding"),
    ("cls_token", "cls"),
    ("mask_token", "mask"),
];

/// A tokenizer to export.
#[derive(Debug, Clone, Copy)]
pub struct ExportInput<'a> {
    /// Metadata of the file.
    pub metadata: &'a Metadata,
    /// Rows of the token embedding.
    pub embedding_rows: u64,
    /// Route by which a conversion reads the files again.
    pub route: Route,
    /// `model_max_length` of tokenizer_config.json: the context length in the config, or null.
    pub max_length: &'a Json,
}

/// Tokenizer files of a Hugging Face folder.
#[derive(Debug, Clone, Default)]
pub struct ExportedTokenizer {
    /// Files by name, in the order in which they are best written.
    pub files: Vec<(String, Vec<u8>)>,
    /// Remarks for the user, one per line.
    pub notes: Vec<String>,
}

/// Writes all files of a tokenizer.
///
/// # Errors
///
/// See [`ExportError`].
pub fn to_huggingface(input: &ExportInput<'_>) -> Result<ExportedTokenizer, ExportError> {
    let metadata = input.metadata;
    let mut notes = Vec::new();
    let kind = metadata.text(keys::MODEL)?.ok_or_else(|| KeyError::missing(keys::MODEL))?;
    let known = vec!["llama", "gpt2", "bert", "t5", "rwkv", "gemma4", "plamo2"];
    let is_spm = kind == "llama";
    let pre = match kind {
        "gpt2" => Some(bpe::find(metadata.text(keys::PRE)?.unwrap_or("default"))?),
        kind if known.contains(&kind) => None,
        _ => return Err(ExportError::Unsupported { subject: "tokenizer", found: kind.to_owned(), known }),
    };
    let adds_bos = is_spm || pre.as_ref().is_some_and(|pre| pre.row.add_bos);
    let is_wordpiece = kind == "bert";
    let tokens = tokens(input, is_spm, is_wordpiece, adds_bos, &mut notes)?;
    let mut files = Vec::new();
    let mut config = tokenizer_config(input, &tokens)?;
    config.insert("tokenizer_class".to_owned(), class(kind, input.route).into());
    // For unigram and SentencePiece BPE, the model is written next to tokenizer.json, because only it has
    // scores.
    match pre {
        None if is_wordpiece => {
            let (lowercase, strip_accents) =
                (metadata.flag(keys::LOWERCASE)?, metadata.flag(keys::STRIP_ACCENTS)?);
            let json = wordpiece::tokenizer_json(&tokens, lowercase, strip_accents);
            files.push(("tokenizer.json".to_owned(), pretty(&json)));
        }
        None if kind == "rwkv" => files.push(world::file(&tokens)?),
        None if kind == "plamo2" => files.push(lines::plamo(&tokens, &scores(metadata, tokens.texts.len())?)),
        None if kind == "gemma4" => {
            let merges = bpe::merges(&file_merges(metadata)?)?;
            files.push(("tokenizer.json".to_owned(), pretty(&spm::with_merges(&tokens, merges))));
            // Only names tell which tokens of the vocabulary steer the model.
            config.insert("additional_special_tokens".to_owned(), tokens.control().into());
        }
        Some(_) if input.route.exports_ranks => files.push(lines::qwen(&tokens)?),
        None if kind == "t5" => {
            let scores = scores(metadata, tokens.texts.len())?;
            let charsmap = match metadata.get(keys::PRECOMPILED_CHARSMAP).and_then(|value| value.as_array()) {
                Some(Array::U8(bytes)) => bytes.clone(),
                _ => Vec::new(),
            };
            let remove = metadata.flag(keys::REMOVE_EXTRA_WHITESPACES)?.unwrap_or(false);
            let normalization = unigram::Normalization { charsmap, remove_extra_whitespaces: remove };
            files.push((
                "tokenizer.json".to_owned(),
                pretty(&unigram::tokenizer_json(&tokens, &scores, &normalization)),
            ));
            match spm::model(&tokens, &scores, Some(&normalization)) {
                Ok(bytes) => files.push(("spiece.model".to_owned(), bytes)),
                Err(error) => notes.push(format!("spiece.model is not written: {error}")),
            }
        }
        Some(pre) => {
            let json = bpe::tokenizer_json(&pre, &tokens, &file_merges(metadata)?)?;
            files.push(("tokenizer.json".to_owned(), pretty(&json)));
        }
        None => {
            let scores = scores(metadata, tokens.texts.len())?;
            files.push(("tokenizer.json".to_owned(), pretty(&spm::tokenizer_json(&tokens, &scores))));
            match spm::model(&tokens, &scores, None) {
                Ok(bytes) => {
                    files.push(("tokenizer.model".to_owned(), bytes));
                    spm::keep_unknown_type(&tokens, &mut config);
                }
                Err(error) => notes.push(format!("tokenizer.model is not written: {error}")),
            }
        }
    }
    files.extend(templates(metadata)?);
    files.push(("tokenizer_config.json".to_owned(), pretty(&Json::Object(config))));
    files.push(("special_tokens_map.json".to_owned(), pretty(&special_tokens(metadata, &tokens)?)));
    Ok(ExportedTokenizer { files, notes })
}

fn tokens(
    input: &ExportInput<'_>,
    is_spm: bool,
    is_wordpiece: bool,
    adds_bos: bool,
    notes: &mut Vec<String>,
) -> Result<Tokens, ExportError> {
    let (metadata, n_rows) = (input.metadata, input.embedding_rows);
    let Some(Array::String(bytes)) = metadata.get(keys::TOKENS).and_then(|value| value.as_array()) else {
        return Err(KeyError::missing(keys::TOKENS).into());
    };
    let to_text = |(id, bytes): (usize, &[u8])| {
        String::from_utf8(bytes.to_vec()).map_err(|_| ExportError::TokenNotText { id })
    };
    let mut texts = bytes.iter().enumerate().map(to_text).collect::<Result<Vec<String>, ExportError>>()?;
    let count = |key: &str, found, expected| ExportError::TokenCount { key: key.to_owned(), found, expected };
    if texts.len() as u64 > n_rows {
        return Err(count(keys::TOKENS, texts.len(), format!("at most the {n_rows} rows of the embedding")));
    }
    let kinds = match metadata.get(keys::TOKEN_TYPE).and_then(|value| value.as_array()) {
        None => vec![TokenType::Normal; texts.len()],
        Some(Array::I32(kinds)) if kinds.len() == texts.len() => {
            kinds.iter().map(|id| TokenType::from_id(*id).unwrap_or(TokenType::Normal)).collect()
        }
        Some(other) => {
            return Err(count(
                keys::TOKEN_TYPE,
                other.len(),
                format!("the {} numbers of the tokens", texts.len()),
            ));
        }
    };
    if is_wordpiece {
        for (text, kind) in texts.iter_mut().zip(&kinds) {
            *text = wordpiece::text(text, *kind);
        }
    }
    let mut ids = HashMap::with_capacity(texts.len());
    for (id, text) in texts.iter().enumerate() {
        if let Some(first) = ids.insert(text.clone(), id) {
            notes.push(format!("tokens {first} and {id} have the same text; only {id} is kept"));
        }
    }
    // A SentencePiece vocabulary has special tokens where the file names none: llama 2's, as
    // `llama_vocab` has them by default.
    let id = |of: &str, default: u64| -> Result<Option<usize>, ExportError> {
        let id = metadata.count(&format!("tokenizer.ggml.{of}_token_id"))?.or(is_spm.then_some(default));
        Ok(id.and_then(|id| usize::try_from(id).ok()).filter(|id| *id < texts.len()))
    };
    let adds = |of: &str, default| {
        metadata.flag(&format!("tokenizer.ggml.add_{of}_token")).map(|f| f.unwrap_or(default))
    };
    Ok(Tokens {
        bos: id("bos", 1)?.filter(|_| matches!(adds("bos", adds_bos), Ok(true))),
        eos: id("eos", 2)?.filter(|_| matches!(adds("eos", false), Ok(true))),
        bos_of_second: metadata.flag(keys::ADD_SEP)? == Some(false),
        separator: id("seperator", 0)?.filter(|_| matches!(adds("sep", false), Ok(true))),
        unknown: id("unknown", 0)?,
        space_prefix: metadata.flag(keys::ADD_SPACE_PREFIX)?,
        texts,
        kinds,
        ids,
    })
}

fn file_merges(metadata: &Metadata) -> Result<Vec<String>, ExportError> {
    texts(metadata, keys::MERGES)?.ok_or_else(|| KeyError::missing(keys::MERGES).into())
}

/// A list of texts, if the key is there.
fn texts(metadata: &Metadata, key: &str) -> Result<Option<Vec<String>>, KeyError> {
    metadata.read(key, "a list of texts", |value| match value.as_array()? {
        Array::String(items) => items.iter().map(|item| String::from_utf8(item.to_vec()).ok()).collect(),
        array if array.is_empty() => Some(Vec::new()),
        _ => None,
    })
}

fn scores(metadata: &Metadata, n_tokens: usize) -> Result<Vec<f32>, ExportError> {
    match metadata.get(keys::SCORES).and_then(|value| value.as_array()) {
        Some(Array::F32(scores)) if scores.len() == n_tokens => Ok(scores.clone()),
        Some(other) => {
            let expected = format!("the {n_tokens} numbers of the tokens");
            Err(ExportError::TokenCount { key: keys::SCORES.to_owned(), found: other.len(), expected })
        }
        None => Err(KeyError::missing(keys::SCORES).into()),
    }
}

fn tokenizer_config(input: &ExportInput<'_>, tokens: &Tokens) -> Result<Map<String, Json>, ExportError> {
    let metadata = input.metadata;
    let mut config = Map::new();
    // Only the file's own keys, so that a conversion writes the same keys again.
    for (name, key) in [
        ("add_bos_token", keys::ADD_BOS),
        ("add_eos_token", keys::ADD_EOS),
        ("add_prefix_space", keys::ADD_SPACE_PREFIX),
    ] {
        if let Some(flag) = metadata.flag(key)? {
            config.insert(name.to_owned(), flag.into());
        }
    }
    config.insert("clean_up_tokenization_spaces".to_owned(), false.into());
    if let Json::Object(specials) = special_tokens(metadata, tokens)? {
        config.extend(specials);
    }
    config.insert("model_max_length".to_owned(), input.max_length.clone());
    Ok(config)
}

/// The generic class, unless the architecture's own is looked for by name.
fn class(kind: &str, route: Route) -> &'static str {
    let usual = match kind {
        "bert" => "BertTokenizer",
        "t5" => "T5Tokenizer",
        _ => "PreTrainedTokenizerFast",
    };
    (route.class)(kind).unwrap_or(usual)
}

fn special_tokens(metadata: &Metadata, tokens: &Tokens) -> Result<Json, ExportError> {
    let mut map = Map::new();
    let is_bytes = metadata.text(keys::MODEL)? == Some("gpt2");
    for (name, of) in SPECIALS {
        let id = metadata.count(&format!("tokenizer.ggml.{of}_token_id"))?;
        let id = id.and_then(|id| usize::try_from(id).ok());
        // A token of bytes that is not special did not get its id by this name, which would make it so.
        let is_named = |id: &usize| !is_bytes || tokens.kinds.get(*id) != Some(&TokenType::Normal);
        if let Some(text) = id.filter(is_named).and_then(|id| tokens.texts.get(id)) {
            map.insert((*name).to_owned(), text.clone().into());
        }
    }
    Ok(Json::Object(map))
}

/// The chat template, followed by named ones.
fn templates(metadata: &Metadata) -> Result<Vec<(String, Vec<u8>)>, ExportError> {
    let mut files = Vec::new();
    if let Some(template) = metadata.text(keys::CHAT_TEMPLATE)? {
        files.push(("chat_template.jinja".to_owned(), template.into()));
    }
    for name in texts(metadata, keys::CHAT_TEMPLATES)?.unwrap_or_default() {
        // A name becomes a file name; one that could leave the folder is skipped.
        let is_plain =
            !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
        if let Some(template) =
            metadata.text(&format!("tokenizer.chat_template.{name}"))?.filter(|_| is_plain)
        {
            files.push((format!("additional_chat_templates/{name}.jinja"), template.into()));
        }
    }
    Ok(files)
}
