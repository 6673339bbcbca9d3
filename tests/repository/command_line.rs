//! The definitions of all programs: help that fits a terminal, and the options of a call.

use std::{collections::BTreeSet, num::NonZeroUsize};

use gguf_toolkit::{
    Convert, ConvertAdapter, ConvertLegacy, ConvertProjector, Quantize,
    call::{HARMLESS, PERMISSIONS},
    table::WIDTH,
    threads::useful_threads,
};
use gguf_tools::commands::{
    BINARIES, COMMANDS, define,
    internals::{
        COUNTERPARTS, EXAMPLES, MEASURED, brief, call_of, examples, parse_bits, parse_threads, types_help,
    },
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

/// Options of conversions that change bytes. A new option belongs here, to `HARMLESS` or to `PERMISSIONS` of
/// `crates/toolkit/src/call.rs`.
const CHANGE_BYTES: &[&str] = &[
    "adapters",
    "allow_types",
    "arch_as",
    "base",
    "big_endian",
    "calibrate",
    "calibration_tokens",
    "config",
    "context",
    "dense_modules",
    "embed_tokenizer_json",
    "equal_scores",
    "eps",
    "exclude_weights",
    "fp8_as",
    "header_slack",
    "imatrix",
    "include_weights",
    "inputs_only",
    "keep_split",
    "keep_types",
    "leave_output_tensor",
    "lora",
    "lora_tokenizer",
    "missing_imatrix",
    "mistral_format",
    "mmproj_type",
    "model_name",
    "mtp",
    "no_larger_than_type",
    "no_mtp",
    "output_tensor_type",
    "override_kv",
    "pre",
    "prediction",
    "prune_layers",
    "pure",
    "recipe",
    "repack",
    "rope_base",
    "rounding",
    "split_max_size",
    "split_max_tensors",
    "target_bpw",
    "target_model_dir",
    "target_size",
    "tensor_type",
    "tensor_type_file",
    "tensor_types",
    "to",
    "token_embedding_type",
    "train_scales",
    "types",
    "unmasked_zeros",
    "via",
    "with_mmproj",
];

#[test]
fn every_option_is_classified_for_resuming() {
    let conversions = COMMANDS.iter().filter(|command| command.conversion.is_some());
    let mut ids = BTreeSet::new();
    for command in conversions {
        let defined = (command.define)(clap::Command::default());
        let options = defined.get_arguments().filter(|arg| arg.get_long().is_some());
        ids.extend(options.map(|arg| arg.get_id().to_string()));
    }
    // The same lists decide about the JSON form of the options, whose fields have these names.
    let mut fields = BTreeSet::new();
    let operations = [
        serde_json::to_value(Quantize::default()),
        serde_json::to_value(Convert::default()),
        serde_json::to_value(ConvertAdapter::default()),
        serde_json::to_value(ConvertLegacy::default()),
        serde_json::to_value(ConvertProjector::default()),
    ];
    operations.iter().for_each(|options| leaves(options.as_ref().unwrap(), &mut fields));
    let classes = [HARMLESS, PERMISSIONS, CHANGE_BYTES];
    let all: BTreeSet<String> = ids.union(&fields).cloned().collect();
    let of = |name: &&String| classes.iter().filter(|class| class.contains(&name.as_str())).count() != 1;
    let wrong: Vec<&String> = all.iter().filter(of).collect();
    assert!(wrong.is_empty(), "in no list, or in two: {wrong:?}");
    let unknown = classes.concat().into_iter().filter(|name| !all.contains(*name) && !is_group(name));
    assert_eq!(unknown.collect::<Vec<_>>(), [""; 0], "not an option");
}

/// Groups of options in JSON.
fn is_group(name: &str) -> bool {
    ["output", "hub"].contains(&name)
}

/// Names of the options in JSON, without harmless groups.
fn leaves(options: &serde_json::Value, names: &mut BTreeSet<String>) {
    for (name, value) in options.as_object().into_iter().flatten().filter(|(name, _)| !is_group(name)) {
        match value.is_object() {
            true => leaves(value, names),
            false => drop(names.insert(name.clone())),
        }
    }
}

#[test]
fn options_that_change_bytes_are_recorded() {
    let options = |line: &str| {
        let matches = define("gguf-convert").unwrap().try_get_matches_from(line.split(' ')).unwrap();
        let command =
            COMMANDS.iter().find(|command| command.binary == "gguf-convert" && command.verb.is_none());
        call_of(command.unwrap(), &matches).options
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
