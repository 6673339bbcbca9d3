//! Added tokens: their ids, and which are special.
//!
//! tokenizer.json lists tokens that are matched before the model sees the text. tokenizer_config.json may
//! list more, change their flags, and name special ones. The reference uses transformers' result.
//!
//! Source: `AddedVocabulary::add_tokens` of tokenizers 0.23; `TokenizersBackend.__init__` and
//! `PreTrainedTokenizerBase._from_pretrained` of transformers 5.23.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde_json::{Map, Value as Json};

use super::error::VocabError;
use super::hf::{AddedToken, HfTokenizer, class_of, json_object, malformed, tokenizer_config};
use crate::TokenizerFiles;
use crate::keys::SPECIAL_TOKENS;

#[derive(Debug, Default)]
pub(super) struct AddedVocab {
    pub by_id: BTreeMap<u32, AddedToken>,
    /// Texts of the special tokens in tokenizer_config.json, in its order.
    pub specials: Vec<String>,
    /// Text of the unknown token in tokenizer_config.json.
    pub unknown: Option<String>,
    /// Ids of special tokens known by name only, which no vocabulary file lists.
    pub only_named: HashSet<u32>,
    pub notes: Vec<String>,
}

/// Ids of the tokens of the model's vocabulary.
pub(super) type Ids<'a> = HashMap<&'a str, u32, ahash::RandomState>;

impl AddedVocab {
    pub(super) fn read(
        input: &TokenizerFiles<'_>,
        hf: &HfTokenizer,
        ids: &Ids<'_>,
    ) -> Result<Self, VocabError> {
        let config = tokenizer_config(input)?.unwrap_or_default();
        let defaults = defaults_of(&class_as_loaded(input, Some(hf)));
        // 1. tokenizer.json's own list, unless the class uses that of tokenizer_config.json instead. The
        //    library gives
        // ids itself: those of the vocabulary, or the next free ones, whatever the file states.
        let is_replaced = defaults.is_some() && config.contains_key("added_tokens_decoder");
        let own = if is_replaced { &[] } else { hf.added_tokens.as_slice() };
        let mut all = AddedVocab::default();
        let mut texts = HashMap::new();
        let last_model_id = ids.values().copied().max().unwrap_or(0);
        for token in own {
            // A new token may get the id of another one, if the vocabulary has gaps.
            let known = texts.contains_key(&token.content) || ids.contains_key(token.content.as_str());
            let id = all.add(token.clone(), &mut texts, ids);
            let taken = if !known && id <= last_model_id {
                ids.iter().find(|(_, other)| **other == id)
            } else {
                None
            };
            if let Some((text, _)) = taken {
                return Err(VocabError::RepeatedId {
                    id: id.into(),
                    first: (*text).to_owned(),
                    second: token.content.clone(),
                });
            }
            if token.id.is_some_and(|stated| stated != id) {
                all.notes.push(format!(
                    "added token `{}` states id {}, but is loaded with id {id}",
                    token.content,
                    token.id.unwrap_or_default()
                ));
            }
        }
        all.unknown = config.get("unk_token").and_then(token_text);
        let specials = Specials::read(input, &config, defaults)?;

        // 2. tokenizer_config.json's list, in id order; it may change the flags of tokens above.
        let listed = listed_tokens(input, hf, &config, &specials)?;
        for mut token in listed.into_values() {
            token.special |= specials.named.contains(&token.content);
            all.add(token, &mut texts, ids);
        }
        // 3. Special tokens that only have a name, which transformers always adds.
        for text in specials.named.iter().chain(&specials.extra) {
            if !text.is_empty() && !texts.contains_key(text) {
                let id = all.add(AddedToken::special(text), &mut texts, ids);
                if !ids.contains_key(text.as_str()) {
                    all.only_named.insert(id);
                }
            }
        }
        let mut seen = HashSet::new();
        all.specials =
            specials.named.into_iter().chain(specials.extra).filter(|t| seen.insert(t.clone())).collect();
        Ok(all)
    }

    /// Adds a token or replaces its flags. A new text gets the next free id.
    fn add(&mut self, token: AddedToken, texts: &mut HashMap<String, u32>, ids: &Ids<'_>) -> u32 {
        // `add_tokens`: after the vocabulary, and after the last added token.
        let known = texts.get(&token.content).or_else(|| ids.get(token.content.as_str())).copied();
        let id = known.unwrap_or_else(|| {
            let n_model = u32::try_from(ids.len()).unwrap_or(u32::MAX);
            match self.by_id.last_key_value() {
                Some((&last, _)) if last >= n_model => last.saturating_add(1),
                _ => n_model,
            }
        });
        texts.insert(token.content.clone(), id);
        self.by_id.insert(id, token);
        id
    }
}

/// Tokenizer class that transformers loads. For some models transformers knows that the Hub's files name the
/// wrong class: they are loaded with the class without special tokens, and Qwen 2 always with the Qwen 2
/// class. A Llama class with a byte-level tokenizer is also loaded as the class without special tokens.
///
/// Source: `MODELS_WITH_INCORRECT_HUB_TOKENIZER_CLASS`, `TOKENIZER_MAPPING_NAMES` and
/// `AutoTokenizer.from_pretrained` of transformers 5.24, for convertible models.
pub(super) fn class_as_loaded(input: &TokenizerFiles<'_>, hf: Option<&HfTokenizer>) -> String {
    const PLAIN: &str = include_str!("plain_models.txt");
    let byte_level = || hf.is_some_and(|hf| hf.pre_tokenizer.to_string().contains("\"ByteLevel\""));
    match (input.config.get("model_type").and_then(Json::as_str), class_of(input)) {
        (Some("qwen2"), _) => "Qwen2Tokenizer".into(),
        (Some(model), _) if PLAIN.lines().any(|plain| plain == model) => "TokenizersBackend".into(),
        (_, class) if class == "LlamaTokenizer" && byte_level() => "TokenizersBackend".into(),
        (_, class) => class,
    }
}

/// Special tokens by their names, in the order in which they are added.
type Defaults = &'static [(&'static str, &'static str)];

/// Special tokens that `__init__` of a class names by default. These classes also build their tokenizer from
/// the vocabulary and the merges of tokenizer.json, without its added tokens; `None` for a class that loads
/// the file.
fn defaults_of(class: &str) -> Option<Defaults> {
    Some(match class {
        "GPT2Tokenizer" => {
            &[("unk_token", "<|endoftext|>"), ("bos_token", "<|endoftext|>"), ("eos_token", "<|endoftext|>")]
        }
        "Qwen2Tokenizer" => {
            &[("unk_token", "<|endoftext|>"), ("eos_token", "<|endoftext|>"), ("pad_token", "<|endoftext|>")]
        }
        "BertTokenizer" => &[
            ("unk_token", "[UNK]"),
            ("sep_token", "[SEP]"),
            ("pad_token", "[PAD]"),
            ("cls_token", "[CLS]"),
            ("mask_token", "[MASK]"),
        ],
        "XLMRobertaTokenizer" | "RobertaTokenizer" => &[
            ("bos_token", "<s>"),
            ("eos_token", "</s>"),
            ("unk_token", "<unk>"),
            ("sep_token", "</s>"),
            ("pad_token", "<pad>"),
            ("cls_token", "<s>"),
            ("mask_token", "<mask>"),
        ],
        "GemmaTokenizer" => &[
            ("bos_token", "<bos>"),
            ("eos_token", "<eos>"),
            ("unk_token", "<unk>"),
            ("pad_token", "<pad>"),
            ("mask_token", "<mask>"),
        ],
        "CohereTokenizer" => &[
            ("bos_token", "<BOS_TOKEN>"),
            ("eos_token", "<|END_OF_TURN_TOKEN|>"),
            ("unk_token", "<UNK>"),
            ("sep_token", "<SEP>"),
            ("pad_token", "<PAD>"),
            ("cls_token", "<CLS>"),
            ("mask_token", "<MASK_TOKEN>"),
        ],
        "T5Tokenizer" => &[("eos_token", "</s>"), ("unk_token", "<unk>"), ("pad_token", "<pad>")],
        "LlamaTokenizer" => &[("unk_token", "<unk>"), ("bos_token", "<s>"), ("eos_token", "</s>")],
        _ => return None,
    })
}

/// Texts of the special tokens in tokenizer_config.json.
struct Specials {
    /// Named special tokens (`bos_token`).
    named: Vec<String>,
    /// Listed special tokens (`additional_special_tokens`).
    extra: Vec<String>,
}

impl Specials {
    fn read(
        input: &TokenizerFiles<'_>,
        config: &Map<String, Json>,
        defaults: Option<Defaults>,
    ) -> Result<Self, VocabError> {
        // A tokenizer_config.json with a list of ids is complete; older folders have some in
        // special_tokens_map.json, which then takes precedence.
        let mut merged = config.clone();
        if !config.contains_key("added_tokens_decoder")
            && let Some(map) = json_object(input, "special_tokens_map.json")?
        {
            merged.extend(map);
        }
        // Defaults of each class's `__init__` are added even if no file names them.
        for (name, text) in defaults.unwrap_or_default() {
            merged.entry(*name).or_insert_with(|| Json::from(*text));
        }
        // Model-specific names (`image_token`) count as special, after the usual ones.
        let usual = SPECIAL_TOKENS.map(|(name, _)| name);
        let named_otherwise =
            merged.keys().filter(|key| key.ends_with("_token") && !usual.contains(&key.as_str()));
        let order: Vec<&str> = usual.into_iter().chain(named_otherwise.map(String::as_str)).collect();
        let named = order.into_iter().filter_map(|name| merged.get(name).and_then(token_text)).collect();
        let list = |key: &str| match merged.get(key) {
            Some(Json::Array(items)) => items.iter().filter_map(token_text).collect(),
            Some(Json::Object(items)) => items.values().filter_map(token_text).collect(),
            _ => Vec::new(),
        };
        // The list is `extra_special_tokens` in transformers 5, `additional_special_tokens` in 4.
        let mut extra = list("extra_special_tokens");
        // An object has names, like `image_token`; then the older list counts as well.
        let is_named = merged.get("extra_special_tokens").is_some_and(Json::is_object);
        if extra.is_empty() || is_named {
            extra.extend(list("additional_special_tokens"));
        }
        Ok(Specials { named, extra })
    }
}

/// A token's text: a string, or the `content` of an object.
fn token_text(value: &Json) -> Option<String> {
    value.as_str().or_else(|| value.get("content")?.as_str()).map(str::to_owned)
}

/// Added tokens that tokenizer_config.json lists by id; in older folders without that list, those of
/// added_tokens.json and tokenizer.json.
fn listed_tokens(
    input: &TokenizerFiles<'_>,
    hf: &HfTokenizer,
    config: &Map<String, Json>,
    specials: &Specials,
) -> Result<BTreeMap<u32, AddedToken>, VocabError> {
    let mut tokens = BTreeMap::new();
    if let Some(listed) = config.get("added_tokens_decoder") {
        let file = "tokenizer_config.json";
        let listed =
            listed.as_object().ok_or_else(|| malformed(file, &"`added_tokens_decoder` is not an object"))?;
        for (id, token) in listed {
            let problem = |error: &dyn std::fmt::Display| {
                malformed(file, &format!("`added_tokens_decoder.{id}`: {error}"))
            };
            let number = id.parse::<u32>().map_err(|error| problem(&error))?;
            tokens.insert(number, serde_json::from_value(token.clone()).map_err(|error| problem(&error))?);
        }
        return Ok(tokens);
    }
    // In older folders, added_tokens.json gives ids, and special tokens are those named elsewhere.
    for (text, id) in json_object(input, "added_tokens.json")?.unwrap_or_default() {
        let number = id
            .as_u64()
            .and_then(|id| u32::try_from(id).ok())
            .ok_or_else(|| malformed("added_tokens.json", &format!("`{text}`: {id} is not a token id")))?;
        let special = specials.named.contains(&text) || specials.extra.contains(&text);
        tokens
            .insert(number, AddedToken { special, normalized: Some(!special), ..AddedToken::special(&text) });
    }
    for token in &hf.added_tokens {
        if let Some(id) = token.id {
            tokens.insert(id, token.clone());
        }
    }
    Ok(tokens)
}

/// True for a token that looks like a control token, although its file does not mark it.
///
/// Source: `does_token_look_special` in `conversion/base.py`.
pub(super) fn looks_special(text: &str) -> bool {
    let between = |start: &str, end: &str| text.starts_with(start) && text.ends_with(end);
    matches!(text, "<pad>" | "<mask>" | "<2mass>" | "[@BOS@]")
        || between("<|", "|>")
        || between("<\u{ff5c}", "\u{ff5c}>")
        || between("<unused", ">")
}
