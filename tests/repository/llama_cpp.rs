//! Calls in the words of llama.cpp's programs: each row of `docs/guides/coming-from-llama-cpp.md` is run in their words and in ours.

use std::{collections::BTreeMap, fs, path::Path};

use crate::common::{Output, Sandbox, copy_folder};

const BINARIES: [(&str, &str); 4] = [
    ("gguf-convert", env!("CARGO_BIN_EXE_gguf-convert")),
    ("gguf-quantize", env!("CARGO_BIN_EXE_gguf-quantize")),
    ("gguf-inspect", env!("CARGO_BIN_EXE_gguf-inspect")),
    ("gguf-eval", env!("CARGO_BIN_EXE_gguf-eval")),
];

/// The programs of llama.cpp, and what stands for them.
const PROGRAMS: [(&str, &[&str]); 5] = [
    ("convert_hf_to_gguf.py", &["gguf-convert"]),
    ("llama-quantize", &["gguf-quantize"]),
    ("llama-imatrix", &["gguf-eval", "imatrix"]),
    ("llama-perplexity", &["gguf-eval", "perplexity"]),
    ("llama-gguf-split", &["gguf-inspect", "split"]),
];

fn binary(name: &str) -> &'static str {
    BINARIES.iter().find(|(it, _)| *it == name).map(|(_, path)| *path).unwrap()
}

fn run(sandbox: &Sandbox, words: &[&str]) -> Output {
    sandbox.run(binary(words[0]), &words[1..])
}

/// A folder with what the commands of the page read.
fn template() -> Sandbox {
    let sandbox = Sandbox::with_golden("llama");
    let text = "The quick brown fox jumps over the lazy dog, reads some files and writes others. ".repeat(20);
    sandbox.write("text.txt", text);
    sandbox.write("tasks.txt", "A llama\n0\neats\nflies\nreads\nsings\n".repeat(3));
    for line in [
        "gguf-convert llama model-F32.gguf --type f32",
        "gguf-convert llama model-Q8_0.gguf --type q8_0",
        "gguf-eval imatrix model-F32.gguf --text text.txt --output imatrix.gguf --context 64",
        "gguf-eval compare model-F32.gguf --text text.txt --context 64 --save-logits base.kld",
        "gguf-inspect split model-F32.gguf part --split-max-tensors 12",
    ] {
        let ran = run(&sandbox, &line.split(' ').collect::<Vec<_>>());
        assert_eq!(ran.code, Some(0), "{line}: {}", ran.stderr);
    }
    sandbox
}

/// Runs words in a copy of a folder; what was printed, and what was written.
fn in_a_copy(template: &Sandbox, program: &Path, arguments: &[&str]) -> (Output, BTreeMap<String, String>) {
    let copy = Sandbox::new();
    copy_folder(&template.path("."), &copy.path("."));
    let ran = copy.run(program.to_str().unwrap(), arguments);
    let before = template.listing("");
    let mut files = copy.listing("");
    files.retain(|name, digest| before.get(name) != Some(digest));
    (ran, files)
}

#[test]
#[cfg(unix)]
fn llama_cpp_commands_match_ours() {
    let page =
        fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/guides/coming-from-llama-cpp.md"))
            .unwrap();
    let (_, page) = page.split_once("<!-- commands -->\n").unwrap();
    let (table, _) = page.split_once("<!-- /commands -->").unwrap();
    let template = template();
    let links = Sandbox::new();
    for (name, words) in PROGRAMS {
        std::os::unix::fs::symlink(binary(words[0]), links.path(name)).unwrap();
    }
    let mut n_of_program: BTreeMap<&str, usize> = BTreeMap::new();
    for line in table.lines().skip(2) {
        let cells: Vec<Vec<&str>> = line
            .trim_matches(['|', ' '])
            .split(" | ")
            .map(|cell| cell.trim_matches('`').split(' ').collect())
            .collect();
        let [theirs, ours] = &cells[..] else { panic!("no two commands: {line}") };
        *n_of_program.entry(theirs[0]).or_default() += 1;
        let (_, stands) = PROGRAMS.iter().find(|(name, _)| *name == theirs[0]).unwrap();
        let expected = in_a_copy(&template, Path::new(binary(ours[0])), &ours[1..]);
        assert_eq!(expected.0.code, Some(0), "{line}: {}", expected.0.stderr);
        let by_name = in_a_copy(&template, &links.path(theirs[0]), &theirs[1..]);
        let in_place =
            in_a_copy(&template, Path::new(binary(stands[0])), &[&stands[1..], &theirs[1..]].concat());
        for (ran, files) in [by_name, in_place] {
            assert_eq!(
                (ran.code, &ran.stdout),
                (expected.0.code, &expected.0.stdout),
                "{line}: {}",
                ran.stderr
            );
            assert_eq!(files, expected.1, "{line}");
        }
        assert!(!expected.0.stdout.is_empty() || !expected.1.is_empty(), "{line} does nothing");
    }
    assert_eq!(n_of_program.len(), PROGRAMS.len(), "{n_of_program:?}");
}

#[test]
fn unknown_options_are_refused_with_a_hint() {
    let sandbox = Sandbox::with_golden("llama");
    let generic = "this llama.cpp option is not supported";
    for (line, option, hint) in [
        ("gguf-eval perplexity -m x.gguf -ngl 99", "-ngl", generic),
        ("gguf-eval perplexity x.gguf --batch_size 512", "--batch-size", generic),
        ("gguf-eval generate x.gguf -p x -ngl 5", "-ngl", generic),
        ("gguf-inspect split --merge --delete-splits a b", "--delete-splits", generic),
        ("gguf-convert llama --fuse-qkv", "--fuse-qkv", generic),
        ("gguf-quantize --max-buffer-size 512 a b q8_0", "--max-buffer-size", generic),
        ("gguf-eval imatrix -m x.gguf --chunk 5", "--chunk", "use --part K/N"),
        ("gguf-eval compare -m x.gguf", "-m", "pass the model as an argument"),
        ("gguf-eval perplexity x.gguf --text t -n 5", "-n", "set the number of chunks with --chunks N"),
        ("gguf-convert llama -t q8_0 -f", "-f", "use --force"),
        ("gguf-convert llama --typ q8_0", "--typ", "did you mean `--type`?"),
        ("gguf-convert llama --zzzz", "--zzzz", "`gguf-convert --help` lists the options"),
    ] {
        let ran = run(&sandbox, &line.split(' ').collect::<Vec<_>>());
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""), "{line}: {}", ran.stderr);
        let expected = format!("error: unknown option `{option}`\nhint: {hint}");
        assert!(ran.stderr.starts_with(&expected), "{line}: {}", ran.stderr);
    }
    for (line, message) in [
        ("gguf-eval perplexity -m x.gguf --kl-divergence", "`--kl-divergence`: missing saved logits"),
        ("gguf-eval perplexity -m x.gguf --hellaswag", "`--hellaswag`: missing task file"),
        ("gguf-eval perplexity -m", "`-m`: missing value"),
        ("gguf-inspect split --split --merge a b", "exclude each other"),
        ("gguf-quantize -t 8 a b", "8 threads are `--threads 8`"),
    ] {
        let ran = run(&sandbox, &line.split(' ').collect::<Vec<_>>());
        assert!(ran.code == Some(2) && ran.stderr.contains(message), "{line}: {}", ran.stderr);
    }
}

#[test]
fn other_verbs_accept_llama_cpp_options() {
    let template = template();
    for (theirs, ours) in [
        (
            "gguf-eval generate --model model-F32.gguf -p The -n 3",
            "gguf-eval generate model-F32.gguf --prompt The --tokens 3",
        ),
        (
            "gguf-eval generate model-F32.gguf -p The --n-predict 3 --temp 0.5 -s 7 -t 2",
            "gguf-eval generate model-F32.gguf --prompt The --tokens 3 --temperature 0.5 --seed 7 --threads 2",
        ),
        (
            "gguf-eval compare model-F32.gguf model-Q8_0.gguf --file text.txt --ctx-size 64 --chunks 2",
            "gguf-eval compare model-F32.gguf model-Q8_0.gguf --text text.txt --context 64 --chunks 2",
        ),
        ("gguf-convert --outtype f16 -o new.gguf -m llama", "gguf-convert llama new.gguf --type f16"),
        (
            "gguf-quantize model-F32.gguf --outfile=new.gguf q8_0",
            "gguf-quantize model-F32.gguf new.gguf q8_0",
        ),
    ] {
        let [theirs, ours] = [theirs, ours].map(|line| {
            let words: Vec<&str> = line.split(' ').collect();
            in_a_copy(&template, Path::new(binary(words[0])), &words[1..])
        });
        assert_eq!(theirs.0.code, Some(0), "{}", theirs.0.stderr);
        assert_eq!((theirs.0.stdout, theirs.1), (ours.0.stdout, ours.1));
    }
}
