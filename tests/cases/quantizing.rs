//! Quantization that loses a tensor, damaged and partial importance matrices, options without effect, interrupted runs.

use gguf_container::{DEFAULT_ALIGNMENT, Endian, File, Plan};
use gguf_imatrix::{Format, Sums};
use gguf_types::{DType, Shape};

use crate::common::{Sandbox, succeed, words};

/// `m.gguf`, and its importance matrix `im.gguf`.
fn with_matrix() -> Sandbox {
    let sandbox = Sandbox::with_converted("llama", "m.gguf", "f32");
    sandbox.write("text.txt", "The quick brown fox jumps over the lazy dog. ".repeat(20));
    succeed(sandbox.eval(&words("imatrix m.gguf --text text.txt -c 16 --chunks 2 -o im.gguf -q")));
    sandbox
}

/// Writes the matrix with changed sums as `changed.gguf`.
fn change_matrix(sandbox: &Sandbox, change: impl FnOnce(&mut Sums)) {
    let mut sums = Sums::open(&sandbox.path("im.gguf")).unwrap();
    change(&mut sums);
    sandbox.write("changed.gguf", sums.to_bytes(Format::Gguf).unwrap());
}

/// Writes `to`, a copy of the f32 file `from` with changed values.
fn change_values(sandbox: &Sandbox, from: &str, to: &str, change: impl Fn(&str, usize, f32) -> f32) {
    let file = File::open(&sandbox.path(from)).unwrap();
    let tensors: Vec<(String, Shape, DType)> =
        file.tensors().iter().map(|info| (info.name.clone(), info.shape, info.dtype)).collect();
    let plan = Plan::new(file.metadata(), tensors, Endian::Little, DEFAULT_ALIGNMENT).unwrap();
    let data: Vec<Vec<u8>> = file
        .tensors()
        .iter()
        .map(|info| {
            let values = file.data(info).unwrap().as_chunks::<4>().0.iter().enumerate();
            values.flat_map(|(at, x)| change(&info.name, at, f32::from_le_bytes(*x)).to_le_bytes()).collect()
        })
        .collect();
    sandbox.write(to, plan.to_bytes(&data).unwrap());
}

#[test]
fn tensors_that_lose_their_values_are_named() {
    let sandbox = Sandbox::with_converted("llama", "m.gguf", "f32");
    // NVFP4 without a factor: the smallest scale of a block is 2^-9, so that weights of 0.0002 become zero or twice as large.
    change_values(&sandbox, "m.gguf", "small.gguf", |name, _, x| {
        if name.ends_with("ffn_up.weight") { x * 0.002 } else { x }
    });
    let expected = "tensor `blk.0.ffn_up.weight`: ";
    for (file, dtype, is_lost) in
        [("m.gguf", "nvfp4", false), ("small.gguf", "nvfp4", true), ("small.gguf", "q4_0", false)]
    {
        let option = format!("ffn_up={dtype}");
        let args = [file, "out.gguf", "q8_0", "--tensor-type", &option, "--force"];
        let ran = succeed(sandbox.quantize(&args));
        assert_eq!(ran.stderr.contains(expected), is_lost, "{file} {dtype}: {}", ran.stderr);
        let against = sandbox.inspect(&["verify", "out.gguf", "--against", file]);
        assert_eq!(against.code, Some(0));
        let is_named = against.stdout.contains("tensor `blk.0.ffn_up.weight` (nvfp4) is bit-exact, but");
        assert_eq!(is_named, is_lost, "{file} {dtype}: {}", against.stdout);
    }
}

#[test]
fn damaged_importance_matrices_are_noticed() {
    let sandbox = with_matrix();
    let entry = "blk.0.attn_q.weight";
    let quantize = |matrix: &str, file_type: &str| {
        sandbox.quantize(&["m.gguf", "out.gguf", file_type, "--imatrix", matrix, "--force"])
    };
    assert!(!succeed(quantize("im.gguf", "q4_0")).stderr.contains("warning"));
    change_matrix(&sandbox, |sums| {
        sums.entries.get_mut(entry).unwrap().sums.iter_mut().for_each(|sum| *sum = -*sum);
    });
    let expected = format!("entry `{entry}`: weight 0 is -");
    quantize("changed.gguf", "q4_0").ends_and_says(1, &expected);
    change_matrix(&sandbox, |sums| {
        let sums = &mut sums.entries.get_mut(entry).unwrap().sums;
        sums.fill(0.0);
        sums[7] = 1e6;
    });
    for file_type in ["q4_0", "iq1_s"] {
        let ran = succeed(quantize("changed.gguf", file_type));
        ran.says(&format!("tensor `{entry}`: nearly all columns are zero"));
        ran.says(&format!("tensor `{entry}`: relative error "));
    }
}

#[test]
fn inputs_that_tensors_share_stand_in() {
    let sandbox = with_matrix();
    let quantize = |more: &[&str]| {
        let args = ["m.gguf", "out.gguf", "iq2_xxs", "--imatrix", "changed.gguf", "--force"];
        sandbox.quantize(&[&args[..], more].concat())
    };
    let drop_entries = |part: &str| {
        change_matrix(&sandbox, |sums| sums.entries.retain(|name, _| !name.contains(part)));
    };
    succeed(sandbox.quantize(&words("m.gguf whole.gguf iq2_xxs --imatrix im.gguf -q")));
    for (part, other) in [("ffn_gate", "ffn_up"), ("attn_k", "attn_q")] {
        drop_entries(part);
        let ran = succeed(quantize(&[]));
        let note = format!(
            "tensor `blk.0.{part}.weight` (and 1 more like it) uses the data of `blk.0.{other}.weight`"
        );
        ran.says(&note);
        assert!(!ran.stderr.contains("no data"), "{}", ran.stderr);
        // The data are the same, so the weights are.
        let diff = sandbox.inspect(&["diff", "whole.gguf", "out.gguf"]);
        assert!(diff.stderr.contains("and 0 tensors"), "{part}: {} {}", diff.stdout, diff.stderr);
        succeed(quantize(&["--missing-imatrix", "neighbour"]));
    }
    // No other tensor has the input of `ffn_down`; the hint works.
    drop_entries("ffn_down");
    let ran = quantize(&[]);
    ran.ends_and_says(1, "`--missing-imatrix raise-type`");
    assert!(!ran.stderr.contains("expert"), "{}", ran.stderr);
    succeed(quantize(&["--missing-imatrix", "raise-type"]));
}

#[test]
fn filtered_importance_data_are_not_missing() {
    let sandbox = with_matrix();
    for (option, n) in [("--exclude-weights", 6), ("--include-weights", 8)] {
        let args = ["m.gguf", "out.gguf", "q4_k_m", "--imatrix", "im.gguf", option, "ffn", "--force"];
        let ran = succeed(sandbox.quantize(&args));
        ran.says(&format!("note: importance matrix: the data of {n} tensors are not used, as requested"));
        assert!(!ran.stderr.contains("no data"), "{}", ran.stderr);
    }
}

#[test]
fn options_without_effect_are_reported() {
    let sandbox = Sandbox::with_converted("llama", "m.gguf", "f32");
    let tied = Sandbox::with_converted("gemma", "m.gguf", "f32");
    for (sandbox, options, expected) in [
        (&sandbox, "--tensor-type attn_norm=q8_0", "`attn_norm` has no effect: `blk.0.attn_norm.weight`"),
        (&sandbox, "--tensor-type attn_=q8_0 --tensor-type attn_q=q6_k", "`attn_q` has no effect"),
        (&sandbox, "--tensor-type attn_q=q8_0", ""),
        (&sandbox, "--output-tensor-type q8_0", ""),
        (&tied, "--leave-output-tensor", "--leave-output-tensor has no effect"),
        (&tied, "--token-embedding-type q8_0", ""),
    ] {
        let ran = succeed(sandbox.quantize(&words(&format!("m.gguf out.gguf q4_k_m --force {options}"))));
        let is_warned = ran.stderr.contains("has no effect");
        assert_eq!(is_warned, !expected.is_empty(), "{options}: {}", ran.stderr);
        assert!(ran.stderr.contains(expected), "{options}: {}", ran.stderr);
    }
}

#[test]
fn advice_about_fallbacks_gives_smaller_files() {
    // Rows of 64 and 96 elements, and the embedding is also the output.
    let sandbox = Sandbox::with_converted("llama-tied", "m.gguf", "f32");
    let mut n_advised = 0;
    for file_type in ["q4_0", "iq4_nl", "q5_1", "q4_k_m", "q3_k_m", "q6_k", "q8_0", "iq3_s"] {
        let ran =
            sandbox.quantize(&["m.gguf", "out.gguf", file_type, "--missing-imatrix", "ones", "--force"]);
        let ran = succeed(ran);
        let line = ran.stderr.lines().find(|line| line.contains("fallbacks add"));
        let Some((_, advice)) = line.and_then(|line| line.split_once("; ")) else { continue };
        let advised = advice.split('`').nth(1).unwrap();
        let args = if advised.starts_with("--") {
            [words(advised), vec!["m.gguf", "better.gguf", file_type]].concat()
        } else {
            vec!["m.gguf", "better.gguf", advised]
        };
        assert_ne!(advised.to_lowercase(), file_type);
        succeed(sandbox.quantize(&[&args[..], &["--missing-imatrix", "ones", "--force", "-q"]].concat()));
        let [stock, better] = ["out.gguf", "better.gguf"].map(|file| sandbox.read(file).len());
        assert!(better < stock, "{file_type}: {line:?}: {better} of {stock}");
        n_advised += 1;
    }
    assert!(n_advised > 2, "{n_advised}");
}

#[test]
fn run_resumes_with_a_permission() {
    let sandbox = Sandbox::with_converted("llama", "m.gguf", "f32");
    let last = sandbox.file("m.gguf").tensors().last().unwrap().name.clone();
    change_values(
        &sandbox,
        "m.gguf",
        "nan.gguf",
        |name, at, x| if name == last && at == 3 { f32::NAN } else { x },
    );
    succeed(sandbox.quantize(&words("nan.gguf once.gguf q4_k_m --allow-nonfinite -q")));
    let failed = sandbox.quantize(&words("nan.gguf out.gguf q4_k_m --resume"));
    failed.ends_and_says(1, "done; use --resume --allow-nonfinite to continue");
    for (options, problem) in [
        ("q4_k_m --resume --pure", "hint: to continue, omit `--pure`"),
        ("q5_k_m --resume", "hint: to continue, use `TYPE Q4_K_M`"),
    ] {
        let ran = sandbox.quantize(&words(&format!("nan.gguf out.gguf {options}")));
        ran.ends_and_says(1, "out.gguf: ");
        assert!(ran.stderr.contains("cannot resume") && ran.stderr.contains(problem), "{}", ran.stderr);
    }
    // Options about what is printed do not matter.
    let more = "nan.gguf out.gguf q4_k_m --resume --allow-nonfinite --no-tensors";
    succeed(sandbox.quantize(&words(more))).says("note: resuming: ");
    assert!(sandbox.read("out.gguf") == sandbox.read("once.gguf"));
}

#[test]
fn requantization_is_refused_before_texts_are_read() {
    let sandbox = with_matrix();
    succeed(sandbox.quantize(&words("m.gguf q.gguf q4_k_m -q")));
    let publish =
        "q.gguf out --type q3_k_m --imatrix-text text.txt --eval-text text.txt --context 16 --chunks 1";
    for ran in [
        sandbox.quantize(&words("q.gguf o.gguf q8_0 --calibrate text.txt")),
        sandbox.publish(&words(publish)),
    ] {
        ran.ends_and_says(1, "is already quantized");
        for word in ["reading", "chunks: importance matrix", "chose"] {
            assert!(!ran.stderr.contains(word), "{}", ran.stderr);
        }
    }
    // A text for measurements that is too short.
    sandbox.write("short.txt", "x");
    let args =
        "m.gguf out2 --type q3_k_m --imatrix-text text.txt --eval-text short.txt --context 16 --chunks 1";
    let ran = sandbox.publish(&words(args));
    ran.ends_and_says(1, "the text is too short");
    assert!(!ran.stderr.contains("importance matrix"), "{}", ran.stderr);
}
