//! Forms of chats that servers and fine-tuning files have, in every command that reads them.

use std::{io::Write, process::Stdio};

use serde_json::{Value as Json, json};

use super::prompts::with_template;
use crate::common::{Output, Sandbox, finish, succeed, words};

/// A template that writes every message, with its calls.
const PLAIN: &str = "{%- for m in messages %}{{- '<' + m.role + '>' }}{%- for c in m.tool_calls or [] %}{{- c.function.name }}\
    {%- for k, v in c.function.arguments|items %}{{- ' ' + k + '=' + v|string }}{%- endfor %}{%- endfor %}{{- m.content }}\
    {%- endfor %}{%- if add_generation_prompt %}{{- '<assistant>' }}{%- endif %}";

fn without_system(template: &str) -> String {
    template.replacen("in messages", "in messages if m.role != 'system'", 1)
}

fn refusing_system(template: &str) -> String {
    let raise = "{%- if messages[0].role == 'system' %}{{- raise_exception('System role not supported') }}{%- endif %}";
    raise.to_owned() + template
}

/// Chats of about a hundred tokens.
fn chats(messages: &Json) -> Vec<Json> {
    vec![json!({"messages": messages}); 40]
}

fn lines(documents: &[Json]) -> String {
    documents.iter().map(|document| format!("{document}\n")).collect()
}

fn imatrix(sandbox: &Sandbox, text: &str) -> Output {
    sandbox.eval(&["imatrix", "in.gguf", "--text", text, "-c", "64", "-o", "out.gguf", "--force"])
}

/// Tokens that a matrix was made from.
fn n_tokens(ran: &Output) -> u64 {
    let line = ran.stderr.lines().find(|line| line.starts_with("wrote out.gguf"));
    let words = line.and_then(|line| line.strip_suffix(" tokens")).and_then(|line| line.rsplit(' ').next());
    words.and_then(|n| n.parse().ok()).unwrap_or_else(|| panic!("{}", ran.stderr))
}

/// A message to `gguf-eval chat`.
fn ask(sandbox: &Sandbox, options: &str) -> Output {
    let mut command = sandbox.command(env!("CARGO_BIN_EXE_gguf-eval"));
    command.args(words(&format!("chat in.gguf -n 2 {options}")));
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let _ = child.stdin.take().unwrap().write_all(b"Hello\n");
    finish(child)
}

/// Lists and lines, whatever the name of the file, and texts under `text`.
#[test]
fn chats_are_recognized_by_content() {
    let sandbox = with_template(PLAIN);
    let messages = json!([{"role": "user", "content": "What is a llama?"}, {"role": "assistant", "content": "An animal."}]);
    let chats = chats(&messages);
    let share_gpt = vec![
        json!({"conversations": [{"from": "human", "value": "What is a llama?"}, {"from": "gpt", "value": "An animal."}]});
        40
    ];
    sandbox.write("chats.jsonl", lines(&chats));
    let expected = n_tokens(&succeed(imatrix(&sandbox, "chats.jsonl")));
    let bare = vec![messages.clone(); 40];
    let named = [
        ("list.json", Json::from(chats.clone()).to_string()),
        ("pretty.json", serde_json::to_string_pretty(&chats).unwrap()),
        ("bare.json", Json::from(bare.clone()).to_string()),
        ("share.json", Json::from(share_gpt).to_string()),
        ("lines.txt", lines(&chats)),
        ("bare.txt", lines(&bare)),
    ];
    for (file, contents) in named {
        sandbox.write(file, contents);
        let ran = succeed(imatrix(&sandbox, file));
        assert_eq!(n_tokens(&ran), expected, "{file}");
    }
    // A text is tokenized as it stands, without a template.
    succeed(sandbox.inspect(&words("unset in.gguf tokenizer.chat_template")));
    let text = "What is a llama? ".repeat(8);
    sandbox.write("texts.jsonl", lines(&vec![json!({"text": text}); 20]));
    sandbox.write("plain.txt", text.repeat(20));
    let [of_json, plain] =
        ["texts.jsonl", "plain.txt"].map(|file| n_tokens(&succeed(imatrix(&sandbox, file))));
    // Each text begins with BOS.
    assert!(of_json.abs_diff(plain) <= 64, "{of_json} {plain}");
    sandbox.write("other.json", lines(&vec![json!({"instruction": "Hi", "output": "Hello"}); 20]));
    let ran = imatrix(&sandbox, "other.json");
    ran.ends_and_says(1, "line 1: missing `messages` or `conversations`, found `instruction`, `output`");
    ran.says("hint: write each example as `messages`");
}

/// `system_message_not_supported` in `common/chat.cpp` of llama.cpp: the next message begins with the text.
#[test]
fn system_messages_are_never_lost_in_silence() {
    let messages = json!([
        {"role": "system", "content": "Answer in rhymes."},
        {"role": "user", "content": "What is a llama?"},
        {"role": "assistant", "content": "An animal."}
    ]);
    let merged = json!([
        {"role": "user", "content": "Answer in rhymes.\nWhat is a llama?"},
        {"role": "assistant", "content": "An animal."}
    ]);
    for (template, in_chat, in_files) in [
        (
            without_system(PLAIN),
            "warning: the chat template ignores system messages",
            "warning: the chat template omits the system message in 40 of 40 chats",
        ),
        (
            refusing_system(PLAIN),
            "warning: the chat template refuses system messages; the next message begins with it",
            "note: chats.jsonl: the chat template refuses system messages; in 40 of 40 chats, the next message begins with it",
        ),
    ] {
        let sandbox = with_template(&template);
        sandbox.write("chats.jsonl", lines(&chats(&messages)));
        let ran = succeed(imatrix(&sandbox, "chats.jsonl"));
        ran.says(in_files);
        let is_moved = in_files.starts_with("note");
        if is_moved {
            sandbox.write("chats.jsonl", lines(&chats(&merged)));
            assert_eq!(n_tokens(&ran), n_tokens(&succeed(imatrix(&sandbox, "chats.jsonl"))));
        }
        succeed(ask(&sandbox, "--system Rhymes")).says(in_chat);
        let generate = words("generate in.gguf --chat --system Rhymes -p Hello -n 2");
        succeed(sandbox.eval(&generate)).says(in_chat);
        // The prompt of transformers.
        sandbox.write("chat.json", messages.to_string());
        let ran = sandbox.inspect(&words("prompt in.gguf --messages chat.json"));
        if is_moved { ran.ends_and_says(1, "System role not supported") } else { succeed(ran).says(in_chat) }
    }
    let sandbox = with_template(PLAIN);
    let ran = succeed(ask(&sandbox, "--system Rhymes"));
    assert!(!ran.stderr.contains("system"), "{}", ran.stderr);
}

/// `func_args_not_string` in `common/chat.cpp` of llama.cpp: arguments become objects for templates that need them.
#[test]
fn arguments_of_calls_may_be_texts() {
    let chat = |arguments: Json| {
        let call =
            json!({"id": "c1", "type": "function", "function": {"name": "add", "arguments": arguments}});
        json!([
            {"role": "user", "content": "1+2?"},
            {"role": "assistant", "content": null, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "content": "3"}
        ])
    };
    let (object, text) = (chat(json!({"a": 1, "b": 2})), chat(json!("{\"a\": 1, \"b\": 2}")));
    let printed = PLAIN.replace(
        "{%- for k, v in c.function.arguments|items %}{{- ' ' + k + '=' + v|string }}{%- endfor %}",
        "{{- c.function.arguments }}",
    );
    let as_json = printed.replace("c.function.arguments }}", "c.function.arguments | tojson }}");
    assert!(printed != PLAIN && as_json != printed);
    for (template, expected) in [
        (PLAIN, "<user>1+2?<assistant>add a=1 b=2<tool>3<assistant>"),
        (&as_json, "<user>1+2?<assistant>add{\"a\": 1, \"b\": 2}<tool>3<assistant>"),
        // Printed as they are.
        (&printed, "<user>1+2?<assistant>add{\"a\": 1, \"b\": 2}<tool>3<assistant>"),
    ] {
        let sandbox = with_template(template);
        sandbox.write("chat.json", text.to_string());
        let ran = succeed(sandbox.inspect(&words("prompt in.gguf --messages chat.json")));
        assert_eq!(ran.stdout.trim_end(), expected);
        sandbox.write("chats.jsonl", lines(&chats(&text)));
        let of_text = n_tokens(&succeed(imatrix(&sandbox, "chats.jsonl")));
        if template != printed {
            sandbox.write("chats.jsonl", lines(&chats(&object)));
            assert_eq!(of_text, n_tokens(&succeed(imatrix(&sandbox, "chats.jsonl"))));
        }
    }
    // Texts that are not JSON stay.
    let sandbox = with_template(PLAIN);
    sandbox.write("chat.json", chat(json!("a=1")).to_string());
    sandbox
        .inspect(&words("prompt in.gguf --messages chat.json"))
        .ends_and_says(1, "`items` expects a dictionary");
}

/// The answer begins with the mark that ends the prompt.
#[test]
fn reasoning_that_the_template_opens_is_marked() {
    for mark in ["<think>", "<seed:think>", "[THINK]"] {
        let sandbox = with_template(&PLAIN.replace("'<assistant>'", &format!("'<assistant>{mark}\\n'")));
        let ran = succeed(ask(&sandbox, "--quiet"));
        assert!(ran.stdout.starts_with(&format!("{mark}\n")), "{}", ran.stdout);
        let ran = succeed(sandbox.eval(&words("generate in.gguf --chat -p Hello -n 2 --quiet")));
        assert!(ran.stdout.starts_with(&format!("{mark}\n")), "{}", ran.stdout);
        let answer: Json = serde_json::from_str(&succeed(ask(&sandbox, "--json")).stdout).unwrap();
        assert!(answer["thinking"].is_string() && answer["content"] == "", "{answer}");
    }
    let sandbox = with_template(PLAIN);
    assert!(!succeed(ask(&sandbox, "--quiet")).stdout.contains("think"));
}
