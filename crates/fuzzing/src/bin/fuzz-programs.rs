//! Runs mutated files through the four programs, each in its own process. Called by `scripts/fuzz-long programs`:
//!
//! ```text
//! fuzz-programs PROGRAMS CORPORA RUNS FROM
//! ```

use std::{
    collections::BTreeMap,
    env, fs,
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
    thread,
    time::{Duration, Instant},
};

use gguf_fuzzing::{Loop, piece, target, two_shards};

/// Documented exit codes of all programs.
const DOCUMENTED: [i32; 3] = [0, 1, 2];
/// A longer run is a hang, even on a busy machine.
const MAX_TIME: Duration = Duration::from_secs(30);

/// Calls with a mutant of a target: the target, the file name of the mutant, the programs' arguments. The
/// number of repetitions is the weight of a row: conversions cost more than headers.
const CALLS: &[(&str, &str, usize, &[&[&str]])] = &[
    (
        "gguf",
        "x.gguf",
        12,
        &[
            &["gguf-inspect", "show", "x.gguf"],
            &["gguf-inspect", "show", "x.gguf", "--json"],
            &["gguf-inspect", "show", "x.gguf", "--full"],
            &["gguf-inspect", "verify", "x.gguf"],
            &["gguf-inspect", "hash", "--tensors", "x.gguf"],
            &["gguf-inspect", "export-metadata", "x.gguf"],
            &["gguf-inspect", "recipe", "x.gguf"],
            &["gguf-inspect", "diff", "x.gguf", "good.gguf"],
            &["gguf-inspect", "set", "x.gguf", "a.b=u32:1", "--dry-run"],
            &["gguf-inspect", "endian", "x.gguf", "y.gguf", "--force"],
            &["gguf-quantize", "--dry-run", "x.gguf", "q4_0"],
            &["gguf-quantize", "--force", "x.gguf", "y.gguf", "q8_0", "1"],
            &["gguf-convert", "export", "x.gguf", "hf", "--dry-run"],
            &["gguf-eval", "perplexity", "x.gguf", "-f", "text"],
        ],
    ),
    (
        "tokenizer_keys",
        "x.gguf",
        6,
        &[
            &["gguf-inspect", "verify", "--json", "x.gguf"],
            &["gguf-inspect", "tokenizer", "x.gguf"],
            &["gguf-inspect", "show", "--full", "x.gguf"],
            &["gguf-eval", "generate", "x.gguf", "-p", "a", "-n", "2"],
        ],
    ),
    (
        "tokenizer",
        "tokenizer.json",
        6,
        &[&["gguf-inspect", "tokenizer", "good.gguf", "--against", "tokenizer.json"]],
    ),
    ("imatrix", "x.dat", 4, &[&["gguf-quantize", "--dry-run", "--imatrix", "x.dat", "good.gguf", "iq2_s"]]),
    ("recipe", "x.json", 4, &[&["gguf-quantize", "--dry-run", "--recipe", "x.json", "good.gguf"]]),
    ("metadata_json", "x.json", 3, &[&["gguf-inspect", "set", "good.gguf", "--from", "x.json", "--dry-run"]]),
    (
        "template",
        "x.jinja",
        3,
        &[&["gguf-inspect", "set", "good.gguf", "--chat-template", "x.jinja", "--dry-run"]],
    ),
    ("legacy", "x.bin", 3, &[&["gguf-convert", "x.bin", "y.gguf", "-t", "f16", "--force"]]),
    (
        "safetensors",
        "bare/model.safetensors",
        4,
        &[&["gguf-convert", "bare", "y.gguf", "-t", "f16", "--force"]],
    ),
    (
        "index",
        "indexed/model.safetensors.index.json",
        3,
        &[&["gguf-convert", "indexed", "y.gguf", "-t", "f16", "--force"]],
    ),
    ("card", "bare/README.md", 2, &[&["gguf-convert", "vocab", "bare", "y.gguf", "--force"]]),
    (
        "torch_zip",
        "torch/pytorch_model.bin",
        3,
        &[&["gguf-convert", "torch", "y.gguf", "-t", "f16", "--force"]],
    ),
    (
        "torch_pickle",
        "torch/pytorch_model.bin",
        3,
        &[&["gguf-convert", "torch", "y.gguf", "-t", "f16", "--force"]],
    ),
    (
        "sentencepiece",
        "llama/tokenizer.model",
        1,
        &[&["gguf-convert", "vocab", "llama", "y.gguf", "--force"]],
    ),
    (
        "measured_part",
        "x.part",
        2,
        &[
            &["gguf-eval", "perplexity", "--merge", "x.part"],
            &["gguf-eval", "compare", "--merge", "x.part"],
            &["gguf-eval", "imatrix", "--merge", "x.part", "-o", "y.gguf"],
        ],
    ),
    ("logits", "x.kld", 2, &[&["gguf-eval", "compare", "x.kld", "good.gguf"]]),
];

fn main() -> ExitCode {
    let args: Vec<String> = env::args().skip(1).collect();
    let [programs, corpora, runs, from] = &args[..] else {
        eprintln!("usage: fuzz-programs PROGRAMS CORPORA RUNS FROM");
        return ExitCode::from(2);
    };
    let (Ok(runs), Ok(from)) = (runs.parse::<u64>(), from.parse::<u64>()) else { return ExitCode::from(2) };
    let place = place(Path::new(programs));
    let loops: Vec<Loop> = CALLS.iter().map(|(name, ..)| loop_of(Path::new(corpora), name)).collect();
    let wheel: Vec<usize> =
        CALLS.iter().enumerate().flat_map(|(row, (_, _, weight, _))| vec![row; *weight]).collect();
    let mut counts: BTreeMap<(String, String), u64> = BTreeMap::new();
    let mut n_bad = 0;
    let mut slowest = (Duration::ZERO, String::new());
    for number in from..from + runs {
        let row = wheel[number as usize % wheel.len()];
        let (_, file, _, calls) = CALLS[row];
        let mutant = loops[row].mutant(number / wheel.len() as u64 * 31 + number % wheel.len() as u64);
        // An input of several files is replaced by its file of this name.
        let mutant = piece(&mutant, file).unwrap_or(mutant);
        let call = calls[(number as usize / wheel.len()) % calls.len()];
        let path = place.path().join(file);
        let before = fs::read(&path).ok();
        fs::write(&path, &mutant).expect("a temporary folder can be written");
        let begin = Instant::now();
        let ended = run(Path::new(programs), place.path(), call);
        let took = begin.elapsed();
        let line = format!("{number}: {}", call.join(" "));
        if took > slowest.0 {
            slowest = (took, line.clone());
        }
        if !DOCUMENTED.iter().any(|code| ended == code.to_string()) {
            n_bad += 1;
            println!("BAD {line}: {ended}");
            let saved = Path::new("target/fuzz-failures");
            fs::create_dir_all(saved).expect("a folder for failures");
            fs::write(saved.join(format!("program-{number}")), &mutant).expect("space for a failure");
        }
        *counts.entry((call[0].to_owned(), ended)).or_default() += 1;
        match before {
            Some(before) => fs::write(&path, before).expect("a temporary folder can be written"),
            None => fs::remove_file(&path).expect("what was written is there"),
        }
    }
    for ((program, ended), count) in counts {
        println!("{program}\t{ended}\t{count}");
    }
    println!("slowest\t{} ms\t{}", slowest.0.as_millis(), slowest.1);
    ExitCode::from(u8::from(n_bad > 0))
}

fn loop_of(corpora: &Path, name: &str) -> Loop {
    let target = target(name).expect("a target of this name");
    let mut paths: Vec<PathBuf> = fs::read_dir(corpora.join(name))
        .expect("a folder of seeds")
        .filter_map(|entry| Some(entry.ok()?.path()))
        .collect();
    paths.sort();
    Loop::new(target, paths.iter().filter_map(|path| fs::read(path).ok()).collect(), 2)
}

/// Creates an in-memory folder with the other files that calls need.
fn place(programs: &Path) -> tempfile::TempDir {
    let place =
        tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a temporary folder");
    let path = |name: &str| place.path().join(name);
    let llama = gguf_testkit::checkpoint("llama");
    for folder in ["llama", "bare", "torch", "indexed"] {
        fs::create_dir(path(folder)).expect("a folder");
    }
    for file in ["config.json", "tokenizer.model", "tokenizer_config.json"] {
        let bytes = fs::read(llama.join(file)).expect("a golden");
        for folder in ["llama", "bare", "torch", "indexed"] {
            fs::write(path(folder).join(file), &bytes).expect("a file");
        }
    }
    for (name, bytes) in ["model-1.safetensors", "model-2.safetensors"].iter().zip(two_shards()) {
        fs::write(path("indexed").join(name), bytes).expect("a file");
    }
    fs::write(path("text"), "Some text to read. ".repeat(200)).expect("a file");
    let ended = Command::new(programs.join("gguf-convert"))
        .args([&llama, &path("good.gguf")])
        .args(["-t", "f16", "-q"])
        .status()
        .expect("the program starts");
    assert!(ended.success(), "the good file is made");
    place
}

/// Runs a call; returns its exit code, or how else it ended.
fn run(programs: &Path, place: &Path, call: &[&str]) -> String {
    let mut child = Command::new(programs.join(call[0]))
        .args(&call[1..])
        .current_dir(place)
        .env("RAYON_NUM_THREADS", "1")
        .env("HF_HUB_OFFLINE", "1")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the program starts");
    let begin = Instant::now();
    loop {
        match child.try_wait().expect("a child can be waited for") {
            Some(status) => return status.code().map_or_else(|| status.to_string(), |code| code.to_string()),
            None if begin.elapsed() > MAX_TIME => {
                let _ = child.kill();
                let _ = child.wait();
                return format!("more than {} s", MAX_TIME.as_secs());
            }
            None => thread::sleep(Duration::from_micros(500)),
        }
    }
}
