//! `gguf-inspect verify` on every GGUF file of the repository, on files that llama.cpp's own tests make, and on what checkpoints
//! become: good files pass, bad ones do not.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::common::{Sandbox, golden, sha256, verify};

fn files_in(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files_in(&path, found);
        } else if path.extension().is_some_and(|ending| ending == "gguf") {
            found.push(path);
        }
    }
}

/// Goldens that fail a check, and the checks. A folder covers its files without a row.
const EXCEPTIONS: &[(&str, &[&str])] = &[
    // No program of today loads version 1.
    ("byte-orders/model-v1.gguf", &["old_version"]),
    // Random bits in blocks of every type: codes among them that no encoder writes, in types that no file has.
    ("byte-orders/blocks.gguf", &["activation_type", "bad_block", "large_value"]),
    ("byte-orders/blocks-big.gguf", &["activation_type", "bad_block", "large_value"]),
    ("byte-orders/listed.gguf", &["bad_block", "large_value"]),
    ("byte-orders/listed-big.gguf", &["bad_block", "large_value"]),
    // Some tensors that pass through llama-quantize, under the name of an architecture that needs others.
    ("cli/passed.gguf", &["missing_key", "missing_tensor"]),
    // A million dimensions, and dimensions whose product wraps: against readers that trust a header.
    ("gguf-malicious/evil_ndims.gguf", &["unreadable"]),
    ("gguf-malicious/evil_overflow.gguf", &["unreadable"]),
    // Scales of random bits.
    ("gguf/py-flat.gguf", &["large_value"]),
    ("gguf/cpp-flat.gguf", &["large_value"]),
    ("gguf/split-00001-of-00002.gguf", &["large_value"]),
    ("gguf/split-00002-of-00002.gguf", &["large_value"]),
    // Arrays in arrays, which gguf-py writes and llama.cpp does not read.
    ("gguf/py-little.gguf", &["large_value", "nested_array"]),
    ("gguf/py-big.gguf", &["nested_array"]),
    ("writer/metadata.gguf", &["nested_array"]),
    // Files of a writer, which are not models.
    ("writer/big.gguf", &["missing_key", "missing_tensor", "nested_array"]),
    ("writer/plain.gguf", &["missing_key", "missing_tensor", "nested_array"]),
    ("writer/", &["missing_key", "missing_tensor"]),
];

#[test]
fn every_golden_passes() {
    let (sandbox, root) = (Sandbox::new(), golden(""));
    let mut files = Vec::new();
    files_in(&root, &mut files);
    assert!(files.len() > 30);
    let mut wrong = Vec::new();
    for path in files {
        let name = path.strip_prefix(&root).unwrap().to_str().unwrap();
        let expected = EXCEPTIONS
            .iter()
            .find(|(of, _)| *of == name || (of.ends_with('/') && name.starts_with(of)))
            .map_or(&[][..], |(_, codes)| codes);
        let (code, found, report) = verify(&sandbox, &[path.to_str().unwrap()]);
        let is_bad = expected
            .iter()
            .any(|code| ["old_version", "bad_block", "missing_tensor", "unreadable"].contains(code));
        // Vocabularies of goldens are cut, and their special ids are those of the models.
        let is_of_cut = |code: &&str| *code == "special_ordinary";
        let found_codes = found.iter().map(String::as_str).filter(|code| !is_of_cut(code));
        let is_expected = found_codes.eq(expected.iter().copied());
        if !is_expected || code != Some(is_bad.into()) {
            wrong.push(format!("{name}: {found:?}\n{report}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Against what `tests/test-gguf.cpp` expects: files that it loads whole have no error of structure, the others have one. It loads
/// headers without data too, which are files that are cut.
#[test]
fn handcrafted_files_match_reference_verdicts() {
    let (sandbox, folder) = (Sandbox::new(), golden("gguf-handcrafted"));
    let list = fs::read_to_string(folder.join("list.tsv")).unwrap();
    let mut n_files = 0;
    for row in list.lines() {
        let [name, verdict, n_data, digest] = row.split('\t').collect::<Vec<_>>()[..] else {
            panic!("{row}")
        };
        let mut bytes = fs::read(folder.join(format!("{name}.header"))).unwrap();
        bytes.extend((0..n_data.parse::<usize>().unwrap()).map(|i| i as u8));
        assert_eq!(sha256(&bytes), digest, "{name}");
        sandbox.write("x.gguf", bytes);
        let (code, codes, report) = verify(&sandbox, &["x.gguf", "--only", "structure"]);
        let is_cut = ["TENSORS_SUCCESS", "TENSORS_CUSTOM_ALIGN"].contains(&name);
        assert_eq!(code, Some(i32::from(verdict == "refused" || is_cut)), "{name}: {report}");
        if is_cut {
            assert!(report.contains("do not fit in a file of"), "{name}: {report}");
        }
        // Whatever is checked, no file ends the program in another way.
        let (code, ..) = verify(&sandbox, &["x.gguf"]);
        assert!(matches!(code, Some(0 | 1)), "{name}");
        assert!(!codes.is_empty() || code == Some(0) || verdict == "loads", "{name}");
        n_files += 1;
    }
    assert_eq!(n_files, 35);
}

/// Tiny checkpoints that become files which llama.cpp refuses or reads otherwise, in the bytes of the reference all the same: beginnings
/// of their names, the code of the finding, and what it says.
const REFUSED: &[(&str, &[&str], &str)] = &[
    // Indexers of tiny models are narrower than the Hadamard matrix of the graph.
    (
        "deepseek3.2",
        &["key"],
        "then aborts: values not supported: `deepseek32.attention.indexer.key_length` 16",
    ),
    ("dots3", &["key"], "then aborts: values not supported: `dots3note.attention.indexer.key_length` 16"),
    ("glm-dsa", &["key"], "then aborts: values not supported: `glm-dsa.attention.indexer.key_length` 16"),
    // Chameleon has 8,192 tokens of images, and layers of Gemma 4 share keys with a layer of the same kind.
    (
        "chameleon",
        &["key"],
        "then aborts: values not supported: `tokenizer.ggml.model` gpt2, `tokenizer.ggml.tokens`",
    ),
    ("gemma4", &["key"], "then aborts: values not supported: `gemma4.attention.shared_kv_layers` 2"),
    // It writes the number of the one token that the released tokenizers have.
    ("llada-moe", &["special_id"], "`tokenizer.ggml.mask_token_id`: 156895 is out of range"),
    ("qwen3asr", &["special_id"], "`tokenizer.ggml.padding_token_id`: 151645 is out of range"),
    ("eurobert", &["special_id"], "`tokenizer.ggml.mask_token_id`: 128002 is out of range"),
    ("jina-v5", &["special_id"], "`tokenizer.ggml.mask_token_id`: 128002 is out of range"),
];

/// Tiny checkpoints that llama.cpp does not load, with the codes of the findings. The texts name what its loader reports
/// (`scripts/loader-agreement`).
const NOT_LOADED: &[(&str, &[&str], &str)] = &[
    ("arwkv7", &["tensor_shape"], "tensor `blk.0.time_mix_w1.weight`: expected shape"),
    ("arwkv7-ungated", &["tensor_shape"], "tensor `blk.0.time_mix_w1.weight`: expected shape"),
    ("clef", &["tensor_shape"], "tensor `blk.0.attn_qkv.weight`: expected shape"),
    ("cogvlm", &["missing_tensor", "tensor_shape"], "tensor `blk.0.attn_qkv.weight`: expected shape"),
    ("cohere-old", &["extra_tensor"], "extra tensor `"),
    ("deepseek2", &["missing_key"], "missing metadata key `deepseek2.attention.q_lora_rank`"),
    ("dots1", &["tensor_shape"], "tensor `blk.0.attn_k.weight`: expected shape"),
    ("dots1-old", &["tensor_shape"], "tensor `blk.0.attn_k.weight`: expected shape"),
    ("dots3-mtp", &["extra_tensor"], "extra tensor `"),
    ("dots3-mtp-only", &["extra_tensor"], "extra tensor `"),
    ("dots3-mtp-without", &["extra_tensor"], "extra tensor `"),
    ("ernie4_5-moe", &["tensor_shape"], "tensor `blk.1.ffn_gate_shexp.weight`: expected shape"),
    ("ernie4_5-moe-old", &["tensor_shape"], "tensor `blk.1.ffn_gate_shexp.weight`: expected shape"),
    ("ernie4_5-old", &["extra_tensor"], "extra tensor `"),
    ("exaone4-old", &["tensor_shape"], "tensor `blk.0.attn_output.weight`: expected shape"),
    ("exaone4-pattern-old", &["tensor_shape"], "tensor `blk.0.attn_output.weight`: expected shape"),
    ("gemma3n", &["missing_tensor", "tensor_shape"], "tensor `per_layer_token_embd.weight`: expected shape"),
    (
        "gemma3n-old",
        &["key", "missing_tensor", "tensor_shape"],
        "tensor `per_layer_token_embd.weight`: expected shape",
    ),
    // The default of its config class, beyond the vocabulary of the golden.
    ("granite-docling", &["special_id"], "`tokenizer.ggml.padding_token_id`: 100256 is out of range"),
    ("glm", &["tensor_shape"], "tensor `blk.0.attn_q.weight`: expected shape"),
    ("glm-old", &["tensor_shape"], "tensor `blk.0.attn_q.weight`: expected shape"),
    ("glm4-moe-lite", &["extra_tensor", "missing_tensor"], "missing tensor `blk.0.ffn_gate_inp.weight`"),
    ("glm4moe-old", &["tensor_shape"], "tensor `blk.2.nextn.embed_tokens.weight`: expected shape"),
    ("glm4moe-old-only", &["tensor_shape"], "tensor `blk.2.nextn.embed_tokens.weight`: expected shape"),
    ("glm4moe-old-without", &["tensor_shape"], "tensor `blk.2.nextn.embed_tokens.weight`: expected shape"),
    ("glm5-next", &["key"], "values not supported: `glm5-next.hyper_connection.count` 2"),
    ("glm5-next-mtp", &["key"], "values not supported: `glm5-next.hyper_connection.count` 2"),
    ("hy-v4", &["tensor_shape"], "tensor `blk.0.hc_attn_base.weight`: expected shape [4], found [6]"),
    ("kimi-k3", &["extra_tensor", "tensor_shape"], "tensor `blk.1.ffn_gate_shexp.weight`: expected shape"),
    ("kimi-vl", &["missing_key"], "missing metadata key `deepseek2.attention.q_lora_rank`"),
    ("minicpm-ocr", &["tensor_shape"], "tensor `blk.0.attn_qkv.weight`: expected shape"),
    ("minicpmv4.6", &["tensor_shape"], "tensor `blk.0.attn_qkv.weight`: expected shape"),
    ("minicpmv4.7", &["tensor_shape"], "tensor `blk.0.attn_qkv.weight`: expected shape"),
    ("nemotron-old", &["tensor_shape"], "tensor `blk.0.attn_q.weight`: expected shape"),
    ("olmoe-old", &["tensor_shape"], "tensor `blk.0.attn_k_norm.weight`: expected shape"),
    ("openjev", &["tensor_shape"], "tensor `blk.0.attn_qkv.weight`: expected shape"),
    ("pangu", &["missing_tensor"], "missing tensor `blk.0.attn_output.bias`"),
    ("phi3", &["tokenizer"], "missing token `<|endoftext|>`"),
    ("phi3-longrope", &["tokenizer"], "missing token `<|endoftext|>`"),
    ("phi3-longrope-old", &["tokenizer"], "missing token `</s>`"),
    ("phi3-su-old", &["tokenizer"], "missing token `<|endoftext|>`"),
    ("phimoe-old", &["missing_tensor"], "missing tensor `output.bias`"),
    ("pplx-decider", &["tensor_shape"], "tensor `blk.0.attn_qkv.weight`: expected shape"),
    ("qwen3.5", &["tensor_shape"], "tensor `blk.0.attn_qkv.weight`: expected shape"),
    ("qwen3.5-inner", &["tensor_shape"], "tensor `blk.0.attn_qkv.weight`: expected shape"),
    ("qwen3.5-text", &["tensor_shape"], "tensor `blk.0.attn_qkv.weight`: expected shape"),
    ("qwen3.5moe", &["tensor_shape"], "tensor `blk.0.attn_qkv.weight`: expected shape"),
    ("qwen3asr", &["missing_key", "special_id"], "missing metadata key `qwen3vl.rope.dimension_sections`"),
    ("qwen3next", &["tensor_shape"], "tensor `blk.0.attn_qkv.weight`: expected shape"),
    ("qwen3next-old", &["tensor_shape"], "tensor `blk.0.attn_qkv.weight`: expected shape"),
    ("qwen3next-old-only", &["tensor_shape"], "tensor `blk.0.attn_qkv.weight`: expected shape"),
    ("qwen3next-old-without", &["tensor_shape"], "tensor `blk.0.attn_qkv.weight`: expected shape"),
    ("qwen4exp", &["tensor_shape"], "tensor `blk.0.attn_qkv.weight`: expected shape"),
    ("rwkv6", &["tensor_shape"], "tensor `blk.0.time_mix_w1.weight`: expected shape"),
    ("rwkv6-plain", &["tensor_shape"], "tensor `blk.0.time_mix_w1.weight`: expected shape"),
    ("rwkv7-goose", &["tensor_shape"], "tensor `blk.0.time_mix_w1.weight`: expected shape"),
    ("wavtokenizer-dec", &["tensor_shape"], "tensor `convnext.0.dw.bias`: expected shape"),
];

/// Files of all families, in the bytes that the reference writes (other tests compare them with its digests), by themselves and
/// against the checkpoints that they are made of.
#[test]
fn converted_checkpoints_pass() {
    let sandbox = Sandbox::new();
    let names = gguf_testkit::checkpoint_names();
    let selected = std::env::var("VERIFY").unwrap_or_default();
    let mut wrong = Vec::new();
    for (index, name) in names.iter().enumerate().filter(|(_, name)| name.contains(&selected)) {
        let folder = gguf_testkit::checkpoint(name);
        let folder = folder.to_str().unwrap();
        let kind = ["f32", "bf16", "q8_0", "q4_k_m"][index % 4];
        let ran = sandbox.convert(&[folder, "x.gguf", "-t", kind, "-q", "--force"]);
        if ran.code != Some(0) {
            // Some checkpoints are goldens of refusals.
            continue;
        }
        let (code, found, report) = verify(&sandbox, &["x.gguf", "--against", folder]);
        let not_loaded = NOT_LOADED.iter().find(|(of, ..)| of == name);
        let refused = REFUSED
            .iter()
            .filter(|(of, ..)| name.starts_with(of))
            .find(|(.., message)| report.contains(message));
        let expected = not_loaded.or(refused).filter(|(.., message)| report.contains(message));
        // Vocabularies of goldens are cut, templates and default token ids are those of the models.
        let is_of_cut = |code: &&str| {
            ["template_token", "special_ordinary"].contains(code)
                || *code == "special_kind" && ["gemma", "gemma-old"].contains(&name.as_str())
        };
        let codes: Vec<&str> = found.iter().map(String::as_str).filter(|code| !is_of_cut(code)).collect();
        if codes != expected.map_or(&[][..], |(_, code, _)| code) || code != Some(expected.is_some().into()) {
            wrong.push(format!("{name} {kind}: {found:?}\n{report}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
