//! Conversations as templates see them.

use minijinja::value::Value;

/// Input of a template.
#[derive(Debug, Clone, PartialEq)]
pub struct Conversation<'a> {
    /// Name of the case, in a word or two.
    pub name: &'static str,
    /// Roles in order.
    pub messages: Vec<Turn<'a>>,
    /// The functions that the model may call.
    pub tools: Vec<Tool<'a>>,
}

/// One message.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Turn<'a> {
    /// `system`, `user`, `assistant` or `tool`.
    pub role: &'a str,
    /// The text.
    pub content: &'a str,
    /// The model's reasoning before the answer.
    pub reasoning_content: Option<&'a str>,
    /// A function that the model calls.
    pub tool_call: Option<ToolCall<'a>>,
    /// The call and the function that a message of a tool answers.
    pub answers: Option<(&'a str, &'a str)>,
}

/// A call of a function, in the form of OpenAI's programming interface.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolCall<'a> {
    /// Id of the tool call that is answered.
    pub id: &'a str,
    /// The function.
    pub name: &'a str,
    /// Its arguments by name.
    pub arguments: Vec<(&'a str, &'a str)>,
}

/// A function that the model may call, with texts for arguments.
#[derive(Debug, Clone, PartialEq)]
pub struct Tool<'a> {
    /// Its name.
    pub name: &'a str,
    /// Description of the tool.
    pub description: &'a str,
    /// Name and meaning of each argument.
    pub arguments: Vec<(&'a str, &'a str)>,
}

/// A dictionary in this order.
fn dictionary<'a>(items: impl IntoIterator<Item = (&'a str, Value)>) -> Value {
    items.into_iter().map(|(name, value)| (Value::from(name), value)).collect()
}

impl Turn<'_> {
    /// The message as a template sees it: keys without a value are not there.
    pub(super) fn value(&self) -> Value {
        let mut items = vec![("role", Value::from(self.role)), ("content", Value::from(self.content))];
        if let Some(text) = self.reasoning_content.map(Value::from) {
            // Both names, like transformers.
            items.insert(0, ("thinking", text.clone()));
            items.push(("reasoning_content", text));
        }
        if let Some(ToolCall { id, name, arguments }) = &self.tool_call {
            let arguments = dictionary(arguments.iter().map(|(name, value)| (*name, Value::from(*value))));
            let function = dictionary([("name", Value::from(*name)), ("arguments", arguments)]);
            let call =
                dictionary([("type", "function".into()), ("id", Value::from(*id)), ("function", function)]);
            items.push(("tool_calls", Value::from(vec![call])));
        }
        if let Some((id, name)) = self.answers {
            items.extend([("tool_call_id", Value::from(id)), ("name", Value::from(name))]);
        }
        dictionary(items)
    }
}

impl Tool<'_> {
    /// The function as a template sees it, in the form of OpenAI's programming interface.
    pub(super) fn value(&self) -> Value {
        let property =
            |meaning: &str| dictionary([("type", "string".into()), ("description", Value::from(meaning))]);
        let parameters = dictionary([
            ("type", "object".into()),
            (
                "properties",
                dictionary(self.arguments.iter().map(|(name, meaning)| (*name, property(meaning)))),
            ),
            ("required", self.arguments.iter().map(|(name, _)| Value::from(*name)).collect()),
        ]);
        let function = dictionary([
            ("name", Value::from(self.name)),
            ("description", Value::from(self.description)),
            ("parameters", parameters),
        ]);
        dictionary([("type", "function".into()), ("function", function)])
    }
}

fn turn<'a>(role: &'a str, content: &'a str) -> Turn<'a> {
    Turn { role, content, ..Turn::default() }
}

impl<'a> Conversation<'a> {
    /// True if a rendered text contains the last message of the user, except for blanks around it.
    pub fn is_asked_in(&self, rendered: &str) -> bool {
        let last = self.messages.iter().rev().find(|message| message.role == "user");
        last.is_none_or(|last| rendered.contains(last.content.trim()))
    }

    /// Plain messages, without tools.
    pub fn of(messages: &[(&'a str, &'a str)]) -> Conversation<'a> {
        let messages = messages.iter().map(|(role, content)| turn(role, content)).collect();
        Conversation { name: "messages", messages, tools: Vec::new() }
    }

    /// Conversations that a template is tried on: one turn, a system message, several turns, thinking, tools with a call and its
    /// answer.
    pub fn fixed() -> Vec<Conversation<'static>> {
        let user = || turn("user", "What is the weather in Zürich?");
        let system = || turn("system", "You are a helpful assistant.");
        let answer = || turn("assistant", "It is sunny.");
        let thanks = || turn("user", "Thank you.\n\nAnd tomorrow?  ");
        let thought = Turn { reasoning_content: Some("The user asks about the weather."), ..answer() };
        // Mistral's templates want nine letters and digits for the name of a call.
        let (id, name) = ("call00001", "get_weather");
        let call = ToolCall { id, name, arguments: vec![("city", "Zürich")] };
        let calls = Turn { tool_call: Some(call), ..turn("assistant", "") };
        let result = Turn { answers: Some((id, name)), ..turn("tool", "{\"sky\": \"sunny\"}") };
        let arguments = vec![("city", "The name of a city.")];
        let tool = Tool { name, description: "Says what the weather is like.", arguments };
        let plain = |name, messages| Conversation { name, messages, tools: Vec::new() };
        let with_tools = |name, messages| Conversation { name, messages, tools: vec![tool.clone()] };
        vec![
            plain("one turn", vec![user()]),
            plain("system", vec![system(), user()]),
            plain("several turns", vec![system(), user(), answer(), thanks()]),
            plain("turns without system", vec![user(), answer(), thanks()]),
            plain("thinking", vec![user(), thought, thanks()]),
            with_tools("tools", vec![system(), user()]),
            with_tools("a call and its answer", vec![user(), calls, result]),
        ]
    }
}
