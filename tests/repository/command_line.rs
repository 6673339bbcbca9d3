//! The definitions of all programs: help that fits a terminal, and the options of a call.

use std::{collections::BTreeSet, num::NonZeroUsize};

use gguf_toolkit::{
    Convert, ConvertAdapter, ConvertLegacy, ConvertProjector, Quantize,
    arguments::parse_bits,
    call::{HARMLESS, PERMISSIONS},
    table::WIDTH,
    threads::useful_threads,
};
use gguf_tools::commands::{
    BINARIES, COMMANDS, define,
    internals::{COUNTERPARTS, EXAMPLES, MEASURED, brief, examples, parse_threads, types_help},
};

/// Lines and columns of the smallest common terminal, without the line of the next prompt.
const SCREEN: (usize, usize) = (23, 80);

#[test]
fn short_help_fits_one_screen() {
    let mut problems = Vec::new();
    for binary in BINARIES {
        let definition = define(binary.name).unwrap();
        let mut built = definition.clone();
        built.build();
        let verbs = built.get_subcommands().filter(|command| command.get_name() != "help");
        let commands = verbs.cloned().chain([brief(definition)]);
        problems.extend(commands.filter_map(problem));
    }
    assert!(problems.is_empty(), "{}", problems.join("\n\n"));
}

fn problem(command: clap::Command) -> Option<String> {
    let mut command = command.term_width(SCREEN.1);
    let name = command.get_name().to_owned();
    let short = command.render_help().to_string();
    let n_lines = short.lines().count();
    let n_columns = short.lines().map(|line| line.chars().count()).max().unwrap_or_default();
    let is_brief = n_lines <= SCREEN.0 && n_columns <= SCREEN.1;
    let long = command.render_long_help().to_string();
    let problem = format!("{name}: {n_lines} lines of up to {n_columns} columns\n{short}");
    let is_wide = |line: &&str| line.chars().count() > SCREEN.1 || line.trim() == "gguf-";
    if let Some(line) = long.lines().find(is_wide) {
        return Some(format!("{name} --help: line of {} columns: {line}", line.chars().count()));
    }
    (!is_brief || long.len() <= short.len()).then_some(problem)
}

#[test]
fn every_command_has_examples() {
    for command in COMMANDS {
        let text = examples(command.binary, command.verb);
        assert!(text.contains("Examples:\n  gguf-"), "{} {:?}", command.binary, command.verb);
    }
    let n_sections = EXAMPLES.lines().filter(|line| line.starts_with("# ")).count();
    assert_eq!(n_sections, COMMANDS.len(), "a section of examples.txt belongs to no command");
}

#[test]
fn counterparts_belong_to_a_program() {
    let rows: Vec<&str> = COUNTERPARTS.lines().filter(|line| !line.starts_with('#')).collect();
    assert!(rows.len() > 20, "{rows:?}");
    for row in rows {
        let parts: Vec<&str> = row.split(" | ").collect();
        let [start, options, hint] = parts[..] else { panic!("{row}: expected three parts") };
        assert!(BINARIES.iter().any(|binary| start.split(' ').next() == Some(binary.name)), "{row}");
        assert!(options.split(' ').all(|option| option.starts_with('-')) && !hint.is_empty(), "{row}");
    }
}

#[test]
fn rows_of_types_fit_a_terminal() {
    for binary in ["gguf-convert", "gguf-quantize"] {
        let help = types_help(binary);
        let (_, types) = help.split_once("\nTypes:\n").unwrap();
        let wide = types.lines().find(|line| line.starts_with("  ") && line.chars().count() > WIDTH);
        assert_eq!(wide, None);
    }
}

#[test]
fn measured_types_exist() {
    let rows = MEASURED.lines().filter(|line| !line.starts_with('#'));
    let names: Vec<&str> = rows.map(|line| line.split('\t').next().unwrap()).collect();
    assert!(names.len() > 30);
    for name in names {
        assert!(gguf_toolkit::types().iter().any(|recipe| recipe.name == name), "{name}");
    }
}

#[test]
fn thread_counts_are_parsed_and_capped() {
    assert_eq!(parse_threads("8").map(NonZeroUsize::get), Ok(8));
    for text in ["0", "-1", "", "many", "1.5"] {
        assert!(parse_threads(text).unwrap_err().contains("1 or more"), "{text}");
    }
    let available = useful_threads(None);
    assert_eq!(useful_threads(NonZeroUsize::new(1)), 1);
    assert_eq!(useful_threads(NonZeroUsize::new(100_000)), available);
}

#[test]
fn bits_per_weight_are_parsed() {
    assert_eq!(parse_bits("4.25"), Ok(4.25));
    assert!(parse_bits("0").is_err() && parse_bits("NaN").is_err() && parse_bits("64").is_err());
}

#[test]
fn options_without_effect_on_bytes_exist() {
    let mut fields = BTreeSet::new();
    let operations = [
        serde_json::to_value(Quantize::default()),
        serde_json::to_value(Convert::default()),
        serde_json::to_value(ConvertAdapter::default()),
        serde_json::to_value(ConvertLegacy::default()),
        serde_json::to_value(ConvertProjector::default()),
    ];
    operations.iter().for_each(|options| names(options.as_ref().unwrap(), &mut fields));
    let unknown = [HARMLESS, PERMISSIONS].concat().into_iter().filter(|name| !fields.contains(*name));
    assert_eq!(unknown.collect::<Vec<_>>(), [""; 0], "not an option");
}

/// Names of options and of their groups in JSON.
fn names(options: &serde_json::Value, found: &mut BTreeSet<String>) {
    for (name, value) in options.as_object().into_iter().flatten() {
        found.insert(name.clone());
        names(value, found);
    }
}

#[test]
fn options_that_change_bytes_are_recorded() {
    let options = |line: &str| {
        let matches = define("gguf-convert").unwrap().try_get_matches_from(line.split(' ')).unwrap();
        let command =
            COMMANDS.iter().find(|command| command.binary == "gguf-convert" && command.verb.is_none());
        (command.unwrap().conversion.unwrap())(&matches).unwrap().call().unwrap().options
    };
    let named = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let plain = [named("--type", "q4_k_m,q8_0")];
    assert_eq!(options("gguf-convert src out -t Q4_K_M,q8_0"), plain);
    assert_eq!(options("gguf-convert src out -t q4_k_m -t q8_0 -j 3 -q --force --resume --json"), plain);
    let mut more = options("gguf-convert src -t f16 --pure --lora a=2 --lora b --via bf16");
    more.sort();
    let expected =
        [named("--lora", "a=2,b"), named("--pure", "given"), named("--type", "f16"), named("--via", "bf16")];
    assert_eq!(more, expected);
}
