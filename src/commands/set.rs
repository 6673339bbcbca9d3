//! `gguf-inspect set FILE KEY=TYPE:VALUE...`: sets metadata.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use gguf::{Metadata, Value};

use crate::{
    commands::{
        Command,
        shared::{
            edit_file::{EditArgs, edit},
            metadata_json::{is_type, of_json, type_of, value_of},
            text_file,
        },
    },
    failure::Failure,
    ui::Ui,
};

/// The row of [`super::COMMANDS`].
pub const COMMAND: Command = Command {
    verb: Some("set"),
    about: "Set metadata keys of a GGUF file",
    examples: EXAMPLES,
    define: SetArgs::augment_args,
    run: |matches, ui| run(Command::args(matches)?, ui),
    ..Command::of("gguf-inspect")
};

const EXAMPLES: &str = "\
Examples:
  gguf-inspect set model.gguf general.name='My model'
  gguf-inspect set model.gguf --chat-template template.jinja --header-slack 65536
  gguf-inspect set model.gguf llama.context_length=u32:32768 general.tags='arr[str]:[\"chat\", \"en\"]'
  gguf-inspect set model.gguf tokenizer.chat_template=str:@template.jinja
  gguf-inspect set model.gguf --from metadata.json -o other.gguf

TYPE is u8, i8, u16, i16, u32, i32, u64, i64, f32, f64, bool, str, or arr[TYPE] with a JSON list. It
is optional for existing keys, which keep their type, and for keys that the specification or llama.cpp
defines. @FILE stands for the contents of a file. New keys are added at the end. Problems with the new
values that `gguf-inspect verify` would report are printed as warnings.

The file is changed in place if the length of the header stays the same. Otherwise a new file is
written, which then replaces the old one. Tensor data is never changed.";

#[derive(Debug, Args)]
struct SetArgs {
    #[command(flatten)]
    edit: EditArgs,
    /// Keys and their new values.
    #[arg(value_name = "KEY=TYPE:VALUE")]
    values: Vec<String>,
    /// Set all keys of a JSON file.
    ///
    /// The format is that of `gguf-inspect export-metadata`.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    from: Option<PathBuf>,
    /// Set the chat template to the contents of FILE.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    chat_template: Option<PathBuf>,
}

/// The key by which llama.cpp knows how to cut text.
const PRE: &str = "tokenizer.ggml.pre";

fn run(args: SetArgs, ui: &Ui) -> Result<(), Failure> {
    let says_something = !args.values.is_empty() || args.from.is_some() || args.chat_template.is_some();
    if !says_something && args.edit.header_slack.is_none() {
        return Err(Failure::usage(
            "nothing to set: expected KEY=TYPE:VALUE, --from, --chat-template or --header-slack",
        ));
    }
    edit(&args.edit, ui, |metadata| {
        let pre_before = metadata.get(PRE).cloned();
        if let Some(path) = &args.from {
            let text = text_file::options(path)?.into_bytes();
            let json = serde_json::from_slice(&text).map_err(|error| Failure::at(path, error))?;
            metadata.extend(of_json(&json).map_err(|problem| Failure::at(path, problem))?);
        }
        for text in &args.values {
            let (key, value) = parse(text, metadata)?;
            metadata.set(key, value);
        }
        if let Some(path) = &args.chat_template {
            metadata.set("tokenizer.chat_template", Value::String(text_file::options(path)?.into_bytes()));
        }
        let pre = metadata.get(PRE).filter(|pre| pre_before.as_ref() != Some(pre)).and_then(Value::as_str);
        if let Some(pre) = pre.filter(|pre| !arch::vocab::pre_names().any(|known| known == *pre)) {
            ui.warning(&format!("`{PRE}`: llama.cpp does not support the pre-tokenizer `{pre}`"));
        }
        Ok(())
    })
}

/// The type of a new key: that of the specification, or the one that llama.cpp reads.
fn known_type(key: &str, metadata: &Metadata) -> Option<&'static str> {
    let architecture = metadata.get("general.architecture").and_then(Value::as_str);
    gguf::specified_type(key).or_else(|| arch::loader::key_type(architecture?, key))
}

/// Example of a value for a new key.
fn example(key: &str, value: &str, kind: Option<&str>) -> String {
    let item = kind.and_then(|kind| kind.strip_prefix("arr[")?.strip_suffix(']'));
    match item {
        Some("str") => format!("{key}='arr[str]:[{}]'", serde_json::Value::from(value)),
        Some(item) => format!("{key}='arr[{item}]:[1, 2]'"),
        None => format!("{key}={}:VALUE", kind.unwrap_or("str")),
    }
}

/// Parses `KEY=TYPE:VALUE`, or `KEY=VALUE` for an existing key.
fn parse(text: &str, metadata: &Metadata) -> Result<(String, Value), Failure> {
    let wrong = |problem: String| Failure::usage(format_args!("`{text}`: {problem}"));
    let Some((key, typed)) = text.split_once('=').filter(|(key, _)| !key.is_empty()) else {
        return Err(wrong("expected KEY=TYPE:VALUE".to_owned()));
    };
    // A text may hold a colon: only the name of a type before the first one is a type.
    let stated = typed.split_once(':').filter(|(kind, _)| is_type(kind));
    let (kind, value) = match (stated, metadata.get(key)) {
        (Some((kind, value)), _) => (kind.to_owned(), value),
        (None, Some(old)) => (type_of(old), typed),
        // A type that is known need not be stated, unless a list is wanted and the value is not one.
        (None, None) => match known_type(key, metadata) {
            Some(kind) if !kind.starts_with("arr[") || typed.starts_with(['[', '@']) => {
                (kind.to_owned(), typed)
            }
            Some(kind) => {
                return Err(wrong(format!("`{key}` is a list: use {}", example(key, typed, Some(kind)))));
            }
            None => {
                let example = example(key, typed, None);
                return Err(wrong(format!("`{key}` is a new key: specify its type, for example {example}")));
            }
        },
    };
    let content = match value.strip_prefix('@') {
        Some(path) => Some(text_file::options(path.as_ref())?.into_bytes()),
        None => None,
    };
    if kind == "str" {
        return Ok((key.to_owned(), Value::String(content.unwrap_or_else(|| value.as_bytes().to_vec()))));
    }
    let value = content
        .map_or_else(|| value.to_owned(), |content| String::from_utf8_lossy(&content).trim().to_owned());
    // Numbers that JSON spells otherwise or not at all.
    let json = match (kind.as_str(), value.parse::<f64>()) {
        ("f32" | "f64", Ok(number)) if !number.is_finite() => serde_json::Value::from(match number {
            number if number.is_nan() => "NaN",
            f64::INFINITY => "Infinity",
            _ => "-Infinity",
        }),
        // The nearest f32 of the text itself, not of the nearest f64.
        ("f32", Ok(_)) => return Ok((key.to_owned(), Value::F32(value.parse().unwrap_or_default()))),
        ("f64", Ok(number)) => return Ok((key.to_owned(), Value::F64(number))),
        _ => serde_json::from_str(&value).map_err(|_| wrong(format!("`{value}` is not a valid {kind}")))?,
    };
    let value = value_of(&kind, &json).map_err(wrong)?;
    Ok((key.to_owned(), value))
}

#[cfg(test)]
mod tests {
    use gguf::Array;

    use super::*;

    #[test]
    fn values_of_every_kind_are_parsed() {
        let metadata = Metadata::from([("old".to_owned(), Value::I16(1)), ("text".to_owned(), "x".into())]);
        for (text, key, value) in [
            ("a=u8:200", "a", Value::U8(200)),
            ("old=-7", "old", Value::I16(-7)),
            ("old=str:7", "old", "7".into()),
            ("text=https://x", "text", "https://x".into()),
            ("a=str:str:x=y", "a", "str:x=y".into()),
            ("a=f32:0.1", "a", Value::F32(0.1)),
            ("a=f64:-inf", "a", Value::F64(f64::NEG_INFINITY)),
            ("a=bool:true", "a", Value::Bool(true)),
            ("a=arr[i32]:[1, -2]", "a", Value::Array(Array::I32(vec![1, -2]))),
            ("a=str:", "a", "".into()),
        ] {
            assert_eq!(parse(text, &metadata).unwrap(), (key.to_owned(), value), "{text}");
        }
        for text in ["a", "=x", "a=x", "a=u8:256", "a=bool:1", "old=x", "a=arr[u8]:1"] {
            assert!(parse(text, &metadata).is_err(), "{text}");
        }
    }
}
