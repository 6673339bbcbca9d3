//! Lines of a `Modelfile` as Ollama parses them.
//!
//! Source: `ParseFile` and `CreateRequest` in `parser/parser.go` of ollama/ollama@00dc3af8, and `FormatParams` in `api/types.go` of
//! b8761ab0, and the parameters of Ollama 0.32.

use self::Kind::{Bool, Integer, Number, Text};
use crate::{suggest::nearest, text::shortened};

/// Names of instructions, of which case is ignored.
const INSTRUCTIONS: [&str; 11] = [
    "FROM",
    "ADAPTER",
    "TEMPLATE",
    "SYSTEM",
    "PARAMETER",
    "MESSAGE",
    "LICENSE",
    "DRAFT",
    "RENDERER",
    "PARSER",
    "REQUIRES",
];

const ROLES: [&str; 3] = ["system", "user", "assistant"];

/// Names and types of parameters.
const PARAMETERS: [(&str, Kind); 20] = [
    ("num_keep", Integer),
    ("seed", Integer),
    ("num_predict", Integer),
    ("top_k", Integer),
    ("top_p", Number),
    ("min_p", Number),
    ("typical_p", Number),
    ("repeat_last_n", Integer),
    ("temperature", Number),
    ("repeat_penalty", Number),
    ("presence_penalty", Number),
    ("frequency_penalty", Number),
    ("stop", Text),
    ("num_ctx", Integer),
    ("num_batch", Integer),
    ("num_gpu", Integer),
    ("main_gpu", Integer),
    ("use_mmap", Bool),
    ("num_thread", Integer),
    ("draft_num_predict", Integer),
];

/// Parameters of older releases, which Ollama ignores with a warning.
const IGNORED: [&str; 9] = [
    "penalize_newline",
    "low_vram",
    "f16_kv",
    "logits_all",
    "vocab_only",
    "use_mlock",
    "mirostat",
    "mirostat_tau",
    "mirostat_eta",
];

/// Quotes around values, which may have several lines.
const QUOTES: [&str; 2] = ["\"\"\"", "\""];

/// Longest value in a message, in characters.
const SHOWN: usize = 40;

/// Type of a parameter.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Integer,
    Number,
    Bool,
    Text,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Integer => "an integer",
            Number => "a number",
            Bool => "true or false",
            Text => "a text",
        }
    }

    fn accepts(self, value: &str) -> bool {
        match self {
            Integer => value.parse::<i64>().is_ok(),
            Number => value.parse::<f32>().is_ok(),
            Bool => ["1", "t", "T", "TRUE", "true", "True", "0", "f", "F", "FALSE", "false", "False"]
                .contains(&value),
            Text => true,
        }
    }
}

/// An instruction with its value.
#[derive(Debug)]
pub struct Line {
    /// Number of its first line, from 1.
    pub number: usize,
    /// Its name in capitals.
    pub name: String,
    /// Name of a parameter, or role of a message.
    pub key: String,
    /// Value without quotes; `None` if the closing quote is missing.
    pub value: Option<String>,
}

/// The instructions of a `Modelfile`.
pub fn lines(text: &str) -> Vec<Line> {
    let mut lines = Vec::new();
    let mut rows = text.lines().enumerate();
    while let Some((index, row)) = rows.next() {
        let row = row.trim();
        if row.is_empty() || row.starts_with('#') {
            continue;
        }
        let (name, rest) = first_word(row);
        let name = name.to_ascii_uppercase();
        let has_key = ["PARAMETER", "MESSAGE"].contains(&name.as_str());
        let (key, rest) = if has_key { first_word(rest) } else { ("", rest) };
        let mut value = rest.to_owned();
        let mut is_closed = true;
        if let Some(quote) = QUOTES.into_iter().find(|quote| rest.starts_with(quote)) {
            is_closed = rest.len() >= 2 * quote.len() && rest.ends_with(quote);
            while !is_closed && let Some((_, row)) = rows.next() {
                value.push('\n');
                value.push_str(row);
                is_closed = row.trim_end().ends_with(quote);
            }
            let inner = value.trim_end().strip_prefix(quote).unwrap_or_default();
            value = inner.strip_suffix(quote).unwrap_or(inner).to_owned();
        }
        let value = is_closed.then_some(value);
        lines.push(Line { number: index + 1, name, key: key.to_owned(), value });
    }
    lines
}

fn first_word(text: &str) -> (&str, &str) {
    text.split_once(char::is_whitespace).map_or((text, ""), |(word, rest)| (word, rest.trim()))
}

impl Line {
    /// True if Ollama knows the instruction.
    pub fn is_known(&self) -> bool {
        INSTRUCTIONS.contains(&self.name.as_str())
    }

    /// The reason why Ollama refuses the line, if it does.
    pub fn problem(&self) -> Option<String> {
        let Line { name, key, value, .. } = self;
        if !self.is_known() {
            return Some(unknown("instruction", name, INSTRUCTIONS.into_iter()));
        }
        let Some(value) = value else { return Some(format!("{name}: missing closing quote")) };
        match name.as_str() {
            "FROM" | "ADAPTER" if value.is_empty() => Some(format!("{name}: missing value")),
            "MESSAGE" if !ROLES.contains(&key.as_str()) => {
                Some(format!("unknown role `{key}`, expected system, user or assistant"))
            }
            "PARAMETER" if !self.is_ignored() => {
                let Some((_, kind)) = PARAMETERS.iter().find(|(name, _)| name == key) else {
                    return Some(unknown("parameter", key, PARAMETERS.iter().map(|(name, _)| *name)));
                };
                (!kind.accepts(value)).then(|| {
                    format!(
                        "parameter `{key}`: expected {}, found `{}`",
                        kind.name(),
                        shortened(value, SHOWN)
                    )
                })
            }
            _ => None,
        }
    }

    /// True for a parameter that Ollama ignores.
    pub fn is_ignored(&self) -> bool {
        self.name == "PARAMETER" && IGNORED.contains(&self.key.as_str())
    }
}

fn unknown<'a>(what: &str, name: &str, known: impl Iterator<Item = &'a str>) -> String {
    let nearest = nearest(name, known).first().map(|near| format!("; did you mean `{near}`?"));
    format!("unknown {what} `{}`{}", shortened(name, SHOWN), nearest.unwrap_or_default())
}
