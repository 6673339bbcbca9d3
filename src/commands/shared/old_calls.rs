//! Calls of earlier versions, in which commands were options: `--vocab-only` is `vocab`.

use std::ffi::{OsStr, OsString};

use super::planned_calls::{ASSEMBLE, PART, PLAN};
use crate::commands::COMMANDS;

/// An option that became a command, or that implies one.
enum Old {
    /// The option has no value and is replaced.
    Flag(&'static str),
    /// The option stays one of the command.
    Implied(&'static str),
}

const OLD: &[(&str, Old)] = &[
    ("--list-architectures", Old::Flag("architectures")),
    ("--vocab-only", Old::Flag("vocab")),
    ("--mmproj", Old::Flag("mmproj")),
    ("--base", Old::Implied("adapter")),
    ("--config", Old::Implied("legacy")),
    ("--eps", Old::Implied("legacy")),
    ("--context-length", Old::Implied("legacy")),
    ("--rope-base", Old::Implied("legacy")),
];

/// The arguments of a call as they are written today.
pub fn translate(binary: &str, arguments: Vec<OsString>) -> Vec<OsString> {
    let first = arguments.first().and_then(|first| first.to_str());
    let is_new = COMMANDS.iter().any(|command| command.verb.is_some() && command.verb == first);
    if is_new || !["gguf-convert", "gguf-quantize"].contains(&binary) {
        return arguments;
    }
    let mut call = Call { options: arguments, rest: Vec::new() };
    if let Some(at) = call.options.iter().position(|word| word == "--") {
        call.rest = call.options.split_off(at);
    }
    if let Some(plan) = call.take("--save-plan") {
        return call.with_plan([Some(PLAN.into()), Some(plan)], binary);
    }
    if let Some(plan) = call.take("--plan") {
        let part = call.take("--part");
        let verb = if part.is_some() || !call.take_flag("--assemble") { PART } else { ASSEMBLE };
        return call.after([Some(verb.into()), Some(plan), part]);
    }
    if binary == "gguf-convert" { call.of_converter() } else { call.whole() }
}

/// A call, divided at `--`.
struct Call {
    options: Vec<OsString>,
    rest: Vec<OsString>,
}

impl Call {
    /// Removes an option and returns its value.
    fn take(&mut self, name: &str) -> Option<OsString> {
        let at = self.options.iter().position(|word| is_option(word, name))?;
        let word = self.options.remove(at);
        match word.to_string_lossy().split_once('=') {
            Some((_, value)) => Some(value.into()),
            None if at < self.options.len() => Some(self.options.remove(at)),
            None => None,
        }
    }

    /// Removes an option without a value. True if it was there.
    fn take_flag(&mut self, name: &str) -> bool {
        let n = self.options.len();
        self.options.retain(|word| !is_option(word, name));
        self.options.len() < n
    }

    fn of_converter(mut self) -> Vec<OsString> {
        let to = self.take("--to");
        let verb = match to.as_deref().and_then(OsStr::to_str) {
            Some("hf") => Some("export"),
            _ => OLD.iter().find_map(|(name, old)| match old {
                Old::Flag(verb) => self.take_flag(name).then_some(*verb),
                Old::Implied(verb) => self.options.iter().any(|word| is_option(word, name)).then_some(*verb),
            }),
        };
        match to.filter(|to| to != "hf" && to != "gguf") {
            // An unknown format is an unknown option.
            Some(to) => self.after([Some("--to".into()), Some(to)]),
            None => self.after([verb.map(OsString::from)]),
        }
    }

    /// The call of a plan.
    fn with_plan<const N: usize>(self, before: [Option<OsString>; N], binary: &str) -> Vec<OsString> {
        let inner = if binary == "gguf-convert" { self.of_converter() } else { self.whole() };
        before.into_iter().flatten().chain(inner).collect()
    }

    fn after<const N: usize>(self, before: [Option<OsString>; N]) -> Vec<OsString> {
        before.into_iter().flatten().chain(self.whole()).collect()
    }

    fn whole(self) -> Vec<OsString> {
        [self.options, self.rest].concat()
    }
}

/// True if a word is this option, with or without a value; either sign may separate the words of its name.
fn is_option(word: &OsStr, name: &str) -> bool {
    let Some(word) = word.to_str() else { return false };
    word.split('=').next().unwrap_or_default().replace('_', "-") == name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_old_versions_become_commands() {
        for (old, new) in [
            ("a.gguf dir --to hf -t f16", "export a.gguf dir -t f16"),
            ("dir --to=gguf -t f16", "dir -t f16"),
            ("--vocab_only dir", "vocab dir"),
            ("dir --mmproj -- --mmproj", "mmproj dir -- --mmproj"),
            ("dir --base=b", "adapter dir --base=b"),
            ("--list-architectures --json", "architectures --json"),
            ("dir out --save-plan p --type f16", "plan p dir out --type f16"),
            ("dir --save-plan=p --base b", "plan p adapter dir --base b"),
            ("--plan p --part 1/2 --part-files", "part p 1/2 --part-files"),
            ("-q --plan p --assemble", "assemble p -q"),
            ("vocab dir --base b", "vocab dir --base b"),
            ("dir --type f16", "dir --type f16"),
        ] {
            let words = old.split(' ').map(OsString::from).collect();
            let found = translate("gguf-convert", words).join(OsStr::new(" "));
            assert_eq!(found, new, "{old}");
        }
    }
}
