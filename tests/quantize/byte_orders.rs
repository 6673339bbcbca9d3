//! GGUF files of versions 1 and 2 and of the other byte order as input of every command, and `--big-endian`:
//! compared with files of an independent writer and with the reference's (`golden/byte-orders`,
//! `golden/cli/big-endian.txt`, made by `scripts/golden/byte_orders.py`).

use std::fs;

use crate::common::{Output, Sandbox, golden, sha256, silent, succeed, words};
use serde_json::Value as Json;

/// The model in other forms than version 3, little endian: file, version, byte order.
const FORMS: [(&str, u64, &str); 4] = [
    ("model-v1.gguf", 1, "little"),
    ("model-v2.gguf", 2, "little"),
    ("model-v2-big.gguf", 2, "big"),
    ("model-big.gguf", 3, "big"),
];

/// A folder with a form of the model as `m.gguf`, the plain one as `plain.gguf`, and a text.
fn sandbox(form: &str) -> Sandbox {
    let sandbox = Sandbox::new();
    fs::create_dir(sandbox.path("out")).unwrap();
    for (name, file) in [("m.gguf", form), ("plain.gguf", "model.gguf")] {
        sandbox.write(name, fs::read(golden("byte-orders").join(file)).unwrap());
    }
    sandbox.write("text", "the tin shot has eaten the hat in the tin. ".repeat(12));
    fs::copy(golden("eval-cli/winogrande.csv"), sandbox.path("tasks")).unwrap();
    sandbox
}

/// `m.gguf` in a call.
fn output_of(run: impl Fn(&Sandbox, &[&str]) -> Output, form: &str, args: &[&str]) -> (Output, Vec<Vec<u8>>) {
    let sandbox = sandbox(form);
    let ran = run(&sandbox, args);
    let files =
        sandbox.outputs().iter().map(|name| fs::read(sandbox.path("out").join(name)).unwrap()).collect();
    (ran, files)
}

#[test]
fn commands_give_equal_results_for_all_forms() {
    let text = ["--text", "text", "-c", "16", "-q"];
    let with_text = |args: &[&'static str]| [args, &text].concat();
    type Run = fn(&Sandbox, &[&str]) -> Output;
    let calls: Vec<(Run, Vec<&str>)> = vec![
        (Sandbox::inspect, vec!["tokenizer", "m.gguf", "--text", "text"]),
        (Sandbox::quantize, vec!["m.gguf", "out/x.gguf", "copy", "-q"]),
        (Sandbox::quantize, vec!["m.gguf", "out/x.gguf", "copy", "-q", "--big-endian"]),
        (
            Sandbox::quantize,
            vec!["--allow-requantize", "m.gguf", "out/x-{ftype}.gguf", "q5_0,q8_0,f32", "-q"],
        ),
        (Sandbox::convert, vec!["export", "m.gguf", "out/hf", "--type", "f32", "-q"]),
        (Sandbox::eval, with_text(&["perplexity", "m.gguf", "--json"])),
        (Sandbox::eval, with_text(&words("check m.gguf --baseline out/b.json --save"))),
        (Sandbox::eval, vec!["score", "m.gguf", "--winogrande", "tasks", "-q"]),
        (Sandbox::eval, vec!["imatrix", "m.gguf", "--text", "text", "-c", "16", "-o", "out/i.gguf", "-q"]),
        (Sandbox::eval, vec!["generate", "m.gguf", "--prompt", "the tin", "-n", "8", "-q"]),
        (Sandbox::eval, vec!["embed", "m.gguf", "-p", "the tin", "--pooling", "mean", "-q"]),
    ];
    for (run, args) in &calls {
        let expected = output_of(run, "model.gguf", args);
        assert_eq!(expected.0.code, Some(0), "{args:?}: {}", expected.0.stderr);
        assert!(!expected.0.stdout.is_empty() || !expected.1.is_empty(), "{args:?} gives nothing");
        for (form, ..) in FORMS {
            let outcome = output_of(run, form, args);
            assert_eq!(outcome.0, expected.0, "{form} {args:?}");
            assert!(outcome.1 == expected.1, "{form} {args:?}: other files");
        }
    }
}

#[test]
fn copy_matches_independent_writer() {
    let sandbox = sandbox("model-v1.gguf");
    assert_eq!(sandbox.quantize(&["m.gguf", "out/little.gguf", "copy", "-q"]), silent());
    assert!(sandbox.read("out/little.gguf") == sandbox.read("plain.gguf"));
    assert_eq!(sandbox.quantize(&words("m.gguf out/big.gguf copy --big-endian -q")), silent());
    assert!(sandbox.read("out/big.gguf") == fs::read(golden("byte-orders/model-big.gguf")).unwrap());
    // There and back.
    assert_eq!(sandbox.quantize(&["out/big.gguf", "out/back.gguf", "copy", "-q"]), silent());
    assert!(sandbox.read("out/back.gguf") == sandbox.read("plain.gguf"));
}

#[test]
fn forms_match_the_plain_file() {
    for (form, ..) in FORMS {
        let sandbox = sandbox(form);
        let args =
            ["compare", "plain.gguf", "m.gguf", "--tensors", "--json", "--text", "text", "-c", "16", "-q"];
        let ran = sandbox.eval(&args);
        assert_eq!(ran.code, Some(0), "{form}: {}", ran.stderr);
        let found = ran.json();
        let found = &found["files"][0];
        assert_eq!(found["predictions"]["kl"]["value"], 0.0, "{form}");
        let tensors = found["tensors"]["tensors"].as_array().unwrap();
        assert_eq!(tensors.len(), 12);
        assert!(tensors.iter().all(|tensor| tensor["rmse"] == 0.0), "{form}: {tensors:?}");
    }
}

#[test]
fn version_and_byte_order_are_shown() {
    for (form, version, endian) in FORMS {
        let sandbox = sandbox(form);
        let shown = |name: &str| -> Json {
            let ran = succeed(sandbox.inspect(&["show", name, "--json"]));
            ran.json()
        };
        let (have, plain) = (shown("m.gguf"), shown("plain.gguf"));
        assert_eq!((&have["version"], &have["endian"]), (&version.into(), &endian.into()), "{form}");
        assert_eq!(have["metadata"], plain["metadata"], "{form}");
    }
}

#[test]
fn big_endian_files_match_reference() {
    let listing = fs::read_to_string(golden("cli/big-endian.txt")).unwrap();
    let sandbox = Sandbox::with_golden("llama");
    let mut n = 0;
    for line in listing.lines().filter(|line| !line.starts_with('#')) {
        let [_, kind, bytes, digest] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
        let ran = sandbox.convert(&["llama", "x.gguf", "--type", kind, "--big-endian", "-q", "--force"]);
        assert_eq!(ran, silent(), "{line}");
        let have = sandbox.read("x.gguf");
        assert_eq!((have.len().to_string().as_str(), sha256(&have).as_str()), (bytes, digest), "{line}");
        n += 1;
    }
    assert_eq!(n, 5);
    // Metadata alone: the reader says the order, and the keys are those of the other.
    for (name, more) in [("little.gguf", &[][..]), ("big.gguf", &["--big-endian"][..])] {
        let ran = sandbox.convert(&[&["llama", name, "--vocab-only", "-q"], more].concat());
        assert_eq!(ran, silent());
    }
    let keys = |name: &str| sandbox.file(name).metadata().clone();
    assert_eq!(keys("little.gguf"), keys("big.gguf"));
    assert_eq!(sandbox.file("big.gguf").endian(), gguf_container::Endian::Big);
    let ran = sandbox.convert(&["export", "x.gguf", "out/hf", "--big-endian"]);
    assert_eq!(ran.code, Some(2), "{}", ran.stderr);
}
