//! Tokens of Jinja's expressions.
//!
//! Source: `jinja2/lexer.py` 3.1.6.

/// Part of an expression.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Token {
    Name(String),
    Text(String),
    Number(String),
    Sign(&'static str),
}

/// Signs, longest first.
const SIGNS: [&str; 27] = [
    "==", "!=", "<=", ">=", "**", "//", "+", "-", "*", "/", "%", "~", "(", ")", "[", "]", "{", "}", "<", ">",
    "=", ",", ":", ".", "|", ";", "!",
];

/// Splits the text after the beginning of a tag, up to `end` (`%}` or `}}`). Returns the tokens, the sign before the end (`-`, `+` or
/// none), and the total length.
pub(super) fn tokens(text: &str, end: &str) -> Result<(Vec<Token>, &'static str, usize), String> {
    let (mut tokens, mut at, mut depth) = (Vec::new(), 0, 0usize);
    loop {
        let rest = &text[at..];
        let Some(first) = rest.chars().next() else { return Err(format!("missing `{end}`")) };
        if depth == 0 {
            for sign in ["", "-", "+"] {
                if rest.strip_prefix(sign).is_some_and(|rest| rest.starts_with(end)) {
                    return Ok((tokens, sign, at + sign.len() + end.len()));
                }
            }
        }
        if first.is_whitespace() {
            at += first.len_utf8();
        } else if first == '"' || first == '\'' {
            let (string, len) = literal(rest, first)?;
            tokens.push(Token::Text(string));
            at += len;
        } else if first.is_ascii_digit() {
            let (number, len) = number(rest)?;
            tokens.push(Token::Number(number));
            at += len;
        } else if first.is_alphanumeric() || first == '_' {
            let len = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
            tokens.push(Token::Name(rest[..len].to_owned()));
            at += len;
        } else if let Some(sign) = SIGNS.iter().find(|sign| rest.starts_with(**sign)) {
            match *sign {
                "(" | "[" | "{" => depth += 1,
                ")" | "]" | "}" => {
                    depth = depth.checked_sub(1).ok_or_else(|| format!("unexpected `{sign}`"))?;
                }
                _ => {}
            }
            tokens.push(Token::Sign(sign));
            at += sign.len();
        } else {
            return Err(format!("unexpected character `{}`", first.escape_debug()));
        }
    }
}

/// A string literal with Python's escapes, and its length. Unknown escapes are kept.
fn literal(text: &str, quote: char) -> Result<(String, usize), String> {
    let mut string = String::new();
    let mut chars = text.char_indices().skip(1).peekable();
    while let Some((at, c)) = chars.next() {
        if c == quote {
            return Ok((string, at + 1));
        }
        if c != '\\' {
            string.push(c);
            continue;
        }
        let Some((at, escaped)) = chars.next() else { break };
        let mut skip = 0;
        match escaped {
            '\n' => {}
            'n' => string.push('\n'),
            't' => string.push('\t'),
            'r' => string.push('\r'),
            'a' => string.push('\u{7}'),
            'b' => string.push('\u{8}'),
            'f' => string.push('\u{c}'),
            'v' => string.push('\u{b}'),
            '\\' | '\'' | '"' => string.push(escaped),
            'x' | 'u' | 'U' => {
                let len = match escaped {
                    'x' => 2,
                    'u' => 4,
                    _ => 8,
                };
                let value = text.get(at + 1..at + 1 + len).and_then(|hex| u32::from_str_radix(hex, 16).ok());
                string.push(value.and_then(char::from_u32).ok_or("invalid escape in a string")?);
                skip = len;
            }
            '0'..='7' => {
                let len = text[at..].bytes().take(3).take_while(|byte| (b'0'..=b'7').contains(byte)).count();
                let value = u32::from_str_radix(&text[at..at + len], 8).ok().and_then(char::from_u32);
                string.push(value.ok_or("invalid escape in a string")?);
                skip = len - 1;
            }
            other => string.extend(['\\', other]),
        }
        for _ in 0..skip {
            chars.next();
        }
    }
    Err("missing end of a string".to_owned())
}

/// A number in the engine's notation, and its length.
fn number(text: &str) -> Result<(String, usize), String> {
    let bytes = text.as_bytes();
    let radix = match bytes.get(..2) {
        Some(b"0x" | b"0X") => 16,
        Some(b"0o" | b"0O") => 8,
        Some(b"0b" | b"0B") => 2,
        _ => 10,
    };
    if radix != 10 {
        let len = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len());
        let value = i128::from_str_radix(&text[2..len].replace('_', ""), radix);
        return value.map(|value| (value.to_string(), len)).map_err(|_| "invalid number".to_owned());
    }
    let digits = |from: usize| {
        let rest = bytes.get(from..).unwrap_or_default();
        rest.iter().take_while(|byte| byte.is_ascii_digit() || **byte == b'_').count()
    };
    let mut len = digits(0);
    if bytes.get(len) == Some(&b'.') && bytes.get(len + 1).is_some_and(u8::is_ascii_digit) {
        len += 1 + digits(len + 1);
    }
    if matches!(bytes.get(len), Some(b'e' | b'E')) {
        let signed = usize::from(matches!(bytes.get(len + 1), Some(b'+' | b'-')));
        if bytes.get(len + 1 + signed).is_some_and(u8::is_ascii_digit) {
            len += 1 + signed + digits(len + 1 + signed);
        }
    }
    Ok((text[..len].replace('_', ""), len))
}
