//! How help is laid out, for all commands: `-h` fits on a screen, `--help` has everything.
//!
//! Of a description `-h` shows the first clause, of the examples the first few, and of commands with many options those
//! that are needed often. Paragraphs are broken to the width of the terminal, once.

use clap::builder::StyledStr;

use super::llama_cpp;

/// What `-h` shows of commands whose options are more than a screen has lines; other commands show all.
const OFTEN: &[(&str, Option<&str>, &[&str])] = &[
    (
        "gguf-convert",
        None,
        &[
            "src",
            "out",
            "types",
            "dry_run",
            "force",
            "resume",
            "threads",
            "imatrix",
            "tensor_type",
            "split_max_size",
            "mmproj",
            "with_mmproj",
            "calibrate",
            "to",
            "list_architectures",
            "quiet",
        ],
    ),
    (
        "gguf-quantize",
        None,
        &[
            "what",
            "allow_requantize",
            "dry_run",
            "force",
            "resume",
            "threads",
            "imatrix",
            "output_tensor_type",
            "token_embedding_type",
            "tensor_type",
            "pure",
            "override_kv",
            "split_max_size",
            "recipe",
            "calibrate",
            "quiet",
        ],
    ),
];

/// Headings of `--help` for options of commands that have many; the others stand under `Options`, or under the heading of what
/// they are shared with.
const GROUPS: &[(&str, &str, &[&str])] = &[
    (
        "gguf-convert",
        "The checkpoint",
        &[
            "keep",
            "mistral_format",
            "unmasked_zeros",
            "allow_nonfinite",
            "arch_as",
            "pre",
            "lora",
            "base",
            "target_model_dir",
            "config",
            "eps",
            "context_length",
            "rope_base",
        ],
    ),
    (
        "gguf-convert",
        "The file",
        &[
            "model_name",
            "via",
            "fp8_as",
            "repack",
            "big_endian",
            "no_mtp",
            "mtp",
            "mmproj",
            "with_mmproj",
            "mmproj_type",
            "vocab_only",
            "embed_tokenizer_json",
            "scores_from_merges",
            "dense_modules",
            "shard_bytes",
        ],
    ),
];

/// Examples that `-h` shows.
const N_EXAMPLES: usize = 3;

/// The definition of a command with its help laid out.
pub(in crate::commands) fn laid_out(
    command: clap::Command,
    binary: &'static str,
    verb: Option<&'static str>,
) -> clap::Command {
    let often = OFTEN.iter().find(|(of, its, _)| (*of, *its) == (binary, verb)).map(|(.., ids)| *ids);
    let command = command.mut_args(|mut arg| {
        let id = arg.get_id().as_str().to_owned();
        let heading =
            GROUPS.iter().find(|(of, _, ids)| *of == binary && verb.is_none() && ids.contains(&id.as_str()));
        if let Some((_, heading, _)) = heading {
            arg = arg.help_heading(*heading);
        }
        let whole = arg.get_long_help().or(arg.get_help()).map(StyledStr::to_string);
        if let Some(whole) = whole {
            arg = arg.help(first_clause(&whole).to_owned()).long_help(whole);
        }
        let is_shown = often.is_none_or(|ids| ids.contains(&id.as_str()));
        // What is hidden from `--help` too stays so.
        if is_shown { arg } else { arg.hide_short_help(true) }
    });
    let examples = command.get_after_help().map(StyledStr::to_string).unwrap_or_default();
    let whole = command.get_after_long_help().map_or_else(|| examples.clone(), StyledStr::to_string);
    let mut long = paragraphs(&whole);
    if let Some(also) = llama_cpp::also(binary, verb) {
        long = format!("{long}\n\n{also}");
    }
    let more = match often {
        Some(_) => "`--help` has all options, more examples and the list of types.",
        None => "`--help` says more.",
    };
    let short = [first_examples(&examples), more.to_owned()].into_iter().filter(|it| !it.is_empty());
    command.after_help(short.collect::<Vec<_>>().join("\n\n")).after_long_help(long)
}

/// A text up to the end of its first clause, without the full stop.
fn first_clause(text: &str) -> &str {
    let paragraph = text.split("\n\n").next().unwrap_or_default();
    // `With --part: the file` is one clause.
    let has_condition = paragraph.starts_with("With ") || paragraph.starts_with("For ");
    let colon = paragraph.find(": ").filter(|_| !has_condition);
    let ends = ["; ", " ("].into_iter().filter_map(|end| paragraph.find(end)).chain(colon);
    let is_new = |at: &usize| {
        let next = paragraph[at + 2..].chars().next();
        next.is_some_and(|c| c.is_uppercase() || c == '-' || c == '`')
    };
    let sentence = paragraph.match_indices(". ").map(|(at, _)| at).find(is_new);
    let end = ends.chain(sentence).min().unwrap_or(paragraph.len());
    paragraph[..end].trim_end_matches('.')
}

/// What stands before the examples, and the first of them.
fn first_examples(text: &str) -> String {
    let mut blocks = Vec::new();
    for block in text.split("\n\n") {
        if block.starts_with("Examples:") {
            blocks.push(block.lines().take(1 + N_EXAMPLES).collect::<Vec<_>>().join("\n"));
            break;
        }
        blocks.push(paragraphs(block));
    }
    blocks.join("\n\n")
}

/// Lines of prose joined to paragraphs, which clap breaks at the width of the terminal; lines that are set in stay.
fn paragraphs(text: &str) -> String {
    let block = |block: &str| {
        let is_prose = !block.lines().any(|line| line.starts_with(' '));
        if is_prose { block.lines().collect::<Vec<_>>().join(" ") } else { block.to_owned() }
    };
    text.trim_end().split("\n\n").map(block).collect::<Vec<_>>().join("\n\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::{BINARIES, define};

    /// Lines of a terminal that is not large; it has 100 columns.
    const SCREEN_LINES: usize = 40;

    #[test]
    fn short_help_of_every_command_fits_on_a_screen() {
        for binary in BINARIES {
            let mut definition = define(binary.name).unwrap();
            definition.build();
            for command in definition.get_subcommands_mut().filter(|it| it.get_name() != "help") {
                check(&mut command.clone());
            }
            check(&mut definition);
        }
    }

    fn check(command: &mut clap::Command) {
        let short = command.render_help().to_string();
        let name = command.get_name().to_owned();
        assert!(short.lines().count() <= SCREEN_LINES, "{name}: {} lines\n{short}", short.lines().count());
        let long = command.render_long_help().to_string();
        assert!(long.len() > short.len(), "{name}");
    }

    #[test]
    fn tables_name_options_that_there_are() {
        let has = |binary: &str, verb: Option<&str>, id: &str| {
            let definition = define(binary).unwrap();
            let command = verb.map_or(Some(&definition), |verb| definition.find_subcommand(verb));
            command.unwrap().get_arguments().any(|arg| arg.get_id() == id)
        };
        for (binary, verb, ids) in OFTEN {
            ids.iter().for_each(|id| assert!(has(binary, *verb, id), "{binary} has no {id}"));
        }
        for (binary, _, ids) in GROUPS {
            ids.iter().for_each(|id| assert!(has(binary, None, id), "{binary} has no {id}"));
        }
    }

    #[test]
    fn sentences_and_paragraphs() {
        assert_eq!(first_clause("Do it. Twice."), "Do it");
        assert_eq!(first_clause("Of f32 vs. f16"), "Of f32 vs. f16");
        assert_eq!(first_clause("One\n\nTwo"), "One");
        assert_eq!(first_clause("Go on (or not): it is KEY=TYPE:VALUE"), "Go on");
        assert_eq!(first_clause("With --part: the file (new)"), "With --part: the file");
        assert_eq!(paragraphs("a\nb\n\n  c\n  d\n"), "a b\n\n  c\n  d");
        assert_eq!(
            first_examples("x\n\nExamples:\n  1\n  2\n  3\n  4\n\ny"),
            "x\n\nExamples:\n  1\n  2\n  3"
        );
    }
}
