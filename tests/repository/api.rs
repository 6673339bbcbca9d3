//! `docs/reference/api.md`: each command as a function in Rust and Python. The Rust names are imported here, so they exist; the
//! Python names are looked up in the modules of the package.

use std::{collections::BTreeSet, env, fmt::Write as _, fs};

use gguf_tools::commands::COMMANDS;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/reference/api.md");
const PACKAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/python/gguf_tools");
const BEGIN: &str = "<!-- api -->\n";
const END: &str = "<!-- /api -->\n";

/// A command and its counterparts.
struct Row {
    command: &'static str,
    rust: &'static str,
    python: Python,
}

enum Python {
    /// Functions, classes and methods, separated by spaces.
    Names(&'static str),
    /// Reason why the command makes no sense in a library.
    None(&'static str),
}

macro_rules! rows {
    ($($command:literal: $($segment:ident)::+, $python:expr;)*) => {
        /// The table.
        const ROWS: &[Row] = &[$(
            Row { command: $command, rust: stringify!($($segment)::+), python: $python },
        )*];
        $(const _: () = {
            #[expect(unused_imports, reason = "the name exists if this compiles")]
            use $($segment)::+ as _;
        };)*
    };
}

use Python::{Names, None as Without};

rows! {
    "gguf-convert": gguf_toolkit::Convert, Names("convert plan save");
    "gguf-convert export": gguf_toolkit::Export, Names("export");
    "gguf-convert adapter": gguf_toolkit::ConvertAdapter, Names("convert_adapter");
    "gguf-convert vocab": gguf_toolkit::ConvertVocab, Names("convert_vocab");
    "gguf-convert mmproj": gguf_toolkit::ConvertProjector, Names("convert_projector");
    "gguf-convert legacy": gguf_toolkit::ConvertLegacy, Names("convert");
    "gguf-convert plan": gguf_toolkit::convert::Planned, Names("plan_parts");
    "gguf-convert part": gguf_toolkit::convert::Planned, Names("part");
    "gguf-convert assemble": gguf_toolkit::convert::Planned, Names("assemble");
    "gguf-convert architectures": gguf_toolkit::architectures, Names("architectures");
    "gguf-quantize": gguf_toolkit::Quantize, Names("quantize plan");
    "gguf-quantize plan": gguf_toolkit::convert::Planned, Names("plan_parts");
    "gguf-quantize part": gguf_toolkit::convert::Planned, Names("part");
    "gguf-quantize assemble": gguf_toolkit::convert::Planned, Names("assemble");
    "gguf-publish": gguf_toolkit::publish::publish, Names("publish");
    "gguf-inspect show": gguf_toolkit::summary, Names("summary open");
    "gguf-inspect tokenizer": gguf_toolkit::Model, Names("Model.tokenize");
    "gguf-inspect prompt": gguf_toolkit::Model, Names("Model.apply_chat_template");
    "gguf-inspect verify": gguf_toolkit::verify::verify, Names("verify");
    "gguf-inspect hash": gguf_toolkit::hash::hash, Names("hash");
    "gguf-inspect diff": gguf_toolkit::diff::diff, Names("diff");
    "gguf-inspect extract": gguf_toolkit::extract::extract, Names("extract");
    "gguf-inspect set": gguf_toolkit::edit::edit, Names("edit_metadata");
    "gguf-inspect unset": gguf_toolkit::edit::edit, Names("edit_metadata");
    "gguf-inspect rename": gguf_toolkit::edit::edit, Names("edit_metadata");
    "gguf-inspect export-metadata": gguf_toolkit::export_metadata::export_metadata, Names("export_metadata");
    "gguf-inspect fit": gguf_toolkit::fit::fit, Names("fit");
    "gguf-inspect recipe": gguf_toolkit::recipe::recipe_of_file, Names("recipe");
    "gguf-inspect split": gguf_toolkit::split::split, Names("split");
    "gguf-inspect merge": gguf_toolkit::merge::merge, Names("merge");
    "gguf-inspect endian": gguf_toolkit::endian::change_endian, Names("change_endian");
    "gguf-inspect cpu": gguf_toolkit::quant::Level, Without("reports on the machine, not on a file");
    "gguf-eval perplexity": gguf_toolkit::perplexity, Names("perplexity");
    "gguf-eval compare": gguf_toolkit::compare, Names("compare");
    "gguf-eval check": gguf_toolkit::check::check, Names("check");
    "gguf-eval check-against": gguf_toolkit::check_against::CheckAgainst, Names("check_against record");
    "gguf-eval imatrix": gguf_toolkit::imatrix, Names("imatrix");
    "gguf-eval draft": gguf_toolkit::draft, Without("needs two models that stay open, which the package does not offer yet");
    "gguf-eval score": gguf_toolkit::Model, Names("Model.score");
    "gguf-eval generate": gguf_toolkit::Model, Names("Model.generate");
    "gguf-eval chat": gguf_toolkit::ChatSession, Names("Model.chat ChatSession.ask");
    "gguf-eval embed": gguf_toolkit::Model, Names("Model.embed");
}

/// True if a module has this function, class or method.
fn is_defined(modules: &str, name: &str) -> bool {
    let has = |text: &str, indent: &str, name: &str| {
        text.lines().any(|line| {
            let Some(line) = line.strip_prefix(indent) else { return false };
            ["def ", "class "].iter().any(|word| {
                let rest = line.strip_prefix(word).and_then(|rest| rest.strip_prefix(name));
                rest.is_some_and(|rest| rest.starts_with(['(', ':']))
            })
        })
    };
    match name.split_once('.') {
        None => has(modules, "", name),
        Some((class, method)) => {
            let Some(at) = modules.find(&format!("\nclass {class}")) else { return false };
            let body = &modules[at + 1..];
            let end = body.find("\nclass ").unwrap_or(body.len());
            has(&body[..end], "    ", method)
        }
    }
}

#[test]
fn every_command_is_a_function_in_rust_and_python() {
    let commands: BTreeSet<String> = COMMANDS
        .iter()
        .map(|command| [command.binary].into_iter().chain(command.verb).collect::<Vec<_>>().join(" "))
        .collect();
    let listed: BTreeSet<String> = ROWS.iter().map(|row| row.command.to_owned()).collect();
    assert_eq!(listed, commands);
    assert_eq!(listed.len(), ROWS.len(), "a command has two rows");
    let files = fs::read_dir(PACKAGE).unwrap().map(|entry| entry.unwrap().path());
    let modules = files.filter(|path| path.extension().is_some_and(|extension| extension == "py"));
    let modules: String = modules.map(|path| fs::read_to_string(path).unwrap()).collect();
    let mut table = String::from("| command | Rust | Python |\n|---|---|---|\n");
    for Row { command, rust, python } in ROWS {
        let rust = rust.replace(' ', "");
        let python = match python {
            Without(reason) => (*reason).to_owned(),
            Names(names) => {
                let names = names.split(' ').map(|name| {
                    assert!(is_defined(&modules, name), "{command}: the Python package has no `{name}`");
                    format!("`{name}`")
                });
                names.collect::<Vec<_>>().join(", ")
            }
        };
        let _ = writeln!(table, "| `{command}` | `{rust}` | {python} |");
    }
    let page = fs::read_to_string(PAGE).unwrap();
    let (before, rest) = page.split_once(BEGIN).unwrap();
    let (_, after) = rest.split_once(END).unwrap();
    gguf_testkit::check_written(PAGE.as_ref(), &format!("{before}{BEGIN}{table}{END}{after}"));
}
