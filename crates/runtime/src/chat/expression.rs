//! Expressions of Jinja, rewritten for the template engine.
//!
//! The engine has its own rules for operators on Python's values, for strings as sequences, for tuples and for names that are both keys
//! and methods. The rewritten expression calls functions (see [`super::operators`]) for these and leaves the rest to the engine.
//!
//! Source: the grammar of `jinja2/parser.py` 3.1.6.

use std::fmt::Write;

use super::tokens::Token;

/// Deepest nesting of an expression.
const MAX_DEPTH: usize = 400;

/// A string literal of the engine.
fn quoted(string: &str) -> String {
    format!("\"{}\"", string.replace('\\', "\\\\").replace('"', "\\\""))
}

/// Reader of an expression.
pub(super) struct Parser {
    tokens: Vec<Token>,
    at: usize,
    depth: usize,
}

/// A parsed part: its text for the engine, and its kind.
struct Part {
    text: String,
    kind: PartKind,
}

enum PartKind {
    /// A name.
    Name,
    /// `object.name`, with both.
    Attribute(String, String),
    Other,
}

fn other(text: String) -> Part {
    Part { text, kind: PartKind::Other }
}

/// Operands of `and` or `or`. A long chain becomes a balanced tree: the engine takes time with the square of the nesting, and reads a
/// chain from the left.
fn joined(items: &[String], operator: &str) -> String {
    match items {
        [item] => item.clone(),
        items if items.len() <= 8 => format!("({})", items.join(operator)),
        items => {
            let (left, right) = items.split_at(items.len() / 2);
            format!("({}{operator}{})", joined(left, operator), joined(right, operator))
        }
    }
}

/// Methods of a dictionary, which attributes find before its keys.
pub(super) const DICTIONARY_METHODS: [&str; 5] = ["items", "keys", "values", "get", "copy"];

/// Supported methods of a string.
pub(super) const TEXT_METHODS: [&str; 39] = [
    "capitalize",
    "casefold",
    "center",
    "count",
    "endswith",
    "expandtabs",
    "find",
    "format",
    "index",
    "isalnum",
    "isalpha",
    "isascii",
    "isdecimal",
    "isdigit",
    "islower",
    "isnumeric",
    "isspace",
    "isupper",
    "join",
    "ljust",
    "lower",
    "lstrip",
    "partition",
    "removeprefix",
    "removesuffix",
    "replace",
    "rfind",
    "rindex",
    "rjust",
    "rpartition",
    "rsplit",
    "rstrip",
    "split",
    "splitlines",
    "startswith",
    "strip",
    "swapcase",
    "title",
    "upper",
];

/// Filters that return an iterator, which can be read once and has no length.
pub(super) const LAZY_FILTERS: [&str; 10] =
    ["map", "select", "reject", "selectattr", "rejectattr", "unique", "batch", "slice", "items", "reverse"];

/// True for text that the engine would evaluate at compile time, by its own rules.
fn is_constant(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_digit() || "\"'([{-".contains(c))
        || ["true", "false", "none"].contains(&text)
}

/// True for the text of a number.
fn is_number(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_digit())
}

/// An operand of arithmetic, in which `true` and `false` are numbers.
fn operand(text: String) -> String {
    if is_number(&text) { text } else { format!("__number({text})") }
}

impl Parser {
    /// A reader of tokens.
    pub(super) fn new(tokens: Vec<Token>) -> Parser {
        Parser { tokens, at: 0, depth: 0 }
    }

    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at)
    }

    pub(super) fn is_sign(&self, sign: &str) -> bool {
        matches!(self.peek(), Some(Token::Sign(found)) if *found == sign)
    }

    /// True if the next token is this name.
    pub(super) fn is_name(&self, name: &str) -> bool {
        matches!(self.peek(), Some(Token::Name(found)) if found == name)
    }

    /// Skips a sign if it is next.
    pub(super) fn sign(&mut self, sign: &str) -> bool {
        let found = self.is_sign(sign);
        self.at += usize::from(found);
        found
    }

    /// Skips a name if it is next.
    pub(super) fn name(&mut self, name: &str) -> bool {
        let found = self.is_name(name);
        self.at += usize::from(found);
        found
    }

    fn unexpected(&self) -> String {
        match self.peek() {
            Some(Token::Name(text) | Token::Number(text)) => format!("unexpected `{text}`"),
            Some(Token::Text(text)) => format!("unexpected string `{text}`"),
            Some(Token::Sign(sign)) => format!("unexpected `{sign}`"),
            None => "unexpected end of a tag".to_owned(),
        }
    }

    /// Skips a sign that must be next.
    pub(super) fn expect(&mut self, sign: &str) -> Result<(), String> {
        if self.sign(sign) { Ok(()) } else { Err(self.unexpected()) }
    }

    /// Any name.
    pub(super) fn any_name(&mut self) -> Result<String, String> {
        match self.peek() {
            Some(Token::Name(name)) => {
                let name = name.clone();
                self.at += 1;
                Ok(name)
            }
            _ => Err(self.unexpected()),
        }
    }

    /// Ends the reading: everything must be used up.
    pub(super) fn finish(&self) -> Result<(), String> {
        if self.at == self.tokens.len() { Ok(()) } else { Err(self.unexpected()) }
    }

    /// True if nothing is left.
    pub(super) fn is_done(&self) -> bool {
        self.at == self.tokens.len()
    }

    /// The target of an assignment or a loop, up to `=` or `in`.
    pub(super) fn target(&mut self) -> Result<String, String> {
        let mut text = String::new();
        while !self.is_done() && !self.is_sign("=") && !self.is_name("in") && !self.is_sign("|") {
            match self.peek() {
                Some(Token::Name(name)) => text += name,
                Some(Token::Sign(sign @ ("," | "(" | ")" | "."))) => text += sign,
                _ => return Err(self.unexpected()),
            }
            self.at += 1;
        }
        Ok(text)
    }

    /// The tokens that are left, as they are.
    pub(super) fn rest(&mut self) -> String {
        let mut text = String::new();
        for token in self.tokens.iter().skip(self.at) {
            let _ = match token {
                Token::Name(name) | Token::Number(name) => write!(text, " {name}"),
                Token::Text(string) => write!(text, "{}", quoted(string)),
                Token::Sign(sign) => write!(text, "{sign}"),
            };
        }
        self.at = self.tokens.len();
        text
    }

    /// An expression, or several between commas, which make a tuple.
    pub(super) fn tuple(&mut self, with_condition: bool) -> Result<String, String> {
        let read = |parser: &mut Parser| if with_condition { parser.expression() } else { parser.or() };
        let first = read(self)?;
        if !self.is_sign(",") {
            return Ok(first);
        }
        let mut items = vec![first];
        while self.sign(",") {
            if self.is_done() || self.is_sign(")") {
                break;
            }
            items.push(read(self)?);
        }
        Ok(format!("__tuple({})", items.join(",")))
    }

    /// An expression.
    pub(super) fn expression(&mut self) -> Result<String, String> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(format!("expressions nested deeper than {MAX_DEPTH}"));
        }
        let mut text = self.or()?;
        while self.name("if") {
            let condition = self.or()?;
            text = if self.name("else") {
                format!("({text} if {condition} else {})", self.expression()?)
            } else {
                format!("({text} if {condition})")
            };
        }
        self.depth -= 1;
        Ok(text)
    }

    fn or(&mut self) -> Result<String, String> {
        let mut items = vec![self.and()?];
        while self.name("or") {
            items.push(self.and()?);
        }
        Ok(joined(&items, " or "))
    }

    fn and(&mut self) -> Result<String, String> {
        let mut items = vec![self.not()?];
        while self.name("and") {
            items.push(self.not()?);
        }
        if items.len() > 1 {
            for item in items.iter_mut().filter(|item| is_constant(item)) {
                *item = format!("__value({item})");
            }
        }
        Ok(joined(&items, " and "))
    }

    fn not(&mut self) -> Result<String, String> {
        let mut n_signs = 0;
        while self.name("not") {
            n_signs += 1;
        }
        let mut text = self.comparison()?;
        for _ in 0..n_signs {
            text = format!("(not {text})");
        }
        Ok(text)
    }

    fn comparison(&mut self) -> Result<String, String> {
        let mut left = self.sum()?;
        let mut text: Option<String> = None;
        loop {
            let sign = ["==", "!=", "<=", ">=", "<", ">"].into_iter().find(|sign| self.is_sign(sign));
            let next_is_in = matches!(self.tokens.get(self.at + 1), Some(Token::Name(name)) if name == "in");
            let sign = if let Some(sign) = sign {
                self.at += 1;
                sign
            } else if self.name("in") {
                "in"
            } else if self.is_name("not") && next_is_in {
                self.at += 2;
                "not in"
            } else {
                return Ok(text.unwrap_or(left));
            };
            let right = self.sum()?;
            let this = match sign {
                "in" => format!("__in({left},{right})"),
                "not in" => format!("(not __in({left},{right}))"),
                "<" | ">" | "<=" | ">=" => format!("__compare(\"{sign}\",{left},{right})"),
                sign => format!("({left} {sign} {right})"),
            };
            text = Some(match text {
                Some(before) => format!("({before} and {this})"),
                None => this,
            });
            left = right;
        }
    }

    fn sum(&mut self) -> Result<String, String> {
        let mut items = vec![self.concatenation()?];
        let sum = |items: Vec<String>| match &items[..] {
            [one] => one.clone(),
            _ => format!("__add({})", items.join(",")),
        };
        loop {
            if self.sign("+") {
                items.push(self.concatenation()?);
            } else if self.sign("-") {
                let right = operand(self.concatenation()?);
                items = vec![format!("({} - {right})", operand(sum(items)))];
            } else {
                return Ok(sum(items));
            }
        }
    }

    fn concatenation(&mut self) -> Result<String, String> {
        let first = self.product()?;
        if !self.is_sign("~") {
            return Ok(first);
        }
        let mut items = vec![first];
        while self.sign("~") {
            items.push(self.product()?);
        }
        Ok(format!("__concat({})", items.join(",")))
    }

    fn product(&mut self) -> Result<String, String> {
        let mut text = self.power()?;
        loop {
            if self.sign("%") {
                text = format!("__mod({text},{})", self.power()?);
                continue;
            }
            let Some(sign) = ["*", "//", "/"].into_iter().find(|sign| self.is_sign(sign)) else {
                return Ok(text);
            };
            self.at += 1;
            let right = operand(self.power()?);
            let right = if sign == "*" { right } else { format!("__divisor({right})") };
            text = format!("({} {sign} {right})", operand(text));
        }
    }

    fn power(&mut self) -> Result<String, String> {
        let mut text = self.unary(true)?;
        while self.sign("**") {
            let right = operand(self.unary(true)?);
            text = format!("({} ** {right})", operand(text));
        }
        Ok(text)
    }

    fn unary(&mut self, with_filters: bool) -> Result<String, String> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(format!("expressions nested deeper than {MAX_DEPTH}"));
        }
        let part = if self.sign("-") {
            other(format!("(-({}))", operand(self.unary(false)?)))
        } else if self.sign("+") {
            other(self.unary(false)?)
        } else {
            self.primary()?
        };
        let part = self.postfix(part)?;
        let text = if with_filters { self.filters(part.text)? } else { part.text };
        self.depth -= 1;
        Ok(text)
    }

    fn primary(&mut self) -> Result<Part, String> {
        let token = self.peek().cloned().ok_or_else(|| self.unexpected())?;
        self.at += 1;
        match token {
            Token::Name(name) => Ok(match &name[..] {
                "True" | "true" => other("true".to_owned()),
                "False" | "false" => other("false".to_owned()),
                "None" | "none" => other("none".to_owned()),
                _ => Part { text: name, kind: PartKind::Name },
            }),
            Token::Text(mut string) => {
                while let Some(Token::Text(more)) = self.peek() {
                    string += more;
                    self.at += 1;
                }
                Ok(other(quoted(&string)))
            }
            Token::Number(number) => Ok(other(number)),
            Token::Sign("(") => {
                if self.sign(")") {
                    return Ok(other("__tuple()".to_owned()));
                }
                let text = self.tuple(true)?;
                self.expect(")")?;
                Ok(other(format!("({text})")))
            }
            Token::Sign("[") => {
                let mut items = Vec::new();
                while !self.sign("]") {
                    items.push(self.expression()?);
                    if !self.is_sign("]") {
                        self.expect(",")?;
                    }
                }
                Ok(other(format!("[{}]", items.join(","))))
            }
            Token::Sign("{") => {
                let mut items = Vec::new();
                while !self.sign("}") {
                    let key = self.expression()?;
                    self.expect(":")?;
                    items.push(format!("{key}: {}", self.expression()?));
                    if !self.is_sign("}") {
                        self.expect(",")?;
                    }
                }
                Ok(other(format!("{{{}}}", items.join(","))))
            }
            Token::Sign(_) => {
                self.at -= 1;
                Err(self.unexpected())
            }
        }
    }

    fn postfix(&mut self, mut part: Part) -> Result<Part, String> {
        loop {
            if self.sign(".") {
                part = match self.peek().cloned() {
                    Some(Token::Name(name)) => {
                        self.at += 1;
                        let text =
                            if DICTIONARY_METHODS.contains(&&name[..]) || TEXT_METHODS.contains(&&name[..]) {
                                format!("__attribute({},\"{name}\")", part.text)
                            } else {
                                format!("{}.{name}", part.text)
                            };
                        Part { text, kind: PartKind::Attribute(part.text, name) }
                    }
                    Some(Token::Number(number)) => {
                        self.at += 1;
                        other(format!("__item({},{number})", part.text))
                    }
                    _ => return Err(self.unexpected()),
                };
            } else if self.sign("[") {
                part = self.subscript(&part.text)?;
            } else if self.is_sign("(") {
                let arguments = self.arguments()?;
                part = other(match part.kind {
                    // Functions of the engine, with the state of the loop.
                    PartKind::Attribute(object, name) if object == "loop" || object == "self" => {
                        format!("{object}.{name}({arguments})")
                    }
                    PartKind::Attribute(object, name) => {
                        let comma = if arguments.is_empty() { "" } else { "," };
                        format!("__method({object},\"{name}\"{comma}{arguments})")
                    }
                    PartKind::Name | PartKind::Other => format!("{}({arguments})", part.text),
                });
            } else {
                return Ok(part);
            }
        }
    }

    fn subscript(&mut self, object: &str) -> Result<Part, String> {
        let mut bounds: Vec<Option<String>> = vec![None];
        let mut is_slice = false;
        while !self.sign("]") {
            if self.sign(":") {
                is_slice = true;
                bounds.push(None);
            } else if let Some(last @ None) = bounds.last_mut() {
                let _: &mut Option<String> = last;
                let text = self.tuple(true)?;
                if let Some(last) = bounds.last_mut() {
                    *last = Some(text);
                }
            } else {
                return Err(self.unexpected());
            }
        }
        if !is_slice {
            let key = bounds.pop().flatten().ok_or("missing key between brackets")?;
            return Ok(other(format!("__item({object},{key})")));
        }
        bounds.resize(3, None);
        let bounds: Vec<String> =
            bounds.into_iter().map(|bound| bound.unwrap_or_else(|| "none".to_owned())).collect();
        Ok(other(format!("__slice({object},{})", bounds.join(","))))
    }

    /// Arguments of a call, from its `(` to its `)`.
    pub(super) fn arguments(&mut self) -> Result<String, String> {
        self.expect("(")?;
        let mut items = Vec::new();
        while !self.sign(")") {
            let stars = if self.sign("**") {
                "**"
            } else if self.sign("*") {
                "*"
            } else {
                ""
            };
            let is_named = matches!(self.tokens.get(self.at + 1), Some(Token::Sign("=")));
            items.push(match self.peek().cloned() {
                Some(Token::Name(name)) if is_named => {
                    self.at += 2;
                    format!("{name}={}", self.expression()?)
                }
                _ => format!("{stars}{}", self.expression()?),
            });
            if !self.is_sign(")") {
                self.expect(",")?;
            }
        }
        Ok(items.join(","))
    }

    /// Arguments in parentheses, or an empty text.
    pub(super) fn optional_arguments(&mut self) -> Result<String, String> {
        if self.is_sign("(") { Ok(format!("({})", self.arguments()?)) } else { Ok(String::new()) }
    }

    /// A filter applied to a value.
    fn filtered(text: &str, name: &str, arguments: &str) -> String {
        let made = format!("({text}|{name}{arguments})");
        if LAZY_FILTERS.contains(&name) { format!("__lazy({made},\"{name}\")") } else { made }
    }

    /// Filters and tests after an expression.
    fn filters(&mut self, mut text: String) -> Result<String, String> {
        loop {
            if self.sign("|") {
                let mut name = self.any_name()?;
                while self.sign(".") {
                    name = format!("{name}.{}", self.any_name()?);
                }
                let arguments = self.optional_arguments()?;
                text = Parser::filtered(&text, &name, &arguments);
            } else if self.name("is") {
                let negated = self.name("not");
                let name = self.any_name()?;
                let arguments = match self.peek() {
                    Some(Token::Sign("(")) => format!("({})", self.arguments()?),
                    Some(Token::Text(_) | Token::Number(_) | Token::Sign("[" | "{")) => {
                        let part = self.primary()?;
                        format!("({})", self.postfix(part)?.text)
                    }
                    Some(Token::Name(next))
                        if !["else", "or", "and", "is", "if", "not", "in", "recursive"]
                            .contains(&&next[..]) =>
                    {
                        let part = self.primary()?;
                        format!("({})", self.postfix(part)?.text)
                    }
                    _ => String::new(),
                };
                text = format!("({text} is {name}{arguments})");
                if negated {
                    text = format!("(not {text})");
                }
            } else {
                return Ok(text);
            }
        }
    }
}
