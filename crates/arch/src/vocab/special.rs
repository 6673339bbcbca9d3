//! What all kinds share: special ids, `add_bos_token` and its like, chat templates, normalizer
//! flags, in the reference's order.
//!
//! Three files are asked. tokenizer.json's post-processor tells what is put around a text, and
//! may name special tokens that tokenizer_config.json does not; that file names special tokens by
//! text; config.json has ids, which count last. The first that speaks decides.
//!
//! Source: `SpecialVocab` in `gguf-py/gguf/vocab.py`.

use gguf::Value;
use serde_json::{Map, Value as Json};

use super::error::VocabError;
use super::hf::{AddedToken, HfTokenizer, json_object, tokenizer_config};
use super::keys::{self, Keys};
use super::template;
use crate::Input;

/// What a caller wants of the special tokens.
#[derive(Debug, Default)]
pub(super) struct Options {
    /// Names to look for; empty for the usual ones.
    pub types: Vec<&'static str>,
    /// Ids from here on are left out with a note.
    pub n_vocab: Option<usize>,
    /// Ids that are set where no file gives one.
    pub defaults: Vec<(&'static str, u32)>,
    /// Ids that are set where no file gives any id at all, before [`Options::defaults`].
    pub if_none: Vec<(&'static str, u32)>,
    /// Ids that are set whatever the files say.
    pub overrides: Vec<(&'static str, u32)>,
    /// Ids that take the place of ones that the files give.
    pub replacements: Vec<(&'static str, u32)>,
    /// Whether the template was written before.
    pub without_template: bool,
    /// The template where the checkpoint has none.
    pub template_if_none: Option<&'static str>,
}

/// Special token and the key of its id. Names without a key (`cls`, and Code Llama's `prefix`,
/// `suffix`, `middle`) are looked for, but not written.
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

/// Special token and the key that says whether texts get it.
const ADD_KEYS: [(&str, &str); 3] = [("bos", keys::ADD_BOS), ("eos", keys::ADD_EOS), ("sep", keys::ADD_SEP)];

/// Values by name, in the order in which the names came first.
type ByName<T> = Vec<(&'static str, T)>;

fn set<T>(list: &mut ByName<T>, name: &'static str, value: T) {
    match list.iter_mut().find(|(have, _)| *have == name) {
        Some((_, old)) => *old = value,
        None => list.push((name, value)),
    }
}

fn set_default<T>(list: &mut ByName<T>, name: &'static str, value: T) {
    if !list.iter().any(|(have, _)| *have == name) {
        list.push((name, value));
    }
}

/// What the files say so far.
#[derive(Default)]
struct Special<'a> {
    types: Vec<&'static str>,
    n_vocab: Option<usize>,
    ids: ByName<u32>,
    add: ByName<bool>,
    lowercase: Option<Json>,
    strip_accents: Option<Json>,
    notes: Option<&'a mut Vec<String>>,
}

/// Puts special ids, flags, templates and normalizer flags.
///
/// `hf` is tokenizer.json, if there is one; its vocabulary does not count here.
pub(super) fn put(
    input: &Input<'_>,
    hf: Option<&HfTokenizer>,
    options: &Options,
    n_tokens: usize,
    keys: &mut Keys,
    notes: &mut Vec<String>,
) -> Result<(), VocabError> {
    let types = match options.types.as_slice() {
        [] => vec!["bos", "eos", "unk", "sep", "pad", "cls", "mask"],
        types => types.to_vec(),
    };
    let mut special = Special { types, n_vocab: options.n_vocab, notes: Some(notes), ..Special::default() };
    let mut config = tokenizer_config(input)?.filter(|config| !config.is_empty());
    if let Some(hf) = hf {
        special.read_normalizer(&hf.normalizer);
        special.read_post_processor(&hf.post_processor, &mut config);
    }
    let mut templates = None;
    if let Some(config) = &config {
        templates = template::read(input, config, special.notes.as_deref_mut())?;
        special.read_names(config, hf.map_or(&[], |hf| hf.added_tokens.as_slice()))?;
    }
    special.read_ids(&input.config)?;
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
        if special.ids.iter().any(|(have, _)| *have == name) {
            set(&mut special.ids, name, id);
        }
    }
    special.put(n_tokens, keys);
    match (templates, options.template_if_none) {
        _ if options.without_template => {}
        (Some(templates), _) => template::put(&templates, keys, special.notes.as_deref_mut()),
        (None, Some(name)) => keys.put(keys::CHAT_TEMPLATE, name),
        (None, None) => {}
    }
    for (key, value) in [(keys::LOWERCASE, &special.lowercase), (keys::STRIP_ACCENTS, &special.strip_accents)]
    {
        if let Some(Json::Bool(value)) = value {
            keys.put(key, *value);
        }
    }
    Ok(())
}

impl Special<'_> {
    fn note(&mut self, note: String) {
        if let Some(notes) = &mut self.notes {
            notes.push(note);
        }
    }

    fn put(&mut self, n_tokens: usize, keys: &mut Keys) {
        for (name, id) in std::mem::take(&mut self.ids) {
            if let Some((_, key)) = ID_KEYS.iter().find(|(have, _)| *have == name) {
                if id as usize >= n_tokens {
                    self.note(format!("`{key}` is {id}, but there are {n_tokens} tokens"));
                }
                keys.put(key, id);
            }
        }
        for (name, value) in &self.add {
            if let Some((_, key)) = ADD_KEYS.iter().find(|(have, _)| have == name) {
                keys.put(key, Value::Bool(*value));
            }
        }
    }

    /// Lowercasing and stripping of accents, wherever in a sequence they stand.
    fn read_normalizer(&mut self, normalizer: &Json) {
        match normalizer.get("type").and_then(Json::as_str) {
            Some("Lowercase") => self.lowercase = Some(Json::Bool(true)),
            Some("StripAccents") => self.strip_accents = Some(Json::Bool(true)),
            Some("BertNormalizer") => {
                for (key, flag) in
                    [("lowercase", &mut self.lowercase), ("strip_accents", &mut self.strip_accents)]
                {
                    if let Some(value) = normalizer.get(key) {
                        *flag = Some(value.clone());
                    }
                }
            }
            Some("Sequence") => {
                for step in items(normalizer, "normalizers") {
                    self.read_normalizer(step);
                }
            }
            _ => {}
        }
    }

    /// What is put around a text. `config` gains the special tokens that only the processor names.
    fn read_post_processor(&mut self, processor: &Json, config: &mut Option<Map<String, Json>>) {
        let get = |config: &Option<Map<String, Json>>, name: &str| {
            config.as_ref().and_then(|config| config.get(name)).filter(|value| is_true(value)).cloned()
        };
        let write = |config: &mut Option<Map<String, Json>>, name: &str, value: &Option<Json>| {
            if let Some(config) = config {
                config.insert(name.to_owned(), value.clone().unwrap_or(Json::Null));
            }
        };
        let mut names = Names {
            bos: get(config, "bos_token"),
            cls: get(config, "cls_token"),
            eos: get(config, "eos_token"),
            sep: get(config, "sep_token"),
        };
        if names.bos.is_none() && names.cls.is_some() {
            names.bos = names.cls.clone();
            write(config, "bos_token", &names.bos);
        }
        if names.eos.is_none() && names.sep.is_some() {
            names.eos = names.sep.clone();
            write(config, "eos_token", &names.eos);
        }
        if !is_true(processor) {
            return;
        }
        let one = std::slice::from_ref(processor);
        let steps = processor.get("processors").and_then(Json::as_array).map_or(one, Vec::as_slice);
        for step in steps {
            match step.get("type").and_then(Json::as_str) {
                Some("ByteLevel") => {
                    set_default(&mut self.add, "bos", false);
                    set_default(&mut self.add, "eos", false);
                }
                Some("RobertaProcessing") => {
                    for name in ["bos", "eos", "sep"] {
                        set(&mut self.add, name, true);
                    }
                    let named = |key: &str, other: &Option<Json>| match step.get(key) {
                        Some(pair) => pair.get(0).cloned(),
                        None => other.clone(),
                    };
                    if names.cls.is_none() && config.is_some() {
                        names.cls = named("cls", &names.bos);
                        write(config, "cls_token", &names.cls);
                    }
                    if names.sep.is_none() && config.is_some() {
                        names.sep = named("sep", &names.eos);
                        write(config, "sep_token", &names.sep);
                    }
                }
                Some("TemplateProcessing") => self.read_template(step, &mut names, config, write),
                _ => {}
            }
        }
    }

    /// A template for one text and one for a pair: whether bos, eos and sep are put around them.
    fn read_template(
        &mut self,
        step: &Json,
        names: &mut Names,
        config: &mut Option<Map<String, Json>>,
        write: impl Fn(&mut Option<Map<String, Json>>, &str, &Option<Json>),
    ) {
        let single = items(step, "single");
        let (mut first, mut last) = (None, None);
        if single.len() > 1 {
            first = special_of(single.first());
            if let Some(token) = &first {
                let is_first = |name: &Option<Json>| name.as_ref() == Some(token);
                if config.is_none() {
                    names.bos = first.clone();
                } else if !is_first(&names.bos) && !is_first(&names.cls) {
                    if names.bos.is_none() {
                        names.bos = first.clone();
                        write(config, "bos_token", &names.bos);
                    }
                    if names.cls.is_none() {
                        names.cls = first.clone();
                        write(config, "cls_token", &names.cls);
                    }
                }
                let known = is_first(&names.bos) || is_first(&names.cls);
                set(&mut self.add, "bos", known);
                if !known {
                    self.note(format!(
                        "the post-processor puts {token} before a text, which is not the bos token"
                    ));
                }
            }
            last = special_of(single.last());
            if let Some(token) = &last {
                if config.is_none() {
                    names.eos = last.clone();
                } else if names.eos.as_ref() != Some(token) {
                    // The token that ends a text is not the one that tokenizer_config.json calls
                    // eos: that one then ends a turn, or a message.
                    if let Some(name) = ["eot", "eom"].into_iter().find(|name| !self.types.contains(name)) {
                        self.types.push(name);
                        write(config, &format!("{name}_token"), &names.eos);
                    } else {
                        self.note(format!("the post-processor's {token} takes the place of the eos token"));
                    }
                    names.eos = last.clone();
                    write(config, "eos_token", &names.eos);
                }
                let known = names.eos.as_ref() == Some(token);
                set(&mut self.add, "eos", known);
            }
        }
        self.read_pair(items(step, "pair"), &first, &last, names, config, write);
    }

    /// The template for a pair: whether a separator stands between its texts.
    fn read_pair(
        &mut self,
        mut pair: &[Json],
        first: &Option<Json>,
        last: &Option<Json>,
        names: &Names,
        config: &mut Option<Map<String, Json>>,
        write: impl Fn(&mut Option<Map<String, Json>>, &str, &Option<Json>),
    ) {
        if pair.is_empty() {
            return;
        }
        if first.is_some() && special_of(pair.first()) == *first {
            pair = &pair[1..];
        }
        if last.is_some() && special_of(pair.last()) == *last {
            pair = &pair[..pair.len() - 1];
        }
        let text = |part: Option<&Json>| {
            part.and_then(|part| part.get("Sequence")?.get("id")?.as_str().map(str::to_owned))
        };
        if text(pair.first()).as_deref() != Some("A")
            || text(pair.last()).as_deref() != Some("B")
            || pair.len() < 3
        {
            return;
        }
        let between = &pair[1..pair.len() - 1];
        let separates = |part: &Json| {
            special_of(Some(part))
                .is_some_and(|token| Some(&token) == names.sep.as_ref() || Some(&token) == names.eos.as_ref())
        };
        let mut add_sep = separates(&between[0]) && last.is_none();
        if between.len() == 2 && separates(&between[1]) {
            add_sep = true;
        }
        set(&mut self.add, "sep", add_sep);
        if add_sep && names.sep.is_none() {
            write(config, "sep_token", &names.eos);
        }
    }

    /// Flags and special tokens by text, with ids from the added tokens of tokenizer.json.
    fn read_names(
        &mut self,
        config: &Map<String, Json>,
        added_tokens: &[AddedToken],
    ) -> Result<(), VocabError> {
        for name in self.types.clone() {
            if let Some(Json::Bool(wanted)) = config.get(&format!("add_{name}_token")) {
                match self.add.iter().find(|(have, _)| *have == name) {
                    None => self.add.push((name, *wanted)),
                    Some((_, does)) if does != wanted => {
                        let does = *does;
                        self.note(format!(
                            "tokenizer_config.json says `add_{name}_token` = {wanted}, the post-processor does {does}: the latter counts"
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
            let Some(text) = text else { continue };
            let id = added_tokens.iter().find(|token| token.content == text).and_then(|token| token.id);
            self.set_id(name, "tokenizer.json", id.map(Json::from).as_ref())?;
        }
        Ok(())
    }

    /// Ids from config.json, or from its `text_config`.
    fn read_ids(&mut self, config: &Json) -> Result<(), VocabError> {
        for name in self.types.clone() {
            let key = format!("{name}_token_id");
            let is_there = |value: &&Json| !value.is_null();
            let id = config.get(&key).filter(is_there).or_else(|| config.get("text_config")?.get(&key));
            self.set_id(name, "config.json", id)?;
        }
        Ok(())
    }

    /// The first id counts; what is not a number (a list of several eos) is no id.
    fn set_id(&mut self, name: &'static str, file: &str, id: Option<&Json>) -> Result<(), VocabError> {
        let Some(id) = id.filter(|id| id.is_i64() || id.is_u64()) else { return Ok(()) };
        if let Some(id) = id.as_i64().filter(|id| *id < 0) {
            return Err(VocabError::NegativeId { key: format!("{name}_token_id"), id });
        }
        let number = id.as_u64().and_then(|id| u32::try_from(id).ok());
        match (number, self.n_vocab) {
            (Some(number), None) => set_default(&mut self.ids, name, number),
            (Some(number), Some(n_vocab)) if (number as usize) < n_vocab => {
                set_default(&mut self.ids, name, number)
            }
            (_, n_vocab) => {
                let room = n_vocab.map_or(u64::from(u32::MAX), |n| n as u64);
                self.note(format!(
                    "`{file}`: `{name}_token_id` is {id}, but there are {room} tokens: left out"
                ));
            }
        }
        Ok(())
    }
}

/// Special tokens as tokenizer_config.json spells them: a text, or an object that holds it.
struct Names {
    bos: Option<Json>,
    cls: Option<Json>,
    eos: Option<Json>,
    sep: Option<Json>,
}

/// The special token of a template's part.
fn special_of(part: Option<&Json>) -> Option<Json> {
    part?.get("SpecialToken")?.get("id").filter(|id| is_true(id)).cloned()
}

/// A list in an object; nothing if it is absent.
fn items<'a>(object: &'a Json, key: &str) -> &'a [Json] {
    object.get(key).and_then(Json::as_array).map_or(&[], Vec::as_slice)
}

/// Python's idea of truth, by which the reference decides whether a value is there.
pub(super) fn is_true(value: &Json) -> bool {
    match value {
        Json::Null => false,
        Json::Bool(value) => *value,
        Json::Number(number) => number.as_f64() != Some(0.0),
        Json::String(text) => !text.is_empty(),
        Json::Array(items) => !items.is_empty(),
        Json::Object(items) => !items.is_empty(),
    }
}

/// The text of chat_template.json's only key.
pub(super) fn template_of_json(input: &Input<'_>) -> Result<Option<Json>, VocabError> {
    Ok(json_object(input, "chat_template.json")?.and_then(|mut object| object.remove("chat_template")))
}
