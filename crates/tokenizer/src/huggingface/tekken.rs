//! Mistral's own tokenizer files: `tekken.json`, and SentencePiece models whose name ends with a version
//! (`tokenizer.model.v3`).
//!
//! tekken is byte-level BPE with stored ranks, special tokens first. The reference reads both through
//! mistral-common; the parts that it uses are documented here.
//!
//! Source: `_set_vocab_mistral` in `conversion/base.py`, `MistralVocab` in `gguf-py/gguf/vocab.py`,
//! `MistralModel.get_community_chat_template` in `conversion/mistral.py`; `Tekkenizer` of mistral-common
//! 1.13.

use gguf_container::Array;
use serde::Deserialize;

use super::error::VocabError;
use super::hf::malformed;
use super::ranks::{ByBytes, Ranks};
use super::spm_model::SpmModel;
use super::token_table::TokenTable;
use super::writer::TokenizerWriter;
use super::{base64, bpe, spm, template};
use crate::byte_alphabet::text_of;
use crate::token_type::TokenType;
use crate::{TokenizerFiles, keys};

const TEKKEN: &str = "tekken.json";

/// Special tokens of files that do not list them, up to version 7.
const SPECIALS: [&str; 20] = [
    "<unk>",
    "<s>",
    "</s>",
    "[INST]",
    "[/INST]",
    "[AVAILABLE_TOOLS]",
    "[/AVAILABLE_TOOLS]",
    "[TOOL_RESULTS]",
    "[/TOOL_RESULTS]",
    "[TOOL_CALLS]",
    "[IMG]",
    "<pad>",
    "[IMG_BREAK]",
    "[IMG_END]",
    "[PREFIX]",
    "[MIDDLE]",
    "[SUFFIX]",
    "[SYSTEM_PROMPT]",
    "[/SYSTEM_PROMPT]",
    "[TOOL_CONTENT]",
];

#[derive(Deserialize)]
struct Tekken {
    config: Config,
    vocab: Vec<Entry>,
    #[serde(default)]
    special_tokens: Option<Vec<Special>>,
}

#[derive(Deserialize)]
struct Config {
    default_vocab_size: u64,
    default_num_special_tokens: u64,
    version: String,
}

#[derive(Deserialize)]
struct Entry {
    rank: u32,
    token_bytes: String,
}

#[derive(Deserialize)]
struct Special {
    token_str: String,
}

/// SentencePiece model with the highest version in its name, and that version.
fn versioned<'a>(input: &TokenizerFiles<'a>) -> Option<(String, String, &'a [u8])> {
    let version_of = |name: &str| {
        let version =
            name.strip_prefix("tokenizer.model.v").or_else(|| name.strip_prefix("tokenizer.mm.model.v"))?;
        version.starts_with(|c: char| c.is_ascii_digit()).then(|| version.to_owned())
    };
    input
        .files
        .iter()
        .filter_map(|(name, bytes)| version_of(name).map(|version| (name.clone(), version, *bytes)))
        // The reference sorts the names and takes the last.
        .max_by(|one, other| one.0.cmp(&other.0))
}

impl TokenizerWriter<'_> {
    /// True if there is a file that only [`TokenizerWriter::tekken`] reads.
    pub fn has_tekken(&self) -> bool {
        self.file(TEKKEN).is_some() || versioned(self.input).is_some()
    }

    /// tekken.json, or a SentencePiece model whose name ends with a version. In a checkpoint that is `native`
    /// to these files, chat_template.jinja is used as well.
    pub fn tekken(&mut self, native: bool) -> Result<(), VocabError> {
        let (version, kind) = if let Some(bytes) = self.file(TEKKEN) {
            (write_tekken(self, bytes)?, "-tekken")
        } else if let Some((file, version, bytes)) = versioned(self.input) {
            write_spm(self, &file, bytes)?;
            (version, "")
        } else if let Some(bytes) = self.file("tokenizer.model") {
            write_spm(self, "tokenizer.model", bytes)?;
            ("1".to_owned(), "")
        } else {
            return Err(VocabError::NoTokenizer {
                expected: "`tekken.json`; `tokenizer.model` with or without a version",
            });
        };
        self.set(keys::ADD_BOS, true);
        self.set(keys::ADD_EOS, false);
        if native && let Some(text) = template::jinja_file(self.input)? {
            template::note_if_bad(self, "chat_template.jinja", &text);
            self.set(keys::CHAT_TEMPLATE, text);
            return Ok(());
        }
        // llama.cpp has the templates of these versions built in, by name. `7m1` is version 7 with images,
        // which uses the template of 7.
        let number = version.split('m').next().unwrap_or_default();
        match (number, kind) {
            ("1", _) => self.set(keys::CHAT_TEMPLATE, "mistral-v1"),
            ("3" | "7", kind) => self.set(keys::CHAT_TEMPLATE, format!("mistral-v{number}{kind}")),
            _ => self.note(format!(
                "missing chat template: none is built in for version {version} of Mistral's tokenizers"
            )),
        }
        Ok(())
    }
}

/// Writes tekken.json; returns its version without `v`.
fn write_tekken(writer: &mut TokenizerWriter<'_>, bytes: &[u8]) -> Result<String, VocabError> {
    let file: Tekken = serde_json::from_slice(bytes).map_err(|error| malformed(TEKKEN, &error))?;
    let n_tokens = bpe::slots_len(file.config.default_vocab_size, TEKKEN)?;
    let n_special = bpe::slots_len(file.config.default_num_special_tokens, TEKKEN)?;
    let n_ranks = n_tokens.checked_sub(n_special).ok_or_else(|| {
        malformed(TEKKEN, &format!("{n_special} special tokens in a vocabulary of {n_tokens}"))
    })?;
    // Ids: special tokens 0..n_special, then the ranks 0..n_ranks of the vocabulary.
    let named: Vec<String> = match file.special_tokens {
        Some(listed) => listed.into_iter().map(|token| token.token_str).collect(),
        None => SPECIALS.map(str::to_owned).to_vec(),
    };
    if named.len() > n_special {
        let problem =
            format!("{} special tokens, but `default_num_special_tokens` is {n_special}", named.len());
        return Err(malformed(TEKKEN, &problem));
    }
    // The file lists more ranks than the model has; those from `n_ranks` on are dropped.
    let mut tokens = Vec::with_capacity(file.vocab.len().min(n_ranks));
    for entry in file.vocab.into_iter().filter(|entry| (entry.rank as usize) < n_ranks) {
        let bytes = base64::decode(entry.token_bytes.as_bytes()).ok_or_else(|| {
            malformed(TEKKEN, &format!("token of rank {}: `{}` is not base64", entry.rank, entry.token_bytes))
        })?;
        tokens.push((bytes, entry.rank));
    }
    let mut ranks = Ranks { tokens }.checked(TEKKEN)?;
    ranks.tokens.sort_by_key(|(_, rank)| *rank);
    if let Some(id) =
        (0..n_ranks).find(|at| ranks.tokens.get(*at).map(|(_, rank)| *rank as usize) != Some(*at))
    {
        return Err(VocabError::MissingId { file: TEKKEN, id: id as u64, tokens: ranks.tokens.len() as u64 });
    }
    let mut table = TokenTable::default();
    // Reserved special tokens have names in mistral-common.
    let filler = (named.len()..n_special).map(|id| format!("<SPECIAL_{id}>"));
    let specials: Vec<String> = named.into_iter().chain(filler).collect();
    specials.iter().for_each(|text| table.push(text.as_str(), TokenType::Control));
    ranks.tokens.iter().for_each(|(bytes, _)| table.push(text_of(bytes), TokenType::Normal));
    writer.pad_to_rows(&mut table, None)?;
    let pre = writer.ctx.pre.clone().unwrap_or_else(|| "tekken".into());
    writer.set(keys::MODEL, "gpt2");
    writer.set(keys::PRE, pre);
    writer.set(keys::MERGES, Array::String(all_merges(&ranks)?.into()));
    let id_of =
        |text: &str| specials.iter().position(|other| other == text).and_then(|id| u32::try_from(id).ok());
    for (key, text) in
        [(keys::BOS_ID, "<s>"), (keys::EOS_ID, "</s>"), (keys::UNK_ID, "<unk>"), (keys::PAD_ID, "<pad>")]
    {
        match id_of(text) {
            Some(id) => writer.set(key, id),
            None => writer.note(format!("`{TEKKEN}`: missing special token `{text}`: `{key}` is omitted")),
        }
    }
    // The reference writes a zero for each token, as an integer.
    let (scores, types) = (vec![0; table.len()], table.type_ids());
    writer.set(keys::TOKENS, Array::String(table.texts.into()));
    writer.set(keys::SCORES, Array::I32(scores));
    writer.set(keys::TOKEN_TYPE, Array::I32(types));
    Ok(file.config.version.trim_start_matches('v').to_owned())
}

/// Every way to join two tokens into a third, by the rank of the third, then of its parts.
///
/// Source: `MistralVocab.extract_vocab_merges_from_model`.
fn all_merges(ranks: &Ranks) -> Result<Vec<Vec<u8>>, VocabError> {
    let by_bytes: ByBytes<'_> = ranks.by_bytes();
    let mut merges = Vec::with_capacity(ranks.tokens.len() * 2);
    let mut ways: Vec<(u32, u32, usize)> = Vec::new();
    // The first 256 ranks are the bytes themselves. Unlike in a tiktoken file, whose merges follow from the
    // ranks (`Ranks::merges`), every way to split a token in two is a merge; llama.cpp uses the first that
    // fits.
    for (bytes, rank) in ranks.tokens.iter().skip(256) {
        ways.clear();
        for cut in 1..bytes.len() {
            if let (Some(left), Some(right)) = (by_bytes.get(&bytes[..cut]), by_bytes.get(&bytes[cut..])) {
                ways.push((*left, *right, cut));
            }
        }
        if ways.is_empty() {
            let problem =
                format!("token `{}` of rank {rank} cannot be joined from two others", text_of(bytes));
            return Err(malformed(TEKKEN, &problem));
        }
        // `sorted(local, key=lambda x: (vocab[x[0]], vocab[x[1]], x[2]))`: by the ranks of the parts.
        ways.sort_unstable();
        for &(_, _, cut) in &ways {
            merges.push(format!("{} {}", text_of(&bytes[..cut]), text_of(&bytes[cut..])).into_bytes());
        }
    }
    Ok(merges)
}

/// A SentencePiece model without Hugging Face's files.
fn write_spm(writer: &mut TokenizerWriter<'_>, file: &str, bytes: &[u8]) -> Result<(), VocabError> {
    let model = SpmModel::read(bytes).map_err(|problem| malformed(file, &problem))?;
    let mut table = spm::pieces(&model, model.pieces.len());
    writer.pad_to_rows(&mut table, Some(spm::SCORE_OF_NONE))?;
    // The reference writes the special ids before the tokens.
    writer.set(keys::MODEL, "llama");
    writer.set(keys::BOS_ID, model.bos_id);
    writer.set(keys::EOS_ID, model.eos_id);
    writer.set(keys::UNK_ID, model.unk_id);
    writer.set(keys::PAD_ID, if model.pad_id == u32::MAX { model.eos_id } else { model.pad_id });
    writer.set_vocab("llama", "", table);
    Ok(())
}
