//! Chats in JSON, as files and programming interfaces have them.

use minijinja::value::{Value, ValueKind};

use super::{
    conversation::{Conversation, Tool, Turn},
    settings::{Settings, SystemMessage},
};

/// A chat as a template gets it: messages, tools, and further variables.
#[derive(Debug, Clone)]
pub struct Chat {
    messages: Vec<Value>,
    tools: Option<Vec<Value>>,
    variables: Vec<(String, Value)>,
}

/// Names of the reasoning of a message; the first that has a value counts (`_REASONING_FIELDS` of transformers 5.24).
const REASONING: [&str; 3] = ["reasoning_content", "thinking", "reasoning"];

/// Roles of ShareGPT.
const ROLES: [(&str, &str); 6] = [
    ("human", "user"),
    ("gpt", "assistant"),
    ("chatgpt", "assistant"),
    ("bot", "assistant"),
    ("function_call", "assistant"),
    ("observation", "tool"),
];

/// Value of a key that exists and is not null.
fn field(value: &Value, name: &str) -> Option<Value> {
    let found = value.get_attr(name).ok()?;
    (!found.is_undefined() && !found.is_none()).then_some(found)
}

impl Chat {
    /// A conversation of the fixed kind.
    pub fn of(conversation: &Conversation<'_>) -> Chat {
        let tools: Vec<Value> = conversation.tools.iter().map(Tool::value).collect();
        Chat {
            messages: conversation.messages.iter().map(Turn::value).collect(),
            // Templates test `tools is none`. Without tools we pass `None`, like transformers.
            tools: (!tools.is_empty()).then_some(tools),
            variables: Vec::new(),
        }
    }

    /// Reads a chat: a list of messages, or an object with them under `messages` or `conversations` (ShareGPT), and tools under `tools`.
    pub fn parse(json: &str) -> Result<Chat, String> {
        Chat::of_value(&serde_json::from_str(json).map_err(|error| error.to_string())?)
    }

    /// Same as [`Chat::parse`], from JSON that is parsed.
    pub(super) fn of_value(value: &Value) -> Result<Chat, String> {
        let list = match value.kind() {
            ValueKind::Seq => Some(value.clone()),
            ValueKind::Map => field(value, "messages").or_else(|| field(value, "conversations")),
            _ => None,
        };
        let list = list.filter(|list| list.kind() == ValueKind::Seq);
        let list = list.ok_or_else(|| no_messages(value))?;
        let mut messages = Vec::new();
        for item in list.try_iter().map_err(|error| error.to_string())? {
            messages.push(
                message(&item).map_err(|problem| format!("message {}: {problem}", messages.len() + 1))?,
            );
        }
        if messages.is_empty() {
            return Err("the chat has no messages".to_owned());
        }
        // Data sets keep tools as JSON in a string, too.
        let system = field(value, "system").filter(|_| value.kind() == ValueKind::Map);
        if let (Some(system), Some(false)) = (system, messages.first().map(|first| is_role(first, "system")))
        {
            messages.insert(0, [("role", Value::from("system")), ("content", system)].into_iter().collect());
        }
        let mut chat = Chat { messages, tools: None, variables: Vec::new() };
        if let Some(tools) = field(value, "tools").filter(|_| value.kind() == ValueKind::Map) {
            chat.set_tools(tools)?;
        }
        Ok(chat)
    }

    /// Sets the tools from JSON: a list of functions.
    ///
    /// # Errors
    /// JSON that is not a list.
    pub fn with_tools(mut self, json: &str) -> Result<Chat, String> {
        self.set_tools(serde_json::from_str(json).map_err(|error| error.to_string())?)?;
        Ok(self)
    }

    /// True if the model may call functions.
    pub fn has_tools(&self) -> bool {
        self.tools.is_some()
    }

    /// Sets further variables of the template from a JSON object, for example `{"enable_thinking": false}`.
    ///
    /// # Errors
    /// JSON that is not an object.
    pub fn with_variables(mut self, json: &str) -> Result<Chat, String> {
        let value: Value = serde_json::from_str(json).map_err(|error| error.to_string())?;
        if value.kind() != ValueKind::Map {
            return Err("expected a JSON object".to_owned());
        }
        for key in value.try_iter().map_err(|error| error.to_string())? {
            let item = value.get_item(&key).map_err(|error| error.to_string())?;
            self.variables.push((key.to_string(), item));
        }
        Ok(self)
    }

    fn set_tools(&mut self, tools: Value) -> Result<(), String> {
        let tools = match tools.as_str() {
            Some(text) => serde_json::from_str(text).map_err(|error| format!("`tools`: {error}"))?,
            None => tools,
        };
        self.tools = match tools.kind() {
            ValueKind::None => None,
            ValueKind::Seq => {
                let tools: Vec<Value> = tools.try_iter().map_err(|error| error.to_string())?.collect();
                (!tools.is_empty()).then_some(tools)
            }
            _ => return Err("`tools` is not a list".to_owned()),
        };
        Ok(())
    }

    /// The chat with every text as a list of one text part, the form that templates of vision models expect.
    pub fn with_parts(mut self) -> Chat {
        for message in &mut self.messages {
            let Some(text) = field(message, "content").filter(|content| content.as_str().is_some()) else {
                continue;
            };
            let part: Value = [("type", Value::from("text")), ("text", text)].into_iter().collect();
            let parts = Value::from(vec![part]);
            if let Some(made) = with_item(message, "content", parts) {
                *message = made;
            }
        }
        self
    }

    /// The chat with the arguments of calls as objects. `None`: no arguments are JSON texts, or one is not that of an object.
    pub(super) fn with_parsed_arguments(&self) -> Option<Chat> {
        let mut parsed = self.clone();
        let mut n_parsed = 0;
        for message in &mut parsed.messages {
            let Some(calls) = field(message, "tool_calls") else { continue };
            let mut made = Vec::new();
            for call in calls.try_iter().ok()? {
                let function = field(&call, "function");
                let holder = function.as_ref().unwrap_or(&call);
                let text = field(holder, "arguments").filter(|arguments| arguments.as_str().is_some());
                let Some(text) = text else {
                    made.push(call);
                    continue;
                };
                let arguments: Value = serde_json::from_str(text.as_str()?).ok()?;
                if arguments.kind() != ValueKind::Map {
                    return None;
                }
                let holder = with_item(holder, "arguments", arguments)?;
                made.push(if function.is_some() { with_item(&call, "function", holder)? } else { holder });
                n_parsed += 1;
            }
            *message = with_item(message, "tool_calls", Value::from(made))?;
        }
        (n_parsed > 0).then_some(parsed)
    }

    /// True if a rendered text has the arguments of calls that are JSON texts as these texts.
    pub(super) fn arguments_are_in(&self, rendered: &str) -> bool {
        let calls = self.messages.iter().filter_map(|message| field(message, "tool_calls"));
        let mut calls = calls.filter_map(|calls| calls.try_iter().ok()).flatten();
        calls.all(|call| {
            let arguments = field(&field(&call, "function").unwrap_or(call), "arguments");
            arguments.as_ref().and_then(Value::as_str).is_none_or(|text| rendered.contains(text))
        })
    }

    /// Text of the system message at the beginning; `None` without one.
    pub(super) fn system(&self) -> Option<String> {
        let first = self.messages.first().filter(|first| is_role(first, "system"))?;
        text_of(&field(first, "content")?)
    }

    /// The treatment of the system message by a template that made this text.
    pub fn system_message_in(&self, rendered: &str) -> SystemMessage {
        match self.system() {
            Some(system) if !rendered.contains(system.trim()) => SystemMessage::LeftOut,
            _ => SystemMessage::Kept,
        }
    }

    /// The chat with the system message at the beginning of the next message, as llama.cpp sends it to templates that refuse one
    /// (`system_message_not_supported` in `common/chat.cpp`). `None` without a system message or a text after it.
    pub fn with_system_in_next(&self) -> Option<Chat> {
        let system = self.system()?;
        let next = self.messages.get(1)?;
        let text = format!("{system}\n{}", text_of(&field(next, "content")?)?);
        let mut moved = self.clone();
        moved.messages.remove(0);
        moved.messages[0] = with_item(next, "content", Value::from(text))?;
        Some(moved)
    }

    /// The chat with text parts joined to strings. `None`: it has no parts, or others than texts.
    pub(super) fn with_joined_parts(&self) -> Option<Chat> {
        let mut joined = self.clone();
        let mut n_joined = 0;
        for message in &mut joined.messages {
            let Some(parts) = field(message, "content").filter(|content| content.kind() == ValueKind::Seq)
            else {
                continue;
            };
            *message = with_item(message, "content", Value::from(text_of(&parts)?))?;
            n_joined += 1;
        }
        (n_joined > 0).then_some(joined)
    }

    /// True if a rendered text contains text parts as text, not as lists of Python.
    pub(super) fn parts_are_in(&self, rendered: &str) -> bool {
        let contents = self.messages.iter().filter_map(|message| field(message, "content"));
        let parts = contents.filter(|content| content.kind() == ValueKind::Seq);
        let mut texts =
            parts.filter_map(|parts| parts.try_iter().ok()).flatten().filter_map(|part| part_text(&part));
        !rendered.contains("{'type': 'text'") && texts.all(|text| rendered.contains(text.trim()))
    }

    /// True if names of tools, names of called functions, and reasoning are all in a rendered text.
    pub(super) fn is_complete_in(&self, rendered: &str) -> bool {
        let has = |text: Option<Value>| {
            text.as_ref().and_then(Value::as_str).is_none_or(|text| rendered.contains(text.trim()))
        };
        let function =
            |value: &Value| field(&field(value, "function").unwrap_or_else(|| value.clone()), "name");
        let calls = self.messages.iter().filter_map(|message| field(message, "tool_calls"));
        let mut calls = calls.filter_map(|calls| calls.try_iter().ok()).flatten();
        self.tools.iter().flatten().all(|tool| has(function(tool)))
            && calls.all(|call| has(function(&call)))
            && self.messages.iter().all(|message| has(field(message, "reasoning_content")))
    }

    /// Bytes of all texts, and number of messages.
    pub(super) fn size(&self) -> (u64, u64) {
        fn bytes(value: &Value, depth: usize) -> u64 {
            if depth > 128 {
                return 0;
            }
            let of = |value: &Value| bytes(value, depth + 1);
            let items = || value.try_iter().ok().into_iter().flatten();
            match value.kind() {
                ValueKind::String => value.as_str().map_or(0, |text| text.len() as u64),
                ValueKind::Seq => 8 + items().map(|item| of(&item)).sum::<u64>(),
                ValueKind::Map => {
                    8 + items()
                        .map(|key| of(&key) + value.get_item(&key).map_or(0, |item| of(&item)))
                        .sum::<u64>()
                }
                _ => 8,
            }
        }
        let tools = self.tools.iter().flatten();
        (self.messages.iter().chain(tools).map(|value| bytes(value, 0)).sum(), self.messages.len() as u64)
    }

    /// The variables of a template.
    pub(super) fn values(&self, settings: &Settings<'_>) -> Value {
        let tools = self.tools.clone().map_or(Value::from(()), Value::from);
        let fixed = [
            ("messages", Value::from(self.messages.clone())),
            ("tools", tools),
            ("documents", Value::from(())),
            ("add_generation_prompt", Value::from(settings.generation_prompt)),
            ("bos_token", Value::from(&settings.tokens.bos[..])),
            ("eos_token", Value::from(&settings.tokens.eos[..])),
        ];
        let other_tokens =
            settings.tokens.other_tokens.iter().map(|(name, text)| (*name, Value::from(&text[..])));
        let fixed = fixed.into_iter().chain(other_tokens).map(|(name, value)| (Value::from(name), value));
        let further = self.variables.iter().map(|(name, value)| (Value::from(&name[..]), value.clone()));
        fixed.chain(further).collect()
    }
}

/// An object with another item under an existing key.
fn with_item(object: &Value, name: &str, item: Value) -> Option<Value> {
    let items = object.try_iter().ok()?.map(|key| {
        if key.as_str() == Some(name) {
            Some((key, item.clone()))
        } else {
            object.get_item(&key).ok().map(|item| (key, item))
        }
    });
    Some(items.collect::<Option<Vec<_>>>()?.into_iter().collect())
}

/// Text of a content: a string, or parts that are all texts.
fn text_of(content: &Value) -> Option<String> {
    match content.as_str() {
        Some(text) => Some(text.to_owned()),
        None => content.try_iter().ok()?.map(|part| part_text(&part)).collect(),
    }
}

/// The problem of JSON without messages, with the keys that it has instead.
fn no_messages(value: &Value) -> String {
    let keys = value.try_iter().ok().filter(|_| value.kind() == ValueKind::Map).into_iter().flatten();
    let keys: Vec<String> = keys.filter_map(|key| key.as_str().map(str::to_owned)).collect();
    match &keys[..] {
        [] => "missing `messages` or `conversations`".to_owned(),
        keys => {
            format!("missing `messages` or `conversations`, found {}", gguf_types::list_names(keys))
        }
    }
}

/// The text of a part of a message, if it is one.
fn part_text(part: &Value) -> Option<String> {
    match part.as_str() {
        Some(text) => Some(text.to_owned()),
        None => field(part, "text")?.as_str().map(str::to_owned),
    }
}

fn is_role(message: &Value, role: &str) -> bool {
    field(message, "role").is_some_and(|found| found.as_str() == Some(role))
}

/// A message with the names of OpenAI's interface, and both names of reasoning.
fn message(value: &Value) -> Result<Value, String> {
    if value.kind() != ValueKind::Map {
        return Err("expected an object".to_owned());
    }
    let role = field(value, "role").or_else(|| field(value, "from")).ok_or("missing `role`")?;
    let role = role.as_str().ok_or("`role` is not a string")?;
    let is_share_gpt = field(value, "role").is_none();
    let role = ROLES.iter().find(|(name, _)| is_share_gpt && *name == role).map_or(role, |(_, role)| role);
    let reasoning = REASONING.iter().find_map(|name| field(value, name));
    let mut items: Vec<(Value, Value)> = Vec::new();
    if let Some(reasoning) = &reasoning {
        let thinking = field(value, "thinking").unwrap_or_else(|| reasoning.clone());
        items.push(("thinking".into(), thinking));
    }
    for key in value.try_iter().map_err(|error| error.to_string())? {
        let item = value.get_item(&key).map_err(|error| error.to_string())?;
        // Dropped like in `_normalize_chat_messages` of transformers, so that templates do not print `None`.
        if item.is_none() {
            continue;
        }
        match key.as_str().unwrap_or_default() {
            "role" | "from" => items.push(("role".into(), role.into())),
            "value" if is_share_gpt => items.push(("content".into(), item)),
            // Added in front or at the end.
            "thinking" | "reasoning_content" if reasoning.is_some() => {
                let item = if key.as_str() == Some("thinking") { continue } else { reasoning.clone() };
                items.extend(item.map(|item| (key, item)));
            }
            _ => items.push((key, item)),
        }
    }
    let has = |name: &str| items.iter().any(|(key, _)| key.as_str() == Some(name));
    let is_given = |name: &str| value.get_attr(name).is_ok_and(|found| !found.is_undefined());
    let has_content = is_given("content") || is_share_gpt && is_given("value");
    if !has_content && !has("tool_calls") && reasoning.is_none() {
        return Err("missing `content`".to_owned());
    }
    if let (Some(reasoning), false) = (reasoning, has("reasoning_content")) {
        items.push(("reasoning_content".into(), reasoning));
    }
    Ok(items.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::super::{Date, Settings, SpecialTokens, render_chat};
    use super::*;

    /// Expected values follow `_normalize_chat_messages` and `_alias_reasoning_fields` of transformers 5.24 by hand.
    #[test]
    fn null_keys_and_reasoning_match_transformers() {
        let tokens = SpecialTokens::default();
        let settings = Settings { tokens: &tokens, generation_prompt: false, date: Date::FIXED };
        let template = "{% for m in messages %}[{{ m.content }}|{{ m.name is defined }}|{{ m.reasoning_content }}|{{ m.thinking }}]{% endfor %}";
        for (message, expected) in [
            (r#"{"role": "assistant", "content": null, "name": null}"#, "[|False||]"),
            (r#"{"from": "gpt", "value": null}"#, "[|False||]"),
            (r#"{"role": "assistant", "content": "a", "reasoning": "r", "thinking": "t"}"#, "[a|False|t|t]"),
            (r#"{"role": "assistant", "content": "a", "reasoning": "r", "thinking": null}"#, "[a|False|r|r]"),
        ] {
            let chat = Chat::parse(&format!("[{message}]")).unwrap();
            assert_eq!(render_chat(template, &chat, &settings).unwrap(), expected, "{message}");
        }
        assert!(Chat::parse(r#"[{"role": "user"}]"#).is_err());
    }
}
