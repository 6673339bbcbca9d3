//! `gguf-convert --repack`: notes about tensors whose codes are kept, and about decoded ones.

use crate::common::{Sandbox, succeed, words};
use serde_json::Value as Json;

/// A listing without the line breaks inside its sentences.
fn unwrapped(listing: &str) -> String {
    listing.replace("\n    ", " ")
}

/// The numbered reason of a tensor's type.
fn reason_of<'a>(listing: &'a str, tensor: &str) -> &'a str {
    let row = listing.lines().find(|line| line.starts_with(tensor)).unwrap();
    let number = &row[row.rfind('[').unwrap()..];
    listing.lines().find_map(|line| line.strip_prefix(number)).unwrap().trim_start()
}

#[test]
fn plan_lists_kept_tensors_and_reasons() {
    let sandbox = Sandbox::with_form("gptq-8bit-order");
    let ran = succeed(sandbox.convert(&words("gptq-8bit-order out/x -t q4_k_m --repack --dry-run")));
    let listing = unwrapped(&ran.stdout);
    let reason = reason_of(&listing, "blk.0.ffn_down.weight");
    assert!(reason.ends_with("decoded: the columns are not in group order (act-order)"), "{reason}");
    // Rows of 64 inputs are one group, which is in order whatever the index says.
    let line = "repack: `blk.0.attn_k.weight` and 11 more decoded: ";
    assert!(!listing.contains(line), "{listing}");
    let line = "repack: `blk.0.ffn_down.weight` and 1 more decoded: the columns";
    assert!(listing.contains(line), "{listing}");
    assert!(sandbox.listing("out").is_empty());
}

#[test]
fn kept_tensors_are_listed_and_counted() {
    let sandbox = Sandbox::with_form("packed-4bit");
    let args = ["packed-4bit", "out/x", "-t", "q6_k", "--repack"];
    let ran = sandbox.convert(&[&args[..], &["--dry-run"]].concat());
    let row = ran.stdout.lines().find(|line| line.starts_with("blk.1.attn_q.weight")).unwrap();
    assert!(row.contains(" q4_0 "), "{row}");
    let listing = unwrapped(&ran.stdout);
    assert_eq!(reason_of(&listing, "blk.1.attn_q.weight"), "same values as in the checkpoint");
    let summary = "repack: `blk.0.attn_k.weight` and 13 more kept, the same values as q4_0";
    assert!(listing.contains(summary), "{listing}");

    let ran = succeed(sandbox.convert(&[&args[..], &["--json"]].concat()));
    ran.says(summary);
    let report = ran.json();
    let output = &report["outputs"][0];
    assert_eq!(output["repack"][0], summary);
    let tensors = output["tensors"].as_array().unwrap();
    let kept =
        tensors.iter().filter(|tensor| tensor["repack"] == "kept" && tensor["dtype"] == "q4_0").count();
    let plain = tensors.iter().filter(|tensor| tensor.get("repack").is_none()).count();
    assert_eq!((kept, plain), (14, tensors.len() - 14));
    assert!(sandbox.listing("out").keys().eq(["x"]));

    // Without the option there is no note.
    let ran = sandbox.convert(&words("packed-4bit out/y -t q6_k --json"));
    assert!(!ran.stdout.contains("repack") && !ran.stderr.contains("repack"));
}

#[test]
fn explicit_type_overrides_repack_with_note() {
    let sandbox = Sandbox::with_form("packed-4bit");
    let ran =
        sandbox.convert(&words("packed-4bit out/x -t q6_k --repack --dry-run --tensor-type attn_q=q8_0"));
    let line = "repack: `blk.0.attn_q.weight` and 1 more decoded: its type is set by another rule (requested: `attn_q`)";
    assert!(unwrapped(&ran.stdout).contains(line), "{}", ran.stdout);
    let ran = sandbox.convert(&words("packed-4bit out/x -t q6_k --repack --save-recipe r.json"));
    assert_eq!(ran.code, Some(2), "{}", ran.stderr);
}

/// Blocks that stay at float types are quantized again at others, unless their values shall stay.
#[test]
fn nvfp4_blocks_are_kept_at_every_type() {
    let sandbox = Sandbox::with_form("nvfp4-modelopt");
    let dtypes = |args: &[&str]| -> Vec<(String, String)> {
        let plan = ["nvfp4-modelopt", "out/x", "-t", "q8_0", "--dry-run", "--json"];
        let report = succeed(sandbox.convert(&[&plan[..], args].concat())).json();
        let tensors = report["outputs"][0]["tensors"].as_array().unwrap();
        let text = |value: &Json| value.as_str().unwrap().to_owned();
        tensors.iter().map(|tensor| (text(&tensor["name"]), text(&tensor["dtype"]))).collect()
    };
    let (again, kept) = (dtypes(&[]), dtypes(&["--repack"]));
    let count = |tensors: &[(String, String)], dtype: &str| tensors.iter().filter(|it| it.1 == dtype).count();
    // Seven matrices of two layers, besides the embedding and the output.
    assert_eq!((count(&again, "nvfp4"), count(&again, "q8_0")), (0, 16));
    assert_eq!((count(&kept, "nvfp4"), count(&kept, "q8_0")), (14, 2));
    // A tensor's factor is stored with it either way.
    let scales = |tensors: &[(String, String)]| tensors.iter().filter(|it| it.0.ends_with(".scale")).count();
    assert_eq!((scales(&again), scales(&kept)), (11, 11));
}
