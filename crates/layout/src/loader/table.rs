//! Sections of the loader's table.

use super::expression::{Expr, place};

/// Written by `scripts/loader-tables`.
const TABLE: &str = include_str!("table.txt");

/// Lines of one architecture, or those that all share.
#[derive(Debug, Default)]
pub struct Section {
    /// Keys that a file must have, with the condition.
    pub needs: Vec<(&'static str, Option<Expr<'static>>)>,
    /// Keys that a file may have.
    pub reads: Vec<&'static str>,
    /// Fields and their formulas.
    pub fields: Vec<(&'static str, Expr<'static>)>,
    /// Conditions under which a file is refused.
    pub refusals: Vec<(Vec<Loop>, Expr<'static>)>,
    /// Value types of keys, and the length of a list that may replace a single value.
    pub types: Vec<(&'static str, &'static str, Option<Expr<'static>>)>,
    /// Values of keys that are missing.
    pub defaults: Vec<(&'static str, Expr<'static>)>,
    /// Tensors, grouped by loops and condition.
    pub groups: Vec<Group>,
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

/// Lines of an architecture; `*` for those that all share. None for an architecture that is not in the table.
pub fn section(architecture: &str) -> Option<Section> {
    let is_head = |line: &&str| {
        let names = line.strip_prefix('[').and_then(|line| line.strip_suffix(']'));
        names.is_some_and(|names| names.split(' ').any(|name| name == architecture))
    };
    let mut lines = TABLE.lines().skip_while(|line| !is_head(line));
    lines.next()?;
    let mut section = Section::default();
    for line in lines.take_while(|line| !line.starts_with('[')) {
        read_line(&mut section, line)?;
    }
    Some(section)
}

fn read_line(section: &mut Section, line: &'static str) -> Option<()> {
    let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
    match word {
        "need" => {
            let (keys, condition) = conditional(rest)?;
            section.needs.extend(keys.split(' ').map(|key| (key, condition.clone())));
        }
        "read" => section.reads.extend(rest.split(' ')),
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
        "type" => {
            let mut words = rest.split(' ');
            let (key, kind) = (words.next()?, words.next()?);
            let count = match words.next() {
                Some(count) => Some(Expr::parse(count)?),
                None => None,
            };
            section.types.push((key, kind, count));
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

/// `KEYS when CONDITION`.
fn conditional(text: &'static str) -> Option<(&'static str, Option<Expr<'static>>)> {
    match text.split_once(" when ") {
        Some((keys, condition)) => Some((keys, Some(Expr::parse(condition)?))),
        None => Some((text, None)),
    }
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

    /// Names in the heads of the table.
    fn names() -> impl Iterator<Item = &'static str> {
        let heads = TABLE.lines().filter_map(|line| line.strip_prefix('[')?.strip_suffix(']'));
        heads.flat_map(|names| names.split(' '))
    }

    #[test]
    fn every_section_parses_and_creates_tensors() {
        for name in names() {
            let section = section(name).unwrap_or_else(|| panic!("{name} does not parse"));
            assert!(name == "*" || section.groups.iter().any(|group| !group.tensors.is_empty()), "{name}");
        }
        assert!(section("no-such-architecture").is_none());
    }

    #[test]
    fn every_field_has_a_formula() {
        let common = section("*").unwrap_or_default();
        for name in names() {
            let section = section(name).unwrap_or_default();
            let known = |field: &str| {
                let all = common.fields.iter().chain(&section.fields);
                all.clone().any(|(name, _)| *name == field)
            };
            let mut used = Vec::new();
            section.fields.iter().for_each(|(_, formula)| formula.fields(&mut used));
            for group in &section.groups {
                group.condition.iter().for_each(|condition| condition.fields(&mut used));
                for row in &group.tensors {
                    row.shape.iter().chain([&row.flags]).for_each(|part| part.fields(&mut used));
                }
            }
            for field in used {
                assert!(known(field), "{name}: {field}");
            }
        }
    }
}
