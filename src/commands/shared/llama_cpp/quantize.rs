//! `llama-quantize`.

use super::{Program, Row, To::*, row};

pub(super) const PROGRAM: Program = Program {
    name: "llama-quantize",
    binary: "gguf-quantize",
    verb: None,
    rows: &[ROWS],
    habits: HABITS,
    arrange: |_| Ok(()),
};

const ROWS: &[Row] = &[
    row(
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
    ),
    row(
        &["--max-buffer-size MIB"],
        Told("leave it out: memory is a few megabytes for each thread, whatever the size of the model"),
    ),
];

const HABITS: &[Row] = &[
    row(&["-m --model --input -i FILE"], Argument(0)),
    row(&["-o --output --outfile FILE"], Argument(1)),
    row(&["--nthreads --n-threads N"], Option("--threads", &[])),
];
