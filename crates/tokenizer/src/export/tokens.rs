//! Vocabulary and special tokens of a file, the common input of all kinds of tokenizers.

use std::collections::HashMap;

use serde_json::{Map, Value as Json, json};

use crate::token_type::TokenType;

pub(super) struct Tokens {
    pub texts: Vec<String>,
    pub kinds: Vec<TokenType>,
    /// Id by text; the last of equal texts, like in llama.cpp.
    pub ids: HashMap<String, usize>,
    pub bos: Option<usize>,
    pub eos: Option<usize>,
    /// True if the second of two texts gets a start token too.
    pub bos_of_second: bool,
    pub separator: Option<usize>,
    pub unknown: Option<usize>,
    /// True if a space is prepended to a text; `None` if the file does not specify it.
    pub space_prefix: Option<bool>,
}

impl Tokens {
    /// True if an id is a filler that a conversion inserts.
    pub fn is_filler(&self, id: usize) -> bool {
        self.kinds[id] == TokenType::Unused && self.texts[id] == format!("[PAD{id}]")
    }

    pub fn control(&self) -> Vec<String> {
        let texts = self.texts.iter().zip(&self.kinds);
        texts.filter(|(_, kind)| **kind == TokenType::Control).map(|(text, _)| text.clone()).collect()
    }

    /// `added_tokens`: tokens that are matched before anything else.
    pub fn added(&self) -> Vec<Json> {
        // Ordinary tokens, bytes and fillers are not matched as text.
        let added = |kind| matches!(kind, TokenType::Control | TokenType::UserDefined | TokenType::Unknown);
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
                    "special": self.kinds[id] != TokenType::UserDefined,
                })
            })
            .collect()
    }

    /// Step that adds start and end tokens; `None` if no tokens are added.
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
