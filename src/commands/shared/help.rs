//! Layout of help: `-h` fits on a screen of 24 lines, `--help` has everything.
//!
//! Each option has one sentence for `-h` (the first paragraph of its doc comment) and details for `--help` (the rest).
//! Options that are rarely needed are hidden from `-h` where they are defined.

use clap::builder::StyledStr;
use gguf_toolkit::table::WIDTH;

use super::llama_cpp;

/// Heading of main options in a group with another heading.
pub(in crate::commands) const MAIN: Option<&str> = None;

/// Number of examples in `-h`.
const N_EXAMPLES: usize = 1;

/// The definition of a command with its examples and notes laid out.
pub(in crate::commands) fn laid_out(
    command: clap::Command,
    binary: &'static str,
    verb: Option<&'static str>,
) -> clap::Command {
    let text = command.get_after_help().map(StyledStr::to_string).unwrap_or_default();
    let whole = command.get_after_long_help().map_or_else(|| text.clone(), StyledStr::to_string);
    let mut long = paragraphs(&whole);
    if let Some(also) = llama_cpp::also(binary, verb) {
        long = format!("{long}\n\n{also}");
    }
    command.after_help(first_examples(&text)).after_long_help(long)
}

/// The definition for `-h` of a program: verbs without options, or options with the names of the verbs.
pub(in crate::commands) fn brief(mut definition: clap::Command) -> clap::Command {
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
        match is_prose {
            true => block.lines().collect::<Vec<_>>().join(" "),
            false => block.lines().map(continued).collect::<Vec<_>>().join("\n"),
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
    use crate::commands::{BINARIES, define};

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
    fn examples_and_paragraphs_are_wrapped() {
        assert_eq!(paragraphs("a\nb\n\n  c\n  d\n"), "a b\n\n  c\n  d");
        let example = format!("Examples:\n  gguf-convert {} --type q4_k_m", "m".repeat(60));
        let lines = format!("Examples:\n  gguf-convert {} \\\n      --type q4_k_m", "m".repeat(60));
        assert_eq!(paragraphs(&example), lines);
        assert_eq!(first_examples("x\n\nExamples:\n  1\n  2\n  3\n\ny"), "Examples:\n  1");
    }
}
