//! `tests/snapshots/errors.md` lists each kind of error with an example, printed by runs of the programs.
//! `BLESS=1 cargo test --test all repository::errors` writes it anew.

mod calibration;
mod plans;

use std::{fmt::Write, fs, path::Path};

use crate::common::{Sandbox, golden, succeed};

const CONVERT: &str = env!("CARGO_BIN_EXE_gguf-convert");
const QUANTIZE: &str = env!("CARGO_BIN_EXE_gguf-quantize");
const INSPECT: &str = env!("CARGO_BIN_EXE_gguf-inspect");
const EVAL: &str = env!("CARGO_BIN_EXE_gguf-eval");

/// One kind of error: its name, the change to a sandbox with the checkpoint `llama`, the call, the exit code.
type Kind = (&'static str, fn(&Sandbox), &'static str, &'static [&'static str], i32);

/// A part of the page, and what stands at its head.
type Part = (&'static str, &'static str, &'static [Kind]);

const AS_IT_IS: fn(&Sandbox) = |_| {};

fn write(sandbox: &Sandbox, name: &str, bytes: impl AsRef<[u8]>) {
    sandbox.write(name, bytes);
}

/// The file of the checkpoint in a type, called `model.gguf`.
fn model(sandbox: &Sandbox, file_type: &str) {
    succeed(sandbox.convert(&["llama", "model.gguf", "-t", file_type, "-q"]));
}

/// A file cut to a part of its length.
fn cut(sandbox: &Sandbox, name: &str, len: usize) {
    let bytes = sandbox.read(name);
    write(sandbox, name, &bytes[..len]);
}

fn config(from: &'static str, to: &'static str) -> impl Fn(&Sandbox) {
    move |sandbox| sandbox.edit("llama/config.json", from, to)
}

/// The checkpoint with weights of torch alone, of these instructions.
fn pickle(sandbox: &Sandbox, instructions: &[u8]) {
    let pickle = gguf_testkit::Pickler::new().raw(instructions).stop();
    fs::remove_file(sandbox.path("llama/model.safetensors")).unwrap();
    let archive = gguf_testkit::zip(&[("archive/data.pkl", &pickle), ("archive/version", b"3\n")]);
    write(sandbox, "llama/pytorch_model.bin", archive);
}

const TO_Q8_0: &[&str] = &["llama", "out.gguf", "--type", "q8_0"];

const PARTS: &[Part] = &[
    (
        "Invalid command lines",
        "Invalid command lines are reported before any file is read, with exit code 2.",
        &[
            ("Option of another program", AS_IT_IS, CONVERT, &["llama", "--type", "q8_0", "--fuse-qkv"], 2),
            ("Unknown type", AS_IT_IS, QUANTIZE, &["model.gguf", "out.gguf", "q4_k_x"], 2),
            ("Missing argument", AS_IT_IS, INSPECT, &["show"], 2),
        ],
    ),
    (
        "Inputs and outputs",
        "`gguf-convert` and `gguf-quantize` never write to their inputs. An output file gets its final name only when it is complete. Existing files are not overwritten without `--force`.",
        &[
            ("Missing input", AS_IT_IS, CONVERT, &["missing-model", "out.gguf", "--type", "q8_0"], 1),
            ("Wrong kind of input", AS_IT_IS, QUANTIZE, &["llama", "q8_0"], 1),
            (
                "Model that is not available locally",
                AS_IT_IS,
                CONVERT,
                &["org/model", "out.gguf", "--type", "q8_0"],
                1,
            ),
            ("Existing output", |sandbox| write(sandbox, "out.gguf", "mine"), CONVERT, TO_Q8_0, 1),
            ("Output inside the input", AS_IT_IS, CONVERT, &["llama", "llama/out.gguf", "--type", "q8_0"], 1),
            ("Missing output folder", AS_IT_IS, CONVERT, &["llama", "missing/out.gguf", "--type", "q8_0"], 1),
            (
                "Checkpoint without weights",
                |sandbox| {
                    fs::remove_file(sandbox.path("llama/model.safetensors")).unwrap();
                },
                CONVERT,
                TO_Q8_0,
                1,
            ),
            (
                "Unsupported weight format",
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
        "Weight files",
        "Every length is checked against the file size before it is used. Files listed in an index must be in the folder itself. Links may \
         point outside the folder only if they lead to the local Hugging Face cache. A pickle is parsed as data; none of its code runs.",
        &[
            (
                "Truncated file",
                |sandbox| cut(sandbox, "llama/model.safetensors", 2_000_000),
                CONVERT,
                TO_Q8_0,
                1,
            ),
            (
                "Invalid header",
                |sandbox| {
                    sandbox.edit("llama/model.safetensors", r#""BF16","shape""#, r#""BF16";"shape""#);
                },
                CONVERT,
                TO_Q8_0,
                1,
            ),
            (
                "Inconsistent header",
                |sandbox| {
                    sandbox.edit("llama/model.safetensors", r#""BF16""#, r#""F32" "#);
                },
                CONVERT,
                TO_Q8_0,
                1,
            ),
            (
                "Unknown dtype",
                |sandbox| {
                    sandbox.edit("llama/model.safetensors", r#""BF16""#, r#""BF17""#);
                },
                CONVERT,
                TO_Q8_0,
                1,
            ),
            (
                "Tensor in two files",
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
                "Missing shard",
                |sandbox| {
                    let index = r#"{"weight_map": {"a": "model-00001-of-00002.safetensors"}}"#;
                    write(sandbox, "llama/model.safetensors.index.json", index);
                    // Without this, complete weights next to such an index would be read.
                    fs::remove_file(sandbox.path("llama/model.safetensors")).unwrap();
                },
                CONVERT,
                TO_Q8_0,
                1,
            ),
            (
                "Index that does not match the weights",
                |sandbox| {
                    let index = r#"{"weight_map": {"a": "model.safetensors"}}"#;
                    write(sandbox, "llama/model.safetensors.index.json", index);
                },
                CONVERT,
                TO_Q8_0,
                1,
            ),
            (
                "Index entry outside the folder",
                |sandbox| {
                    let index = r#"{"weight_map": {"a": "../../etc/passwd"}}"#;
                    write(sandbox, "llama/model.safetensors.index.json", index);
                },
                CONVERT,
                TO_Q8_0,
                1,
            ),
            (
                "Link out of the folder",
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
                "Pickle that executes code",
                |sandbox| {
                    pickle(sandbox, b"cposix\nsystem\nX\x02\0\0\0id\x85R");
                },
                CONVERT,
                TO_Q8_0,
                1,
            ),
            ("Invalid pickle", |sandbox| pickle(sandbox, b"\xff"), CONVERT, TO_Q8_0, 1),
            (
                "NaN in the weights",
                |sandbox| {
                    let mut bytes = sandbox.read("llama/model.safetensors");
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
        "Unknown values are reported by name. Values are never guessed, and tensors are never ignored silently.",
        &[
            (
                "Config that is not JSON",
                |sandbox| {
                    config("\"architectures\": [", "\"architectures\" [")(sandbox);
                },
                CONVERT,
                TO_Q8_0,
                1,
            ),
            (
                "JSON nested too deeply",
                |sandbox| {
                    write(sandbox, "llama/config.json", "[".repeat(100_000));
                },
                CONVERT,
                TO_Q8_0,
                1,
            ),
            (
                "Unknown architecture",
                |sandbox| {
                    config("LlamaForCausalLM", "LlamaForCausalLX")(sandbox);
                },
                CONVERT,
                TO_Q8_0,
                1,
            ),
            (
                "Missing key",
                |sandbox| config("\"num_attention_heads\": 4,", "")(sandbox),
                CONVERT,
                TO_Q8_0,
                1,
            ),
            (
                "Wrong type of value",
                |sandbox| {
                    config("\"num_attention_heads\": 4", "\"num_attention_heads\": \"4\"")(sandbox);
                },
                CONVERT,
                TO_Q8_0,
                1,
            ),
            (
                "Missing tensors",
                |sandbox| {
                    config("\"num_hidden_layers\": 2", "\"num_hidden_layers\": 3")(sandbox);
                },
                CONVERT,
                TO_Q8_0,
                1,
            ),
            (
                "Unused tensors",
                |sandbox| {
                    config("\"num_hidden_layers\": 2", "\"num_hidden_layers\": 1")(sandbox);
                },
                CONVERT,
                TO_Q8_0,
                1,
            ),
            (
                "Wrong tensor shape",
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
        "If the tokenizer of the model cannot be written exactly, the conversion fails. A note reports text that llama.cpp tokenizes differently.",
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
                "Invalid SentencePiece model",
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
        "`gguf-inspect verify` reports every error in a file; all other commands stop at the first one.",
        &[
            (
                "Not a GGUF file",
                |sandbox| write(sandbox, "model.gguf", "{}  "),
                INSPECT,
                &["show", "model.gguf"],
                1,
            ),
            (
                "Truncated file",
                |sandbox| {
                    model(sandbox, "q8_0");
                    cut(sandbox, "model.gguf", 100_000);
                },
                INSPECT,
                &["show", "model.gguf"],
                1,
            ),
            (
                "Sizes whose product overflows",
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
                "Too many dimensions",
                |sandbox| {
                    write(sandbox, "model.gguf", fs::read(golden("gguf-malicious/evil_ndims.gguf")).unwrap());
                },
                INSPECT,
                &["show", "model.gguf"],
                1,
            ),
            (
                "Missing metadata key",
                |sandbox| model(sandbox, "q8_0"),
                INSPECT,
                &["unset", "model.gguf", "none"],
                1,
            ),
            (
                "Wrong type of value",
                |sandbox| {
                    model(sandbox, "q8_0");
                },
                INSPECT,
                &["set", "model.gguf", "llama.block_count=many"],
                2,
            ),
            (
                "File that fails verification",
                |sandbox| {
                    model(sandbox, "q8_0");
                    succeed(sandbox.inspect(&["set", "model.gguf", "llama.block_count=3", "-q", "--force"]));
                },
                INSPECT,
                &["verify", "model.gguf", "--only", "architecture"],
                1,
            ),
            (
                "Template that does not terminate",
                |sandbox| {
                    model(sandbox, "q8_0");
                    let endless =
                        "{% for i in range(9999) %}{% for i in range(9999) %}{% endfor %}{% endfor %}";
                    let set = format!("tokenizer.chat_template=str:{endless}");
                    succeed(sandbox.inspect(&["set", "model.gguf", &set, "-q", "--force"]));
                },
                INSPECT,
                &["verify", "model.gguf", "--only", "template"],
                1,
            ),
            (
                "Template that exhausts memory",
                |sandbox| {
                    model(sandbox, "q8_0");
                    let growing = "{% set x = namespace(s='text') %}{% for i in range(60) %}{% set x.s = x.s ~ x.s %}{% endfor %}";
                    // `set` refuses it with the same error.
                    let path = sandbox.path("model.gguf");
                    let file = gguf_container::File::open(&path).unwrap();
                    let mut metadata = file.metadata().clone();
                    metadata.set("tokenizer.chat_template", growing);
                    let edit =
                        gguf_container::Edit::new(&file, metadata, gguf_container::Slack::Use).unwrap();
                    drop(file);
                    edit.write_new(&path, &path, true).unwrap();
                },
                INSPECT,
                &["verify", "model.gguf", "--only", "template"],
                1,
            ),
            (
                "Wrong checksum",
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
        "Without `--calibrate`, the type of every tensor is chosen before any weights are read.",
        &[
            (
                "Weights that are already quantized",
                |sandbox| {
                    model(sandbox, "q4_0");
                },
                QUANTIZE,
                &["model.gguf", "out.gguf", "q3_k_m"],
                1,
            ),
            (
                "Type that needs an importance matrix",
                |sandbox| {
                    model(sandbox, "f16");
                },
                QUANTIZE,
                &["model.gguf", "out.gguf", "iq2_xxs"],
                1,
            ),
            (
                "File that is not an importance matrix",
                |sandbox| {
                    model(sandbox, "f16");
                    write(sandbox, "imatrix.dat", "{}");
                },
                QUANTIZE,
                &["--imatrix", "imatrix.dat", "model.gguf", "out.gguf", "q4_0"],
                1,
            ),
            (
                "Recipe of another model",
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
                "Invalid recipe",
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
        "A model runs only if every part of it is supported.",
        &[
            (
                "Architecture that cannot be run",
                |sandbox| {
                    model(sandbox, "f16");
                    sandbox.edit("model.gguf", "\x05\0\0\0\0\0\0\0llama", "\x05\0\0\0\0\0\0\0llamb");
                },
                EVAL,
                &["generate", "model.gguf", "--prompt", "Hello"],
                1,
            ),
            (
                "Text that is too short",
                |sandbox| {
                    model(sandbox, "f16");
                    write(sandbox, "text", "Short.");
                },
                EVAL,
                &["perplexity", "model.gguf", "--text", "text"],
                1,
            ),
            (
                "Chat prompt without a chat template",
                |sandbox| {
                    model(sandbox, "f16");
                    succeed(sandbox.inspect(&["unset", "model.gguf", "tokenizer.chat_template", "-q"]));
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
This page shows an example of each kind of error, printed by the programs for a tiny checkpoint. `BLESS=1 cargo test --test all repository::errors` regenerates it.\n
Errors go to stderr. The line that starts with `error:` states the place, the expected value and the value found. Lines that start
with `hint:` state what to do. Exit codes: 0 success, 1 failure, 2 usage error, 128 plus the signal number (129 SIGHUP, 130 SIGINT, 143 SIGTERM).\n";

#[test]
fn error_page_matches_program_output() {
    let mut page = HEAD.to_owned();
    let mut wrong = Vec::new();
    for (title, intro, kinds) in PARTS {
        let _ = write!(page, "\n## {title}\n\n{intro}\n");
        for (kind, damage, binary, args, code) in *kinds {
            let sandbox = Sandbox::with_golden("llama");
            damage(&sandbox);
            let before = sandbox.listing("");
            let ran = sandbox.run(binary, args);
            // Rows that an option can permit are kept, under hidden names.
            let mut after = sandbox.listing("");
            after.retain(|name, _| !name.starts_with(".out.gguf.") || before.contains_key(name));
            let is_clean = !ran.stderr.contains("panicked") && after == before;
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
            let output =
                format!("{}{}", ran.stdout, ran.stderr).replace(sandbox.path("").to_str().unwrap(), "/");
            let _ = write!(page, "\n**{kind}**\n\n```text\n$ {program} {call}\n{}\n```\n", output.trim_end());
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots/errors.md");
    gguf_testkit::check_written(&path, &page);
}
