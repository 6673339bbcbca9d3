//! Files written by the reference's `llama-imatrix` (`golden/MANIFEST`), read and written again.

#![expect(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

use std::{fs, path::PathBuf};

use gguf_imatrix::{Error, Format, Sums};

fn golden(name: &str) -> Vec<u8> {
    fs::read(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../golden").join(name)).unwrap()
}

#[test]
fn files_are_rewritten_byte_for_byte() {
    for name in ["recipes/imatrix/mixtral.gguf", "cli/llama.imatrix.gguf", "imatrix/smollm2.gguf"] {
        let bytes = golden(name);
        let sums = Sums::parse(bytes.clone()).unwrap();
        assert!(sums.to_bytes(Format::Gguf).unwrap() == bytes, "{name}");
    }
}

/// Both files are of one run, so the older one follows from the newer, experts included.
#[test]
fn legacy_format_follows_from_sums_and_counts() {
    let sums = Sums::parse(golden("recipes/imatrix/mixtral.gguf")).unwrap();
    assert!(sums.to_bytes(Format::Legacy).unwrap() == golden("recipes/imatrix/mixtral.dat"));
}

#[test]
fn matrix_added_to_itself_doubles() {
    let once = Sums::parse(golden("recipes/imatrix/mixtral.gguf")).unwrap();
    let mut twice = once.clone();
    twice.add(&once).unwrap();
    assert_eq!(twice.n_chunks, 2 * once.n_chunks);
    assert_eq!(twice.datasets.len(), 2 * once.datasets.len());
    for (name, entry) in &once.entries {
        let doubled = &twice.entries[name];
        assert!(doubled.counts.iter().zip(&entry.counts).all(|(two, one)| *two == 2 * one), "{name}");
        assert!(doubled.sums.iter().zip(&entry.sums).all(|(two, one)| *two == 2.0 * one), "{name}");
    }
}

#[test]
fn legacy_calls_convert_to_tokens() {
    let sums = Sums::parse(golden("recipes/imatrix/mixtral.gguf")).unwrap();
    let old = Sums::parse(golden("recipes/imatrix/mixtral.dat")).unwrap().in_tokens(sums.chunk_tokens);
    let name = "blk.0.attn_q.weight";
    assert_eq!(old.entries[name].counts, sums.entries[name].counts);
    for (new, old) in sums.entries[name].sums.iter().zip(&old.entries[name].sums) {
        assert!((new - old).abs() <= 1e-6 * new.abs(), "{new} {old}");
    }
    // The older file has one count for all experts.
    let mut both = sums.clone();
    both.add(&old).unwrap();
    let experts = "blk.0.ffn_up_exps.weight";
    let expected: Vec<i64> =
        sums.entries[experts].counts.iter().map(|count| count + old.entries[experts].counts[0]).collect();
    assert_eq!(both.entries[experts].counts, expected);
}

#[test]
fn matrices_of_two_models_are_refused() {
    let mut one = Sums::parse(golden("cli/llama.imatrix.gguf")).unwrap();
    let other = Sums::parse(golden("imatrix/smollm2.gguf")).unwrap();
    let error = one.add(&other).unwrap_err();
    assert!(matches!(error, Error::SizesDiffer { item: "sums", .. }), "{error}");
}
