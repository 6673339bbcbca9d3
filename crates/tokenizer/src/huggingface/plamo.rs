//! PLaMo 2 and 3 (`tokenizer.jsonl`): `tokenizer.ggml.model` = `plamo2` or `plamo3`, by the class of the tokenizer.
//!
//! Each line is a list that starts with a token, its score, and its type.
//!
//! Source: `_set_vocab_plamo` in `conversion/base.py`, `Plamo3Model.set_vocab` in `conversion/plamo.py`, of
//! llama.cpp build 11549.

use serde_json::Value as Json;

use super::error::VocabError;
use super::hf::{malformed, tokenizer_config};
use super::token_table::TokenTable;
use super::writer::TokenizerWriter;
use super::{bpe, template};
use crate::json::is_truthy;
use crate::keys;
use crate::token_type::TokenType;

pub(crate) const FILE: &str = "tokenizer.jsonl";

/// Facts about the tokens of a model that tokenizer.jsonl does not state.
#[derive(Debug, Clone, Copy)]
pub struct JsonLines {
    /// The token that ends a turn.
    pub turn_end: &'static str,
    /// Tokens that are text, whatever their type.
    pub normal: &'static [&'static str],
}

impl TokenizerWriter<'_> {
    /// tokenizer.jsonl.
    pub fn json_lines(&mut self, lines: &JsonLines) -> Result<(), VocabError> {
        let JsonLines { turn_end, normal } = lines;
        let config = tokenizer_config(self.input)?.unwrap_or_default();
        let model = match config.get("tokenizer_class").and_then(Json::as_str) {
            Some("Plamo2Tokenizer") => "plamo2",
            Some("Plamo3Tokenizer") => "plamo3",
            _ => {
                let problem = "`tokenizer_class` is neither `Plamo2Tokenizer` nor `Plamo3Tokenizer`";
                return Err(malformed("tokenizer_config.json", &problem));
            }
        };
        let bytes = self.file(FILE).ok_or(VocabError::NoTokenizer { expected: "`tokenizer.jsonl`" })?;
        let mut table = TokenTable::default();
        let lines = bytes.split(|byte| *byte == b'\n').enumerate();
        for (index, line) in lines.filter(|(_, line)| !line.trim_ascii().is_empty()) {
            let problem =
                |text: &dyn std::fmt::Display| malformed(FILE, &format!("line {}: {text}", index + 1));
            let entry: Vec<Json> = serde_json::from_slice(line).map_err(|error| problem(&error))?;
            let text = entry.first().and_then(Json::as_str).ok_or_else(|| problem(&"no token"))?;
            let score = entry
                .get(1)
                .and_then(Json::as_f64)
                .ok_or_else(|| problem(&format!("the score of token `{text}` is not a number")))?;
            // The third item is the type; the token's own spelling marks further control tokens.
            let kind = match entry.get(2).and_then(Json::as_str) {
                _ if normal.contains(&text) => TokenType::Normal,
                Some("UNKNOWN") => TokenType::Unknown,
                Some("CONTROL") => TokenType::Control,
                Some("BYTE") => TokenType::Byte,
                _ if text.starts_with("<|plamo:") && text.ends_with("|>") => TokenType::Control,
                _ => TokenType::Normal,
            };
            table.push_scored(text, kind, score as f32);
        }
        // The reference numbers these from 1.
        let n_tokens = table.len();
        let n_slots = bpe::slots_len(self.ctx.vocab_size.unwrap_or(n_tokens as u64), FILE)?;
        for number in 1..=n_slots.saturating_sub(n_tokens) {
            table.push_scored(format!("[PAD{number}]"), TokenType::Unused, -1000.0);
        }
        self.pad_to_rows(&mut table, Some(-1000.0))?;
        // Ids are found by text: the file has no numbers.
        let id_of = |text: &str| {
            let at = table.texts.iter().position(|other| other == text.as_bytes());
            at.and_then(|at| u32::try_from(at).ok())
        };
        let mut ids = Vec::new();
        for (name, key) in [
            ("bos_token", keys::BOS_ID),
            ("eos_token", keys::EOS_ID),
            ("pad_token", keys::PAD_ID),
            ("sep_token", keys::SEP_ID),
            ("unk_token", keys::UNK_ID),
        ] {
            let Some(text) = config.get(name).and_then(Json::as_str) else { continue };
            match id_of(text) {
                Some(id) => ids.push((key, id)),
                None => {
                    let problem = format!("`{name}` is `{text}`, which is not in `{FILE}`");
                    return Err(malformed("tokenizer_config.json", &problem));
                }
            }
        }
        let no_end = || malformed(FILE, &format!("no token `{turn_end}`, which ends a turn"));
        ids.push((keys::EOT_ID, id_of(turn_end).ok_or_else(no_end)?));
        self.set_vocab(model, "default", table);
        for (key, id) in ids {
            self.set(key, id);
        }
        self.set(keys::ADD_SPACE_PREFIX, false);
        for (name, key) in [("add_bos_token", keys::ADD_BOS), ("add_eos_token", keys::ADD_EOS)] {
            if let Some(adds) = config.get(name).and_then(Json::as_bool) {
                self.set(key, adds);
            }
        }
        Ok(())
    }

    /// tokenizer.jsonl, then the chat template: chat_template.jinja, or `chat_template` of tokenizer_config.json. An
    /// empty template is ignored.
    pub fn json_lines_with_template(&mut self, lines: &JsonLines) -> Result<(), VocabError> {
        self.json_lines(lines)?;
        let config = tokenizer_config(self.input)?.unwrap_or_default();
        let value = match template::jinja_file(self.input)? {
            Some(text) => Json::String(text),
            None => config.get("chat_template").cloned().unwrap_or_default(),
        };
        match template::from_json(&value) {
            Ok(Some(templates)) if is_truthy(&value) => template::write_keys(self, &templates),
            Ok(_) => {}
            Err(problem) => self.note(problem),
        }
        Ok(())
    }
}
