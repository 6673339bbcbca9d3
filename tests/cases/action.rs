//! The action for workflows, as a runner executes it.

use std::{fs, path::Path, process::Command};

use crate::common::{Sandbox, succeed, words};

const EVAL: &str = env!("CARGO_BIN_EXE_gguf-eval");

/// The text of the step `Check`.
fn step() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(".github/actions/check-model/action.yml");
    let text = fs::read_to_string(path).unwrap();
    let run = text.split("- name: Check\n").nth(1).unwrap().split("run: |\n").nth(1).unwrap();
    run.lines().map(|line| format!("{}\n", line.strip_prefix("        ").unwrap_or(line))).collect()
}

/// Exit code, annotation and summary of the step.
fn run(sandbox: &Sandbox, file: &str, base: &str, text: &str) -> (Option<i32>, String, String) {
    for name in ["output", "summary"] {
        let _ = fs::remove_file(sandbox.path(name));
    }
    let variables = [("FILE", file), ("BASELINE", "baseline.json"), ("BASE", base), ("TEXT", text)];
    let ran = Command::new("bash")
        .args(["-c", &step()])
        .current_dir(sandbox.path(""))
        .envs(variables)
        .env("GITHUB_OUTPUT", "output")
        .env("GITHUB_STEP_SUMMARY", "summary")
        .env("RUNNER_TEMP", ".")
        .env("PROGRAMS", Path::new(EVAL).parent().unwrap())
        .output()
        .unwrap();
    let annotation = String::from_utf8(ran.stdout).unwrap();
    (ran.status.code(), annotation, sandbox.text("summary"))
}

#[cfg(unix)]
#[test]
fn action_reports_worse_only_for_a_worse_result() {
    let sandbox = Sandbox::with_converted("llama", "a.gguf", "f32");
    succeed(sandbox.quantize(&["a.gguf", "q2.gguf", "q2_k", "-q"]));
    sandbox.write("text.txt", "The quick brown fox jumps over the lazy dog. ".repeat(20));
    sandbox.write("other.txt", "Something else. ".repeat(20));
    let save = ["check", "a.gguf", "--base", "a.gguf", "--text", "text.txt", "--baseline", "baseline.json"];
    succeed(sandbox.eval(&[&save[..], &["--save", "-c", "16", "--chunks", "2"]].concat()));
    let (code, annotation, summary) = run(&sandbox, "a.gguf", "a.gguf", "text.txt");
    assert!(code == Some(0) && annotation.is_empty() && summary.contains("\"is_worse\": false"), "{summary}");
    let (code, annotation, summary) = run(&sandbox, "q2.gguf", "a.gguf", "text.txt");
    assert_eq!(code, Some(1));
    assert!(annotation.contains("::q2.gguf is worse than the baseline allows"), "{annotation}");
    assert!(summary.contains("\"is_worse\": true"), "{summary}");
    for (file, base, text, problem) in [
        ("none.gguf", "a.gguf", "text.txt", "none.gguf: cannot open"),
        ("a.gguf", "a.gguf", "other.txt", "the text differs from the text of the baseline"),
        ("a.gguf", "", "text.txt", "missing --base: the baseline has a KL divergence"),
    ] {
        let (code, annotation, summary) = run(&sandbox, file, base, text);
        assert!(code.is_some_and(|code| code != 0));
        assert!(!annotation.contains("worse") && !summary.contains("worse"), "{annotation}{summary}");
        assert!(annotation.starts_with("::error file=baseline.json::"), "{annotation}");
        assert!(annotation.contains(problem) && summary.contains(problem), "{annotation}{summary}");
    }
    let failed = sandbox.eval(&words("check none.gguf --text text.txt --baseline baseline.json --json"));
    let object = failed.json();
    assert!(object["error"].as_str().is_some_and(|error| failed.stderr.contains(error)), "{object}");
}
