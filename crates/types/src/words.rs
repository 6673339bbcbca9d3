//! Messages whose options and commands are values, so that each front end writes them in its own way.

use std::{fmt, ops::Add};

/// Text of a message, with options and commands as values.
///
/// `Display` writes them as on the command line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Words(Vec<Part>);

/// Part of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// Text, or an argument of a command.
    Text(String),
    /// Name of an option as on the command line, without dashes, and its value. A value in capitals stands for one of the user.
    Option(String, Option<String>),
    /// A program with its arguments.
    Command(Vec<Part>),
}

/// [`Words`] of a sentence with values for each `{}`. Brackets contain an option or a command; options have one dash there.
///
/// # Examples
/// ```
/// use gguf_types::words;
///
/// let hint = words!("use [-resume] to continue, or `[-type {}]`", "bf16");
/// assert_eq!(hint.to_string(), "use --resume to continue, or `--type bf16`");
/// let hint = words!("run `[gguf-convert {} -type bf16 -o OUT]`", "base");
/// assert_eq!(hint.to_string(), "run `gguf-convert base --type bf16 -o OUT`");
/// ```
#[macro_export]
macro_rules! words {
    ($sentence:literal $(, $value:expr)* $(,)?) => {{
        // Compiles only with a value for each `{}`.
        let _ = ::core::format_args!($sentence $(, $value)*);
        $crate::Words::new($sentence, &[$($value.to_string()),*])
    }};
}

impl Words {
    #[doc(hidden)]
    pub fn new(sentence: &'static str, values: &[String]) -> Words {
        let mut values = values.iter();
        let mut fill = |text: &str| {
            let mut pieces = text.split("{}");
            let first = pieces.next().unwrap_or_default().to_owned();
            pieces.fold(first, |filled, piece| filled + values.next().map_or("", String::as_str) + piece)
        };
        let pieces = sentence.split(['[', ']']).enumerate().filter(|(_, piece)| !piece.is_empty());
        let parts = pieces.map(|(n, piece)| match (n % 2, piece.strip_prefix('-')) {
            (0, _) => Part::Text(fill(piece)),
            (_, Some(option)) => match option.split_once(' ') {
                Some((name, value)) => Part::Option(fill(name), Some(fill(value))),
                None => Part::Option(fill(option), None),
            },
            (_, None) => Part::Command(arguments(piece, &mut fill)),
        });
        Words(parts.collect())
    }

    /// A list of words with a separator between them.
    pub fn joined(list: &[Words], separator: &str) -> Words {
        let separator = Part::Text(separator.to_owned());
        Words(list.iter().map(|words| words.0.clone()).collect::<Vec<_>>().join(&separator))
    }

    /// The parts in order.
    pub fn parts(&self) -> &[Part] {
        &self.0
    }
}

/// Parts of a command. An option has the word after it as its value, if that is not an option.
fn arguments(command: &str, mut fill: impl FnMut(&str) -> String) -> Vec<Part> {
    let mut words = command.split(' ').peekable();
    let mut parts = Vec::new();
    while let Some(word) = words.next() {
        parts.push(match word.strip_prefix('-') {
            None => Part::Text(fill(word)),
            Some(name) => {
                let value = words.next_if(|word| !word.starts_with('-'));
                Part::Option(name.to_owned(), value.map(&mut fill))
            }
        });
    }
    parts
}

impl Add for Words {
    type Output = Words;

    fn add(mut self, other: Words) -> Words {
        self.0.extend(other.0);
        self
    }
}

impl From<String> for Words {
    fn from(text: String) -> Words {
        Words(vec![Part::Text(text)])
    }
}

/// Texts that may be borrowed.
macro_rules! from_text {
    ($($text:ty),+) => {$(
        impl From<$text> for Words {
            fn from(text: $text) -> Words {
                text.to_string().into()
            }
        }
    )+};
}

from_text!(&str, &String, fmt::Arguments<'_>);

impl From<&Words> for Words {
    fn from(words: &Words) -> Words {
        words.clone()
    }
}

impl fmt::Display for Words {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|part| part.fmt(f))
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Part::Text(text) => text.fmt(f),
            Part::Option(name, value) => {
                write!(f, "{}{name}", if name.len() == 1 { "-" } else { "--" })?;
                value.iter().try_for_each(|value| write!(f, " {value}"))
            }
            Part::Command(parts) => {
                let words: Vec<String> = parts.iter().map(ToString::to_string).collect();
                f.write_str(&words.join(" "))
            }
        }
    }
}
