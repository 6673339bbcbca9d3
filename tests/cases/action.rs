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
    let variables = [
        ("FILE", file),
        ("BASELINE", "baseline.json"),
        ("BASE", base),
        ("NEW_BASE", "false"),
        ("TEXT", text),
    ];
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

/// The commands of the workflow in the guide, without its first, which installs the programs.
fn commands_of_guide() -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/guides/ci.md");
    let guide = fs::read_to_string(path).unwrap();
    let workflow = guide.split("```yaml\n").nth(1).unwrap().split("```").next().unwrap();
    let steps = workflow.split("- name: ").skip(2);
    // The text of a step up to its end, in one line: `>-` joins lines.
    let command =
        |step: &str| step.split("run: ").nth(1).unwrap().trim_start_matches(">-").replace('\n', " ");
    steps.map(command).collect()
}

#[cfg(unix)]
#[test]
fn workflow_of_the_guide_passes_then_finds_a_worse_file() {
    let sandbox = Sandbox::with_golden("llama");
    fs::rename(sandbox.path("llama"), sandbox.path("model")).unwrap();
    fs::create_dir(sandbox.path("eval")).unwrap();
    sandbox.write("eval/wiki.txt", "The quick brown fox jumps over the lazy dog. ".repeat(40));
    let run = |command: &str| {
        let programs = Path::new(EVAL).parent().unwrap().display();
        let path = format!("{programs}:{}", std::env::var("PATH").unwrap());
        let mut shell = Command::new("bash");
        shell
            .args(["-e", "-c", command])
            .current_dir(sandbox.path(""))
            .env("PATH", path)
            .env("MODEL", "model");
        shell.env("GITHUB_STEP_SUMMARY", "summary.md").output().unwrap().status.code()
    };
    succeed(sandbox.convert(&words("model model-{ftype}.gguf --type bf16,q4_k_m,q2_k")));
    let save = "check model-q4_k_m.gguf --base model-bf16.gguf --text eval/wiki.txt --baseline eval/baseline.json \
                --save --context 32 --chunks 4";
    succeed(sandbox.eval(&words(save)));
    let commands = commands_of_guide();
    assert_eq!(commands.len(), 3, "{commands:?}");
    for name in ["model-bf16.gguf", "model-q4_k_m.gguf"] {
        fs::remove_file(sandbox.path(name)).unwrap();
    }
    for command in &commands {
        assert_eq!(run(command), Some(0), "{command}");
    }
    assert!(sandbox.text("summary.md").contains("### `model-q4_k_m.gguf`: as good as the baseline"));
    fs::rename(sandbox.path("model-q2_k.gguf"), sandbox.path("model-q4_k_m.gguf")).unwrap();
    assert_eq!(run(&commands[2]), Some(3));
    assert!(sandbox.text("summary.md").contains("### `model-q4_k_m.gguf`: worse than the baseline allows"));
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
    assert!(code == Some(0) && annotation.is_empty() && summary.contains("| perplexity |"), "{summary}");
    let (code, annotation, summary) = run(&sandbox, "q2.gguf", "a.gguf", "text.txt");
    assert_eq!(code, Some(3));
    assert!(annotation.contains("::q2.gguf is worse than the baseline allows"), "{annotation}");
    assert!(summary.contains("| **worse** |"), "{summary}");
    for (file, base, text, problem) in [
        ("none.gguf", "a.gguf", "text.txt", "none.gguf: cannot open"),
        ("a.gguf", "a.gguf", "other.txt", "the text differs from the text of the baseline"),
        ("a.gguf", "", "text.txt", "missing --base: the baseline has a KL divergence"),
    ] {
        let (code, annotation, summary) = run(&sandbox, file, base, text);
        assert!(code.is_some_and(|code| ![0, 3].contains(&code)));
        assert!(!annotation.contains("worse") && !summary.contains("worse"), "{annotation}{summary}");
        assert!(annotation.starts_with("::error file=baseline.json::"), "{annotation}");
        assert!(annotation.contains(problem) && summary.contains(problem), "{annotation}{summary}");
    }
    let failed = sandbox.eval(&words("check none.gguf --text text.txt --baseline baseline.json --json"));
    let object = failed.json();
    assert!(object["error"].as_str().is_some_and(|error| failed.stderr.contains(error)), "{object}");
}

#[test]
fn json_errors_are_on_stdout() {
    let sandbox = Sandbox::new();
    sandbox.write("text", "text");
    for ran in [
        sandbox.convert(&words("none x.gguf -t q8_0 --json")),
        sandbox.quantize(&words("none.gguf x.gguf q8_0 --json")),
        sandbox.inspect(&words("show none.gguf --json")),
        sandbox.inspect(&words("hash none.gguf --json")),
        sandbox.eval(&words("compare none.gguf other.gguf --text text --json")),
        sandbox.eval(&words("compare none.gguf --text text --json")),
        sandbox.eval(&words("perplexity none.gguf --text text --json -q")),
    ] {
        let object = ran.json();
        let line = format!("error: {}\n", object["error"].as_str().unwrap());
        ran.begins(&line);
        let hints = object["hints"].as_array().unwrap().iter();
        hints.for_each(|hint| ran.says(&format!("hint: {}\n", hint.as_str().unwrap())));
    }
    // Without the option, stdout is empty.
    let ran = sandbox.inspect(&words("show none.gguf"));
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""));
}
