//! `gguf-inspect verify --against` finds differences from the source.

use gguf_container::Array;

use super::verify_faults::{check, made, with};
use crate::common::{Sandbox, succeed, verify, words};

/// Template of `golden/arch/llama`.
const TEMPLATE: &str = "{% for m in messages %}[{{ m['role'] }}] {{ m['content'] }}\n{% endfor %}";

/// Row `r` of a matrix of heads whose two halves are consecutive, if the file interleaves them.
fn unpermuted(data: &[u8], n_rows: usize, head_rows: usize) -> Vec<u8> {
    let row_bytes = data.len() / n_rows;
    let row = |r: usize| {
        let (head, at) = (r / head_rows, r % head_rows);
        let from = head * head_rows + 2 * (at % (head_rows / 2)) + at / (head_rows / 2);
        &data[from * row_bytes..(from + 1) * row_bytes]
    };
    (0..n_rows).flat_map(row).copied().collect()
}

#[test]
fn differences_from_source_are_found() {
    let sandbox = Sandbox::with_golden("llama");
    for kind in ["q4_k_m", "bf16"] {
        let good = made(&sandbox, "llama", kind);
        check(
            &sandbox,
            vec![
                (
                    "queries that are not permuted",
                    with(&good, |parts| {
                        let tensor = parts.tensor("blk.1.attn_q.weight");
                        tensor.3 = unpermuted(&tensor.3, 256, 64);
                    }),
                    "differs",
                ),
                (
                    "keys that are not permuted",
                    with(&good, |parts| {
                        let tensor = parts.tensor("blk.0.attn_k.weight");
                        tensor.3 = unpermuted(&tensor.3, tensor.1.dim(1) as usize, 64);
                    }),
                    "differs",
                ),
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
                (
                    "another template",
                    with(&good, |parts| {
                        let text = TEMPLATE.replace("[{{ m['role'] }}]", "<{{ m['role'] }}>");
                        parts.metadata.set("tokenizer.chat_template", text);
                    }),
                    "prompt",
                ),
                (
                    "a template that strips",
                    with(&good, |parts| {
                        let text = TEMPLATE.replace("m['content']", "m['content'] | trim");
                        parts.metadata.set("tokenizer.chat_template", text);
                    }),
                    "prompt",
                ),
                (
                    "no template",
                    with(&good, |parts| drop(parts.metadata.remove("tokenizer.chat_template"))),
                    "missing_template",
                ),
                (
                    "another token at the beginning",
                    with(&good, |parts| parts.metadata.set("tokenizer.ggml.bos_token_id", 2u32)),
                    "special_id",
                ),
                (
                    "a special token that the source does not name",
                    with(&good, |parts| parts.metadata.set("tokenizer.ggml.eot_token_id", 3u32)),
                    "special_id",
                ),
                (
                    "another base of the rotary angles",
                    with(&good, |parts| parts.metadata.set("llama.rope.freq_base", 500_000f32)),
                    "key",
                ),
                (
                    "tokens in another order",
                    with(&good, |parts| match parts.list("tokenizer.ggml.tokens") {
                        Array::String(items) => {
                            let mut texts = items.to_vecs();
                            texts.swap(300, 301);
                            *items = texts.into();
                        }
                        other => panic!("{other:?}"),
                    }),
                    "key",
                ),
            ],
            &["--against", "llama"],
        );
    }
    // A GGUF file is a source as well.
    let good = made(&sandbox, "llama", "bf16");
    sandbox.write("source.gguf", &good);
    succeed(sandbox.quantize(&["source.gguf", "q.gguf", "q5_k_m", "-q"]));
    let quantized = sandbox.read("q.gguf");
    assert_eq!(verify(&sandbox, &["q.gguf", "--against", "source.gguf", "--strict"]).0, Some(0));
    let swapped = with(&quantized, |parts| {
        let tensor = parts.tensor("blk.1.attn_q.weight");
        tensor.3 = unpermuted(&tensor.3, 256, 64);
    });
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
