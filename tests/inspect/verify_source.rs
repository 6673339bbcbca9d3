//! `gguf-inspect verify --against` finds differences from the source.

use super::verify_faults::{Parts, check, made, set, strings, unset, with};
use crate::common::{Sandbox, succeed, verify, words};

/// Template of `golden/arch/llama`.
const TEMPLATE: &str = "{% for m in messages %}[{{ m['role'] }}] {{ m['content'] }}\n{% endfor %}";

/// Stores the two halves of each head consecutively, in a matrix whose file interleaves them.
fn unpermute(parts: &mut Parts, name: &str) {
    let (_, shape, _, data) = parts.tensor(name);
    let (n_rows, head_rows) = (shape.dim(1) as usize, 64);
    let row_bytes = data.len() / n_rows;
    let row = |r: usize| {
        let (head, at) = (r / head_rows, r % head_rows);
        let from = head * head_rows + 2 * (at % (head_rows / 2)) + at / (head_rows / 2);
        &data[from * row_bytes..(from + 1) * row_bytes]
    };
    *data = (0..n_rows).flat_map(row).copied().collect();
}

#[test]
fn differences_from_source_are_found() {
    let sandbox = Sandbox::with_golden("llama");
    for kind in ["q4_k_m", "bf16"] {
        let good = made(&sandbox, "llama", kind);
        let straight = |tensor: &str| with(&good, |parts| unpermute(parts, tensor));
        let template =
            |from: &str, to: &str| set(&good, "tokenizer.chat_template", TEMPLATE.replace(from, to));
        check(
            &sandbox,
            vec![
                ("queries that are not permuted", straight("blk.1.attn_q.weight"), "differs"),
                ("keys that are not permuted", straight("blk.0.attn_k.weight"), "differs"),
                (
                    "two layers in the wrong order",
                    with(&good, |parts| {
                        let first = parts.tensor("blk.0.attn_output.weight").3.clone();
                        let second =
                            std::mem::replace(&mut parts.tensor("blk.1.attn_output.weight").3, first);
                        parts.tensor("blk.0.attn_output.weight").3 = second;
                    }),
                    "differs",
                ),
                (
                    "a norm with one added",
                    with(&good, |parts| {
                        for value in parts.tensor("output_norm.weight").3.chunks_exact_mut(4) {
                            let number = f32::from_le_bytes(value.try_into().unwrap()) + 1.0;
                            value.copy_from_slice(&number.to_le_bytes());
                        }
                    }),
                    "differs",
                ),
                (
                    "rows of the embedding that moved by one",
                    with(&good, |parts| {
                        let data = &mut parts.tensor("token_embd.weight").3;
                        let row_bytes = data.len() / 384;
                        data.rotate_left(row_bytes);
                    }),
                    "differs",
                ),
                (
                    "one byte of one block",
                    with(&good, |parts| parts.tensor("blk.0.ffn_up.weight").3[100] ^= 0x11),
                    "damaged",
                ),
                (
                    "a tensor of zeros",
                    with(&good, |parts| parts.tensor("blk.0.attn_v.weight").3.fill(0)),
                    "differs",
                ),
                (
                    "a missing tensor",
                    with(&good, |parts| parts.tensors.retain(|tensor| tensor.0 != "output.weight")),
                    "missing_tensor",
                ),
                ("another template", template("[{{ m['role'] }}]", "<{{ m['role'] }}>"), "prompt"),
                ("a template that strips", template("m['content']", "m['content'] | trim"), "prompt"),
                ("no template", unset(&good, "tokenizer.chat_template"), "missing_template"),
                (
                    "another token at the beginning",
                    set(&good, "tokenizer.ggml.bos_token_id", 2u32),
                    "special_id",
                ),
                (
                    "a special token that the source does not name",
                    set(&good, "tokenizer.ggml.eot_token_id", 3u32),
                    "special_id",
                ),
                ("another base of the rotary angles", set(&good, "llama.rope.freq_base", 500_000f32), "key"),
                (
                    "tokens in another order",
                    strings(&good, "tokenizer.ggml.tokens", |texts| texts.swap(300, 301)),
                    "key",
                ),
            ],
            &["--against", "llama"],
        );
    }
}

#[test]
fn differences_from_gguf_source_are_found() {
    let sandbox = Sandbox::with_golden("llama");
    let good = made(&sandbox, "llama", "bf16");
    sandbox.write("source.gguf", &good);
    succeed(sandbox.quantize(&["source.gguf", "q.gguf", "q5_k_m", "-q"]));
    let quantized = sandbox.read("q.gguf");
    assert_eq!(verify(&sandbox, &["q.gguf", "--against", "source.gguf", "--strict"]).0, Some(0));
    let swapped = with(&quantized, |parts| unpermute(parts, "blk.1.attn_q.weight"));
    check(&sandbox, vec![("queries", swapped, "differs")], &["--against", "source.gguf"]);
}

/// A file under the name of another model: its lineage is not that of its source.
#[test]
fn lineage_is_compared_with_source() {
    let sandbox = Sandbox::with_converted("llama-card", "x.gguf", "q8_0");
    let against = ["x.gguf", "--against", "llama-card"];
    let (code, codes, report) = verify(&sandbox, &against);
    assert!(code == Some(0) && !codes.contains("lineage"), "{report}");
    let name = "general.base_model.0.name";
    let another = format!("{name}=Another");
    for (verb, arg, key) in [
        ("set", another.as_str(), name),
        ("unset", name, name),
        ("set", "general.source.huggingface=str:x", "general.source.huggingface"),
    ] {
        assert_eq!(sandbox.inspect(&[verb, "x.gguf", arg, "-q"]).code, Some(0), "{verb}");
        let (code, codes, report) = verify(&sandbox, &against);
        assert!(
            code == Some(0) && codes.contains("lineage") && report.contains(key),
            "{arg}, a warning: {report}"
        );
        let strict = sandbox.inspect(&words("verify x.gguf --against llama-card --strict -q"));
        assert_eq!(strict.code, Some(1), "{arg}: {}", strict.stderr);
    }
}
