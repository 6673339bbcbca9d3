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
    "Texts that are too short and limits that are too low are reported before any long computation starts.",
    &[
        (
            "Calibration text that is too short",
            |sandbox| {
                model(sandbox, "f32");
                write(sandbox, "text", "Some text to read. ".repeat(60));
            },
            QUANTIZE,
            CALIBRATE,
            1,
        ),
        ("Missing calibration text", |sandbox| model(sandbox, "f32"), QUANTIZE, CALIBRATE, 1),
        (
            "Damaged statistics",
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
            "Target size without a calibration text",
            |sandbox| model(sandbox, "f32"),
            QUANTIZE,
            &["model.gguf", "out.gguf", "q4_0", "--target-size", "1M"],
            2,
        ),
        (
            "Target size that is too small",
            text,
            QUANTIZE,
            &["model.gguf", "out.gguf", "q4_0", "--calibrate", "text", "--target-size", "10K", "-q"],
            1,
        ),
        (
            "Memory limit that no file fits in",
            |sandbox| model(sandbox, "q8_0"),
            INSPECT,
            &["fit", "model.gguf", "--memory", "1M", "--context", "512"],
            1,
        ),
        (
            "Output folder with other files",
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
