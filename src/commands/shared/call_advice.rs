//! Errors and tips for invalid calls.

use std::{ffi::OsString, path::Path};

use clap::error::{ContextKind, ContextValue, ErrorKind};
use gguf_toolkit::Recipe;

use super::llama_cpp;
use crate::failure::Failure;

/// Tips for a file given as a command, by program.
const FOR_A_FILE: &[(&str, &str)] = &[
    ("gguf-inspect", "`gguf-inspect show FILE` shows the contents of a file"),
    (
        "gguf-eval",
        "`gguf-eval chat FILE` or `gguf-eval generate FILE --prompt TEXT` runs a model, `gguf-eval perplexity FILE --text TEXT` measures it",
    ),
];

/// Counterparts of options that other programs have.
pub const COUNTERPARTS: &str = include_str!("counterparts.txt");

/// The hint about an option that another program has.
fn counterpart(call: &str, name: &str) -> Option<&'static str> {
    let rows = COUNTERPARTS
        .lines()
        .filter_map(|line| <[&str; 3]>::try_from(line.split(" | ").collect::<Vec<_>>()).ok());
    let mut rows = rows
        .filter(|[start, names, _]| call.starts_with(start) && names.split(' ').any(|known| known == name));
    rows.next().map(|[.., hint]| hint)
}

/// The error of an option that a command does not have. `call` is the program and its command, `similar` the nearest option.
pub fn unknown_option(call: &str, name: &str, similar: Option<&str>) -> Failure {
    let is_of_llama_cpp = llama_cpp::PROGRAMS
        .iter()
        .filter(|program| call.starts_with(program.binary))
        .any(|program| program.without().any(|option| option.names().any(|known| known == name)));
    let hint = match (counterpart(call, name), similar) {
        (Some(hint), _) => hint.to_owned(),
        _ if is_of_llama_cpp => {
            "this llama.cpp option is not supported; see docs/guides/coming-from-llama-cpp.md".to_owned()
        }
        (None, Some(similar)) => format!("did you mean `{similar}`?"),
        (None, None) if call.ends_with(" part") || call.ends_with(" assemble") => {
            "options of the conversion are set by the plan; make a new plan to change them".to_owned()
        }
        (None, None) => format!("`{call} --help` lists the options"),
    };
    Failure::usage(format_args!("unknown option `{name}`")).hint([hint])
}

/// Returns the error of an unknown option. Any other error of clap ends the process, with a tip if a word is an existing file or
/// may be a prompt.
pub(in crate::commands) fn refused(
    mut error: clap::Error,
    definition: &clap::Command,
    arguments: &[OsString],
) -> Failure {
    let word = |error: &clap::Error, kind| match error.get(kind) {
        Some(ContextValue::String(word)) => Some(word.clone()),
        _ => None,
    };
    let verb = arguments.first().and_then(|first| definition.find_subcommand(first));
    let file = |error: &clap::Error, kind| word(error, kind).filter(|word| Path::new(word).is_file());
    // `gguf-convert vocab --type q8_0` may mean the folder of that name.
    let named = verb
        .filter(|verb| definition.get_positionals().next().is_some() && Path::new(verb.get_name()).exists());
    let named =
        named.map(|verb| format!("`{}` is a command; write `./{0}` for a file or folder", verb.get_name()));
    let tip = match error.kind() {
        ErrorKind::InvalidSubcommand => match word(&error, ContextKind::InvalidSubcommand).as_deref() {
            Some("prompt") if definition.get_name() == "gguf-eval" => Some(
                "`gguf-eval chat FILE` starts a chat, `gguf-eval generate FILE --prompt TEXT` continues a text, `gguf-inspect prompt FILE` shows the prompt of a chat"
                    .to_owned(),
            ),
            _ => file(&error, ContextKind::InvalidSubcommand).and_then(|file| {
                let (_, tip) = FOR_A_FILE.iter().find(|(binary, _)| *binary == definition.get_name())?;
                Some(tip.replace("FILE", &file))
            }),
        },
        // More words than expected, or one that is not a type.
        ErrorKind::ArgumentConflict => repeated_name(definition, arguments),
        ErrorKind::InvalidValue
            if word(&error, ContextKind::InvalidArg).is_some_and(|arg| arg.starts_with("[TYPE]")) =>
        {
            repeated_name(definition, arguments)
        }
        ErrorKind::UnknownArgument => {
            let unknown = word(&error, ContextKind::InvalidArg).unwrap_or_default();
            if unknown.starts_with('-') {
                let call = [definition.get_name()].into_iter().chain(verb.map(clap::Command::get_name));
                let call = call.collect::<Vec<_>>().join(" ");
                let similar = word(&error, ContextKind::SuggestedArg);
                return unknown_option(&call, &unknown, similar.as_deref()).hint(named);
            }
            let has = |id: &str| verb.is_some_and(|verb| verb.get_arguments().any(|arg| arg.get_id() == id));
            match file(&error, ContextKind::InvalidArg) {
                Some(file) if has("text") => Some(format!("pass a text with `--text {file}`")),
                None if has("types") && Recipe::from_name(&unknown).is_ok() => {
                    Some(format!("pass the type with `--type {unknown}`"))
                }
                None if has("prompt") && !has("text") => {
                    Some(format!("pass a text or message with `--prompt '{unknown}'`"))
                }
                _ => None,
            }
        }
        _ => None,
    };
    if let Some(tip) = tip.or(named) {
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    error.exit()
}

/// Advice for `gguf-convert convert SRC OUT`.
fn repeated_name(definition: &clap::Command, arguments: &[OsString]) -> Option<String> {
    let (program, first) = (definition.get_name(), arguments.first()?.to_str()?);
    (program.strip_prefix("gguf-") == Some(first))
        .then(|| format!("write `{program} SRC OUT`, without `{first}`"))
}
