//! `convert_hf_to_gguf.py`.

use super::{
    call::Call,
    common::{MAX_TENSORS, MAX_TENSORS_N},
    program::{Program, Row, To::*, row},
};
use crate::failure::Failure;

pub(super) const PROGRAM: Program = Program {
    name: "convert_hf_to_gguf.py",
    binary: "gguf-convert",
    verb: None,
    rows: &[ROWS],
    shares_common: false,
    habits: HABITS,
    arrange,
};

const ROWS: &[Row] = &[
    row(
        &[
            "--model-name NAME",
            "--verbose",
            "--dry-run",
            "--mtp",
            "--mistral-format",
            "--target-model-dir FOLDER",
        ],
        Same,
    ),
    row(&["--vocab-only"], Arranged("`gguf-convert vocab`")),
    row(&["--mmproj"], Arranged("`gguf-convert mmproj`")),
    row(&["--outfile FILE"], Argument(1)),
    row(&["--outtype TYPE"], Option("--type", &[])),
    row(&[MAX_TENSORS_N], Option(MAX_TENSORS, &["0"])),
    row(&["--split-max-size SIZE"], Option("--split-max-size", &["0"])),
    row(&["--bigendian"], Words(&["--big-endian"])),
    row(&["--no-nextn --no-mtp"], Words(&["--no-mtp"])),
    row(&["--dspark"], Words(&["--arch-as=deepseek4-dspark"])),
    row(&["--sentence-transformers-dense-modules"], Words(&["--dense-modules"])),
    row(&["--fp8-as-q8"], Words(&["--fp8-as=q8_0"])),
    row(&["--print-supported-models"], Whole(&["architectures"])),
    row(&["--remote"], Anyway("OWNER/MODEL is a model on the Hub if there is no such local folder")),
];

const HABITS: &[Row] = &[
    row(&["-m --model --model-dir --input FOLDER"], Argument(0)),
    row(&["-o --output --outdir FILE"], Argument(1)),
    row(&["--nthreads --n-threads N"], Option("--threads", &[])),
];

/// Selects the verbs that are options of the reference, and its default type if a call in its spelling sets none: bf16 or
/// f16, depending on the weights.
fn arrange(call: &mut Call) -> Result<(), Failure> {
    for (option, verb) in [("--vocab-only", "vocab"), ("--mmproj", "mmproj")] {
        if call.take(option).is_some() {
            call.verb = Some(verb.to_owned());
        }
    }
    let type_options = ["--type", "-t", "--recipe"];
    if (call.is_by_name || call.has_argument(1)) && !call.has(&type_options) {
        call.push("--type", Some("auto".into()));
    }
    Ok(())
}
