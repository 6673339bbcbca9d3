//! Publishing: settings of earlier calls, overwriting, and paths that must stay private.

use std::fs;

use crate::common::{Output, Sandbox, succeed, words};

/// `secret/a.gguf`, and a text in `private/`.
fn sandbox() -> Sandbox {
    let sandbox = Sandbox::with_golden("llama");
    fs::create_dir_all(sandbox.path("secret")).unwrap();
    fs::create_dir_all(sandbox.path("private")).unwrap();
    succeed(sandbox.convert(&words("llama secret/a.gguf -t f32 -q")));
    let line =
        |i: usize| format!("Line {i} of the log says that pump {} ran {} minutes. ", i % 7, i * 13 % 60);
    sandbox.write("private/eval.txt", (0..200).map(line).collect::<String>());
    sandbox
}

fn publish(sandbox: &Sandbox, more: &[&str]) -> Output {
    sandbox.publish(&[&["secret/a.gguf", "out", "-j", "2"], more].concat())
}

fn card(sandbox: &Sandbox) -> String {
    sandbox.text("out/README.md")
}

#[test]
fn no_local_path_is_published() {
    let sandbox = sandbox();
    let absolute = sandbox.path("private/eval.txt");
    let eval = format!("--eval-text={}", absolute.display());
    let mut args = words("-t q8_0 --chunks 2 -c 32 --imatrix-chunks 2 --imatrix-text private/eval.txt");
    args.push(&eval);
    succeed(publish(&sandbox, &args));
    let folder = absolute.parent().unwrap().to_string_lossy().into_owned();
    for name in sandbox.listing("out").keys() {
        let bytes = fs::read(sandbox.path("out").join(name)).unwrap();
        let text = String::from_utf8_lossy(&bytes);
        for path in ["secret", "private", &folder] {
            assert!(!text.contains(path), "{name} has {path}");
        }
    }
    assert!(card(&sandbox).contains("gguf-publish a.gguf out"), "{}", card(&sandbox));
}

#[test]
fn edited_files_are_overwritten_with_force_only() {
    let sandbox = sandbox();
    let args = ["-t", "q8_0", "--chunks", "2", "-c", "32", "--no-imatrix", "--eval-text", "private/eval.txt"];
    succeed(publish(&sandbox, &args));
    sandbox.write("t.jinja", "{% for m in messages %}<{{ m.content }}>{% endfor %}");
    let file = sandbox.listing("out").into_keys().find(|name| name.ends_with(".gguf")).unwrap();
    succeed(sandbox.inspect(&["set", &format!("out/{file}"), "--chat-template", "t.jinja", "-q"]));
    let edited = sandbox.listing("out");
    let refused = publish(&sandbox, &args);
    refused.ends_and_says(1, &format!("{file}: was changed after it was written"));
    assert_eq!(sandbox.listing("out"), edited);
    succeed(publish(&sandbox, &[&args[..], &["--force"]].concat()));
    sandbox.write("out/README.md", card(&sandbox) + "\nA remark.\n");
    let refused = publish(&sandbox, &args);
    assert!(refused.code == Some(1) && refused.stderr.contains("README.md"), "{}", refused.stderr);
    assert!(card(&sandbox).ends_with("A remark.\n"));
    succeed(publish(&sandbox, &[&args[..], &["--force"]].concat()));
    assert!(!card(&sandbox).contains("A remark."));
    succeed(publish(&sandbox, &args));
}

#[test]
fn later_call_keeps_earlier_settings() {
    let sandbox = sandbox();
    succeed(publish(
        &sandbox,
        &words("-t q4_0,q8_0 --chunks 3 -c 32 --no-imatrix --eval-text private/eval.txt --quantized-by me"),
    ));
    let added = succeed(publish(&sandbox, &["-t", "q5_0"]));
    assert!(!added.stderr.contains("is in the folder but not in the card"), "{}", added.stderr);
    added.says("as in the last run: --no-imatrix, --eval-text ");
    added.says("private/eval.txt, --chunks 3");
    let sums = sandbox.text("out/SHA256SUMS");
    for name in ["Q4_0", "Q8_0", "Q5_0"] {
        assert!(card(&sandbox).contains(&format!("-{name}.gguf)")), "{name}: {}", card(&sandbox));
        assert!(sums.contains(&format!("-{name}.gguf")), "{name}: {sums}");
    }
    assert!(
        card(&sandbox).contains("over 3 chunks of 32 tokens")
            && card(&sandbox).contains("quantized_by: \"me\"")
    );
    // Without types, the same files.
    let again = succeed(publish(&sandbox, &[]));
    assert!(!again.stderr.contains("files: ") && card(&sandbox).contains("-Q5_0.gguf)"), "{}", again.stderr);
    succeed(publish(&sandbox, &["-t", "q8_0", "--replace-types"]));
    assert!(!card(&sandbox).contains("-Q5_0.gguf)"));
}

#[test]
fn last_progress_line_matches_card_mean() {
    let sandbox = sandbox();
    let args =
        ["-t", "q4_0,q2_k", "--chunks", "60", "-c", "32", "--no-imatrix", "--eval-text", "private/eval.txt"];
    let ran = succeed(publish(&sandbox, &args));
    let last = ran.stderr.lines().rfind(|line| line.contains(" of 60 chunks")).unwrap();
    let results = sandbox.json("out/results.json");
    let mean = |index: usize| results["rungs"][index]["predictions"]["divergence"]["value"].as_f64().unwrap();
    let expected = format!("60 of 60 chunks: KL divergence Q2_K {:.4}, Q4_0 {:.4}", mean(0), mean(1));
    assert_eq!(last, expected);
}
