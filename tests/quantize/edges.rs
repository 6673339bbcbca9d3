//! Tensors that pass through the quantizer unchanged, shards from the converter, and NaN or infinite values:
//! both binaries against `golden/cli/edges.txt`.

use std::{collections::BTreeMap, fs};

use crate::common::{Output, Sandbox, golden};

/// `POISONED` and `POISON` of `scripts/golden/edges_cli.py`.
const POISONED: &str = "model.layers.1.mlp.down_proj.weight";
const POISON: [(usize, u16); 4] =
    [(3 * 512 + 7, 0x7fc0), (3 * 512 + 8, 0xffc0), (5 * 512, 0x7f80), (5 * 512 + 511, 0xff80)];

/// Runs the lines whose names begin with `kind` and compares every file.
fn check(sandbox: &Sandbox, kind: &str, run: impl Fn(&[&str]) -> Output) -> usize {
    let text = fs::read_to_string(golden("cli/edges.txt")).unwrap();
    let mut n = 0;
    for line in text.lines().filter(|line| line.starts_with(kind)) {
        let [name, args, files] = line.split('|').collect::<Vec<_>>()[..] else { panic!("{line}") };
        let _ = fs::remove_dir_all(sandbox.path("out"));
        fs::create_dir(sandbox.path("out")).unwrap();
        let args: Vec<&str> = args.split(' ').chain(["-q"]).collect();
        let ran = run(&args);
        assert_eq!(ran, Output { code: Some(0), stdout: String::new(), stderr: String::new() }, "{name}");
        let words: Vec<&str> = files.split_whitespace().collect();
        let expected: BTreeMap<String, String> = words
            .as_chunks::<3>()
            .0
            .iter()
            .map(|[name, _, digest]| ((*name).to_owned(), (*digest).to_owned()))
            .collect();
        assert_eq!(sandbox.listing("out"), expected, "{name}");
        n += 1;
    }
    n
}

#[test]
fn integers_and_doubles_pass_through() {
    let sandbox = Sandbox::new();
    fs::copy(golden("cli/passed.gguf"), sandbox.path("passed.gguf")).unwrap();
    let n = check(&sandbox, "quantize-", |args| sandbox.quantize(args));
    assert_eq!(n, 6);
}

#[test]
fn float_shards_match_reference() {
    let sandbox = Sandbox::with_golden("llama");
    assert_eq!(check(&sandbox, "split-", |args| sandbox.convert(args)), 6);
}

#[test]
fn nan_and_inf_match_reference() {
    let sandbox = Sandbox::with_golden("llama");
    let mut bytes = sandbox.read("llama/model.safetensors");
    let begin = gguf_testkit::place_in_safetensors(&bytes, POISONED).start;
    for (index, bits) in POISON {
        bytes[begin + 2 * index..][..2].copy_from_slice(&bits.to_le_bytes());
    }
    sandbox.write("llama/model.safetensors", bytes);
    assert_eq!(check(&sandbox, "nonfinite-", |args| sandbox.convert(args)), 3);
}
