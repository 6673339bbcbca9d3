//! `llama-quantize`.

use super::program::{Program, Row, To::*, row};

pub(super) const PROGRAM: Program = Program {
    name: "llama-quantize",
    binary: "gguf-quantize",
    verb: None,
    rows: &[ROWS],
    shares_common: false,
    habits: HABITS,
    arrange: |_| Ok(()),
};

const ROWS: &[Row] = &[row(
    &[
        "--help",
        "--allow-requantize",
        "--leave-output-tensor",
        "--pure",
        "--imatrix FILE",
        "--include-weights NAME",
        "--exclude-weights NAME",
        "--output-tensor-type TYPE",
        "--token-embedding-type TYPE",
        "--tensor-type NAME=TYPE",
        "--tensor-type-file FILE",
        "--prune-layers LAYERS",
        "--keep-split",
        "--override-kv KEY=TYPE:VALUE",
        "--dry-run",
    ],
    Same,
)];

const HABITS: &[Row] = &[
    row(&["-m --model --input -i FILE"], Argument(0)),
    row(&["-o --output --outfile FILE"], Argument(1)),
    row(&["--nthreads --n-threads N"], Option("--threads", &[])),
];
