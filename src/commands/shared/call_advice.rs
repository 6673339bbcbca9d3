//! What somebody may have meant by a call that cannot be understood: a file where a verb is wanted, a file or a prompt too many.

use std::path::Path;

use clap::error::{ContextKind, ContextValue, ErrorKind};

/// Advice for files that stand where none is wanted, by the program: `show` is what most want of a file, a text is named by an
/// option.
const FOR_A_FILE: &[(&str, &str)] = &[
    ("gguf-inspect", "`gguf-inspect show FILE` lists what is in it"),
    (
        "gguf-eval",
        "`gguf-eval generate FILE --prompt TEXT` lets it speak, `gguf-eval perplexity FILE --text TEXT` measures it",
    ),
];

/// The error with a tip where a word that was not expected is a file that is there, or what a model may be asked.
pub(in crate::commands) fn with_advice(mut error: clap::Error, definition: &clap::Command) -> clap::Error {
    let word = |error: &clap::Error, kind| match error.get(kind) {
        Some(ContextValue::String(word)) => Some(word.clone()),
        _ => None,
    };
    let file = |error: &clap::Error, kind| word(error, kind).filter(|word| Path::new(word).is_file());
    let tip = match error.kind() {
        ErrorKind::InvalidSubcommand => file(&error, ContextKind::InvalidSubcommand).and_then(|file| {
            let (_, tip) = FOR_A_FILE.iter().find(|(binary, _)| *binary == definition.get_name())?;
            Some(tip.replace("FILE", &file))
        }),
        ErrorKind::UnknownArgument => word(&error, ContextKind::InvalidArg).and_then(|word| {
            let verb = called(&error, definition)?;
            let has = |id: &str| verb.get_arguments().any(|arg| arg.get_id() == id);
            if has("text") {
                return file(&error, ContextKind::InvalidArg)
                    .map(|file| format!("a text is given with `--text {file}`"));
            }
            let is_asked = has("prompt") && !word.starts_with('-');
            is_asked.then(|| format!("a text or a message is given with `--prompt '{word}'`"))
        }),
        _ => None,
    };
    if let Some(tip) = tip {
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    error
}

/// The verb that was called, by the usage line of the error.
fn called<'a>(error: &clap::Error, definition: &'a clap::Command) -> Option<&'a clap::Command> {
    let Some(ContextValue::StyledStr(usage)) = error.get(ContextKind::Usage) else { return None };
    let usage = usage.to_string();
    let mut words = usage.split_whitespace().skip_while(|word| *word != definition.get_name()).skip(1);
    definition.find_subcommand(words.next()?)
}
