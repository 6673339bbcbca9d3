//! Templates of public reports, next to what transformers renders.

use std::{fs, path::Path};

use gguf_runtime::chat::{Chat, ChatError, Date, Settings, SpecialTokens, prompt, render_chat};

/// `tests/data/templates`: template, messages, arguments, and the text that transformers 5.24 (jinja2 3.1.6) makes of them.
#[test]
fn reported_templates_render_as_in_transformers() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/templates");
    let (mut n_templates, mut faults) = (0, Vec::new());
    for entry in fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let Some(name) = name.strip_suffix("-template.jinja") else { continue };
        n_templates += 1;
        let read = |end: &str| fs::read_to_string(folder.join(format!("{name}-{end}"))).unwrap();
        let arguments: serde_json::Value = serde_json::from_str(&read("kwargs.json")).unwrap();
        let text = |name: &str| arguments[name].as_str().unwrap();
        let settings = Settings {
            tokens: &SpecialTokens::new(text("bos_token"), text("eos_token")),
            generation_prompt: arguments["add_generation_prompt"].as_bool().unwrap(),
            date: Date::FIXED,
        };
        let chat = Chat::parse(&read("messages.json")).unwrap();
        let made = render_chat(&read("template.jinja"), &chat, &settings);
        let expected = read("expected.txt");
        if made.as_ref().ok() != Some(&expected) {
            faults.push(format!("{name}: expected {expected:?}, found {made:?}"));
        }
    }
    assert_eq!(n_templates, 25);
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Expected texts follow `llm_chat_apply_template` by hand.
#[test]
fn named_templates_render_as_in_llama_cpp() {
    let chat = [("system", "S"), ("user", "Hi"), ("assistant", " Yes "), ("user", "Bye")];
    for (name, expected) in [
        ("mistral-v1", " [INST] S\n\nHi [/INST]  Yes </s> [INST] Bye [/INST]"),
        ("mistral-v3", "[INST] S\n\nHi[/INST] Yes</s>[INST] Bye[/INST]"),
        ("mistral-v3-tekken", "[INST]S\n\nHi[/INST] Yes </s>[INST]Bye[/INST]"),
        ("mistral-v7", "[SYSTEM_PROMPT] S[/SYSTEM_PROMPT][INST] Hi[/INST]  Yes </s>[INST] Bye[/INST]"),
        ("mistral-v7-tekken", "[SYSTEM_PROMPT]S[/SYSTEM_PROMPT][INST]Hi[/INST] Yes </s>[INST]Bye[/INST]"),
        ("llama2-sys-bos", "[INST] <<SYS>>\nS\n<</SYS>>\n\nHi [/INST] Yes </s><s>[INST] Bye [/INST]"),
        (
            "llama3",
            "<|start_header_id|>system<|end_header_id|>\n\nS<|eot_id|><|start_header_id|>user<|end_header_id|>\n\n\
             Hi<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\nYes<|eot_id|>\
             <|start_header_id|>user<|end_header_id|>\n\nBye<|eot_id|>\
             <|start_header_id|>assistant<|end_header_id|>\n\n",
        ),
    ] {
        assert_eq!(prompt(Some(name), &chat, "", "").unwrap(), expected, "{name}");
    }
    let chatml = prompt(Some("chatml"), &[("user", "Hi")], "", "").unwrap();
    assert_eq!(chatml, "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
    assert!(matches!(prompt(Some("vicuna"), &chat, "", ""), Err(ChatError::Named(name)) if name == "vicuna"));
}

/// Each line of `tests/data/constructs.jsonl` has a template and its rendering by transformers 5.24 (null: an error or a printed
/// address), then true if it is refused here. Written by `scripts/templates/constructs.py`.
#[test]
fn constructs_render_as_in_transformers_or_are_refused() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/constructs.jsonl");
    let chat = r#"[{"role": "system", "content": "Be"}, {"role": "user", "content": "Hi <b>"},
                   {"role": "assistant", "content": "Yo"}, {"role": "user", "content": "ok"}]"#;
    let chat = Chat::parse(chat).unwrap();
    let tokens = SpecialTokens::new("<s>", "</s>");
    let settings = Settings { tokens: &tokens, generation_prompt: true, date: Date::FIXED };
    let (mut n_rendered, mut faults) = (0, Vec::new());
    for line in fs::read_to_string(path).unwrap().lines() {
        let row: Vec<serde_json::Value> = serde_json::from_str(line).unwrap();
        let made = render_chat(row[0].as_str().unwrap(), &chat, &settings);
        let expected = row[1].as_str().filter(|_| row.get(2).is_none());
        n_rendered += usize::from(made.is_ok());
        if made.as_ref().ok().map(String::as_str) != expected {
            faults.push(format!("{line}: {made:?}"));
        }
    }
    assert!(n_rendered > 150, "{n_rendered}");
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
