//! File types that do not match the types of the tensors.

use crate::common::{Sandbox, succeed, verify};

#[test]
fn mxfp4_moe_of_dense_model_is_a_warning() {
    for (name, is_dense) in [("llama", true), ("mixtral", false)] {
        let sandbox = Sandbox::with_converted(name, "m.gguf", "bf16");
        let logs = [
            succeed(sandbox.quantize(&["m.gguf", "mx.gguf", "mxfp4_moe"])).stderr,
            succeed(sandbox.convert(&[name, "mx.gguf", "-t", "mxfp4_moe", "--force"])).stderr,
        ];
        for log in logs {
            assert_eq!(
                log.contains("warning: MXFP4_MOE: no tensor becomes mxfp4"),
                is_dense,
                "{name}: {log}"
            );
        }
        let (code, found, log) = verify(&sandbox, &["mx.gguf", "--strict"]);
        assert_eq!(
            (code, found.contains("file_type")),
            (Some(i32::from(is_dense)), is_dense),
            "{name}: {log}"
        );
    }
}

#[test]
fn publishing_warns_of_types_without_their_tensors() {
    let sandbox = Sandbox::with_base_and_text();
    let publish =
        ["base.gguf", "pub", "--type", "q8_0,mxfp4_moe", "--eval-text", "text", "--chunks", "1", "-c", "32"];
    let ran = succeed(sandbox.publish(&[&publish[..], &["--no-imatrix"]].concat()));
    ran.says("warning: MXFP4_MOE: no tensor becomes mxfp4");
    // The type that lacks them need not be the first one.
    let ran = succeed(sandbox.convert(&["llama", "out/", "-t", "q8_0,mxfp4_moe"]));
    ran.says("warning: MXFP4_MOE: no tensor becomes mxfp4");
}

#[test]
fn overrides_contradicting_file_type_are_a_warning() {
    let sandbox = Sandbox::with_converted("llama", "m.gguf", "bf16");
    let all = ["m.gguf", "out.gguf", "q4_0", "--tensor-type", ".*=q5_1"];
    let log = succeed(sandbox.quantize(&all)).stderr;
    assert!(log.contains("warning: Q4_0: no tensor becomes q4_0, most weights become q5_1"), "{log}");
    let some = ["m.gguf", "out.gguf", "q4_0", "--tensor-type", "attn_q=q5_1", "--force"];
    let log = succeed(sandbox.quantize(&some)).stderr;
    assert!(!log.contains("no tensor becomes"), "{log}");
    // Calibration chooses types and writes its name like this.
    succeed(sandbox.quantize(&[&all[..], &["--force", "-q"]].concat()));
    succeed(sandbox.inspect(&["set", "out.gguf", "quantize.imatrix.file=str:cal3-0123abcd", "-q"]));
    let (code, _, log) = verify(&sandbox, &["out.gguf", "--strict"]);
    assert!(code == Some(0) && log.contains("the type search chose q5_1 for most weights"), "{log}");
    succeed(sandbox.inspect(&[
        "set",
        "out.gguf",
        "quantize.imatrix.file=str:calibration.txt",
        "-q",
        "--force",
    ]));
    assert_eq!(verify(&sandbox, &["out.gguf"]).0, Some(1));
}

#[test]
fn foreign_type_names_get_advice() {
    let sandbox = Sandbox::with_converted("llama", "m.gguf", "bf16");
    for (name, tip) in [
        ("mxfp4", "use mxfp4_moe for the experts"),
        ("nvfp4", "--tensor-type PATTERN=nvfp4"),
        ("q4_k_l", "q4_k_m with --token-embedding-type q8_0 --output-tensor-type q8_0"),
        ("Q6_K_XL", "q6_k with --token-embedding-type q8_0"),
        ("iq4_k", "iq4_k is a type of ik_llama.cpp"),
    ] {
        for ran in [
            sandbox.quantize(&["m.gguf", "out.gguf", name]),
            sandbox.convert(&["llama", "out.gguf", "--type", name]),
        ] {
            assert_eq!(ran.code, Some(2), "{ran:?}");
            assert!(ran.stderr.contains(tip), "{name}: {}", ran.stderr);
        }
    }
}
