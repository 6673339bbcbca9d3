//! `docs/reference/options.md`: one table of the options of all programs, held to their definitions.

use std::{
    collections::{BTreeMap, BTreeSet},
    env, fs,
};

use clap::Arg;
use gguf_tools::commands::{BINARIES, define};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/reference/options.md");
const BEGIN: &str = "<!-- options -->\n";
const END: &str = "<!-- /options -->\n";

/// An option as every program has it.
#[derive(Debug, PartialEq)]
struct Meaning {
    short: Option<char>,
    value: String,
    help: String,
}

impl Meaning {
    fn of(arg: &Arg) -> Meaning {
        let values = arg.get_value_names().unwrap_or_default();
        let takes_value = arg.get_action().takes_values();
        Meaning {
            short: arg.get_short(),
            value: if takes_value { values.join(" ") } else { String::new() },
            help: arg.get_help().map(ToString::to_string).unwrap_or_default(),
        }
    }
}

/// Every visible option, by its long name, with the commands that have it.
fn options() -> BTreeMap<String, (Meaning, Vec<String>)> {
    let mut options: BTreeMap<String, (Meaning, Vec<String>)> = BTreeMap::new();
    let mut shorts: BTreeMap<char, String> = BTreeMap::new();
    for binary in BINARIES {
        let definition = define(binary.name).unwrap();
        for command in [&definition].into_iter().chain(definition.get_subcommands()) {
            let name = match command.get_name() {
                name if name == binary.name => name.to_owned(),
                verb => format!("{} {verb}", binary.name),
            };
            for arg in command.get_arguments().filter(|arg| !arg.is_hide_set()) {
                let Some(long) = arg.get_long() else {
                    assert!(arg.is_positional(), "{name}: -{:?} has no long name", arg.get_short());
                    continue;
                };
                let meaning = Meaning::of(arg);
                assert!(!meaning.help.is_empty(), "{name}: --{long} has no help");
                if let Some(short) = meaning.short {
                    let first = shorts.entry(short).or_insert_with(|| long.to_owned());
                    assert_eq!(first, long, "{name}: -{short} has two meanings");
                }
                let known = options.entry(long.to_owned()).or_insert_with(|| (Meaning::of(arg), Vec::new()));
                assert_eq!(known.0, meaning, "{name}: --{long} has two meanings; also in {:?}", known.1);
                known.1.push(name.clone());
            }
        }
    }
    options
}

#[test]
fn options_have_one_meaning_and_a_row() {
    let mut table = String::from("| long | short | meaning | programs |\n|---|---|---|---|\n");
    for (long, (meaning, commands)) in options() {
        let value = if meaning.value.is_empty() { String::new() } else { format!(" {}", meaning.value) };
        let short = meaning.short.map_or_else(String::new, |short| format!("`-{short}`"));
        let help = meaning.help.replace('|', "\\|").replace('<', "\\<");
        table += &format!("| `--{long}{value}` | {short} | {help} | {} |\n", programs(&commands));
    }
    let page = fs::read_to_string(PAGE).unwrap();
    let (before, rest) = page.split_once(BEGIN).unwrap();
    let (_, after) = rest.split_once(END).unwrap();
    gguf_testkit::check_written(PAGE.as_ref(), &format!("{before}{BEGIN}{table}{END}{after}"));
}

/// `inspect set, unset; eval check`.
fn programs(commands: &[String]) -> String {
    let mut by_program: Vec<(&str, BTreeSet<&str>)> = Vec::new();
    for command in commands {
        let command = command.strip_prefix("gguf-").unwrap_or(command);
        let (program, verb) = command.split_once(' ').unwrap_or((command, ""));
        match by_program.iter_mut().find(|(name, _)| *name == program) {
            Some((_, verbs)) => drop(verbs.insert(verb)),
            None => by_program.push((program, BTreeSet::from([verb]))),
        }
    }
    let named = by_program.into_iter().map(|(program, verbs)| {
        let verbs: Vec<&str> = verbs.into_iter().filter(|verb| !verb.is_empty()).collect();
        format!("{program} {}", verbs.join(", ")).trim_end().to_owned()
    });
    named.collect::<Vec<_>>().join("; ")
}
