//! Options of llama.cpp's programs that ours spell in another way: what to write instead.

use clap::{
    builder::StyledStr,
    error::{ContextKind, ContextValue, ErrorKind},
};

/// Options and what to write instead of them, by binary.
const FOREIGN: &[(&str, &[&str], &str)] = &[
    ("gguf-convert", &["--outtype"], "the file type is `--type`, as in `gguf-convert SRC --type q8_0`"),
    (
        "gguf-convert",
        &["-o", "--outfile", "--output", "--outdir"],
        "the output is the second argument: `gguf-convert SRC OUT`",
    ),
    (
        "gguf-convert",
        &["-m", "--model", "--model-dir", "--input"],
        "the checkpoint is the first argument: `gguf-convert SRC`",
    ),
    ("gguf-convert", &["--nthreads", "--n-threads", "-p"], "threads are `--threads N` or `-j N`"),
    ("gguf-convert", &["--remote"], "leave it out and write the model as hf://OWNER/MODEL"),
    (
        "gguf-convert",
        &["--no-lazy", "--use-temp-file"],
        "leave it out: weights are read in pieces, and memory does not depend on the model",
    ),
    ("gguf-convert", &["--fp8-as-q8"], "matrices of FP8 become Q8_0 by `--fp8-as q8_0`"),
    ("gguf-convert", &["--bigendian"], "big-endian files are `--big-endian`"),
    (
        "gguf-quantize",
        &["-t", "--nthreads", "--n-threads"],
        "threads are `--threads N`, `-j N` or the last argument: `gguf-quantize IN OUT TYPE N`",
    ),
    (
        "gguf-quantize",
        &["--type", "--outtype", "--ftype"],
        "the type is an argument: `gguf-quantize IN OUT TYPE`",
    ),
    (
        "gguf-quantize",
        &["-m", "--model", "--input", "-i"],
        "the input is the first argument: `gguf-quantize IN OUT TYPE`",
    ),
    (
        "gguf-quantize",
        &["-o", "--output", "--outfile"],
        "the output is the second argument: `gguf-quantize IN OUT TYPE`",
    ),
    ("gguf-eval", &["-m", "--model"], "the model is an argument: `gguf-eval VERB MODEL`"),
    ("gguf-eval", &["-c", "--ctx-size"], "tokens in a chunk are `--context N`"),
    ("gguf-eval", &["--chunks"], "a number of chunks is `--windows N` or `-n N`"),
    ("gguf-eval", &["--file"], "a text is `--text FILE` or `-f FILE`"),
    ("gguf-eval", &["-t", "--threads-batch", "-tb"], "threads are `--threads N` or `-j N`"),
    ("gguf-eval", &["-ngl", "--gpu-layers", "--n-gpu-layers"], "leave it out: everything runs on the CPU"),
    (
        "gguf-eval",
        &["-b", "-ub", "--batch-size", "--ubatch-size", "-fa", "--flash-attn", "--mmap", "--no-mmap"],
        "leave it out: it changes nothing here",
    ),
    (
        "gguf-eval",
        &["--kl-divergence", "--kl-divergence-base"],
        "divergence is a verb: `gguf-eval compare BASE MODEL --text FILE`",
    ),
    ("gguf-eval", &["--temp"], "temperature is `--temperature`"),
    ("gguf-eval", &["--n-predict"], "the number of tokens to generate is `--tokens N` or `-n N`"),
];

/// What to write instead of `option`.
fn instead(binary: &str, option: &str) -> Option<&'static str> {
    FOREIGN.iter().find(|(of, options, _)| *of == binary && options.contains(&option)).map(|(_, _, tip)| *tip)
}

/// The same error, with the right spelling in place of clap's guess where the option is one of llama.cpp's.
pub(in crate::commands) fn explain(
    mut error: clap::Error,
    binary: &str,
    arguments: &[String],
) -> clap::Error {
    // `-ngl 99` reads as `-n gl`, so the error is about another option.
    let many_letters =
        arguments.iter().find(|it| it.starts_with('-') && !it.starts_with("--") && it.len() > 2);
    let unknown = match (error.kind(), error.get(ContextKind::InvalidArg)) {
        (ErrorKind::UnknownArgument, Some(ContextValue::String(option))) => Some(option.clone()),
        _ => None,
    };
    let tip = unknown.and_then(|option| instead(binary, option.split(['=', ' ']).next().unwrap_or_default()));
    let tip = tip.or_else(|| instead(binary, many_letters?));
    if let Some(tip) = tip {
        error.remove(ContextKind::SuggestedArg);
        error.remove(ContextKind::TrailingArg);
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![StyledStr::from(tip)]));
    }
    error
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::commands::define;

    #[test]
    fn foreign_options_are_none_of_ours() {
        let mut seen = BTreeSet::new();
        for (binary, options, _) in FOREIGN {
            let definition = define(binary).unwrap();
            for option in *options {
                assert!(seen.insert((binary, option)), "{option} twice");
                // A verb may have what another lacks; a binary without verbs may not.
                let is_ours = definition.get_arguments().any(|arg| {
                    arg.get_long().is_some_and(|long| *option == format!("--{long}"))
                        || arg.get_short().is_some_and(|short| *option == format!("-{short}"))
                });
                assert!(!is_ours, "{binary} has {option}");
            }
        }
    }
}
