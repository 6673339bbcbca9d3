//! Tables of transformers' config classes: defaults, and accepted types. The rows are in the files of their
//! architectures ([`crate::Arch`]).
//!
//! Fields that no converter reads (dropout, initializer range) are listed because their types decide whether
//! transformers accepts the file.

use serde_json::{Map, Value as Json};

use super::rope;
/// A config class of transformers.
#[derive(Debug, Clone, Copy)]
pub struct ConfigClass {
    /// `model_type` of the files that it reads.
    pub model_type: &'static str,
    /// `default_theta`, for files without `rope_theta`.
    pub default_theta: f64,
    /// Fields, in parts that classes share.
    pub fields: &'static [&'static [Field]],
    /// Fields that are computed from others where they are `null`.
    pub fill: &'static [Fill],
    /// Other spellings of fields: (spelling, field).
    pub renamed: &'static [(&'static str, &'static str)],
    /// True if the class has RoPE parameters.
    pub has_rope: bool,
    /// True if the class requires the heads to divide the width.
    pub heads_divide_hidden: bool,
    /// Further changes of the class, after defaults and before RoPE parameters; an error is the reason to
    /// reject the file.
    pub adjust: fn(&mut Map<String, Json>) -> Result<(), String>,
}

impl ConfigClass {
    /// True if a value is the default of the field `name`, in the first list that has it.
    pub fn has_default(&self, name: &str, value: &Json) -> bool {
        let field = self.fields.iter().copied().flatten().find(|(field, ..)| *field == name);
        field.is_some_and(|(_, _, default)| {
            let default = default.to_json();
            default == *value || default.is_number() && default.as_f64() == value.as_f64()
        })
    }
}

/// A class without fields.
pub const BASE: ConfigClass = ConfigClass {
    model_type: "",
    default_theta: 10_000.0,
    fields: &[DECODER_FIELDS],
    fill: &[],
    renamed: &[],
    has_rope: true,
    heads_divide_hidden: false,
    adjust: |_| Ok(()),
};

/// A field: name, accepted JSON types (a sum of the constants below), default.
pub type Field = (&'static str, u8, FieldDefault);

/// An integer.
pub const INT: u8 = 1;
/// A number that is written with a point or an exponent.
pub const FLOAT: u8 = 2;
/// A truth value.
pub const BOOL: u8 = 4;
/// A text.
pub const TEXT: u8 = 8;
/// `null`.
pub const NULL: u8 = 16;
/// A list of integers.
pub const INTS: u8 = 32;
/// An object.
pub const DICT: u8 = 64;
/// A list of texts.
pub const TEXTS: u8 = 128;

/// The default of a field.
#[derive(Debug, Clone, Copy)]
pub enum FieldDefault {
    /// An integer.
    Int(u64),
    /// A float.
    Float(f64),
    /// A truth value.
    Bool(bool),
    /// A text.
    Text(&'static str),
    /// `None`.
    Null,
}

/// A field that is computed from others where it is `null`.
#[derive(Debug, Clone, Copy)]
pub enum Fill {
    /// `head_dim` = `hidden_size` / `num_attention_heads`.
    HeadDim,
    /// `num_key_value_heads` = `num_attention_heads`.
    KvHeads,
}

use FieldDefault::{Bool, Float, Int, Null, Text};

/// Fields that decoders share (a class that has another default or fewer types states that before
/// them: the first default counts, and every list of types), with the same defaults in transformers 5.23
/// (`models/NAME/configuration_NAME.py`).
pub const DECODER_FIELDS: &[Field] = &[
    ("vocab_size", INT, Int(32000)),
    ("hidden_size", INT, Int(4096)),
    ("num_hidden_layers", INT, Int(32)),
    ("num_attention_heads", INT, Int(32)),
    ("hidden_act", TEXT, Text("silu")),
    ("initializer_range", FLOAT, Float(0.02)),
    ("use_cache", BOOL, Bool(true)),
    ("pad_token_id", INT | NULL, Null),
    ("bos_token_id", INT | NULL, Int(1)),
    ("eos_token_id", INT | INTS | NULL, Int(2)),
    ("tie_word_embeddings", BOOL, Bool(false)),
    ("rope_parameters", DICT | NULL, Null),
    ("head_dim", INT | NULL, Null),
];

/// The config with the defaults of its class, or why the class would not take it.
pub fn standardize(raw: &Map<String, Json>, class: &ConfigClass) -> Result<Map<String, Json>, String> {
    let mut map = raw.clone();
    // transformers checks the type of every field that the file has (`@strict` dataclasses) and refuses
    // the whole file for one that is wrong. The reference catches that error and reads the file as
    // plain JSON, without any default, so one odd field changes many keys.
    for (name, types, default) in class.fields.iter().copied().flatten() {
        match map.get(*name) {
            Some(value) if json_type(value) & types == 0 => {
                return Err(format!("`{name}` has a type that transformers rejects"));
            }
            Some(_) => {}
            // If several parts list a field, the first default counts, and each list of types is checked.
            None => {
                map.insert((*name).into(), default.to_json());
            }
        }
    }
    // The order below is that of `__post_init__`: computed fields, then what the class changes, then
    // rotary parameters, which need `head_dim`; renamed keys last.
    for field in class.fill {
        field.apply(&mut map);
    }
    let count = |key: &str| map.get(key).and_then(Json::as_u64).unwrap_or(0);
    if class.heads_divide_hidden && !count("hidden_size").is_multiple_of(count("num_attention_heads")) {
        return Err("`hidden_size` is not a multiple of `num_attention_heads`".into());
    }
    (class.adjust)(&mut map)?;
    if class.has_rope {
        rope::standardize(&mut map, class.default_theta)?;
    }
    for (spelling, field) in class.renamed {
        let Some(value) = map.remove(*spelling) else { continue };
        // Values that are not fields are set after the fields, so they take precedence.
        let is_field = class.fields.iter().copied().flatten().any(|(name, ..)| name == spelling);
        if !(is_field && map.contains_key(*field)) {
            map.insert((*field).into(), value);
        }
    }
    Ok(map)
}

impl FieldDefault {
    fn to_json(self) -> Json {
        match self {
            Int(value) => value.into(),
            Float(value) => value.into(),
            Bool(value) => value.into(),
            Text(value) => value.into(),
            Null => Json::Null,
        }
    }
}

impl Fill {
    /// Computes it, where it is `null`.
    pub fn apply(self, map: &mut Map<String, Json>) {
        let count = |key: &str| map.get(key).and_then(Json::as_u64);
        let (key, value) = match self {
            Fill::HeadDim => {
                let hidden = count("hidden_size").unwrap_or(0);
                ("head_dim", count("num_attention_heads").and_then(|heads| hidden.checked_div(heads)))
            }
            Fill::KvHeads => ("num_key_value_heads", count("num_attention_heads")),
        };
        if map.get(key).is_none_or(Json::is_null) {
            map.insert(key.into(), value.map_or(Json::Null, Json::from));
        }
    }
}

fn json_type(value: &Json) -> u8 {
    match value {
        Json::Null => NULL,
        Json::Bool(_) => BOOL,
        Json::Number(number) if number.is_f64() => FLOAT,
        Json::Number(_) => INT,
        Json::String(_) => TEXT,
        // An empty list is one of whatever is wanted.
        Json::Array(items) if items.is_empty() => INTS | TEXTS,
        Json::Array(items) if items.iter().all(|item| item.is_u64() || item.is_i64()) => INTS,
        Json::Array(items) if items.iter().all(Json::is_string) => TEXTS,
        Json::Array(_) => 0,
        Json::Object(_) => DICT,
    }
}
