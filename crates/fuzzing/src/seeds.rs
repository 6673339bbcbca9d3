//! Valid inputs, from the goldens.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::OnceLock,
};

use gguf_checkpoint::Checkpoint;
use gguf_container::{Endian, Metadata, Plan, Value};
use gguf_runtime::{Observer as _, Part, importance::Collector, stats::Position};
use gguf_testkit::golden_path;
use gguf_tokenizer::{
    Tokenizer, TokenizerFiles,
    huggingface::{Route, VocabContext},
};
use gguf_toolkit::{
    Convert, TensorType,
    convert::{Operation, OutputOptions},
    settings::{RuleOptions, TensorOptions},
};
use gguf_types::{DType, Shape};
use serde_json::{Value as Json, json};
use sha2::{Digest, Sha256};

use crate::{pieces, target};

/// Maximum bytes of all files of a tokenizer or a checkpoint, so that thousands are read per second.
const MAX_FOLDER_BYTES: usize = 160 << 10;

fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("goldens are part of the repository");
    let mut paths: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.sort();
    paths
}

fn read(path: &Path) -> Vec<u8> {
    fs::read(path).expect("a golden can be read")
}

/// Files of a folder with this suffix.
fn files(folder: &str, ending: &str) -> Vec<Vec<u8>> {
    let is_one = |path: &PathBuf| path.is_file() && path.to_string_lossy().ends_with(ending);
    entries(&golden_path(folder)).iter().filter(|path| is_one(path)).map(|path| read(path)).collect()
}

fn gguf_of(metadata: &Metadata, tensors: &[(&str, &[u64], DType)], endian: Endian) -> Vec<u8> {
    let sized = tensors
        .iter()
        .map(|(name, dims, dtype)| ((*name).to_owned(), Shape::new(dims).expect("small shapes"), *dtype));
    let sized: Vec<_> = sized.collect();
    let data =
        sized.iter().map(|(_, shape, dtype)| vec![7; shape.n_bytes(*dtype).expect("small sizes") as usize]);
    let data: Vec<Vec<u8>> = data.collect();
    let plan = Plan::new(metadata, sized, endian, 32).expect("a plan of small tensors");
    plan.to_bytes(&data).expect("data of small tensors")
}

fn tiny_gguf(metadata: &Metadata, endian: Endian) -> Vec<u8> {
    let tensors: [(&str, &[u64], DType); 3] =
        [("a.weight", &[32, 2], DType::Q8_0), ("b", &[3], DType::F32), ("c", &[256], DType::Q4_K)];
    gguf_of(metadata, &tensors, endian)
}

pub(crate) fn adapter_base() -> Vec<u8> {
    let metadata = Metadata::from([("general.architecture".to_owned(), "llama".into())]);
    let tensors: [(&str, &[u64], DType); 2] =
        [("token_embd.weight", &[8, 16], DType::F32), ("blk.0.attn_q.weight", &[8, 12], DType::F32)];
    gguf_of(&metadata, &tensors, Endian::Little)
}

pub(crate) fn adapter() -> Vec<Vec<u8>> {
    let metadata = Metadata::from([
        ("general.architecture".to_owned(), "llama".into()),
        ("general.type".to_owned(), "adapter".into()),
        ("adapter.type".to_owned(), "lora".into()),
        ("adapter.lora.alpha".to_owned(), Value::F32(16.0)),
    ]);
    let tensors: [(&str, &[u64], DType); 5] = [
        ("token_embd.weight.lora_a", &[2, 16], DType::F32),
        ("token_embd.weight.lora_b", &[2, 8], DType::F32),
        ("blk.0.attn_q.weight.lora_a", &[8, 3], DType::F16),
        ("blk.0.attn_q.weight.lora_b", &[3, 12], DType::F32),
        ("blk.0.attn_norm.weight", &[8], DType::F32),
    ];
    vec![gguf_of(&metadata, &tensors, Endian::Little), gguf_of(&metadata, &tensors[..2], Endian::Little)]
}

/// Files of diffusion models: with five dimensions and trailing ones, with original shapes, and without keys.
pub(crate) fn diffusion() -> Vec<Vec<u8>> {
    let keys = |architecture: &str| {
        Metadata::from([
            ("general.architecture".to_owned(), architecture.into()),
            ("general.quantization_version".to_owned(), Value::U32(2)),
            ("general.file_type".to_owned(), Value::U32(32)),
        ])
    };
    let wan: [(&str, &[u64], DType); 6] = [
        ("blocks.0.self_attn.norm_q.weight", &[8], DType::F32),
        ("text_embedding.2.weight", &[256, 2], DType::BF16),
        ("head.modulation", &[8, 2, 1], DType::F32),
        ("patch_embedding.weight", &[2, 2, 1, 2, 2], DType::F32),
        ("blocks.0.ffn.2.weight", &[256, 2], DType::BF16),
        ("scale", &[], DType::F32),
    ];
    let sdxl: [(&str, &[u64], DType); 2] = [
        ("label_emb.0.0.weight", &[256, 2], DType::BF16),
        ("input_blocks.3.0.op.weight", &[256, 9], DType::F16),
    ];
    let mut reshaped = keys("sdxl");
    let shape = gguf_container::Array::I32(vec![16, 16, 3, 3]);
    reshaped.set("comfy.gguf.orig_shape.input_blocks.3.0.op.weight", Value::Array(shape));
    let prefixed: [(&str, &[u64], DType); 2] = [
        ("model.diffusion_model.double_blocks.0.img_attn.proj.weight", &[256, 2], DType::F16),
        ("first_stage_model.decoder.conv_in.weight", &[3, 3, 2, 2], DType::F16),
    ];
    vec![
        gguf_of(&keys("wan"), &wan, Endian::Little),
        gguf_of(&keys("pig"), &wan, Endian::Big),
        gguf_of(&reshaped, &sdxl, Endian::Little),
        gguf_of(&Metadata::new(), &prefixed, Endian::Little),
    ]
}

/// A file of three small tensors and one key.
pub(crate) fn tiny() -> Vec<u8> {
    tiny_gguf(&Metadata::from([("a.b".to_owned(), Value::U32(1))]), Endian::Little)
}

pub(crate) fn gguf() -> Vec<Vec<u8>> {
    let metadata = gguf_container::File::parse(read(&golden_path("gguf/py-flat.gguf"))).expect("a golden");
    let tiny = [Endian::Little, Endian::Big].map(|endian| tiny_gguf(metadata.metadata(), endian));
    let folders = ["gguf", "byte-orders"].map(|folder| files(folder, ".gguf"));
    let headers = files("gguf-handcrafted", ".header").into_iter().chain(files("gguf-malicious", ".gguf"));
    folders.into_iter().flatten().chain(headers).chain(tiny).chain(diffusion()).collect()
}

pub(crate) fn gguf_shards() -> Vec<Vec<u8>> {
    let shards = ["split-00001-of-00002.gguf", "split-00002-of-00002.gguf"];
    let shards = shards.map(|name| (name, read(&golden_path("gguf").join(name))));
    vec![pieces::join(shards.iter().map(|(name, bytes)| (*name, bytes.as_slice())))]
}

/// Keys of a tokenizer as a file without tensors.
fn keys_as_file(metadata: &Metadata) -> Option<Vec<u8>> {
    Plan::new(metadata, Vec::new(), Endian::Little, 32).ok()?.to_bytes::<&[u8]>(&[]).ok()
}

pub(crate) fn tokenizer_keys() -> Vec<Vec<u8>> {
    let made = tokenizer_folders().into_iter().filter_map(|(files, route)| {
        let config = files.get("config.json").and_then(|bytes| serde_json::from_slice(bytes).ok());
        let config: Json = config.unwrap_or_default();
        let files: Vec<_> = files.iter().map(|(name, bytes)| (name.clone(), bytes.as_slice())).collect();
        let files = TokenizerFiles { config: &config, generation_config: None, files: &files };
        keys_as_file(
            &Tokenizer::from_huggingface(&files, route, &VocabContext::default()).ok()?.tokenizer.to_gguf(),
        )
    });
    made.collect()
}

pub(crate) fn model() -> Vec<Vec<u8>> {
    gguf_testkit::logits_file_names().iter().map(|name| read(&gguf_testkit::logits_file(name))).collect()
}

pub(crate) fn imatrix() -> Vec<Vec<u8>> {
    let mut good = files("eval-cli", ".imatrix.gguf");
    for at in 0..good.len() {
        let sums = gguf_imatrix::Sums::parse(good[at].clone()).expect("a golden");
        good.push(sums.to_bytes(gguf_imatrix::Format::Legacy).expect("sums of a golden"));
    }
    good
}

pub(crate) fn logits() -> Vec<Vec<u8>> {
    files("eval-cli", ".kld")
}

pub(crate) fn tasks() -> Vec<Vec<u8>> {
    let names = ["hellaswag.txt", "multiple-choice.bin", "winogrande.csv"];
    names.iter().map(|name| read(&golden_path("eval-cli").join(name))).collect()
}

pub(crate) fn picture() -> Vec<Vec<u8>> {
    files("vision", ".png").into_iter().chain(files("vision", ".jpg")).collect()
}

pub(crate) fn sound() -> Vec<Vec<u8>> {
    ["sound.wav", "sound.flac", "sound.mp3"]
        .iter()
        .map(|name| read(&golden_path("audio").join(name)))
        .collect()
}

/// A safetensors file with these tensors, concatenated.
fn safetensors_of(tensors: &[(&str, &str, &[u64], usize)]) -> Vec<u8> {
    let mut bytes = (0..=u8::MAX).cycle();
    let tensors = tensors.iter().map(|(name, dtype, shape, n_bytes)| {
        (*name, *dtype, *shape, bytes.by_ref().take(*n_bytes).collect::<Vec<u8>>())
    });
    gguf_testkit::safetensors_with(Some(&json!({"format": "pt"})), tensors)
}

pub(crate) fn safetensors() -> Vec<Vec<u8>> {
    vec![
        safetensors_of(&[("b", "F16", &[3, 2], 12), ("a", "I64", &[], 8), ("c", "BOOL", &[0, 7], 0)]),
        safetensors_of(&[
            ("a", "BF16", &[4, 8], 64),
            ("b", "F8_E4M3", &[16], 16),
            ("c", "F32", &[1, 1, 5], 20),
        ]),
        safetensors_of(&[("a", "F64", &[2], 16), ("b", "U8", &[3], 3), ("c", "F8_E8M0", &[2, 2], 4)]),
        safetensors_of(&[("a", "F4", &[4], 2), ("b", "I32", &[2, 1], 8), ("c", "F6_E2M3", &[4], 3)]),
    ]
}

/// Files of an index.
pub fn two_shards() -> &'static [Vec<u8>; 2] {
    static SHARDS: OnceLock<[Vec<u8>; 2]> = OnceLock::new();
    SHARDS.get_or_init(|| {
        let a = safetensors_of(&[("a", "F32", &[2], 8), ("b", "F32", &[1], 4)]);
        [a, safetensors_of(&[("c", "F32", &[2, 2], 16)])]
    })
}

pub(crate) fn index() -> Vec<Vec<u8>> {
    let map = json!({"a": "model-1.safetensors", "b": "model-1.safetensors", "c": "model-2.safetensors"});
    let index = json!({"metadata": {"total_size": 28}, "weight_map": map});
    vec![index.to_string().into_bytes()]
}

pub(crate) fn small_files() -> Vec<Vec<u8>> {
    let folders = ["source/sharded", "arch/llama-card", "arch/llama", "codes/awq", "arch/jina-v5"];
    let folders = folders.iter().map(|folder| golden_path(folder)).filter(|folder| folder.is_dir());
    let of = |folder: PathBuf| {
        let files = entries(&folder).into_iter().filter(|path| {
            path.extension().is_some_and(|ending| ending == "json" || ending == "md")
                && !path.ends_with("expected.json")
        });
        let files: Vec<(String, Vec<u8>)> =
            files.filter_map(|path| Some((name_of(&path)?, read(&path)))).collect();
        pieces::join(files.iter().map(|(name, bytes)| (name.as_str(), bytes.as_slice())))
    };
    folders.map(of).collect()
}

fn name_of(path: &Path) -> Option<String> {
    Some(path.file_name()?.to_str()?.to_owned())
}

pub(crate) fn card() -> Vec<Vec<u8>> {
    let cards = ["arch/llama-card/README.md", "source/sharded/README.md", "lora/llama/README.md"];
    let head = |text: String| Some(text.strip_prefix("---\n")?.split("\n---").next()?.as_bytes().to_vec());
    let mut heads: Vec<Vec<u8>> =
        cards.iter().filter_map(|card| head(String::from_utf8(read(&golden_path(card))).ok()?)).collect();
    heads.push(b"a: &x [1, 2, {b: c}]\nd: *x\ne:\n  <<: {f: g}\n  h: |\n    text\n  i: 'it''s'\n".to_vec());
    heads
}

pub(crate) fn quantized() -> Vec<Vec<u8>> {
    let folders = ["dialects", "codes"].iter().flat_map(|parent| entries(&golden_path(parent)));
    let of = |folder: PathBuf| {
        let files: Vec<(String, Vec<u8>)> = entries(&folder)
            .into_iter()
            .filter(|path| path.is_file() && !path.ends_with("expected.json"))
            .filter_map(|path| Some((name_of(&path)?, read(&path))))
            .collect();
        let n_bytes: usize = files.iter().map(|(_, bytes)| bytes.len()).sum();
        let is_whole = files.iter().any(|(name, _)| name == "model.safetensors");
        let joined = pieces::join(files.iter().map(|(name, bytes)| (name.as_str(), bytes.as_slice())));
        (is_whole && n_bytes <= MAX_FOLDER_BYTES).then_some(joined)
    };
    folders.filter_map(of).collect()
}

fn torch(is_archive: bool) -> Vec<Vec<u8>> {
    let good =
        files("torch/forms", ".bin").into_iter().filter(|bytes| bytes.starts_with(b"PK") == is_archive);
    good.collect()
}

pub(crate) fn torch_zip() -> Vec<Vec<u8>> {
    torch(true)
}

pub(crate) fn torch_pickle() -> Vec<Vec<u8>> {
    torch(false)
}

pub(crate) fn diffusion_weights() -> Vec<Vec<u8>> {
    let layouts = files("diffusion-layouts", ".safetensors").into_iter();
    layouts.chain(files("diffusion", ".safetensors")).collect()
}

/// Architectures and weights files of the bases of [`diffusion_adapter`].
pub(crate) fn diffusion_bases() -> Vec<(&'static str, PathBuf)> {
    let folders =
        [("flux", "flux-lycoris"), ("flux", "flux-oft"), ("sd1", "unet-lycoris"), ("sd1", "unet-oft")];
    let path = |folder| golden_path("diffusion-adapters").join(folder).join("base.safetensors");
    folders.into_iter().map(|(architecture, folder)| (architecture, path(folder))).collect()
}

pub(crate) fn diffusion_adapter() -> Vec<Vec<u8>> {
    let adapters = diffusion_bases().into_iter().map(|(_, base)| base.with_file_name("adapter.safetensors"));
    adapters.map(|path| read(&path)).collect()
}

pub(crate) fn legacy() -> Vec<Vec<u8>> {
    files("ggml", ".bin")
}

pub(crate) fn lora_base() -> Checkpoint {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    gguf_checkpoint::open(FOLDER.get_or_init(|| gguf_testkit::checkpoint("llama"))).expect("a golden")
}

pub(crate) fn lora() -> Vec<Vec<u8>> {
    let merged = entries(&golden_path("lora-merged")).into_iter().filter(|path| path.is_dir());
    let folders = merged.flat_map(|path| entries(&path)).chain(entries(&golden_path("lora")));
    let of = |folder: PathBuf| {
        let names = ["adapter_config.json", "adapter_model.safetensors"];
        let files = names.map(|name| Some((name, fs::read(folder.join(name)).ok()?)));
        let files: Option<Vec<(&str, Vec<u8>)>> = files.into_iter().collect();
        Some(pieces::join(files?.iter().map(|(name, bytes)| (*name, bytes.as_slice()))))
    };
    folders.filter_map(of).filter(|bytes| bytes.len() <= MAX_FOLDER_BYTES).collect()
}

/// A checkpoint as names and shapes, with the small files in `keep`.
fn described(folder: &Path, keep: &[&str]) -> Option<Vec<u8>> {
    let checkpoint = gguf_checkpoint::open(folder).ok()?;
    let shape = |tensor: &gguf_checkpoint::Tensor| Some(json!(tensor.folded_shape().ok()?.0.dims()));
    let tensors: serde_json::Map<String, Json> =
        checkpoint.tensors.iter().filter_map(|tensor| Some((tensor.name.clone(), shape(tensor)?))).collect();
    let files = checkpoint.files.iter().filter(|(name, _)| keep.contains(&name.as_str()));
    let files: serde_json::Map<String, Json> =
        files.map(|(name, bytes)| (name.clone(), Json::from(String::from_utf8_lossy(bytes)))).collect();
    Some(json!({"config": checkpoint.config, "tensors": tensors, "files": files}).to_string().into_bytes())
}

pub(crate) fn config() -> Vec<Vec<u8>> {
    gguf_testkit::checkpoint_names()
        .iter()
        .filter_map(|name| described(&gguf_testkit::checkpoint(name), &[]))
        .collect()
}

pub(crate) fn projector() -> Vec<Vec<u8>> {
    let keep = ["preprocessor_config.json", "processor_config.json", "video_preprocessor_config.json"];
    gguf_testkit::projector_names()
        .iter()
        .filter_map(|name| described(&gguf_testkit::projector(name), &keep))
        .collect()
}

type Files = BTreeMap<String, Vec<u8>>;

/// Maximum number of routes per tokenizer; others are tried with other tokenizers.
const MAX_ROUTES: usize = 3;

/// Tokenizers of the goldens, with some of the routes that can read each.
fn tokenizer_folders() -> Vec<(Files, Route)> {
    let folders = entries(&golden_path("tokenizer")).into_iter().filter(|path| path.is_dir());
    let routes = gguf_models::routes();
    let mut all = Vec::new();
    for (index, folder) in folders.enumerate() {
        let files: Files =
            name_of(&folder).map(|name| gguf_testkit::tokenizer_files(&name)).unwrap_or_default();
        let files: Files = files.into_iter().filter(|(name, _)| name != "expected.json").collect();
        if files.values().map(Vec::len).sum::<usize>() > MAX_FOLDER_BYTES {
            continue;
        }
        // Each begins with another route, so that all are used.
        let routes = routes.iter().copied().cycle().skip(7 * index).take(routes.len());
        let reads = |route: &Route| {
            target("tokenizer").is_some_and(|target| (target.run)(&tokenizer_input(&files, route.name)))
        };
        let read: Vec<Route> = routes.filter(reads).take(MAX_ROUTES).collect();
        all.extend(read.into_iter().map(|route| (files.clone(), route)));
    }
    all
}

fn tokenizer_input(files: &Files, route: &str) -> Vec<u8> {
    let files = files.iter().map(|(name, bytes)| (name.as_str(), bytes.as_slice()));
    pieces::join(files.chain([("route", route.as_bytes())]))
}

pub(crate) fn tokenizer() -> Vec<Vec<u8>> {
    tokenizer_folders().iter().map(|(files, route)| tokenizer_input(files, route.name)).collect()
}

pub(crate) fn sentencepiece() -> Vec<Vec<u8>> {
    let folders = entries(&golden_path("tokenizer")).into_iter();
    let models = folders.filter_map(|folder| fs::read(folder.join("tokenizer.model")).ok());
    models.filter(|bytes| bytes.len() <= MAX_FOLDER_BYTES).collect()
}

pub(crate) fn template() -> Vec<Vec<u8>> {
    let mut templates: Vec<Vec<u8>> = ["tokenizer/plamo3", "source/sharded", "tokenizer/bpe-spaces"]
        .iter()
        .map(|folder| read(&golden_path(folder).join("chat_template.jinja")))
        .collect();
    for folder in
        entries(&golden_path("tokenizer")).into_iter().chain(entries(&golden_path("arch-tokenizers")))
    {
        let config = fs::read(folder.join("tokenizer_config.json")).unwrap_or_default();
        let config: Json = serde_json::from_slice(&config).unwrap_or_default();
        templates.extend(config["chat_template"].as_str().map(|text| text.as_bytes().to_vec()));
    }
    // Constructs of published templates, in a few lines.
    templates.push(
        b"{{- bos_token }}{%- if tools is not none %}{%- for tool in tools %}{{- tool | tojson(indent=4) }}{%- endfor %}\
        {%- endif %}{%- set ns = namespace(last='', n=0) %}{%- macro turn(role, text) %}<|{{ role }}|>{{ text | trim }}\
        {% endmacro %}{%- for m in messages %}{%- if m.role == 'assistant' and m.tool_calls is defined %}\
        {%- for c in m.tool_calls %}{{- c.function.name ~ ' ' ~ (c.function.arguments | tojson) }}{%- endfor %}\
        {%- else %}{{- turn(m['role'], m.content.split('</think>')[-1].strip()) }}{%- endif %}\
        {%- set ns.last = ns.last ~ m.role[0] %}{%- set ns.n = ns.n + loop.index0 %}{%- endfor %}{{ ns.last[::-1] }}\
        {%- if add_generation_prompt %}<|assistant|>{%- endif %}"
            .to_vec(),
    );
    templates.sort();
    templates.dedup();
    templates
}

pub(crate) fn record() -> Vec<Vec<u8>> {
    let golden = |name: &str| {
        let files = ["json", "f32"].map(|ending| {
            (format!("record.{ending}"), read(&golden_path(&format!("check-against/{name}.{ending}"))))
        });
        pieces::join(files.iter().map(|(name, bytes)| (name.as_str(), bytes.as_slice())))
    };
    ["llama", "qwen3"].map(golden).to_vec()
}

pub(crate) fn recipe() -> Vec<Vec<u8>> {
    let recipe = json!({
        "format": "gguf-tools recipe", "version": 1, "missing_imatrix": "refuse",
        "imatrix": {"file": "imatrix.gguf", "include_weights": ["attn"], "exclude_weights": []},
        "override_kv": ["a.b=int:1"], "prune_layers": [1, 2], "keep_split": false, "split_max_size": 1000,
        "split_max_tensors": null, "allow_requantize": true, "allow_nonfinite": false, "via": "F16",
        "outputs": [{"type": "Q4_K_M", "dtypes": {"blk.0.attn_q.weight": "Q4_K", "output.weight": "Q6_K"}}]
    });
    let plain = json!({"format": "gguf-tools recipe", "version": 1, "outputs": []});
    [recipe, plain].map(|json| json.to_string().into_bytes()).to_vec()
}

/// A plan written by `gguf-convert plan`.
pub(crate) fn plan() -> Vec<Vec<u8>> {
    let input = json!({"name": "/m/model.safetensors", "bytes": 7, "modified": 5, "tag": null});
    let rules = RuleOptions {
        pure: true,
        override_kv: vec!["a.b=int:1".to_owned()],
        tensor_types: vec![TensorType::parse("attn_v=q8_0").expect("a rule")],
        ..RuleOptions::default()
    };
    let conversion = Convert {
        source: PathBuf::from("tiny"),
        types: vec!["q4_k_m".parse().expect("a type")],
        adapters: vec!["lora=0.5".parse().expect("an adapter")],
        tensors: TensorOptions { rules, ..TensorOptions::default() },
        output: OutputOptions { out: Some(PathBuf::from("out/x.gguf")), ..OutputOptions::default() },
        ..Convert::default()
    };
    let plan = json!({
        "format": "gguf-tools plan", "version": 2,
        "program": concat!("gguf-convert ", env!("CARGO_PKG_VERSION")), "folder": "/m",
        "conversion": Operation::from(conversion),
        "fingerprint": {
            "program": "gguf-convert 0123456789abcdef", "options": [["type", "q4_k_m"]], "inputs": [input],
            "outputs": [{"name": "x.gguf", "bytes": 100, "header": u64::MAX}], "plan": 3,
        },
        "picoseconds_per_element": {"q8_0": 300, "q4_K": 9000, "iq4_nl": 20000, "f16": 100},
        "outputs": [{
            "name": "x.gguf", "bytes": 100,
            "tensors": [{"name": "t", "dtype": "q4_K", "shape": [256, 2], "offset": 64, "bytes": 288}],
        }],
    });
    vec![plan.to_string().into_bytes()]
}

/// File of a part of a command's measurement.
fn measured(verb: &str, run: Json, described: Json, payload: &[u8]) -> Vec<u8> {
    let header = json!({
        "verb": verb, "program": env!("CARGO_PKG_VERSION"), "part": 1, "parts": 2, "cpu": "avx2",
        "windows": {"start": 0, "end": 2}, "n_windows": 3, "run": run, "told": described,
    });
    sealed_part(header.to_string().as_bytes(), payload)
}

/// File of a part with this header: its length first, the digest of everything last.
pub(crate) fn sealed_part(header: &[u8], payload: &[u8]) -> Vec<u8> {
    let mut bytes = [PART_MAGIC, &(header.len() as u64).to_le_bytes(), header, payload].concat();
    let digest = Sha256::digest(&bytes);
    bytes.extend(digest);
    bytes
}

/// First bytes of a part's file.
pub(crate) const PART_MAGIC: &[u8] = b"gguf-tools part\n";

pub(crate) fn measured_part() -> Vec<Vec<u8>> {
    let mut collector = Collector::new(false);
    for tensor in ["blk.0.attn_q.weight", "blk.1.ffn_down.weight"] {
        collector.mul_mat(tensor, Part::Whole, &[0.5, -1e-20, 3e19, 1.0, 2.0, 3.0], 3);
    }
    collector.mul_mat("blk.1.ffn_up_exps.weight", Part::Expert { index: 1, n: 2 }, &[1.0, 2.0], 2);
    let run = json!({"context": 4, "stride": null, "predictions in a window": 2, "activations": "f32", "top_k": 10});
    let files = json!([{"file": "a", "bytes": 1, "bits_per_weight": 4.5}]);
    let perplexity = json!({"file": "a", "text": "b", "architecture": "llama"});
    let compare =
        json!({"base": "b", "base_bytes": null, "architecture": "llama", "text": null, "files": files});
    let imatrix = json!({"text": "t", "matrices": ["blk.0.attn_q.weight"]});
    vec![
        measured("perplexity", run.clone(), perplexity, &[0x40; 2 * 2 * 8]),
        measured("compare", run.clone(), compare, &[0x40; 2 * 2 * Position::STORED_BYTES]),
        measured("imatrix", run, imatrix, &collector.to_part()),
    ]
}

pub(crate) fn metadata_json() -> Vec<Vec<u8>> {
    vec![
        json!({
            "a": {"type": "u32", "value": 1}, "b": {"type": "str", "value": "text"}, "c": {"type": "f32", "value": "NaN"},
            "d": {"type": "arr[str]", "value": ["x", {"bytes": [255, 0]}]}, "e": {"type": "arr[i8]", "value": [-1, 2]},
            "f": {"type": "arr[arr]", "value": [{"type": "arr[u8]", "value": [1]}]}, "g": {"type": "bool", "value": true},
            "h": {"type": "u64", "value": u64::MAX}, "i": {"type": "f64", "value": 1e300}
        })
        .to_string()
        .into_bytes(),
    ]
}
