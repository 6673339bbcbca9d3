//! Errors of plans and parts.

use super::{CONVERT, EVAL, Part, QUANTIZE, cut, model, write};
use crate::common::Sandbox;

/// A plan of the conversion to Q8_0, and the first of its two parts.
fn plan(sandbox: &Sandbox) {
    for args in [&["plan", "plan.json", "llama", "out.gguf", "--type", "q8_0", "-q"][..], PART_1] {
        let ran = sandbox.convert(args);
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    }
}

const PART_1: &[&str] = &["part", "plan.json", "1/2", "-q"];
const ASSEMBLE: &[&str] = &["assemble", "plan.json", "-q"];

/// The first of two parts of a perplexity, as `1.part`.
fn measured_part(sandbox: &Sandbox) {
    model(sandbox, "q8_0");
    write(sandbox, "text", "Some text to read. ".repeat(200));
    let args = ["perplexity", "model.gguf", "--text", "text", "--context", "64", "--part", "1/2", "-q"];
    let ran = sandbox.run(EVAL, &[&args[..], &["--output", "1.part"]].concat());
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
}

pub const PART: Part = (
    "Plans and parts",
    "Whoever does a part, or puts parts together, compares all that they depend on with the plan. [parts.md](parts.md) says what to do.",
    &[
        ("A part that there is not", plan, CONVERT, &["part", "plan.json", "3/2"], 2),
        ("An option that is the plan's", plan, CONVERT, &["part", "plan.json", "2/2", "--type", "q4_0"], 2),
        (
            "A plan that is none",
            |sandbox| write(sandbox, "plan.json", "{\"type\": \"q8_0\"}"),
            CONVERT,
            ASSEMBLE,
            1,
        ),
        ("A plan of another program", plan, QUANTIZE, ASSEMBLE, 1),
        ("A part that is missing", plan, CONVERT, ASSEMBLE, 1),
        ("Parts of another number", plan, CONVERT, &["part", "plan.json", "1/3", "-q"], 1),
        (
            "Parts of another plan",
            |sandbox| {
                plan(sandbox);
                let args = ["plan", "plan.json", "llama", "out.gguf", "--type", "q4_0", "-q", "--force"];
                let ran = sandbox.convert(&args);
                assert_eq!(ran.code, Some(0), "{}", ran.stderr);
            },
            CONVERT,
            PART_1,
            1,
        ),
        (
            "An input that changed since",
            |sandbox| {
                plan(sandbox);
                sandbox.edit("llama/config.json", "1e-06", "1e-5");
            },
            CONVERT,
            ASSEMBLE,
            1,
        ),
        (
            "A file that is no part of a measurement",
            |sandbox| write(sandbox, "1.part", "mine"),
            EVAL,
            &["perplexity", "--merge", "1.part"],
            1,
        ),
        (
            "A part of a measurement that is missing",
            measured_part,
            EVAL,
            &["perplexity", "--merge", "1.part"],
            1,
        ),
        (
            "A part of a measurement that is cut",
            |sandbox| {
                measured_part(sandbox);
                cut(sandbox, "1.part", 300);
            },
            EVAL,
            &["perplexity", "--merge", "1.part"],
            1,
        ),
        ("A part of another measurement", measured_part, EVAL, &["compare", "--merge", "1.part"], 1),
    ],
);
