//! Calls of `gguf-eval`: outputs and values are checked before the work begins, peculiarities are reported,
//! and llama.cpp's option names are understood.

use std::{
    fs,
    time::{Duration, Instant},
};

use crate::common::{Output, Sandbox, succeed, words};
#[cfg(target_os = "linux")]
use crate::common::{finish, signal, wait_until};
#[cfg(target_os = "linux")]
use gguf_imatrix::Sums;

const EVAL: &str = env!("CARGO_BIN_EXE_gguf-eval");

/// A tiny llama as `x.gguf`, with more options of its conversion, and a text.
fn llama(options: &[&str]) -> Sandbox {
    let sandbox = Sandbox::with_golden("llama");
    succeed(sandbox.convert(&[&["llama", "x.gguf", "--type", "f32", "--quiet"], options].concat()));
    sandbox.add_text();
    sandbox
}

fn refused(ran: &Output, code: i32, message: &str) {
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(code), ""), "{message}: {}", ran.stderr);
    assert!(ran.stderr.contains(message), "{message}: {}", ran.stderr);
}

/// The model does not exist: opening it first would give another error.
#[test]
fn outputs_are_checked_before_model_opens() {
    let sandbox = Sandbox::new();
    sandbox.write("there", "x");
    sandbox.write("text", "x");
    fs::create_dir(sandbox.path("folder")).unwrap();
    let commands: [&[&str]; 5] = [
        &["compare", "none.gguf", "none.gguf", "--text", "text", "--html"],
        &["compare", "none.gguf", "none.gguf", "--text", "text", "--save-logits"],
        &["check", "none.gguf", "--text", "text", "--save", "--baseline"],
        &["imatrix", "none.gguf", "--text", "text", "--output"],
        &["imatrix", "--merge", "none.gguf", "--output"],
    ];
    for command in commands {
        for (output, message) in [
            ("there", "error: `there` already exists\nhint: use --force to overwrite it"),
            ("folder", "error: `folder` "),
            ("none/x", "error: folder `none` does not exist\nhint: create the folder first\n"),
            ("there/x", "error: `there` is not a folder"),
            ("-", "stdout"),
        ] {
            let ran = sandbox.eval(&[command, &[output]].concat());
            assert_eq!(ran.stdout, "", "{command:?} {output}");
            assert!(ran.stderr.contains(message), "{command:?} {output}: {}", ran.stderr);
        }
        let ran = sandbox.eval(&[command, &["new"]].concat());
        assert!(ran.stderr.contains("none.gguf"), "{command:?}: {}", ran.stderr);
    }
    for (args, message) in [
        (
            &["compare", "none.gguf", "--text", "text", "--save-logits", "a", "--html", "a"][..],
            "two options write to a",
        ),
        (&["imatrix", "text", "--text", "text", "-o", "text", "--force"], "output `text` is also the input"),
    ] {
        assert!(sandbox.eval(args).stderr.contains(message), "{args:?}");
    }
    assert_eq!(sandbox.listing(".").into_keys().collect::<Vec<_>>(), ["text", "there"]);
}

#[test]
fn out_of_range_numbers_are_refused() {
    let sandbox = Sandbox::new();
    let texts: [&[&str]; 3] = [
        &["perplexity", "x.gguf", "--text", "text"],
        &["compare", "x.gguf", "x.gguf", "--text", "text"],
        &["imatrix", "x.gguf", "--text", "text", "-o", "im"],
    ];
    for command in texts {
        for number in [["-c", "0"], ["-c", "1"], ["-c", "3"], ["--chunks", "0"], ["-j", "0"], ["-j", "-1"]] {
            let ran = sandbox.eval(&[command, &number].concat());
            assert_eq!(
                (ran.code, ran.stdout.as_str()),
                (Some(2), ""),
                "{command:?} {number:?}: {}",
                ran.stderr
            );
        }
    }
    for (args, message) in [
        (&["perplexity", "x.gguf", "--text", "text", "--stride", "0"][..], "--stride"),
        (
            &["perplexity", "x.gguf", "--text", "text", "-c", "64", "--stride", "127"],
            "the stride: expected from 1 to 126, twice the chunk length, found 127",
        ),
        (&["check", "x.gguf", "--text", "text", "--baseline", "b", "--save", "--chunks", "0"], "--chunks"),
        (&["check", "x.gguf", "--text", "text", "--baseline", "b", "--save", "-c", "2"], "--context"),
        (&["imatrix", "x.gguf", "--text", "text", "-o", "im", "--save-every", "0"], "--save-every"),
        (&["generate", "x.gguf", "--prompt", "x", "-n", "0"], "--tokens"),
        (
            &["generate", "x.gguf", "--prompt", "x", "--temperature", "nan"],
            "the temperature: expected a number from 0, found NaN",
        ),
        (
            &["generate", "x.gguf", "--prompt", "x", "--temperature=-1"],
            "the temperature: expected a number from 0, found -1",
        ),
        (
            &["generate", "x.gguf", "--prompt", "x", "--top-p", "2"],
            "the probability of top-p: expected from 0 to 1, found 2",
        ),
        (
            &["generate", "x.gguf", "--prompt", "x", "--top-p", "nan"],
            "the probability of top-p: expected from 0 to 1, found NaN",
        ),
    ] {
        refused(&sandbox.eval(args), 2, message);
    }
}

/// Replaces the f32 that a key of a file holds.
fn set_key(sandbox: &Sandbox, key: &str, value: f32) {
    let mut bytes = sandbox.read("x.gguf");
    let at = bytes.windows(key.len()).position(|window| window == key.as_bytes()).unwrap() + key.len() + 4;
    bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
    sandbox.write("y.gguf", bytes);
}

#[test]
fn uncomputable_keys_are_named() {
    let sandbox = llama(&[]);
    for (key, values) in [
        ("llama.rope.freq_base", &[0.0, -1.0, f32::NAN, f32::INFINITY][..]),
        ("llama.attention.layer_norm_rms_epsilon", &[-1e-5, f32::NAN]),
    ] {
        for value in values {
            set_key(&sandbox, key, *value);
            let ran = sandbox.eval(&words("perplexity y.gguf --text text -c 32 --chunks 1 -q"));
            refused(&ran, 1, &format!("y.gguf: metadata key `{key}`: expected a number "));
        }
    }
}

#[test]
fn nan_results_are_errors_with_cause() {
    let sandbox = llama(&[]);
    let model = sandbox.model("x.gguf");
    let (file, info) = model.tensor("blk.0.ffn_down.weight").unwrap();
    let at = file.data(info).unwrap().as_ptr().addr() - file.bytes().as_ptr().addr() + 4 * 7;
    let mut bytes = sandbox.read("x.gguf");
    bytes[at..at + 4].copy_from_slice(&f32::NAN.to_le_bytes());
    sandbox.write("y.gguf", bytes);
    let text = ["--text", "text", "-c", "32", "--chunks", "2", "-q"];
    let verbs: [&[&str]; 5] = [
        &["perplexity", "y.gguf"],
        &["compare", "x.gguf", "y.gguf"],
        &["compare", "y.gguf", "x.gguf"],
        &["check", "y.gguf", "--baseline", "b", "--save"],
        &["imatrix", "y.gguf", "-o", "im"],
    ];
    for verb in verbs {
        let ran = sandbox.eval(&[verb, &text].concat());
        let cause = if verb[0] == "imatrix" {
            "is not finite"
        } else {
            "; element 7 of tensor `blk.0.ffn_down.weight`"
        };
        refused(&ran, 1, cause);
    }
    for args in [
        &["generate", "y.gguf", "--prompt", "a llama", "-q"][..],
        &["embed", "y.gguf", "--prompt", "a llama", "--pooling", "mean", "-q"],
    ] {
        refused(&sandbox.eval(args), 1, "; element 7 of tensor `blk.0.ffn_down.weight`");
    }
    assert!(!sandbox.path("b").exists() && !sandbox.path("im").exists());
}

#[test]
fn odd_models_and_calls_are_noted() {
    let sandbox = llama(&[]);
    let mut bytes = sandbox.read("x.gguf");
    let (key, value) = (b"tokenizer.ggml.pre", b"default");
    let at = bytes.windows(key.len()).position(|window| window == key).unwrap() + key.len() + 12;
    assert_eq!(&bytes[at..at + value.len()], value);
    bytes[at..at + value.len()].copy_from_slice(b"foo-bar");
    sandbox.write("x.gguf", bytes);
    let text = ["perplexity", "x.gguf", "--text", "text", "--chunks", "1"];
    let ran = succeed(sandbox.eval(&[&text[..], &["-c", "64"]].concat()));
    ran.says("warning: x.gguf: `tokenizer.ggml.pre`: `foo-bar` is unknown to llama.cpp");
    assert!(!ran.stderr.contains("context_length"), "{}", ran.stderr);
    let long = sandbox.eval(&[&text[..], &["-c", "1024"]].concat());
    let warning = "warning: 1024 tokens exceed `llama.context_length` (512)\n";
    assert!(long.code == Some(0) && long.stderr.contains(warning), "{}", long.stderr);
    let long = sandbox.eval(&["generate", "x.gguf", "--prompt", "a llama", "-n", "510"]);
    long.says("tokens exceed `llama.context_length` (512)\n");
}

#[test]
fn generate_reports_speed() {
    let sandbox = llama(&[]);
    let ran = sandbox.eval(&["generate", "x.gguf", "--prompt", "a llama", "-n", "8"]);
    ran.says(" tokens/s\n");
}

#[test]
fn generate_explains_empty_text() {
    let sandbox = llama(&[]);
    let ask = ["generate", "x.gguf", "--prompt", "a llama", "-n", "8"];
    assert!(!sandbox.eval(&ask).stderr.contains("warning"));
    // The model's first prediction becomes the end of every text.
    let model =
        gguf_runtime::Model::open(&sandbox.path("x.gguf"), &gguf_runtime::Options::new(gguf_models::GRAPHS))
            .unwrap();
    let prompt = model.tokenizer().encode("a llama", true, false).unwrap();
    let sampler = &mut gguf_runtime::generate::Sampler::new(gguf_runtime::generate::Sampling {
        temperature: 0.0,
        ..Default::default()
    });
    let first = gguf_runtime::generate::generate(&model, &prompt, 1, sampler, &mut |_| true).unwrap()[0];
    drop(model);
    let inspect = |args: &[&str]| assert_eq!(sandbox.inspect(args).code, Some(0), "{args:?}");
    inspect(&["set", "x.gguf", &format!("tokenizer.ggml.eos_token_id=u32:{first}")]);
    let ran = sandbox.eval(&ask);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "\n"), "{}", ran.stderr);
    ran.says("warning: the model generated no tokens; try --chat");
    inspect(&["unset", "x.gguf", "tokenizer.chat_template"]);
    let ran = sandbox.eval(&ask);
    ran.says("warning: the model generated no tokens\n");
}

#[test]
fn thread_counts_are_consistent_and_capped() {
    let sandbox = llama(&[]);
    for (binary, args) in [
        (EVAL, &["perplexity", "x.gguf", "--text", "text", "-j", "0"][..]),
        (env!("CARGO_BIN_EXE_gguf-convert"), &words("llama out/y.gguf --type f32 -j 0")),
        (env!("CARGO_BIN_EXE_gguf-quantize"), &words("x.gguf out/y.gguf q8_0 -j 0")),
        (env!("CARGO_BIN_EXE_gguf-quantize"), &["x.gguf", "out/y.gguf", "q8_0", "0"]),
    ] {
        refused(&sandbox.run(binary, args), 2, "`0`");
    }
    let start = Instant::now();
    succeed(sandbox.eval(&words("perplexity x.gguf --text text -c 64 --chunks 2 -j 100000")));
    assert!(start.elapsed() < Duration::from_secs(60), "{:?}", start.elapsed());
}

#[test]
fn llama_cpp_option_names_are_accepted() {
    let sandbox = llama(&[]);
    let args =
        ["perplexity", "x.gguf", "--text", "text", "--ctx-size", "64", "--chunks", "2", "--json", "-q"];
    let found = succeed(sandbox.eval(&args)).json();
    assert_eq!((&found["context"], &found["chunks"]), (&64.into(), &2.into()));
}

#[test]
fn missing_baseline_names_command_that_saves_it() {
    let sandbox = Sandbox::new();
    sandbox.write("a text", "text");
    let args = ["check", "x.gguf", "--text", "a text", "--baseline", "b"];
    for (more, base) in [(&["--base", "y.gguf"][..], "--base y.gguf "), (&[], "")] {
        let ran = sandbox.eval(&[&args[..], more].concat());
        refused(&ran, 1, &format!("`gguf-eval check x.gguf {base}--text 'a text' --baseline b --save`\n"));
    }
}

#[test]
fn no_message_suggests_overwriting_baseline() {
    let sandbox = Sandbox::new();
    for option in [&["-c", "64"][..], &["--chunks", "2"], &["--force"]] {
        let ran = sandbox.eval(&[&["check", "x.gguf", "--text", "t", "--baseline", "b"], option].concat());
        refused(&ran, 2, "omit --context, --chunks and --force");
        assert!(!ran.stderr.contains("--save"), "{}", ran.stderr);
    }
    let ran = sandbox.eval(&["embed", "x.gguf"]);
    assert!(ran.code == Some(2) && ran.stderr.contains("--text <FILE>|--prompt <TEXT>"), "{}", ran.stderr);
}

/// No layer of the model rotates, so that the number may be larger than a head.
#[test]
fn rotation_that_no_layer_uses_is_not_checked() {
    let sandbox = Sandbox::with_converted("nemotron-h", "x.gguf", "f32");
    sandbox.add_text();
    let args = words("perplexity x.gguf --text text -c 64 --chunks 1 --json -q");
    let before = succeed(sandbox.eval(&args)).json();
    succeed(sandbox.inspect(&words("set x.gguf nemotron_h.rope.dimension_count=63")));
    assert_eq!(succeed(sandbox.eval(&args)).json()["perplexity"], before["perplexity"]);
}

#[test]
fn files_without_a_graph_are_refused() {
    for (golden, option, message) in [
        (
            "glm4moe-old-only",
            "--mtp",
            "the file has only the 1 layers for multi-token prediction and not the layers before them\n\
             hint: use the file of the whole model",
        ),
        ("minimax-text-01", "--force", "architecture `minimax-01` cannot be run: not supported"),
    ] {
        let sandbox = Sandbox::with_golden(golden);
        let ran = sandbox.convert(&[golden, "x.gguf", "--type", "f32", "--quiet", option]);
        assert_eq!(ran.code, Some(0), "{golden}: {}", ran.stderr);
        let ran = sandbox.eval(&words("generate x.gguf --prompt x -n 1 --quiet"));
        refused(&ran, 1, message);
    }
}

/// True once a process handles SIGINT. From then on, a signal ends the run and not the process.
#[cfg(target_os = "linux")]
fn handles_interrupt(process: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap_or("0");
    u64::from_str_radix(mask.trim(), 16).unwrap() >> 1 & 1 == 1
}

#[test]
#[cfg(target_os = "linux")]
fn ctrl_c_keeps_partial_importance_matrix() {
    let sandbox = llama(&[]);
    let text = sandbox.read("text");
    sandbox.write("text", text.repeat(40));
    let args = ["imatrix", "x.gguf", "--text", "text", "-c", "64", "-o", "im.gguf", "-j", "1"];
    // The handler is installed just before the first of several thousand windows.
    let interrupted = |args: &[&str]| {
        let child = sandbox.spawn(EVAL, args);
        let process = child.id();
        let child = wait_until(child, 60, || handles_interrupt(process));
        signal(&child, "INT");
        let ran = finish(child);
        assert_eq!(ran.code, Some(130), "{}", ran.stderr);
        ran.stderr
    };
    let log = interrupted(&args);
    assert!(log.contains("error: interrupted after ") && log.contains("use --resume to continue"), "{log}");
    let saved = Sums::open(&sandbox.path("im.gguf")).unwrap();
    assert!(
        saved.n_chunks > 0 && log.contains(&format!("{} chunks are saved in im.gguf", saved.n_chunks)),
        "{log}"
    );
    // A whole matrix is not replaced with a part.
    let before = sandbox.read("im.gguf");
    let log = interrupted(&[&args[..], &["--force"]].concat());
    assert!(log.contains("is untouched; use --save-every N"), "{log}");
    assert!(sandbox.read("im.gguf") == before);
}
