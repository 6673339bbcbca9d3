//! `tokenizer.json`, the older pair of `vocab.json` and `merges.txt`, and `vocab.txt`, as one
//! structure.
//!
//! The file is parsed in one pass into vectors: half of the time for a conversion's metadata is spent on the
//! quarter of a million strings of a large vocabulary.

use std::fmt;

use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use super::error::VocabError;
use crate::TokenizerFiles;
use crate::json::list;

/// A Hugging Face tokenizer.
#[derive(Debug, Default)]
pub struct HfTokenizer {
    pub(super) file: &'static str,
    pub(super) model: HfModel,
    /// Tokens next to (or marked in) the vocabulary, in file order.
    pub(super) added_tokens: Vec<AddedToken>,
    /// As in the file; null if absent.
    pub(super) normalizer: Json,
    /// As in the file; null if absent.
    pub(super) pre_tokenizer: Json,
    /// As in the file; null if absent.
    pub(super) post_processor: Json,
    /// As in the file; null if absent.
    pub(super) decoder: Json,
    /// Differences between this file and transformers' result.
    pub(super) warnings: Vec<String>,
}

/// The `model` of a tokenizer.json.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct HfModel {
    /// `BPE`, `Unigram`, `WordPiece`, `WordLevel`.
    #[serde(rename = "type")]
    pub kind: Option<String>,
    /// Token and id in file order; empty for kinds with other lists.
    pub vocab: Tokens,
    /// Merges in order.
    pub merges: Merges,
    /// True if unknown characters become byte tokens; `None` if the file does not specify it.
    pub byte_fallback: Option<bool>,
    /// True if a word that is a token is used without applying merges.
    pub ignore_merges: Option<bool>,
    pub unk_token: Option<String>,
    /// True if neighboring unknown characters become one unknown token.
    pub fuse_unk: Option<bool>,
    /// Mark of a token that continues a word (`##`).
    pub continuing_subword_prefix: Option<String>,
    /// Mark of a token that ends a word (`</w>`).
    pub end_of_word_suffix: Option<String>,
    /// Id of a unigram's unknown token.
    pub unk_id: Option<u32>,
    /// Maximum word length of a WordPiece, in characters.
    pub max_input_chars_per_word: Option<u32>,
}

impl From<serde::de::IgnoredAny> for HfModel {
    fn from(_: serde::de::IgnoredAny) -> Self {
        HfModel::default()
    }
}

/// Token and id, in file order; scores by id for a unigram, which lists its tokens in order.
#[derive(Debug, Default)]
pub(super) struct Tokens(pub Vec<(String, u32)>, pub Vec<f64>);

/// Merges in order.
#[derive(Debug, Default)]
pub(super) struct Merges(pub Vec<(String, String)>);

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct AddedToken {
    #[serde(default)]
    pub id: Option<u32>,
    pub content: String,
    /// True if text is normalized before matching the token.
    #[serde(default)]
    pub normalized: Option<bool>,
    /// True if decoding may omit it.
    #[serde(default)]
    pub special: bool,
    /// True if it absorbs whitespace on its left.
    #[serde(default)]
    pub lstrip: bool,
    /// True if it absorbs whitespace on its right.
    #[serde(default)]
    pub rstrip: bool,
    /// True if it must be a separate word.
    #[serde(default)]
    pub single_word: bool,
}

impl AddedToken {
    /// A special token that is known by name only.
    pub(super) fn special(content: &str) -> Self {
        AddedToken {
            id: None,
            content: content.to_owned(),
            normalized: None,
            special: true,
            lstrip: false,
            rstrip: false,
            single_word: false,
        }
    }

    /// True if it is matched in normalized text; special tokens are not by default.
    pub(super) fn is_normalized(&self) -> bool {
        self.normalized.unwrap_or(!self.special)
    }
}

impl<'de> Deserialize<'de> for Tokens {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TokensVisitor;
        impl<'de> Visitor<'de> for TokensVisitor {
            type Value = Tokens;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of tokens and ids, or a list of tokens")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Tokens, A::Error> {
                // A vector, because a map of a quarter of a million strings would be taken apart again, and
                // would lose duplicate tokens.
                let mut tokens = Vec::new();
                while let Some(entry) = map.next_entry::<String, u32>()? {
                    tokens.push(entry);
                }
                Ok(Tokens(tokens, Vec::new()))
            }

            // Unigram: [piece, score] pairs.
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Tokens, A::Error> {
                let (mut tokens, mut scores) = (Vec::new(), Vec::new());
                while let Some((piece, score)) = seq.next_element::<(String, Json)>()? {
                    let Some(number) = score.as_f64() else {
                        let problem = format!("invalid score of token `{piece}`: {score}");
                        return Err(serde::de::Error::custom(problem));
                    };
                    let id = u32::try_from(tokens.len()).map_err(serde::de::Error::custom)?;
                    tokens.push((piece, id));
                    scores.push(number);
                }
                Ok(Tokens(tokens, scores))
            }
        }
        deserializer.deserialize_any(TokensVisitor)
    }
}

impl<'de> Deserialize<'de> for Merges {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ListVisitor;
        impl<'de> Visitor<'de> for ListVisitor {
            type Value = Merges;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of merges")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Merges, A::Error> {
                let mut merges = Vec::new();
                while let Some(Merge(left, right)) = seq.next_element()? {
                    merges.push((left, right));
                }
                Ok(Merges(merges))
            }
        }
        deserializer.deserialize_seq(ListVisitor)
    }
}

/// One merge, in either spelling: `"a b"`, or since tokenizers 0.20 `["a", "b"]`, whose parts may contain
/// spaces.
struct Merge(String, String);

impl<'de> Deserialize<'de> for Merge {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MergeVisitor;
        impl<'de> Visitor<'de> for MergeVisitor {
            type Value = Merge;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a merge: two tokens with a space between, or a list of two tokens")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Merge, E> {
                // Exactly one space; with more, the end of the left token would be ambiguous.
                match text.split_once(' ') {
                    Some((left, right)) if !right.contains(' ') => {
                        Ok(Merge(left.to_owned(), right.to_owned()))
                    }
                    _ => Err(E::invalid_value(serde::de::Unexpected::Str(text), &self)),
                }
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Merge, A::Error> {
                let short = |len| serde::de::Error::invalid_length(len, &"two tokens");
                let left = seq.next_element()?.ok_or_else(|| short(0))?;
                let right = seq.next_element()?.ok_or_else(|| short(1))?;
                match seq.next_element::<serde::de::IgnoredAny>()? {
                    None => Ok(Merge(left, right)),
                    Some(_) => Err(short(3)),
                }
            }
        }
        deserializer.deserialize_any(MergeVisitor)
    }
}

impl HfTokenizer {
    /// Source file: tokenizer.json, vocab.json or vocab.txt.
    pub fn file(&self) -> &'static str {
        self.file
    }

    /// Kind of the model (`BPE`, `Unigram`, `WordPiece`), if the file states one.
    pub fn kind(&self) -> Option<&str> {
        self.model.kind.as_deref()
    }

    /// Type of the pre-tokenizer, if any.
    pub fn pre_tokenizer(&self) -> Option<&str> {
        self.pre_tokenizer.get("type").and_then(Json::as_str)
    }

    /// True for a llama tokenizer: a BPE with byte fallback in tokenizer.json.
    pub fn is_llama(&self) -> bool {
        self.file == "tokenizer.json"
            && self.kind() == Some("BPE")
            && self.model.byte_fallback == Some(true)
            && self.decoder.get("type").and_then(Json::as_str) == Some("Sequence")
    }

    /// The tokenizer of a checkpoint: `tokenizer.json`, else `vocab.json` with `merges.txt`.
    pub(super) fn read(input: &TokenizerFiles<'_>) -> Result<Option<Self>, VocabError> {
        if let Some(bytes) = input.file("tokenizer.json") {
            let mut hf = Self::from_json::<HfModel>(bytes)?;
            hf.take_bert_options(&tokenizer_config(input)?.unwrap_or_default(), &class_of(input));
            return Ok(Some(hf));
        }
        // transformers reads the pair only if there is no tokenizer.json.
        if let (Some(vocab), Some(merges)) = (input.file("vocab.json"), input.file("merges.txt")) {
            return Self::from_pair(vocab, merges, &class_of(input)).map(Some);
        }
        input.file("vocab.txt").map(|bytes| Self::from_word_list(input, bytes)).transpose()
    }

    /// Applies options of tokenizer_config.json over those of the normalizer, like the class in the config.
    ///
    /// Source: `BertTokenizer.__init__` of transformers 5.24.
    fn take_bert_options(&mut self, config: &serde_json::Map<String, Json>, class: &str) {
        if !["BertTokenizer", "DistilBertTokenizer"].contains(&class)
            || step_type(&self.normalizer) != "BertNormalizer"
        {
            return;
        }
        for (option, own) in [
            ("do_lower_case", "lowercase"),
            ("strip_accents", "strip_accents"),
            ("tokenize_chinese_chars", "handle_chinese_chars"),
        ] {
            let Some(value) = config.get(option).filter(|value| value.is_boolean()) else { continue };
            let old = self.normalizer.get(own).cloned().unwrap_or_default();
            if old != *value {
                self.warnings.push(format!(
                    "`{option}` is {value} in tokenizer_config.json, but `{own}` is {old} in tokenizer.json: using \
                        tokenizer_config.json, like transformers"
                ));
                self.normalizer[own] = value.clone();
            }
        }
    }

    /// vocab.txt: a WordPiece with one token per line. Text cleaning depends on tokenizer_config.json, with
    /// the defaults of `BertTokenizer`.
    fn from_word_list(input: &TokenizerFiles<'_>, bytes: &[u8]) -> Result<Self, VocabError> {
        let text = std::str::from_utf8(bytes).map_err(|error| malformed("vocab.txt", &error))?;
        let mut vocab = Vec::new();
        for (id, line) in text.lines().enumerate() {
            let id = u32::try_from(id).map_err(|error| malformed("vocab.txt", &error))?;
            vocab.push((line.to_owned(), id));
        }
        // `BertTokenizer.__init__`: lower case and separate Chinese characters by default.
        let config = tokenizer_config(input)?.unwrap_or_default();
        let flag = |name: &str, default| config.get(name).and_then(Json::as_bool).unwrap_or(default);
        Ok(HfTokenizer {
            file: "vocab.txt",
            model: HfModel {
                kind: Some("WordPiece".into()),
                vocab: Tokens(vocab, Vec::new()),
                unk_token: Some("[UNK]".into()),
                continuing_subword_prefix: Some("##".into()),
                ..HfModel::default()
            },
            normalizer: serde_json::json!({
                "type": "BertNormalizer", "clean_text": true, "lowercase": flag("do_lower_case", true),
                "handle_chinese_chars": flag("tokenize_chinese_chars", true),
                "strip_accents": config.get("strip_accents").cloned().unwrap_or_default(),
            }),
            pre_tokenizer: serde_json::json!({"type": "BertPreTokenizer"}),
            decoder: serde_json::json!({"type": "WordPiece", "prefix": "##", "cleanup": true}),
            ..HfTokenizer::default()
        })
    }

    /// Fails if the model has another kind; an unstated kind is assumed to be BPE.
    pub(super) fn needs_kind(&self, expected: &str) -> Result<(), VocabError> {
        match self.model.kind.as_deref().unwrap_or("BPE") {
            kind if kind == expected => Ok(()),
            kind => Err(VocabError::NotSupported {
                subject: format!(
                    "`{}`: expected a tokenizer of kind `{expected}` for this architecture, found `{kind}`",
                    self.file
                ),
            }),
        }
    }

    /// tokenizer.json without its model: the special tokens next to another vocabulary.
    pub(super) fn read_without_model(input: &TokenizerFiles<'_>) -> Result<Option<Self>, VocabError> {
        let bytes = input.file("tokenizer.json");
        bytes.map(Self::from_json::<serde::de::IgnoredAny>).transpose()
    }

    pub(super) fn from_json<M: for<'de> Deserialize<'de> + Into<HfModel>>(
        bytes: &[u8],
    ) -> Result<Self, VocabError> {
        #[derive(Deserialize)]
        struct File<M> {
            model: M,
            #[serde(default)]
            added_tokens: Option<Vec<AddedToken>>,
            #[serde(default)]
            normalizer: Json,
            #[serde(default)]
            pre_tokenizer: Json,
            #[serde(default)]
            post_processor: Json,
            #[serde(default)]
            decoder: Json,
        }
        // `M` is the model, or `IgnoredAny`, which skips it without allocating strings.
        let file: File<M> =
            serde_json::from_slice(bytes).map_err(|error| malformed("tokenizer.json", &error))?;
        Ok(HfTokenizer {
            file: "tokenizer.json",
            model: file.model.into(),
            added_tokens: file.added_tokens.unwrap_or_default(),
            normalizer: file.normalizer,
            pre_tokenizer: file.pre_tokenizer,
            post_processor: file.post_processor,
            decoder: file.decoder,
            warnings: Vec::new(),
        })
    }

    /// The pair of files does not describe splitting, which depends on the class in `tokenizer_config.json`.
    fn from_pair(vocab: &[u8], merges: &[u8], class: &str) -> Result<Self, VocabError> {
        let vocab: Tokens = serde_json::from_slice(vocab).map_err(|error| malformed("vocab.json", &error))?;
        let byte_level = |use_regex: bool| serde_json::json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": use_regex});
        // Steps that `Qwen2Tokenizer` and `GPT2Tokenizer` add to a vocabulary and merges.
        let (normalizer, pre_tokenizer) = match class {
            "Qwen2Tokenizer" => (
                serde_json::json!({"type": "NFC"}),
                serde_json::json!({"type": "Sequence", "pretokenizers": [
                    {"type": "Split", "pattern": {"Regex": crate::pre::expressions::QWEN2}, "behavior": "Isolated", "invert": false},
                    byte_level(false)
                ]}),
            ),
            _ => (Json::Null, byte_level(true)),
        };
        Ok(HfTokenizer {
            file: "vocab.json",
            model: HfModel {
                kind: Some("BPE".into()),
                vocab,
                merges: Merges(read_merges_txt(merges)?),
                ..HfModel::default()
            },
            normalizer,
            pre_tokenizer,
            decoder: byte_level(true),
            ..HfTokenizer::default()
        })
    }
}

/// Lines of `merges.txt`: two tokens separated by whitespace. A first line that starts with `#` is a comment;
/// empty lines are ignored.
pub(super) fn read_merges_txt(bytes: &[u8]) -> Result<Vec<(String, String)>, VocabError> {
    let text = std::str::from_utf8(bytes).map_err(|error| malformed("merges.txt", &error))?;
    // `#version: 0.2` is the first line; a later `#` is a token.
    let mut merges = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if (index == 0 && line.trim_start().starts_with('#')) || line.trim().is_empty() {
            continue;
        }
        let mut parts = line.split_whitespace();
        match (parts.next(), parts.next(), parts.next()) {
            (Some(left), Some(right), None) => merges.push((left.to_owned(), right.to_owned())),
            _ => {
                return Err(VocabError::Malformed {
                    file: "merges.txt".into(),
                    problem: format!("line {}: expected two tokens, found `{line}`", index + 1),
                });
            }
        }
    }
    Ok(merges)
}

/// `tokenizer_class` of `tokenizer_config.json` without its `Fast`, or an empty string.
pub(super) fn class_of(input: &TokenizerFiles<'_>) -> String {
    let config = tokenizer_config(input).ok().flatten();
    let class = config.as_ref().and_then(|config| config.get("tokenizer_class")).and_then(Json::as_str);
    class.map(|class| class.strip_suffix("Fast").unwrap_or(class).to_owned()).unwrap_or_default()
}

/// `tokenizer_config.json`, if it exists.
pub(super) fn tokenizer_config(
    input: &TokenizerFiles<'_>,
) -> Result<Option<serde_json::Map<String, Json>>, VocabError> {
    json_object(input, "tokenizer_config.json")
}

/// A JSON file that must contain an object, if it exists.
pub(super) fn json_object(
    input: &TokenizerFiles<'_>,
    file: &str,
) -> Result<Option<serde_json::Map<String, Json>>, VocabError> {
    let Some(bytes) = input.file(file) else { return Ok(None) };
    serde_json::from_slice(bytes).map(Some).map_err(|error| malformed(file, &error))
}

pub(super) fn malformed(file: &str, error: &dyn fmt::Display) -> VocabError {
    VocabError::Malformed { file: file.to_owned(), problem: error.to_string() }
}

/// A part of a pipeline; if it is a sequence, all its steps.
pub(super) fn steps(part: &Json) -> Vec<&Json> {
    let mut steps = vec![part];
    for key in ["normalizers", "pretokenizers", "processors", "decoders"] {
        steps.extend(list(part, key).iter().flat_map(self::steps));
    }
    steps
}

/// Type of a step; empty without a step.
pub(super) fn step_type(step: &Json) -> &str {
    step.get("type").and_then(Json::as_str).unwrap_or_default()
}
