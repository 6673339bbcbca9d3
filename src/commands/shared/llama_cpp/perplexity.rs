//! `llama-perplexity`.

use super::{
    call::Call,
    common,
    program::{Program, Row, To::*, row},
};
use crate::failure::Failure;

pub(super) const PROGRAM: Program = Program {
    name: "llama-perplexity",
    binary: "gguf-eval",
    verb: Some("perplexity"),
    rows: &[common::ROWS, ROWS],
    shares_common: true,
    habits: &[],
    arrange,
};

const ROWS: &[Row] = &[
    row(&["--ppl-stride N"], Option("--stride", &["0"])),
    row(
        &["--kl-divergence"],
        Arranged(
            "`gguf-eval compare BASE MODEL`, with the file of `--kl-divergence-base` as BASE and no text",
        ),
    ),
    row(
        &["--save-all-logits --kl-divergence-base FILE"],
        Arranged(
            "`gguf-eval compare MODEL --text TEXT --save-logits FILE`; with `--kl-divergence`, the base",
        ),
    ),
    row(&["--hellaswag"], Arranged("`gguf-eval score MODEL --hellaswag TEXT`")),
    row(&["--winogrande"], Arranged("`gguf-eval score MODEL --winogrande TEXT`")),
    row(&["--multiple-choice"], Arranged("`gguf-eval score MODEL --multiple-choice TEXT`")),
    row(&["--hellaswag-tasks N"], Arranged("`--tasks N`; 400 with `--hellaswag`, as there")),
    row(&["--winogrande-tasks N", "--multiple-choice-tasks N"], Arranged("`--tasks N`")),
];

/// Selects the verbs that are modes of the reference.
fn arrange(call: &mut Call) -> Result<(), Failure> {
    let base = call.take("--save-all-logits").flatten();
    match (call.take("--kl-divergence").is_some(), base) {
        (true, None) => {
            return Err(Failure::usage("`--kl-divergence`: missing saved logits")
                .hint(["pass the file with `--kl-divergence-base FILE`"]));
        }
        (true, Some(base)) => {
            call.verb = Some("compare".to_owned());
            call.put_first(base);
            // Saved logits have their own text.
            call.take("--text");
        }
        (false, Some(base)) => {
            call.verb = Some("compare".to_owned());
            call.push("--save-logits", Some(base));
        }
        (false, None) => {}
    }
    for (mode, tasks, default) in [
        ("--hellaswag", "--hellaswag-tasks", "400"),
        ("--winogrande", "--winogrande-tasks", "0"),
        ("--multiple-choice", "--multiple-choice-tasks", "0"),
    ] {
        let n_tasks = call.take(tasks).flatten();
        if call.take(mode).is_none() {
            continue;
        }
        let Some(text) = call.take("--text") else {
            return Err(Failure::usage(format_args!("`{mode}`: missing task file, `-f FILE`")));
        };
        call.verb = Some("score".to_owned());
        call.push(mode, text);
        let n_tasks = n_tasks.unwrap_or_else(|| default.into());
        // 0 is all of them.
        if n_tasks != "0" {
            call.push("--tasks", Some(n_tasks));
        }
    }
    Ok(())
}
