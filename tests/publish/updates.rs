//! Publications that are made again of something else: more windows, fewer types, another state of the source.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use super::write_texts;
use crate::common::{Output, Sandbox, succeed, words};
use serde_json::Value;

/// A checkpoint and texts.
fn sandbox() -> Sandbox {
    let sandbox = Sandbox::with_golden("llama");
    write_texts(&sandbox);
    sandbox
}

fn publish(sandbox: &Sandbox, src: &str, dir: &str, more: &[&str]) -> Output {
    let args = [src, dir, "-c", "32", "--no-imatrix", "--eval-text", "eval.txt", "-j", "2"];
    sandbox.publish(&[&args[..], more].concat())
}

fn results(sandbox: &Sandbox, dir: &str) -> Value {
    sandbox.json(&format!("{dir}/results.json"))
}

/// Types of the results that are left out, and those that are not.
fn types(results: &Value) -> (BTreeSet<String>, BTreeSet<String>) {
    let rungs = results["rungs"].as_array().unwrap().iter();
    let (out, kept): (Vec<&Value>, Vec<&Value>) = rungs.partition(|rung| rung["left_out"] == true);
    let names = |rungs: Vec<&Value>| rungs.iter().map(|it| it["type"].as_str().unwrap().to_owned()).collect();
    (names(out), names(kept))
}

/// Types of the existing files: the part after the last `-`.
fn files(sandbox: &Sandbox, dir: &str) -> BTreeSet<String> {
    let names =
        sandbox.listing(dir).into_keys().filter_map(|name| Some(name.strip_suffix(".gguf")?.to_owned()));
    names.map(|name| name.rsplit('-').next().unwrap().to_owned()).collect()
}

#[test]
fn omitted_types_can_be_requested_again() {
    let sandbox = sandbox();
    const TYPES: [&str; 2] = ["-t", "q4_0,iq4_nl,q8_0"];
    let call = |dir: &str, more: &[&str]| {
        let ran = succeed(publish(&sandbox, "llama", dir, &[&TYPES[..], more].concat()));
        let results = results(&sandbox, dir);
        let (left_out, kept) = types(&results);
        assert_eq!(files(&sandbox, dir), kept, "{left_out:?} are left out: {}", ran.stderr);
        let sums = fs::read_to_string(sandbox.path(dir).join("SHA256SUMS")).unwrap();
        let is_summed = |of: &String| sums.contains(&format!("-{of}.gguf"));
        assert!(kept.iter().all(is_summed) && !left_out.iter().any(is_summed), "{sums}");
        (ran.stderr, left_out, results)
    };
    let (_, first, _) = call("out/pub", &["--chunks", "20", "--drop-dominated"]);
    assert_eq!(first, BTreeSet::from(["Q4_0".to_owned()]));
    let (log, again, _) = call("out/pub", &["--chunks", "20", "--drop-dominated"]);
    assert_eq!((&again, log.contains("files: ")), (&first, false), "{log}");
    // Measurements with other chunks are void: the file is made and measured again.
    let (log, more, results) = call("out/pub", &["--chunks", "30", "--drop-dominated"]);
    assert!(log.contains("files: Q4_0\n"), "{log}");
    let (_, fresh, expected) = call("out/fresh", &["--chunks", "30", "--drop-dominated"]);
    assert_eq!((more, &results["rungs"]), (fresh, &expected["rungs"]));
    let (_, none, _) = call("out/pub", &["--chunks", "30"]);
    assert_eq!(none, BTreeSet::new());
    let (_, last, _) = call("out/pub", &["--chunks", "30", "--drop-dominated"]);
    assert_eq!(last, first);
    let card = sandbox.text("out/pub/README.md");
    assert!(card.contains("| **recommended**: ") && !card.contains("imprecise"), "{card}");
}

/// Files of other types stay, are reported, and appear in no output.
#[test]
fn files_of_earlier_call_are_reported_and_kept() {
    let sandbox = sandbox();
    let call =
        |more: &[&str]| succeed(publish(&sandbox, "llama", "out/pub", &[&["--chunks", "4"], more].concat()));
    let log = call(&["-t", "q8_0,q4_0"]);
    assert!(!log.stderr.contains("is in the folder"), "{}", log.stderr);
    let before = sandbox.listing("out/pub");
    let log = call(&["-t", "q8_0", "--replace-types"]);
    let after = sandbox.listing("out/pub");
    assert_eq!(before.keys().collect::<Vec<_>>(), after.keys().collect::<Vec<_>>());
    let strangers: Vec<&String> = before.keys().filter(|name| name.contains("Q4_0")).collect();
    assert_eq!(strangers.len(), 2, "a file and its recipe: {strangers:?}");
    for name in strangers {
        assert_eq!(before[name], after[name]);
        log.says(&format!("{name} is in the folder but not in the card"));
    }
    for name in ["README.md", "results.json", "SHA256SUMS", "plot.svg", "report.html"] {
        let text = fs::read_to_string(sandbox.path("out/pub").join(name)).unwrap();
        // The plot and the page name types, the call in the card is that of today.
        assert!(!text.contains("Q4_0") && text.contains("Q8_0"), "{name}");
    }
    // Wanted again, it is not made again.
    let log = call(&["-t", "q8_0,q4_0"]);
    assert!(!log.stderr.contains("files: ") && !log.stderr.contains("is in the folder"), "{}", log.stderr);
    assert_eq!(sandbox.listing("out/pub")["SHA256SUMS"], {
        let sums = sandbox.read("out/pub/SHA256SUMS");
        assert!(String::from_utf8(sums.clone()).unwrap().contains("Q4_0.gguf"));
        crate::common::sha256(&sums)
    });
}

/// A snapshot of `org/llama` in the Hub's cache, and the branch at it.
fn cached(sandbox: &Sandbox, commit: &str) -> PathBuf {
    let model = sandbox.path("hf/hub/models--org--llama");
    let snapshot = model.join("snapshots").join(commit);
    crate::common::copy_folder(&sandbox.path("llama"), &snapshot);
    fs::create_dir_all(model.join("refs")).unwrap();
    fs::write(model.join("refs/main"), commit).unwrap();
    snapshot
}

#[test]
fn moved_branch_is_another_model() {
    let sandbox = sandbox();
    let published = |src: &str| {
        let ran = succeed(publish(&sandbox, src, "out/pub", &["--chunks", "4", "-t", "q8_0"]));
        let results = results(&sandbox, "out/pub");
        let commit = results["model"]["commit"].as_str().unwrap().to_owned();
        let card = sandbox.text("out/pub/README.md");
        let source = format!("- Source: org/llama, commit `{commit}`\n");
        assert!(card.contains(&source) && card.contains("base_model: \"org/llama\""), "{card}");
        assert!(card.contains(&format!(".gguf --against hf://org/llama@{commit}\n")), "{card}");
        (ran.stderr, commit, results["rungs"][0]["files"][0]["sha256"].as_str().unwrap().to_owned())
    };
    let commits = ["0123456789abcdef0123456789abcdef01234567", "76543210fedcba9876543210fedcba9876543210"];
    let weights = |snapshot: &Path| snapshot.join("model.safetensors");
    let first = cached(&sandbox, commits[0]);
    let (_, commit, before) = published("hf://org/llama");
    assert_eq!(commit, commits[0]);
    let (log, _, same) = published("org/llama");
    assert_eq!((&same, log.contains("files: ")), (&before, false), "{log}");
    // Other weights, in a file of the same length and time.
    let second = cached(&sandbox, commits[1]);
    let mut bytes = fs::read(weights(&second)).unwrap();
    let at = bytes.len() / 2;
    bytes[at..at + 256].fill(0x3c);
    fs::write(weights(&second), bytes).unwrap();
    let time = fs::metadata(weights(&first)).unwrap().modified().unwrap();
    fs::File::options().write(true).open(weights(&second)).unwrap().set_modified(time).unwrap();
    let (log, commit, after) = published("hf://org/llama");
    assert_eq!(commit, commits[1]);
    assert!(after != before && log.contains("files: Q8_0"), "{log}");
    let (_, commit, _) = published(&format!("hf://org/llama@{}", commits[0]));
    assert_eq!(commit, commits[0]);
}

#[test]
fn gguf_source_is_its_own_base() {
    let sandbox = sandbox();
    succeed(sandbox.convert(&words("llama base.gguf -t bf16 -q")));
    let ran = publish(&sandbox, "base.gguf", "out/pub", &words("--chunks 4 -t q8_0 --base-type f16"));
    let expected = "error: --base-type needs a checkpoint as input; a GGUF file is used as the base\nhint: to use a base of another type, run `gguf-quantize base.gguf BASE.gguf TYPE`\n";
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(2), expected));
    assert!(sandbox.outputs().is_empty());
    let ran = succeed(publish(&sandbox, "base.gguf", "out/pub", &["--chunks", "4", "-t", "8bit"]));
    ran.begins("note: type `8bit` is q8_0\n");
    assert_eq!(results(&sandbox, "out/pub")["base"]["type"], "BF16");
    // A quantized file is refused for any type.
    succeed(sandbox.convert(&words("llama quantized.gguf -t q8_0 -q")));
    for file_type in ["q8_0", "q4_0"] {
        let ran = publish(&sandbox, "quantized.gguf", "out/again", &["--chunks", "4", "-t", file_type]);
        ran.ends_and_says(1, "is already quantized (q8_0); files are made from original weights");
        ran.says("hint: publish the checkpoint, or a file of type BF16, F16 or F32");
    }
}
