//! Prints the tokenizer keys of a folder as scripts/golden/tokenizer.py lists them, one JSON
//! value a line, and the notes and times on stderr.
//!
//! usage: vocab FOLDER ROUTE [PRE]

use std::error::Error;
use std::time::Instant;

use arch::Input;
use arch::vocab::{Route, VocabContext, metadata};
use gguf::{Array, Value};
use serde_json::{Value as Json, json};
use sha2::{Digest, Sha256};

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [folder, route, rest @ ..] = args.as_slice() else {
        return Err("usage: vocab FOLDER ROUTE [PRE]".into());
    };
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            files.push((entry.file_name().to_string_lossy().into_owned(), std::fs::read(entry.path())?));
        }
    }
    let config: Json = match files.iter().find(|(name, _)| name == "config.json") {
        Some((_, bytes)) => serde_json::from_slice(bytes)?,
        None => json!({}),
    };
    let route = Route::named(route).ok_or_else(|| {
        format!("route `{route}` is none of {}", Route::names().collect::<Vec<_>>().join(", "))
    })?;
    let vocab_size = config["vocab_size"].as_u64();
    let ctx = VocabContext {
        route,
        vocab_size,
        pre: rest.first().cloned(),
        type_vocab_size: config["type_vocab_size"].as_u64(),
        ..VocabContext::default()
    };
    let input = Input {
        config,
        files: files.iter().map(|(name, bytes)| (name.clone(), bytes.as_slice())).collect(),
        ..Input::default()
    };
    let start = Instant::now();
    let vocab = metadata(&input, &ctx)?;
    eprintln!("seconds {:.3}", start.elapsed().as_secs_f64());
    for note in &vocab.notes {
        eprintln!("note {note}");
    }
    for (key, value) in &vocab.entries {
        let (kind, value) = listed(value);
        println!("{}", json!([key, kind, value]));
    }
    Ok(())
}

fn listed(value: &Value) -> (&'static str, Json) {
    let array = |len: usize, bytes: Vec<u8>, all: Json| {
        let digest: String = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        if len > 16 { json!({"len": len, "sha256": digest}) } else { all }
    };
    let text = |bytes: &Vec<u8>| String::from_utf8_lossy(bytes).into_owned();
    match value {
        Value::String(bytes) => ("str", json!(text(bytes))),
        Value::U32(value) => ("u32", json!(value)),
        Value::Bool(value) => ("bool", json!(value)),
        Value::Array(Array::String(items)) => {
            let bytes = items
                .iter()
                .flat_map(|item| [&(item.len() as u64).to_le_bytes()[..], item].concat())
                .collect();
            ("arr[str]", array(items.len(), bytes, items.iter().map(text).collect()))
        }
        Value::Array(Array::F32(items)) => (
            "arr[f32]",
            array(items.len(), items.iter().flat_map(|v| v.to_le_bytes()).collect(), json!(items)),
        ),
        Value::Array(Array::U8(items)) => ("arr[u8]", array(items.len(), items.clone(), json!(items))),
        Value::Array(Array::I32(items)) => (
            "arr[i32]",
            array(items.len(), items.iter().flat_map(|v| v.to_le_bytes()).collect(), json!(items)),
        ),
        other => ("other", json!(other.to_string())),
    }
}
