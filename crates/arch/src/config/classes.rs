//! Defaults of transformers' config classes, one table row a class.
//!
//! The numbers are those of transformers 5.23 (`models/NAME/configuration_NAME.py`). Fields that
//! no converter reads (dropout, initializer range) are listed because their types decide
//! whether transformers accepts the file at all.

use serde_json::{Map, Value as Json};

use super::rope;

/// A config class.
struct ConfigClass {
    /// `model_type` of the files that it reads.
    model_type: &'static str,
    /// `default_theta`, for files without `rope_theta`.
    default_theta: f64,
    /// Fields in the order of the class.
    fields: &'static [Field],
    /// Fields that are computed where they are `null`, in this order.
    derived: &'static [Derived],
    /// Other spellings of fields: (spelling, field).
    renamed: &'static [(&'static str, &'static str)],
    /// Whether the class insists on whole heads.
    heads_divide_hidden: bool,
}

/// A field: name, accepted JSON types, default.
type Field = (&'static str, u8, Value);

const INT: u8 = 1;
const FLOAT: u8 = 2;
const BOOL: u8 = 4;
const TEXT: u8 = 8;
const NULL: u8 = 16;
const INTS: u8 = 32;
const DICT: u8 = 64;

/// A default.
#[derive(Clone, Copy)]
enum Value {
    Int(u64),
    Float(f64),
    Bool(bool),
    Text(&'static str),
    Null,
}

/// A field that is computed from others.
#[derive(Clone, Copy)]
enum Derived {
    /// `head_dim` = `hidden_size` / `num_attention_heads`.
    HeadDim,
    /// `num_key_value_heads` = `num_attention_heads`.
    KvHeads,
}

use Value::{Bool, Float, Int, Null, Text};

const CLASSES: &[ConfigClass] = &[
    ConfigClass {
        model_type: "llama",
        default_theta: 10_000.0,
        fields: &[
            ("vocab_size", INT, Int(32000)),
            ("hidden_size", INT, Int(4096)),
            ("intermediate_size", INT, Int(11008)),
            ("num_hidden_layers", INT, Int(32)),
            ("num_attention_heads", INT, Int(32)),
            ("num_key_value_heads", INT | NULL, Null),
            ("hidden_act", TEXT, Text("silu")),
            ("max_position_embeddings", INT, Int(2048)),
            ("initializer_range", FLOAT, Float(0.02)),
            ("rms_norm_eps", FLOAT, Float(1e-6)),
            ("use_cache", BOOL, Bool(true)),
            ("pad_token_id", INT | NULL, Null),
            ("bos_token_id", INT | NULL, Int(1)),
            ("eos_token_id", INT | INTS | NULL, Int(2)),
            ("pretraining_tp", INT | NULL, Int(1)),
            ("tie_word_embeddings", BOOL, Bool(false)),
            ("rope_parameters", DICT | NULL, Null),
            ("attention_bias", BOOL, Bool(false)),
            ("attention_dropout", INT | FLOAT | NULL, Float(0.0)),
            ("mlp_bias", BOOL, Bool(false)),
            ("head_dim", INT | NULL, Null),
        ],
        derived: &[Derived::HeadDim, Derived::KvHeads],
        renamed: &[],
        heads_divide_hidden: true,
    },
    ConfigClass {
        model_type: "mistral",
        default_theta: 10_000.0,
        fields: &[
            ("vocab_size", INT, Int(32000)),
            ("hidden_size", INT, Int(4096)),
            ("intermediate_size", INT, Int(14336)),
            ("num_hidden_layers", INT, Int(32)),
            ("num_attention_heads", INT, Int(32)),
            ("num_key_value_heads", INT, Int(8)),
            ("head_dim", INT | NULL, Null),
            ("hidden_act", TEXT, Text("silu")),
            ("max_position_embeddings", INT, Int(131_072)),
            ("initializer_range", FLOAT, Float(0.02)),
            ("rms_norm_eps", FLOAT, Float(1e-6)),
            ("use_cache", BOOL, Bool(true)),
            ("pad_token_id", INT | NULL, Null),
            ("bos_token_id", INT | NULL, Int(1)),
            ("eos_token_id", INT | INTS | NULL, Int(2)),
            ("tie_word_embeddings", BOOL, Bool(false)),
            ("rope_parameters", DICT | NULL, Null),
            ("sliding_window", INT | NULL, Int(4096)),
            ("attention_dropout", FLOAT | INT, Float(0.0)),
        ],
        derived: &[Derived::HeadDim, Derived::KvHeads],
        renamed: &[],
        heads_divide_hidden: false,
    },
    ConfigClass {
        model_type: "mixtral",
        default_theta: 1_000_000.0,
        fields: &[
            ("vocab_size", INT, Int(32000)),
            ("hidden_size", INT, Int(4096)),
            ("intermediate_size", INT, Int(14336)),
            ("num_hidden_layers", INT, Int(32)),
            ("num_attention_heads", INT, Int(32)),
            ("num_key_value_heads", INT, Int(8)),
            ("head_dim", INT | NULL, Null),
            ("hidden_act", TEXT, Text("silu")),
            ("max_position_embeddings", INT, Int(131_072)),
            ("initializer_range", FLOAT, Float(0.02)),
            ("rms_norm_eps", FLOAT, Float(1e-5)),
            ("use_cache", BOOL, Bool(true)),
            ("pad_token_id", INT | NULL, Null),
            ("bos_token_id", INT | NULL, Int(1)),
            ("eos_token_id", INT | INTS | NULL, Int(2)),
            ("tie_word_embeddings", BOOL, Bool(false)),
            ("sliding_window", INT | NULL, Null),
            ("attention_dropout", FLOAT | INT, Float(0.0)),
            ("num_experts_per_tok", INT, Int(2)),
            ("num_local_experts", INT, Int(8)),
            ("output_router_logits", BOOL, Bool(false)),
            ("router_aux_loss_coef", FLOAT, Float(0.001)),
            ("router_jitter_noise", FLOAT, Float(0.0)),
            ("rope_parameters", DICT | NULL, Null),
        ],
        derived: &[Derived::KvHeads],
        renamed: &[("num_experts", "num_local_experts")],
        heads_divide_hidden: false,
    },
];

/// The config with the defaults of its class, or why the class would not take it.
pub fn standardize(raw: &Map<String, Json>) -> Result<Map<String, Json>, String> {
    let model_type = match raw.get("model_type") {
        Some(Json::String(model_type)) => model_type,
        _ => return Err("no `model_type`".into()),
    };
    let class = CLASSES
        .iter()
        .find(|class| class.model_type == model_type)
        .ok_or_else(|| format!("no defaults are known for `model_type` `{model_type}`"))?;
    let mut map = raw.clone();
    for (name, types, default) in class.fields {
        match map.get(*name) {
            Some(value) if json_type(value) & types == 0 => {
                return Err(format!("`{name}` has a type that transformers refuses"));
            }
            Some(_) => {}
            None => {
                map.insert((*name).into(), default.to_json());
            }
        }
    }
    for derived in class.derived {
        derived.fill(&mut map);
    }
    let count = |key: &str| map.get(key).and_then(Json::as_u64).unwrap_or(0);
    if class.heads_divide_hidden && !count("hidden_size").is_multiple_of(count("num_attention_heads")) {
        return Err("`hidden_size` is not a multiple of `num_attention_heads`".into());
    }
    rope::standardize(&mut map, class.default_theta)?;
    for (spelling, field) in class.renamed {
        if let Some(value) = map.remove(*spelling) {
            map.insert((*field).into(), value);
        }
    }
    Ok(map)
}

impl Value {
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

impl Derived {
    fn fill(self, map: &mut Map<String, Json>) {
        let count = |key: &str| map.get(key).and_then(Json::as_u64);
        let (key, value) = match self {
            Derived::HeadDim => {
                let hidden = count("hidden_size").unwrap_or(0);
                ("head_dim", count("num_attention_heads").and_then(|heads| hidden.checked_div(heads)))
            }
            Derived::KvHeads => ("num_key_value_heads", count("num_attention_heads")),
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
        Json::Array(items) if items.iter().all(|item| item.is_u64() || item.is_i64()) => INTS,
        Json::Array(_) => 0,
        Json::Object(_) => DICT,
    }
}
