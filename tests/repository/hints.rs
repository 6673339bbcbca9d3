//! Libraries name options and commands as values, because any program can call them.

use std::{collections::BTreeSet, fs, path::Path};

use gguf_tools::commands::{BINARIES, define};

/// Options of other programs.
const OTHERS: &[&str] =
    &["check", "control-vector", "embedding", "include", "local-dir", "m", "p", "reranking"];

/// Lines of the libraries' code that contain a string, from the string on.
fn strings() -> Vec<(String, String)> {
    let mut lines = Vec::new();
    for entry in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("crates")).unwrap() {
        let folder = entry.unwrap().path();
        if ["fuzzing", "testkit", "types"].iter().any(|name| folder.ends_with(name)) {
            continue;
        }
        for path in gguf_testkit::files(&folder.join("src")) {
            if path.extension().is_none_or(|extension| extension != "rs") {
                continue;
            }
            let text = fs::read_to_string(&path).unwrap();
            let code = (1..).zip(text.lines()).filter(|(_, line)| !line.trim_start().starts_with("//"));
            lines.extend(code.filter_map(|(number, line)| {
                let (_, string) = line.split_once('"')?;
                Some((format!("{}:{number}", path.display()), string.to_owned()))
            }));
        }
    }
    lines
}

#[test]
fn libraries_name_options_as_values() {
    let is_option = |text: &str| {
        text.match_indices("--").any(|(at, _)| {
            let before = text[..at].chars().next_back().unwrap_or(' ');
            matches!(before, ' ' | '`') && text[at + 2..].starts_with(|c: char| c.is_ascii_lowercase())
        })
    };
    let wrong: Vec<_> = strings().into_iter().filter(|(_, text)| is_option(text)).collect();
    assert!(wrong.is_empty(), "options belong into `words!`: {wrong:#?}");
}

#[test]
fn named_options_exist() {
    let mut known: BTreeSet<String> = OTHERS.iter().map(ToString::to_string).collect();
    for binary in BINARIES {
        let definition = define(binary.name).unwrap();
        for command in [&definition].into_iter().chain(definition.get_subcommands()) {
            for arg in command.get_arguments() {
                known.extend(arg.get_long().map(str::to_owned));
                known.extend(arg.get_short().map(String::from));
            }
        }
    }
    let mut named = BTreeSet::new();
    for (_, text) in strings().iter().filter(|(_, text)| text.contains('[')) {
        let inside = text.split('[').skip(1).filter_map(|rest| Some(rest.split_once(']')?.0));
        let words = inside.flat_map(|inside| inside.split(' '));
        let is_name = |name: &&str| name.starts_with(|c: char| c.is_ascii_lowercase());
        named.extend(words.filter_map(|word| word.strip_prefix('-')).filter(is_name).map(str::to_owned));
    }
    assert!(named.len() > 50, "{named:?}");
    let unknown: Vec<_> = named.difference(&known).collect();
    assert!(unknown.is_empty(), "no program has {unknown:?}");
}
