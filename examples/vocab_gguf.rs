//! Writes a GGUF that holds the tokenizer keys of a folder and nothing else: what a conversion
//! would put there, without weights. Notes and the time go to stderr.
//!
//! usage: vocab_gguf FOLDER ROUTE OUT.gguf

use std::{error::Error, fs, time::Instant};

use arch::{
    Input,
    vocab::{Route, VocabContext, metadata},
};
use gguf::Value;
use serde_json::{Value as Json, json};

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [folder, route, out] = args.as_slice() else {
        return Err("usage: vocab_gguf FOLDER ROUTE OUT.gguf".into());
    };
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            files.push((entry.file_name().to_string_lossy().into_owned(), fs::read(entry.path())?));
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
    let context = VocabContext { route, vocab_size, ..VocabContext::default() };
    let input = Input {
        config,
        files: files.iter().map(|(name, bytes)| (name.clone(), bytes.as_slice())).collect(),
        ..Input::default()
    };
    let start = Instant::now();
    let vocab = metadata(&input, &context)?;
    eprintln!("seconds {:.3}", start.elapsed().as_secs_f64());
    for note in &vocab.notes {
        eprintln!("note {note}");
    }
    let mut entries = vec![("general.architecture".to_owned(), Value::from("llama"))];
    entries.extend(vocab.entries);
    let plan = gguf::Plan::new(&entries, Vec::new(), gguf::Endian::Little, gguf::DEFAULT_ALIGNMENT)?;
    fs::write(out, plan.to_bytes::<&[u8]>(&[])?)?;
    Ok(())
}
