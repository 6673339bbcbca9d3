//! Keys that all kinds share: special ids, `add_bos_token` and similar flags, chat templates, normalizer
//! flags, in the reference's order.
//!
//! Three files are read. tokenizer.json's post-processor states what is added around a text, and may name
//! special tokens that tokenizer_config.json does not. tokenizer_config.json names special tokens by text.
//! config.json has ids, with the lowest priority. The first file with a value wins.
//!
//! Source: `SpecialVocab` in `gguf-py/gguf/vocab.py`.

use gguf_container::Value;
use serde_json::{Map, Value as Json};

use super::error::VocabError;
use super::hf::{AddedToken, HfTokenizer, class_of, step_type, steps, tokenizer_config};
use super::post_processor::{ByName, PostProcessor, added_around, makes_own_processor, set, set_default};
use super::template;
use super::writer::TokenizerWriter;
use crate::{TokenizerFiles, keys};

/// Options for special tokens.
#[derive(Debug, Default)]
pub struct SpecialOptions {
    /// Names to search; empty for the usual ones.
    pub types: Vec<&'static str>,
    /// Ids from here on are left out with a note.
    pub n_vocab: Option<usize>,
    /// Ids that are set if no file gives one.
    pub defaults: Vec<(&'static str, u32)>,
    /// Ids that are set if no file gives any id, before [`SpecialOptions::defaults`].
    pub if_none: Vec<(&'static str, u32)>,
    /// Ids that are always set.
    pub overrides: Vec<(&'static str, u32)>,
    /// Ids that replace those of the files.
    pub replacements: Vec<(&'static str, u32)>,
    /// True if the config of the model has no ids of the tokenizer.
    pub without_config: bool,
    /// True if the template was already written.
    pub without_template: bool,
    /// Template for a checkpoint without one.
    pub template_if_none: Option<&'static str>,
}

/// Special token and the key of its id. Names without a key (`cls`, and Code Llama's `prefix`, `suffix`,
/// `middle`) are read, but not written.
const ID_KEYS: [(&str, &str); 8] = [
    ("bos", keys::BOS_ID),
    ("eos", keys::EOS_ID),
    ("unk", keys::UNK_ID),
    ("sep", keys::SEP_ID),
    ("pad", keys::PAD_ID),
    ("mask", keys::MASK_ID),
    ("eot", keys::EOT_ID),
    ("eom", keys::EOM_ID),
];

/// Special token and the key that determines whether it is added to texts.
const ADD_KEYS: [(&str, &str); 3] = [("bos", keys::ADD_BOS), ("eos", keys::ADD_EOS), ("sep", keys::ADD_SEP)];

struct Special<'s, 'w> {
    writer: &'s mut TokenizerWriter<'w>,
    types: Vec<&'static str>,
    n_vocab: Option<usize>,
    ids: ByName<u32>,
    add: ByName<bool>,
    lowercase: Option<Json>,
    strip_accents: Option<Json>,
}

/// Writes special ids, flags, templates and normalizer flags, in this order.
///
/// `hf` is tokenizer.json, if it exists; its vocabulary is not used here. Ids from `n_tokens` on are written
/// with a note.
pub(super) fn write_keys(
    writer: &mut TokenizerWriter<'_>,
    hf: Option<&HfTokenizer>,
    options: &SpecialOptions,
    n_tokens: usize,
) -> Result<(), VocabError> {
    let input = writer.input;
    let types = match options.types.as_slice() {
        [] => vec!["bos", "eos", "unk", "sep", "pad", "cls", "mask"],
        types => types.to_vec(),
    };
    let mut special = Special {
        writer,
        types,
        n_vocab: options.n_vocab,
        ids: Vec::new(),
        add: Vec::new(),
        lowercase: None,
        strip_accents: None,
    };
    // 1. The post-processor: flags, and names that the config lacks. Python treats an empty config like a
    //    missing one.
    let mut config = tokenizer_config(input)?.filter(|config| !config.is_empty());
    if let Some(hf) = hf {
        special.read_normalizer(&hf.normalizer);
        let mut processor = PostProcessor::new(config, std::mem::take(&mut special.types));
        processor.read(&hf.post_processor);
        (special.types, special.add, config) = (processor.types, processor.add, processor.config);
        special.writer.vocab.notes.append(&mut processor.notes);
    }
    // 2. tokenizer_config.json: flags that are not set yet, and tokens by text, whose ids stand in
    // tokenizer.json.
    let mut templates = None;
    if let Some(config) = &config {
        templates = template::read(special.writer, config)?;
        special.read_names(config, hf.map_or(&[], |hf| hf.added_tokens.as_slice()));
    }
    // 3. config.json: missing ids. Then the architecture's defaults.
    if !options.without_config {
        special.read_ids(input.config);
    }
    if special.ids.is_empty() {
        special.ids.extend(&options.if_none);
    }
    for &(name, id) in &options.defaults {
        set_default(&mut special.ids, name, id);
    }
    for &(name, id) in &options.overrides {
        set(&mut special.ids, name, id);
    }
    for &(name, id) in &options.replacements {
        if special.ids.iter().any(|(other, _)| *other == name) {
            set(&mut special.ids, name, id);
        }
    }
    special.read_ends(input);
    special.write_ids_and_flags(n_tokens);
    if let Some(hf) = hf {
        special.write_unwanted(input, hf);
    }
    let Special { writer, lowercase, strip_accents, .. } = special;
    match (templates, options.template_if_none) {
        _ if options.without_template => {}
        (Some(templates), _) => template::write_keys(writer, &templates),
        (None, Some(name)) => writer.set(keys::CHAT_TEMPLATE, name),
        (None, None) => {}
    }
    for (key, value) in [(keys::LOWERCASE, lowercase), (keys::STRIP_ACCENTS, strip_accents)] {
        if let Some(Json::Bool(value)) = value {
            writer.set(key, value);
        }
    }
    Ok(())
}

impl Special<'_, '_> {
    /// `SpecialVocab.add_to_gguf`: ids, then flags; names without a key are ignored.
    fn write_ids_and_flags(&mut self, n_tokens: usize) {
        for (name, id) in std::mem::take(&mut self.ids) {
            if let Some((_, key)) = ID_KEYS.iter().find(|(other, _)| *other == name) {
                if id as usize >= n_tokens {
                    self.writer.note(format!("`{key}`: {id} is out of range for {n_tokens} tokens"));
                }
                self.writer.set(key, id);
            }
        }
        for (name, value) in &self.add {
            if let Some((_, key)) = ADD_KEYS.iter().find(|(other, _)| other == name) {
                self.writer.set(key, Value::Bool(*value));
            }
        }
    }

    /// Lowercasing and stripping of accents, anywhere in a sequence.
    fn read_normalizer(&mut self, normalizer: &Json) {
        for step in steps(normalizer) {
            match step_type(step) {
                "Lowercase" => self.lowercase = Some(Json::Bool(true)),
                "StripAccents" => self.strip_accents = Some(Json::Bool(true)),
                "BertNormalizer" => {
                    self.lowercase = step.get("lowercase").cloned().or(self.lowercase.take());
                    self.strip_accents = step.get("strip_accents").cloned().or(self.strip_accents.take());
                }
                _ => {}
            }
        }
    }

    /// Flags and special tokens by text, with ids from the added tokens of tokenizer.json.
    fn read_names(&mut self, config: &Map<String, Json>, added_tokens: &[AddedToken]) {
        for name in self.types.clone() {
            if let Some(Json::Bool(adds)) = config.get(&format!("add_{name}_token")) {
                // The post-processor takes precedence over the config.
                match self.add.iter().find(|(other, _)| *other == name) {
                    None => self.add.push((name, *adds)),
                    Some((_, does)) if does != adds => {
                        let does = *does;
                        self.writer.note(format!(
                            "`add_{name}_token` is {adds} in tokenizer_config.json, but {does} in the \
                                post-processor, which takes precedence"
                        ));
                    }
                    Some(_) => {}
                }
            }
            let text = match config.get(&format!("{name}_token")) {
                Some(Json::String(text)) => Some(text.as_str()),
                Some(Json::Object(token)) => token.get("content").and_then(Json::as_str),
                _ => None,
            };
            // The first entry counts; a token that is only in the model's list gets no id here.
            let Some(text) = text else { continue };
            let id = added_tokens.iter().find(|token| token.content == text).and_then(|token| token.id);
            self.set_id(name, "tokenizer.json", id.map(Json::from).as_ref());
        }
    }

    /// Ids from config.json, or from its `text_config`.
    fn read_ids(&mut self, config: &Json) {
        for name in self.types.clone() {
            let key = format!("{name}_token_id");
            // If the top level has null, that of `text_config` counts.
            let is_set = |value: &&Json| !value.is_null();
            let id = config.get(&key).filter(is_set).or_else(|| config.get("text_config")?.get(&key));
            self.set_id(name, "config.json", id);
        }
    }

    /// Adds EOS from a list or from generation_config.json. The second entry becomes EOT. The reference
    /// ignores both, and llama.cpp then ends generations with its default token.
    fn read_ends(&mut self, input: &TokenizerFiles<'_>) {
        let has_eos = self.ids.iter().any(|(name, _)| *name == "eos");
        if has_eos || !self.types.contains(&"eos") {
            return;
        }
        let config = input.config;
        let stated = [("config.json", Some(config)), ("config.json", config.get("text_config"))]
            .into_iter()
            .chain([("generation_config.json", input.generation_config)]);
        let ids = |config: Option<&Json>| {
            let stated = config?.get("eos_token_id")?;
            let list = stated.as_array().map_or(std::slice::from_ref(stated), Vec::as_slice);
            let ids = list.iter().filter_map(|id| u32::try_from(id.as_u64()?).ok());
            let ids: Vec<u32> =
                ids.filter(|id| self.n_vocab.is_none_or(|n_vocab| (*id as usize) < n_vocab)).collect();
            (!ids.is_empty()).then_some(ids)
        };
        let Some((file, ids)) = stated.into_iter().find_map(|(file, config)| Some((file, ids(config)?)))
        else {
            return;
        };
        for (name, id) in ["eos", "eot"].into_iter().zip(&ids) {
            set_default(&mut self.ids, name, *id);
        }
        self.writer.note(format!(
            "`eos_token_id` {ids:?} of `{file}` is used for EOS, which no other file states as a single token"
        ));
    }

    /// Adds flags that the reference omits although llama.cpp adds a token by default that the tokenizer does
    /// not.
    ///
    /// Source: `TokenizersBackend` of transformers 5.24, which uses the post-processor of tokenizer.json and
    /// ignores `add_bos_token` next to it.
    fn write_unwanted(&mut self, input: &TokenizerFiles<'_>, hf: &HfTokenizer) {
        // WordPiece always adds both.
        let is_word_piece = hf.model.kind.as_deref() == Some("WordPiece");
        if is_word_piece || makes_own_processor(&class_of(input)) {
            return;
        }
        let [bos, eos] = self.writer.vocab.tokenizer.added_by_default();
        let (starts, ends) = added_around(&hf.post_processor);
        for (key, name, is_unwanted) in
            [(keys::ADD_BOS, "BOS", bos && !starts), (keys::ADD_EOS, "EOS", eos && !ends)]
        {
            if !is_unwanted || self.writer.has(key) {
                continue;
            }
            // The default may depend on the name that the user chose. Files of XVERSE, without scores, keep
            // the reference's keys.
            let model = self.writer.vocab.tokenizer.model().unwrap_or_default();
            let lacks_scores = model == "llama" && !self.writer.has(keys::SCORES);
            if self.writer.ctx.pre.is_some() || lacks_scores {
                self.writer.warn(format!(
                    "tokenizer.json does not add {name}, but llama.cpp does by default: set `{key}` to false"
                ));
                continue;
            }
            self.writer.set(key, false);
            self.writer.note(format!(
                "`{key}` is false: tokenizer.json does not add {name}, but llama.cpp does by default"
            ));
        }
    }

    /// The first id wins; a value that is not a number (a list of several eos) is ignored, and a negative one
    /// means no token.
    fn set_id(&mut self, name: &'static str, file: &str, id: Option<&Json>) {
        let Some(id) = id.filter(|id| id.is_i64() || id.is_u64()) else { return };
        if id.as_i64().is_some_and(|id| id < 0) {
            let message = format!("`{file}`: `{name}_token_id` is {id}, not a token id: omitted");
            if ["bos", "eos"].contains(&name) {
                self.writer.warn(message);
            } else {
                self.writer.note(message);
            }
            return;
        }
        let number = id.as_u64().and_then(|id| u32::try_from(id).ok());
        match (number, self.n_vocab) {
            (Some(number), None) => set_default(&mut self.ids, name, number),
            (Some(number), Some(n_vocab)) if (number as usize) < n_vocab => {
                set_default(&mut self.ids, name, number)
            }
            (_, n_vocab) => {
                let room = n_vocab.map_or(u64::from(u32::MAX), |n| n as u64);
                self.writer.note(format!(
                    "`{file}`: `{name}_token_id` is {id}, out of range for {room} tokens: omitted"
                ));
            }
        }
    }
}
