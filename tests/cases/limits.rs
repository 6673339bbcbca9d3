//! Systems that allow few threads or few open files.

use std::process::Stdio;

use crate::common::{Output, Sandbox, finish, succeed, words};

/// A stack size that makes the system refuse new threads, as a limit on processes does.
const NO_THREADS: (&str, &str) = ("RUST_MIN_STACK", "70368744177664");

fn without_threads(sandbox: &Sandbox, binary: &str, args: &[&str]) -> Output {
    let mut command = sandbox.command(binary);
    command.env(NO_THREADS.0, NO_THREADS.1).args(args).stdout(Stdio::piped()).stderr(Stdio::piped());
    finish(command.spawn().unwrap())
}

#[test]
fn bytes_do_not_change_without_new_threads() {
    let sandbox = Sandbox::with_golden("llama");
    let (convert, quantize) = (env!("CARGO_BIN_EXE_gguf-convert"), env!("CARGO_BIN_EXE_gguf-quantize"));
    succeed(sandbox.run(convert, &words("llama many.gguf -t f16 -q")));
    succeed(sandbox.run(quantize, &["many.gguf", "many-q.gguf", "q8_0", "-q"]));
    succeed(without_threads(&sandbox, convert, &words("llama one.gguf -t f16 -q -j 64")));
    succeed(without_threads(&sandbox, quantize, &words("many.gguf one-q.gguf q8_0 -q -j 64")));
    for (one, many) in [("one.gguf", "many.gguf"), ("one-q.gguf", "many-q.gguf")] {
        assert!(sandbox.read(one) == sandbox.read(many), "{one}");
    }
}

#[test]
fn graph_without_threads_is_an_error() {
    let sandbox = Sandbox::with_converted("llama", "m.gguf", "f16");
    sandbox.write("text.txt", "the quick brown fox ".repeat(200));
    let eval = env!("CARGO_BIN_EXE_gguf-eval");
    let ran = without_threads(&sandbox, eval, &words("perplexity m.gguf --text text.txt -c 32 -j 4"));
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(
        ran.stderr.contains("cannot start")
            && ran.stderr.contains("threads")
            && !ran.stderr.contains("panicked"),
        "{ran:?}"
    );
}

/// Runs `gguf-quantize` with a limit of open files.
fn with_open_files(sandbox: &Sandbox, limit: &str, args: &str) -> Output {
    let quantize = env!("CARGO_BIN_EXE_gguf-quantize");
    sandbox.run("sh", &["-c", &format!("ulimit {limit} && exec {quantize} {args}")])
}

#[test]
fn soft_file_limit_is_raised_hard_reported() {
    let sandbox = Sandbox::with_converted("llama", "m.gguf", "f16");
    let call = |out: &str| format!("m.gguf {out} q8_0 --split-max-tensors 1 -q");
    succeed(with_open_files(&sandbox, "-Sn 16", &call("raised.gguf")));
    let before = sandbox.listing("").len();
    for mode in ["", " --resume"] {
        let ran = with_open_files(&sandbox, "-n 32", &(call("refused.gguf") + mode));
        assert_eq!(ran.code, Some(1), "{ran:?}");
        assert!(ran.stderr.contains("outputs need"), "{ran:?}");
        assert!(ran.stderr.contains("hint: raise the limit with `ulimit -n"), "{ran:?}");
        assert_eq!(sandbox.listing("").len(), before, "nothing is left");
    }
}
