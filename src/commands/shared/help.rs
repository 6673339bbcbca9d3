//! Layout of help: `-h` fits on a screen of 24 lines, `--help` has everything.
//!
//! Each option has one sentence for `-h` (the first paragraph of its doc comment) and details for `--help` (the rest).
//! Options that are rarely needed are hidden from `-h` where they are defined.

use clap::builder::StyledStr;
use gguf_toolkit::table::WIDTH;

use super::llama_cpp;

/// Number of examples in `-h`.
const N_EXAMPLES: usize = 1;

/// Examples and notes of all commands, in sections.
pub const EXAMPLES: &str = include_str!("../examples.txt");

/// Examples and notes of a command of a program, below the options in its help.
pub fn examples(binary: &str, verb: Option<&str>) -> &'static str {
    let name = [binary].into_iter().chain(verb).collect::<Vec<_>>().join(" ");
    let rest = EXAMPLES.split_once(&format!("\n# {name}\n")).map_or("", |(_, rest)| rest);
    rest.split("\n# ").next().unwrap_or_default().trim()
}

/// The definition of a command with its examples and notes laid out.
pub(in crate::commands) fn laid_out(
    command: clap::Command,
    binary: &'static str,
    verb: Option<&'static str>,
) -> clap::Command {
    let text = examples(binary, verb);
    let whole = command.get_after_long_help().map_or_else(|| text.to_owned(), StyledStr::to_string);
    let mut long = paragraphs(&whole);
    if let Some(also) = llama_cpp::also(binary, verb) {
        long = format!("{long}\n\n{also}");
    }
    command.after_help(first_examples(text)).after_long_help(long)
}

/// The definition for `-h` of a program: verbs without options, or options with the names of the verbs.
pub fn brief(mut definition: clap::Command) -> clap::Command {
    definition.build();
    let has_arguments = definition.get_positionals().next().is_some();
    let verbs: Vec<String> = definition
        .get_subcommands()
        .map(|verb| verb.get_name().to_owned())
        .filter(|name| name != "help")
        .collect();
    definition = definition.mut_arg("version", |arg| arg.hide_short_help(true));
    if verbs.is_empty() {
        return definition;
    }
    if has_arguments {
        let list = format!("Commands: {}", verbs.join(", "));
        return definition.mut_subcommands(|verb| verb.hide(true)).after_help(list);
    }
    let name = definition.get_name().to_owned();
    definition
        .mut_args(|arg| arg.hide_short_help(true))
        .mut_subcommand("help", |verb| verb.hide(true))
        .override_usage(format!("{name} COMMAND [OPTIONS]"))
}

/// The first examples of a text.
fn first_examples(text: &str) -> String {
    let examples = text.split("\n\n").find(|block| block.starts_with("Examples:")).unwrap_or_default();
    examples.lines().take(1 + N_EXAMPLES).collect::<Vec<_>>().join("\n")
}

/// Joins the lines of prose into paragraphs, which clap wraps to the width of the terminal. Indented lines stay; long
/// examples continue on the next line, as in a shell.
fn paragraphs(text: &str) -> String {
    let block = |block: &str| {
        let is_prose = !block.lines().any(|line| line.starts_with(' '));
        if is_prose {
            block.lines().collect::<Vec<_>>().join(" ")
        } else {
            block.lines().map(continued).collect::<Vec<_>>().join("\n")
        }
    };
    text.trim_end().split("\n\n").map(block).collect::<Vec<_>>().join("\n\n")
}

/// A command in lines that fit a terminal: broken before an option or, if there is none, at a space.
fn continued(line: &str) -> String {
    if line.chars().count() <= WIDTH || !line.starts_with("  gguf-") {
        return line.to_owned();
    }
    let room = line.char_indices().nth(WIDTH - 2).map_or(line.len(), |(at, _)| at);
    let at = line[..room].rfind(" -").filter(|at| *at > room / 2).or_else(|| line[..room].rfind(' '));
    let (first, rest) = line.split_at(at.unwrap_or(line.len()));
    format!("{first} \\\n     {rest}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_and_paragraphs_are_wrapped() {
        assert_eq!(paragraphs("a\nb\n\n  c\n  d\n"), "a b\n\n  c\n  d");
        let example = format!("Examples:\n  gguf-convert {} --type q4_k_m", "m".repeat(60));
        let lines = format!("Examples:\n  gguf-convert {} \\\n      --type q4_k_m", "m".repeat(60));
        assert_eq!(paragraphs(&example), lines);
        assert_eq!(first_examples("x\n\nExamples:\n  1\n  2\n  3\n\ny"), "Examples:\n  1");
    }
}
