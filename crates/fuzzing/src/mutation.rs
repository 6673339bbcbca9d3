//! Mutations that get past a reader's first check: structured inputs are changed inside their structure.

use gguf_container::File;
use gguf_testkit::{Draw, NASTY, mutate, mutated_gguf};
use serde_json::Value as Json;
use twox_hash::XxHash3_64;

use crate::{
    pieces,
    seeds::{PART_MAGIC, sealed_part},
};

/// Maximum bytes of an input.
const MAX_INPUT_BYTES: usize = 1 << 20;

/// Kind of mutation for a target's inputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mutation {
    /// Bytes, mostly near the beginning.
    Bytes,
    /// Bytes, half of the changes near the end, where archives have their directory.
    Ends,
    /// Pieces of text, moved to other places.
    Text,
    /// A value of JSON.
    Json,
    /// A value of the header of safetensors, with the correct length.
    Safetensors,
    /// A key or its value in GGUF, with unchanged tensors.
    Gguf,
    /// The header or the results of a measurement's part, with the correct digest.
    Part,
    /// One of several files, by its kind.
    Pieces,
}

impl Mutation {
    /// Changes an input; `donors` are valid inputs that provide pieces.
    pub fn apply(self, bytes: &mut Vec<u8>, donors: &[Vec<u8>], draw: &mut Draw) {
        // Some inputs are changed without regard to their structure.
        let is_blind = draw.below(5) == 0;
        match self {
            Mutation::Json if !is_blind => json(bytes, draw),
            Mutation::Safetensors if !is_blind => safetensors(bytes, draw),
            Mutation::Gguf if !is_blind => gguf(bytes, draw),
            Mutation::Part if !is_blind => part(bytes, draw),
            Mutation::Text if !is_blind => text(bytes, donors, draw),
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

/// Changes one of the numbers, texts or lists of a JSON value.
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
                // Deeper than any file.
                8 => (0..draw.below(130)).fold(Json::Null, |inner, _| Json::Array(vec![inner])),
                _ => Json::from(draw.below(70)),
            };
        }
    }
}

/// Changes the header of a safetensors file as JSON, with the correct length.
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

/// Changes the header or numbers of a measurement's part and makes its digest valid again.
fn part(bytes: &mut Vec<u8>, draw: &mut Draw) {
    let start = PART_MAGIC.len() + 8;
    let length = bytes.get(PART_MAGIC.len()..).and_then(|rest| rest.first_chunk());
    let end = start.saturating_add(length.map_or(usize::MAX, |length| u64::from_le_bytes(*length) as usize));
    let pieces = bytes.get(start..end).zip(bytes.get(end..bytes.len().saturating_sub(32)));
    let Some((header, payload)) = pieces else { return mutate(bytes, draw) };
    let (mut header, mut payload) = (header.to_vec(), payload.to_vec());
    match draw.below(2) {
        0 => json(&mut header, draw),
        _ => mutate(&mut payload, draw),
    }
    *bytes = sealed_part(&header, &payload);
}

/// Changes a value in a line of a journal and corrects its checksum.
fn journal(bytes: &mut Vec<u8>, draw: &mut Draw) {
    let mut lines: Vec<Vec<u8>> = bytes.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
    if lines.is_empty() || draw.below(8) == 0 {
        return mutate(bytes, draw);
    }
    let at = draw.below(lines.len());
    match draw.below(6) {
        0 => drop(lines.remove(at)),
        1 => lines.push(lines[at].clone()),
        _ => {
            // 16 digits and a space precede the JSON.
            let mut text = lines[at].get(17..).unwrap_or_default().to_vec();
            json(&mut text, draw);
            let text = String::from_utf8_lossy(&text).trim_end().to_owned();
            lines[at] = format!("{:016x} {text}\n", XxHash3_64::oneshot(text.as_bytes())).into_bytes();
        }
    }
    *bytes = lines.concat();
}

/// Characters with a meaning in templates and YAML.
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

fn text(bytes: &mut Vec<u8>, donors: &[Vec<u8>], draw: &mut Draw) {
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
                let other = draw.of(donors);
                let from = draw.below(other.len() + 1);
                let end = from + draw.below(64).min(other.len() - from);
                drop(bytes.splice(at..at, other[from..end].iter().copied()));
            }
        }
    }
}

/// Changes one of several files, by its apparent kind.
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
        Some("journal") => journal(file, draw),
        Some("safetensors") => safetensors(file, draw),
        _ => mutate(file, draw),
    }
    *bytes = pieces::join(files.iter().map(|(name, bytes)| (name.as_str(), bytes.as_slice())));
}

/// Changes keys and values of a file and restores its consistency.
fn gguf(bytes: &mut Vec<u8>, draw: &mut Draw) {
    let Ok(file) = File::parse(bytes.clone()) else { return mutate(bytes, draw) };
    if let Some(mutant) = mutated_gguf(&file, draw) {
        *bytes = mutant;
    }
}
