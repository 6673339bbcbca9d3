//! Values that a type destroys, and tensors that are entirely zero.

use crate::common::{Output, Sandbox, Tensors, succeed, verify, words};

/// The value of each element.
type Values = fn(usize) -> f32;

/// The checkpoint `llama` with these values (name, function of the index) in place of those of a tensor, in f32.
fn checkpoint_with(changes: &[(&str, Values)]) -> Sandbox {
    let sandbox = Sandbox::with_golden("llama");
    let weights = "llama/model.safetensors";
    let mut tensors: Tensors = sandbox.tensors(weights);
    for (name, value) in changes {
        let (dtype, shape, bytes) = tensors.get_mut(*name).unwrap();
        let n_elems = shape.iter().product::<u64>() as usize;
        *dtype = "F32".to_owned();
        *bytes = (0..n_elems).flat_map(|index| value(index).to_le_bytes()).collect();
    }
    sandbox.write_tensors(weights, &tensors);
    sandbox
}

fn warnings(ran: &Output) -> Vec<&str> {
    ran.stderr.lines().filter_map(|line| line.strip_prefix("warning: ")).collect()
}

const DOWN: &str = "model.layers.0.mlp.down_proj.weight";
const NORM: &str = "model.layers.1.input_layernorm.weight";

#[test]
fn matrix_rounded_to_zero_is_named() {
    let sandbox = checkpoint_with(&[(DOWN, |index| 1e-13 * (1 + index % 7) as f32)]);
    for dtype in ["f16", "q8_0", "q4_0", "q6_k", "iq4_xs"] {
        let ran = succeed(sandbox.convert(&["llama", "out.gguf", "-t", dtype, "--force"]));
        let found = warnings(&ran);
        assert_eq!(found.len(), 1, "{dtype}: {}", ran.stderr);
        assert!(
            found[0].starts_with("tensor `blk.0.ffn_down.weight`: all values become zero in "),
            "{}",
            ran.stderr
        );
    }
    // bf16 and f32 contain them, and so does the type that the warning names.
    succeed(sandbox.convert(&words("llama in.gguf -t f32 --force")));
    let option = "^blk\\.0\\.ffn_down\\.weight$=bf16";
    for args in [
        &["in.gguf", "out.gguf", "bf16", "--force"][..],
        &["in.gguf", "out.gguf", "q4_0", "--force", "--tensor-type", option],
    ] {
        let ran = succeed(sandbox.quantize(args));
        assert!(warnings(&ran).is_empty(), "{}", ran.stderr);
    }
    let ran = succeed(sandbox.quantize(&["in.gguf", "out.gguf", "q4_0", "--force"]));
    ran.says(&format!("use `--tensor-type '{option}'` to keep them"));
}

#[test]
fn tensors_of_zeros_are_named_by_every_program() {
    let sandbox = checkpoint_with(&[(DOWN, |_| 0.0), (NORM, |_| -0.0)]);
    let expected = [
        "tensor `blk.0.ffn_down.weight` is entirely zero",
        "tensor `blk.1.attn_norm.weight` is entirely zero",
    ];
    for dtype in ["f32", "q4_k_m"] {
        let ran = succeed(sandbox.convert(&["llama", "in.gguf", "-t", dtype, "--force"]));
        assert_eq!(warnings(&ran), expected, "{dtype}");
        let (exit, codes, report) = verify(&sandbox, &["in.gguf"]);
        assert!(exit == Some(0) && codes.iter().eq(["zeros"]), "{report}");
        assert_eq!(report.matches("is entirely zero").count(), 2, "{report}");
        assert_eq!(verify(&sandbox, &["in.gguf", "--strict"]).0, Some(1));
        // Copied tensors are checked too.
        let ran = succeed(sandbox.quantize(&["in.gguf", "out.gguf", "copy", "--force"]));
        assert_eq!(warnings(&ran), expected, "{dtype}");
    }
}

#[test]
fn zero_biases_are_normal() {
    let sandbox = Sandbox::with_golden("qwen2");
    let weights = "qwen2/model.safetensors";
    let mut tensors = sandbox.tensors(weights);
    let biases = tensors.iter_mut().filter(|(name, _)| name.ends_with(".bias"));
    assert!(biases.map(|(_, tensor)| tensor.2.fill(0)).count() > 0);
    sandbox.write_tensors(weights, &tensors);
    let ran = succeed(sandbox.convert(&["qwen2", "out.gguf", "-t", "f32"]));
    assert!(warnings(&ran).is_empty(), "{}", ran.stderr);
    assert!(verify(&sandbox, &["out.gguf"]).1.is_empty());
}

#[test]
fn overflow_names_the_element_that_causes_it() {
    // The tenth block of the first row has it, not as its first element.
    let sandbox =
        checkpoint_with(&[(DOWN, |index| if index == 300 { 1e30 } else { 0.01 * (index % 5) as f32 })]);
    for dtype in
        ["f16", "q4_0", "q8_0", "q5_1", "q2_k", "q3_k_s", "q4_k_s", "q6_k", "iq4_nl", "iq4_xs", "iq3_s"]
    {
        let ran = sandbox.convert(&["llama", "out.gguf", "-t", dtype, "--force"]);
        assert_eq!(ran.code, Some(1), "{dtype}: {}", ran.stderr);
        assert!(
            ran.stderr.contains("row 0, column 300: 1000000000000000000000000000000"),
            "{dtype}: {}",
            ran.stderr
        );
    }
    // Large values that a type contains are no reason to refuse.
    let sandbox =
        checkpoint_with(&[(DOWN, |index| if index == 300 { 1e5 } else { 0.01 * (index % 5) as f32 })]);
    for dtype in ["bf16", "q4_0", "q8_0", "q2_k", "q4_k_s", "q6_k", "iq4_xs", "iq3_s"] {
        succeed(sandbox.convert(&["llama", "out.gguf", "-t", dtype, "--force"]));
    }
}

#[test]
fn incomplete_files_are_one_error() {
    let sandbox = Sandbox::with_converted("llama", "whole.gguf", "q4_k_m");
    let (bytes, file) = (sandbox.read("whole.gguf"), sandbox.file("whole.gguf"));
    let data = file.data_offset() as usize;
    let n_tensors = file.tensors().len();
    // Everything; everything from the middle on. Both as after a download that stopped when the space was reserved.
    let middle = file.tensors()[n_tensors / 2].offset as usize;
    for (from, expected) in [
        (0, format!("{n_tensors} of {n_tensors} tensors are entirely zero: the file is an incomplete")),
        (middle, " tensors are entirely zero: the file is an incomplete download or copy".to_owned()),
    ] {
        let mut changed = bytes.clone();
        changed[data + from..].fill(0);
        sandbox.write("cut.gguf", changed);
        let (exit, codes, report) = verify(&sandbox, &["cut.gguf"]);
        assert!(exit == Some(1) && codes.contains("zeros"), "{report}");
        assert!(report.contains(&expected), "{report}");
        assert_eq!(report.matches("entirely zero").count(), 1, "{report}");
    }
    // A gap in the middle is one warning.
    let mut changed = bytes;
    let [from, to] = [4, 8].map(|index: usize| data + file.tensors()[index].offset as usize);
    changed[from..to].fill(0);
    sandbox.write("cut.gguf", changed);
    let (exit, _, report) = verify(&sandbox, &["cut.gguf"]);
    assert!(
        exit == Some(0) && report.contains("4 consecutive tensors are entirely zero, from `"),
        "{report}"
    );
    assert_eq!(report.matches("entirely zero").count(), 1, "{report}");
}
