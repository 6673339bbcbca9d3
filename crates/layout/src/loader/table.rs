//! Sections of the loader's table.

use super::expression::{Expr, place};
use crate::registry::Families;

/// Lines that all architectures share. Written by `scripts/loader-tables`.
const COMMON: &str = include_str!("common.txt");

/// Lines of one architecture, or those that all share.
#[derive(Debug, Default)]
pub struct Section {
    /// Keys that are read.
    pub keys: Vec<Keys>,
    /// Fields and their formulas.
    pub fields: Vec<(&'static str, Expr<'static>)>,
    /// Conditions under which a file is refused.
    pub refusals: Vec<(Vec<Loop>, Expr<'static>)>,
    /// Values of keys that are missing.
    pub defaults: Vec<(&'static str, Expr<'static>)>,
    /// Tensors, grouped by loops and condition.
    pub groups: Vec<Group>,
}

/// Keys that are read in the same form under the same condition.
#[derive(Debug)]
pub struct Keys {
    /// The keys.
    pub names: Vec<&'static str>,
    /// True if a file must have them.
    pub is_needed: bool,
    /// Names of value types, or of the types of items, separated by `/`.
    pub kinds: &'static str,
    /// The lists that are read.
    pub lists: Lists,
    /// None for always.
    pub condition: Option<Expr<'static>>,
}

/// Lists as values of a key.
#[derive(Debug)]
pub enum Lists {
    /// `u32`: a list is refused.
    Refused,
    /// `u32~`: a list is not read.
    Ignored,
    /// `u32*LENGTH`: a list of this length replaces a single value.
    Length(Expr<'static>),
    /// `[u32]`: a single value is not read.
    Only,
    /// `[u32]!`: a single value is refused.
    Always,
}

/// `i:0..n_layer`.
#[derive(Debug, Clone)]
pub struct Loop {
    /// Position of the variable in [`Layers::loops`](super::expression::Layers::loops).
    pub variable: usize,
    /// First value.
    pub from: Expr<'static>,
    /// End of the values.
    pub to: Expr<'static>,
}

/// Tensors that are created in the same loops under the same condition.
#[derive(Debug, Default)]
pub struct Group {
    /// Outermost first.
    pub loops: Vec<Loop>,
    /// None for always.
    pub condition: Option<Expr<'static>>,
    /// The tensors.
    pub tensors: Vec<Row>,
}

/// One tensor, or one of the two functions that create several.
#[derive(Debug)]
pub struct Row {
    /// The name with `%d` instead of numbers; `qkv` or `gate_up_exps` for the functions.
    pub name: String,
    /// The numbers.
    pub numbers: Vec<Expr<'static>>,
    /// Sizes, row length first.
    pub shape: Vec<Expr<'static>>,
    /// A sum of [`super::OPTIONAL`] and so on; unknown for a tensor that may or may not be created.
    pub flags: Expr<'static>,
}

/// Lines that all architectures share.
pub fn common() -> Option<Section> {
    section_in(COMMON, "*")
}

/// Lines of an architecture; `None` for an architecture that no family describes.
pub fn section(families: &Families, architecture: &str) -> Option<Section> {
    section_in(families.loader, architecture)
}

/// Conditions of the graph of an architecture.
pub fn graph(families: &Families, architecture: &str) -> Option<Section> {
    section_in(families.graph, architecture)
}

fn section_in(text: &'static str, architecture: &str) -> Option<Section> {
    let mut found: Option<Section> = None;
    let mut is_own = false;
    for line in text.lines() {
        if let Some(names) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            is_own = names.split(' ').any(|name| name == architecture);
            if is_own {
                found.get_or_insert_default();
            }
        } else if let Some(section) = found.as_mut().filter(|_| is_own) {
            read_line(section, line)?;
        }
    }
    found
}

fn read_line(section: &mut Section, line: &'static str) -> Option<()> {
    let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
    match word {
        "need" | "read" => section.keys.push(keys(rest, word == "need")?),
        "set" => {
            let (name, formula) = rest.split_once(" = ")?;
            section.fields.push((name, Expr::parse(formula)?));
        }
        "default" => {
            let (key, value) = rest.split_once(' ')?;
            section.defaults.push((key, Expr::parse(value)?));
        }
        "refuse" => {
            let (loops, condition) = loops(rest)?;
            section.refusals.push((loops, Expr::parse(condition)?));
        }
        "@" => {
            let (loops, rest) = loops(rest)?;
            let condition = match rest.strip_prefix("when ") {
                Some(condition) => Some(Expr::parse(condition)?),
                None => None,
            };
            section.groups.push(Group { loops, condition, tensors: Vec::new() });
        }
        _ => section.groups.last_mut()?.tensors.push(row(line)?),
    }
    Some(())
}

/// `FORM KEYS when CONDITION`.
fn keys(text: &'static str, is_needed: bool) -> Option<Keys> {
    let (text, condition) = match text.split_once(" when ") {
        Some((text, condition)) => (text, Some(Expr::parse(condition)?)),
        None => (text, None),
    };
    let (form, names) = text.split_once(' ')?;
    let (kinds, lists) = if let Some(kinds) = form.strip_prefix('[') {
        match kinds.split_once(']')? {
            (kinds, "") => (kinds, Lists::Only),
            (kinds, _) => (kinds, Lists::Always),
        }
    } else if let Some((kind, length)) = form.split_once('*') {
        (kind, Lists::Length(Expr::parse(length)?))
    } else if let Some(kind) = form.strip_suffix('~') {
        (kind, Lists::Ignored)
    } else {
        (form, Lists::Refused)
    };
    Some(Keys { names: names.split(' ').collect(), is_needed, kinds, lists, condition })
}

/// Loops at the start of a text, and the rest.
fn loops(text: &'static str) -> Option<(Vec<Loop>, &'static str)> {
    let (mut loops, mut rest) = (Vec::new(), text);
    while let Some((variable, range)) =
        rest.split_once(':').filter(|(head, _)| matches!(*head, "i" | "j" | "k"))
    {
        let (range, after) = range.split_once(' ').unwrap_or((range, ""));
        let (from, to) = range.split_once("..")?;
        let variable = place(variable);
        loops.push(Loop { variable, from: Expr::parse(from)?, to: Expr::parse(to)? });
        rest = after;
    }
    Some((loops, rest))
}

/// `NAME [SIZES] FLAGS`.
fn row(line: &'static str) -> Option<Row> {
    let (name, rest) = line.split_once(" [")?;
    let (sizes, flags) = closing(rest)?;
    let shape = split_sizes(sizes).into_iter().map(Expr::parse).collect::<Option<_>>()?;
    let flags = match flags.trim() {
        "" => Expr::Int(0),
        "?" => Expr::Unknown,
        expression if expression.starts_with('=') => Expr::parse(&expression[1..])?,
        letters => Expr::Int(letters.bytes().map(letter).try_fold(0, |sum, flag| Some(sum | flag?))?),
    };
    let (mut pattern, mut numbers, mut at) = (String::new(), Vec::new(), name);
    while let Some((before, after)) = at.split_once('{') {
        let (number, after) = after.split_once('}')?;
        pattern += before;
        pattern += "%d";
        numbers.push(Expr::parse(number)?);
        at = after;
    }
    pattern += at;
    Some(Row { name: pattern.trim_end_matches(" %d").to_owned(), numbers, shape, flags })
}

/// Splits at the bracket that closes one opened before the text. Sizes and flags contain brackets too.
fn closing(text: &'static str) -> Option<(&'static str, &'static str)> {
    let mut depth = 1;
    for (at, c) in text.char_indices() {
        depth += match c {
            '[' => 1,
            ']' => -1,
            _ => 0,
        };
        if depth == 0 {
            return Some((&text[..at], &text[at + 1..]));
        }
    }
    None
}

/// Splits at commas followed by a space, which only separate sizes.
fn split_sizes(text: &'static str) -> Vec<&'static str> {
    if text.is_empty() { Vec::new() } else { text.split(", ").collect() }
}

fn letter(letter: u8) -> Option<i64> {
    match letter {
        b'o' => Some(super::OPTIONAL),
        b'd' => Some(super::DUPLICATE),
        b's' => Some(super::SKIP),
        b'r' => Some(super::RESHAPE),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn common_lines_parse() {
        assert!(common().is_some_and(|section| !section.keys.is_empty() && !section.refusals.is_empty()));
        assert!(section(&Families::EMPTY, "llama").is_none());
    }

    #[test]
    fn keys_have_forms_and_conditions() {
        let section = section_in(
            "[a b]\nneed u32*$.n .x .y when has(.z)\nread [i32/u32] .list\nread f32~ .f\nread [str]! .s\n[c]",
            "b",
        );
        let keys = section.unwrap_or_default().keys;
        assert!(keys[0].is_needed && keys[0].names == [".x", ".y"] && keys[0].condition.is_some());
        assert!(matches!(keys[0].lists, Lists::Length(_)) && keys[0].kinds == "u32");
        assert!(matches!(keys[1].lists, Lists::Only) && keys[1].kinds == "i32/u32" && !keys[1].is_needed);
        assert!(matches!(keys[2].lists, Lists::Ignored) && matches!(keys[3].lists, Lists::Always));
    }
}
