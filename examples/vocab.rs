//! Prints the tokenizer keys that a conversion makes of a folder, as scripts/golden/tokenizer.py
//! lists the reference's: one JSON value a line. Notes and the time go to stderr. With `--gguf`
//! also writes a file that has only these keys, for `gguf-inspect tokenizer`.
//!
//! usage: vocab FOLDER ROUTE [--pre NAME] [--equal-scores] [--gguf OUT]

use std::{error::Error, fs, time::Instant};

use gguf_toolkit::{
    DEFAULT_ALIGNMENT, Endian, Metadata, Plan, Value,
    architecture::{Tokenizer, TokenizerFiles, routes, vocab::VocabContext},
};
use serde_json::{Value as Json, json};

const USAGE: &str = "usage: vocab FOLDER ROUTE [--pre NAME] [--equal-scores] [--gguf OUT]";

fn main() -> Result<(), Box<dyn Error>> {
    let mut args: Vec<String> = std::env::args().skip(1).collect();
    let pre = option(&mut args, "--pre")?;
    let out = option(&mut args, "--gguf")?;
    let equal_scores = args.iter().any(|arg| arg == "--equal-scores");
    args.retain(|arg| arg != "--equal-scores");
    let [folder, route] = args.as_slice() else { return Err(USAGE.into()) };
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
    let known = routes();
    let route = known.iter().find(|known| known.name == route).copied().ok_or_else(|| {
        let names: Vec<_> = known.iter().map(|known| known.name).collect();
        format!("unknown route `{route}`, expected one of {}", names.join(", "))
    })?;
    let context = VocabContext {
        vocab_size: config["vocab_size"].as_u64(),
        pre,
        equal_scores,
        type_vocab_size: config["type_vocab_size"].as_u64(),
        ..VocabContext::default()
    };
    let files: Vec<_> = files.iter().map(|(name, bytes)| (name.clone(), bytes.as_slice())).collect();
    let input = TokenizerFiles { config: &config, generation_config: None, files: &files };
    let start = Instant::now();
    let vocab = Tokenizer::from_huggingface(&input, route, &context)?;
    eprintln!("seconds {:.3}", start.elapsed().as_secs_f64());
    for note in &vocab.notes {
        eprintln!("note {note}");
    }
    let keys = vocab.tokenizer.to_gguf();
    for (key, value) in &keys {
        let (kind, value) = gguf_testkit::golden_value(value);
        println!("{}", json!([key, kind, value]));
    }
    match out {
        Some(out) => write(&out, keys),
        None => Ok(()),
    }
}

/// Takes an option and its value out of the arguments.
fn option(args: &mut Vec<String>, name: &str) -> Result<Option<String>, Box<dyn Error>> {
    let Some(at) = args.iter().position(|arg| arg == name) else { return Ok(None) };
    if at + 1 == args.len() {
        return Err(USAGE.into());
    }
    args.remove(at);
    Ok(Some(args.remove(at)))
}

fn write(out: &str, entries: Metadata) -> Result<(), Box<dyn Error>> {
    let mut all = Metadata::from([("general.architecture".to_owned(), Value::from("llama"))]);
    all.extend(entries);
    let plan = Plan::new(&all, Vec::new(), Endian::Little, DEFAULT_ALIGNMENT)?;
    fs::write(out, plan.to_bytes::<&[u8]>(&[])?)?;
    Ok(())
}
