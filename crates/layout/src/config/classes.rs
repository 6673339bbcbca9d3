//! Config classes of transformers: fields with defaults and accepted types.
//!
//! `classes.json` states them as a release of transformers does; `scripts/config-classes` writes it. Each class is named by
//! a row of its family, with the changes that no data can state ([`crate::Arch::configs`]).
//!
//! Fields that no converter reads (dropout, initializer range) are listed because their types decide whether
//! transformers accepts the file.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;
use serde_json::{Map, Value as Json};

use super::rope;

/// Changes a config, or returns the reason to reject the file.
pub type Adjust = fn(&mut Map<String, Json>) -> Result<(), String>;

/// A config class of transformers.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct ConfigClass {
    /// `model_type` of the files that it reads, and its name in `classes.json`.
    pub model_type: &'static str,
    /// Further changes of the class, after defaults and before RoPE parameters.
    pub adjust: Adjust,
}

impl ConfigClass {
    /// The class of a `model_type`. `scripts/config-classes` finds the names by this call.
    pub const fn new(model_type: &'static str) -> ConfigClass {
        ConfigClass { model_type, adjust: |_| Ok(()) }
    }

    /// This class with further changes.
    #[must_use]
    pub const fn adjusted(self, adjust: Adjust) -> ConfigClass {
        ConfigClass { adjust, ..self }
    }

    /// The fields, in the order of the class.
    pub fn fields(&self) -> &'static [Field] {
        &self.facts().fields
    }

    /// A field.
    pub fn field(&self, name: &str) -> Option<&'static Field> {
        self.fields().iter().find(|field| field.name == name)
    }

    /// The name in the class of a config key that may be another spelling of a field.
    pub fn full_name<'a>(&self, key: &'a str) -> &'a str {
        self.facts().renamed.get(key).copied().unwrap_or(key)
    }

    /// True if a value is the default of the field `name`.
    pub fn has_default(&self, name: &str, value: &Json) -> bool {
        self.field(name).is_some_and(|Field { default, .. }| {
            default == value || default.is_number() && default.as_f64() == value.as_f64()
        })
    }

    /// The data of the class. One from outside of the project, which the file does not have, has no fields.
    fn facts(&self) -> &'static Facts {
        static NONE: Facts = Facts {
            default_theta: 0.0,
            partial_rotary_factor: None,
            renamed: BTreeMap::new(),
            filled: Vec::new(),
            keeps_rope: false,
            heads_divide_hidden: false,
            fields: Vec::new(),
        };
        CLASSES.get(self.model_type).unwrap_or(&NONE)
    }
}

/// The classes by `model_type`. Every golden fails if the file does not parse.
static CLASSES: LazyLock<BTreeMap<&'static str, Facts>> = LazyLock::new(|| parse().unwrap_or_default());

fn parse() -> serde_json::Result<BTreeMap<&'static str, Facts>> {
    #[derive(Deserialize)]
    struct Classes {
        #[serde(borrow)]
        classes: BTreeMap<&'static str, Facts>,
    }
    serde_json::from_str::<Classes>(include_str!("classes.json")).map(|file| file.classes)
}

/// A class, as the file states it.
#[derive(Debug, Deserialize)]
struct Facts {
    /// For files without `rope_theta`.
    #[serde(default = "usual_theta")]
    default_theta: f64,
    /// The rotated share of a head, for files without the key.
    partial_rotary_factor: Option<f64>,
    /// Fields by their other spellings.
    #[serde(default, borrow)]
    renamed: BTreeMap<&'static str, &'static str>,
    /// Fields that are computed from others if they are `null`.
    #[serde(default)]
    filled: Vec<Filled>,
    /// True if `rope_parameters` stay as they are, and flat keys next to them.
    #[serde(default)]
    keeps_rope: bool,
    /// True if the class requires the heads to divide the width.
    #[serde(default)]
    heads_divide_hidden: bool,
    fields: Vec<Field>,
}

fn usual_theta() -> f64 {
    10_000.0
}

/// A field of a config class.
#[derive(Debug, Deserialize)]
#[non_exhaustive]
pub struct Field {
    /// Its key in `config.json`.
    pub name: &'static str,
    types: Types,
    /// The value in files without the key.
    pub default: Json,
}

/// JSON types that a field accepts, such as `int | list[int] | None`.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(try_from = "&str")]
struct Types {
    /// Types of one value, a sum of bits.
    single: u8,
    /// Types of the items of a list, if it may be one.
    items: Option<u8>,
}

impl Types {
    fn accept(self, value: &Json) -> bool {
        match (value, self.items) {
            (Json::Array(items), Some(types)) => items.iter().all(|item| bit(item) & types != 0),
            (Json::Array(_), None) => false,
            (value, _) => bit(value) & self.single != 0,
        }
    }
}

impl TryFrom<&str> for Types {
    type Error = String;

    fn try_from(text: &str) -> Result<Types, String> {
        let mut types = Types::default();
        for name in text.split(" | ") {
            match name.strip_prefix("list") {
                Some("") => types.items = Some(u8::MAX),
                Some(items) => {
                    let items = items.trim_matches(['[', ']']).split('|');
                    types.items = Some(items.map(named).try_fold(0, |bits, bit| bit.map(|bit| bits | bit))?);
                }
                None => types.single |= named(name)?,
            }
        }
        Ok(types)
    }
}

/// The bit of a type in Python.
fn named(name: &str) -> Result<u8, String> {
    const NAMES: [&str; 6] = ["None", "bool", "float", "int", "str", "dict"];
    let bit = NAMES.iter().position(|other| *other == name).map(|at| 1 << at);
    bit.ok_or_else(|| format!("unknown type `{name}`"))
}

/// The bit of a value's type; 0 for a list.
fn bit(value: &Json) -> u8 {
    match value {
        Json::Null => 1,
        Json::Bool(_) => 2,
        Json::Number(number) if number.is_f64() => 4,
        Json::Number(_) => 8,
        Json::String(_) => 16,
        Json::Object(_) => 32,
        Json::Array(_) => 0,
    }
}

/// A field that is computed from others if it is `null`.
#[derive(Debug, Clone, Copy, Deserialize)]
enum Filled {
    /// `hidden_size` / `num_attention_heads`.
    #[serde(rename = "head_dim")]
    HeadDim,
    /// `num_attention_heads`.
    #[serde(rename = "num_key_value_heads")]
    KvHeads,
}

/// The config with the defaults of its class, or why the class would not take it.
pub fn standardize(raw: &Map<String, Json>, class: &ConfigClass) -> Result<Map<String, Json>, String> {
    let mut map = raw.clone();
    // transformers checks the type of every field that the file has (`@strict` dataclasses) and refuses
    // the entire file for one that is wrong. The reference catches that error and reads the file as
    // plain JSON, without any default, so one odd field changes many keys.
    for Field { name, types, default } in class.fields() {
        match map.get(*name) {
            Some(value) if !types.accept(value) => {
                return Err(format!("`{name}` has a type that transformers rejects"));
            }
            Some(_) => {}
            None => {
                map.insert((*name).into(), default.clone());
            }
        }
    }
    let facts = class.facts();
    // In the order of `__post_init__`: changes of the class, computed fields, rotary parameters (which need
    // `head_dim`), renamed keys.
    (class.adjust)(&mut map)?;
    for field in &facts.filled {
        field.apply(&mut map);
    }
    let count = |key: &str| map.get(key).and_then(Json::as_u64).unwrap_or(0);
    if facts.heads_divide_hidden && !count("hidden_size").is_multiple_of(count("num_attention_heads")) {
        return Err("`hidden_size` is not a multiple of `num_attention_heads`".into());
    }
    if class.field("rope_parameters").is_some() && !facts.keeps_rope {
        if let Some(share) = facts.partial_rotary_factor {
            map.entry("partial_rotary_factor").or_insert(share.into());
        }
        rope::standardize(&mut map, facts.default_theta)?;
    }
    for (spelling, field) in &facts.renamed {
        let Some(value) = map.remove(*spelling) else { continue };
        // Values that are not fields are set after the fields, so they take precedence.
        if !(class.field(spelling).is_some() && map.contains_key(*field)) {
            map.insert((*field).into(), value);
        }
    }
    Ok(map)
}

impl Filled {
    /// Computes it, where it is `null`.
    fn apply(self, map: &mut Map<String, Json>) {
        let count = |key: &str| map.get(key).and_then(Json::as_u64);
        let (key, value) = match self {
            Filled::HeadDim => {
                let hidden = count("hidden_size").unwrap_or(0);
                ("head_dim", count("num_attention_heads").and_then(|heads| hidden.checked_div(heads)))
            }
            Filled::KvHeads => ("num_key_value_heads", count("num_attention_heads")),
        };
        if map.get(key).is_none_or(Json::is_null) {
            map.insert(key.into(), value.map_or(Json::Null, Json::from));
        }
    }
}
