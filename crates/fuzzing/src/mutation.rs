//! Changes that reach behind the first check of a reader: what has a form is changed inside of it.

use gguf::{Array, Endian, File, Metadata, Plan, Value};
use serde_json::Value as Json;
use testkit::{Draw, NASTY, mutate};

use crate::pieces;

/// Bytes of an input at most.
const MAX_INPUT_BYTES: usize = 1 << 20;

/// How inputs of a target are changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mutation {
    /// Bytes, most of them near the begin.
    Bytes,
    /// Bytes, half of them near the end, where archives have their directory.
    Ends,
    /// Pieces of texts, taken from one place to another.
    Text,
    /// A value of JSON.
    Json,
    /// A value of the header of safetensors, whose stated length stays right.
    Safetensors,
    /// A key or its value in GGUF, whose tensors stay.
    Gguf,
    /// One of several files, by its kind.
    Pieces,
}

impl Mutation {
    /// Changes an input; `others` are good inputs to take pieces of.
    pub fn apply(self, bytes: &mut Vec<u8>, others: &[Vec<u8>], draw: &mut Draw) {
        // Some of all inputs are changed without regard to their form.
        let is_blind = draw.below(5) == 0;
        match self {
            Mutation::Json if !is_blind => json(bytes, draw),
            Mutation::Safetensors if !is_blind => safetensors(bytes, draw),
            Mutation::Gguf if !is_blind => gguf(bytes, draw),
            Mutation::Text if !is_blind => text(bytes, others, draw),
            Mutation::Pieces => one_piece(bytes, draw),
            Mutation::Ends if draw.below(2) == 0 => {
                let at = bytes.len() - draw.below(bytes.len().min(600) + 1);
                let mut end = bytes.split_off(at);
                mutate(&mut end, draw);
                bytes.extend(end);
            }
            _ => mutate(bytes, draw),
        }
        bytes.truncate(MAX_INPUT_BYTES);
    }
}

fn json(bytes: &mut Vec<u8>, draw: &mut Draw) {
    let Ok(mut json) = serde_json::from_slice::<Json>(bytes) else { return mutate(bytes, draw) };
    for _ in 0..=draw.below(3) {
        mutate_json(&mut json, draw);
    }
    *bytes = json.to_string().into_bytes();
}

/// One of the numbers, texts or lists of a JSON value, changed.
fn mutate_json(json: &mut Json, draw: &mut Draw) {
    match json {
        Json::Object(items) if !items.is_empty() && draw.below(8) > 0 => {
            let Some(key) = items.keys().nth(draw.below(items.len())).cloned() else { return };
            match draw.below(12) {
                0 => drop(items.shift_remove(&key)),
                1 => {
                    let value = items[&key].clone();
                    let Some(other) = items.keys().nth(draw.below(items.len())).cloned() else { return };
                    items.insert(other, value);
                }
                _ => mutate_json(&mut items[&key], draw),
            }
        }
        Json::Array(items) if !items.is_empty() && draw.below(4) > 0 => match draw.below(10) {
            0 => items.truncate(draw.below(items.len())),
            1 => items.push(items[0].clone()),
            _ => {
                let at = draw.below(items.len());
                mutate_json(&mut items[at], draw);
            }
        },
        Json::String(text) if draw.below(3) == 0 => {
            let mut bytes = std::mem::take(text).into_bytes();
            mutate(&mut bytes, draw);
            *text = String::from_utf8_lossy(&bytes).into_owned();
        }
        _ => {
            let nasty = *draw.of(&NASTY);
            *json = match draw.below(10) {
                0 => Json::Null,
                1 => Json::Bool(draw.below(2) == 0),
                2 => Json::from(nasty),
                3 => Json::from(-(nasty as i64 as f64)),
                4 => Json::from(0.5),
                5 => Json::from(["", "linear", "\u{0}", "gelu", "<s>", "../x", "yarn"][draw.below(7)]),
                6 => Json::Array(vec![Json::from(nasty), Json::from(1)]),
                7 => Json::Object(serde_json::Map::new()),
                // Deeper than any file is.
                8 => (0..draw.below(130)).fold(Json::Null, |inner, _| Json::Array(vec![inner])),
                _ => Json::from(draw.below(70)),
            };
        }
    }
}

/// The header of a safetensors file changed as JSON, under its right length.
fn safetensors(bytes: &mut Vec<u8>, draw: &mut Draw) {
    let length = bytes.first_chunk().map_or(0, |length| u64::from_le_bytes(*length)) as usize;
    let Some(header) = bytes.get(8..8usize.saturating_add(length)) else { return mutate(bytes, draw) };
    let mut header = header.to_vec();
    if draw.below(4) == 0 {
        // Data, if there are any.
        let mut data = bytes.split_off(8 + length);
        mutate(&mut data, draw);
        return bytes.extend(data);
    }
    json(&mut header, draw);
    let data = &bytes[8 + length..];
    *bytes = [&(header.len() as u64).to_le_bytes()[..], &header, data].concat();
}

/// Signs that mean something in templates and YAML.
const SIGNS: [&str; 24] = [
    "{{",
    "}}",
    "{%",
    "%}",
    "{#",
    "- ",
    "~",
    "|",
    "[",
    "]",
    "{",
    "}",
    ": ",
    "&a ",
    "*a",
    "<<: *a",
    "\n",
    "\n  ",
    "---\n",
    "!!",
    "{% for i in messages %}",
    "{% endfor %}",
    "{% set x = x ~ x %}",
    "range(99999)",
];

fn text(bytes: &mut Vec<u8>, others: &[Vec<u8>], draw: &mut Draw) {
    for _ in 0..=draw.below(3) {
        let at = draw.below(bytes.len() + 1);
        match draw.below(5) {
            0 => mutate(bytes, draw),
            1 => {
                let end = at + draw.below(64).min(bytes.len() - at);
                bytes.drain(at..end);
            }
            2 => drop(bytes.splice(at..at, draw.of(&SIGNS).bytes())),
            _ => {
                let other = draw.of(others);
                let from = draw.below(other.len() + 1);
                let end = from + draw.below(64).min(other.len() - from);
                drop(bytes.splice(at..at, other[from..end].iter().copied()));
            }
        }
    }
}

/// A file among others, by what it looks like.
fn one_piece(bytes: &mut Vec<u8>, draw: &mut Draw) {
    let split = pieces::split(bytes);
    if split.is_empty() || draw.below(40) == 0 {
        return mutate(bytes, draw);
    }
    let mut files: Vec<(String, Vec<u8>)> =
        split.into_iter().map(|(name, bytes)| (name.to_owned(), bytes.to_vec())).collect();
    let at = draw.below(files.len());
    let (name, file) = &mut files[at];
    match name.rsplit('.').next() {
        _ if draw.below(6) == 0 => mutate(file, draw),
        Some("json") => json(file, draw),
        Some("safetensors") => safetensors(file, draw),
        _ => mutate(file, draw),
    }
    *bytes = pieces::join(files.iter().map(|(name, bytes)| (name.as_str(), bytes.as_slice())));
}

/// Keys and values changed in a file that is whole again afterwards.
fn gguf(bytes: &mut Vec<u8>, draw: &mut Draw) {
    let Ok(file) = File::parse(bytes.clone()) else { return mutate(bytes, draw) };
    let mut metadata = file.metadata().clone();
    for _ in 0..=draw.below(2) {
        mutate_metadata(&mut metadata, draw);
    }
    let tensors = file.tensors().iter().map(|t| (t.name.clone(), t.shape, t.dtype)).collect();
    let data: Result<Vec<&[u8]>, _> = file.tensors().iter().map(|t| file.data(t)).collect();
    let written = data.ok().and_then(|data| {
        let plan = Plan::new(&metadata, tensors, Endian::Little, 32).ok()?;
        plan.to_bytes(&data).ok()
    });
    if let Some(written) = written {
        *bytes = written;
    }
}

/// A key changed, taken away or of another type.
fn mutate_metadata(metadata: &mut Metadata, draw: &mut Draw) {
    let at = draw.below(metadata.len());
    let Some((key, value)) = metadata.iter_mut().nth(at) else { return };
    let key = key.to_owned();
    let nasty = *draw.of(&NASTY);
    match draw.below(8) {
        0 => drop(metadata.remove(&key)),
        1 => *value = Value::U32(nasty as u32),
        2 => *value = Value::F32([0.0, -1.0, f32::NAN, f32::INFINITY, 1e-30][draw.below(5)]),
        3 => *value = Value::from(["", "llama", "yarn", "gpt2", "none"][draw.below(5)]),
        4 => *value = Value::Array(Array::U32(vec![nasty as u32; draw.below(4)])),
        _ => match value {
            Value::U32(number) if draw.below(2) == 0 => *number = draw.below(40) as u32,
            Value::U32(number) => *number = nasty as u32,
            Value::I32(number) => *number = nasty as i32,
            Value::U64(number) => *number = nasty,
            Value::F32(number) => *number *= -1e20,
            Value::Bool(is) => *is = !*is,
            Value::String(text) => mutate(text, draw),
            Value::Array(Array::String(items)) if !items.is_empty() => {
                let mut texts = items.to_vecs();
                let at = draw.below(texts.len());
                mutate(&mut texts[at], draw);
                *items = texts.into();
            }
            Value::Array(Array::I32(items)) if !items.is_empty() => {
                let at = draw.below(items.len());
                items[at] = nasty as i32;
            }
            Value::Array(Array::F32(items)) if !items.is_empty() => {
                let at = draw.below(items.len());
                items[at] = f32::NAN;
            }
            _ => drop(metadata.remove(&key)),
        },
    }
}
