//! Publications of several calls: the command that reproduces them, clones without a state, and runs that fail.

use std::{fs, process::Stdio};

use super::{is_kept, write_texts};
use crate::common::{Output, Sandbox, copy_folder, finish, succeed, words};
use serde_json::Value;

const TEMPLATE: &str = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}<assistant>";

/// A checkpoint with texts.
fn sandbox(name: &str) -> Sandbox {
    let sandbox = Sandbox::with_golden(name);
    sandbox.add_text();
    write_texts(&sandbox);
    sandbox.write("one.jinja", TEMPLATE);
    sandbox.write("more.yaml", "tags: [news]\ndatasets:\n- me/chats\n");
    sandbox
}

/// Copies files to a new folder, which stands for another machine.
fn copy(sandbox: &Sandbox, folder: &str, names: &[&str]) {
    fs::create_dir(sandbox.path(folder)).unwrap();
    for name in names {
        let (from, to) = (sandbox.path(name), sandbox.path(folder).join(name.rsplit('/').next().unwrap()));
        if from.is_dir() {
            copy_folder(&from, &to);
        } else {
            fs::copy(from, to).unwrap();
        }
    }
}

/// Runs the program in a folder.
fn publish_in(sandbox: &Sandbox, folder: &str, args: &[&str]) -> Output {
    let mut command = sandbox.command(env!("CARGO_BIN_EXE_gguf-publish"));
    command.args(args).current_dir(sandbox.path(folder)).stdout(Stdio::piped()).stderr(Stdio::piped());
    finish(command.spawn().unwrap())
}

/// Runs the commands of the card in a new folder, and compares everything that is published.
fn is_reproduced(sandbox: &Sandbox, folder: &str, names: &[&str]) {
    copy(sandbox, folder, names);
    let results = sandbox.json("out/pub/results.json");
    let card = sandbox.text("out/pub/README.md");
    let place = "run in a folder with this README.md and this chat_template.jinja and the texts:\n";
    assert!(card.contains(place), "{card}");
    for call in ["command", "removal"] {
        let Value::Array(arguments) = &results[call] else { continue };
        let arguments: Vec<&str> = arguments.iter().map(|argument| argument.as_str().unwrap()).collect();
        // Names with spaces are quoted in the card.
        assert!(arguments.iter().all(|argument| card.contains(argument)), "{arguments:?} {card}");
        succeed(publish_in(sandbox, folder, &arguments[1..]));
    }
    let (made, expected) = (sandbox.listing(&format!("{folder}/pub")), sandbox.listing("out/pub"));
    for (name, digest) in &expected {
        assert_eq!(
            made.get(name),
            Some(digest),
            "{name} {}",
            sandbox.text(&format!("{folder}/pub/README.md"))
        );
    }
    assert_eq!(made.len(), expected.len());
}

#[test]
fn card_reproduces_files_of_several_calls() {
    let sandbox = sandbox("llama");
    let call = |args: &[&str]| {
        succeed(sandbox.publish(&[&["llama", "out/pub", "-j", "2"], args].concat()));
    };
    call(&words(
        "-t q8_0,bf16 -c 32 --chunks 4 --eval-text eval.txt --imatrix-text cal.txt --imatrix-chunks 4 --base-type f32",
    ));
    call(&words("--type q4_k_m,q5_0 --chunks 6 --card-metadata more.yaml"));
    call(&["--remove", "q5_0", "--chat-template", "one.jinja", "--model-name", "My Tune 2B"]);
    let files = ["llama", "cal.txt", "eval.txt", "text", "out/pub/chat_template.jinja", "out/pub/README.md"];
    is_reproduced(&sandbox, "first", &files);
    call(&words("--calibrate text --calibration-tokens 2048 --target-size 800K --split-max-size 1MB"));
    is_reproduced(&sandbox, "second", &files);
    // Without any type: a call cannot omit the types of a ladder.
    call(&words("--remove q8_0,q4_k_m,bf16"));
    let results = sandbox.json("out/pub/results.json");
    assert_eq!((results["rungs"].as_array().unwrap().len(), results["removal"].is_array()), (1, true));
    is_reproduced(&sandbox, "third", &files);
    // Later calls add nothing either.
    call(&[]);
    assert_eq!(sandbox.json("out/pub/results.json"), results);
}

#[test]
fn clone_without_state_keeps_everything() {
    let sandbox = sandbox("llama-llama3");
    let source = ["llama-llama3", "out/pub", "-j", "2"];
    let call = |args: &[&str]| succeed(sandbox.publish(&[&source[..], args].concat()));
    call(&words(
        "-t q8_0,q4_k_m -c 32 --chunks 6 --imatrix-text cal.txt --imatrix-chunks 6 --eval-text eval.txt \
         --base-model me/tune --repo me/tune-GGUF --model-name Tune --chat-template one.jinja --quantized-by me",
    ));
    copy(&sandbox, "clone", &["llama-llama3", "eval.txt", "out/pub"]);
    copy(&sandbox, "bare", &["llama-llama3", "eval.txt", "out/pub"]);
    // Texts that are not in the folder are asked for.
    let more = words("llama-llama3 pub -j 2 --type q5_0");
    let ran = publish_in(&sandbox, "clone", &more);
    ran.ends_and_says(1, "pub: files of the earlier run are not in the published folder");
    ran.says("hint: pass them again: --eval-text eval.txt");
    // The matrix is one of the published files, and so are the other types.
    let ran = succeed(publish_in(&sandbox, "clone", &[&more[..], &["--eval-text", "eval.txt"]].concat()));
    assert!(
        ran.stderr.contains("files: Q5_0\n") && !ran.stderr.contains("importance matrix"),
        "{}",
        ran.stderr
    );
    call(&["--type", "q5_0"]);
    assert_eq!(sandbox.listing("clone/pub"), sandbox.listing("out/pub"));
    // Later calls need no texts, also from another folder.
    for (folder, published) in [("clone", "pub"), ("", "clone/pub")] {
        is_kept(&succeed(publish_in(&sandbox, folder, &["llama-llama3", published, "-j", "2"])));
        assert_eq!(sandbox.listing("clone/pub"), sandbox.listing("out/pub"));
    }

    // A matrix that is missing, or that other texts or settings would change.
    fs::remove_file(sandbox.path("bare/pub/imatrix.gguf")).unwrap();
    let call = words("llama-llama3 pub -j 2 --eval-text eval.txt");
    let ran = publish_in(&sandbox, "bare", &call);
    ran.ends_and_says(1, "imatrix.gguf: missing, changed, or made for other weights");
    ran.says("hint: pass its texts again: --imatrix-text cal.txt");
    let ran = publish_in(&sandbox, "bare", &[&call[..], &["--imatrix-chunks", "3"]].concat());
    ran.says("hint: pass them again: --imatrix-text cal.txt");
    // With its texts it is made again.
    let cal = sandbox.path("cal.txt");
    let cal = ["--type", "q5_0", "--imatrix-text", cal.to_str().unwrap()];
    succeed(publish_in(&sandbox, "bare", &[&call[..], &cal].concat()));
    assert_eq!(sandbox.listing("bare/pub"), sandbox.listing("out/pub"));
}

#[test]
fn failed_run_leaves_no_settings() {
    let sandbox = sandbox("llama");
    let call = |args: &[&str]| sandbox.publish(&[&["llama", "out/pub", "-j", "2"], args].concat());
    let first = words("-t q8_0 -c 32 --chunks 4 --no-imatrix --eval-text eval.txt --quantized-by me");
    sandbox.write("short.txt", "Short.");
    let failing = words("--type q4_0 -c 32 --eval-text short.txt --quantized-by you --model-name Other");
    // Neither before a publication nor after it.
    call(&failing).ends_and_says(1, "short.txt");
    succeed(call(&first));
    let before = sandbox.listing("out/pub");
    call(&failing).ends_and_says(1, "short.txt");
    succeed(call(&[]));
    assert_eq!(sandbox.listing("out/pub"), before);
}
