//! Whole files at every CPU level and number of threads: all types of `golden/cli/two-step.txt` and
//! `golden/cli/imatrix.txt`, through the binaries. (`crates/quant/tests` holds single rows to the goldens.)

use std::{collections::BTreeMap, fs};

use crate::common::{Sandbox, golden, succeed, words};
use gguf_quant::{LEVEL_VARIABLE, Level};

const THREADS: [&str; 4] = ["1", "2", "3", "7"];

/// File types and digests of the lines of a golden that begin with `key`.
fn digests(file: &str, key: &str) -> BTreeMap<String, String> {
    let text = fs::read_to_string(golden(file)).unwrap();
    let rows = text.lines().filter_map(|line| line.strip_prefix(key)?.strip_prefix(' '));
    rows.map(|row| row.split(' ').collect::<Vec<_>>())
        .filter(|fields| fields[1] != "refused")
        .map(|fields| (fields[0].to_owned(), fields[2].to_owned()))
        .collect()
}

/// The levels of this machine, among them all that `REQUIRE_LEVELS` names.
fn levels() -> Vec<&'static str> {
    let levels: Vec<&str> = Level::available().into_iter().map(Level::name).collect();
    gguf_testkit::require_levels(&levels);
    levels
}

/// Runs a binary that writes one file of each type into `out`, at every level and number of threads.
fn check(sandbox: &Sandbox, binary: &str, args: &[&str], expected: &BTreeMap<String, String>) {
    for level in levels() {
        for threads in THREADS {
            let case = format!("level {level}, {threads} threads");
            let mut command = sandbox.command(binary);
            command.args(args).args(["-q", "--force", "--threads", threads]).env(LEVEL_VARIABLE, level);
            let output = command.output().unwrap();
            assert!(output.status.success(), "{case}: {}", String::from_utf8_lossy(&output.stderr));
            assert_eq!(&sandbox.listing("out"), expected, "{case}");
            for name in expected.keys() {
                fs::remove_file(sandbox.path("out").join(name)).unwrap();
            }
        }
    }
}

#[test]
fn conversions_do_not_depend_on_level_or_threads() {
    let sandbox = Sandbox::with_golden("llama");
    let expected = digests("cli/two-step.txt", "convert+quantize");
    assert_eq!(expected.len(), 17);
    let bf16 = ["llama", "llama.gguf", "-t", "bf16", "-q"];
    succeed(sandbox.convert(&bf16));
    let types: Vec<&str> = expected.keys().map(String::as_str).collect();
    let args = ["llama.gguf", "out/{ftype}", &types.join(",")];
    check(&sandbox, env!("CARGO_BIN_EXE_gguf-quantize"), &args, &expected);

    let mut expected = digests("cli/two-step.txt", "convert+quantize");
    // The converter's own float types carry no key of the quantizer.
    let floats = digests("cli/two-step.txt", "convert");
    for name in ["f32", "f16", "bf16"] {
        expected.insert(name.to_owned(), floats[name].clone());
    }
    let args = ["llama", "out/{ftype}", "--type", &types.join(",")];
    check(&sandbox, env!("CARGO_BIN_EXE_gguf-convert"), &args, &expected);
}

#[test]
fn weighted_files_do_not_depend_on_level_or_threads() {
    let sandbox = Sandbox::with_golden("mixtral");
    fs::copy(golden("recipes/imatrix/mixtral.gguf"), sandbox.path("mixtral.imatrix.gguf")).unwrap();
    succeed(sandbox.convert(&words("mixtral mixtral.gguf -t bf16 -q")));
    let expected = digests("cli/imatrix.txt", "mixtral");
    assert_eq!(expected.len(), 32);
    let types: Vec<&str> = expected.keys().map(String::as_str).collect();
    let args = ["--imatrix", "mixtral.imatrix.gguf", "mixtral.gguf", "out/{ftype}", &types.join(",")];
    check(&sandbox, env!("CARGO_BIN_EXE_gguf-quantize"), &args, &expected);
}
