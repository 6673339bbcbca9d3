//! Errors of calibration, of budgets of memory, and of publishing.

use super::{INSPECT, Part, QUANTIZE, model, write};
use crate::common::Sandbox;

const PUBLISH: &str = env!("CARGO_BIN_EXE_gguf-publish");
const CALIBRATE: &[&str] = &["model.gguf", "out.gguf", "q4_0", "--calibrate", "text", "-q"];

/// A model in full precision, and a text that is long enough.
fn text(sandbox: &Sandbox) {
    model(sandbox, "f32");
    write(sandbox, "text", "Some text to read. ".repeat(600));
}

pub const PART: Part = (
    "Calibrating, fitting and publishing",
    "What a text or a memory is too small for is said before anything runs for long. [quality.md](quality.md) says what \
     calibration needs, [publish.md](publish.md) what a folder to publish is.",
    &[
        (
            "A text that is too short to calibrate with",
            |sandbox| {
                model(sandbox, "f32");
                write(sandbox, "text", "Some text to read. ".repeat(60));
            },
            QUANTIZE,
            CALIBRATE,
            1,
        ),
        ("A text that is not there", |sandbox| model(sandbox, "f32"), QUANTIZE, CALIBRATE, 1),
        (
            "Statistics that are damaged",
            |sandbox| {
                text(sandbox);
                std::fs::create_dir(sandbox.path("kept")).unwrap();
                write(sandbox, "kept/step-00001.gguf", "not one");
            },
            QUANTIZE,
            &["model.gguf", "out.gguf", "q4_0", "--calibrate", "text", "--statistics", "kept", "-q"],
            1,
        ),
        (
            "A budget without a text",
            |sandbox| model(sandbox, "f32"),
            QUANTIZE,
            &["model.gguf", "out.gguf", "q4_0", "--target-size", "1M"],
            2,
        ),
        (
            "A budget that no types reach",
            text,
            QUANTIZE,
            &["model.gguf", "out.gguf", "q4_0", "--calibrate", "text", "--target-size", "10K", "-q"],
            1,
        ),
        (
            "A memory that nothing fits",
            |sandbox| model(sandbox, "q8_0"),
            INSPECT,
            &["fit", "model.gguf", "--memory", "1M", "--context", "512"],
            1,
        ),
        (
            "A folder to publish that is somebody's",
            |sandbox| {
                std::fs::create_dir(sandbox.path("mine")).unwrap();
                write(sandbox, "mine/letter", "Dear reader");
            },
            PUBLISH,
            &["llama", "mine"],
            1,
        ),
    ],
);
