//! Calls that cannot work: each says what is wrong and what to write instead, in one spelling for all commands.

use std::fs;

use crate::common::{Output, Sandbox, words};

const CONVERT: &str = env!("CARGO_BIN_EXE_gguf-convert");
const QUANTIZE: &str = env!("CARGO_BIN_EXE_gguf-quantize");
const PUBLISH: &str = env!("CARGO_BIN_EXE_gguf-publish");
const INSPECT: &str = env!("CARGO_BIN_EXE_gguf-inspect");
const EVAL: &str = env!("CARGO_BIN_EXE_gguf-eval");

/// A place with the checkpoint `llama`, its file `in.gguf` and a text.
fn sandbox() -> Sandbox {
    let sandbox = Sandbox::with_converted("llama", "in.gguf", "f32");
    sandbox.write("text", "Some text to read.");
    sandbox.write("object.json", r#"{"a": 1}"#);
    sandbox
}

/// A call, its exit code, and what it says.
type Call<'a> = (&'a str, &'a str, i32, &'a [&'a str]);

fn check(sandbox: &Sandbox, calls: &[Call<'_>]) {
    let before = sandbox.listing("");
    for (binary, args, code, messages) in calls {
        let ran = sandbox.run(binary, &words(args));
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(*code), ""), "{args:?}: {}", ran.stderr);
        for text in *messages {
            assert!(ran.stderr.contains(text), "{args:?}: `{text}` is not in\n{}", ran.stderr);
        }
        assert_eq!(sandbox.listing(""), before, "{args:?} wrote something");
    }
}

#[test]
fn missing_file_has_one_message() {
    let sandbox = sandbox();
    sandbox.write("tasks", "A llama\n0\neats\nflies\nreads\nsings\n");
    let calls: &[(&str, &[&str])] = &[
        (CONVERT, &["none", "-t", "q8_0"]),
        (CONVERT, &["export", "none", "out/hf"]),
        (CONVERT, &["none", "--vocab-only"]),
        (CONVERT, &words("llama -t q8_0 --imatrix none")),
        (CONVERT, &words("llama -t q8_0 --tensor-type-file none")),
        (CONVERT, &["llama", "--recipe", "none"]),
        (QUANTIZE, &["none", "q8_0"]),
        (QUANTIZE, &["in.gguf", "q8_0", "--imatrix", "none"]),
        (INSPECT, &["show", "none"]),
        (INSPECT, &["verify", "none"]),
        (INSPECT, &["fit", "none"]),
        (INSPECT, &["set", "none", "general.name=x"]),
        (INSPECT, &["unset", "none", "general.name"]),
        (INSPECT, &["rename", "none", "a=b"]),
        (INSPECT, &["export-metadata", "none"]),
        (INSPECT, &["recipe", "none"]),
        (INSPECT, &["hash", "none"]),
        (INSPECT, &["hash", "--check", "none"]),
        (INSPECT, &words("extract none x --output x.npy")),
        (INSPECT, &["diff", "none", "in.gguf"]),
        (INSPECT, &["diff", "in.gguf", "none"]),
        (INSPECT, &words("split none x --split-max-size 1G")),
        (INSPECT, &["merge", "none", "x.gguf"]),
        (INSPECT, &words("endian none x.gguf --order big")),
        (INSPECT, &["tokenizer", "none"]),
        (INSPECT, &["tokenizer", "in.gguf", "--text", "none"]),
        (INSPECT, &["prompt", "none", "--messages", "text"]),
        (INSPECT, &["prompt", "in.gguf", "--messages", "none"]),
        (EVAL, &["perplexity", "none", "--text", "text"]),
        (EVAL, &["perplexity", "in.gguf", "--text", "none"]),
        (EVAL, &words("compare none in.gguf --text text")),
        (EVAL, &words("compare in.gguf none --text text")),
        (EVAL, &words("check none --text text --save --baseline baseline.json")),
        (EVAL, &["check-against", "none", "text"]),
        (EVAL, &["check-against", "in.gguf", "none"]),
        (EVAL, &words("imatrix none --text text -o x.gguf")),
        (EVAL, &words("imatrix --merge none -o x.gguf")),
        (EVAL, &words("draft none in.gguf --text text")),
        (EVAL, &words("draft in.gguf none --text text")),
        (EVAL, &words("draft in.gguf in.gguf --text none")),
        (EVAL, &["score", "none", "--hellaswag", "tasks"]),
        (EVAL, &["score", "in.gguf", "--hellaswag", "none"]),
        (EVAL, &["generate", "none", "--prompt", "x"]),
        (EVAL, &["generate", "in.gguf", "--prompt", "x", "--lora", "none"]),
        (EVAL, &["chat", "none"]),
        (EVAL, &["run", "none", "Hello"]),
        (EVAL, &["chat", "in.gguf", "--chat-template", "none"]),
        (QUANTIZE, &["in.gguf", "q8_0", "--lora", "none"]),
        (EVAL, &["embed", "none", "--text", "text"]),
    ];
    for (binary, args) in calls {
        let ran = sandbox.run(binary, args);
        let first = ran.stderr.lines().next().unwrap_or_default();
        let expected = "error: none: cannot open: No such file or directory (os error 2)";
        assert_eq!((ran.code, first), (Some(1), expected), "{args:?}");
    }
}

#[test]
fn number_does_not_select_a_type() {
    let sandbox = sandbox();
    check(
        &sandbox,
        &[
            (
                CONVERT,
                "llama out/x.gguf -t 2",
                2,
                &[
                    "invalid value '2' for '--type",
                    "2 threads are `--threads 2`; file type 2 is `--type q4_0`",
                ],
            ),
            (CONVERT, "llama out/x.gguf --type 99", 2, &["99 threads are `--threads 99`\n"]),
            (QUANTIZE, "-t 8 in.gguf out/x.gguf", 2, &["8 threads are `--threads 8`; file type 8"]),
        ],
    );
}

#[test]
fn unknown_type_lists_nearest_and_all() {
    let sandbox = sandbox();
    check(
        &sandbox,
        &[
            (CONVERT, "llama -t q4_k_mm", 2, &["did you mean q4_k_m?", "possible values: q1_0, "]),
            (CONVERT, "llama -t Q4_K_XL", 2, &["for q4_k_xl, use q4_k_m with"]),
            (CONVERT, "llama -t copy", 2, &["use f32, f16 or bf16 to keep the weights"]),
            (CONVERT, "llama -t q8_0 --via b16", 2, &["did you mean bf16"]),
            (CONVERT, "llama -t q8_0 --missing-imatrix one", 2, &["did you mean ones"]),
            (QUANTIZE, "in.gguf q4_k_mm", 2, &["did you mean q4_k_m?", "hint: types are q1_0, "]),
            (
                QUANTIZE,
                "in.gguf q8_0 f16",
                2,
                &["`q8_0` and `f16` are both types; expected an output file", "`q8_0,f16`", "`./q8_0`"],
            ),
        ],
    );
    let bash = sandbox.convert(&["--completions", "bash"]).stdout;
    for name in ["q4_k_m", "raise-type", "bf16"] {
        assert!(bash.contains(name), "completions do not offer {name}");
    }
    // Help lists types once, in a separate table.
    assert_eq!(sandbox.convert(&["--help"]).stdout.matches("Q4_K_M").count(), 2);
}

#[test]
fn wrong_input_kind_names_right_tool() {
    let sandbox = sandbox();
    fs::create_dir(sandbox.path("folder")).unwrap();
    fs::copy(sandbox.path("in.gguf"), sandbox.path("folder/in.gguf")).unwrap();
    fs::create_dir(sandbox.path("bare")).unwrap();
    for name in ["config.json", "model.safetensors"] {
        fs::copy(sandbox.path("llama").join(name), sandbox.path("bare").join(name)).unwrap();
    }
    check(
        &sandbox,
        &[
            (CONVERT, "in.gguf -t q8_0", 1, &["to quantize a GGUF file, run `gguf-quantize in.gguf TYPE`"]),
            (CONVERT, "folder -t q8_0", 1, &["`gguf-quantize folder/in.gguf TYPE`"]),
            (
                CONVERT,
                "meta-llama/Llama-3.2-1B -t q8_0",
                1,
                &[
                    "`meta-llama/Llama-3.2-1B` is not in the local Hugging Face cache",
                    "HF_HUB_OFFLINE is set",
                ],
            ),
            (CONVERT, "hf://meta-llama -t q8_0", 1, &["`meta-llama` is not in the local Hugging Face cache"]),
            (CONVERT, "hf://a/b/c -t q8_0", 1, &["write hf://OWNER/MODEL or"]),
            (
                QUANTIZE,
                "meta-llama/Llama-3.2-1B q8_0",
                1,
                &["`gguf-convert hf://meta-llama/Llama-3.2-1B --type bf16`"],
            ),
            (
                QUANTIZE,
                "llama q8_0",
                1,
                &["the folder is a checkpoint; to convert it to GGUF, run `gguf-convert llama --type bf16`"],
            ),
            (QUANTIZE, "llama x.gguf q8_0", 1, &["run `gguf-convert llama x.gguf --type q8_0`\n"]),
            (QUANTIZE, "folder q8_0", 1, &["pass a file instead of its folder, for example folder/in.gguf"]),
            (INSPECT, "show llama", 1, &["`gguf-convert llama --type bf16`"]),
            (EVAL, "perplexity llama --text text", 1, &["`gguf-convert llama --type bf16`"]),
            (
                QUANTIZE,
                "in.gguf q8_0 --imatrix object.json",
                1,
                &["the file is JSON; to compute an importance matrix, run `gguf-eval imatrix "],
            ),
            (
                QUANTIZE,
                "llama/model.safetensors q8_0",
                1,
                &["to convert the checkpoint to GGUF, run `gguf-convert llama --type bf16`"],
            ),
            (
                INSPECT,
                "show llama/model.safetensors",
                1,
                &["to convert the checkpoint to GGUF, run `gguf-convert llama --type bf16`"],
            ),
            (EVAL, "perplexity llama/model.safetensors --text text", 1, &["`gguf-convert llama "]),
            (
                CONVERT,
                "bare -t q8_0",
                1,
                &["no tokenizer found; looked for ", "hint: copy the tokenizer files next to config.json"],
            ),
            // Without --type: the input is checked first.
            (CONVERT, "in.gguf", 1, &["to quantize a GGUF file, run `gguf-quantize in.gguf TYPE`"]),
            (CONVERT, "none", 1, &["none: cannot open: "]),
            (
                CONVERT,
                "meta-llama/Llama-3.2-1B",
                1,
                &[
                    "if `meta-llama/Llama-3.2-1B` is meant to be a local folder, check the path; it was treated as a model on the Hub",
                ],
            ),
        ],
    );
}

#[test]
fn missing_and_extra_words_are_named() {
    let sandbox = sandbox();
    check(
        &sandbox,
        &[
            (CONVERT, "mmproj llama", 2, &["missing --type", "hint: `--type auto` "]),
            (CONVERT, "llama --memory 8", 2, &["expected a unit; did you mean 8GB?"]),
            (CONVERT, "llama --memory 1kB", 1, &["model too large for 1.00 kB of memory", "use --type q2_k"]),
            (QUANTIZE, "in.gguf x.gguf", 2, &["expected a type, found `x.gguf`", "types are q1_0"]),
            (QUANTIZE, "in.gguf out/x", 2, &["expected a type, found `out/x`"]),
            (
                QUANTIZE,
                "in.gguf",
                2,
                &["missing type after the input, for example q4_k_m", "run `gguf-quantize in.gguf q4_k_m`"],
            ),
            (
                QUANTIZE,
                "in.gguf q4_0 --imatrix text",
                1,
                &[
                    "hint: the file is a text; to compute an importance matrix from it, run `gguf-eval imatrix MODEL --text text -o imatrix.gguf`",
                ],
            ),
            // Nothing is made before that is known.
            (PUBLISH, "llama llama/out", 1, &["llama/out: is inside the checkpoint"]),
            (PUBLISH, "llama llama", 1, &["llama: is inside the checkpoint"]),
            (EVAL, "in.gguf", 2, &["`gguf-eval generate in.gguf --prompt TEXT`"]),
            (INSPECT, "in.gguf", 2, &["`gguf-inspect show in.gguf`"]),
            (INSPECT, "prompt in.gguf --messages object.json", 1, &["missing `messages`"]),
            (INSPECT, "prompt in.gguf --messages text", 1, &["text: expected value"]),
            (
                INSPECT,
                "prompt in.gguf --messages text --date today",
                2,
                &["expected a date such as 2024-07-26"],
            ),
            (EVAL, "perplexity in.gguf text", 2, &["pass a text with `--text text`"]),
            (EVAL, "imatrix in.gguf text -o x", 2, &["pass a text with `--text text`"]),
            (EVAL, "imatrix in.gguf none -o x", 2, &["unexpected argument 'none' found"]),
            // First guesses of newcomers.
            (CONVERT, "llama x.gguf y.gguf", 2, &["invalid value 'y.gguf' for '[TYPE]"]),
            (CONVERT, "convert llama x.gguf", 2, &["write `gguf-convert SRC OUT`, without `convert`"]),
            (CONVERT, "adapter ad x.gguf --modelfile F", 2, &["ADAPTER ./adapter.gguf"]),
            (CONVERT, "adapter ad x.gguf q4_k_m", 2, &["pass the type with `--type q4_k_m`"]),
            (EVAL, "prompt in.gguf", 2, &["`gguf-eval chat FILE` starts a chat"]),
        ],
    );
    let ran = sandbox.eval(&["generate", "in.gguf", "--chat", "Who are you?"]);
    ran.ends_and_says(2, "pass a text or message with `--prompt 'Who are you?'`");
}

#[test]
fn outputs_that_are_not_files_are_refused() {
    let sandbox = sandbox();
    check(
        &sandbox,
        &[
            (CONVERT, "llama - -t q8_0", 2, &["cannot be written to stdout", "`./-`"]),
            (QUANTIZE, "in.gguf - q8_0", 2, &["cannot be written to stdout", "`./-`"]),
            (CONVERT, "llama /dev/stdout -t q8_0 --force", 1, &["`/dev/stdout` cannot be overwritten"]),
            (CONVERT, "llama none/x.gguf -t q8_0", 1, &["folder `none` does not exist"]),
            (CONVERT, "llama llama/out/ -t q8_0", 1, &["is inside the input folder"]),
        ],
    );
}

#[test]
#[cfg(unix)]
fn output_link_is_followed() {
    let sandbox = sandbox();
    fs::create_dir(sandbox.path("elsewhere")).unwrap();
    sandbox.write("elsewhere/x.gguf", "old");
    std::os::unix::fs::symlink("../elsewhere/x.gguf", sandbox.path("out/x.gguf")).unwrap();
    std::os::unix::fs::symlink("nothing", sandbox.path("out/dead.gguf")).unwrap();
    let refused = sandbox.convert(&words("llama out/x.gguf -t q8_0 -q"));
    assert_eq!((refused.code, sandbox.read("elsewhere/x.gguf")), (Some(1), b"old".to_vec()));
    let ran = sandbox.convert(&words("llama out/x.gguf -t q8_0 -q --force"));
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    assert!(fs::symlink_metadata(sandbox.path("out/x.gguf")).unwrap().is_symlink());
    assert!(sandbox.read("elsewhere/x.gguf").starts_with(b"GGUF"));
    let dead = sandbox.convert(&words("llama out/dead.gguf -t q8_0 -q --force"));
    dead.ends_and_says(1, "links to `nothing`, which does not exist");
}

#[test]
fn missing_folder_is_created() {
    let sandbox = sandbox();
    let dry = sandbox.convert(&words("llama new/ -t q8_0 --dry-run -q"));
    assert_eq!((dry.code, sandbox.path("new").exists()), (Some(0), false));
    for (args, file) in [
        (&["llama", "new/", "-t", "q8_0", "-q"][..], "new/Llama-1.4M-Q8_0.gguf"),
        (&["vocab", "llama", "vocab/", "-q"], "vocab/Llama-vocab.gguf"),
    ] {
        let ran = sandbox.convert(args);
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{args:?}");
        assert!(sandbox.path(file).is_file(), "{file}: {:?}", sandbox.listing(""));
    }
    let ran = sandbox.quantize(&["in.gguf", "more/of/it/", "q8_0", "-q"]);
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    assert_eq!(sandbox.listing("more/of/it").len(), 1);
}

#[test]
fn common_spellings_are_accepted() {
    let sandbox = sandbox();
    let ok = |ran: Output| assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    ok(sandbox.quantize(&words("in.gguf out/split.gguf q8_0 --split-max-size 300K -q")));
    // The same thing has the name that it has in `gguf-inspect fit` and `gguf-publish` as well.
    sandbox.write("long", "Some text to read. ".repeat(20));
    for verb in [
        &["perplexity", "in.gguf"][..],
        &["compare", "in.gguf", "in.gguf"],
        &["check", "in.gguf", "--baseline", "baseline.json", "--save"],
        &["imatrix", "in.gguf", "-o", "im.gguf"],
    ] {
        ok(sandbox.eval(&[verb, &["--text", "long", "--context", "32", "--chunks", "2", "-q"]].concat()));
    }
    for level in ["SCALAR", "Scalar", ""] {
        let output =
            sandbox.command(INSPECT).args(["cpu", "--json"]).env("GGUF_CPU_LEVEL", level).output().unwrap();
        assert!(output.status.success(), "GGUF_CPU_LEVEL={level}");
    }
    // A letter of more than one byte, alone and with more after it.
    for binary in [CONVERT, QUANTIZE, INSPECT, EVAL, PUBLISH] {
        for option in ["-é", "-éa", "-aé", "--é"] {
            let ran = sandbox.run(binary, &[option]);
            assert_eq!(ran.code, Some(2), "{option}: {}", ran.stderr);
            assert!(ran.stderr.contains("unknown option"), "{option}: {}", ran.stderr);
        }
    }
    // A leaked doc comment stood here.
    for binary in [CONVERT, QUANTIZE] {
        let help = sandbox.run(binary, &["--help"]).stdout;
        assert!(help.lines().next().unwrap().ends_with("GGUF files"), "{help}");
    }
}

#[test]
fn every_verb_has_a_man_page() {
    let sandbox = Sandbox::new();
    fs::create_dir(sandbox.path("man")).unwrap();
    for binary in [CONVERT, QUANTIZE, INSPECT, EVAL, PUBLISH] {
        let ran = sandbox.run(binary, &["--man", "man"]);
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    }
    let pages = sandbox.listing("man");
    for command in gguf_tools::commands::COMMANDS {
        let name = [Some(command.binary), command.verb].into_iter().flatten().collect::<Vec<_>>().join("-");
        assert!(pages.contains_key(&format!("{name}.1")), "{name} is not among {pages:?}");
    }
    let page = sandbox.text("man/gguf-eval-imatrix.1");
    assert!(page.contains("save\\-every") && page.contains("llama\\-imatrix"), "{page}");
    let ran = sandbox.eval(&["--man", "none"]);
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
}

#[test]
fn values_of_any_length_are_printed() {
    let sandbox = sandbox();
    let long = "long ".repeat(20_000);
    let key = format!("general.description=str:{long}");
    let ran = sandbox.convert(&["llama", "out/x.gguf", "-t", "f32", "-q", "--override-kv", &key]);
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    let shown = sandbox.inspect(&["show", "out/x.gguf", "--full"]);
    assert_eq!((shown.code, shown.stderr.as_str()), (Some(0), ""));
    assert!(shown.stdout.contains(long.trim_end()));
}
