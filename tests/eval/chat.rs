//! `gguf-eval chat`, and prompts from standard input.

use std::{
    io::{Read, Write},
    process::{Child, Stdio},
};

use serde_json::Value as Json;

use crate::common::{Output, Sandbox, copy_folder, finish, golden, signal, succeed, words};

const EVAL: &str = env!("CARGO_BIN_EXE_gguf-eval");

/// A tiny llama as `x.gguf`.
fn llama() -> Sandbox {
    Sandbox::with_converted("llama", "x.gguf", "f32")
}

/// Starts a command that reads standard input.
fn start(sandbox: &Sandbox, args: &[&str]) -> Child {
    let mut command = sandbox.command(EVAL);
    command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

/// Runs a command with an input.
fn with_input(sandbox: &Sandbox, args: &[&str], input: &str) -> Output {
    let mut child = start(sandbox, args);
    // A command that fails at once does not read its input.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    finish(child)
}

/// The answers to messages, one on each line.
fn answers(sandbox: &Sandbox, args: &[&str], input: &str) -> Vec<Json> {
    let ran = succeed(with_input(sandbox, &[&["chat", "x.gguf", "--json", "-n", "8"], args].concat(), input));
    ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn number(answer: &Json, key: &str) -> u64 {
    answer[key].as_u64().unwrap()
}

const GREEDY: &[&str] = &["--temperature", "0"];

#[test]
fn turns_reuse_earlier_tokens() {
    let sandbox = llama();
    let found = answers(&sandbox, GREEDY, "A llama\nwas here\nand there");
    assert_eq!(found.len(), 3);
    assert_eq!(number(&found[0], "n_reused"), 0);
    for two in found.windows(2) {
        let before = number(&two[0], "n_prompt");
        let (reused, prompt) = (number(&two[1], "n_reused"), number(&two[1], "n_prompt"));
        // Only the end of the earlier prompt may be tokenized with the text that follows.
        assert!(reused + 3 >= before && reused < prompt, "{found:?}");
    }
    // A run without earlier turns gives the same answer.
    let model = gguf_toolkit::Model::open(sandbox.path("x.gguf"), &Default::default()).unwrap();
    let answer = |i: usize| found[i]["content"].as_str().unwrap();
    let messages = serde_json::json!([
        {"role": "user", "content": "A llama"},
        {"role": "assistant", "content": answer(0)},
        {"role": "user", "content": "was here"},
    ]);
    let chat = gguf_toolkit::Chat::parse(&messages.to_string()).unwrap();
    let options = gguf_toolkit::GenerateOptions { max_tokens: 8, ..Default::default() };
    let mut ignore = |_: &str| std::ops::ControlFlow::Continue(());
    let made = model.generate_chat(&chat, &Default::default(), &options, &mut ignore, &()).unwrap();
    assert_eq!((made.text.as_str(), made.n_prompt as u64), (answer(1), number(&found[1], "n_prompt")));
}

#[test]
fn recurrent_models_start_each_turn_anew() {
    let sandbox = Sandbox::with_converted("mamba", "x.gguf", "f32");
    let template = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}";
    sandbox.write("template", template);
    let args = [GREEDY, &["--chat-template", "template"]].concat();
    let found = answers(&sandbox, &args, "A llama\nwas here\n");
    assert_eq!(found.len(), 2);
    let again = answers(&sandbox, &args, "A llama\nwas here\n");
    assert_eq!(found[1]["content"], again[1]["content"]);
}

#[test]
fn message_can_be_an_argument_and_the_model_a_checkpoint() {
    let sandbox = llama();
    let found = answers(&sandbox, GREEDY, "A llama");
    let one = succeed(sandbox.eval(&words("run x.gguf A llama --temperature 0 -n 8 --json"))).json();
    assert_eq!(one["content"], found[0]["content"]);
    // The file of the first call is used again.
    for said in ["type q8_0: ", "written before"] {
        succeed(sandbox.eval(&words("chat llama Hello -n 1"))).says(said);
    }
}

#[test]
fn commands_change_the_chat() {
    let sandbox = llama();
    let lengths = |input: &str| -> Vec<u64> {
        answers(&sandbox, GREEDY, input).iter().map(|answer| number(answer, "n_prompt")).collect()
    };
    let one = lengths("A llama")[0];
    assert_eq!(lengths("A llama\n/reset\n\n  \nA llama\n/exit\nA llama\n"), [one, one]);
    let found = lengths("/system Be kind\nA llama\n/system\n/reset\nA llama");
    assert!(found[0] > one && found[1] == one, "{found:?}");
    // The option is the same.
    let with_option = answers(&sandbox, &[GREEDY, &["--system", "Be kind"]].concat(), "A llama");
    assert_eq!(number(&with_option[0], "n_prompt"), found[0]);
    // A line that ends in a backslash continues on the next one.
    let [joined] = lengths("A \\\nllama\n")[..] else { panic!("one message") };
    assert!(joined > one);
    let ran = succeed(with_input(
        &sandbox,
        &["chat", "x.gguf", "-n", "4"],
        "/nonsense\n/help\n/path/to is a message\n",
    ));
    ran.says("warning: unknown command `/nonsense`; expected /help, /reset, /system TEXT, /bye\n");
    ran.says("\n/reset        forget the chat\n");
    assert_eq!(ran.stderr.matches(" (prompt: ").count(), 1, "{}", ran.stderr);
    ran.says("temperature 0.3 (default), top-k 40, top-p 0.95, min-p 0.05; --temperature 0 for the most likely answer\n");
}

#[test]
fn template_comes_from_a_file() {
    let sandbox = llama();
    let template = "{% if enable_thinking is defined %}{{ 'a llama ' * (9 if enable_thinking else 5) }}{% else %}x{% endif %}";
    sandbox.write("template", template);
    let length = |more: &[&str]| {
        let args = [GREEDY, &["--chat-template", "template"], more].concat();
        number(&answers(&sandbox, &args, "A llama")[0], "n_prompt")
    };
    let lengths = [&["--think"][..], &["--no-think"], &[]].map(length);
    assert!(lengths[0] > lengths[1] && lengths[1] > lengths[2], "{lengths:?}");
    assert_eq!(length(&["--kwargs", r#"{"enable_thinking": true}"#]), lengths[0]);
    sandbox.write("chat.json", r#"[{"role": "user", "content": "Hello!"}]"#);
    let prompt = ["prompt", "x.gguf", "--messages", "chat.json", "--chat-template", "template", "--no-think"];
    assert_eq!(succeed(sandbox.inspect(&prompt)).stdout, "a llama ".repeat(5));
    // The template of the file has no such variable.
    let ran = with_input(&sandbox, &["chat", "x.gguf", "--no-think"], "");
    ran.ends_and_says(0, "warning: the chat template has no variable `enable_thinking` or `thinking`; ");
    succeed(sandbox.inspect(&["unset", "x.gguf", "tokenizer.chat_template"]));
    let ran = with_input(&sandbox, &["chat", "x.gguf"], "Hello!");
    ran.ends_and_says(1, "hint: pass a template with --chat-template FILE\n");
    assert_eq!(with_input(&sandbox, &["chat", "x.gguf", "--think", "--no-think"], "").code, Some(2));
    assert_eq!(with_input(&sandbox, &["generate", "x.gguf", "-p", "x", "--think"], "").code, Some(2));
}

#[test]
fn sampling_comes_from_the_file() {
    let sandbox = llama();
    let contents = |more: &[&str]| {
        let answers = answers(&sandbox, more, "A llama\nwas here");
        answers.iter().map(|answer| answer["content"].to_string()).collect::<Vec<_>>()
    };
    let greedy = contents(GREEDY);
    let seeds = |more: &[&str]| ["1", "2", "3"].map(|seed| contents(&[more, &["--seed", seed]].concat()));
    assert!(seeds(&[]).iter().any(|found| *found != greedy), "the default is not greedy");
    assert_eq!(contents(&["--seed", "7"]), contents(&["--seed", "7"]));
    succeed(sandbox.inspect(&["set", "x.gguf", "general.sampling.temp=f32:0"]));
    assert!(seeds(&[]).iter().all(|found| *found == greedy));
    assert!(seeds(&["--temperature", "2"]).iter().any(|found| *found != greedy));
    succeed(sandbox.inspect(&["set", "x.gguf", "general.sampling.temp=f32:0.6"]));
    for (more, expected) in
        [(&[][..], "temperature 0.6 (of the file), "), (&["--temperature", "2"], "temperature 2, ")]
    {
        succeed(with_input(&sandbox, &[&["chat", "x.gguf"], more].concat(), "")).says(expected);
    }
    succeed(sandbox.inspect(&["set", "x.gguf", "general.sampling.temp=f32:-1"]));
    let ran = with_input(&sandbox, &["chat", "x.gguf"], "A llama");
    assert_eq!(ran.code, Some(2), "{}", ran.stderr);
    ran.says("the temperature: expected a number from 0, found -1\n");
}

#[test]
fn full_context_is_reported() {
    let sandbox = llama();
    succeed(sandbox.inspect(&["set", "x.gguf", "llama.context_length=u32:48"]));
    let long = "a llama ".repeat(40);
    let ran = with_input(&sandbox, &["chat", "x.gguf"], &format!("{long}\n"));
    ran.ends_and_says(2, "tokens, but the context length of the model is 48\n");
    // Without a limit of tokens, an answer ends with the context.
    let ran = succeed(with_input(&sandbox, &["chat", "x.gguf", "--json", "--temperature", "0"], "A llama\n"));
    let answer: Json = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(answer["end"], "length", "{answer}");
    assert_eq!(number(&answer, "n_prompt") + number(&answer, "n_tokens"), 48);
    // Or when it repeats itself: with this epsilon, each token depends only on the one before it.
    for key in ["llama.context_length=u32:4096", "llama.attention.layer_norm_rms_epsilon=f32:1e30"] {
        succeed(sandbox.inspect(&["set", "x.gguf", key]));
    }
    let chat =
        |more: &str| succeed(sandbox.eval(&words(&format!("chat x.gguf A llama --temperature 0{more}"))));
    chat("").says("; stopped because the answer repeats itself; to continue, pass --tokens; ");
    for (limit, end) in [("", "repetition"), (" --tokens 300", "length")] {
        let answer = chat(&format!(" --json{limit}")).json();
        assert_eq!((&answer["end"], number(&answer, "n_tokens") < 300), (&Json::from(end), limit.is_empty()));
    }
}

#[cfg(unix)]
#[test]
fn interrupt_stops_only_the_answer() {
    let sandbox = llama();
    succeed(sandbox.inspect(&["set", "x.gguf", "llama.context_length=u32:1000000"]));
    let mut child = start(&sandbox, &["chat", "x.gguf", "--temperature", "0", "--tokens", "1000000"]);
    let mut stdin = child.stdin.take().unwrap();
    let mut stdout = child.stdout.take().unwrap();
    let mut first = [0];
    stdin.write_all(b"A llama\n").unwrap();
    stdout.read_exact(&mut first).unwrap();
    signal(&child, "INT");
    stdin.write_all(b"/bye\n").unwrap();
    let mut rest = Vec::new();
    stdout.read_to_end(&mut rest).unwrap();
    let ran = finish(child);
    ran.ends_and_says(0, "; interrupted\n");
    assert_eq!(rest.last(), Some(&b'\n'));
    // Outside of an answer, it ends the program.
    let mut child = start(&sandbox, &["chat", "x.gguf", "-n", "1"]);
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(b"A llama\n").unwrap();
    // The status comes after the answer.
    let mut stderr = child.stderr.take().unwrap();
    let mut log = String::new();
    while !log.contains(" (prompt: ") {
        let mut byte = [0];
        stderr.read_exact(&mut byte).unwrap();
        log.push(char::from(byte[0]));
    }
    signal(&child, "INT");
    assert_eq!(child.wait().unwrap().code(), Some(130), "{log}");
}

#[test]
fn prompt_comes_from_standard_input() {
    let sandbox = llama();
    let generate = ["generate", "x.gguf", "-n", "8", "-q"];
    let expected = succeed(sandbox.eval(&[&generate[..], &["--prompt", "a llama"]].concat())).stdout;
    for args in [&generate[..], &[&generate[..], &["--prompt", "-"]].concat()] {
        for input in ["a llama", "a llama\n", "a llama\r\n"] {
            assert_eq!(succeed(with_input(&sandbox, args, input)).stdout, expected, "{args:?} {input:?}");
        }
    }
    let ran = with_input(&sandbox, &generate, "");
    ran.ends_and_says(2, "error: missing prompt: expected --prompt or standard input\n");
}

#[test]
fn adapters_apply_to_every_command() {
    let sandbox = Sandbox::with_converted("llama-head-dim", "x.gguf", "f32");
    copy_folder(&golden("lora/llama"), &sandbox.path("lora"));
    succeed(sandbox.convert(&["adapter", "lora", "lora.gguf", "--base", "llama-head-dim", "-q"]));
    succeed(sandbox.quantize(&["x.gguf", "merged.gguf", "f32", "--lora", "lora.gguf=2", "-q"]));
    sandbox.add_text();
    sandbox.write("tasks", "A llama\n0\neats\nflies\nreads\nsings\n".repeat(3));
    sandbox.write("template", "{{ messages[-1].content }}");
    let chat = "chat FILE --chat-template template --temperature 0 -n 8 -q";
    for line in [
        "generate FILE --prompt llama -n 8 -q",
        "perplexity FILE --text text -c 64 --chunks 2 -q",
        "embed FILE --prompt llama --pooling mean",
        "score FILE --hellaswag tasks -q",
        chat,
    ] {
        let run = |file: &str, more: &[&str]| {
            let args: Vec<&str> =
                line.split(' ').map(|word| if word == "FILE" { file } else { word }).collect();
            succeed(with_input(&sandbox, &[&args[..], more].concat(), "A llama\n")).stdout
        };
        let adapted = run("x.gguf", &["--lora", "lora.gguf=2"]);
        let numbers = |text: &str| -> Vec<f64> {
            text.split_whitespace().filter_map(|word| word.parse().ok()).collect()
        };
        let (found, merged) = (numbers(&adapted), numbers(&run("merged.gguf", &[])));
        if line.starts_with("generate") || line == chat {
            assert_eq!(adapted, run("merged.gguf", &[]), "{line}");
        } else {
            assert!(found.len() == merged.len() && !found.is_empty(), "{line}: {adapted}");
            let near = |(a, b): (&f64, &f64)| (a - b).abs() <= 1e-3 * (1.0 + a.abs());
            assert!(found.iter().zip(&merged).all(near), "{line}: {adapted}");
        }
        // Half a scale twice is the whole; another scale is not.
        let halves = run("x.gguf", &["--lora", "lora.gguf", "--lora", "lora.gguf"]);
        assert_eq!(numbers(&halves).len(), found.len(), "{line}");
        if line.starts_with("perplexity") {
            assert_ne!(run("x.gguf", &[]), adapted, "{line}");
        }
    }
    // The base and the others get the adapter.
    let compare = ["compare", "x.gguf", "x.gguf", "--text", "text", "-c", "64", "--chunks", "1", "--json"];
    let found = succeed(sandbox.eval(&[&compare[..], &["--lora", "lora.gguf"]].concat())).json();
    assert_eq!(
        found["files"][0]["predictions"]["kl"]["value"].as_f64().map(|kl| kl.abs() < 1e-9),
        Some(true),
        "{found}"
    );
}
