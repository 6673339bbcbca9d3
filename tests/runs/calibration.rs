//! Calibrations that end early: errors before any work, files left, messages, and resuming.

use std::fs;

use crate::common::{Output, Sandbox, succeed};
#[cfg(unix)]
use crate::common::{finish, has_finished_rows, signal, wait_until};

const QUANTIZE: &str = env!("CARGO_BIN_EXE_gguf-quantize");
const CONVERT: &str = env!("CARGO_BIN_EXE_gguf-convert");
const TOKENS: &[&str] = &["--calibrate", "text", "--calibration-tokens", "2048", "--no-verify"];
/// All but the attention of the first layer stays as it is.
const FEW: &[&str] = &["--tensor-type", "ffn|blk.1|output.weight|token_embd=bf16"];

/// The bytes that a failure says a file has at least.
fn least(ran: &Output) -> u64 {
    let (_, rest) = ran
        .stderr
        .split_once("the smallest file with the allowed types is ")
        .unwrap_or_else(|| panic!("{}", ran.stderr));
    rest.split(' ').next().unwrap().parse().unwrap()
}

#[test]
fn too_small_budget_is_reported_first() {
    let sandbox = Sandbox::with_base_and_text();
    let quantize = |size: &str, text: &str| {
        let args =
            ["base.gguf", "out/x.gguf", "q4_k_m", "--target-size", size, "--no-verify", "--calibrate", text];
        sandbox.quantize(&[&args[..], &["--calibration-tokens", "2048"]].concat())
    };
    // Before the text is opened.
    let ran = quantize("100K", "none");
    ran.ends_and_begins(1, "error: target size of 100000 bytes is too small: ");
    ran.says("with --allow-types");
    assert!(sandbox.outputs().is_empty());
    // From a checkpoint before it is converted, with the same number.
    let args = ["llama", "out/x.gguf", "-t", "q4_k_m", "--target-size", "100K", "--calibrate", "none"];
    let converted = sandbox.convert(&args);
    assert_eq!((converted.code, least(&converted)), (Some(1), least(&ran)), "{}", converted.stderr);
    assert!(sandbox.outputs().is_empty());
    for budget in [["--target-bpw", "0.6"], ["--no-larger-than-type", "q2_k"]] {
        let args = ["base.gguf", "out/x.gguf", "q4_k_m", "--calibrate", "none", "--allow-types", "q6_k"];
        let ran = sandbox.quantize(&[&args[..], &budget].concat());
        assert_eq!((ran.code, least(&ran) > 0), (Some(1), true), "{}", ran.stderr);
    }
    // With another importance matrix the file has one key more.
    let args = ["imatrix", "base.gguf", "--text", "text", "-o", "imatrix.gguf", "--chunks", "2", "-q"];
    succeed(sandbox.eval(&args));
    let args = ["base.gguf", "out/x.gguf", "q4_k_m", "--target-size", "1K", "--imatrix", "imatrix.gguf"];
    let with_another = sandbox.quantize(&[&args[..], TOKENS].concat());
    assert!(least(&with_another) > 0, "{}", with_another.stderr);

    // A byte less than that is refused, and that is what a file can have.
    let least = least(&quantize("1K", "text"));
    let ran = quantize(&(least - 1).to_string(), "text");
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    assert!(!ran.stderr.contains("reading"), "{}", ran.stderr);
    succeed(quantize(&least.to_string(), "text"));
    assert_eq!(fs::metadata(sandbox.path("out/x.gguf")).unwrap().len(), least);
    assert_eq!(sandbox.outputs(), ["x.gguf"]);
}

#[test]
fn unrecoverable_error_leaves_nothing() {
    let sandbox = Sandbox::with_base_and_text();
    // NaN in the norm before the first queries.
    let mut bytes = sandbox.read("base.gguf");
    let (begin, n_bytes) = {
        let model = sandbox.model("base.gguf");
        let (file, info) = model.tensor("blk.1.attn_norm.weight").unwrap();
        (file.data_offset() + info.offset, info.n_bytes)
    };
    assert_eq!(n_bytes, 1024, "256 numbers in f32");
    bytes[begin as usize..][..4].copy_from_slice(&f32::NAN.to_le_bytes());
    sandbox.write("base.gguf", bytes);
    let ran = sandbox.quantize(&[&["base.gguf", "out/x.gguf", "q4_0"][..], TOKENS].concat());
    ran.ends_and_says(1, "input NaN in column 0");
    assert!(!ran.stderr.contains("hint"), "{}", ran.stderr);
    assert!(sandbox.outputs().is_empty(), "{:?}", sandbox.outputs());
}

#[test]
fn leftover_statistics_are_named_and_reused() {
    let sandbox = Sandbox::with_base_and_text();
    let args = [&["base.gguf", "out/x.gguf", "q4_0"][..], FEW, TOKENS].concat();
    // The recipe cannot be saved, which is seen when the text has been read.
    let ran = sandbox.quantize(&[&args[..], &["--save-recipe", "none/recipe.json"]].concat());
    assert_eq!((ran.code, ran.stderr.contains(" steps")), (Some(1), true), "{}", ran.stderr);
    let hint = "hint: the statistics so far are in out/.x.gguf.moments; run the command again to continue; `rm -r out/.x.gguf.moments` removes it";
    ran.says(hint);
    let left = sandbox.outputs();
    assert!(!left.is_empty() && left.iter().all(|name| name.starts_with(".x.gguf.moments/")), "{left:?}");
    // Nothing is read again: no step of the text is gone through.
    let ran = succeed(sandbox.quantize(&args));
    assert!(ran.stderr.contains("reading 2048 tokens") && !ran.stderr.contains(" steps"), "{}", ran.stderr);
    assert_eq!(sandbox.outputs(), ["x.gguf"]);
}

#[cfg(unix)]
#[test]
fn interruption_names_the_statistics() {
    let sandbox = Sandbox::with_base_and_text();
    // The entire text, on one thread: some seconds.
    let args = ["base.gguf", "out/x.gguf", "q4_0", "-j", "1", "--no-verify", "--calibrate", "text"];
    let args = [&args[..], &["--calibration-tokens", "8192"]].concat();
    // A step is whole, others are not.
    let first = sandbox.path("out/.x.gguf.moments/step-00001.gguf");
    let child = wait_until(sandbox.spawn(QUANTIZE, &args), 600, || first.exists());
    signal(&child, "INT");
    let Output { code, stderr, .. } = finish(child);
    assert_eq!(code, Some(130), "{stderr}");
    assert!(stderr.contains("`rm -r out/.x.gguf.moments` removes it"), "{stderr}");
    assert!(sandbox.path("out/.x.gguf.moments").is_dir());
}

#[test]
fn finished_calibration_is_kept() {
    let sandbox = Sandbox::with_base_and_text();
    let calls = [
        [&["base.gguf", "out/x.gguf", "q4_0", "--resume"][..], FEW, TOKENS].concat(),
        [&["base.gguf", "out/x.gguf", "q4_k_m", "--target-bpw", "7", "--resume"][..], TOKENS].concat(),
    ];
    for args in calls {
        succeed(sandbox.quantize(&args));
        let files = sandbox.listing("out");
        let ran = succeed(sandbox.quantize(&args));
        ran.says("out/x.gguf is already finished");
        assert!(!ran.stderr.contains("reading"), "{}", ran.stderr);
        let json = succeed(sandbox.quantize(&[&args[..], &["--json"]].concat())).json();
        assert_eq!(json["outputs"][0]["bytes"], fs::metadata(sandbox.path("out/x.gguf")).unwrap().len());
        // Without the texts it is another file.
        let ran = sandbox.quantize(&["base.gguf", "out/x.gguf", args[2], "--resume"]);
        ran.ends_and_says(1, "written with other options or from another input: ");
        assert_eq!(sandbox.listing("out"), files);
        fs::remove_file(sandbox.path("out/x.gguf")).unwrap();
    }
}

/// Killed after the conversion: `--resume` uses the converted checkpoint and writes the bytes of an
/// undisturbed run.
#[cfg(unix)]
#[test]
fn interrupted_checkpoint_is_not_converted_again() {
    let sandbox = Sandbox::with_base_and_text();
    // Types of codebooks take longest: rows are noted before all are done.
    let args = [&["llama", "out/x.gguf", "-t", "iq3_xxs", "-j", "1"][..], TOKENS].concat();
    let journal = sandbox.path("out/.x.gguf.journal");
    let mut child = wait_until(sandbox.spawn(CONVERT, &args), 600, || has_finished_rows(&journal));
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!sandbox.path("out/x.gguf").exists());
    let base = sandbox.read("out/.x.gguf.base");
    assert!(base == sandbox.read("base.gguf"));
    // All that lies there is named, and not touched: without `--resume` nothing is done that a later run could not undo.
    let time = || fs::metadata(sandbox.path("out/.x.gguf.base")).unwrap().modified().unwrap();
    let before = time();
    let ran = sandbox.convert(&args);
    assert_eq!((ran.code, time()), (Some(1), before), "{}", ran.stderr);
    ran.begins("error: out/x.gguf: an earlier run was interrupted ");
    let left = ["journal", "partial", "moments", "base"].map(|what| format!("out/.x.gguf.{what}"));
    ran.says(&format!("run `rm -r {}` to remove its files", left.join(" ")));
    assert!(left.iter().all(|name| sandbox.path(name).exists()));

    let ran = succeed(sandbox.convert(&[&args[..], &["--resume"]].concat()));
    assert!(ran.stderr.contains("resuming: ") && !ran.stderr.contains(".base: "), "{}", ran.stderr);
    assert!(!ran.stderr.contains(" steps"), "{}", ran.stderr);
    assert_eq!(sandbox.outputs(), ["x.gguf"]);
    let whole: Vec<&str> =
        args.iter().map(|arg| if *arg == "out/x.gguf" { "whole.gguf" } else { *arg }).collect();
    let ran = succeed(sandbox.convert(&whole));
    let is_reported = ran.stderr.contains(".whole.gguf.base: ") && ran.stderr.contains(" steps");
    assert!(is_reported, "a run that does both says so: {}", ran.stderr);
    assert!(sandbox.read("out/x.gguf") == sandbox.read("whole.gguf"));
}
