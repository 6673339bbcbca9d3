//! Comparison of converted files with records that transformers made: correct files pass, and planted faults are attributed
//! to the right part.

use std::{
    fs,
    path::{Path, PathBuf},
};

use gguf_container::{Array, Endian, File, Plan};
use gguf_toolkit::{
    Convert, Metadata, Value,
    check_against::{CheckAgainst, CheckAgainstReport, Part},
};

/// Families whose records are in golden/check-against.
const FAMILIES: [&str; 10] =
    ["falcon", "gemma2", "gemma3", "gpt2", "llama", "mistral", "mixtral", "phi3", "qwen2", "qwen3"];

fn record(name: &str) -> PathBuf {
    gguf_testkit::golden_path(&format!("check-against/{name}.json"))
}

/// The converted checkpoint of a family, with the chat template that its record was made with.
fn converted(sandbox: &Path, family: &str, file_type: &str) -> PathBuf {
    let path = sandbox.join(format!("{family}-{file_type}.gguf"));
    let folder = gguf_testkit::checkpoint(family);
    let mut convert = Convert::new(folder, [file_type.parse().unwrap()]);
    convert.output.out = Some(path.clone());
    convert.output.force = true;
    convert.run(&()).unwrap();
    edited(&path, |metadata, _| {
        if !metadata.contains("tokenizer.chat_template") {
            metadata.set("tokenizer.chat_template", template());
        }
    });
    path
}

/// The template that the maker of the records sets where a checkpoint has none.
fn template() -> &'static str {
    include_str!("../data/check-against.jinja").trim_end()
}

/// A tensor that a test may change.
struct Data {
    name: String,
    bytes: Vec<u8>,
    row_bytes: usize,
}

/// Rewrites a file with changed metadata and tensors.
fn edited(path: &Path, change: impl FnOnce(&mut Metadata, &mut Vec<Data>)) {
    let file = File::parse(fs::read(path).unwrap()).unwrap();
    let mut metadata = file.metadata().clone();
    let mut data: Vec<Data> = file
        .tensors()
        .iter()
        .map(|info| Data {
            name: info.name.clone(),
            bytes: file.data(info).unwrap().to_vec(),
            row_bytes: info.shape.row_bytes(info.dtype).unwrap() as usize,
        })
        .collect();
    change(&mut metadata, &mut data);
    let tensors = file.tensors().iter().map(|info| (info.name.clone(), info.shape, info.dtype)).collect();
    let plan = Plan::new(&metadata, tensors, Endian::Little, 32).unwrap();
    let bytes = plan.to_bytes(&data.iter().map(|data| data.bytes.as_slice()).collect::<Vec<_>>()).unwrap();
    fs::write(path, bytes).unwrap();
}

fn checked(file: &Path, record_name: &str) -> CheckAgainstReport {
    CheckAgainst::new(file, record(record_name)).run(&()).unwrap()
}

fn parts(report: &CheckAgainstReport) -> Vec<Part> {
    report.responsible().iter().map(|responsible| responsible.part).collect()
}

#[track_caller]
fn assert_only(report: &CheckAgainstReport, part: Part, evidence: &str, advice: &str) {
    assert_eq!(parts(report), [part], "{}", report.text());
    let responsible = &report.responsible()[0];
    assert!(responsible.evidence.iter().any(|line| line.contains(evidence)), "{}", report.text());
    assert!(responsible.advice.iter().any(|line| line.contains(advice)), "{}", report.text());
}

#[test]
fn correct_files_pass() {
    let sandbox = tempfile::tempdir().unwrap();
    for family in FAMILIES {
        for file_type in ["f32", "bf16"] {
            let report = checked(&converted(sandbox.path(), family, file_type), family);
            assert!(report.is_same(), "{family} {file_type}\n{}", report.text());
            let predictions = report.predictions().unwrap();
            assert!(predictions.positions > 10, "{family}");
            assert!(predictions.inputs.len() > 4, "{family}: {:?}", predictions.inputs);
        }
    }
}

#[test]
fn quantized_files_pass() {
    let sandbox = tempfile::tempdir().unwrap();
    for file_type in ["q8_0", "q4_k_m", "q2_k"] {
        let report = checked(&converted(sandbox.path(), "llama", file_type), "llama");
        assert!(report.is_same(), "{file_type}\n{}", report.text());
    }
}

#[test]
fn other_template_is_found() {
    let sandbox = tempfile::tempdir().unwrap();
    let file = converted(sandbox.path(), "llama", "f32");
    edited(&file, |metadata, _| {
        let template = metadata.text("tokenizer.chat_template").unwrap().unwrap().replace("}}] {{", "}}]{{");
        metadata.set("tokenizer.chat_template", template);
    });
    let report = checked(&file, "llama");
    assert_only(&report, Part::Template, "one turn: at character 6", "replace `tokenizer.chat_template`");
    edited(&file, |metadata, _| {
        metadata.remove("tokenizer.chat_template");
    });
    assert_only(&checked(&file, "llama"), Part::Template, "the file has none", "write the chat template");
}

#[test]
fn missing_bos_is_found() {
    let sandbox = tempfile::tempdir().unwrap();
    let file = converted(sandbox.path(), "llama", "f32");
    edited(&file, |metadata, _| metadata.set("tokenizer.ggml.add_bos_token", false));
    let report = checked(&file, "llama");
    assert_only(
        &report,
        Part::Tokenizer,
        "added before a text: expected 1 \"<s>\", found nothing",
        "`tokenizer.ggml.add_bos_token`",
    );
    edited(&file, |metadata, _| {
        metadata.set("tokenizer.ggml.add_bos_token", true);
        metadata.set("tokenizer.ggml.bos_token_id", 5u32);
    });
    let report = checked(&file, "llama");
    assert!(parts(&report).contains(&Part::Tokenizer), "{}", report.text());
    assert!(report.text().contains("bos: expected 1 \"<s>\""), "{}", report.text());
}

#[test]
fn swapped_token_is_found() {
    let sandbox = tempfile::tempdir().unwrap();
    let file = converted(sandbox.path(), "llama", "f32");
    edited(&file, |metadata, _| {
        let texts = metadata.texts("tokenizer.ggml.tokens").unwrap().unwrap();
        let mut texts: Vec<Vec<u8>> = texts.iter().map(<[u8]>::to_vec).collect();
        let at =
            |text: &str, texts: &[Vec<u8>]| texts.iter().position(|token| token == text.as_bytes()).unwrap();
        let (a, b) = (at("a", &texts), at("q", &texts));
        texts.swap(a, b);
        metadata.set("tokenizer.ggml.tokens", Value::Array(Array::String(texts.into())));
    });
    // Predictions are for the ids of the record, so they do not depend on the tokenizer.
    assert_only(&checked(&file, "llama"), Part::Tokenizer, "at token", "convert again with the tokenizer");
}

/// Swaps the first two heads of queries in block 1 of the llama checkpoint, 64 rows each.
fn swap_heads(file: &Path) {
    edited(file, |_, data| {
        let query = data.iter_mut().find(|data| data.name == "blk.1.attn_q.weight").unwrap();
        let n = 64 * query.row_bytes;
        let (first, rest) = query.bytes.split_at_mut(n);
        first.swap_with_slice(&mut rest[..n]);
    });
}

#[test]
fn permuted_head_is_found() {
    let sandbox = tempfile::tempdir().unwrap();
    for file_type in ["f32", "q8_0"] {
        let file = converted(sandbox.path(), "llama", file_type);
        swap_heads(&file);
        let report = checked(&file, "llama");
        let evidence = "tensor `blk.1.attn_q.weight` has the rows of the original in another order";
        assert_only(&report, Part::Weights, evidence, "permutation of the heads");
        // With the checkpoint instead of the sums in the record.
        let mut check = CheckAgainst::new(&file, record("llama"));
        check.weights = Some(gguf_testkit::checkpoint("llama"));
        assert_only(&check.run(&()).unwrap(), Part::Weights, "tensor `blk.1.attn_q.weight`", "convert again");
    }
}

#[test]
fn place_is_found_without_weights() {
    let sandbox = tempfile::tempdir().unwrap();
    let file = converted(sandbox.path(), "llama", "f32");
    swap_heads(&file);
    let mut facts: serde_json::Value = gguf_testkit::read_json(record("llama"));
    for weight in facts["weights"].as_array_mut().unwrap() {
        weight.as_object_mut().unwrap().remove("rows");
    }
    let path = sandbox.path().join("record.json");
    fs::write(&path, facts.to_string()).unwrap();
    fs::copy(record("llama").with_extension("f32"), path.with_extension("f32")).unwrap();
    let report = CheckAgainst::new(&file, &path).run(&()).unwrap();
    assert_only(
        &report,
        Part::WeightsOrGraph,
        "input of `blk.1.attn_output.weight`",
        "compare the weights too",
    );
    assert!(report.text().contains("the first token agrees"), "{}", report.text());
}

#[test]
fn wrong_rope_base_is_found() {
    let sandbox = tempfile::tempdir().unwrap();
    let file = converted(sandbox.path(), "llama", "f32");
    edited(&file, |metadata, _| metadata.set("llama.rope.freq_base", 500_000.0f32));
    let report = checked(&file, "llama");
    assert_only(
        &report,
        Part::Graph,
        "`llama.rope.freq_base` is `500000`, expected `10000`",
        "set these keys",
    );
    let evidence = &report.responsible()[0].evidence;
    assert!(evidence.iter().any(|line| line.contains("attention of block 0")), "{evidence:?}");
    assert!(evidence.iter().any(|line| line.contains("the first token agrees")), "{evidence:?}");
}

#[test]
fn unmerged_adapter_is_found() {
    let sandbox = tempfile::tempdir().unwrap();
    let file = converted(sandbox.path(), "llama", "bf16");
    let report = checked(&file, "llama-tuned");
    assert_only(
        &report,
        Part::Weights,
        "tensor `blk.0.attn_q.weight`: relative error",
        "(attn_q, attn_v), as if an adapter",
    );
    let tensors = report.checks().iter().find(|check| check.name == "weights").unwrap();
    assert_eq!(tensors.findings.len(), 4, "{}", report.text());
}
