//! Export: every checkpoint of `golden/arch/` becomes a GGUF file, a folder, and a layout again, without
//! losses. `scripts/real-models` checks a real model.

use std::{collections::BTreeMap, fs, path::Path, sync::atomic::AtomicBool};

use gguf_container::{Array, Metadata, Value};
use gguf_conversion::{
    CheckpointInput, Conversion, Error, RunOptions, Watch,
    export::{self, ExportError, ExportOptions},
};
use gguf_layout::Layout;
use gguf_types::DType;

static NEVER: AtomicBool = AtomicBool::new(false);

fn watch() -> Watch<'static> {
    Watch { cancel: &NEVER, ..Watch::default() }
}

fn options(checkpoint: &gguf_checkpoint::Checkpoint) -> gguf_layout::Options {
    let pre = checkpoint.file("tokenizer.model").is_none().then(|| "llama-bpe".to_owned());
    // Scores from merges keep their order in an export, but not their values.
    gguf_layout::Options { pre, equal_scores: true, ..gguf_layout::Options::new(gguf_models::FAMILIES) }
}

/// Option of the reference for a golden: its target, or the requested part.
fn stated(dir: &Path, key: &str) -> Option<String> {
    let text = fs::read(dir.join("expected.json")).ok()?;
    let expected: serde_json::Value = serde_json::from_slice(&text).expect("JSON");
    expected[key].as_str().map(str::to_owned)
}

fn to_gguf(dir: &Path, recipe: &str, path: &Path) -> Layout {
    let checkpoint = gguf_checkpoint::open(crate::folder(dir)).expect("a golden opens");
    let input = CheckpointInput::open(crate::folder(dir), &options(&checkpoint)).expect("a golden resolves");
    let conversion = Conversion::new(input).recipe(recipe).expect("a recipe");
    let plan = conversion.plan().expect("a plan");
    plan.check().expect("ready").write(path, &RunOptions::default()).expect("written");
    conversion.input().layout().clone()
}

fn to_hf(
    path: &Path,
    dir: &Path,
    dtype: DType,
    shard_bytes: u64,
    force: bool,
) -> Result<Vec<String>, ExportError> {
    let file = gguf_container::File::open(path).expect("a GGUF file");
    let plan = export::plan(&gguf_models::FAMILIES, &file, &ExportOptions { dtype, shard_bytes })?;
    export::write(&file, path, &plan, dir, force, &RunOptions::default(), watch())?;
    let on_disk: u64 = files(dir).values().map(|bytes| bytes.len() as u64).sum();
    assert_eq!(on_disk, plan.n_bytes());
    Ok(plan.layout.notes)
}

fn files(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(dir).expect("a folder") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() {
            all.extend(files(&path).into_iter().map(|(inner, bytes)| (format!("{name}/{inner}"), bytes)));
        } else {
            all.insert(name, fs::read(&path).expect("a file"));
        }
    }
    all
}

/// Shape and values in f32 of every tensor.
fn weights(checkpoint: &gguf_checkpoint::Checkpoint) -> BTreeMap<String, (Vec<u64>, Vec<u32>)> {
    let read = |tensor: &gguf_checkpoint::Tensor| {
        let mut values = vec![0.0f32; tensor.shape.iter().product::<u64>() as usize];
        let (row_elems, n_rows) = (tensor.row_elems(), tensor.n_rows());
        checkpoint.read_rows(tensor, row_elems, 0..n_rows, &mut values).expect("readable");
        (tensor.name.clone(), (tensor.shape.clone(), values.iter().map(|v| v.to_bits()).collect()))
    };
    checkpoint.tensors.iter().map(read).collect()
}

/// Goldens whose tensors have other names or layouts than those of current transformers, or whose factors and
/// missing rows became part of the weights: the export uses the current spelling.
const OTHER_SPELLING: &[&str] = &[
    "apertus1.5-images",
    "bert-mlm-old",
    "distilbert-mlm-old",
    "dots3",
    "emu3-images",
    "ernie4_5-fused",
    "ernie4_5-moe-old",
    "eurobert",
    "eurobert-old",
    "exaone4.5",
    "exaone4.5-old",
    "falcon-h1",
    "falcon-h1-old",
    "gemma3-images",
    "gemma3n",
    "glm-ocr",
    "glm46v",
    "glm46v-moe",
    "glm4v",
    "glm4v-moe",
    "glm4v-old",
    "glm5-next",
    "glm5-next-mtp",
    "gpt-oss-mxfp4",
    "gpt-oss-mxfp4-old",
    "gpt2-old",
    "granite-docling",
    "granite-speech",
    "grok2",
    "hunyuan-vl",
    "janus",
    "jina-bert-v2-code",
    "kimi-k2.5",
    "kimi-vl",
    "llama4-old",
    "mamba-old",
    "mamba-untied",
    "mamba2-codestral",
    "minicpm-ocr",
    "minicpmv4.6",
    "minicpmv4.7",
    "minimax-m3",
    "ministral3",
    "mistral3",
    "mistral3-old",
    "mistral4",
    "nemotron-puzzle-model",
    "neobert",
    "paddleocr",
    "pixtral",
    "qianfan-ocr",
    "qwen2-embedding-old",
    "qwen2.5omni",
    "qwen2.5vl",
    "qwen2audio",
    "qwen2moe-stacked",
    "qwen2vl",
    "qwen3.5",
    "qwen3.5moe",
    "qwen3asr",
    "qwen3moe-stacked",
    "qwen3omni",
    "qwen3vl",
    "qwen3vl-old",
    "qwen3vlmoe",
    "qwen3vlmoe-old",
    "roberta-classifier",
    "sarashina2-vision",
    "smolvlm",
    "t5-gated-old",
    "text-of-aya-vision",
    "text-of-llava-next",
    "text-of-llava-onevision",
    "text-of-ovis2",
    "text-of-paligemma",
    "voxtral",
];

/// True if logarithms are equal, except those so close to zero that neighboring floats have the same powers
/// in the file.
fn alike(a: &(Vec<u64>, Vec<u32>), b: &(Vec<u64>, Vec<u32>)) -> bool {
    let tiny = |bits: u32| f32::from_bits(bits).abs() < 2.0f32.powi(-17);
    a.0 == b.0 && a.1.iter().zip(&b.1).all(|(a, b)| a == b || tiny(*a) && tiny(*b))
}

/// Bits of a tensor of a file, in f32.
fn values(file: &gguf_container::File, name: &str) -> Option<Vec<u32>> {
    let tensor = file.tensor(name)?;
    let mut values = vec![0.0; tensor.shape.n_elems() as usize];
    gguf_quant::decode(
        tensor.dtype,
        gguf_quant::Level::Scalar,
        file.data(tensor).expect("data"),
        &mut values,
    )
    .expect("decoded");
    Some(values.iter().map(|value| value.to_bits()).collect())
}

/// Converts, exports and converts one golden again; returns the differences.
fn round_trip(dir: &Path, name: &str, temporary: &Path) -> Result<(), String> {
    let (path, folder) = (temporary.join(format!("{name}.gguf")), temporary.join(name));
    let layout = to_gguf(dir, "f32", &path);
    to_hf(&path, &folder, DType::F32, 20_000, false).map_err(|error| error.to_string())?;
    let (original, returned) =
        (gguf_checkpoint::open(crate::folder(dir)), gguf_checkpoint::open(crate::folder(&folder)));
    let (original, returned) = (original.expect("a golden opens"), returned.expect("what was written opens"));
    if returned.parts.len() < 2 {
        return Err("not cut into files".into());
    }
    let mut expected = weights(&original);
    // Keys of the file come back.
    let is_lost = |dropped: &gguf_layout::Dropped| !dropped.reason.starts_with("a number");
    expected.retain(|tensor, _| !layout.dropped.iter().any(|lost| lost.name == *tensor && is_lost(lost)));
    let returned_weights = weights(&returned);
    if !OTHER_SPELLING.contains(&name) && returned_weights != expected {
        let differ = |(name, values): &(&String, &(Vec<u64>, Vec<u32>))| {
            let returned = returned_weights.get(*name);
            returned != Some(*values)
                && !(name.ends_with("A_log") && returned.is_some_and(|r| alike(r, values)))
        };
        let first = expected.iter().find(differ).map(|(name, _)| name.clone());
        let extra = returned_weights.keys().find(|name| !expected.contains_key(*name));
        if let Some(first) = first.as_ref().or(extra) {
            return Err(format!("weights differ, first {first:?}"));
        }
    }
    // The resulting file does not depend on names.
    let same = temporary.join(format!("{name}-again.gguf"));
    if let Err(error) = gguf_conversion::resolve(&returned, &options(&returned)) {
        return Err(format!("what was written does not resolve: {error}"));
    }
    to_gguf(&folder, "f32", &same);
    let (before, after) = (
        gguf_container::File::open(&path).expect("a file"),
        gguf_container::File::open(&same).expect("a file"),
    );
    for tensor in before.tensors() {
        if values(&before, &tensor.name) != values(&after, &tensor.name) {
            return Err(format!("tensor {} differs", tensor.name));
        }
    }
    let again = gguf_conversion::resolve(&returned, &options(&returned)).expect("it has resolved");
    let tensors = |layout: &Layout| {
        let mut tensors: Vec<_> = layout.tensors.iter().map(|t| (t.name.clone(), t.shape, t.float)).collect();
        tensors.sort_by(|a, b| a.0.cmp(&b.0));
        tensors
    };
    if tensors(&again) != tensors(&layout) {
        return Err("other tensors".into());
    }
    compare(name, &layout.metadata, &again.metadata)
}

/// Row of [`gguf_models::ARCHES`] of a checkpoint.
fn row_of(dir: &Path) -> &'static str {
    let checkpoint = gguf_checkpoint::open(crate::folder(dir)).expect("a golden opens");
    let input = gguf_conversion::arch_input(&checkpoint).expect("shapes of at most four dimensions");
    gguf_layout::row_of(&gguf_models::FAMILIES, &input).expect("a known class").name
}

/// Converts, exports and converts every golden again. An architecture is exportable if and only if all its
/// goldens can be exported.
#[test]
fn export_inverts_conversion() {
    let temporary = tempfile::tempdir().unwrap();
    let mut lost: BTreeMap<&'static str, Vec<String>> = BTreeMap::new();
    let mut n = 0;
    for name in gguf_testkit::checkpoint_names() {
        let dir = gguf_testkit::checkpoint(&name);
        let architecture = row_of(&dir);
        let lost = lost.entry(architecture).or_default();
        // A part of a model cannot be exported.
        if stated(&dir, "prediction").is_some() {
            continue;
        }
        if stated(&dir, "target").is_some() {
            lost.push(format!("{name}: a draft"));
            continue;
        }
        match round_trip(&dir, &name, temporary.path()) {
            Ok(()) => n += 1,
            Err(reason) => lost.push(format!("{name}: {reason}")),
        }
    }
    let exportable: Vec<&str> =
        lost.iter().filter(|(_, lost)| lost.is_empty()).map(|(name, _)| *name).collect();
    let mut expected = gguf_layout::export::exportable(&gguf_models::FAMILIES);
    expected.sort_unstable();
    assert_eq!(exportable, expected, "{lost:#?}");
    assert!(n >= 20, "{n} goldens");
}

/// Keys that an exported folder states explicitly, although their values equal the defaults.
const NEWLY_SAID: &[&str] =
    &["tokenizer.ggml.add_bos_token", "llama.attention.key_length", "llama.attention.value_length"];

fn compare(name: &str, before: &Metadata, after: &Metadata) -> Result<(), String> {
    let find = |metadata: &Metadata, key: &str| metadata.get(key).cloned();
    for (key, value) in before {
        // Second id of a list, which an export keeps in generation_config.json.
        if name == "gemma3-images" && key == "tokenizer.ggml.eot_token_id" {
            continue;
        }
        if find(after, key).as_ref() != Some(value) {
            return Err(format!("{key} differs: {:?} instead of {value:?}", find(after, key)));
        }
    }
    // Its config does not state these tokens in the places that transformers reads.
    let newly_said = |key: &str| {
        NEWLY_SAID.contains(&key) || name == "gemma3-images" && key == "tokenizer.ggml.bos_token_id"
    };
    match after.iter().find(|(key, _)| find(before, key).is_none() && !newly_said(key)) {
        Some((key, _)) => Err(format!("{key} is new")),
        None => Ok(()),
    }
}

#[test]
fn export_is_deterministic_and_dequantizes() {
    let temporary = tempfile::tempdir().unwrap();
    let path = temporary.path().join("m.gguf");
    to_gguf(&gguf_testkit::checkpoint("llama"), "q4_k_m", &path);
    let dirs = ["a", "b"].map(|name| temporary.path().join(name));
    for (dir, threads) in dirs.iter().zip([1, 3]) {
        let file = gguf_container::File::open(&path).unwrap();
        let plan = export::plan(&gguf_models::FAMILIES, &file, &ExportOptions::default()).unwrap();
        let options = RunOptions::default().threads(std::num::NonZeroUsize::new(threads));
        export::write(&file, &path, &plan, dir, false, &options, watch()).unwrap();
    }
    assert_eq!(files(&dirs[0]), files(&dirs[1]));
    // The values read back are those of the blocks, rounded once.
    let file = gguf_container::File::open(&path).unwrap();
    let tensor = file.tensor("blk.0.ffn_down.weight").unwrap();
    let n_elems = tensor.shape.n_elems() as usize;
    let (mut values, mut rounded) = (vec![0.0; n_elems], vec![0u8; 2 * n_elems]);
    gguf_quant::decode(tensor.dtype, gguf_quant::Level::Scalar, file.data(tensor).unwrap(), &mut values)
        .unwrap();
    let rows = gguf_quant::Rows { values: &values, row_elems: n_elems, weights: None };
    gguf_quant::encode(DType::BF16, gguf_quant::Level::Scalar, rows, &mut rounded).unwrap();
    let returned = gguf_checkpoint::open(crate::folder(&dirs[0])).unwrap();
    assert!(tensor.dtype.is_quantized());
    let tensor = returned.tensor("model.layers.0.mlp.down_proj.weight").unwrap();
    assert_eq!(returned.view(tensor).unwrap().bytes, rounded);
    assert_eq!(returned.config["dtype"], "bfloat16");
}

#[test]
fn export_folder_appears_whole() {
    let temporary = tempfile::tempdir().unwrap();
    let path = temporary.path().join("m.gguf");
    to_gguf(&gguf_testkit::checkpoint("llama-tied"), "f16", &path);
    let names = || {
        let mut names: Vec<String> = fs::read_dir(temporary.path())
            .unwrap()
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    };
    let export = |dir: &str, force| to_hf(&path, &temporary.path().join(dir), DType::F16, 1 << 30, force);
    export("hf", false).unwrap();
    let first = files(&temporary.path().join("hf"));
    assert!(matches!(
        export("hf", false),
        Err(ExportError::Convert(Error::Gguf(gguf_container::Error::Exists { .. })))
    ));
    fs::write(temporary.path().join("hf/stale"), "x").unwrap();
    export("hf", true).unwrap();
    assert_eq!(files(&temporary.path().join("hf")), first);
    // An empty folder is treated like a missing one.
    fs::create_dir(temporary.path().join("empty")).unwrap();
    export("empty", false).unwrap();
    assert_eq!(files(&temporary.path().join("empty")), first);

    fs::create_dir(temporary.path().join("other")).unwrap();
    fs::write(temporary.path().join("other/letter.txt"), "dear").unwrap();
    assert!(matches!(export("other", true), Err(ExportError::NotReplaceable { .. })));
    assert!(matches!(export("m.gguf", true), Err(ExportError::NotReplaceable { .. })));
    assert!(matches!(export("none/hf", false), Err(ExportError::Convert(Error::NoFolder { .. }))));
    fs::write(temporary.path().join("config.json"), "{}").unwrap();
    let whole = to_hf(&path, temporary.path(), DType::F16, 1 << 30, true);
    assert!(matches!(whole, Err(ExportError::InputInside { .. })));
    assert!(matches!(
        to_hf(&path, &temporary.path().join("q"), DType::Q4_0, 1, false),
        Err(ExportError::Dtype { dtype: DType::Q4_0 })
    ));

    let cancelled = AtomicBool::new(true);
    let file = gguf_container::File::open(&path).unwrap();
    let plan = export::plan(&gguf_models::FAMILIES, &file, &ExportOptions::default()).unwrap();
    let watch = Watch { cancel: &cancelled, ..Watch::default() };
    let stopped =
        export::write(&file, &path, &plan, &temporary.path().join("c"), false, &RunOptions::default(), watch);
    assert!(matches!(stopped, Err(ExportError::Convert(Error::Cancelled))));
    assert_eq!(names(), ["config.json", "empty", "hf", "m.gguf", "other"]);
    assert_eq!(fs::read(temporary.path().join("other/letter.txt")).unwrap(), b"dear");
}

#[test]
fn index_and_templates_are_placed_for_transformers() {
    let temporary = tempfile::tempdir().unwrap();
    let path = temporary.path().join("m.gguf");
    to_gguf(&gguf_testkit::checkpoint("llama-2-7b-chat-v0.3-noise"), "f32", &path);
    let file = gguf_container::File::open(&path).unwrap();
    let mut metadata = file.metadata().clone();
    metadata.retain(|key, _| !key.starts_with("tokenizer.chat_template"));
    let names = vec!["rag", "../evil"];
    metadata.set("tokenizer.chat_templates", Value::Array(Array::String(names.into())));
    metadata.set("tokenizer.chat_template", "default");
    metadata.set("tokenizer.chat_template.rag", "named");
    metadata.set("tokenizer.chat_template.../evil", "evil");
    let input = gguf_layout::export::GgufInput {
        metadata: &metadata,
        tensors: file.tensors().iter().map(|tensor| (tensor.name.clone(), tensor.shape)).collect(),
        rope_freqs: None,
        rope_factors: None,
        dtype: "float32",
    };
    let layout = gguf_layout::export::resolve(&gguf_models::FAMILIES, &input).unwrap();
    let file =
        |name: &str| layout.files.iter().find(|(have, _)| have == name).map(|(_, bytes)| bytes.as_slice());
    assert_eq!(file("chat_template.jinja"), Some(&b"default"[..]));
    assert_eq!(file("additional_chat_templates/rag.jinja"), Some(&b"named"[..]));
    assert!(!layout.files.iter().any(|(name, _)| name.contains("evil")));
}
