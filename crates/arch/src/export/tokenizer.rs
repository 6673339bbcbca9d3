//! The files of a tokenizer.
//!
//! tokenizer.json says everything; tokenizer_config.json names the special tokens, so that the
//! converter and transformers find them again. The class is the generic one, because classes
//! with a name rebuild parts of tokenizer.json to their own taste.

use std::collections::HashMap;

use gguf::Array;
use serde_json::{Map, Value as Json, json};

use super::config::Model;
use super::{ExportError, Keys, bpe, pretty, spm, unigram, wordpiece, world};
use crate::vocab::Route;

/// Token types as GGUF numbers them, which is how SentencePiece does.
///
/// Source: `TokenType` in `gguf-py/gguf/constants.py`, `SentencePiece.Type` in
/// `sentencepiece_model.proto`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// 1.
    Normal,
    /// 2.
    Unknown,
    /// 3.
    Control,
    /// 4.
    UserDefined,
    /// 5.
    Unused,
    /// 6.
    Byte,
}

impl Kind {
    /// The number in files.
    pub fn id(self) -> i32 {
        match self {
            Kind::Normal => 1,
            Kind::Unknown => 2,
            Kind::Control => 3,
            Kind::UserDefined => 4,
            Kind::Unused => 5,
            Kind::Byte => 6,
        }
    }

    fn from_id(id: i32) -> Kind {
        match id {
            2 => Kind::Unknown,
            3 => Kind::Control,
            4 => Kind::UserDefined,
            5 => Kind::Unused,
            6 => Kind::Byte,
            _ => Kind::Normal,
        }
    }
}

/// The vocabulary, and which tokens are special.
pub struct Tokens {
    /// Text by id.
    pub texts: Vec<String>,
    /// Kind by id.
    pub kinds: Vec<Kind>,
    /// Id by text; of equal texts the last, as llama.cpp has it.
    pub ids: HashMap<String, usize>,
    /// Put before every text.
    pub bos: Option<usize>,
    /// Put behind every text.
    pub eos: Option<usize>,
    /// Whether the second of two texts gets a start token too.
    pub bos_of_second: bool,
    /// Put once more between two texts.
    pub separator: Option<usize>,
    /// The token for what no other stands for.
    pub unknown: Option<usize>,
    /// Whether a space is put before a text; none where the file does not say.
    pub space_prefix: Option<bool>,
}

impl Tokens {
    /// Whether an id is a filler that a conversion puts in for itself.
    pub fn is_filler(&self, id: usize) -> bool {
        self.kinds[id] == Kind::Unused && self.texts[id] == format!("[PAD{id}]")
    }

    /// `added_tokens`: what is looked for in a text before anything else.
    pub fn added(&self) -> Vec<Json> {
        let added = |kind| matches!(kind, Kind::Control | Kind::UserDefined | Kind::Unknown);
        (0..self.texts.len())
            .filter(|id| added(self.kinds[*id]) && self.ids.get(&self.texts[*id]) == Some(id))
            .map(|id| {
                json!({
                    "id": id,
                    "content": self.texts[id],
                    "single_word": false,
                    "lstrip": false,
                    "rstrip": false,
                    "normalized": false,
                    "special": self.kinds[id] != Kind::UserDefined,
                })
            })
            .collect()
    }

    /// The step that puts start and end tokens around a text; none where there are none.
    pub fn template(&self) -> Option<Json> {
        let special = |id: usize, kind: u32| json!({"SpecialToken": {"id": self.texts[id], "type_id": kind}});
        let sequence = |name: &str, kind: u32| json!({"Sequence": {"id": name, "type_id": kind}});
        if self.bos.is_none() && self.eos.is_none() {
            return None;
        }
        let around = |name: &str, kind: u32, bos: Option<usize>| -> Vec<Json> {
            let bos = bos.map(|id| special(id, kind));
            bos.into_iter()
                .chain([sequence(name, kind)])
                .chain(self.eos.map(|id| special(id, kind)))
                .collect()
        };
        let single = around("A", 0, self.bos);
        let mut pair = single.clone();
        pair.extend(around("B", 1, self.bos.filter(|_| self.bos_of_second).or(self.separator)));
        let mut specials = Map::new();
        for id in [self.bos, self.eos, self.separator].into_iter().flatten() {
            let text = &self.texts[id];
            specials.insert(text.clone(), json!({"id": text, "ids": [id], "tokens": [text]}));
        }
        Some(
            json!({"type": "TemplateProcessing", "single": single, "pair": pair, "special_tokens": specials}),
        )
    }
}

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

/// All files of the tokenizer.
pub fn files(
    keys: &Keys<'_>,
    model: &Model,
    route: Route,
    notes: &mut Vec<String>,
) -> Result<Vec<(String, Vec<u8>)>, ExportError> {
    let kind = keys
        .text("tokenizer.ggml.model")?
        .ok_or_else(|| ExportError::MissingKey { key: "tokenizer.ggml.model".to_owned() })?;
    let known = vec!["llama", "gpt2", "bert", "t5", "rwkv"];
    let is_spm = kind == "llama";
    let pre = match kind.as_str() {
        "gpt2" => Some(bpe::find(&keys.text("tokenizer.ggml.pre")?.unwrap_or_else(|| "default".to_owned()))?),
        kind if known.contains(&kind) => None,
        _ => return Err(ExportError::Tokenizer { what: "tokenizer", found: kind, known }),
    };
    let adds_bos = is_spm || pre.is_some_and(|pre| pre.adds_bos);
    let is_wordpiece = kind == "bert";
    let tokens = tokens(keys, model, is_spm, is_wordpiece, adds_bos, notes)?;
    let mut files = Vec::new();
    let mut config = tokenizer_config(keys, model, &tokens)?;
    config.insert("tokenizer_class".to_owned(), class(&kind, route).into());
    match pre {
        None if is_wordpiece => {
            let flag = |of: &str| keys.flag(&format!("tokenizer.ggml.normalizer.{of}"));
            let json = wordpiece::tokenizer_json(&tokens, flag("lowercase")?, flag("strip_accents")?);
            files.push(("tokenizer.json".to_owned(), pretty(&json)));
        }
        None if kind == "rwkv" => files.push(world::file(&tokens)?),
        None if kind == "t5" => {
            let scores = scores(keys, tokens.texts.len())?;
            let charsmap =
                match keys.get("tokenizer.ggml.precompiled_charsmap").and_then(|value| value.as_array()) {
                    Some(Array::U8(bytes)) => bytes.clone(),
                    _ => Vec::new(),
                };
            let remove = keys.flag("tokenizer.ggml.remove_extra_whitespaces")?.unwrap_or(false);
            let how = unigram::Normalization { charsmap, remove_extra_whitespaces: remove };
            files.push((
                "tokenizer.json".to_owned(),
                pretty(&unigram::tokenizer_json(&tokens, &scores, &how)),
            ));
            match spm::model(&tokens, &scores, Some(&how)) {
                Ok(bytes) => files.push(("spiece.model".to_owned(), bytes)),
                Err(why) => notes.push(format!("spiece.model is left out: {why}")),
            }
        }
        Some(pre) => {
            let merges = keys
                .texts("tokenizer.ggml.merges")?
                .ok_or_else(|| ExportError::MissingKey { key: "tokenizer.ggml.merges".to_owned() })?;
            files.push(("tokenizer.json".to_owned(), pretty(&bpe::tokenizer_json(pre, &tokens, &merges)?)));
        }
        None => {
            let scores = scores(keys, tokens.texts.len())?;
            files.push(("tokenizer.json".to_owned(), pretty(&spm::tokenizer_json(&tokens, &scores))));
            match spm::model(&tokens, &scores, None) {
                Ok(bytes) => {
                    files.push(("tokenizer.model".to_owned(), bytes));
                    spm::keep_kind_of_unknown(&tokens, &mut config);
                }
                Err(why) => notes.push(format!("tokenizer.model is left out: {why}")),
            }
        }
    }
    files.extend(templates(keys)?);
    files.push(("tokenizer_config.json".to_owned(), pretty(&Json::Object(config))));
    files.push(("special_tokens_map.json".to_owned(), pretty(&special_tokens(keys, &tokens)?)));
    Ok(files)
}

fn tokens(
    keys: &Keys<'_>,
    model: &Model,
    is_spm: bool,
    is_wordpiece: bool,
    adds_bos: bool,
    notes: &mut Vec<String>,
) -> Result<Tokens, ExportError> {
    const TOKENS: &str = "tokenizer.ggml.tokens";
    const TYPES: &str = "tokenizer.ggml.token_type";
    let Some(Array::String(bytes)) = keys.get(TOKENS).and_then(|value| value.as_array()) else {
        return Err(ExportError::MissingKey { key: TOKENS.to_owned() });
    };
    let to_text = |(id, bytes): (usize, &[u8])| {
        String::from_utf8(bytes.to_vec()).map_err(|_| ExportError::TokenNotText { id })
    };
    let mut texts = bytes.iter().enumerate().map(to_text).collect::<Result<Vec<String>, ExportError>>()?;
    let count = |key: &str, found, expected| ExportError::TokenCount { key: key.to_owned(), found, expected };
    if texts.len() as u64 > model.vocab_size {
        return Err(count(
            TOKENS,
            texts.len(),
            format!("at most the {} rows of the embedding", model.vocab_size),
        ));
    }
    let kinds = match keys.get(TYPES).and_then(|value| value.as_array()) {
        None => vec![Kind::Normal; texts.len()],
        Some(Array::I32(kinds)) if kinds.len() == texts.len() => {
            kinds.iter().map(|id| Kind::from_id(*id)).collect()
        }
        Some(other) => {
            return Err(count(TYPES, other.len(), format!("the {} numbers of the tokens", texts.len())));
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
        let id = keys.count(&format!("tokenizer.ggml.{of}_token_id"))?.or(is_spm.then_some(default));
        Ok(id.and_then(|id| usize::try_from(id).ok()).filter(|id| *id < texts.len()))
    };
    let adds = |of: &str, default| {
        keys.flag(&format!("tokenizer.ggml.add_{of}_token")).map(|f| f.unwrap_or(default))
    };
    Ok(Tokens {
        bos: id("bos", 1)?.filter(|_| matches!(adds("bos", adds_bos), Ok(true))),
        eos: id("eos", 2)?.filter(|_| matches!(adds("eos", false), Ok(true))),
        bos_of_second: keys.flag("tokenizer.ggml.add_sep_token")? == Some(false),
        separator: id("seperator", 0)?.filter(|_| matches!(adds("sep", false), Ok(true))),
        unknown: id("unknown", 0)?,
        space_prefix: keys.flag("tokenizer.ggml.add_space_prefix")?,
        texts,
        kinds,
        ids,
    })
}

fn scores(keys: &Keys<'_>, n_tokens: usize) -> Result<Vec<f32>, ExportError> {
    const SCORES: &str = "tokenizer.ggml.scores";
    match keys.get(SCORES).and_then(|value| value.as_array()) {
        Some(Array::F32(scores)) if scores.len() == n_tokens => Ok(scores.clone()),
        Some(other) => {
            let expected = format!("the {n_tokens} numbers of the tokens");
            Err(ExportError::TokenCount { key: SCORES.to_owned(), found: other.len(), expected })
        }
        None => Err(ExportError::MissingKey { key: SCORES.to_owned() }),
    }
}

fn tokenizer_config(
    keys: &Keys<'_>,
    model: &Model,
    tokens: &Tokens,
) -> Result<Map<String, Json>, ExportError> {
    let mut config = Map::new();
    // What the file says and nothing else, so that a conversion writes these keys again.
    for (key, of) in [
        ("add_bos_token", "add_bos_token"),
        ("add_eos_token", "add_eos_token"),
        ("add_prefix_space", "add_space_prefix"),
    ] {
        if let Some(flag) = keys.flag(&format!("tokenizer.ggml.{of}"))? {
            config.insert(key.to_owned(), flag.into());
        }
    }
    config.insert("clean_up_tokenization_spaces".to_owned(), false.into());
    if let Json::Object(specials) = special_tokens(keys, tokens)? {
        config.extend(specials);
    }
    let length = model.config.get("max_position_embeddings").cloned().unwrap_or_default();
    config.insert("model_max_length".to_owned(), length);
    Ok(config)
}

/// The generic class, unless the architecture's own is asked for by name.
fn class(kind: &str, route: Route) -> &'static str {
    match (kind, route) {
        ("bert", _) => "BertTokenizer",
        ("t5", Route::XlmRoberta) => "XLMRobertaTokenizer",
        ("t5", _) => "T5Tokenizer",
        ("gpt2", Route::JinaBert) => "RobertaTokenizer",
        ("gpt2", Route::Phi3) => "GPT2Tokenizer",
        _ => "PreTrainedTokenizerFast",
    }
}

/// Whether an architecture's checkpoints come with a kind of tokenizer.
pub fn fits(route: Route, kind: &str) -> bool {
    match route {
        Route::Bert => kind == "bert",
        Route::Roberta => kind == "gpt2",
        Route::XlmRoberta => kind == "t5",
        _ => true,
    }
}

fn special_tokens(keys: &Keys<'_>, tokens: &Tokens) -> Result<Json, ExportError> {
    let mut map = Map::new();
    for (name, of) in SPECIALS {
        let id = keys.count(&format!("tokenizer.ggml.{of}_token_id"))?;
        if let Some(text) = id.and_then(|id| tokens.texts.get(usize::try_from(id).ok()?)) {
            map.insert((*name).to_owned(), text.clone().into());
        }
    }
    Ok(Json::Object(map))
}

/// The chat template, and named ones beside it.
fn templates(keys: &Keys<'_>) -> Result<Vec<(String, Vec<u8>)>, ExportError> {
    let mut files = Vec::new();
    if let Some(template) = keys.text("tokenizer.chat_template")? {
        files.push(("chat_template.jinja".to_owned(), template.into_bytes()));
    }
    for name in keys.texts("tokenizer.chat_templates")?.unwrap_or_default() {
        // A name becomes a file name; one that could leave the folder is none.
        let is_plain =
            !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
        if let Some(template) = keys.text(&format!("tokenizer.chat_template.{name}"))?.filter(|_| is_plain) {
            files.push((format!("additional_chat_templates/{name}.jinja"), template.into_bytes()));
        }
    }
    Ok(files)
}
