//! `llama-imatrix`.

use super::{Call, Program, Row, To::*, common, row};
use crate::failure::Failure;

pub(super) const PROGRAM: Program = Program {
    name: "llama-imatrix",
    binary: "gguf-eval",
    verb: Some("imatrix"),
    rows: &[common::ROWS, ROWS],
    habits: common::HABITS,
    arrange,
};

const ROWS: &[Row] = &[
    row(&["--process-output"], Same),
    row(&["-o --output --output-file FILE"], Option("--output", &[])),
    row(&["--in-file FILE"], Each("--merge")),
    row(&["--output-format FORMAT"], Option("--format", &[])),
    row(&["-ofreq --output-frequency N"], Option("--save-every", &["0", "-1"])),
    row(&["--ppl --no-ppl"], Anyway("`gguf-eval perplexity` measures perplexity, and nothing else does")),
    row(
        &["--save-frequency N"],
        Told("`--save-every N` saves the output as it grows, and `--resume` goes on from there"),
    ),
    row(
        &["--chunk --from-chunk N"],
        Told("`--part K/N` reads a share of the windows, and `--resume` goes on where a run was stopped"),
    ),
    row(&["--show-statistics"], Told("`gguf-inspect show FILE` lists the entries of an importance matrix")),
    row(
        &["--parse-special"],
        Told("leave it out: special tokens of a text are read as the text that they are"),
    ),
];

/// The name that the reference gives an output.
fn arrange(call: &mut Call) -> Result<(), Failure> {
    if !call.has(&["--output", "-o"]) {
        call.push("--output", Some("imatrix.gguf".into()));
    }
    Ok(())
}
