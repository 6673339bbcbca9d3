//! `llama-gguf-split`.

use super::{
    call::Call,
    common::{MAX_TENSORS, MAX_TENSORS_N},
    program::{Program, Row, To::*, row},
};
use crate::failure::Failure;

pub(super) const PROGRAM: Program = Program {
    name: "llama-gguf-split",
    binary: "gguf-inspect",
    verb: Some("split"),
    rows: &[ROWS],
    shares_common: false,
    habits: &[],
    arrange,
};

const ROWS: &[Row] = &[
    row(&["-h --help", "--dry-run", "--no-tensor-first-split", MAX_TENSORS_N, "--split-max-size SIZE"], Same),
    row(&["--version"], Whole(&["--version"])),
    row(&["--split"], Arranged("`gguf-inspect split`")),
    row(&["--merge"], Arranged("`gguf-inspect merge`")),
];

/// Options that limit a shard.
const LIMITS: &[&str] = &["--split-max-size", MAX_TENSORS];

/// Selects one of our two verbs, and sets the reference's default limit.
fn arrange(call: &mut Call) -> Result<(), Failure> {
    let (splits, merges) = (call.take("--split").is_some(), call.take("--merge").is_some());
    if splits && merges {
        return Err(Failure::usage("`--split` and `--merge` exclude each other"));
    }
    if merges {
        call.verb = Some("merge".to_owned());
    } else if (splits || call.is_by_name) && !call.has(LIMITS) {
        call.push(MAX_TENSORS, Some("128".into()));
    }
    Ok(())
}
