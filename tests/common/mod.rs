//! Runs the built binaries as a user does: in a fresh folder, with relative paths, so that what
//! they print can be pinned.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::{Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

pub use gguf_testkit::{Tensors, copy_folder, read_json, sha256};
use serde_json::Value as Json;
use tempfile::TempDir;

/// Result of a run.
#[derive(Debug, PartialEq, Eq)]
pub struct Output {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Output {
    /// Standard output, parsed.
    #[track_caller]
    pub fn json(&self) -> Json {
        serde_json::from_str(&self.stdout).unwrap_or_else(|_| panic!("{self:?}"))
    }

    /// Checks that a message contains this text.
    #[track_caller]
    pub fn says(&self, text: &str) {
        assert!(self.stderr.contains(text), "`{text}` is not in {}", self.stderr);
    }

    /// Checks that the messages begin with this text.
    #[track_caller]
    pub fn begins(&self, text: &str) {
        assert!(self.stderr.starts_with(text), "`{text}` is not the start of {}", self.stderr);
    }

    /// Checks the exit code and [what a message contains](Self::says).
    #[track_caller]
    pub fn ends_and_says(&self, code: i32, text: &str) {
        assert_eq!(self.code, Some(code), "{}", self.stderr);
        self.says(text);
    }

    /// Checks the exit code and [how the messages begin](Self::begins).
    #[track_caller]
    pub fn ends_and_begins(&self, code: i32, text: &str) {
        assert_eq!(self.code, Some(code), "{}", self.stderr);
        self.begins(text);
    }
}

/// Done, and nothing said.
pub fn silent() -> Output {
    Output { code: Some(0), stdout: String::new(), stderr: String::new() }
}

/// The arguments of a call, none of which contains a space.
pub fn words(line: &str) -> Vec<&str> {
    line.split(' ').collect()
}

/// Result of a run that must succeed.
#[track_caller]
pub fn succeed(ran: Output) -> Output {
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    ran
}

/// Sends a running program a signal: `INT`, `STOP`, `CONT`.
pub fn signal(child: &Child, name: &str) {
    let status = Command::new("kill").args([&format!("-{name}"), &child.id().to_string()]).status();
    assert!(status.unwrap().success(), "kill -{name}");
}

/// Result of a running program, once it has ended.
pub fn finish(child: Child) -> Output {
    let output = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Output { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

/// A running program that has come so far, which takes this many seconds at most.
pub fn wait_until(mut child: Child, seconds: u64, is_there: impl Fn() -> bool) -> Child {
    let begun = Instant::now();
    while !is_there() {
        assert!(begun.elapsed() < Duration::from_secs(seconds), "it does not come so far");
        if child.try_wait().unwrap().is_some() {
            panic!("it ended before it came so far: {}", finish(child).stderr);
        }
        thread::sleep(Duration::from_millis(1));
    }
    child
}

/// True if a journal lists rows.
pub fn has_finished_rows(journal: &Path) -> bool {
    fs::read_to_string(journal).is_ok_and(|text| text.contains("\"done\""))
}

/// Failed, with this to say.
pub fn failed(stderr: &str) -> Output {
    Output { code: Some(1), stdout: String::new(), stderr: stderr.to_owned() }
}

/// A fresh folder to run in.
pub struct Sandbox {
    folder: TempDir,
}

impl Sandbox {
    pub fn new() -> Sandbox {
        Sandbox { folder: tempfile::tempdir().unwrap() }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A sandbox with the folder `NAME`, a copy of this one, and the empty folder `out`.
    fn with_folder(name: &str, folder: &Path) -> Sandbox {
        let sandbox = Sandbox::new();
        copy_folder(folder, &sandbox.path(name));
        fs::create_dir(sandbox.path("out")).unwrap();
        sandbox
    }

    /// A sandbox whose folder `NAME` is the entire checkpoint of `golden/arch/NAME`; a model without a name
    /// gets that of its folder.
    pub fn with_golden(name: &str) -> Sandbox {
        Sandbox::with_folder(name, &gguf_testkit::checkpoint(name))
    }

    /// Adds the folder `NAME`, the entire checkpoint of `golden/arch/NAME`.
    pub fn add_golden(&self, name: &str) {
        copy_folder(&gguf_testkit::checkpoint(name), &self.path(name));
    }

    /// The same, and `file`, which the checkpoint becomes in this type.
    pub fn with_converted(name: &str, file: &str, file_type: &str) -> Sandbox {
        let sandbox = Sandbox::with_golden(name);
        succeed(sandbox.convert(&[name, file, "-t", file_type, "-q"]));
        sandbox
    }

    /// The same of `golden/projectors/NAME`, a checkpoint with a projector.
    pub fn with_projector(name: &str) -> Sandbox {
        Sandbox::with_folder(name, &gguf_testkit::projector(name))
    }

    /// A sandbox with the checkpoint `llama`, `base.gguf`, which it becomes in bf16, and a [text](Self::add_text).
    pub fn with_base_and_text() -> Sandbox {
        let sandbox = Sandbox::with_converted("llama", "base.gguf", "bf16");
        sandbox.add_text();
        sandbox
    }

    /// Writes `text`, 11 kB: about 9,000 tokens of the tiny vocabularies.
    pub fn add_text(&self) {
        let license = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("LICENSE-APACHE");
        fs::copy(license, self.path("text")).unwrap();
    }

    /// Like this, with `golden/vision/NAME`, a checkpoint of a vision model.
    pub fn with_vision(name: &str) -> Sandbox {
        Sandbox::with_folder(name, &gguf_testkit::vision(name))
    }

    /// Like this, with `golden/audio/NAME`, a checkpoint of an audio model.
    pub fn with_audio(name: &str) -> Sandbox {
        Sandbox::with_folder(name, &gguf_testkit::audio(name))
    }

    /// The same of `golden/forms/NAME`, a quantized checkpoint.
    pub fn with_form(name: &str) -> Sandbox {
        Sandbox::with_folder(name, &gguf_testkit::form(name))
    }

    /// The command of a binary, to be run here.
    pub fn command(&self, binary: &str) -> Command {
        let mut command = Command::new(binary);
        command.current_dir(self.folder.path()).env_remove("GGUF_CPU_LEVEL").stdin(Stdio::null());
        // No test asks the Hub, and none finds what the user has in the cache.
        for variable in ["HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_ENDPOINT", "HF_TOKEN", "HF_TOKEN_PATH"]
        {
            command.env_remove(variable);
        }
        command.env("HF_HOME", self.path("hf")).env("HF_HUB_OFFLINE", "1");
        command
    }

    pub fn run(&self, binary: &str, args: &[&str]) -> Output {
        finish(self.spawn(binary, args))
    }

    /// Starts a binary here; [`finish`] says what it gave.
    pub fn spawn(&self, binary: &str, args: &[&str]) -> Child {
        self.command(binary).args(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    pub fn convert(&self, args: &[&str]) -> Output {
        self.run(env!("CARGO_BIN_EXE_gguf-convert"), args)
    }

    pub fn quantize(&self, args: &[&str]) -> Output {
        self.run(env!("CARGO_BIN_EXE_gguf-quantize"), args)
    }

    pub fn inspect(&self, args: &[&str]) -> Output {
        self.run(env!("CARGO_BIN_EXE_gguf-inspect"), args)
    }

    pub fn publish(&self, args: &[&str]) -> Output {
        self.run(env!("CARGO_BIN_EXE_gguf-publish"), args)
    }

    pub fn eval(&self, args: &[&str]) -> Output {
        self.run(env!("CARGO_BIN_EXE_gguf-eval"), args)
    }

    /// Contents of a file.
    pub fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).unwrap()
    }

    /// Contents of a file of text.
    pub fn text(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    /// Writes a file.
    pub fn write(&self, name: &str, contents: impl AsRef<[u8]>) {
        fs::write(self.path(name), contents).unwrap();
    }

    /// Changes a JSON file.
    pub fn edit_json(&self, name: &str, change: impl FnOnce(&mut Json)) {
        let mut json = self.json(name);
        change(&mut json);
        self.write(name, json.to_string());
    }

    /// Contents of a JSON file.
    pub fn json(&self, name: &str) -> Json {
        read_json(self.path(name))
    }

    /// Tensors of a safetensors file.
    pub fn tensors(&self, name: &str) -> Tensors {
        gguf_testkit::read_safetensors(&self.read(name))
    }

    /// Writes a safetensors file, and its folder if it is missing.
    pub fn write_tensors(&self, name: &str, tensors: &Tensors) {
        fs::create_dir_all(self.path(name).parent().unwrap()).unwrap();
        let tensors = tensors.iter();
        let tensors = tensors.map(|(name, (dtype, shape, bytes))| (&name[..], &dtype[..], &shape[..], bytes));
        self.write(name, gguf_testkit::safetensors(tensors));
    }

    /// A GGUF file.
    pub fn file(&self, name: &str) -> gguf_container::File {
        gguf_container::File::open(&self.path(name)).unwrap()
    }

    /// A GGUF file, with its other shards.
    pub fn model(&self, name: &str) -> gguf_container::Model {
        gguf_container::Model::open(&self.path(name)).unwrap()
    }

    /// Every file below `folder` with the digest of its bytes.
    pub fn listing(&self, folder: &str) -> BTreeMap<String, String> {
        let mut files = BTreeMap::new();
        list(&self.path(folder), "", &mut files);
        files
    }

    /// The names of the files in `out` without those of unfinished runs.
    pub fn finished_outputs(&self) -> Vec<String> {
        self.outputs().into_iter().filter(|name| !name.starts_with('.')).collect()
    }

    /// The names of the files in `out`.
    pub fn outputs(&self) -> Vec<String> {
        self.listing("out").into_keys().collect()
    }

    /// Replaces a text in a file; the text must be there.
    pub fn edit(&self, file: &str, from: &str, to: &str) {
        let bytes = fs::read(self.path(file)).unwrap();
        let at = bytes.windows(from.len()).position(|window| window == from.as_bytes());
        let at = at.unwrap_or_else(|| panic!("`{from}` is not in {file}"));
        let edited = [&bytes[..at], to.as_bytes(), &bytes[at + from.len()..]].concat();
        fs::write(self.path(file), edited).unwrap();
    }
}

pub fn golden(name: &str) -> PathBuf {
    gguf_testkit::golden_path(name)
}

fn list(folder: &Path, prefix: &str, files: &mut BTreeMap<String, String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let name = format!("{prefix}{}", entry.file_name().into_string().unwrap());
        if entry.file_type().unwrap().is_dir() {
            list(&entry.path(), &format!("{name}/"), files);
        } else {
            files.insert(name, sha256(&fs::read(entry.path()).unwrap()));
        }
    }
}

/// A llama checkpoint to be written into `tiny`: the tokenizer of `golden/arch/llama`, weights of
/// any size that are all zero and take no disk space.
pub struct Checkpoint {
    pub hidden: u64,
    pub feed_forward: u64,
    pub heads: u64,
}

impl Checkpoint {
    /// Writes it. Two heads share a key-value head; one layer; vocabulary of 384.
    pub fn write(&self, sandbox: &Sandbox) {
        let Checkpoint { hidden, feed_forward, heads } = *self;
        let (vocab, head_dim) = (384, hidden / heads);
        let kv = hidden / 2;
        fs::create_dir_all(sandbox.path("tiny")).unwrap();
        fs::create_dir_all(sandbox.path("out")).unwrap();
        for file in ["tokenizer.model", "tokenizer_config.json"] {
            let bytes = fs::read(golden("arch/llama").join(file)).unwrap();
            fs::write(sandbox.path("tiny").join(file), bytes).unwrap();
        }
        let config = format!(
            r#"{{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": {hidden},
            "intermediate_size": {feed_forward}, "num_attention_heads": {heads}, "head_dim": {head_dim},
            "num_key_value_heads": {}, "num_hidden_layers": 1, "vocab_size": {vocab},
            "max_position_embeddings": 512, "rms_norm_eps": 1e-06, "rope_theta": 10000.0,
            "bos_token_id": 1, "eos_token_id": 2, "tie_word_embeddings": false}}"#,
            heads / 2
        );
        fs::write(sandbox.path("tiny/config.json"), config).unwrap();
        let layer = "model.layers.0";
        let tensors = [
            ("model.embed_tokens.weight".to_owned(), vec![vocab, hidden]),
            ("lm_head.weight".to_owned(), vec![vocab, hidden]),
            ("model.norm.weight".to_owned(), vec![hidden]),
            (format!("{layer}.input_layernorm.weight"), vec![hidden]),
            (format!("{layer}.post_attention_layernorm.weight"), vec![hidden]),
            (format!("{layer}.self_attn.q_proj.weight"), vec![hidden, hidden]),
            (format!("{layer}.self_attn.k_proj.weight"), vec![kv, hidden]),
            (format!("{layer}.self_attn.v_proj.weight"), vec![kv, hidden]),
            (format!("{layer}.self_attn.o_proj.weight"), vec![hidden, hidden]),
            (format!("{layer}.mlp.gate_proj.weight"), vec![feed_forward, hidden]),
            (format!("{layer}.mlp.up_proj.weight"), vec![feed_forward, hidden]),
            (format!("{layer}.mlp.down_proj.weight"), vec![hidden, feed_forward]),
        ];
        let mut end = 0;
        let entries: Vec<String> = tensors
            .iter()
            .map(|(name, shape)| {
                let begin = end;
                end += 2 * shape.iter().product::<u64>();
                format!(r#""{name}":{{"dtype":"BF16","shape":{shape:?},"data_offsets":[{begin},{end}]}}"#)
            })
            .collect();
        let header = format!("{{{}}}", entries.join(","));
        let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
        bytes.extend_from_slice(header.as_bytes());
        let path = sandbox.path("tiny/model.safetensors");
        fs::write(&path, &bytes).unwrap();
        let file = fs::File::options().write(true).open(&path).unwrap();
        file.set_len(bytes.len() as u64 + end).unwrap();
    }
}

/// A tensor of f32 with random values of `seed`, for [`Tensors`].
pub fn floats(seed: u64, shape: &[u64]) -> (String, Vec<u64>, Vec<u8>) {
    let n_elems = shape.iter().product::<u64>();
    let bytes = (0..n_elems).flat_map(|at| gguf_testkit::normal(seed, at).to_le_bytes()).collect();
    ("F32".to_owned(), shape.to_vec(), bytes)
}

/// Numbers that look random and are the same in every run.
pub struct Numbers(pub u64);

impl Numbers {
    pub fn next(&mut self) -> u64 {
        // SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators).
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

/// A sandbox with the checkpoint `tiny` of 4.3 million weights, none of them zero, so that a file that was not written
/// shows.
pub fn sandbox_of_weights() -> Sandbox {
    let sandbox = Sandbox::new();
    Checkpoint { hidden: 512, feed_forward: 2048, heads: 4 }.write(&sandbox);
    let path = sandbox.path("tiny/model.safetensors");
    let mut file = fs::File::options().read(true).write(true).open(&path).unwrap();
    let mut length = [0; 8];
    file.read_exact(&mut length).unwrap();
    let begin = 8 + u64::from_le_bytes(length);
    let n_values = (file.metadata().unwrap().len() - begin) / 2;
    let mut numbers = Numbers(7);
    // bf16 of magnitudes around 0.01: sign, exponents 119 and 120, any mantissa.
    let value =
        |number: u64| ((number as u16 & 0x8000) | 0x3b80 | (number >> 32) as u16 & 0xff).to_le_bytes();
    let values: Vec<u8> = (0..n_values).flat_map(|_| value(numbers.next())).collect();
    file.seek(SeekFrom::Start(begin)).unwrap();
    file.write_all(&values).unwrap();
    sandbox
}

/// Largest difference between two rows of the same length; infinite if one is not a number.
pub fn largest_difference(want: &[f32], have: &[f32]) -> f32 {
    assert_eq!(want.len(), have.len());
    let differences = want.iter().zip(have).map(|(want, have)| (want - have).abs());
    differences.fold(0.0, |worst, x| if x.is_nan() { f32::INFINITY } else { worst.max(x) })
}

/// Result of `gguf-inspect verify` with these arguments: the exit code, the codes of all findings but notes,
/// and the entire report.
pub fn verify(sandbox: &Sandbox, args: &[&str]) -> (Option<i32>, BTreeSet<String>, String) {
    let ran = sandbox.inspect(&[&["verify", "--json", "-q"], args].concat());
    let report: Json =
        serde_json::from_str(&ran.stdout).unwrap_or_else(|_| panic!("{args:?}: {}", ran.stderr));
    let findings =
        report["checks"].as_array().unwrap().iter().flat_map(|check| check["findings"].as_array().unwrap());
    let grave = findings.filter(|finding| finding["severity"] != "note");
    let codes = grave.map(|finding| finding["code"].as_str().unwrap().to_owned()).collect();
    assert_eq!(report["good"], ran.code == Some(0), "{args:?}");
    (ran.code, codes, ran.stdout)
}
