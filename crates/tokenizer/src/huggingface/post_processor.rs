//! Special tokens in a post-processor of tokenizer.json: those added around a text, and names missing from
//! tokenizer_config.json.
//!
//! Source: `SpecialVocab._try_load_from_tokenizer_json` in `gguf-py/gguf/vocab.py`.

use serde_json::{Map, Value as Json};

use super::hf::{step_type, steps};
use crate::json::{is_truthy, list};

/// Values by name, in order of first occurrence, which is the order of keys in the file.
pub(super) type ByName<T> = Vec<(&'static str, T)>;

/// Sets a value; an existing name keeps its position.
pub(super) fn set<T>(list: &mut ByName<T>, name: &'static str, value: T) {
    match list.iter_mut().find(|(other, _)| *other == name) {
        Some((_, old)) => *old = value,
        None => list.push((name, value)),
    }
}

/// Sets a value for a name that has no value.
pub(super) fn set_default<T>(list: &mut ByName<T>, name: &'static str, value: T) {
    if !list.iter().any(|(other, _)| *other == name) {
        list.push((name, value));
    }
}

/// The special tokens of tokenizer_config.json, completed by a post-processor.
pub(super) struct PostProcessor {
    /// tokenizer_config.json, with added special tokens that only the processor names; `None` if the file is
    /// missing or empty.
    pub config: Option<Map<String, Json>>,
    /// Names of special tokens to search; gains `eot` or `eom`.
    pub types: Vec<&'static str>,
    /// Special tokens that are added around a text.
    pub add: ByName<bool>,
    pub notes: Vec<String>,
    /// Special tokens in the form of tokenizer_config.json: a text, or an object that contains it.
    bos: Option<Json>,
    cls: Option<Json>,
    eos: Option<Json>,
    sep: Option<Json>,
}

impl PostProcessor {
    /// Starts from tokenizer_config.json. BERT's names (`cls`, `sep`) replace missing `bos` and `eos`.
    pub(super) fn new(config: Option<Map<String, Json>>, types: Vec<&'static str>) -> Self {
        let named = |name: &str| {
            config.as_ref().and_then(|config| config.get(name)).filter(|value| is_truthy(value)).cloned()
        };
        let (bos, cls) = (named("bos_token"), named("cls_token"));
        let (eos, sep) = (named("eos_token"), named("sep_token"));
        let mut special =
            PostProcessor { config, types, add: Vec::new(), notes: Vec::new(), bos, cls, eos, sep };
        if special.bos.is_none() && special.cls.is_some() {
            special.bos = special.cls.clone();
            special.name("bos_token", special.bos.clone());
        }
        if special.eos.is_none() && special.sep.is_some() {
            special.eos = special.sep.clone();
            special.name("eos_token", special.eos.clone());
        }
        special
    }

    /// Names a special token in tokenizer_config.json, if it exists.
    fn name(&mut self, key: &str, token: Option<Json>) {
        if let Some(config) = &mut self.config {
            config.insert(key.to_owned(), token.unwrap_or(Json::Null));
        }
    }

    /// Reads the post-processor, or each of a sequence.
    pub(super) fn read(&mut self, processor: &Json) {
        if !is_truthy(processor) {
            return;
        }
        let one = std::slice::from_ref(processor);
        let steps = processor.get("processors").and_then(Json::as_array).map_or(one, Vec::as_slice);
        for step in steps {
            match step.get("type").and_then(Json::as_str) {
                // Byte-level processors add tokens only if another step does.
                Some("ByteLevel") => {
                    set_default(&mut self.add, "bos", false);
                    set_default(&mut self.add, "eos", false);
                }
                Some("RobertaProcessing") => self.read_roberta(step),
                Some("TemplateProcessing") => self.read_template(step),
                _ => {}
            }
        }
    }

    /// `<s> A </s>` and `<s> A </s> </s> B </s>`, for any token names: `cls` and `sep` are pairs of text and
    /// id.
    fn read_roberta(&mut self, step: &Json) {
        for name in ["bos", "eos", "sep"] {
            set(&mut self.add, name, true);
        }
        let named = |key: &str, other: &Option<Json>| match step.get(key) {
            Some(pair) => pair.get(0).cloned(),
            None => other.clone(),
        };
        if self.cls.is_none() && self.config.is_some() {
            self.cls = named("cls", &self.bos);
            self.name("cls_token", self.cls.clone());
        }
        if self.sep.is_none() && self.config.is_some() {
            self.sep = named("sep", &self.eos);
            self.name("sep_token", self.sep.clone());
        }
    }

    /// Templates for one text and for a pair: determines whether bos, eos and sep are added around them.
    fn read_template(&mut self, step: &Json) {
        let single = list(step, "single");
        // A template of one part is only the text.
        let (mut first, mut last) = (None, None);
        if single.len() > 1 {
            first = special_of(single.first());
            if let Some(token) = &first {
                self.read_first(token);
            }
            last = special_of(single.last());
            if let Some(token) = &last {
                self.read_last(token);
            }
        }
        self.read_pair(list(step, "pair"), first.as_ref(), last.as_ref());
    }

    fn read_first(&mut self, token: &Json) {
        let is_named = |special: &PostProcessor| {
            [&special.bos, &special.cls].into_iter().any(|name| name.as_ref() == Some(token))
        };
        if self.config.is_none() {
            self.bos = Some(token.clone());
        } else if !is_named(self) {
            if self.bos.is_none() {
                self.bos = Some(token.clone());
                self.name("bos_token", self.bos.clone());
            }
            if self.cls.is_none() {
                self.cls = Some(token.clone());
                self.name("cls_token", self.cls.clone());
            }
        }
        // Otherwise llama.cpp cannot prepend the token.
        let known = is_named(self);
        set(&mut self.add, "bos", known);
        if !known {
            self.notes
                .push(format!("the post-processor adds {token} before a text, which is not the BOS token"));
        }
    }

    fn read_last(&mut self, token: &Json) {
        if self.config.is_none() {
            self.eos = Some(token.clone());
        } else if self.eos.as_ref() != Some(token) {
            // The token that ends a text differs from eos of tokenizer_config.json, which then ends a turn or
            // a message.
            if let Some(name) = ["eot", "eom"].into_iter().find(|name| !self.types.contains(name)) {
                self.types.push(name);
                self.name(&format!("{name}_token"), self.eos.clone());
            } else {
                self.notes.push(format!("the post-processor's {token} is used as the EOS token"));
            }
            self.eos = Some(token.clone());
            self.name("eos_token", self.eos.clone());
        }
        let known = self.eos.as_ref() == Some(token);
        set(&mut self.add, "eos", known);
    }

    /// Template for a pair: detects a separator between its texts. In `[first] A [x] [y] B [last]` the ends
    /// are removed first, then x and y are examined.
    fn read_pair(&mut self, mut pair: &[Json], first: Option<&Json>, last: Option<&Json>) {
        if pair.is_empty() {
            return;
        }
        if first.is_some() && special_of(pair.first()).as_ref() == first {
            pair = &pair[1..];
        }
        if last.is_some() && special_of(pair.last()).as_ref() == last {
            pair = &pair[..pair.len() - 1];
        }
        let text = |part: Option<&Json>| {
            part.and_then(|part| part.get("Sequence")?.get("id")?.as_str().map(str::to_owned))
        };
        let is_pair = text(pair.first()).as_deref() == Some("A") && text(pair.last()).as_deref() == Some("B");
        if !is_pair || pair.len() < 3 {
            return;
        }
        let between = &pair[1..pair.len() - 1];
        let separates = |part: &Json| {
            special_of(Some(part))
                .is_some_and(|token| Some(&token) == self.sep.as_ref() || Some(&token) == self.eos.as_ref())
        };
        // If each text has its own end, the first of two tokens is that end, and only a second one separates.
        let mut add_sep = separates(&between[0]) && last.is_none();
        if between.len() == 2 && separates(&between[1]) {
            add_sep = true;
        }
        set(&mut self.add, "sep", add_sep);
        if add_sep && self.sep.is_none() {
            self.name("sep_token", self.eos.clone());
        }
    }
}

/// The special token of a template's part.
fn special_of(part: Option<&Json>) -> Option<Json> {
    part?.get("SpecialToken")?.get("id").filter(|id| is_truthy(id)).cloned()
}

/// True for a special token before a text, and for one after it.
pub(super) fn added_around(processor: &Json) -> (bool, bool) {
    let mut around = (false, false);
    for step in steps(processor) {
        let single = list(step, "single");
        let (starts, ends) = match step_type(step) {
            "RobertaProcessing" | "BertProcessing" => (true, true),
            _ => (special_of(single.first()).is_some(), special_of(single.last()).is_some()),
        };
        around = (around.0 | starts, around.1 | ends);
    }
    around
}

/// True for classes of transformers that replace the post-processor of tokenizer.json.
///
/// Source: `models/*/tokenization_*.py` of transformers 5.24.
pub(super) fn makes_own_processor(class: &str) -> bool {
    const CLASSES: [&str; 16] = [
        "Albert",
        "Bert",
        "BigBird",
        "CLIP",
        "Camembert",
        "Deberta",
        "DebertaV2",
        "DistilBert",
        "Electra",
        "MBart",
        "MPNet",
        "Nllb",
        "Roberta",
        "T5",
        "Whisper",
        "XLMRoberta",
    ];
    class.strip_suffix("Tokenizer").is_some_and(|name| CLASSES.contains(&name))
}
