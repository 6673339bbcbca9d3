//! Sentences about the tables, for `--help`.

use super::{PROGRAMS, To};

/// A line of `--help` about the options that a verb takes in the spelling of its llama.cpp program, if it has one.
pub fn also(binary: &str, verb: Option<&str>) -> Option<String> {
    let program = PROGRAMS.iter().find(|program| program.binary == binary && program.verb == verb)?;
    let foreign = program.options().filter(|(_, to)| !matches!(to, To::Same | To::Whole(_)));
    let names = foreign.filter_map(|(spelled, _)| spelled.names().next());
    let names: Vec<&str> = names.filter(|name| *name != "-h").collect();
    let examples =
        if names.is_empty() { String::new() } else { format!(", for example {}", names.join(", ")) };
    Some(format!(
        "Options of {} also work{examples}; see docs/guides/coming-from-llama-cpp.md.",
        program.name
    ))
}
