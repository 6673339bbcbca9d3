//! Runs that are stopped or killed, or whose sources change: messages and remaining files.
//! Alone in its program, because a run has a second to react to a signal.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

#[expect(dead_code, reason = "other tests use the rest")]
mod common;

use std::{
    fs,
    io::{Seek, SeekFrom, Write},
    path::Path,
    process::Child,
    time::{Duration, Instant},
};

use common::{Checkpoint, Output, Sandbox, finish, signal, succeed, wait_until, words};

/// A checkpoint of 130 MB that takes no space: work for longer than a test needs to get in between.
const LARGE: Checkpoint = Checkpoint { hidden: 2048, feed_forward: 8192, heads: 8 };

/// A conversion that has begun to write and is held there.
struct Held<'a> {
    sandbox: &'a Sandbox,
    child: Child,
}

impl<'a> Held<'a> {
    fn new(sandbox: &'a Sandbox, args: &[&str]) -> Held<'a> {
        let mut held = Held { sandbox, child: sandbox.spawn(env!("CARGO_BIN_EXE_gguf-convert"), args) };
        let begun = Instant::now();
        // Names alone: digests of what is being written would take longer than the rest of the work.
        let is_begun = || {
            let entries = fs::read_dir(sandbox.path("out")).into_iter().flatten().flatten();
            entries.map(|entry| entry.file_name()).any(|name| name.to_string_lossy().ends_with(".partial"))
        };
        while !is_begun() {
            assert!(begun.elapsed() < Duration::from_secs(60), "no output is begun");
            assert!(held.child.try_wait().unwrap().is_none(), "ended before it wrote");
        }
        signal(&held.child, "STOP");
        held
    }

    fn finish(self) -> Output {
        signal(&self.child, "CONT");
        let output = finish(self.child);
        assert!(self.sandbox.path("tiny/model.safetensors").exists());
        output
    }
}

/// True if this process, and so its children, ignores a signal, as under `nohup`.
fn is_ignored(signal: u32) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap_or("0");
    u64::from_str_radix(mask.trim(), 16).unwrap() >> (signal - 1) & 1 == 1
}

#[test]
fn signals_end_a_run_with_resume_hint() {
    let sandbox = Sandbox::new();
    LARGE.write(&sandbox);
    for (name, number) in [("INT", 2), ("TERM", 15), ("HUP", 1)] {
        if number == 1 && is_ignored(number) {
            continue;
        }
        let held = Held::new(&sandbox, &words("tiny out/x.gguf -t q4_k_m -q"));
        signal(&held.child, name);
        let ran = held.finish();
        assert_eq!(ran.code, Some(128 + number as i32), "SIG{name}: {}", ran.stderr);
        let lines: Vec<&str> = ran.stderr.lines().collect();
        assert_eq!(lines[0], "error: interrupted; no output was written under its final name", "SIG{name}");
        // Finished work stays, if there is any.
        match &sandbox.outputs()[..] {
            [] => assert_eq!(lines.len(), 1, "SIG{name}: {}", ran.stderr),
            // A run that ends before its disk answers leaves files without work, which the next run replaces.
            left if lines.len() == 1 => {
                assert_eq!(left, [".x.gguf.journal", ".x.gguf.partial"]);
                let journal = fs::read_to_string(sandbox.path("out/.x.gguf.journal")).unwrap();
                let has = |key: &str| journal.contains(&format!("\"{key}\""));
                assert!(!(has("done") && has("fingerprint")), "SIG{name}: {journal}");
            }
            left => {
                assert_eq!(left, [".x.gguf.journal", ".x.gguf.partial"]);
                assert!(lines[1].starts_with("hint: ") && lines[1].ends_with("use --resume to continue"));
                assert_eq!(
                    lines[2],
                    "hint: run `rm out/.x.gguf.journal out/.x.gguf.partial` to remove its files"
                );
                assert_eq!(lines.len(), 3, "SIG{name}: {}", ran.stderr);
                left.iter().for_each(|name| fs::remove_file(sandbox.path("out").join(name)).unwrap());
            }
        }
    }
}

#[test]
fn publication_ends_within_a_second_and_resumes() {
    let sandbox = Sandbox::with_golden("llama");
    let text = |n: usize| -> String {
        (0..n).map(|i| format!("Pump {} ran {} minutes. ", i % 7, i * 13 % 60)).collect()
    };
    sandbox.write("eval.txt", text(200_000));
    sandbox.write("more.yaml", "datasets:\n- me/chats\n");
    let call = words(
        "llama out/pub -t q8_0 -c 32 --no-imatrix --eval-text eval.txt --card-metadata more.yaml -j 1 --chunks",
    );
    let begun = || {
        let entries = fs::read_dir(sandbox.path("out/pub.work")).into_iter().flatten().flatten();
        entries.map(|entry| entry.file_name()).any(|name| name.to_string_lossy().starts_with("measured-"))
    };
    let child = sandbox.spawn(env!("CARGO_BIN_EXE_gguf-publish"), &[&call[..], &["1000000"]].concat());
    let child = wait_until(child, 60, begun);
    let stopped = Instant::now();
    signal(&child, "INT");
    let ran = finish(child);
    assert!(stopped.elapsed() < Duration::from_secs(3), "{:?}", stopped.elapsed());
    assert_eq!(ran.code, Some(130), "{}", ran.stderr);
    let expected = "error: interrupted\nhint: run the same command again to continue; finished stages and measured chunks are kept\n";
    assert!(ran.stderr.ends_with(expected), "{}", ran.stderr);
    // Text and keys are remembered, the chunks are not measured again.
    fs::remove_file(sandbox.path("more.yaml")).unwrap();
    let ran = succeed(sandbox.publish(&words("llama out/pub -j 1 --chunks 8")));
    assert!(!ran.stderr.contains("files: ") && !ran.stderr.contains("comparing "), "{}", ran.stderr);
    ran.says("eval.txt");
    ran.says("--card-metadata");
    let card = sandbox.text("out/pub/README.md");
    assert!(card.contains("datasets:\n- me/chats\n---\n"), "{card}");
    // In the card, the keys can be deleted.
    sandbox.edit("out/pub/README.md", "datasets:\n- me/chats\n", "");
    let ran = succeed(sandbox.publish(&words("llama out/pub -j 1")));
    let card = sandbox.text("out/pub/README.md");
    assert!(!ran.stderr.contains("--card-metadata") && !card.contains("datasets:"), "{card}");
}

#[test]
fn inherited_ignored_hangup_stays_ignored() {
    let sandbox = Sandbox::new();
    Checkpoint { hidden: 256, feed_forward: 512, heads: 2 }.write(&sandbox);
    let run = format!(
        "trap '' HUP; {} tiny out/x.gguf -t f32 -q & child=$!; kill -HUP $child; wait $child",
        env!("CARGO_BIN_EXE_gguf-convert")
    );
    let ran = sandbox.run("sh", &["-c", &run]);
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    assert_eq!(sandbox.outputs(), ["x.gguf"]);
}

#[test]
fn leftovers_of_killed_run_do_not_block() {
    let sandbox = Sandbox::new();
    LARGE.write(&sandbox);
    // Killed before anything was recorded: there is nothing to resume.
    let held = Held::new(&sandbox, &words("tiny out/x.gguf -t q4_k_m -q"));
    signal(&held.child, "KILL");
    assert_eq!(held.finish_killed(), None);
    sandbox.write("out/.x.gguf.journal", "");
    // Files of an older program or another command are named and kept.
    sandbox.write("out/.999999999-0.x.gguf.partial", "left");
    let ran = succeed(sandbox.convert(&["tiny", "out/x.gguf", "-t", "q8_0"]));
    let warning = "warning: out/.999999999-0.x.gguf.partial: 4 B, ";
    let line = ran.stderr.lines().find(|line| line.starts_with(warning)).expect("the leftover is named");
    assert!(
        line.contains(
            " s old, left by a killed run; unless another machine is writing it, remove it with `rm`"
        ),
        "{line}"
    );
    assert_eq!(sandbox.outputs(), [".999999999-0.x.gguf.partial", "x.gguf"]);
    // Another output is not affected.
    let ran = sandbox.convert(&["tiny", "out/y.gguf", "-t", "q8_0"]);
    assert!(!ran.stderr.contains("left by"), "{}", ran.stderr);
}

impl Held<'_> {
    fn finish_killed(mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }
}

#[test]
fn truncated_source_is_named_and_leaves_nothing() {
    // Rows that are encoded are read by us, rows that are copied by the system.
    for dtype in ["q4_k_m", "bf16,q4_k_m"] {
        let sandbox = Sandbox::new();
        LARGE.write(&sandbox);
        let held = Held::new(&sandbox, &["tiny", "out/{ftype}", "-t", dtype, "-q"]);
        cut(&sandbox.path("tiny/model.safetensors"), 8192);
        let ran = held.finish();
        assert_eq!(ran.code, Some(1), "{dtype}: {}", ran.stderr);
        let first = ran.stderr.lines().next().unwrap();
        assert!(
            first == "error: tiny/model.safetensors: became shorter while it was read"
                || first.starts_with("error: tiny/model.safetensors: changed while it was read: it had "),
            "{dtype}: {first}"
        );
        ran.says("\nhint: ");
        assert!(sandbox.outputs().is_empty(), "{dtype}: {:?}", sandbox.outputs());
    }
}

fn cut(path: &Path, n_bytes: u64) {
    fs::File::options().write(true).open(path).unwrap().set_len(n_bytes).unwrap();
}

#[test]
fn modified_source_is_an_error() {
    let sandbox = Sandbox::new();
    LARGE.write(&sandbox);
    let path = sandbox.path("tiny/model.safetensors");
    let held = Held::new(&sandbox, &words("tiny out/x.gguf -t q4_k_m -q"));
    let mut file = fs::File::options().write(true).open(&path).unwrap();
    file.seek(SeekFrom::End(-2)).unwrap();
    file.write_all(&[1, 0]).unwrap();
    drop(file);
    let ran = held.finish();
    let stderr = "error: tiny/model.safetensors: changed while it was read: it was modified\n\
                  hint: run the command again when no other program changes the file\n";
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(1), stderr));
    assert!(sandbox.outputs().is_empty(), "{:?}", sandbox.outputs());

    // The same name, another file.
    let held = Held::new(&sandbox, &words("tiny out/x.gguf -t q4_k_m -q"));
    sandbox.write("tiny/new", fs::read(&path).unwrap());
    fs::rename(sandbox.path("tiny/new"), &path).unwrap();
    let ran = held.finish();
    ran.ends_and_says(1, "it was replaced by another file");
    assert!(sandbox.outputs().is_empty(), "{:?}", sandbox.outputs());
}
