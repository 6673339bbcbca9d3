//! Errors of plans and parts.

use super::{CONVERT, EVAL, Part, QUANTIZE, cut, model, write};
use crate::common::{Sandbox, succeed};

/// A plan of the conversion to Q8_0, and the first of its two parts.
fn plan(sandbox: &Sandbox) {
    for args in [&["plan", "plan.json", "llama", "out.gguf", "--type", "q8_0", "-q"][..], PART_1] {
        succeed(sandbox.convert(args));
    }
}

const PART_1: &[&str] = &["part", "plan.json", "1/2", "-q"];
const ASSEMBLE: &[&str] = &["assemble", "plan.json", "-q"];

/// The first of two parts of a perplexity, as `1.part`.
fn measured_part(sandbox: &Sandbox) {
    model(sandbox, "q8_0");
    write(sandbox, "text", "Some text to read. ".repeat(200));
    let args = ["perplexity", "model.gguf", "--text", "text", "--context", "64", "--part", "1/2", "-q"];
    succeed(sandbox.run(EVAL, &[&args[..], &["--output", "1.part"]].concat()));
}

pub const PART: Part = (
    "Plans and parts",
    "`part` and `assemble` compare the inputs, options and parts with the plan. `docs/guides/many-machines.md` lists what to do for each error.",
    &[
        ("Part out of range", plan, CONVERT, &["part", "plan.json", "3/2"], 2),
        ("Option that the plan sets", plan, CONVERT, &["part", "plan.json", "2/2", "--type", "q4_0"], 2),
        ("Invalid plan", |sandbox| write(sandbox, "plan.json", "{\"type\": \"q8_0\"}"), CONVERT, ASSEMBLE, 1),
        ("Plan of another program", plan, QUANTIZE, ASSEMBLE, 1),
        ("Missing part", plan, CONVERT, ASSEMBLE, 1),
        ("Different number of parts", plan, CONVERT, &["part", "plan.json", "1/3", "-q"], 1),
        (
            "Parts of another plan",
            |sandbox| {
                plan(sandbox);
                let args = ["plan", "plan.json", "llama", "out.gguf", "--type", "q4_0", "-q", "--force"];
                succeed(sandbox.convert(&args));
            },
            CONVERT,
            PART_1,
            1,
        ),
        (
            "Input that changed",
            |sandbox| {
                plan(sandbox);
                sandbox.edit("llama/config.json", "1e-06", "1e-5");
            },
            CONVERT,
            ASSEMBLE,
            1,
        ),
        (
            "File that is not a measurement part",
            |sandbox| write(sandbox, "1.part", "mine"),
            EVAL,
            &["perplexity", "--merge", "1.part"],
            1,
        ),
        ("Missing measurement part", measured_part, EVAL, &["perplexity", "--merge", "1.part"], 1),
        (
            "Truncated measurement part",
            |sandbox| {
                measured_part(sandbox);
                cut(sandbox, "1.part", 300);
            },
            EVAL,
            &["perplexity", "--merge", "1.part"],
            1,
        ),
        ("Part of another measurement", measured_part, EVAL, &["compare", "--merge", "1.part"], 1),
    ],
);
