//! The tables of llama.cpp's options, compared with the options of its programs and with ours.

use std::{collections::BTreeSet, fs};

use gguf_tools::commands::{
    COMMANDS, define,
    llama_cpp::{PROGRAMS, Spelled, To, argument},
};

/// Sorted spellings, with a word for the value of an option that takes one.
fn key<'a>(names: impl Iterator<Item = &'a str>, has_value: bool) -> String {
    let names: BTreeSet<&str> = names.collect();
    let value = if has_value { " VALUE" } else { "" };
    names.into_iter().collect::<Vec<_>>().join(" ") + value
}

/// [`key`] of a line of `golden/options`.
fn key_of_line(line: &str) -> String {
    let (names, values): (Vec<&str>, Vec<&str>) = line.split(' ').partition(|word| word.starts_with('-'));
    key(names.into_iter(), !values.is_empty())
}

#[test]
fn tables_match_options_of_the_programs() {
    for program in PROGRAMS {
        let path = format!("{}/golden/options/{}.txt", env!("CARGO_MANIFEST_DIR"), program.name);
        let text = fs::read_to_string(path).unwrap();
        let theirs: BTreeSet<String> = text.lines().map(key_of_line).collect();
        let options = program.options().map(|(option, _)| option).chain(program.without());
        let options: Vec<Spelled> = options.collect();
        let ours: BTreeSet<String> =
            options.iter().map(|option| key(option.names(), option.value().is_some())).collect();
        assert_eq!(ours, theirs, "{}", program.name);
        assert_eq!(ours.len(), options.len(), "{}: duplicate option", program.name);
    }
}

#[test]
fn table_spellings_are_unique() {
    for program in PROGRAMS {
        let mut seen = BTreeSet::new();
        let options = program.all().map(|(option, _)| option).chain(program.without());
        for name in options.flat_map(Spelled::names) {
            assert!(seen.insert(name), "{}: {name} twice", program.name);
        }
    }
}

#[test]
fn tables_name_existing_options() {
    for program in PROGRAMS {
        assert!(
            COMMANDS.iter().any(|command| command.binary == program.binary && command.verb == program.verb)
        );
        let command = define(program.binary).unwrap();
        let verb =
            program.verb.map_or(command.clone(), |verb| command.find_subcommand(verb).unwrap().clone());
        let has = |name: &str| argument(&verb, name).is_some();
        for (spelled, to) in program.all() {
            let first = spelled.names().next().unwrap_or_default();
            let is_right = match to {
                To::Same => spelled.names().all(|name| ["-h", "--help"].contains(&name) || has(name)),
                To::Option(long, _) | To::Each(long) => has(long),
                To::Words(words) => words.iter().all(|word| word.starts_with("--help") || has(word)),
                To::Argument(_) | To::Whole(_) | To::Anyway(_) | To::Arranged(_) => true,
                To::Unknown => false,
            };
            assert!(is_right, "{}: {first} is {to:?}", program.name);
            let needs_value = matches!(to, To::Option(..) | To::Each(_) | To::Argument(_));
            assert!(!needs_value || spelled.value().is_some(), "{}: {first} has no value", program.name);
        }
    }
}
