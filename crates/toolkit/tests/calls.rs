//! Each call once, as a program that uses the library makes it.
#![expect(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

use std::{
    fs,
    ops::ControlFlow,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use gguf_toolkit::{
    Arch, Chat, ChatOptions, CompareOptions, DType, EmbedOptions, Events, GenerateOptions, Memory,
    MemoryTensor, Model, PerplexityOptions, RunOptions, StatusLine, Text, TokenizeOptions, Value,
    arch::{Class, DECODER, rules, vocab::Route},
};

/// A checkpoint of two layers.
fn checkpoint() -> PathBuf {
    gguf_testkit::golden_path("arch/llama")
}

fn bf16(sandbox: &Path) -> PathBuf {
    let path = sandbox.join("bf16.gguf");
    assert_eq!(
        gguf_toolkit::convert(&checkpoint()).file_type("bf16").write(&path).unwrap(),
        vec![path.clone()]
    );
    path
}

#[test]
fn file_is_read_and_decoded() {
    let sandbox = tempfile::tempdir().unwrap();
    let file = gguf_toolkit::open(bf16(sandbox.path())).unwrap();
    assert_eq!(file.metadata().get("general.architecture"), Some(&Value::from("llama")));
    let query = file.tensor("blk.0.attn_q.weight").unwrap();
    assert_eq!((query.dtype(), query.shape()), (DType::BF16, vec![256, 256]));
    // ARCHITECTURE.md follows this row: its first values are those of the checkpoint.
    let values = query.decode().unwrap();
    assert_eq!((values[[1, 0]], values[[1, 1]]), (0.086_425_78, -0.039_306_64));
    let bytes = fs::read(query.path()).unwrap();
    assert_eq!(query.bytes().unwrap(), &bytes[query.offset() as usize..][..query.n_bytes() as usize]);
    assert!(file.tensor("blk.2.attn_q.weight").is_none());
    assert_eq!(file.tensors().count(), file.model().first().tensors().len());
}

#[test]
fn folder_converts_to_several_types() {
    let sandbox = tempfile::tempdir().unwrap();
    let (out, seen) = (sandbox.path().join("new/"), Mutex::new(Vec::new()));
    let job = || gguf_toolkit::convert(&checkpoint()).file_type("q8_0").file_type("Q4_K_M");
    let planned = job().plan().unwrap();
    let see = |done, total| seen.lock().unwrap().push((done, total));
    let paths = job().progress(&see).write(&out).unwrap();
    assert_eq!(paths.len(), 2);
    for (planned, path) in planned.iter().zip(&paths) {
        assert_eq!(path.file_name().unwrap(), planned.name.as_str());
        assert_eq!(fs::metadata(path).unwrap().len(), planned.n_bytes);
    }
    assert_eq!((planned[0].file_type, planned[1].file_type), ("Q8_0", "Q4_K_M"));
    // The last report is of all bytes, whichever thread made it.
    let seen = seen.into_inner().unwrap();
    assert_eq!(seen.iter().map(|(done, _)| *done).max(), seen.first().map(|(_, total)| *total));
    // An existing file stays unless overwriting is allowed.
    let error = job().write(&out).unwrap_err();
    assert!(error.fields().file.unwrap().ends_with(".gguf"), "{error}");
    job().overwrite(true).write(&out).unwrap();
}

#[test]
fn cancelled_run_leaves_nothing() {
    let sandbox = tempfile::tempdir().unwrap();
    let stop = AtomicBool::new(false);
    let job = gguf_toolkit::convert(&checkpoint()).file_type("f32").cancel(&stop);
    let error = job
        .progress(&|_, _| stop.store(true, Ordering::Relaxed))
        .threads(1.try_into().ok())
        .write(sandbox.path().join("a.gguf"))
        .unwrap_err();
    assert!(error.is_interrupted(), "{error}");
    assert_eq!(fs::read_dir(sandbox.path()).unwrap().count(), 0);
}

/// The state dict of the checkpoint, as a program that has just trained it holds it.
fn memory() -> Memory {
    let opened = gguf_toolkit::source::open(&checkpoint()).unwrap();
    let tensor = |tensor: &gguf_toolkit::source::Tensor| {
        let view = opened.view(tensor).unwrap();
        let bytes: gguf_toolkit::source::SharedBytes = Arc::new(view.bytes.to_vec());
        MemoryTensor { name: tensor.name.clone(), dtype: view.dtype, shape: view.shape.to_vec(), bytes }
    };
    let mut files = opened.files.clone();
    files.push(("config.json".to_owned(), fs::read(checkpoint().join("config.json")).unwrap()));
    let name = "generation_config.json";
    files.extend(fs::read(checkpoint().join(name)).ok().map(|bytes| (name.to_owned(), bytes)));
    // In any order: a file of safetensors lists tensors by name.
    let tensors = opened.tensors.iter().rev().map(tensor).collect();
    Memory { name: opened.folder_name.clone(), files, tensors }
}

#[test]
fn state_dict_converts_as_its_folder() {
    let sandbox = tempfile::tempdir().unwrap();
    for file_type in ["bf16", "q4_k_m"] {
        let (of_folder, of_memory) = (sandbox.path().join("folder.gguf"), sandbox.path().join("memory.gguf"));
        let job = gguf_toolkit::convert(&checkpoint()).file_type(file_type);
        job.overwrite(true).write(&of_folder).unwrap();
        let job = gguf_toolkit::save(memory()).file_type(file_type);
        job.overwrite(true).write(&of_memory).unwrap();
        assert!(fs::read(of_folder).unwrap() == fs::read(of_memory).unwrap(), "{file_type}");
    }
}

#[test]
fn invalid_state_dict_is_refused() {
    let refused = |change: &dyn Fn(&mut Memory)| {
        let mut memory = memory();
        change(&mut memory);
        let error = gguf_toolkit::save(memory).file_type("f32").plan().unwrap_err();
        (error.fields(), error.to_string())
    };
    let (fields, text) = refused(&|memory| memory.files.clear());
    assert_eq!(fields.file.as_deref(), Some("config.json"), "{text}");
    let (fields, text) = refused(&|memory| memory.tensors[3].shape[0] += 1);
    assert!(fields.tensor.is_some() && fields.expected != fields.found, "{text}");
    let (fields, text) = refused(&|memory| memory.tensors[3].shape = vec![u64::MAX, 3]);
    assert!(fields.tensor.is_some() && fields.found.is_some(), "{text}");
    let (fields, text) = refused(&|memory| memory.tensors.push(memory.tensors[0].clone()));
    assert_eq!(fields.tensor, Some(self::memory().tensors[0].name.clone()), "{text}");
    let (_, text) = refused(&|memory| {
        let config = memory.files.iter_mut().find(|(name, _)| name == "config.json").unwrap();
        config.1 = b"[1]".to_vec();
    });
    assert!(text.contains("config.json"), "{text}");
    let (fields, text) = refused(&|memory| {
        memory.tensors.retain(|tensor| tensor.name != "model.norm.weight");
    });
    assert!(fields.tensor.is_some(), "{text}");
}

/// Llama under another name, as a crate that this one knows nothing of would write it.
static MINE: Arch = {
    let mut arch = DECODER;
    arch.name = "mine";
    arch.classes = const { &[Class::new("MineForCausalLM")] };
    arch.tensors = &[rules::DECODER_ENDS, rules::PRE_NORMS, rules::ATTENTION_PERMUTED, rules::GATED_MLP];
    arch.vocab = Route::Llama;
    arch
};

#[test]
fn external_architecture_is_used() {
    let sandbox = tempfile::tempdir().unwrap();
    let of_table = gguf_toolkit::open(bf16(sandbox.path())).unwrap();
    let mut memory = memory();
    let config = memory.files.iter_mut().find(|(name, _)| name == "config.json").unwrap();
    let mut json: serde_json::Value = serde_json::from_slice(&config.1).unwrap();
    json["architectures"] = vec!["MineForCausalLM"].into();
    json["model_type"] = "mine".into();
    config.1 = json.to_string().into_bytes();
    let error = gguf_toolkit::save(memory.clone()).file_type("bf16").plan().unwrap_err();
    assert_eq!(error.fields().found.as_deref(), Some("MineForCausalLM"), "{error}");
    let path = sandbox.path().join("mine.gguf");
    gguf_toolkit::save(memory).architecture(&MINE).file_type("bf16").write(&path).unwrap();
    let mine = gguf_toolkit::open(&path).unwrap();
    assert_eq!(mine.metadata().get("general.architecture"), Some(&Value::from("mine")));
    assert_eq!(mine.metadata().get("mine.block_count"), Some(&Value::U32(2)));
    let mut n_tensors = 0;
    for (ours, table) in mine.tensors().zip(of_table.tensors()) {
        assert_eq!((ours.name(), ours.dtype(), ours.shape()), (table.name(), table.dtype(), table.shape()));
        assert_eq!(ours.bytes().unwrap(), table.bytes().unwrap(), "{}", ours.name());
        n_tensors += 1;
    }
    assert_eq!(n_tensors, of_table.tensors().count());
}

#[test]
fn encoded_blocks_match_file() {
    let sandbox = tempfile::tempdir().unwrap();
    let bf16 = bf16(sandbox.path());
    let path = sandbox.path().join("q4_0.gguf");
    gguf_toolkit::quantize(&bf16).file_type("q4_0").write(&path).unwrap();
    let (from, to) = (gguf_toolkit::open(&bf16).unwrap(), gguf_toolkit::open(&path).unwrap());
    let tensor = to.tensor("blk.1.ffn_up.weight").unwrap();
    assert_eq!(tensor.dtype(), DType::Q4_0);
    let values = from.tensor(tensor.name()).unwrap().decode().unwrap();
    let values = values.into_dimensionality().unwrap();
    let blocks = gguf_toolkit::encode(DType::Q4_0, values.view()).unwrap();
    assert_eq!(blocks.as_slice().unwrap(), tensor.bytes().unwrap());
    let decoded = gguf_toolkit::decode(DType::Q4_0, blocks.view()).unwrap();
    assert_eq!(decoded.into_dyn(), tensor.decode().unwrap());
    // Columns of another matrix do not lie one after the other and are encoded all the same.
    let turned = values.t().as_standard_layout().into_owned();
    let of_turned = gguf_toolkit::encode(DType::Q4_0, turned.view()).unwrap();
    assert_eq!(gguf_toolkit::encode(DType::Q4_0, values.t()).unwrap(), of_turned);
}

#[test]
fn types_encode_and_decode_or_give_reason() {
    let values =
        ndarray::Array2::from_shape_fn((3, 256), |(row, column)| ((row * 256 + column) as f32 * 0.37).sin());
    let importance = vec![1.0; 256];
    for &dtype in gguf_toolkit::dtypes() {
        let encoded = gguf_toolkit::encode_weighted(dtype, values.view(), &importance);
        let Ok(blocks) = encoded else {
            assert!(!dtype.is_encodable(), "{dtype}");
            continue;
        };
        let decoded = gguf_toolkit::decode(dtype, blocks.view()).unwrap();
        let error = (&decoded - &values).mapv(|x| x * x).mean().unwrap().sqrt();
        // A sign and a scale are the least that a type keeps.
        assert!(error < 0.5, "{dtype}: {error}");
        if dtype.is_quantized() {
            let short = values.slice(ndarray::s![.., ..255]);
            let error = gguf_toolkit::encode(dtype, short).unwrap_err();
            assert_eq!(error.fields().found.as_deref(), Some("255"), "{dtype}: {error}");
        }
    }
    let error = gguf_toolkit::encode(DType::IQ2_XXS, values.view()).unwrap_err();
    assert_eq!(error.fields().expected.as_deref(), Some("importance weights"), "{error}");
}

#[test]
fn files_are_measured() {
    let sandbox = tempfile::tempdir().unwrap();
    let exact = bf16(sandbox.path());
    let rounded = sandbox.path().join("q8_0.gguf");
    gguf_toolkit::quantize(&exact).file_type("q8_0").write(&rounded).unwrap();
    let text = "The quick brown fox jumps over the lazy dog. ".repeat(20);
    let options = |text: &str| {
        let mut options =
            PerplexityOptions { file: exact.clone(), text: Text::of(text), ..Default::default() };
        options.chunks.context = 64;
        options
    };
    let watch = Watch::default();
    let alone = gguf_toolkit::perplexity(&options(&text), &watch).unwrap().perplexity;
    assert!(watch.counts.lock().unwrap().contains(&(alone.n_chunks, alone.n_chunks)));
    // The same text in a file.
    let path = sandbox.path().join("text");
    fs::write(&path, &text).unwrap();
    let of_file = PerplexityOptions { text: Text::file(path), ..options("") };
    assert_eq!(gguf_toolkit::perplexity(&of_file, &()).unwrap().perplexity, alone);
    let comparison = CompareOptions {
        base: exact.clone(),
        files: vec![rounded, exact.clone()],
        text: Some(Text::of(text.as_str())),
        chunks: options("").chunks,
        ..Default::default()
    };
    let report = gguf_toolkit::compare(&comparison, &watch).unwrap().report;
    let [compared, same] = [0, 1].map(|file: usize| report.files[file].predictions.clone().unwrap());
    assert_eq!((same.kl.value, same.same_top.value), (0.0, 1.0));
    // Sums of another order differ in their last digits.
    assert!((alone.value() / compared.base_perplexity.value - 1.0).abs() < 1e-6);
    assert!((compared.perplexity_ratio.value - 1.0).abs() < 0.05);
    watch.cancel.store(true, Ordering::Relaxed);
    assert!(gguf_toolkit::perplexity(&options(&text), &watch).unwrap_err().is_interrupted());
    assert!(gguf_toolkit::compare(&comparison, &watch).unwrap_err().is_interrupted());
    let error = gguf_toolkit::perplexity(&options("short"), &()).unwrap_err();
    assert_eq!(error.fields().expected.as_deref(), Some("128"), "{error}");
    assert_eq!(error.path(), Some(exact.as_path()));
}

/// Pieces that were counted, and a flag to stop at.
#[derive(Default)]
struct Watch {
    counts: Arc<Mutex<Vec<(usize, usize)>>>,
    cancel: Arc<AtomicBool>,
}

struct Counter(Arc<Mutex<Vec<(usize, usize)>>>);

impl Events for Watch {
    fn status_line(&self) -> Box<dyn StatusLine> {
        Box::new(Counter(Arc::clone(&self.counts)))
    }

    fn cancel(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.cancel)
    }
}

impl StatusLine for Counter {
    fn is_updating(&self) -> bool {
        false
    }

    fn show(&self, _: &str) {}

    fn finish(&self, _: &str) {}

    fn count(&self, done: usize, total: usize) {
        self.0.lock().unwrap().push((done, total));
    }
}

#[test]
fn model_runs() {
    let sandbox = tempfile::tempdir().unwrap();
    let model = Model::open(bf16(sandbox.path()), &RunOptions::default()).unwrap();
    assert_eq!(model.architecture(), "llama");
    let plain = TokenizeOptions { add_special: false, ..Default::default() };
    let tokens = model.tokenize("The quick brown fox", &plain).unwrap();
    assert_eq!(model.detokenize(&tokens).unwrap(), b"The quick brown fox");
    let all = model.tokenize("The quick brown fox", &TokenizeOptions::default()).unwrap();
    assert_eq!(all[1..], tokens);

    // Greedy: each token has the largest logit after those before it.
    let options = GenerateOptions { max_tokens: 6, ..Default::default() };
    let mut streamed = String::new();
    let mut keep = |text: &str| {
        streamed += text;
        ControlFlow::Continue(())
    };
    let made = model.generate("The quick brown fox", &options, &mut keep, &()).unwrap();
    assert_eq!(made.n_prompt, all.len());
    assert!(made.text.starts_with(&streamed), "{made:?} {streamed}");
    let both = [all.as_slice(), &made.tokens].concat();
    let logits = model.logits(&both).unwrap();
    assert_eq!(logits.dim(), (both.len(), model.n_vocab()));
    for (at, token) in made.tokens.iter().enumerate() {
        let row = logits.row(all.len() - 1 + at);
        let largest = row.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1)).unwrap().0;
        assert_eq!(largest as u32, *token, "token {at}");
    }
    let mut stop = |_: &str| ControlFlow::Break(());
    let stopped = model.generate("The quick brown fox", &options, &mut stop, &()).unwrap();
    assert!(stopped.tokens.len() < made.tokens.len() && made.tokens.starts_with(&stopped.tokens));
    assert!(model.logits(&[]).unwrap().is_empty());
    assert!(model.logits(&[u32::MAX]).is_err());

    let unpaired = GenerateOptions { images: vec!["cat.png".into()], ..Default::default() };
    let error = model.generate("What is this?", &unpaired, &mut keep_all, &()).unwrap_err();
    assert_eq!(error.kind(), gguf_toolkit::ErrorKind::Usage);
    let error = model.embed(&["text"], &EmbedOptions::default()).unwrap_err();
    assert!(error.to_string().contains("pooling"), "{error}");
    let pooling = Some(gguf_toolkit::run::Pooling::Mean);
    let found = model.embed(&["one", "one two"], &EmbedOptions { pooling, normalize: true }).unwrap();
    for embedding in &found.texts {
        assert_eq!(embedding.vectors.dim(), (1, 256));
        assert!((embedding.vectors.iter().map(|x| x * x).sum::<f32>() - 1.0).abs() < 1e-5);
    }
}

fn keep_all(_: &str) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

#[test]
fn chat_template_is_applied() {
    let key = "tokenizer.chat_template";
    let template = "{{ bos_token }}{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}\
        {% for tool in tools or [] %}<{{ tool.function.name }}>{% endfor %}{{ day }}\
        {% if add_generation_prompt %}[assistant]{% endif %}{{ strftime_now('%Y') }}";
    let metadata = gguf_toolkit::Metadata::from([
        (key.to_owned(), Value::from(template)),
        (format!("{key}.short"), Value::from("{{ messages | length }}")),
    ]);
    let chat = Chat::parse(r#"[{"role": "user", "content": "Hello"}]"#).unwrap();
    let render = |options: &str| {
        let options: ChatOptions = serde_json::from_str(options).unwrap();
        gguf_toolkit::run::render_prompt(Path::new("a.gguf"), &metadata, &chat, &options)
    };
    let made = render(
        r#"{"tools": [{"type": "function", "function": {"name": "weather"}}], "variables": {"day": "Monday"},
            "date": "2024-07-26"}"#,
    );
    assert_eq!(made.unwrap().prompt, "[user]Hello<weather>Monday[assistant]2024");
    let made = render(r#"{"template": "short"}"#).unwrap();
    assert_eq!((made.prompt.as_str(), made.template), ("1", format!("{key}.short")));
    assert!(!render(r#"{"add_generation_prompt": false}"#).unwrap().prompt.contains("[assistant]"));
    let error = render(r#"{"template": "long"}"#).unwrap_err().to_string();
    assert_eq!(error, "a.gguf: unknown template `long`; named templates: short");
    assert_eq!(render(r#"{"date": "today"}"#).unwrap_err().kind(), gguf_toolkit::ErrorKind::Usage);
}

#[test]
fn options_are_read_from_json() {
    let options: CompareOptions =
        serde_json::from_str(r#"{"base": "a.gguf", "files": ["b.gguf"], "text": {"bytes": [97]}}"#).unwrap();
    assert_eq!((options.top_tokens, options.text.clone()), (10, Some(Text::of("a"))));
    let json = serde_json::to_string(&options).unwrap();
    assert_eq!(serde_json::from_str::<CompareOptions>(&json).unwrap(), options);
    assert!(serde_json::from_str::<GenerateOptions>(r#"{"tokens": 3}"#).is_err());
    let part = gguf_toolkit::part_file::PartOptions::new("2/8".parse().unwrap(), "2.part");
    let json = serde_json::to_value(&part).unwrap();
    assert_eq!(json["number"], "2/8");
    assert_eq!(serde_json::from_value::<gguf_toolkit::part_file::PartOptions>(json).unwrap(), part);
    let options = gguf_toolkit::ImatrixOptions::default();
    let json = serde_json::to_value(&options).unwrap();
    assert_eq!(json["format"], "gguf");
    assert_eq!(serde_json::from_value::<gguf_toolkit::ImatrixOptions>(json).unwrap(), options);
}

#[test]
fn errors_name_file_and_facts() {
    let sandbox = tempfile::tempdir().unwrap();
    let path = sandbox.path().join("no.gguf");
    fs::write(&path, b"GGML and more").unwrap();
    let error = gguf_toolkit::open(&path).unwrap_err();
    assert_eq!(error.path(), Some(path.as_path()));
    assert_eq!(error.fields().found.as_deref(), Some("GGML"));
    assert!(error.to_string().starts_with(&path.display().to_string()), "{error}");
    let error = gguf_toolkit::convert(&checkpoint()).file_type("q9_9").plan().unwrap_err();
    assert_eq!(error.fields().found.as_deref(), Some("q9_9"));
    let error = gguf_toolkit::convert(&checkpoint()).plan().unwrap_err();
    assert!(matches!(error.cause(), gguf_toolkit::Cause::NoType));
    let error = gguf_toolkit::convert(&checkpoint()).file_type("iq2_xxs").write(sandbox.path());
    let error = error.unwrap_err();
    assert!(error.fields().tensor.is_some() && !error.hints().is_empty(), "{error}");
}
