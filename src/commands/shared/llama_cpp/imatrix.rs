//! `llama-imatrix`.

use super::{
    call::Call,
    common,
    program::{Program, Row, To::*, row},
};
use crate::failure::Failure;

pub(super) const PROGRAM: Program = Program {
    name: "llama-imatrix",
    binary: "gguf-eval",
    verb: Some("imatrix"),
    rows: &[common::ROWS, ROWS],
    shares_common: true,
    habits: &[],
    arrange,
};

const ROWS: &[Row] = &[
    row(&["--process-output"], Same),
    row(&["-o --output --output-file FILE"], Option("--output", &[])),
    row(&["--in-file FILE"], Each("--merge")),
    row(&["--output-format FORMAT"], Option("--format", &[])),
    row(&["-ofreq --output-frequency N"], Option("--save-every", &["0", "-1"])),
    row(&["--ppl --no-ppl"], Anyway("only `gguf-eval perplexity` measures perplexity")),
];

/// Sets the reference's default name of the output.
fn arrange(call: &mut Call) -> Result<(), Failure> {
    if !call.has(&["--output", "-o"]) {
        call.push("--output", Some("imatrix.gguf".into()));
    }
    Ok(())
}
