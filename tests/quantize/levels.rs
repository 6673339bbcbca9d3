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

/// Each level with one number of threads, and the best level with the others.
fn some_pairs() -> Vec<(&'static str, &'static str)> {
    let best = Level::detect().name();
    let levels = levels().into_iter().map(|level| (level, THREADS[2]));
    levels.chain([0, 1, 3].map(|index| (best, THREADS[index]))).collect()
}

/// Runs a binary that writes one file of each type into `out`, at these levels and numbers of threads.
fn check(
    sandbox: &Sandbox,
    binary: &str,
    args: &[&str],
    expected: &BTreeMap<String, String>,
    pairs: &[(&str, &str)],
) {
    for (level, threads) in pairs {
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

fn conversions(pairs: &[(&str, &str)]) {
    let sandbox = Sandbox::with_golden("llama");
    let expected = digests("cli/two-step.txt", "convert+quantize");
    assert_eq!(expected.len(), 17);
    let bf16 = ["llama", "llama.gguf", "-t", "bf16", "-q"];
    succeed(sandbox.convert(&bf16));
    let types: Vec<&str> = expected.keys().map(String::as_str).collect();
    let args = ["llama.gguf", "out/{ftype}", &types.join(",")];
    check(&sandbox, env!("CARGO_BIN_EXE_gguf-quantize"), &args, &expected, pairs);

    let mut expected = digests("cli/two-step.txt", "convert+quantize");
    // The converter's own float types carry no key of the quantizer.
    let floats = digests("cli/two-step.txt", "convert");
    for name in ["f32", "f16", "bf16"] {
        expected.insert(name.to_owned(), floats[name].clone());
    }
    let args = ["llama", "out/{ftype}", "--type", &types.join(",")];
    check(&sandbox, env!("CARGO_BIN_EXE_gguf-convert"), &args, &expected, pairs);
}

fn weighted_files(pairs: &[(&str, &str)]) {
    let sandbox = Sandbox::with_golden("mixtral");
    fs::copy(golden("recipes/imatrix/mixtral.gguf"), sandbox.path("mixtral.imatrix.gguf")).unwrap();
    succeed(sandbox.convert(&words("mixtral mixtral.gguf -t bf16 -q")));
    let expected = digests("cli/imatrix.txt", "mixtral");
    assert_eq!(expected.len(), 32);
    let types: Vec<&str> = expected.keys().map(String::as_str).collect();
    let args = ["--imatrix", "mixtral.imatrix.gguf", "mixtral.gguf", "out/{ftype}", &types.join(",")];
    check(&sandbox, env!("CARGO_BIN_EXE_gguf-quantize"), &args, &expected, pairs);
}

#[test]
fn conversions_do_not_depend_on_level_or_threads() {
    conversions(&some_pairs());
}

#[test]
fn weighted_files_do_not_depend_on_level_or_threads() {
    weighted_files(&some_pairs());
}

#[test]
#[ignore = "nightly: every level with every number of threads"]
fn files_do_not_depend_on_pairs_of_level_and_threads() {
    let pairs: Vec<_> =
        levels().into_iter().flat_map(|level| THREADS.map(|threads| (level, threads))).collect();
    conversions(&pairs);
    weighted_files(&pairs);
}
