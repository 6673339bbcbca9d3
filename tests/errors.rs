//! `tests/snapshots/errors.md` lists each kind of error with an example, printed by runs of the programs.
//! `BLESS=1 cargo test --test errors` writes it anew.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "errors/calibration.rs"]
mod calibration;
mod common;
#[path = "errors/plans.rs"]
mod plans;

use std::{fmt::Write, fs, path::Path};

use common::{Sandbox, golden};

const CONVERT: &str = env!("CARGO_BIN_EXE_gguf-convert");
const QUANTIZE: &str = env!("CARGO_BIN_EXE_gguf-quantize");
const INSPECT: &str = env!("CARGO_BIN_EXE_gguf-inspect");
const EVAL: &str = env!("CARGO_BIN_EXE_gguf-eval");

/// One kind of error: what it is called, what is done to a place with the checkpoint `llama`, what is called, the exit code.
type Kind = (&'static str, fn(&Sandbox), &'static str, &'static [&'static str], i32);

/// A part of the page, and what stands at its head.
type Part = (&'static str, &'static str, &'static [Kind]);

const AS_IT_IS: fn(&Sandbox) = |_| {};

fn write(sandbox: &Sandbox, name: &str, bytes: impl AsRef<[u8]>) {
    fs::write(sandbox.path(name), bytes).unwrap();
}

/// The file of the checkpoint in a type, called `model.gguf`.
fn model(sandbox: &Sandbox, file_type: &str) {
    let ran = sandbox.convert(&["llama", "model.gguf", "-t", file_type, "-q"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
}

/// A file cut to a part of its length.
fn cut(sandbox: &Sandbox, name: &str, len: usize) {
    let bytes = fs::read(sandbox.path(name)).unwrap();
    write(sandbox, name, &bytes[..len]);
}

fn config(from: &'static str, to: &'static str) -> impl Fn(&Sandbox) {
    move |sandbox| sandbox.edit("llama/config.json", from, to)
}

/// The checkpoint with weights of torch alone, of these instructions.
fn pickle(sandbox: &Sandbox, instructions: &[u8]) {
    let pickle = testkit::Pickler::new().raw(instructions).stop();
    fs::remove_file(sandbox.path("llama/model.safetensors")).unwrap();
    let archive = testkit::zip(&[("archive/data.pkl", &pickle), ("archive/version", b"3\n")]);
    write(sandbox, "llama/pytorch_model.bin", archive);
}

const TO_Q8_0: &[&str] = &["llama", "out.gguf", "--type", "q8_0"];

const PARTS: &[Part] = &[
    (
        "The call",
        "What is wrong with a call is said before anything is read; the exit code is 2.",
        &[
            (
                "An option of another program",
                AS_IT_IS,
                CONVERT,
                &["llama", "--type", "q8_0", "--fuse-qkv"],
                2,
            ),
            ("A type that there is not", AS_IT_IS, QUANTIZE, &["model.gguf", "out.gguf", "q4km"], 2),
            ("An argument that is missing", AS_IT_IS, INSPECT, &["show"], 2),
        ],
    ),
    (
        "Inputs and outputs",
        "An input is never written to; an output has its name only when it is whole, and replaces nothing unless `--force` is given.",
        &[
            ("An input that is not there", AS_IT_IS, CONVERT, &["none", "out.gguf", "--type", "q8_0"], 1),
            ("An input of another kind", AS_IT_IS, QUANTIZE, &["llama", "q8_0"], 1),
            ("A model that is not here", AS_IT_IS, CONVERT, &["org/model", "out.gguf", "--type", "q8_0"], 1),
            ("An output that is there", |sandbox| write(sandbox, "out.gguf", "mine"), CONVERT, TO_Q8_0, 1),
            (
                "An output inside of the input",
                AS_IT_IS,
                CONVERT,
                &["llama", "llama/out.gguf", "--type", "q8_0"],
                1,
            ),
            ("A folder that is missing", AS_IT_IS, CONVERT, &["llama", "none/out.gguf", "--type", "q8_0"], 1),
            (
                "A checkpoint without weights",
                |sandbox| {
                    fs::remove_file(sandbox.path("llama/model.safetensors")).unwrap();
                },
                CONVERT,
                TO_Q8_0,
                1,
            ),
            (
                "Weights of another program",
                |sandbox| {
                    fs::remove_file(sandbox.path("llama/model.safetensors")).unwrap();
                    write(sandbox, "llama/model.onnx", "");
                },
                CONVERT,
                TO_Q8_0,
                1,
            ),
        ],
    ),
    (
        "Weights files",
        "Every length is compared with the file before it is used. Files of an index stay inside of the folder, and so do links, but for \
         those to the Hub's cache. A pickle is read as data: nothing that it names is called.",
        &[
            (
                "A file that is cut",
                |sandbox| cut(sandbox, "llama/model.safetensors", 2_000_000),
                CONVERT,
                TO_Q8_0,
                1,
            ),
            (
                "A header that does not parse",
                |sandbox| {
                    sandbox.edit("llama/model.safetensors", r#""BF16","shape""#, r#""BF16";"shape""#);
                },
                CONVERT,
                TO_Q8_0,
                1,
            ),
            (
                "A header that lies",
                |sandbox| {
                    sandbox.edit("llama/model.safetensors", r#""BF16""#, r#""F32" "#);
                },
                CONVERT,
                TO_Q8_0,
                1,
            ),
            (
                "A dtype that nobody knows",
                |sandbox| {
                    sandbox.edit("llama/model.safetensors", r#""BF16""#, r#""BF17""#);
                },
                CONVERT,
                TO_Q8_0,
                1,
            ),
            (
                "A tensor in two files",
                |sandbox| {
                    fs::copy(
                        sandbox.path("llama/model.safetensors"),
                        sandbox.path("llama/model-2.safetensors"),
                    )
                    .unwrap();
                },
                CONVERT,
                TO_Q8_0,
                1,
            ),
            (
                "A shard that is missing",
                |sandbox| {
                    let index = r#"{"weight_map": {"a": "model-00001-of-00002.safetensors"}}"#;
                    write(sandbox, "llama/model.safetensors.index.json", index);
                    // Whole weights beside such an index would be read instead.
                    fs::remove_file(sandbox.path("llama/model.safetensors")).unwrap();
                },
                CONVERT,
                TO_Q8_0,
                1,
            ),
            (
                "An index of other tensors",
                |sandbox| {
                    let index = r#"{"weight_map": {"a": "model.safetensors"}}"#;
                    write(sandbox, "llama/model.safetensors.index.json", index);
                },
                CONVERT,
                TO_Q8_0,
                1,
            ),
            (
                "An index that leads out of the folder",
                |sandbox| {
                    let index = r#"{"weight_map": {"a": "../../etc/passwd"}}"#;
                    write(sandbox, "llama/model.safetensors.index.json", index);
                },
                CONVERT,
                TO_Q8_0,
                1,
            ),
            (
                "A link that leads out of the folder",
                |sandbox| {
                    fs::remove_file(sandbox.path("llama/tokenizer.model")).unwrap();
                    std::os::unix::fs::symlink("/etc/hostname", sandbox.path("llama/tokenizer.model"))
                        .unwrap();
                },
                CONVERT,
                TO_Q8_0,
                1,
            ),
            (
                "A pickle that wants to run something",
                |sandbox| {
                    pickle(sandbox, b"cposix\nsystem\nX\x02\0\0\0id\x85R");
                },
                CONVERT,
                TO_Q8_0,
                1,
            ),
            ("A pickle that is none", |sandbox| pickle(sandbox, b"\xff"), CONVERT, TO_Q8_0, 1),
            (
                "A value that is no number",
                |sandbox| {
                    let mut bytes = fs::read(sandbox.path("llama/model.safetensors")).unwrap();
                    let at = bytes.len() - 2;
                    bytes[at..].copy_from_slice(&0x7fc0u16.to_le_bytes());
                    write(sandbox, "llama/model.safetensors", bytes);
                },
                CONVERT,
                TO_Q8_0,
                1,
            ),
        ],
    ),
    (
        "Configs and architectures",
        "What is not known is named; nothing is guessed, and no tensor is passed over in silence.",
        &[
            (
                "A config that is not JSON",
                |sandbox| {
                    config("\"architectures\": [", "\"architectures\" [")(sandbox);
                },
                CONVERT,
                TO_Q8_0,
                1,
            ),
            (
                "JSON that is nested too deep",
                |sandbox| {
                    write(sandbox, "llama/config.json", "[".repeat(100_000));
                },
                CONVERT,
                TO_Q8_0,
                1,
            ),
            (
                "A class that is not known",
                |sandbox| {
                    config("LlamaForCausalLM", "LlamaForCausalLX")(sandbox);
                },
                CONVERT,
                TO_Q8_0,
                1,
            ),
            (
                "A key that is missing",
                |sandbox| config("\"num_attention_heads\": 4,", "")(sandbox),
                CONVERT,
                TO_Q8_0,
                1,
            ),
            (
                "A value of another type",
                |sandbox| {
                    config("\"num_attention_heads\": 4", "\"num_attention_heads\": \"4\"")(sandbox);
                },
                CONVERT,
                TO_Q8_0,
                1,
            ),
            (
                "Tensors that are missing",
                |sandbox| {
                    config("\"num_hidden_layers\": 2", "\"num_hidden_layers\": 3")(sandbox);
                },
                CONVERT,
                TO_Q8_0,
                1,
            ),
            (
                "Tensors that have no place",
                |sandbox| {
                    config("\"num_hidden_layers\": 2", "\"num_hidden_layers\": 1")(sandbox);
                },
                CONVERT,
                TO_Q8_0,
                1,
            ),
            (
                "A tensor of another shape",
                |sandbox| {
                    config("\"num_attention_heads\": 4", "\"num_attention_heads\": 3")(sandbox);
                },
                CONVERT,
                TO_Q8_0,
                1,
            ),
        ],
    ),
    (
        "Tokenizers",
        "A tokenizer is written as the model was trained with it, or not at all.",
        &[
            (
                "No tokenizer",
                |sandbox| {
                    fs::remove_file(sandbox.path("llama/tokenizer.model")).unwrap();
                },
                CONVERT,
                TO_Q8_0,
                1,
            ),
            (
                "A SentencePiece model that is none",
                |sandbox| {
                    write(sandbox, "llama/tokenizer.model", "\x0a\x7f");
                },
                CONVERT,
                TO_Q8_0,
                1,
            ),
            (
                "More tokens than the embedding has rows",
                |sandbox| {
                    config("\"vocab_size\": 384", "\"vocab_size\": 500")(sandbox);
                },
                CONVERT,
                TO_Q8_0,
                1,
            ),
        ],
    ),
    (
        "GGUF files",
        "`gguf-inspect verify` says all that is wrong with a file; every other command stops at the first.",
        &[
            (
                "A file of another kind",
                |sandbox| write(sandbox, "model.gguf", "{}  "),
                INSPECT,
                &["show", "model.gguf"],
                1,
            ),
            (
                "A file that is cut",
                |sandbox| {
                    model(sandbox, "q8_0");
                    cut(sandbox, "model.gguf", 100_000);
                },
                INSPECT,
                &["show", "model.gguf"],
                1,
            ),
            (
                "Sizes whose product wraps",
                |sandbox| {
                    write(
                        sandbox,
                        "model.gguf",
                        fs::read(golden("gguf-malicious/evil_overflow.gguf")).unwrap(),
                    );
                },
                INSPECT,
                &["show", "model.gguf"],
                1,
            ),
            (
                "More dimensions than there are",
                |sandbox| {
                    write(sandbox, "model.gguf", fs::read(golden("gguf-malicious/evil_ndims.gguf")).unwrap());
                },
                INSPECT,
                &["show", "model.gguf"],
                1,
            ),
            (
                "A key that is not there",
                |sandbox| model(sandbox, "q8_0"),
                INSPECT,
                &["unset", "model.gguf", "none"],
                1,
            ),
            (
                "A value of another type",
                |sandbox| {
                    model(sandbox, "q8_0");
                },
                INSPECT,
                &["set", "model.gguf", "llama.block_count=many"],
                2,
            ),
            (
                "A file that is not as it should be",
                |sandbox| {
                    model(sandbox, "q8_0");
                    let ran = sandbox.inspect(&["set", "model.gguf", "llama.block_count=3", "-q"]);
                    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
                },
                INSPECT,
                &["verify", "model.gguf", "--only", "architecture"],
                1,
            ),
            (
                "A template that does not end",
                |sandbox| {
                    model(sandbox, "q8_0");
                    let endless =
                        "{% for i in range(9999) %}{% for i in range(9999) %}{% endfor %}{% endfor %}";
                    let set = format!("tokenizer.chat_template=str:{endless}");
                    let ran = sandbox.inspect(&["set", "model.gguf", &set, "-q"]);
                    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
                },
                INSPECT,
                &["verify", "model.gguf", "--only", "template"],
                1,
            ),
            (
                "A template that grows and grows",
                |sandbox| {
                    model(sandbox, "q8_0");
                    let growing = "{% set x = namespace(s='text') %}{% for i in range(60) %}{% set x.s = x.s ~ x.s %}{% endfor %}";
                    // `set` refuses it with the same error.
                    let path = sandbox.path("model.gguf");
                    let file = gguf::File::open(&path).unwrap();
                    let mut metadata = file.metadata().clone();
                    metadata.set("tokenizer.chat_template", growing);
                    let edit = gguf::Edit::new(&file, metadata, gguf::Slack::Use).unwrap();
                    drop(file);
                    edit.write_new(&path, &path, true).unwrap();
                },
                INSPECT,
                &["verify", "model.gguf", "--only", "template"],
                1,
            ),
            (
                "A digest that differs",
                |sandbox| {
                    write(sandbox, "a", "a");
                    write(sandbox, "SHA256SUMS", format!("{}  a\n", "0".repeat(64)));
                },
                INSPECT,
                &["hash", "--check", "SHA256SUMS"],
                1,
            ),
        ],
    ),
    (
        "Types",
        "A run decides about every tensor before it reads the first weight.",
        &[
            (
                "Weights that are quantized already",
                |sandbox| {
                    model(sandbox, "q4_0");
                },
                QUANTIZE,
                &["model.gguf", "out.gguf", "q3_k_m"],
                1,
            ),
            (
                "A type that needs an importance matrix",
                |sandbox| {
                    model(sandbox, "f16");
                },
                QUANTIZE,
                &["model.gguf", "out.gguf", "iq2_xxs"],
                1,
            ),
            (
                "A file that is no importance matrix",
                |sandbox| {
                    model(sandbox, "f16");
                    write(sandbox, "imatrix.dat", "{}");
                },
                QUANTIZE,
                &["--imatrix", "imatrix.dat", "model.gguf", "out.gguf", "q4_0"],
                1,
            ),
            (
                "A recipe of another model",
                |sandbox| {
                    model(sandbox, "f16");
                    let recipe = r#"{"format": "gguf-tools recipe", "version": 1, "outputs": [{"type": "Q4_0", "dtypes": {"x": "Q4_0"}}]}"#;
                    write(sandbox, "recipe.json", recipe);
                },
                QUANTIZE,
                &["--recipe", "recipe.json", "model.gguf", "out.gguf"],
                1,
            ),
            (
                "A recipe that is none",
                |sandbox| {
                    model(sandbox, "f16");
                    write(sandbox, "recipe.json", "{\"type\": \"q4_0\"}");
                },
                QUANTIZE,
                &["--recipe", "recipe.json", "model.gguf", "out.gguf"],
                1,
            ),
        ],
    ),
    plans::PART,
    (
        "Running a file",
        "A model is run only where all of it is understood.",
        &[
            (
                "An architecture without a graph",
                |sandbox| {
                    model(sandbox, "f16");
                    sandbox.edit("model.gguf", "\x05\0\0\0\0\0\0\0llama", "\x05\0\0\0\0\0\0\0llamb");
                },
                EVAL,
                &["generate", "model.gguf", "--prompt", "Hello"],
                1,
            ),
            (
                "A text that is too short",
                |sandbox| {
                    model(sandbox, "f16");
                    write(sandbox, "text", "Short.");
                },
                EVAL,
                &["perplexity", "model.gguf", "--text", "text"],
                1,
            ),
            (
                "A prompt in a form that the file has no template for",
                |sandbox| {
                    model(sandbox, "f16");
                    let ran = sandbox.inspect(&["unset", "model.gguf", "tokenizer.chat_template", "-q"]);
                    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
                },
                EVAL,
                &["generate", "model.gguf", "--chat", "--prompt", "Hello"],
                1,
            ),
        ],
    ),
    calibration::PART,
];

const HEAD: &str = "# Errors\n
What each kind of error looks like, printed by `BLESS=1 cargo test --test errors` from runs of the programs on a tiny checkpoint.\n
Errors go to stderr: a line that begins with `error:` says where, what was expected and what was found; lines that begin with `hint:`
say what to do about it. Exit codes: 0 done, 1 failed, 2 wrong call, 128 and the number of the signal where one asked the program to
stop (130 interrupted, 143 terminated, 129 hung up). An output has its name only when it is whole: after an error there is none.
[hostile-input.md](hostile-input.md) says what keeps files from strangers within bounds.\n";

#[test]
fn the_page_of_errors_is_what_programs_print() {
    let mut page = HEAD.to_owned();
    let mut wrong = Vec::new();
    for (title, says, kinds) in PARTS {
        let _ = write!(page, "\n## {title}\n\n{says}\n");
        for (kind, damage, binary, args, code) in *kinds {
            let sandbox = Sandbox::with_golden("llama");
            damage(&sandbox);
            let before = sandbox.listing("");
            let ran = sandbox.run(binary, args);
            let is_clean = !ran.stderr.contains("panicked") && sandbox.listing("") == before;
            if ran.code != Some(*code) || !is_clean {
                wrong.push(format!(
                    "{kind}: {:?}, nothing written: {is_clean}: {}{}",
                    ran.code, ran.stdout, ran.stderr
                ));
            }
            let program = Path::new(binary).file_name().unwrap().to_str().unwrap();
            let quoted =
                args.iter().map(|arg| if arg.contains(' ') { format!("'{arg}'") } else { (*arg).to_owned() });
            let call = quoted.collect::<Vec<_>>().join(" ");
            let said =
                format!("{}{}", ran.stdout, ran.stderr).replace(sandbox.path("").to_str().unwrap(), "/");
            let _ = write!(page, "\n**{kind}**\n\n```text\n$ {program} {call}\n{}\n```\n", said.trim_end());
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots/errors.md");
    if std::env::var_os("BLESS").is_some() {
        fs::write(path, page).unwrap();
    } else {
        let have = fs::read_to_string(path).unwrap();
        assert!(have == page, "tests/snapshots/errors.md: run `BLESS=1 cargo test --test errors`\n{page}");
    }
}
