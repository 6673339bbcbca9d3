//! Each call once, as a program that uses the library makes it.

use std::{
    fs,
    ops::ControlFlow,
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use gguf_toolkit::{
    Arch, Chat, ChatOptions, CompareOptions, DType, EmbedOptions, Events, FileType, GenerateOptions, Memory,
    MemoryTensor, Model, PerplexityOptions, Progress, Quantize, RunOptions, Save, StatusLine, Text,
    TokenizeOptions, Value,
    architecture::{Class, DECODER, rules, vocab::Route},
};

use crate::{bf16, checkpoint, conversion};

/// Keeps the progress of each stage, and cancels when the first bytes are done if `stops`.
#[derive(Default)]
struct Watching {
    stops: bool,
    cancel: Arc<AtomicBool>,
    total: AtomicU64,
    done: AtomicU64,
}

impl Events for Watching {
    fn progress(&self, n_bytes: u64) -> Box<dyn Progress + '_> {
        self.total.fetch_add(n_bytes, Ordering::Relaxed);
        Box::new(Stage(self))
    }

    fn cancel(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.cancel)
    }
}

struct Stage<'a>(&'a Watching);

impl Progress for Stage<'_> {
    fn add(&self, n_bytes: u64) {
        self.0.done.fetch_add(n_bytes, Ordering::Relaxed);
        self.0.cancel.store(self.0.stops, Ordering::Relaxed);
    }
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
    let mut convert = conversion(FileType::Q8_0, sandbox.path().join("new/"));
    convert.types.push(FileType::Q4_K_M);
    let planned = convert.plan(&()).unwrap();
    assert!(planned.problem.is_none() && fs::read_dir(sandbox.path()).unwrap().count() == 0);
    let events = Watching::default();
    let report = convert.run(&events).unwrap();
    assert_eq!(report.outputs.len(), 2);
    for (planned, file) in planned.report.outputs.iter().zip(&report.outputs) {
        assert_eq!(file.path, planned.path);
        assert_eq!(fs::metadata(&file.path).unwrap().len(), planned.n_bytes);
    }
    let types: Vec<&str> = report.outputs.iter().map(|file| file.file_type).collect();
    assert_eq!(types, ["Q8_0", "Q4_K_M"]);
    assert!(events.total.into_inner() > 0 && events.done.into_inner() > 0);
    // An existing file stays unless overwriting is allowed.
    let error = convert.run(&()).unwrap_err();
    assert!(error.facts()["file"].ends_with(".gguf"), "{error}");
    convert.output.force = true;
    convert.run(&()).unwrap();
}

#[test]
fn cancelled_run_leaves_nothing() {
    let sandbox = tempfile::tempdir().unwrap();
    let mut convert = conversion(FileType::F32, sandbox.path().join("a.gguf"));
    convert.output.threads = 1.try_into().ok();
    let error = convert.run(&Watching { stops: true, ..Watching::default() }).unwrap_err();
    assert!(error.is_interrupted(), "{error}");
    assert_eq!(fs::read_dir(sandbox.path()).unwrap().count(), 0);
}

#[test]
fn interrupted_run_is_resumed() {
    let sandbox = tempfile::tempdir().unwrap();
    let whole = sandbox.path().join("whole.gguf");
    conversion(FileType::F32, &whole).run(&()).unwrap();
    let path = sandbox.path().join("a.gguf");
    let mut convert = conversion(FileType::F32, &path);
    convert.output.threads = 1.try_into().ok();
    convert.output.resumable = true;
    let error = convert.run(&Watching { stops: true, ..Watching::default() }).unwrap_err();
    assert!(error.is_interrupted() && !path.exists(), "{error}");
    // Another call would give other bytes.
    let mut other = convert.clone();
    other.output.resume = true;
    other.naming.model_name = Some("Other".to_owned());
    let error = other.run(&()).unwrap_err();
    assert!(error.to_string().contains("cannot resume"), "{error}");
    convert.output.resume = true;
    convert.run(&()).unwrap();
    assert!(fs::read(&path).unwrap() == fs::read(&whole).unwrap());
    assert_eq!(fs::read_dir(sandbox.path()).unwrap().count(), 2);
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
    for file_type in [FileType::BF16, FileType::Q4_K_M] {
        let of_folder = sandbox.path().join(format!("folder-{file_type}.gguf"));
        let of_memory = sandbox.path().join(format!("memory-{file_type}.gguf"));
        conversion(file_type, &of_folder).run(&()).unwrap();
        let mut save = Save::new([file_type]);
        save.output.out = Some(of_memory.clone());
        save.run(memory(), &()).unwrap();
        assert!(fs::read(of_folder).unwrap() == fs::read(of_memory).unwrap(), "{file_type}");
    }
}

#[test]
fn invalid_state_dict_is_refused() {
    let refused = |change: &dyn Fn(&mut Memory)| {
        let mut memory = memory();
        change(&mut memory);
        let error = Save::new([FileType::F32]).plan(memory, &()).unwrap_err();
        assert_eq!(error.path(), None, "{error}");
        (error.facts(), error.to_string())
    };
    let (facts, text) = refused(&|memory| memory.files.clear());
    assert_eq!(facts["file"], "config.json", "{text}");
    let (facts, text) = refused(&|memory| memory.tensors[3].shape[0] += 1);
    assert!(facts.contains_key("tensor") && facts["expected"] != facts["found"], "{text}");
    let (facts, text) = refused(&|memory| memory.tensors[3].shape = vec![u64::MAX, 3]);
    assert!(facts.contains_key("tensor") && facts.contains_key("found"), "{text}");
    let (facts, text) = refused(&|memory| memory.tensors.push(memory.tensors[0].clone()));
    assert_eq!(facts["tensor"], self::memory().tensors[0].name, "{text}");
    let (_, text) = refused(&|memory| {
        let config = memory.files.iter_mut().find(|(name, _)| name == "config.json").unwrap();
        config.1 = b"[1]".to_vec();
    });
    assert!(text.contains("config.json"), "{text}");
    let (facts, text) = refused(&|memory| {
        memory.tensors.retain(|tensor| tensor.name != "model.norm.weight");
    });
    assert!(facts.contains_key("tensor"), "{text}");
}

/// Llama under another name, as a crate that this one knows nothing of would write it.
static MINE: Arch = {
    let mut arch = DECODER;
    arch.name = "mine";
    arch.classes = const { &[Class::new("MineForCausalLM")] };
    arch.tensors = &[rules::DECODER_ENDS, rules::PRE_NORMS, rules::ATTENTION_PERMUTED, rules::GATED_MLP];
    arch.vocab = Route::SENTENCE_PIECE;
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
    let error = Save::new([FileType::BF16]).plan(memory.clone(), &()).unwrap_err();
    assert_eq!(error.facts()["found"], "MineForCausalLM", "{error}");
    let path = sandbox.path().join("mine.gguf");
    let mut save = Save::new([FileType::BF16]);
    save.arch.custom = Some(&MINE);
    save.output.out = Some(path.clone());
    save.run(memory, &()).unwrap();
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

/// Quantizes a file.
fn quantize(source: &Path, file_type: FileType, out: &Path) {
    let mut quantize = Quantize::new(source, [file_type]);
    quantize.output.out = Some(out.to_owned());
    quantize.run(&()).unwrap();
}

#[test]
fn encoded_blocks_match_file() {
    let sandbox = tempfile::tempdir().unwrap();
    let bf16 = bf16(sandbox.path());
    let path = sandbox.path().join("q4_0.gguf");
    quantize(&bf16, FileType::Q4_0, &path);
    let (from, to) = (gguf_toolkit::open(&bf16).unwrap(), gguf_toolkit::open(&path).unwrap());
    let tensor = to.tensor("blk.1.ffn_up.weight").unwrap();
    assert_eq!(tensor.dtype(), DType::Q4_0);
    let values = from.tensor(tensor.name()).unwrap().decode().unwrap();
    let values = values.into_dimensionality().unwrap();
    let blocks = gguf_toolkit::encode(DType::Q4_0, values.view()).unwrap();
    assert_eq!(blocks.as_slice().unwrap(), tensor.bytes().unwrap());
    let decoded = gguf_toolkit::decode(DType::Q4_0, blocks.view()).unwrap();
    assert_eq!(decoded.into_dyn(), tensor.decode().unwrap());
    // Columns of another matrix are not consecutive and are encoded all the same.
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
            assert_eq!(error.facts()["found"], "255", "{dtype}: {error}");
        }
    }
    let error = gguf_toolkit::encode(DType::IQ2_XXS, values.view()).unwrap_err();
    assert_eq!(error.facts()["expected"], "importance weights", "{error}");
}

#[test]
fn files_are_measured() {
    let sandbox = tempfile::tempdir().unwrap();
    let exact = bf16(sandbox.path());
    let rounded = sandbox.path().join("q8_0.gguf");
    quantize(&exact, FileType::Q8_0, &rounded);
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
    assert_eq!(error.facts()["expected"], "128", "{error}");
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
    // The flag of the events stops it before the prompt is read, and after a token.
    for is_set in [true, false] {
        let (flag, mut n_pieces) = (Arc::new(AtomicBool::new(is_set)), 0);
        let mut cancel = |_: &str| {
            n_pieces += 1;
            flag.store(true, Ordering::Relaxed);
            ControlFlow::Continue(())
        };
        let events = Cancelling(Arc::clone(&flag));
        let error = model.generate("The quick brown fox", &options, &mut cancel, &events).unwrap_err();
        assert!(error.is_interrupted(), "{error}");
        assert_eq!(n_pieces, usize::from(!is_set));
    }
    assert!(model.logits(&[]).unwrap().is_empty());
    assert!(model.logits(&[u32::MAX]).is_err());

    // A chat of one message is the prompt of a user.
    let asked = "Where is it?";
    let answered = GenerateOptions { chat: true, ..options.clone() };
    let chat = Chat::parse(&format!(r#"[{{"role": "user", "content": "{asked}"}}]"#)).unwrap();
    let template = ChatOptions::default();
    let one = model.generate(asked, &answered, &mut keep_all, &()).unwrap();
    let same = model.generate_chat(&chat, &template, &options, &mut keep_all, &()).unwrap();
    assert_eq!((&same.tokens, same.n_prompt), (&one.tokens, one.n_prompt));
    let system = GenerateOptions { system: Some("Be brief.".to_owned()), ..answered };
    assert!(model.generate_chat(&chat, &template, &system, &mut keep_all, &()).is_err());

    let unpaired = GenerateOptions { images: vec!["cat.png".into()], ..Default::default() };
    let error = model.generate("What is this?", &unpaired, &mut keep_all, &()).unwrap_err();
    assert_eq!(error.kind(), gguf_toolkit::ErrorKind::Usage);
    let error = model.embed(&["text"], &EmbedOptions::default()).unwrap_err();
    assert!(error.to_string().contains("pooling"), "{error}");
    let pooling = Some(gguf_toolkit::run::Pooling::Mean);
    let options = EmbedOptions { pooling, normalize: true, ..EmbedOptions::default() };
    let found = model.embed(&["one", "one two"], &options).unwrap();
    for embedding in &found.texts {
        assert_eq!(embedding.vectors.dim(), (1, 256));
        assert!((embedding.vectors.iter().map(|x| x * x).sum::<f32>() - 1.0).abs() < 1e-5);
    }
}

struct Cancelling(Arc<AtomicBool>);

impl Events for Cancelling {
    fn cancel(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.0)
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
    assert_eq!(error.facts()["found"], "GGML");
    assert!(error.to_string().starts_with(&path.display().to_string()), "{error}");
    let mut convert = conversion(FileType::IQ2_XXS, sandbox.path());
    assert!(convert.plan(&()).unwrap().problem.is_some());
    let error = convert.run(&()).unwrap_err();
    assert!(error.facts().contains_key("tensor") && !error.hints().is_empty(), "{error}");
    convert.types.clear();
    convert.memory = Some(1000);
    let error = convert.plan(&()).unwrap_err();
    assert_eq!(error.to_string(), "model too large for 1.00 kB of memory");
}
