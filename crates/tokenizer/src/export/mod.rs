//! Export: from the `tokenizer.*` keys of a GGUF file to the tokenizer files of a Hugging Face folder.
//!
//! tokenizer.json is complete; tokenizer_config.json names the special tokens, so that the converter and
//! transformers find them. The class is the generic one, because specific classes rebuild parts of
//! tokenizer.json.

mod bpe;
mod error;
mod lines;
mod spm;
mod tokens;
mod unigram;
mod wordpiece;
mod world;

use std::borrow::Cow;
use std::collections::HashMap;

use gguf_container::{Array, KeyError, Metadata};
use serde_json::{Map, Value as Json};

use crate::huggingface::{Normalization, Route};
use crate::json::pretty;
use crate::keys::{self, SPECIAL_TOKENS};
use crate::token_type::TokenType;
use crate::tokenizer::Tokenizer;
pub use error::ExportError;
use tokens::Tokens;

/// Further facts that the files of a tokenizer depend on.
#[derive(Debug, Clone, Copy)]
pub struct ExportContext<'a> {
    /// Rows of the token embedding.
    pub embedding_rows: u64,
    /// Route by which a conversion reads the files.
    pub route: Route,
    /// `model_max_length` of tokenizer_config.json: the context length in the config, or null.
    pub max_length: &'a Json,
}

/// Tokenizer files of a Hugging Face folder.
#[derive(Debug, Clone, Default)]
pub struct ExportedTokenizer {
    /// Files by name, in preferred writing order.
    pub files: Vec<(String, Vec<u8>)>,
    /// Remarks for the user, one per line.
    pub notes: Vec<String>,
}

impl Tokenizer {
    /// Writes all files of a Hugging Face tokenizer.
    ///
    /// # Errors
    ///
    /// See [`ExportError`].
    pub fn to_huggingface(&self, ctx: &ExportContext<'_>) -> Result<ExportedTokenizer, ExportError> {
        let metadata = &self.keys;
        let mut notes = Vec::new();
        let kind = self.model()?;
        let known = vec!["llama", "gpt2", "bert", "t5", "rwkv", "gemma4", "plamo2", "plamo3"];
        let is_spm = kind == "llama";
        let pre = match kind {
            "gpt2" => Some(bpe::find(self.pre_name()?)?),
            kind if known.contains(&kind) => None,
            _ => {
                return Err(ExportError::Unsupported { subject: "tokenizer", found: kind.to_owned(), known });
            }
        };
        let adds_bos = is_spm || pre.as_ref().is_some_and(|pre| pre.row.add_bos);
        let is_wordpiece = kind == "bert";
        let tokens = tokens(self, ctx, is_spm, is_wordpiece, adds_bos, &mut notes)?;
        let mut files = Vec::new();
        let mut config = tokenizer_config(metadata, ctx, &tokens)?;
        config.insert("tokenizer_class".to_owned(), class(kind, ctx.route).into());
        // For unigram and SentencePiece BPE, the model is written next to tokenizer.json, because only it has
        // scores.
        match (kind, pre, ctx.route.rank_file) {
            ("bert", ..) => {
                let (lowercase, strip_accents) =
                    (metadata.flag(keys::LOWERCASE)?, metadata.flag(keys::STRIP_ACCENTS)?);
                let json = wordpiece::tokenizer_json(&tokens, lowercase, strip_accents);
                files.push(("tokenizer.json".to_owned(), pretty(&json)));
            }
            ("rwkv", ..) => files.push(world::file(&tokens)?),
            ("plamo2" | "plamo3", ..) => files.push(lines::json_lines(&tokens, &scores(self)?)),
            ("gemma4", ..) => {
                let merges = bpe::merges(&file_merges(metadata)?)?;
                files.push(("tokenizer.json".to_owned(), pretty(&spm::with_merges(&tokens, merges))));
                // Control tokens of the vocabulary can only be identified by name.
                config.insert("additional_special_tokens".to_owned(), tokens.control().into());
            }
            (_, Some(_), Some(file)) => files.push(lines::ranks(&tokens, file)?),
            ("t5", ..) => {
                let scores = scores(self)?;
                let normalization = Normalization {
                    charsmap: self.charsmap()?,
                    add_space_prefix: tokens.space_prefix.unwrap_or(true),
                    remove_extra_whitespaces: metadata.flag(keys::REMOVE_EXTRA_WHITESPACES)?.unwrap_or(false),
                };
                files.push((
                    "tokenizer.json".to_owned(),
                    pretty(&unigram::tokenizer_json(&tokens, &scores, &normalization)),
                ));
                match spm::model(&tokens, &scores, Some(&normalization)) {
                    Ok(bytes) => files.push(("spiece.model".to_owned(), bytes)),
                    Err(error) => notes.push(format!("spiece.model is not written: {error}")),
                }
            }
            (_, Some(pre), None) => {
                let json = bpe::tokenizer_json(&pre, &tokens, &file_merges(metadata)?)?;
                files.push(("tokenizer.json".to_owned(), pretty(&json)));
            }
            (_, None, _) => {
                let scores = scores(self)?;
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
        let specials = special_tokens(metadata, &tokens)?;
        files.push(("special_tokens_map.json".to_owned(), pretty(&Json::Object(specials))));
        Ok(ExportedTokenizer { files, notes })
    }
}

fn tokens(
    tokenizer: &Tokenizer,
    ctx: &ExportContext<'_>,
    is_spm: bool,
    is_wordpiece: bool,
    adds_bos: bool,
    notes: &mut Vec<String>,
) -> Result<Tokens, ExportError> {
    let (metadata, n_rows) = (&tokenizer.keys, ctx.embedding_rows);
    let to_text = |(id, bytes): (usize, &[u8])| {
        String::from_utf8(bytes.to_vec()).map_err(|_| ExportError::TokenNotText { id })
    };
    let texts = tokenizer.tokens()?;
    let mut texts = texts.iter().enumerate().map(to_text).collect::<Result<Vec<String>, ExportError>>()?;
    if texts.len() as u64 > n_rows {
        return Err(ExportError::TokenCount {
            key: keys::TOKENS.to_owned(),
            found: texts.len(),
            expected: format!("at most the {n_rows} rows of the embedding"),
        });
    }
    let kinds = match tokenizer.types()? {
        None => vec![TokenType::Normal; texts.len()],
        Some(kinds) => {
            check_len(keys::TOKEN_TYPE, kinds.len(), texts.len())?;
            kinds.iter().map(|id| TokenType::from_id(*id).unwrap_or(TokenType::Normal)).collect()
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
    // Defaults for SentencePiece vocabularies whose file names no special tokens: llama 2's, like in
    // `llama_vocab`.
    let id = |key: &str, default: u64| -> Result<Option<usize>, ExportError> {
        let id = metadata.count(key)?.or(is_spm.then_some(default));
        Ok(id.and_then(|id| usize::try_from(id).ok()).filter(|id| *id < texts.len()))
    };
    let adds = |key: &str, default| metadata.flag(key).map(|flag| flag.unwrap_or(default));
    Ok(Tokens {
        bos: id(keys::BOS_ID, 1)?.filter(|_| matches!(adds(keys::ADD_BOS, adds_bos), Ok(true))),
        eos: id(keys::EOS_ID, 2)?.filter(|_| matches!(adds(keys::ADD_EOS, false), Ok(true))),
        bos_of_second: metadata.flag(keys::ADD_SEP)? == Some(false),
        separator: id(keys::SEP_ID, 0)?.filter(|_| matches!(adds(keys::ADD_SEP, false), Ok(true))),
        unknown: id(keys::UNK_ID, 0)?,
        space_prefix: metadata.flag(keys::ADD_SPACE_PREFIX)?,
        texts,
        kinds,
        ids,
    })
}

fn file_merges(metadata: &Metadata) -> Result<Vec<String>, ExportError> {
    texts(metadata, keys::MERGES)?.ok_or_else(|| KeyError::missing(keys::MERGES).into())
}

fn texts(metadata: &Metadata, key: &str) -> Result<Option<Vec<String>>, KeyError> {
    metadata.read(key, "a list of texts", |value| match value.as_array()? {
        Array::String(items) => items.iter().map(|item| String::from_utf8(item.to_vec()).ok()).collect(),
        array if array.is_empty() => Some(Vec::new()),
        _ => None,
    })
}

/// Checks that a list has an item for each token.
fn check_len(key: &str, found: usize, n_tokens: usize) -> Result<(), ExportError> {
    if found == n_tokens {
        return Ok(());
    }
    let expected = format!("the {n_tokens} numbers of the tokens");
    Err(ExportError::TokenCount { key: key.to_owned(), found, expected })
}

fn scores(tokenizer: &Tokenizer) -> Result<Cow<'_, [f32]>, ExportError> {
    let scores = tokenizer.scores()?.ok_or_else(|| KeyError::missing(keys::SCORES))?;
    check_len(keys::SCORES, scores.len(), tokenizer.tokens()?.len())?;
    Ok(scores)
}

fn tokenizer_config(
    metadata: &Metadata,
    ctx: &ExportContext<'_>,
    tokens: &Tokens,
) -> Result<Map<String, Json>, ExportError> {
    let mut config = Map::new();
    // Only the file's own keys, so that a conversion writes them again.
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
    config.extend(special_tokens(metadata, tokens)?);
    config.insert("model_max_length".to_owned(), ctx.max_length.clone());
    Ok(config)
}

/// The generic class, unless the architecture's own is required by name.
fn class(kind: &str, route: Route) -> &'static str {
    let usual = match kind {
        "bert" => "BertTokenizer",
        "t5" => "T5Tokenizer",
        "plamo2" => "Plamo2Tokenizer",
        "plamo3" => "Plamo3Tokenizer",
        _ => "PreTrainedTokenizerFast",
    };
    (route.class)(kind).unwrap_or(usual)
}

/// The special tokens by their names in configs.
fn special_tokens(metadata: &Metadata, tokens: &Tokens) -> Result<Map<String, Json>, ExportError> {
    let mut map = Map::new();
    let is_bytes = metadata.text(keys::MODEL)? == Some("gpt2");
    for (name, key) in SPECIAL_TOKENS {
        let id = metadata.count(key)?.and_then(|id| usize::try_from(id).ok());
        // A byte token that is not special did not get its id by this name, which would make it special.
        let is_named = |id: &usize| !is_bytes || tokens.kinds.get(*id) != Some(&TokenType::Normal);
        if let Some(text) = id.filter(is_named).and_then(|id| tokens.texts.get(id)) {
            map.insert(name.to_owned(), text.clone().into());
        }
    }
    Ok(map)
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
            metadata.text(&format!("{}.{name}", keys::CHAT_TEMPLATE))?.filter(|_| is_plain)
        {
            files.push((format!("additional_chat_templates/{name}.jinja"), template.into()));
        }
    }
    Ok(files)
}
