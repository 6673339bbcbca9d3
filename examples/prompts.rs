//! Renders every template of a file with every chat, for scripts/check-templates. Prints a line of JSON for each pair: template,
//! chat, whether it rendered, and the prompt or the error.
//!
//! usage: prompts CASES.json

use std::{error::Error, fs, thread};

use gguf_toolkit::templates::{Chat, Date, Settings, SpecialTokens, render_chat};
use serde_json::{Map, Value as Json, json};

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("usage: prompts CASES.json")?;
    let cases: Map<String, Json> = serde_json::from_slice(&fs::read(path)?)?;
    let object = |name: &str| cases.get(name).and_then(Json::as_object).ok_or(format!("missing `{name}`"));
    let (templates, chats) = (object("templates")?, object("chats")?);
    let mut read = Vec::new();
    for (name, chat) in chats {
        let mut parsed =
            Chat::parse(&chat["messages"].to_string()).map_err(|problem| format!("{name}: {problem}"))?;
        if !chat["tools"].is_null() {
            parsed = parsed.with_tools(&chat["tools"].to_string())?;
        }
        let parsed = parsed.with_variables(&chat["kwargs"].to_string())?;
        let generation_prompt = chat["add_generation_prompt"].as_bool().unwrap_or(true);
        read.push((name, parsed, generation_prompt));
    }
    let tokens = SpecialTokens::new("<s>", "</s>");
    let lines = |name: &String, template: &Json| {
        let template = template.as_str().unwrap_or_default();
        let line = |(chat, parsed, generation_prompt): &(&String, Chat, bool)| {
            let settings =
                Settings { tokens: &tokens, generation_prompt: *generation_prompt, date: Date::FIXED };
            let made = render_chat(template, parsed, &settings);
            let is_made = made.is_ok();
            json!([name, chat, is_made, made.unwrap_or_else(|error| error.to_string())]).to_string()
        };
        read.iter().map(line).collect::<Vec<String>>()
    };
    // One thread for each part of the templates, in order.
    let templates: Vec<(&String, &Json)> = templates.iter().collect();
    let n_threads = thread::available_parallelism().map_or(1, usize::from);
    let part = templates.len().div_ceil(n_threads).max(1);
    thread::scope(|scope| {
        let running: Vec<_> = templates
            .chunks(part)
            .map(|part| {
                scope.spawn(|| {
                    part.iter().flat_map(|(name, template)| lines(name, template)).collect::<Vec<_>>()
                })
            })
            .collect();
        for thread in running {
            for line in thread.join().map_err(|_| "a template ended the program")? {
                println!("{line}");
            }
        }
        Ok(())
    })
}
