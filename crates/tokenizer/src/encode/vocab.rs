//! Tokens of a file and their keys.
//!
//! Source: `llama_vocab::impl::load` in `src/llama-vocab.cpp` of llama.cpp, as vendored in llama-cpp-python
//! 0.3.36.

use std::collections::HashMap;

use gguf_container::{Array, KeyError, Metadata, Value};

use crate::keys;
use crate::pre::{self, PreTokenizer};

use super::{Reading, error::Error};

/// Token attributes as bits: the reference allows several per token.
pub(super) mod attr {
    pub const UNKNOWN: u8 = 1;
    pub const UNUSED: u8 = 2;
    pub const NORMAL: u8 = 4;
    pub const CONTROL: u8 = 8;
    pub const USER_DEFINED: u8 = 16;
    pub const BYTE: u8 = 32;
    /// Whitespace before the token belongs to it.
    pub const LSTRIP: u8 = 64;
    /// Whitespace after the token belongs to it.
    pub const RSTRIP: u8 = 128;
}

/// The values of `tokenizer.ggml.model`, as llama.cpp puts them together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Model {
    /// `none`, `no_vocab`: no tokens.
    None,
    /// `llama`: pairs merged by the score of their result.
    Spm,
    /// `gpt2`, `gemma4`: pairs merged by their rank.
    Bpe,
    /// `whitespace`: the same after whitespace is dropped.
    Whitespace,
    /// `bert`: the longest pieces of each word.
    WordPiece,
    /// `t5`: the best sum of scores.
    Unigram,
    /// `rwkv`: the longest token at each place.
    Rwkv,
    /// `plamo2`: the best sum of scores, from the end.
    Plamo,
}

/// A token.
pub(super) struct Token {
    pub text: Vec<u8>,
    pub score: f32,
    pub attr: u8,
}

/// Everything that the keys say.
pub(super) struct Vocab {
    pub model: Model,
    pub tokens: Vec<Token>,
    pub ids: HashMap<Vec<u8>, u32>,
    /// Length of the longest token.
    pub max_len: usize,
    /// Left and right part of each merge, lowest rank first.
    pub merges: Vec<(Vec<u8>, Vec<u8>)>,
    /// Splitting of text, for [`Model::Bpe`].
    pub pre: Option<&'static PreTokenizer>,
    /// The name of a pre-tokenizer that is not known, where none is needed.
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

/// A list that has an item for each token; further items are passed over.
fn long_enough<T>(key: &str, items: Vec<T>, tokens: usize) -> Result<Vec<T>, Error> {
    if items.len() < tokens {
        return Err(Error::TooShort { key: key.into(), found: items.len(), expected: tokens });
    }
    Ok(items)
}

impl Vocab {
    pub(super) fn new(metadata: &Metadata, reading: Reading) -> Result<Self, Error> {
        let model_name = metadata.text(keys::MODEL)?.ok_or_else(|| KeyError::missing(keys::MODEL))?;
        // The defaults of each model for keys that are absent.
        // The ids of the models that llama.cpp first had each kind for: 11 is Falcon's `<|endoftext|>`, 0, 1 and 2 are
        // SentencePiece's, 100 to 102 BERT's [UNK], [CLS] and [SEP].
        let (model, bos, eos, unknown, separator) = match model_name {
            "none" | "no_vocab" => (Model::None, None, None, None, None),
            "llama" => (Model::Spm, Some(1), Some(2), Some(0), None),
            "bert" => (Model::WordPiece, Some(101), None, Some(100), Some(102)),
            "gpt2" => (Model::Bpe, Some(11), Some(11), None, None),
            "whitespace" => (Model::Whitespace, Some(11), Some(11), None, None),
            "gemma4" => (Model::Bpe, None, None, None, None),
            "t5" => (Model::Unigram, None, Some(1), Some(2), None),
            "rwkv" => (Model::Rwkv, None, None, None, None),
            "plamo2" => (Model::Plamo, Some(1), Some(2), Some(0), None),
            other => return Err(Error::UnknownModel { model: other.into() }),
        };
        let mut vocab = Vocab {
            model,
            tokens: Vec::new(),
            ids: HashMap::new(),
            max_len: 0,
            merges: Vec::new(),
            pre: None,
            unknown_pre: None,
            bos,
            eos,
            unknown,
            separator,
            ends: Vec::new(),
            add_bos: matches!(model, Model::Spm | Model::WordPiece),
            add_eos: model == Model::Unigram,
            add_separator: model == Model::WordPiece,
            add_space_prefix: model == Model::Spm,
            remove_extra_whitespaces: false,
            escape_whitespaces: true,
            lowercase: true,
            strip_accents: true,
            charsmap: Vec::new(),
        };
        if model == Model::None {
            return Ok(vocab);
        }
        let pre_name = match model_name {
            "gemma4" => "gemma4",
            _ => metadata.text(keys::PRE)?.filter(|pre| !pre.is_empty()).unwrap_or("default"),
        };
        if matches!(model, Model::Bpe | Model::Whitespace) {
            let pre = pre::by_name(pre_name).ok_or_else(|| Error::UnknownPre { pre: pre_name.into() })?;
            vocab.pre = Some(pre);
            vocab.add_bos = pre.add_bos;
            vocab.escape_whitespaces = pre.escape_whitespaces;
            vocab.bos = bos.filter(|_| !pre.no_bos);
            vocab.lowercase = !matches!(pre_name, "whitespace");
            // Files of Kimi K2 may have no merges; the reference loads them all the same.
            let merges = metadata.texts(keys::MERGES)?;
            if merges.is_none() && pre_name != "kimi-k2" {
                return Err(KeyError::missing(keys::MERGES).into());
            }
            let merges = merges.as_deref().into_iter().flatten().enumerate();
            vocab.merges = merges.map(|(index, merge)| parts(index, merge)).collect::<Result<_, _>>()?;
        }
        if vocab.pre.is_none() && !pre::is_known(pre_name) {
            vocab.unknown_pre = Some(pre_name.to_owned());
        }
        if model == Model::Unigram {
            let charsmap =
                metadata.read(keys::PRECOMPILED_CHARSMAP, "a list of bytes", |value| {
                    match value.as_array()? {
                        Array::U8(bytes) => Some(bytes.clone()),
                        Array::I8(bytes) => Some(bytes.iter().map(|byte| *byte as u8).collect()),
                        _ => None,
                    }
                })?;
            vocab.charsmap = charsmap.unwrap_or_default();
        }
        let add_space = metadata.flag(keys::ADD_SPACE_PREFIX)?.unwrap_or(vocab.add_space_prefix);
        vocab.add_space_prefix = add_space;
        vocab.remove_extra_whitespaces = metadata.flag(keys::REMOVE_EXTRA_WHITESPACES)?.unwrap_or(false);
        vocab.read_tokens(metadata)?;
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
            vocab.mark_strips(metadata, pre_name)?;
        }
        Ok(vocab)
    }

    fn read_tokens(&mut self, metadata: &Metadata) -> Result<(), Error> {
        let texts = metadata.texts(keys::TOKENS)?.ok_or_else(|| KeyError::missing(keys::TOKENS))?;
        let n = texts.len();
        let scores =
            metadata.read(keys::SCORES, "a list of f32 or i32", |value| match value.as_array()? {
                Array::F32(scores) => Some(scores.clone()),
                Array::I32(scores) => Some(scores.iter().map(|score| *score as f32).collect()),
                _ => None,
            })?;
        let scores =
            scores.map_or_else(|| Ok(vec![0.0; n]), |scores| long_enough(keys::SCORES, scores, n))?;
        let types = metadata.read(keys::TOKEN_TYPE, "a list of i32", |value| match value.as_array()? {
            Array::I32(types) => Some(types.clone()),
            _ => None,
        })?;
        let types = types.map_or_else(|| Ok(vec![1; n]), |types| long_enough(keys::TOKEN_TYPE, types, n))?;
        self.ids.reserve(n);
        for (id, (text, (score, kind))) in texts.iter().zip(scores.into_iter().zip(types)).enumerate() {
            // An empty text would match everywhere; the reference gives it a name that no text holds.
            let text = if text.is_empty() { format!("[EMPTY_{id}]").into_bytes() } else { text.to_vec() };
            let id = id as u32;
            if score.is_nan() {
                let token = String::from_utf8_lossy(&text).into_owned();
                return Err(Error::BadScore { id, token, score });
            }
            // llama.cpp asserts that there are as many texts as ids.
            if let Some(first) = self.ids.insert(text.clone(), id) {
                let token = String::from_utf8_lossy(&text).into_owned();
                return Err(Error::RepeatedToken { token, first, second: id });
            }
            self.max_len = self.max_len.max(text.len());
            // The numbers of `llama_token_type` in `include/llama.h`.
            let attr = match kind {
                1 => attr::NORMAL,
                2 => attr::UNKNOWN,
                3 => attr::CONTROL,
                4 => attr::USER_DEFINED,
                5 => attr::UNUSED,
                6 => attr::BYTE,
                _ => 0,
            };
            self.tokens.push(Token { text, score, attr });
        }
        Ok(())
    }

    /// For a vocabulary from a tokenizer.json, the reference's converter has no scores and gives every token
    /// the same one. SentencePiece numbers its pieces in training merge order, so the scores follow from the
    /// ids: -1, -2, ...
    fn rank_by_id(&mut self) {
        // This applies only where all scores are equal; real scores are kept.
        let mut scores = self.tokens.iter().filter(|token| token.attr & attr::NORMAL != 0).map(|t| t.score);
        let first = scores.next();
        if scores.all(|score| Some(score) == first) {
            for (id, token) in self.tokens.iter_mut().enumerate() {
                token.score = -(id as f32);
            }
        }
    }

    /// A merge that names an absent token: llama.cpp works on texts and accepts it, but
    /// no tokenizer that the keys could be made of has one.
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

    /// Special ids and which of them are added. llama.cpp passes over ids beyond the vocabulary.
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
        // Nothing is added around a text of RWKV's (see `Tokenizer::encode`).
        if self.model == Model::Rwkv {
            return Ok(());
        }
        self.add_bos = metadata.flag(keys::ADD_BOS)?.unwrap_or(self.add_bos);
        self.add_eos = metadata.flag(keys::ADD_EOS)?.unwrap_or(self.add_eos);
        let separates = matches!(pre_name, "jina-v1-en" | "jina-v2-code" | "roberta-bpe");
        self.add_separator = metadata.flag(keys::ADD_SEP)?.unwrap_or(self.add_separator || separates);
        // The reference overrides the key for these two.
        if matches!(pre_name, "gemma4" | "granite-embed-multi-311m") {
            self.add_bos = true;
        }
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

    /// Tokens that the reference takes for control tokens by their text, whatever their type.
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
        // gpt-oss ends a turn with <|return|> or <|call|>, so that <|end|> only divides its parts. In Gemma's and PLaMo's
        // vocabularies with these tokens, `</s>` ends nothing.
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

    /// Special tokens that absorb whitespace: not in any key, so the reference decides by name.
    fn mark_strips(&mut self, metadata: &Metadata, pre_name: &str) -> Result<(), Error> {
        let name = metadata.text("general.name")?.unwrap_or_default().to_ascii_lowercase();
        let arch = metadata.text("general.architecture")?.unwrap_or_default();
        let jina = ["jina-v2-de", "jina-v2-es", "jina-v2-code"].iter().any(|part| pre_name.contains(part));
        let mask = ["nomic-bert-moe", "jina-bert-v3"].iter().any(|part| arch.contains(part));
        if jina || mask {
            self.mark("<mask>", attr::LSTRIP);
        } else if name.contains("phi-3") || name.contains("phi3") {
            for token in &mut self.tokens {
                if token.attr & (attr::CONTROL | attr::USER_DEFINED | attr::UNKNOWN) != 0 {
                    token.attr |= attr::RSTRIP;
                }
            }
            self.mark("</s>", attr::RSTRIP);
            for text in ["<unk>", "<s>", "<|endoftext|>"] {
                if let Some(id) = self.ids.get(text.as_bytes()) {
                    self.tokens[*id as usize].attr &= !attr::RSTRIP;
                }
            }
        } else if name.contains("modern-bert") {
            self.mark("[MASK]", attr::LSTRIP);
        }
        Ok(())
    }

    /// The token with this text.
    pub(super) fn id(&self, text: &[u8]) -> Option<u32> {
        self.ids.get(text).copied()
    }

    /// The token of a byte in vocabularies that spell bytes out (`<0x0A>`), else the byte itself.
    pub(super) fn byte_id(&self, byte: u8) -> Option<u32> {
        self.id(format!("<0x{byte:02X}>").as_bytes()).or_else(|| self.id(&[byte]))
    }
}

/// A merge is two texts with a space between; the first character may be a space itself.
fn parts(index: usize, merge: &[u8]) -> Result<(Vec<u8>, Vec<u8>), Error> {
    match merge.iter().skip(1).position(|byte| *byte == b' ') {
        Some(at) => Ok((merge[..at + 1].to_vec(), merge[at + 2..].to_vec())),
        None => Err(Error::BadMerge { index, merge: String::from_utf8_lossy(merge).into_owned() }),
    }
}

/// Fill-in-the-middle tokens: their key, its old name, their texts.
const FILL_IN: [(&str, &str, &[&str]); 6] = [
    (
        "tokenizer.ggml.fim_pre_token_id",
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
        ],
    ),
    (
        "tokenizer.ggml.fim_suf_token_id",
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
        ],
    ),
    (
        "tokenizer.ggml.fim_mid_token_id",
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
        ],
    ),
    ("tokenizer.ggml.fim_pad_token_id", "", &["<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]"]),
    (
        "tokenizer.ggml.fim_rep_token_id",
        "",
        &["<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>"],
    ),
    ("tokenizer.ggml.fim_sep_token_id", "", &["<|file_sep|>"]),
];

/// Fill-in-the-middle tokens that end a generation.
const ENDING_FILL_IN: [&str; 3] =
    ["tokenizer.ggml.fim_pad_token_id", "tokenizer.ggml.fim_rep_token_id", "tokenizer.ggml.fim_sep_token_id"];

/// Texts that end a generation.
const END_OF_GENERATION: [&str; 22] = [
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
];
