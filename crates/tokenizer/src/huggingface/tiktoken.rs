//! tiktoken files: byte-level BPE of which only the ranks are stored.
//!
//! A file contains neither the splitting expression nor the special tokens that follow the ranks. They are in
//! the code of the models, and here in [`FILES`]. The rest is byte-level BPE: `tokenizer.ggml.model` =
//! `gpt2`.
//!
//! Source: `_set_vocab_qwen` in `conversion/base.py`, `HunYuanMoEModel.set_vocab` in
//! `conversion/hunyuan.py`, `KimiLinearModel.set_vocab` in `conversion/kimi_linear.py`. Llama's
//! files, in which the reference sees broken SentencePiece models: `tokenizer.py` of
//! llama-models 0.3.0.

use gguf_container::Array;
use serde_json::json;

use super::added::{AddedVocab, Ids};
use super::error::VocabError;
use super::hf::{AddedToken, HfModel, HfTokenizer, Merges, Tokens, malformed, tokenizer_config};
use super::ranks::Ranks;
use super::token_table::TokenTable;
use super::writer::TokenizerWriter;
use super::{bpe, pre, special};
use crate::byte_alphabet::text_of;
use crate::pre::expressions;
use crate::token_type::TokenType;
use crate::{TokenizerFiles, keys};

struct RankFile {
    file: &'static str,
    /// Number of ranks, if several kinds have this name.
    n_ranks: Option<usize>,
    /// Splitting expression; `None` if llama.cpp has code for it.
    split: Option<&'static str>,
    /// Name, if it does not follow from the expression.
    pre: Option<&'static str>,
    /// Id of the first special token; by default the number of ranks.
    first_special: Option<u32>,
    /// Special tokens in order.
    specials: fn() -> Vec<String>,
    /// True if only ids below `vocab_size` are special tokens.
    limited: bool,
    /// Special ids that no file gives: name and text.
    ids: &'static [(&'static str, &'static str)],
    /// Special ids that are set if no file gives any id.
    ids_if_none: &'static [(&'static str, &'static str)],
    /// Special ids that are always set.
    overrides: &'static [(&'static str, &'static str)],
    /// True if texts start with bos; `None` if the family does not specify it.
    add_bos: Option<bool>,
}

const NONE: RankFile = RankFile {
    file: "",
    n_ranks: None,
    split: None,
    pre: None,
    first_special: None,
    specials: Vec::new,
    limited: false,
    ids: &[],
    ids_if_none: &[],
    overrides: &[],
    add_bos: None,
};

/// Kinds by file, more specific rows first.
const FILES: &[RankFile] = &[
    RankFile {
        file: "qwen.tiktoken",
        split: Some(expressions::QWEN2),
        specials: || {
            let named = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"].map(str::to_owned);
            named.into_iter().chain(numbered("<|extra_", 0..205)).collect()
        },
        ids_if_none: &[("bos", "<|endoftext|>"), ("eos", "<|endoftext|>")],
        ids: &[("unk", "<|endoftext|>")],
        ..NONE
    },
    RankFile {
        file: "hy.tiktoken",
        split: Some(expressions::QWEN2),
        pre: Some("hunyuan"),
        first_special: Some(127_957),
        specials: || {
            let named =
                ["<|endoftext|>", "<|startoftext|>", "<|bos|>", "<|eos|>", "<|pad|>"].map(str::to_owned);
            named.into_iter().chain(numbered("<|extra_", 0..205)).collect()
        },
        overrides: &[("bos", "<|bos|>")],
        ..NONE
    },
    RankFile {
        file: "tiktoken.model",
        pre: Some("kimi-k2"),
        specials: || numbered("<|reserved_token_", 163_584..163_840).collect(),
        limited: true,
        overrides: &[("eos", "[EOS]")],
        ..NONE
    },
    RankFile {
        file: "tokenizer.model",
        n_ranks: Some(128_000),
        split: Some(expressions::LLAMA3),
        specials: llama3_specials,
        ids: &[
            ("bos", "<|begin_of_text|>"),
            ("eos", "<|end_of_text|>"),
            ("eot", "<|eot_id|>"),
            ("eom", "<|eom_id|>"),
        ],
        add_bos: Some(true),
        ..NONE
    },
    RankFile {
        file: "tokenizer.model",
        n_ranks: Some(200_000),
        split: Some(expressions::GPT4O),
        specials: llama4_specials,
        ids: &[
            ("bos", "<|begin_of_text|>"),
            ("eos", "<|end_of_text|>"),
            ("pad", "<|finetune_right_pad|>"),
            ("eot", "<|eot|>"),
            ("eom", "<|eom|>"),
        ],
        add_bos: Some(true),
        ..NONE
    },
    // GLM 4 and other models that store ranks under this name: special tokens from tokenizer_config.json.
    RankFile { file: "tokenizer.model", split: Some(expressions::LLAMA3), ..NONE },
];

/// `start0|>`, `start1|>`, ...
fn numbered(start: &'static str, range: std::ops::Range<usize>) -> impl Iterator<Item = String> {
    range.map(move |i| format!("{start}{i}|>"))
}

/// Llama 3.1 and later; Llama 3 has other names for reserved ones.
fn llama3_specials() -> Vec<String> {
    let named = [
        "<|begin_of_text|>",
        "<|end_of_text|>",
        "<|reserved_special_token_0|>",
        "<|reserved_special_token_1|>",
        "<|finetune_right_pad_id|>",
        "<|step_id|>",
        "<|start_header_id|>",
        "<|end_header_id|>",
        "<|eom_id|>",
        "<|eot_id|>",
        "<|python_tag|>",
        "<|image|>",
    ];
    let reserved = numbered("<|reserved_special_token_", 2..2 + 256 - named.len());
    named.into_iter().map(str::to_owned).chain(reserved).collect()
}

/// Llama 4: 2048 tokens, most of them reserved.
fn llama4_specials() -> Vec<String> {
    const ALL: usize = 2048;
    let text = "<|text_post_train_reserved_special_token_";
    let vision = "<|vision_reserved_special_token_";
    let mut all: Vec<String> = Vec::with_capacity(ALL);
    let names = |names: &[&str]| names.iter().map(|name| format!("<|{name}|>")).collect::<Vec<_>>();
    all.extend(names(&["begin_of_text", "end_of_text", "fim_prefix", "fim_middle", "fim_suffix"]));
    all.extend(names(&["header_start", "header_end", "eom", "eot", "step"]));
    all.extend(numbered(text, 0..6));
    all.extend(names(&["python_start", "python_end", "finetune_right_pad"]));
    all.extend(numbered(text, 8..69));
    all.extend(names(&["image_start", "image_end"]));
    all.extend(numbered(vision, 0..2));
    all.extend(names(&["tile_x_separator", "tile_y_separator"]));
    all.extend(numbered(vision, 2..6));
    all.extend(names(&["image"]));
    all.extend(numbered(vision, 6..7));
    all.extend(names(&["patch"]));
    all.extend(numbered(vision, 7..1048));
    all.extend(numbered("<|reasoning_reserved_special_token_", 0..8));
    all.extend(names(&["reasoning_thinking_start", "reasoning_thinking_end"]));
    let reserved = ALL - all.len();
    all.extend(numbered("<|reserved_special_token_", 0..reserved));
    all
}

fn find<'a>(input: &TokenizerFiles<'a>) -> Option<(&'static str, &'a [u8])> {
    FILES.iter().find_map(|kind| {
        // The name is not sufficient: `tokenizer.model` is often a SentencePiece model.
        let (_, bytes) = input.files.iter().find(|(name, _)| name == kind.file)?;
        Ranks::is_one(bytes).then_some((kind.file, *bytes))
    })
}

impl TokenizerWriter<'_> {
    /// True if there is a file of ranks that [`TokenizerWriter::tiktoken`] reads.
    pub fn has_tiktoken(&self) -> bool {
        find(self.input).is_some()
    }

    /// Ranks of byte strings in one of the files that the tiktoken library reads.
    pub fn tiktoken(&mut self) -> Result<(), VocabError> {
        let (file, bytes) = find(self.input).ok_or(VocabError::NoTokenizer {
            expected: "`qwen.tiktoken`; `hy.tiktoken`; `tiktoken.model`; `tokenizer.model` with ranks",
        })?;
        let ranks = Ranks::read(file, bytes)?;
        let n_ranks = ranks.tokens.len();
        // Llama 3, Llama 4 and GLM 4 share a file name; the number of ranks identifies the first two.
        let kind = FILES
            .iter()
            .find(|kind| kind.file == file && kind.n_ranks.is_none_or(|n| n == n_ranks))
            .unwrap_or(&NONE);
        let specials = specials(self, kind, n_ranks)?;
        let (pairs, unreached) = ranks.merges();
        if unreached > 0 {
            self.note(format!("`{file}`: {unreached} of {n_ranks} tokens cannot be reached by merges"));
        }
        // Converted to a tokenizer.json, whose code does the rest: a rank is an id, and a word that is a
        // token is not split, like in tiktoken (`ignore_merges`).
        let vocab: Vec<(String, u32)> =
            ranks.tokens.iter().map(|(bytes, rank)| (text_of(bytes), *rank)).collect();
        let hf = HfTokenizer {
            file,
            model: HfModel {
                kind: Some("BPE".into()),
                vocab: Tokens(vocab, Vec::new()),
                merges: Merges(pairs),
                ignore_merges: Some(true),
                ..HfModel::default()
            },
            pre_tokenizer: kind.split.map_or(serde_json::Value::Null, |split| {
                json!({"type": "Sequence", "pretokenizers": [
                {"type": "Split", "pattern": {"Regex": split}, "behavior": "Isolated", "invert": false},
                {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false}]})
            }),
            ..HfTokenizer::default()
        };
        let mut added = AddedVocab::default();
        added.by_id.extend(specials.iter().map(|(id, text)| (*id, AddedToken::special(text))));
        let name = match (self.ctx.pre.clone(), kind.pre) {
            (Some(name), _) => {
                pre::note_chosen(self, &name, &hf);
                name
            }
            (None, Some(name)) => name.to_owned(),
            (None, None) => {
                let ids: Ids<'_> = hf.model.vocab.0.iter().map(|(text, id)| (text.as_str(), *id)).collect();
                pre::recognize(self, &hf, &added, &ids)?
            }
        };
        let mut table = tokens(self, file, &hf, &specials)?;
        self.pad_to_rows(&mut table, None)?;
        let n_tokens = self.set_vocab("gpt2", &name, table);
        let merges = hf.model.merges.0.iter().map(|(left, right)| format!("{left} {right}")).collect();
        self.set(keys::MERGES, Array::String(merges));
        let id_of = |&(name, text): &(&'static str, &str)| {
            specials.iter().find(|(_, other)| other == text).map(|(id, _)| (name, *id))
        };
        let options = special::SpecialOptions {
            if_none: kind.ids_if_none.iter().filter_map(id_of).collect(),
            defaults: kind.ids.iter().filter_map(id_of).collect(),
            overrides: kind.overrides.iter().filter_map(id_of).collect(),
            ..special::SpecialOptions::default()
        };
        self.special_tokens(&options, n_tokens)?;
        if let Some(add_bos) = kind.add_bos
            && !self.has(keys::ADD_BOS)
        {
            self.set(keys::ADD_BOS, add_bos);
        }
        Ok(())
    }
}

/// Special tokens by id, with names from tokenizer_config.json.
fn specials(
    writer: &TokenizerWriter<'_>,
    kind: &RankFile,
    n_ranks: usize,
) -> Result<Vec<(u32, String)>, VocabError> {
    let too_many = || malformed(kind.file, &"more ids than 2^32");
    let first = match kind.first_special {
        // Hunyuan leaves a gap between ranks and special tokens.
        Some(first) => first,
        None => u32::try_from(n_ranks).map_err(|_| too_many())?,
    };
    // The special tokens have consecutive ids.
    let mut specials = std::collections::BTreeMap::new();
    for (offset, text) in (kind.specials)().into_iter().enumerate() {
        let id =
            u32::try_from(offset).ok().and_then(|offset| first.checked_add(offset)).ok_or_else(too_many)?;
        specials.insert(id, text);
    }
    // The checkpoint's names take precedence: releases name some of the reserved tokens.
    let config = tokenizer_config(writer.input)?.unwrap_or_default();
    for (id, token) in
        config.get("added_tokens_decoder").and_then(|map| map.as_object()).into_iter().flatten()
    {
        let problem =
            |text: &str| malformed("tokenizer_config.json", &format!("`added_tokens_decoder.{id}`: {text}"));
        let number = id.parse::<u32>().map_err(|_| problem("not a token id"))?;
        let text =
            token.get("content").and_then(|text| text.as_str()).ok_or_else(|| problem("no `content`"))?;
        specials.insert(number, text.to_owned());
    }
    if let Some(size) = writer.ctx.vocab_size.filter(|_| kind.limited) {
        specials.retain(|id, _| u64::from(*id) < size);
    }
    Ok(specials.into_iter().collect())
}

/// Ranks and special tokens by id.
fn tokens(
    writer: &TokenizerWriter<'_>,
    file: &'static str,
    hf: &HfTokenizer,
    specials: &[(u32, String)],
) -> Result<TokenTable, VocabError> {
    let listed = || {
        let ranks = hf.model.vocab.0.iter().map(|(text, id)| (*id, text.as_str()));
        ranks.chain(specials.iter().map(|(id, text)| (*id, text.as_str())))
    };
    // Without a size in the config: enough for the largest id.
    let needed = listed().map(|(id, _)| u64::from(id) + 1).max().unwrap_or(0);
    let vocab_size = writer.ctx.vocab_size.unwrap_or(needed);
    let mut table = TokenTable::default();
    for (id, slot) in (0..).zip(bpe::slots(vocab_size, file, listed())?) {
        match slot {
            Some(text) if specials.binary_search_by_key(&id, |(special, _)| *special).is_ok() => {
                table.push(text, TokenType::Control);
            }
            Some(text) => table.push(text, TokenType::Normal),
            None => table.push(format!("[PAD{id}]"), TokenType::Unused),
        }
    }
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_token_ids_follow_file() {
        assert_eq!(llama3_specials().len(), 256);
        assert_eq!(llama3_specials()[255], "<|reserved_special_token_245|>");
        let llama4 = llama4_specials();
        assert_eq!(llama4.len(), 2048);
        assert_eq!((llama4[5].as_str(), llama4[80].as_str()), ("<|header_start|>", "<|image_start|>"));
        assert_eq!(llama4[1143], "<|reasoning_thinking_end|>");
        assert_eq!((FILES[0].specials)().len(), 208);
    }
}
