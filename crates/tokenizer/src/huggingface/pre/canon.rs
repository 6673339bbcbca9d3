//! Canonical form of regular expressions: equivalent spellings become equal.
//!
//! Equal spellings:
//!
//! - capturing and non-capturing groups; a group around an entire alternative; `{1}`, `{1,}`, `{0,1}`,
//!   `{0,}`; the order in a character class, a class of one; `\pL` and `\p{L}`; control characters and their
//!   escapes;
//! - a letter without regard to case: `(?i:s)` and `[sS]`. (Under `(?i)` a long s is an s as well;
//!   llama.cpp does without, like the reference);
//! - English contractions in any order and grouping, because they are not prefixes of each other:
//!   `'(?i:[sdmt]|ll|ve|re)` and `(?i:'s|'t|'re|'ve|'m|'ll|'d)`;
//! - possessive quantifiers and greedy ones. This is valid for the expressions of the table, in which the
//!   following part never matches characters that a quantifier would give back;
//! - `\s*[\r\n]` and `\s*[\r\n]+`: both end with the last line end of the run;
//! - `\s+(?!\S)` with and without `|\s+` or `|\s` after it: the remaining single space is a separate piece
//!   either way if the split keeps unmatched text.

/// Alternatives of an expression in canonical spelling.
pub(super) fn canonical(expression: &str) -> Vec<String> {
    // Parse into alternatives of (atom, quantifier), with each atom in canonical spelling; then flatten
    // groups, print, and sort unordered parts.
    let chars: Vec<char> = expression.chars().collect();
    let mut parser = Parser { chars: &chars, at: 0, depth: 0 };
    let mut sequences = parser.alternatives(false);
    // A stray `)` or too deeply nested groups end the parse: then the spelling is unchanged.
    if parser.at < chars.len() {
        return vec![expression.to_owned()];
    }
    flatten(&mut sequences);
    let mut texts: Vec<String> = sequences.iter().map(|sequence| render(sequence)).collect();
    sort_contractions(&mut texts);
    for text in &mut texts {
        // `\s*` matches the run of whitespace and backtracks to its last line end, so one line end more or
        // less at the end of the expression matches the same text.
        if text == r"\s*[\n\r]" {
            text.push('+');
        }
    }
    // Text that only `|\s+` would match is left over by the split as a separate piece.
    let n = texts.len();
    if n > 1 && texts[n - 2] == r"\s+(?!\S)" && [r"\s+", r"\s"].contains(&texts[n - 1].as_str()) {
        texts.pop();
    }
    texts
}

type Item = (Atom, String);
type Sequence = Vec<Item>;

#[derive(Debug, Clone)]
enum Atom {
    /// A character, an escape, or a class: canonical text. Case-insensitive letters are written `~s`.
    Text(String),
    /// A class of plain letters, each canonical.
    Letters(Vec<String>),
    /// A group: its opening and its alternatives.
    Group(&'static str, Vec<Sequence>),
}

const MAX_DEPTH: usize = 200;

struct Parser<'a> {
    chars: &'a [char],
    at: usize,
    depth: usize,
}

impl Parser<'_> {
    fn peek(&self) -> Option<char> {
        self.chars.get(self.at).copied()
    }

    fn starts(&self, text: &str) -> bool {
        text.chars().enumerate().all(|(i, c)| self.chars.get(self.at + i) == Some(&c))
    }

    fn alternatives(&mut self, any_case: bool) -> Vec<Sequence> {
        let mut all = vec![Vec::new()];
        while let Some(c) = self.peek() {
            match c {
                ')' => break,
                _ if self.depth > MAX_DEPTH => break,
                '|' => {
                    self.at += 1;
                    all.push(Vec::new());
                }
                _ => {
                    let atom = self.atom(any_case);
                    let quantifier = self.quantifier();
                    if let Some(last) = all.last_mut() {
                        last.push((atom, quantifier));
                    }
                }
            }
        }
        all
    }

    fn atom(&mut self, any_case: bool) -> Atom {
        match self.peek() {
            Some('(') => self.group(any_case),
            Some('[') => self.class(any_case),
            Some('\\') => Atom::Text(self.escape()),
            Some(c) => {
                self.at += 1;
                Atom::Text(letter(c, any_case))
            }
            None => Atom::Text(String::new()),
        }
    }

    fn group(&mut self, any_case: bool) -> Atom {
        const OPENINGS: [(&str, &str); 6] = [
            ("(?:", "(?:"),
            ("(?i:", "(?:"),
            ("(?=", "(?="),
            ("(?!", "(?!"),
            ("(?<=", "(?<="),
            ("(?<!", "(?<!"),
        ];
        // Capturing makes no difference for splits.
        let known = OPENINGS.into_iter().find(|(opening, _)| self.starts(opening));
        let (opening, kind) = known.unwrap_or(("(", "(?:"));
        self.at += opening.chars().count();
        self.depth += 1;
        let inner = self.alternatives(any_case || opening == "(?i:");
        // Too deep expressions are not parsed further.
        self.depth -= usize::from(self.depth <= MAX_DEPTH);
        self.at += usize::from(self.peek() == Some(')'));
        Atom::Group(kind, inner)
    }

    fn escape(&mut self) -> String {
        // An expression that ends with a backslash is invalid, but still needs a spelling.
        self.at += 1;
        let Some(c) = self.peek() else { return "\\".into() };
        self.at += 1;
        match c {
            // `\p{Letter}`: long names become short ones.
            'p' | 'P' if self.peek() == Some('{') => {
                let start = self.at + 1;
                while self.peek().is_some_and(|c| c != '}') {
                    self.at += 1;
                }
                let name: String = self.chars[start.min(self.at)..self.at].iter().collect();
                self.at += usize::from(self.peek().is_some());
                let name = match name.as_str() {
                    "Letter" => "L",
                    "Number" => "N",
                    "Mark" => "M",
                    "Script=Han" | "IsHan" => "Han",
                    other => other,
                };
                format!("\\{c}{{{name}}}")
            }
            // `\pL`
            'p' | 'P' => {
                let name = self.peek().unwrap_or_default();
                self.at += 1;
                format!("\\{c}{{{name}}}")
            }
            // `\x0a`, `\u000a`: the character itself, in its canonical spelling.
            'x' | 'u' => {
                let hex: String =
                    self.chars[self.at..].iter().take_while(|c| c.is_ascii_hexdigit()).take(4).collect();
                let digits = if c == 'x' { 2 } else { 4 };
                let value = hex.get(..digits).and_then(|hex| u32::from_str_radix(hex, 16).ok());
                match value.and_then(char::from_u32) {
                    Some(value) => {
                        self.at += digits;
                        plain(value)
                    }
                    None => format!("\\{c}"),
                }
            }
            'n' | 'r' | 't' | 's' | 'S' | 'd' | 'D' | 'w' | 'W' | 'b' | 'B' | 'h' => format!("\\{c}"),
            c => plain(c),
        }
    }

    fn class(&mut self, any_case: bool) -> Atom {
        let start = self.at;
        self.at += 1;
        let negated = self.peek() == Some('^');
        self.at += usize::from(negated);
        let mut members: Vec<String> = Vec::new();
        while let Some(c) = self.peek() {
            if c == ']' {
                break;
            }
            // Nested classes and intersections are unchanged.
            if c == '[' || self.starts("&&") {
                let mut depth = 0;
                self.at = start;
                while let Some(c) = self.peek() {
                    self.at += 1;
                    match c {
                        '\\' => self.at += 1,
                        '[' => depth += 1,
                        ']' => depth -= 1,
                        _ => {}
                    }
                    if depth == 0 {
                        break;
                    }
                }
                return Atom::Text(self.chars[start..self.at.min(self.chars.len())].iter().collect());
            }
            let from = self.member(any_case);
            // `a-z`; a `-` before the closing bracket is a character.
            if self.peek() == Some('-') && self.chars.get(self.at + 1).is_some_and(|c| *c != ']') {
                self.at += 1;
                let to = self.member(false);
                members.push(format!("{from}-{to}"));
            } else {
                members.push(from);
            }
        }
        self.at += usize::from(self.peek().is_some());
        // A class is a set: its members have no order.
        members.sort_unstable();
        members.dedup();
        if !negated {
            // `[sS]` is case-insensitive `s`, which `(?i:s)` spells differently.
            if let [lower, upper] = members.as_slice()
                && let (Some(l), Some(u)) = (only_char(lower), only_char(upper))
                && l.is_alphabetic()
                && l.to_lowercase().eq(u.to_lowercase())
            {
                return Atom::Text(letter(l, true));
            }
            // `[x]` is `x`.
            if let [one] = members.as_slice() {
                return Atom::Text(one.clone());
            }
            if members.iter().all(|member| member.trim_start_matches('~').chars().all(char::is_alphabetic)) {
                return Atom::Letters(members);
            }
        }
        Atom::Text(format!("[{}{}]", if negated { "^" } else { "" }, members.concat()))
    }

    fn member(&mut self, any_case: bool) -> String {
        match self.peek() {
            Some('\\') => self.escape(),
            Some(c) => {
                self.at += 1;
                letter(c, any_case)
            }
            None => String::new(),
        }
    }

    fn quantifier(&mut self) -> String {
        let mut quantifier = match self.peek() {
            Some(c @ ('?' | '*' | '+')) => {
                self.at += 1;
                c.to_string()
            }
            Some('{') => {
                let len = self.chars[self.at..].iter().position(|c| *c == '}').map_or(0, |len| len + 1);
                let text: String = self.chars[self.at..self.at + len].iter().collect();
                self.at += len.max(1);
                match text.as_str() {
                    "{1}" | "{1,1}" => return String::new(),
                    "{1,}" => "+".into(),
                    "{0,}" => "*".into(),
                    "{0,1}" => "?".into(),
                    _ => text,
                }
            }
            _ => return String::new(),
        };
        // `++` is possessive, which makes no difference (see the header); `+?` is lazy, which does.
        match self.peek() {
            Some('+') => self.at += 1,
            Some('?') => {
                self.at += 1;
                quantifier.push('?');
            }
            _ => {}
        }
        quantifier
    }
}

/// A literal character, escaped if it is a control character or has a meaning.
fn plain(c: char) -> String {
    match c {
        '\n' => r"\n".into(),
        '\r' => r"\r".into(),
        '\t' => r"\t".into(),
        '\\' | '[' | ']' | '(' | ')' | '{' | '}' | '*' | '+' | '?' | '|' | '^' | '$' | '.' => {
            format!("\\{c}")
        }
        c => c.into(),
    }
}

/// Like [`plain`], for characters outside escapes, which leaves `.`, `^` and `$` unescaped.
fn letter(c: char, any_case: bool) -> String {
    match c {
        '.' | '^' | '$' => c.into(),
        c if any_case && c.is_alphabetic() => {
            c.to_lowercase().fold("~".into(), |text, c| format!("{text}{c}"))
        }
        c => plain(c),
    }
}

fn only_char(text: &str) -> Option<char> {
    let mut chars = text.chars();
    chars.next().filter(|_| chars.next().is_none())
}

/// Moves groups that are entire alternatives, or follow an apostrophe, to the outer level.
fn flatten(sequences: &mut Vec<Sequence>) {
    let mut flat = Vec::with_capacity(sequences.len());
    for sequence in sequences.drain(..) {
        // `(a|b)` as an entire alternative is `a|b`, and `'(a|b)` is `'a|'b`: this makes both forms of
        // contractions equal.
        let after_apostrophe =
            sequence.len() == 2 && matches!(&sequence[0].0, Atom::Text(text) if text == "'");
        let prefix = &sequence[..sequence.len().saturating_sub(1)];
        match sequence.last() {
            Some((Atom::Group("(?:", inner), quantifier))
                if quantifier.is_empty() && (sequence.len() == 1 || after_apostrophe) =>
            {
                let mut inner: Vec<Sequence> =
                    inner.iter().map(|tail| prefix.iter().chain(tail).cloned().collect()).collect();
                flatten(&mut inner);
                flat.extend(inner);
            }
            Some((Atom::Letters(letters), quantifier)) if quantifier.is_empty() && after_apostrophe => {
                for one in letters {
                    flat.push(
                        prefix.iter().cloned().chain([(Atom::Text(one.clone()), String::new())]).collect(),
                    );
                }
            }
            _ => flat.push(sequence),
        }
    }
    *sequences = flat;
}

fn render(sequence: &[Item]) -> String {
    let mut text = String::new();
    for (atom, quantifier) in sequence {
        match atom {
            Atom::Text(atom) => text.push_str(atom),
            Atom::Letters(letters) => text.push_str(&format!("[{}]", letters.concat())),
            Atom::Group(kind, inner) => {
                let mut inner: Vec<String> = inner.iter().map(|sequence| render(sequence)).collect();
                sort_contractions(&mut inner);
                match inner.as_slice() {
                    [one] if *kind == "(?:" && quantifier.is_empty() => text.push_str(one),
                    inner => text.push_str(&format!("{kind}{})", inner.join("|"))),
                }
            }
        }
        text.push_str(quantifier);
    }
    text
}

/// Sorts neighboring alternatives that are contractions (`'s`, `'ll`).
fn sort_contractions(texts: &mut [String]) {
    let is_one = |text: &String| {
        text.strip_prefix('\'').is_some_and(|rest| {
            let letters = rest.chars().filter(|c| *c != '~');
            rest.chars().all(|c| c == '~' || c.is_alphabetic()) && (1..=2).contains(&letters.count())
        })
    };
    // Only neighbors: an alternative between two contractions may match the start of one.
    let mut start = 0;
    while start < texts.len() {
        let len = texts[start..].iter().take_while(|text| is_one(text)).count();
        texts[start..start + len].sort_unstable();
        start += len + 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equivalent_expressions_have_one_spelling() {
        let llama3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
        for other in [
            // GPT-4, as tiktoken has it.
            r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+",
            // llama.cpp.
            r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
            // Capturing, other orders, characters for escapes, long names.
            "('[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\n\r\\p{Letter}\\pN]{0,1}\\p{L}{1,}|(\\p{N}{1,3})| ?[^\\p{N}\\s\\p{L}]+[\n\r]*|\\s*[\r\n]+|\\s+(?!\\S)",
        ] {
            assert_eq!(canonical(other), canonical(llama3), "{other}");
        }
        for different in [
            llama3.replace("{1,3}", "{1,2}"),
            llama3.replace("(?i:", "(?:"),
            llama3.replace("[\\r\\n]*", "[\\r\\n/]*"),
            llama3.replace(r"|\s*[\r\n]+", ""),
            llama3.replace("'d", "'f"),
        ] {
            assert_ne!(canonical(&different), canonical(llama3), "{different}");
        }
    }

    #[test]
    fn malformed_expressions_are_not_recognized() {
        let valid = canonical(r"\p{N}{1,3}");
        let nested = "(".repeat(20_000);
        assert_eq!(canonical(&nested), [nested.as_str()]);
        for odd in [
            "", "(", ")", "[", "[a", "a)", "\\", "{", "a{", "(?", "[^", "[a-", "\\p", "\\p{", "\\x", "|",
            "[[a]", "a{2",
        ] {
            assert_ne!(canonical(odd), valid, "{odd}");
        }
    }
}
