//! Tokens of a file and their keys.
//!
//! Source: `llama_vocab::impl::load` in `src/llama-vocab.cpp` of llama.cpp, as vendored in llama-cpp-python
//! 0.3.36.

use std::collections::HashMap;

use gguf_container::{KeyError, Metadata, Value};

use crate::keys;
use crate::pre::{self, PreTokenizer};
use crate::token_type::TokenType;
use crate::tokenizer::{Strips, Tokenizer, default_ids, space_of_merge};

use super::{Reading, error::Error};

/// Token attributes as bits: the reference allows several per token.
pub(super) mod attr {
    use crate::token_type::TokenType;

    pub const UNKNOWN: u8 = of(TokenType::Unknown);
    pub const UNUSED: u8 = of(TokenType::Unused);
    pub const NORMAL: u8 = of(TokenType::Normal);
    pub const CONTROL: u8 = of(TokenType::Control);
    pub const USER_DEFINED: u8 = of(TokenType::UserDefined);
    pub const BYTE: u8 = of(TokenType::Byte);

    pub const fn of(kind: TokenType) -> u8 {
        1 << (kind as u8 - 1)
    }

    /// Whitespace before the token belongs to it.
    pub const LSTRIP: u8 = 64;
    /// Whitespace after the token belongs to it.
    pub const RSTRIP: u8 = 128;
}

/// Values of `tokenizer.ggml.model`, grouped like in llama.cpp.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Model {
    /// `none`, `no_vocab`: no tokens.
    #[default]
    None,
    /// `llama`: pairs merged by the score of their result.
    Spm,
    /// `gpt2`, `gemma4`: pairs merged by rank.
    Bpe,
    /// `whitespace`: like `gpt2` after dropping whitespace.
    Whitespace,
    /// `bert`: the longest pieces of each word.
    WordPiece,
    /// `t5`: the best sum of scores.
    Unigram,
    /// `rwkv`: the longest token at each place.
    Rwkv,
    /// `plamo2`: the best sum of scores, from the end.
    Plamo,
    /// `plamo3`: the same in each of the segments of a text.
    SegmentedPlamo,
}

pub(super) struct Token {
    pub text: Vec<u8>,
    pub score: f32,
    pub attr: u8,
}

#[derive(Default)]
pub(super) struct Vocab {
    pub model: Model,
    pub tokens: Vec<Token>,
    pub ids: HashMap<Vec<u8>, u32>,
    pub max_len: usize,
    /// Left and right part of each merge, lowest rank first.
    pub merges: Vec<(Vec<u8>, Vec<u8>)>,
    /// Splitting of text, for [`Model::Bpe`].
    pub pre: Option<&'static PreTokenizer>,
    pub unknown_pre: Option<String>,
    pub bos: Option<u32>,
    pub eos: Option<u32>,
    pub unknown: Option<u32>,
    pub separator: Option<u32>,
    /// Tokens that end a text or a turn, in order.
    pub ends: Vec<u32>,
    pub add_bos: bool,
    pub add_eos: bool,
    /// True if a separator token is added between two texts.
    pub add_separator: bool,
    pub add_space_prefix: bool,
    pub remove_extra_whitespaces: bool,
    pub escape_whitespaces: bool,
    pub lowercase: bool,
    pub strip_accents: bool,
    pub charsmap: Vec<u8>,
}

/// An item for each token; further items are ignored. Without a list, `default` for each.
fn of_tokens<T: Copy>(
    key: &str,
    items: Option<&[T]>,
    tokens: usize,
    default: T,
) -> Result<impl Iterator<Item = T>, Error> {
    match items.map(<[T]>::len) {
        Some(found) if found < tokens => Err(Error::TooShort { key: key.into(), found, expected: tokens }),
        _ => Ok(items.unwrap_or_default().iter().copied().chain(std::iter::repeat(default))),
    }
}

impl Vocab {
    pub(super) fn new(tokenizer: &Tokenizer, reading: Reading) -> Result<Self, Error> {
        let metadata = &tokenizer.keys;
        // Defaults of each model for missing keys. They are the ids of llama.cpp's first model of each kind:
        // 11 is Falcon's `<|endoftext|>`, 0, 1 and 2 are SentencePiece's, 100 to 102 BERT's [UNK], [CLS] and
        // [SEP].
        let name = tokenizer.model()?;
        let (model, unknown, separator) = match name {
            "none" | "no_vocab" => (Model::None, None, None),
            "llama" => (Model::Spm, Some(0), None),
            "bert" => (Model::WordPiece, Some(100), Some(102)),
            "gpt2" => (Model::Bpe, None, None),
            "whitespace" => (Model::Whitespace, None, None),
            "gemma4" => (Model::Bpe, None, None),
            "t5" => (Model::Unigram, Some(2), None),
            "rwkv" => (Model::Rwkv, None, None),
            "plamo2" => (Model::Plamo, Some(0), None),
            "plamo3" => (Model::SegmentedPlamo, Some(0), None),
            other => return Err(Error::UnknownModel { model: other.into() }),
        };
        let [bos, eos] = default_ids(name);
        let mut vocab = Vocab {
            model,
            bos,
            eos,
            unknown,
            separator,
            add_bos: matches!(model, Model::Spm | Model::WordPiece),
            add_eos: model == Model::Unigram,
            add_separator: model == Model::WordPiece,
            add_space_prefix: model == Model::Spm,
            escape_whitespaces: true,
            lowercase: true,
            strip_accents: true,
            ..Vocab::default()
        };
        if model == Model::None {
            return Ok(vocab);
        }
        let pre_name = tokenizer.pre_name()?;
        if matches!(model, Model::Bpe | Model::Whitespace) {
            let pre = pre::by_name(pre_name).ok_or_else(|| Error::UnknownPre { pre: pre_name.into() })?;
            vocab.pre = Some(pre);
            vocab.add_bos = pre.add_bos;
            vocab.escape_whitespaces = pre.escape_whitespaces;
            vocab.bos = bos.filter(|_| !pre.no_bos);
            vocab.lowercase = !pre.keeps_case;
            let merges = metadata.texts(keys::MERGES)?;
            if merges.is_none() && !pre.optional_merges {
                return Err(KeyError::missing(keys::MERGES).into());
            }
            let merges = merges.as_deref().into_iter().flatten().enumerate();
            vocab.merges = merges.map(|(index, merge)| parts(index, merge)).collect::<Result<_, _>>()?;
        }
        if vocab.pre.is_none() && !pre::is_known(pre_name) {
            vocab.unknown_pre = Some(pre_name.to_owned());
        }
        if model == Model::Unigram {
            vocab.charsmap = tokenizer.charsmap()?;
        }
        let add_space = metadata.flag(keys::ADD_SPACE_PREFIX)?.unwrap_or(vocab.add_space_prefix);
        vocab.add_space_prefix = add_space;
        vocab.remove_extra_whitespaces = metadata.flag(keys::REMOVE_EXTRA_WHITESPACES)?.unwrap_or(false);
        vocab.read_tokens(tokenizer)?;
        vocab.read_special(metadata, pre_name, reading)?;
        vocab.lowercase = metadata.flag(keys::LOWERCASE)?.unwrap_or(vocab.lowercase);
        vocab.strip_accents = metadata.flag(keys::STRIP_ACCENTS)?.unwrap_or(vocab.lowercase);
        vocab.mark_by_text(metadata);
        if reading == Reading::Model {
            vocab.check_merges()?;
            if model == Model::Spm {
                vocab.rank_by_id();
            }
        }
        if reading == Reading::LlamaCpp {
            vocab.mark_strips(tokenizer.strips()?);
        }
        Ok(vocab)
    }

    fn read_tokens(&mut self, tokenizer: &Tokenizer) -> Result<(), Error> {
        let texts = tokenizer.tokens()?;
        let n = texts.len();
        let scores = tokenizer.scores()?;
        let scores = of_tokens(keys::SCORES, scores.as_deref(), n, 0.0)?;
        let types = of_tokens(keys::TOKEN_TYPE, tokenizer.types()?, n, TokenType::Normal.id())?;
        self.ids.reserve(n);
        for (id, (text, (score, kind))) in texts.iter().zip(scores.zip(types)).enumerate() {
            // An empty text would match everywhere; the reference replaces it by an impossible text.
            let text = if text.is_empty() { format!("[EMPTY_{id}]").into_bytes() } else { text.to_vec() };
            let id = id as u32;
            if score.is_nan() {
                let token = String::from_utf8_lossy(&text).into_owned();
                return Err(Error::BadScore { id, token, score });
            }
            // llama.cpp asserts that texts are unique.
            if let Some(first) = self.ids.insert(text.clone(), id) {
                let token = String::from_utf8_lossy(&text).into_owned();
                return Err(Error::RepeatedToken { token, first, second: id });
            }
            self.max_len = self.max_len.max(text.len());
            let attr = TokenType::from_id(kind).map_or(0, attr::of);
            self.tokens.push(Token { text, score, attr });
        }
        Ok(())
    }

    /// For a vocabulary from a tokenizer.json, the reference's converter has no scores and gives all tokens
    /// an equal one. SentencePiece numbers its pieces in training merge order, so the scores follow from the
    /// ids: -1, -2, ...
    fn rank_by_id(&mut self) {
        // Only if all scores are equal.
        let mut scores = self.tokens.iter().filter(|token| token.attr & attr::NORMAL != 0).map(|t| t.score);
        let first = scores.next();
        if scores.all(|score| Some(score) == first) {
            for (id, token) in self.tokens.iter_mut().enumerate() {
                token.score = -(id as f32);
            }
        }
    }

    /// Rejects merges that name a missing token: llama.cpp works on texts and accepts them, but no tokenizer
    /// in Hugging Face's formats has any.
    fn check_merges(&self) -> Result<(), Error> {
        for (index, (left, right)) in self.merges.iter().enumerate() {
            let joined = [&left[..], right].concat();
            if let Some(absent) = [left, right, &joined].into_iter().find(|text| self.id(text).is_none()) {
                let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                let merge = format!("{} {}", text(left), text(right));
                return Err(Error::MergeOfUnknown { index, merge, token: text(absent) });
            }
        }
        Ok(())
    }

    /// Reads special ids and which are added. llama.cpp ignores ids that are out of range.
    fn read_special(&mut self, metadata: &Metadata, pre_name: &str, reading: Reading) -> Result<(), Error> {
        let tokens = self.tokens.len();
        let is_known = |id: &u64| *id < tokens as u64;
        let read = |key: &str, default: Option<u32>| {
            let given = metadata.get(key).and_then(Value::as_u64);
            if let (Reading::Model, Some(id)) = (reading, given.filter(|id| !is_known(id))) {
                return Err(Error::SpecialIdOutOfRange { key: key.into(), id, tokens });
            }
            let given = given.filter(is_known).map(|id| id as u32);
            Ok(given.or(default.filter(|id| is_known(&u64::from(*id)))))
        };
        self.bos = read(keys::BOS_ID, self.bos)?;
        self.eos = read(keys::EOS_ID, self.eos)?;
        self.unknown = read(keys::UNK_ID, self.unknown)?;
        self.separator = read(keys::SEP_ID, self.separator)?;
        // No tokens are added for RWKV (see `Encoder::encode`).
        if self.model == Model::Rwkv {
            return Ok(());
        }
        self.add_bos = metadata.flag(keys::ADD_BOS)?.unwrap_or(self.add_bos);
        self.add_eos = metadata.flag(keys::ADD_EOS)?.unwrap_or(self.add_eos);
        let pre = pre::by_name(pre_name);
        let separates = pre.is_some_and(|pre| pre.separated.contains(&pre_name));
        self.add_separator = metadata.flag(keys::ADD_SEP)?.unwrap_or(self.add_separator || separates);
        self.add_bos |= pre.is_some_and(|pre| pre.always_bos);
        Ok(())
    }

    fn mark(&mut self, text: &str, bits: u8) {
        if let Some(id) = self.ids.get(text.as_bytes()) {
            self.tokens[*id as usize].attr |= bits;
        }
    }

    fn set(&mut self, text: &str, bits: u8) {
        if let Some(id) = self.ids.get(text.as_bytes()) {
            self.tokens[*id as usize].attr = bits;
        }
    }

    /// Marks tokens that the reference treats as control tokens by their text, whatever their type.
    fn mark_by_text(&mut self, metadata: &Metadata) {
        let n_tokens = self.tokens.len() as u64;
        let by_key = |key: &str| {
            let id = metadata.get(key).and_then(Value::as_u64).filter(|id| *id < n_tokens)?;
            u32::try_from(id).ok()
        };
        let mut ends: Vec<u32> = self.eos.into_iter().collect();
        ends.extend([keys::EOT_ID, keys::EOM_ID].into_iter().filter_map(by_key));
        for (key, old_key, texts) in FILL_IN {
            let named = [key, old_key].iter().any(|key| metadata.get(key).is_some());
            let is_end = ENDING_FILL_IN.contains(&key);
            let id = by_key(key)
                .or_else(|| texts.iter().filter_map(|text| self.ids.get(text.as_bytes())).min().copied());
            ends.extend(id.filter(|_| is_end));
            let first = texts.iter().filter_map(|text| self.ids.get(text.as_bytes())).min().copied();
            if let (false, Some(id)) = (named, first) {
                self.tokens[id as usize].attr |= attr::CONTROL;
            }
        }
        for text in END_OF_GENERATION {
            self.mark(text, attr::CONTROL);
            ends.extend(self.ids.get(text.as_bytes()));
        }
        for text in ["<|channel|>", "<|message|>", "<|start|>", "<|constrain|>"] {
            self.set(text, attr::USER_DEFINED);
        }
        let has = |text: &str| self.ids.contains_key(text.as_bytes());
        let call = has("<|call|>") || has("<|calls|>");
        // gpt-oss ends a turn with <|return|> or <|call|>, so <|end|> only separates its parts. In Gemma's
        // and PLaMo's vocabularies with these tokens, `</s>` does not end a text.
        let (end_is_no_end, s_is_normal) = (
            call && (has("<|return|>") || has("<|flush|>")),
            has("<|tool_response>") || has("<|plamo:eos|>"),
        );
        let mut is_no_end = Vec::new();
        if end_is_no_end {
            self.set("<|end|>", attr::USER_DEFINED);
            is_no_end.extend(self.ids.get(&b"<|end|>"[..]));
        }
        if s_is_normal {
            self.set("</s>", attr::NORMAL);
            is_no_end.extend(self.ids.get(&b"</s>"[..]));
        }
        ends.retain(|id| !is_no_end.contains(id));
        ends.sort_unstable();
        ends.dedup();
        self.ends = ends;
    }

    /// Sets flags of special tokens that absorb whitespace.
    fn mark_strips(&mut self, strips: Strips) {
        match strips {
            Strips::None => {}
            Strips::LeftOf(text) => self.mark(text, attr::LSTRIP),
            Strips::RightExcept(others) => {
                for token in &mut self.tokens {
                    if token.attr & (attr::CONTROL | attr::USER_DEFINED | attr::UNKNOWN) != 0 {
                        token.attr |= attr::RSTRIP;
                    }
                }
                self.mark("</s>", attr::RSTRIP);
                for id in others.iter().filter_map(|text| self.ids.get(text.as_bytes())) {
                    self.tokens[*id as usize].attr &= !attr::RSTRIP;
                }
            }
        }
    }

    pub(super) fn id(&self, text: &[u8]) -> Option<u32> {
        self.ids.get(text).copied()
    }

    /// Token of a byte in vocabularies that spell bytes out (`<0x0A>`), else that of the byte itself.
    pub(super) fn byte_id(&self, byte: u8) -> Option<u32> {
        self.id(format!("<0x{byte:02X}>").as_bytes()).or_else(|| self.id(&[byte]))
    }
}

fn parts(index: usize, merge: &[u8]) -> Result<(Vec<u8>, Vec<u8>), Error> {
    match space_of_merge(merge) {
        Some(at) => Ok((merge[..at].to_vec(), merge[at + 1..].to_vec())),
        None => Err(Error::BadMerge { index, merge: String::from_utf8_lossy(merge).into_owned() }),
    }
}

/// Fill-in-the-middle tokens: key, old key, texts.
const FILL_IN: [(&str, &str, &[&str]); 6] = [
    (
        keys::FIM_PRE_ID,
        "tokenizer.ggml.prefix_token_id",
        &[
            "<|fim_prefix|>",
            "<fim-prefix>",
            "<fim_prefix>",
            "<｜fim▁begin｜>",
            "<PRE>",
            "▁<PRE>",
            "<|code_prefix|>",
            "<|prefix|>",
            "<|plamo:fim_prefix|>",
        ],
    ),
    (
        keys::FIM_SUF_ID,
        "tokenizer.ggml.suffix_token_id",
        &[
            "<|fim_suffix|>",
            "<fim-suffix>",
            "<fim_suffix>",
            "<｜fim▁hole｜>",
            "<SUF>",
            "▁<SUF>",
            "<|code_suffix|>",
            "<|suffix|>",
            "<|plamo:fim_suffix|>",
        ],
    ),
    (
        keys::FIM_MID_ID,
        "tokenizer.ggml.middle_token_id",
        &[
            "<|fim_middle|>",
            "<fim-middle>",
            "<fim_middle>",
            "<｜fim▁end｜>",
            "<MID>",
            "▁<MID>",
            "<|code_middle|>",
            "<|middle|>",
            "<|plamo:fim_middle|>",
        ],
    ),
    (keys::FIM_PAD_ID, "", &["<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]"]),
    (keys::FIM_REP_ID, "", &["<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>"]),
    (keys::FIM_SEP_ID, "", &["<|file_sep|>", "<|plamo:file_separator|>"]),
];

/// Fill-in-the-middle tokens that end a generation.
const ENDING_FILL_IN: [&str; 3] = [keys::FIM_PAD_ID, keys::FIM_REP_ID, keys::FIM_SEP_ID];

const END_OF_GENERATION: [&str; 23] = [
    "<|eot_id|>",
    "<|im_end|>",
    "<|end|>",
    "<|return|>",
    "<|call|>",
    "<|flush|>",
    "<|calls|>",
    "<end_of_turn>",
    "<|endoftext|>",
    "</s>",
    "<|eom_id|>",
    "<EOT>",
    "_<EOT>",
    "[EOT]",
    "[EOS]",
    "<|end_of_text|>",
    "<end_of_utterance>",
    "<eos>",
    "<turn|>",
    "<|tool_response>",
    "<｜end▁of▁sentence｜>",
    "[e~[",
    "<|ifm|im_end|>",
];
