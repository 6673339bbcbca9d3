//! `gguf-convert` of FP8 checkpoints: the option for their tensors, and errors for invalid checkpoints.

use std::fs;

use crate::common::{Output, Sandbox, read_json, sha256, silent, succeed, words};
use gguf_testkit::place_in_safetensors;

/// A sandbox with a form, of whose tensor some bytes are replaced.
fn damaged(form: &str, tensor: &str, at: usize, bytes: &[u8]) -> Sandbox {
    let sandbox = Sandbox::with_form(form);
    let path = sandbox.path(form).join("model.safetensors");
    let mut file = fs::read(&path).unwrap();
    let begin = place_in_safetensors(&file, tensor).start + at;
    file[begin..begin + bytes.len()].copy_from_slice(bytes);
    fs::write(path, file).unwrap();
    sandbox
}

/// The last line but the hint: the error itself.
fn error_of(ran: &Output) -> &str {
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    ran.stderr.lines().find(|line| line.starts_with("error: ")).unwrap()
}

#[test]
fn fp8_as_q8_0_matches_reference() {
    let mut n_compared = 0;
    for form in gguf_testkit::form_names() {
        let expected = read_json(gguf_testkit::form(&form).join("expected.json"));
        for dtype in ["f32", "f16", "bf16"] {
            let Some(digest) = expected["whole"][format!("{dtype} fp8-as-q8")].as_str() else { continue };
            let sandbox = Sandbox::with_form(&form);
            let ran = sandbox.convert(&[&form, "out/x", "-t", dtype, "--fp8-as", "q8_0", "-q"]);
            assert_eq!(ran, silent(), "{form}");
            assert_eq!(sha256(&sandbox.read("out/x")), digest, "{form} {dtype}");
            n_compared += 1;
        }
    }
    assert_eq!(n_compared, 9);
}

#[test]
fn inapplicable_fp8_as_is_refused() {
    let sandbox = Sandbox::with_form("fp8-block");
    let ran = sandbox.convert(&words("fp8-block out/x -t q4_k_m --fp8-as q8_0"));
    ran.ends_and_says(2, "--fp8-as requires --type f32, f16 or bf16");
    let ran = sandbox.convert(&words("fp8-block out/x -t bf16 --fp8-as q4_0"));
    assert_eq!(ran.code, Some(2));
    assert!(sandbox.listing("out").is_empty());
    let plain = Sandbox::with_golden("llama");
    let ran = succeed(plain.convert(&words("llama out/x -t bf16 --fp8-as q8_0")));
    ran.says("warning: --fp8-as: no tensor of the checkpoint is FP8");
    // An option that names the type of a tensor goes first.
    let plan = sandbox
        .convert(&words("fp8-block -t bf16 --fp8-as q8_0 --tensor-type attn_q=f32 --dry-run --json"))
        .json();
    let of = |name: &str| {
        let tensors = plan["outputs"][0]["tensors"].as_array().unwrap();
        tensors.iter().find(|tensor| tensor["name"] == name).unwrap()["dtype"].clone()
    };
    assert_eq!(
        [of("blk.0.attn_q.weight"), of("blk.0.attn_k.weight"), of("output.weight")],
        ["f32", "q8_0", "bf16"]
    );
}

#[test]
fn activation_scales_are_dropped_with_note() {
    let sandbox = Sandbox::with_form("fp8-modelopt");
    let ran = sandbox.convert(&["fp8-modelopt", "out/x", "-t", "bf16"]);
    let note = "note: tensor `model.layers.0.mlp.down_proj.input_scale` and 38 more omitted: the quantization of activations and caches is not stored in a GGUF file\n";
    ran.says(note);
}

#[test]
fn nan_names_tensor_and_row() {
    // 160 columns; row 3 of the codes, row 1 of the 2 x 2 scales.
    let q_proj = "model.layers.1.self_attn.q_proj.weight";
    let scale = &format!("{q_proj}_scale_inv");
    let inf = f32::INFINITY.to_le_bytes();
    for (tensor, at, bytes, expected) in [
        (q_proj, 3 * 160 + 7, &[0xff][..], "row 3: expected finite codes, found byte 0xff at column 7"),
        (q_proj, 0, &[0x7f][..], "row 0: expected finite codes, found byte 0x7f at column 0"),
        (scale, 2 * 4, &f32::NAN.to_le_bytes()[..], "row 1: expected finite scales, found NaN"),
        (scale, 3 * 4, &inf[..], "row 1: expected finite scales, found inf"),
    ] {
        let sandbox = damaged("fp8-block", tensor, at, bytes);
        let ran = sandbox.convert(&words("fp8-block out/x -t q8_0 -j 2"));
        let error = error_of(&ran);
        assert!(error.contains(&format!("tensor `{tensor}`: {expected}")), "{error}");
        assert!(sandbox.listing("out").is_empty());
    }
}

#[test]
fn overflowing_product_is_refused() {
    // The largest scale times a code above one.
    let tensor = "model.layers.0.mlp.up_proj.weight_scale_inv";
    let sandbox = damaged("fp8-block", tensor, 0, &f32::MAX.to_le_bytes());
    let ran = sandbox.convert(&["fp8-block", "out/x", "-t", "q4_0"]);
    let error = error_of(&ran);
    assert!(error.contains("blk.0.ffn_up.weight"), "{error}");
    assert!(sandbox.finished_outputs().is_empty());
}
