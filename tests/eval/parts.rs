//! `gguf-eval perplexity|compare|imatrix --part K/N`: parts that were measured apart give what one run gives, byte for byte.

use std::fs;

use crate::common::{self, Output, Sandbox, words};

fn succeed(ran: Output) -> String {
    common::succeed(ran).stdout
}

/// A golden's model in f32, the same after Q4_0, and a text.
fn sandbox(name: &str) -> Sandbox {
    let sandbox = Sandbox::with_golden(name);
    let args = [name, "base.gguf", "--type", "f32", "--pre", "default", "--quiet"];
    succeed(sandbox.convert(if name == "llama" { &args[..4] } else { &args }));
    let args = ["base.gguf", "q4_0.gguf", "q4_0", "--quiet"];
    succeed(sandbox.quantize(&args));
    sandbox.add_text();
    sandbox
}

/// Runs `args` in this many parts, and gives the names of their files.
fn parts(sandbox: &Sandbox, args: &[&str], n: u32) -> Vec<String> {
    let part = |k| {
        let (part, output) = (format!("{k}/{n}"), format!("{}-{k}-of-{n}.part", args[0]));
        succeed(sandbox.eval(&[args, &["--part", &part, "--output", &output, "-q"]].concat()));
        output
    };
    (1..=n).map(part).collect()
}

/// `verb --merge PARTS... ARGS`.
fn merge(sandbox: &Sandbox, verb: &str, parts: &[String], args: &[&str]) -> Output {
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    sandbox.eval(&[&[verb, "--merge"], &parts[..], args].concat())
}

/// Windows of 64 tokens run 32 at a time: these are three groups, of which the last is short.
const WINDOWS: &[&str] = &["--text", "text", "--context", "64", "--chunks", "70"];

#[test]
fn perplexity_of_parts_matches_one_run() {
    let sandbox = sandbox("llama");
    let args = [&["perplexity", "q4_0.gguf"], WINDOWS].concat();
    let json = succeed(sandbox.eval(&[&args[..], &["--json", "-q"]].concat()));
    let text = succeed(sandbox.eval(&[&args[..], &["-q"]].concat()));
    // Of four parts one has nothing to do.
    for n in [1, 2, 3, 4] {
        let mut parts = parts(&sandbox, &args, n);
        parts.reverse();
        assert_eq!(succeed(merge(&sandbox, "perplexity", &parts, &["--json", "-q"])), json, "{n}");
        assert_eq!(succeed(merge(&sandbox, "perplexity", &parts, &["-q"])), text, "{n}");
    }
    let part = [&args[..], &["--part", "1/4", "--output", "again.part"]].concat();
    sandbox.eval(&part).says("warning: part 1/4 has no chunks");
    // With a stride windows overlap.
    let args = ["perplexity", "base.gguf", "--text", "text", "-c", "64", "--stride", "48", "--chunks", "20"];
    let json = succeed(sandbox.eval(&[&args[..], &["--json", "-q"]].concat()));
    let parts = parts(&sandbox, &[&args[..], &["--force"]].concat(), 2);
    assert_eq!(succeed(merge(&sandbox, "perplexity", &parts, &["--json", "-q"])), json);
}

#[test]
fn parts_of_different_cpu_levels_agree() {
    let sandbox = sandbox("llama");
    let levels = gguf_quant::Level::available();
    gguf_testkit::require_levels(&levels.iter().map(|level| level.name()).collect::<Vec<_>>());
    for activations in ["f32", "rounded"] {
        // Two groups, of which the second has one window: plain loops are slow.
        let args = "perplexity q4_0.gguf --text text --context 64 --chunks 33 --activations";
        let args = [words(args), vec![activations]].concat();
        let json = succeed(sandbox.eval(&[&args[..], &["--json", "-q"]].concat()));
        let mut parts = parts(&sandbox, &[&args[..], &["--force"]].concat(), 2);
        for level in &levels {
            parts[1] = format!("{}.part", level.name());
            let mut command = sandbox.command(env!("CARGO_BIN_EXE_gguf-eval"));
            command.args(&args).args(["--part", "2/2", "--output", &parts[1], "--force", "-q"]);
            let output = command.env(gguf_quant::LEVEL_VARIABLE, level.name()).output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            let ran = merge(&sandbox, "perplexity", &parts, &["--json"]);
            assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), json.as_str()), "{}", level.name());
            assert!(!ran.stderr.contains("warning"), "{}", ran.stderr);
        }
    }
}

#[test]
fn comparison_of_parts_matches_one_run() {
    let sandbox = sandbox("llama");
    let args = [&["compare", "base.gguf", "q4_0.gguf", "base.gguf", "--top-tokens", "5"], WINDOWS].concat();
    let json = succeed(sandbox.eval(&[&args[..], &["--json", "-q"]].concat()));
    let text = succeed(sandbox.eval(&[&args[..], &["-q"]].concat()));
    for n in [2, 3] {
        let parts = parts(&sandbox, &args, n);
        assert_eq!(succeed(merge(&sandbox, "compare", &parts, &["--json", "-q"])), json, "{n}");
        assert_eq!(
            succeed(merge(&sandbox, "compare", &parts, &["-q", "--html", "page.html", "--force"])),
            text
        );
        let page = sandbox.text("page.html");
        assert!(page.contains("q4_0.gguf"), "{page}");
    }
    // Saved predictions have parts as well.
    let save = [&["compare", "base.gguf", "--save-logits", "base.kld", "-q"], WINDOWS].concat();
    succeed(sandbox.eval(&save));
    let args = ["compare", "base.kld", "q4_0.gguf"];
    let json = succeed(sandbox.eval(&[&args[..], &["--json", "-q"]].concat()));
    let parts = parts(&sandbox, &[&args[..], &["--force"]].concat(), 2);
    assert_eq!(succeed(merge(&sandbox, "compare", &parts, &["--json", "-q"])), json);
}

#[test]
fn importance_matrix_of_parts_matches_one_run() {
    for (name, format) in [("llama", "dat"), ("mixtral", "gguf")] {
        let sandbox = sandbox(name);
        let args = [&["imatrix", "base.gguf", "--process-output"], WINDOWS].concat();
        let expected = succeed(
            sandbox.eval(&[&args[..], &["-o", "out.gguf", "--format", format, "--json", "-q"]].concat()),
        );
        let whole = sandbox.read("out.gguf");
        for n in [2, 3] {
            let mut parts = parts(&sandbox, &args, n);
            parts.rotate_left(1);
            let args = ["-o", "out.gguf", "--format", format, "--json", "--force", "-q"];
            assert_eq!(succeed(merge(&sandbox, "imatrix", &parts, &args)), expected, "{name} {n}");
            assert!(sandbox.read("out.gguf") == whole, "{name} {n}");
        }
    }
}

#[test]
fn mismatched_parts_are_named() {
    let sandbox = sandbox("llama");
    let args = [&["perplexity", "q4_0.gguf"], WINDOWS].concat();
    let of_two = parts(&sandbox, &args, 2);
    let of_three = parts(&sandbox, &args, 3);
    fs::copy(sandbox.path(&of_two[0]), sandbox.path("again.part")).unwrap();
    let mut bytes = sandbox.read(&of_two[1]);
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    sandbox.write("damaged.part", &bytes);
    sandbox.write("cut.part", &bytes[..20]);
    sandbox.write("other", "An other text. ".repeat(2000));
    let other = |name: &str, args: &[&str]| {
        let args =
            [args, &["--context", "64", "--chunks", "70", "--part", "2/2", "--output", name, "-q"]].concat();
        succeed(sandbox.eval(&args));
        name.to_owned()
    };
    let of_text = other("text.part", &["perplexity", "q4_0.gguf", "--text", "other"]);
    let of_model = other("model.part", &["perplexity", "base.gguf", "--text", "text"]);
    let of_verb = other("verb.part", &words("compare base.gguf q4_0.gguf --text text"));
    let rounded = ["perplexity", "q4_0.gguf", "--text", "text", "--activations", "rounded"];
    let of_activations = other("activations.part", &rounded);
    let first = of_two[0].clone();
    for (second, message) in [
        (None, "part 2 of 2 is missing"),
        (Some("again.part"), "again.part: duplicate part 1/2: perplexity-1-of-2.part"),
        (Some("damaged.part"), "damaged.part: SHA-256 mismatch: the file is truncated or damaged"),
        (Some("cut.part"), "cut.part: the file ends after 20 bytes"),
        (Some("text"), "text: not a part file of gguf-eval"),
        (Some("none"), "none: cannot open: No such file or directory (os error 2)"),
        (
            Some(&of_three[1]),
            "part of another run: the number of its parts is 3, but 2 in perplexity-1-of-2.part",
        ),
        (Some(&of_text), "text.part: part of another run: its `text` is \""),
        (Some(&of_model), "model.part: part of another run: its `model` is \""),
        (Some(&of_activations), "its `activations` is \"rounded\", but \"f32\" in perplexity-1-of-2.part"),
        (Some(&of_verb), "verb.part: expected a part of `perplexity`, found a part of `compare`"),
    ] {
        let parts: Vec<String> =
            [Some(first.as_str()), second].into_iter().flatten().map(str::to_owned).collect();
        let ran = merge(&sandbox, "perplexity", &parts, &[]);
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""), "{second:?}");
        assert!(ran.stderr.contains(message), "{second:?}: `{message}` is not in\n{}", ran.stderr);
    }
    // An existing part is only replaced on request.
    let again = [&args[..], &["--part", "1/2", "--output", &first]].concat();
    let ran = sandbox.eval(&again);
    assert!(ran.code == Some(1) && ran.stderr.contains("already exists"), "{}", ran.stderr);
    succeed(sandbox.eval(&[&again[..], &["--force", "-q"]].concat()));
    for (args, message) in [
        (
            &["perplexity", "q4_0.gguf", "--text", "text", "--part", "3/2", "--output", "x"][..],
            "expected K/N with K from 1 to N",
        ),
        (&["perplexity", "q4_0.gguf", "--text", "text", "--part", "1/2"], "--output <FILE>"),
        (&["perplexity", "q4_0.gguf", "--merge", "x"], "cannot be used with"),
        (
            &["imatrix", "q4_0.gguf", "--text", "text", "--part", "1/2", "-o", "x", "--resume"],
            "cannot be used with",
        ),
        (&["compare", "base.gguf", "--text", "text", "--part", "1/2", "-o", "x"], "missing files to compare"),
    ] {
        let ran = sandbox.eval(args);
        assert!(ran.code == Some(2) && ran.stderr.contains(message), "{args:?}: {}", ran.stderr);
    }
}
