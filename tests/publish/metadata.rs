//! Publications whose metadata changes: chat template, name, license. Weights and measurements are kept.

use std::{collections::BTreeMap, fs};

use super::{is_kept, write_texts};
use crate::common::{Output, Sandbox, succeed, words};

const TYPES: [&str; 2] = ["-t", "q8_0,q4_k_m"];

/// A checkpoint and texts.
fn sandbox() -> Sandbox {
    let sandbox = Sandbox::with_golden("llama-llama3");
    write_texts(&sandbox);
    sandbox.write("llama-llama3/README.md", "---\nlicense: mit\n---\n");
    sandbox
}

fn publish(sandbox: &Sandbox, dir: &str, more: &[&str]) -> Output {
    let args = words("-c 32 --chunks 6 --imatrix-chunks 6 --imatrix-text cal.txt --eval-text eval.txt -j 2");
    succeed(sandbox.publish(&[&["llama-llama3", dir], more, &args[..]].concat()))
}

/// Digests of the model files of a folder.
fn models(sandbox: &Sandbox, dir: &str) -> BTreeMap<String, String> {
    let mut files = sandbox.listing(dir);
    files.retain(|name, _| name.ends_with(".gguf"));
    files
}

#[test]
fn new_metadata_renews_only_headers() {
    let sandbox = sandbox();
    sandbox.write("one.jinja", "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}<assistant>");
    sandbox.write(
        "two.jinja",
        "{% if messages[0].role != 'system' %}You are a careful assistant.\n{% endif %}\
         {% for m in messages %}[{{ m.role }}] {{ m.content }}\n{% endfor %}[assistant] ",
    );
    // One of the files is the base.
    let types = ["-t", "f32,q8_0,q4_k_m"];
    publish(&sandbox, "out/pub", &[&types[..], &["--chat-template", "one.jinja"]].concat());
    let card = sandbox.text("out/pub/README.md");
    assert!(card.contains("```text\n<system>{system_prompt}<user>{prompt}<assistant>\n```"), "{card}");
    assert!(card.contains("\n- \"conversational\"\n") && !card.contains("adds this system prompt"), "{card}");
    let first = models(&sandbox, "out/pub");

    // After a change of template, name or license, the files equal those of a new publication.
    let changes: [(&[&str], &str); 3] = [
        (&["--chat-template", "two.jinja"], "license: mit"),
        (&["--chat-template", "two.jinja", "--model-name", "My Tune 2B"], "license: mit"),
        (&["--chat-template", "two.jinja", "--model-name", "My Tune 2B"], "license: apache-2.0"),
    ];
    for (index, (options, license)) in changes.into_iter().enumerate() {
        sandbox.write("llama-llama3/README.md", format!("---\n{license}\n---\n"));
        let ran = publish(&sandbox, "out/pub", options);
        is_kept(&ran);
        ran.says("new metadata, same tensors");
        let dir = format!("out/fresh{index}");
        publish(&sandbox, &dir, &[&types[..], options].concat());
        let (renewed, fresh) = (models(&sandbox, "out/pub"), models(&sandbox, &dir));
        assert_eq!(renewed, fresh, "{options:?} {license}");
        assert_ne!(renewed, first);
        let checked = sandbox
            .command(env!("CARGO_BIN_EXE_gguf-inspect"))
            .args(["hash", "--check", "SHA256SUMS", "-q"])
            .current_dir(sandbox.path("out/pub"))
            .output();
        assert!(checked.unwrap().status.success(), "{options:?} {license}");
    }
    let card = sandbox.text("out/pub/README.md");
    assert!(card.contains("[system] {system_prompt}\n[user] {prompt}\n[assistant] \n```"), "{card}");
    let system =
        "adds this system prompt to a chat without one:\n\n```text\nYou are a careful assistant.\n```\n";
    assert!(card.contains(system), "{card}");
    assert!(card.contains("license: \"apache-2.0\"") && card.contains("# My Tune 2B GGUF"), "{card}");
    // The name and the template are remembered.
    let ran = succeed(sandbox.publish(&words("llama-llama3 out/pub -j 2")));
    is_kept(&ran);
    assert_eq!(models(&sandbox, "out/pub"), models(&sandbox, "out/fresh2"));
}

#[test]
fn edits_of_published_files_are_refused() {
    let sandbox = sandbox();
    publish(&sandbox, "out/pub", &TYPES);
    let name = models(&sandbox, "out/pub").into_keys().find(|name| name.contains("Q8_0")).unwrap();
    let file = format!("out/pub/{name}");
    sandbox.write("new.jinja", "{{ messages[0].content }}");
    succeed(sandbox.inspect(&["set", &file, "--chat-template", "new.jinja"]));
    let edited = sandbox.read(&file);
    let ran = sandbox.publish(&words("llama-llama3 out/pub -j 2"));
    ran.ends_and_says(1, &format!("{name}: was changed after it was written"));
    ran.says("pass --chat-template or --model-name");
    assert!(sandbox.read(&file) == edited, "the edit is still there");
}

#[test]
fn removed_type_leaves_nothing() {
    let sandbox = sandbox();
    publish(&sandbox, "out/pub", &TYPES);
    let ran = sandbox.publish(&words("llama-llama3 out/pub --remove q5_0"));
    ran.ends_and_says(2, "type `q5_0` is not published");
    ran.says("published types: Q4_K_M, Q8_0");
    let ran = succeed(sandbox.publish(&words("llama-llama3 out/pub -j 2 --remove q4_k_m")));
    is_kept(&ran);
    assert!(ran.stderr.contains("is ready") && !ran.stderr.contains("not in the card"), "{}", ran.stderr);
    assert!(sandbox.listing("out/pub").keys().all(|name| !name.contains("Q4_K_M")));
    for name in ["README.md", "results.json", "SHA256SUMS", "plot.svg", "report.html", "Modelfile"] {
        let text = sandbox.text(&format!("out/pub/{name}"));
        assert!(!text.contains("Q4_K_M") && text.contains("Q8_0"), "{name}: {text}");
    }
    let ran = sandbox.publish(&words("llama-llama3 out/pub -j 2 --remove q8_0"));
    ran.ends_and_says(2, "no file is left to publish");
    assert!(models(&sandbox, "out/pub").keys().any(|name| name.contains("Q8_0")));
}

#[test]
fn chat_template_is_kept_as_text() {
    let sandbox = sandbox();
    sandbox.write("one.jinja", "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}<assistant>");
    publish(&sandbox, "out/plain", &TYPES);
    publish(&sandbox, "out/pub", &[&TYPES[..], &["--chat-template", "one.jinja"]].concat());
    let template = sandbox.text("one.jinja");
    assert_eq!(sandbox.text("out/pub/chat_template.jinja"), template);
    let first = models(&sandbox, "out/pub");
    // Neither a change nor a removal of the file matters.
    for change in [Some("{{ messages[0].content }}"), None] {
        match change {
            Some(text) => sandbox.write("one.jinja", text),
            None => fs::remove_file(sandbox.path("one.jinja")).unwrap(),
        }
        is_kept(&succeed(sandbox.publish(&words("llama-llama3 out/pub -j 2"))));
        assert_eq!(models(&sandbox, "out/pub"), first);
        assert_eq!(sandbox.text("out/pub/chat_template.jinja"), template);
    }
    // Back to the template of the source, now and later.
    for more in [&["--chat-template", "source"][..], &[]] {
        let ran = succeed(sandbox.publish(&[&words("llama-llama3 out/pub -j 2")[..], more].concat()));
        is_kept(&ran);
        assert!(!ran.stderr.contains("--chat-template"), "{}", ran.stderr);
        assert_eq!(models(&sandbox, "out/pub"), models(&sandbox, "out/plain"));
        assert!(!sandbox.path("out/pub/chat_template.jinja").exists());
        assert!(!sandbox.text("out/pub/SHA256SUMS").contains("chat_template.jinja"));
    }
}

#[test]
fn renamed_model_leaves_one_base() {
    let sandbox = sandbox();
    publish(&sandbox, "out/pub", &TYPES);
    let before = models(&sandbox, "out/pub.work");
    publish(&sandbox, "out/pub", &["--model-name", "My Tune 2B"]);
    let after = models(&sandbox, "out/pub.work");
    assert!(after.len() == 1 && before.len() == 1 && after != before, "{before:?} {after:?}");
}

#[test]
fn own_text_in_card_is_kept() {
    let sandbox = sandbox();
    publish(&sandbox, "out/pub", &TYPES);
    let (begin, end) =
        ("<!-- your text: kept when the card is written again -->\n", "<!-- end of your text -->\n");
    let card = sandbox.text("out/pub/README.md");
    assert!(card.contains(&format!("\n{begin}{end}\n## Files\n")), "{card}");
    let text = "## My tests\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n";
    sandbox.edit("out/pub/README.md", end, &format!("{text}{end}"));
    sandbox.edit("out/pub/README.md", "- \"quantized\"\n", "- \"quantized\"\n- chat\n");
    let edited = sandbox.text("out/pub/README.md");
    is_kept(&succeed(sandbox.publish(&words("llama-llama3 out/pub -j 2"))));
    // Own keys are part of the call that makes the card again.
    let own = [
        ("in a folder with the texts", "in a folder with this README.md and the texts"),
        (" --context 32\n", " --context 32 --card-metadata README.md\n"),
    ];
    let edited = own.iter().fold(edited, |card, (from, to)| card.replace(from, to));
    assert_eq!(sandbox.text("out/pub/README.md"), edited);
    assert!(sandbox.text("out/pub/SHA256SUMS").contains(&crate::common::sha256(edited.as_bytes())));
    // Also by a run that changes the rest of the card.
    sandbox.write("more.yaml", "license: other\ndatasets:\n- me/chats\n");
    let call = words("llama-llama3 out/pub -j 2 --quantized-by me");
    succeed(sandbox.publish(&[&call[..], &["--card-metadata", "more.yaml"]].concat()));
    fs::remove_file(sandbox.path("more.yaml")).unwrap();
    is_kept(&succeed(sandbox.publish(&call)));
    let card = sandbox.text("out/pub/README.md");
    let text = format!("{begin}{text}{end}");
    for kept in
        [&text, "quantized_by: \"me\"\n", "- chat\n", "license: other\n", "datasets:\n- me/chats\n---\n"]
    {
        assert!(card.contains(kept), "{kept}: {card}");
    }
    // Edits elsewhere are refused.
    sandbox.edit("out/pub/README.md", "## Files", "## All files");
    let ran = sandbox.publish(&words("llama-llama3 out/pub -j 2"));
    ran.ends_and_says(1, "README.md: was changed after it was written");
    ran.says("; the card differs first at `## All files`\nhint: ");
    ran.says("write your own text in README.md between the comments below the title");
    assert!(!ran.stderr.contains("--chat-template"), "{}", ran.stderr);
    succeed(sandbox.publish(&words("llama-llama3 out/pub -j 2 --force")));
    assert_eq!(sandbox.text("out/pub/README.md"), card);
}

#[test]
fn card_has_commands_and_reports_missing_facts() {
    let sandbox = sandbox();
    fs::remove_file(sandbox.path("llama-llama3/README.md")).unwrap();
    sandbox.write("llama-llama3/generation_config.json", r#"{"temperature": 0.6, "top_k": -1}"#);
    let ran = publish(&sandbox, "out/pub", &TYPES);
    ran.says("warning: the card names no base model");
    ran.says("warning: the card states no license");
    let modelfile = sandbox.text("out/pub/Modelfile");
    let from = modelfile.lines().next().unwrap().strip_prefix("FROM ./").unwrap();
    assert!(models(&sandbox, "out/pub").contains_key(from), "{modelfile}");
    assert!(modelfile.ends_with("PARAMETER temperature 0.6\nPARAMETER top_k -1\n"), "{modelfile}");
    let card = sandbox.text("out/pub/README.md");
    for line in
        [format!("llama-cli -m {from}\n"), "-f Modelfile\n".to_owned(), format!("lms import {from}\n")]
    {
        assert!(card.contains(&line), "{line}: {card}");
    }
    assert!(sandbox.text("out/pub/SHA256SUMS").contains("Modelfile"));
    // No row has 256 elements, the block of the types of this mix; the rule for the output matrix considers that.
    let recipe = sandbox.json("out/pub/recipes/Q4_K_M.json");
    let dtypes = recipe["outputs"][0]["dtypes"].as_object().unwrap();
    let n_matrices =
        dtypes.iter().filter(|(name, dtype)| *dtype != "f32" && *name != "output.weight").count();
    let fallbacks = format!("not a multiple of the block size: {n_matrices} in Q4_K_M.\n");
    assert!(card.contains(&fallbacks), "{fallbacks}: {card}");
    let ran = publish(&sandbox, "out/pub", &["--repo", "me/tune-GGUF"]);
    ran.says("run `hf upload me/tune-GGUF out/pub .`");
    let card = sandbox.text("out/pub/README.md");
    for line in [
        "llama-cli -hf me/tune-GGUF:",
        "ollama run hf.co/me/tune-GGUF:",
        "lms get https://huggingface.co/me/tune-GGUF\n",
        "hf download me/tune-GGUF --include '*Q",
        "almost lossless |",
    ] {
        assert!(card.contains(line), "{line}: {card}");
    }
}
