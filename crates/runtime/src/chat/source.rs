//! The source of a template, rewritten for the template engine: line ends, `{% generation %}`, and expressions.
//!
//! Source: `newline_re` of `jinja2/lexer.py` 3.1.6; `AssistantTracker` in `utils/chat_template_utils.py` of transformers 5.24.

use super::{
    expression::Parser,
    tokens::{Token, tokens},
};

/// Part of a template's source.
pub(super) enum Part<'a> {
    /// Text between tags.
    Text(&'a str),
    /// A comment with its marks.
    Comment(&'a str),
    /// A tag: its marks with their signs, and the tokens between them.
    Tag { begin: String, tokens: Vec<Token>, end: String },
    /// The text after the tag `raw`, and the tag `endraw`.
    Raw { text: &'a str, end: &'a str },
}

/// A problem with the number of the line after `before`.
fn at_line(before: &str, problem: &str) -> String {
    format!("line {}: {problem}", before.matches('\n').count() + 1)
}

/// Splits the source of a template into its parts. Line breaks inside a tag are kept at its end, so lines keep their numbers.
pub(super) fn parts(template: &str) -> Result<Vec<Part<'_>>, String> {
    let (mut parts, mut rest) = (Vec::new(), template);
    let fault = |rest: &str, problem: &str| at_line(&template[..template.len() - rest.len()], problem);
    let is_mark = |text: &str| ["{#", "{{", "{%"].iter().any(|mark| text.starts_with(mark));
    while let Some((at, _)) = rest.match_indices('{').find(|(at, _)| is_mark(&rest[*at..])) {
        let (text, tag) = rest.split_at(at);
        parts.push(Part::Text(text));
        if let Some(comment) = tag.strip_prefix("{#") {
            let len = comment.find("#}").ok_or_else(|| fault(tag, "missing end of a comment"))? + 4;
            parts.push(Part::Comment(&tag[..len]));
            rest = &tag[len..];
            continue;
        }
        let (begin, end) = if tag.starts_with("{{") { ("{{", "}}") } else { ("{%", "%}") };
        let sign = ["-", "+"].into_iter().find(|sign| tag[2..].starts_with(sign)).unwrap_or("");
        let body = &tag[2 + sign.len()..];
        let (tokens, end_sign, len) = tokens(body, end).map_err(|problem| fault(tag, &problem))?;
        let breaks = "\n".repeat(body[..len].matches('\n').count());
        rest = &body[len..];
        let is_raw = end == "%}" && tokens == [Token::Name("raw".to_owned())];
        parts.push(Part::Tag {
            begin: format!("{begin}{sign}"),
            tokens,
            end: format!("{breaks}{end_sign}{end}"),
        });
        if is_raw {
            let (text, end) = raw(rest).map_err(|problem| fault(tag, &problem))?;
            parts.push(Part::Raw { text, end });
            rest = &rest[text.len() + end.len()..];
        }
    }
    parts.push(Part::Text(rest));
    Ok(parts)
}

/// A template that means to the engine what `template` means to Jinja.
pub(super) fn rewritten(template: &str) -> Result<String, String> {
    let template = template.replace("\r\n", "\n").replace('\r', "\n");
    let mut made = String::with_capacity(template.len() * 2);
    for part in parts(&template)? {
        match part {
            Part::Text(text) | Part::Comment(text) => made += text,
            Part::Raw { text, end } => {
                made += text;
                made += end;
            }
            Part::Tag { begin, tokens, end } if begin.starts_with("{{") => {
                let text = expression(tokens).map_err(|problem| at_line(&made, &problem))?;
                made += &format!("{begin} {text} {end}");
            }
            Part::Tag { begin, tokens, end } => {
                let text = statement(tokens, &begin, &end).map_err(|problem| at_line(&made, &problem))?;
                made += &text;
            }
        }
    }
    Ok(made)
}

/// Text up to the tag `endraw`, and that tag.
fn raw(text: &str) -> Result<(&str, &str), String> {
    for (at, _) in text.match_indices("{%") {
        let inner = text[at + 2..].trim_start_matches(['-', '+']).trim_start();
        if let Some(after) = inner.strip_prefix("endraw") {
            let after = after.trim_start().trim_start_matches(['-', '+']);
            if let Some(after) = after.strip_prefix("%}") {
                return Ok((&text[..at], &text[at..text.len() - after.len()]));
            }
        }
    }
    Err("missing `endraw`".to_owned())
}

/// The expression of a tag.
fn expression(tokens: Vec<Token>) -> Result<String, String> {
    let mut parser = Parser::new(tokens);
    let text = parser.tuple(true)?;
    parser.finish()?;
    Ok(text)
}

/// A tag with a statement.
fn statement(tokens: Vec<Token>, begin: &str, end: &str) -> Result<String, String> {
    let mut parser = Parser::new(tokens);
    let word = parser.any_name()?;
    let text = match &word[..] {
        // Marks the model's output. It has its own scope.
        "generation" => "with __generation=0".to_owned(),
        "endgeneration" => "endwith".to_owned(),
        "if" | "elif" => format!("{word} {}", parser.tuple(true)?),
        "for" => {
            let target = parser.target()?;
            if !parser.name("in") {
                return Err("missing `in` of a loop".to_owned());
            }
            let mut text = format!("for {target} in __iter({})", parser.tuple(false)?);
            if parser.name("if") {
                text += &format!(" if {}", parser.expression()?);
            }
            if parser.name("recursive") {
                text += " recursive";
            }
            text
        }
        "set" => {
            let target = parser.target()?;
            if parser.sign("=") {
                format!("set {target} = {}", parser.tuple(true)?)
            } else if parser.sign("|") {
                format!("set {target} | {}", parser.block_filters()?)
            } else {
                format!("set {target}")
            }
        }
        "macro" => return macro_tag(parser, begin, end),
        "with" => format!("with {}", parser.assignments()?),
        "filter" => format!("filter {}", parser.block_filters()?),
        "call" => format!("call{}", parser.block_call()?),
        "autoescape" if !parser.name("false") && !parser.name("False") => {
            return Err("`autoescape` is not supported".to_owned());
        }
        "autoescape" => "autoescape false".to_owned(),
        _ => format!("{word}{}", parser.rest()),
    };
    parser.finish()?;
    Ok(format!("{begin} {text} {end}"))
}

/// The begin of a macro. Defaults may name arguments before them, so they are assigned inside.
fn macro_tag(mut parser: Parser, begin: &str, end: &str) -> Result<String, String> {
    let name = parser.any_name()?;
    parser.expect("(")?;
    let (mut arguments, mut defaults) = (Vec::new(), Vec::new());
    while !parser.sign(")") {
        let argument = parser.any_name()?;
        if parser.sign("=") {
            let default = parser.expression()?;
            defaults.push(format!("set {argument} = ({default} if {argument} is undefined else {argument})"));
        }
        arguments.push(argument);
        if !parser.sign(",") {
            parser.expect(")")?;
            break;
        }
    }
    parser.finish()?;
    let mut made = format!("{begin} macro {name}({}) ", arguments.join(","));
    for default in defaults {
        made += &format!("%}}{{% {default} ");
    }
    Ok(made + end)
}
