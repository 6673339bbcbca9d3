//! Expressions of the loader's table: sizes, conditions and flags as functions of keys, tensors and layers.

use std::{cell::RefCell, collections::HashMap};

use gguf_container::{Array, Metadata, Value};
use gguf_types::Shape;

/// Nesting at which evaluation stops. The table's own depth stays below 30.
const MAX_DEPTH: usize = 100;

/// A value of an expression. Evaluation returns `None` if the table does not determine it.
#[derive(Debug, Clone, PartialEq)]
pub enum Scalar<'a> {
    /// An integer or a boolean.
    Int(i64),
    /// A float.
    Real(f64),
    /// A text.
    Text(&'a str),
}

/// A parsed expression.
#[derive(Debug, Clone, PartialEq)]
pub enum Expr<'t> {
    /// `?`: not determined by the table.
    Unknown,
    /// An integer.
    Int(i64),
    /// A float.
    Real(f64),
    /// A quoted text.
    Text(&'t str),
    /// A loop variable, or `@` for the layer at which a field is read.
    Variable(&'t str),
    /// A field, and its layer.
    Field(&'t str, Option<Box<Expr<'t>>>),
    /// `$KEY` or `$KEY[LAYER]`, and a default after `~`.
    Key(&'t str, Option<Box<Expr<'t>>>, Option<Box<Expr<'t>>>),
    /// `has(KEY)`, `is(KEY)` (is a list) and `len(KEY)`.
    AboutKey(&'t str, &'t str),
    /// `there(NAME, ...)`: true if the file has the tensor; with a dimension, its size.
    Tensor(&'t str, Vec<Expr<'t>>, Option<usize>),
    /// `most(EXPR)`: the largest value over all layers.
    Most(Box<Expr<'t>>),
    /// A function or operator of one or two values.
    Apply(&'t str, Vec<Expr<'t>>),
    /// `CONDITION?THEN:OTHER`.
    If(Box<Expr<'t>>, Box<Expr<'t>>, Box<Expr<'t>>),
}

impl<'t> Expr<'t> {
    /// Parses a complete expression. `None` for text that is not one.
    pub fn parse(text: &'t str) -> Option<Expr<'t>> {
        let mut parser = Parser { text, at: 0 };
        let expr = parser.ternary()?;
        (parser.at == text.len()).then_some(expr)
    }

    /// Adds the keys that the expression reads, as the table spells them.
    pub fn keys(&self, found: &mut Vec<&'t str>) {
        self.walk(&mut |part| {
            if let Expr::Key(key, ..) | Expr::AboutKey(_, key) = part {
                found.push(key);
            }
        });
    }

    /// Adds the fields that the expression refers to.
    pub fn fields(&self, found: &mut Vec<&'t str>) {
        self.walk(&mut |part| {
            if let Expr::Field(name, _) = part {
                found.push(name);
            }
        });
    }

    /// Visits the expression, then its parts.
    fn walk(&self, visit: &mut dyn FnMut(&Expr<'t>)) {
        visit(self);
        match self {
            Expr::Key(_, index, default) => index.iter().chain(default).for_each(|part| part.walk(visit)),
            Expr::Field(_, index) => index.iter().for_each(|part| part.walk(visit)),
            Expr::Tensor(_, parts, _) | Expr::Apply(_, parts) => {
                parts.iter().for_each(|part| part.walk(visit));
            }
            Expr::Most(part) => part.walk(visit),
            Expr::If(condition, then, other) => {
                [condition, then, other].iter().for_each(|part| part.walk(visit));
            }
            Expr::AboutKey(..)
            | Expr::Unknown
            | Expr::Int(_)
            | Expr::Real(_)
            | Expr::Text(_)
            | Expr::Variable(_) => {}
        }
    }
}

/// Operators by rank, loosest first.
const RANKS: [&[&str]; 7] =
    [&["||"], &["&&"], &["|"], &["==", "!="], &["<=", ">=", "<", ">"], &["+", "-"], &["*", "/", "%"]];

struct Parser<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Parser<'t> {
    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    fn take(&mut self, token: &str) -> bool {
        let found = self.rest().starts_with(token);
        self.at += if found { token.len() } else { 0 };
        found
    }

    /// The longest prefix of characters that fit.
    fn word(&mut self, fits: impl Fn(char) -> bool) -> &'t str {
        let rest = self.rest();
        let word = &rest[..rest.find(|c| !fits(c)).unwrap_or(rest.len())];
        self.at += word.len();
        word
    }

    fn ternary(&mut self) -> Option<Expr<'t>> {
        let condition = self.binary(0)?;
        if !self.take("?") {
            return Some(condition);
        }
        let then = self.ternary()?;
        let other = self.take(":").then(|| self.ternary())??;
        Some(Expr::If(condition.into(), then.into(), other.into()))
    }

    fn binary(&mut self, rank: usize) -> Option<Expr<'t>> {
        let Some(operators) = RANKS.get(rank) else { return self.unary() };
        let mut left = self.binary(rank + 1)?;
        loop {
            // `|` is not the first half of `||`.
            let is_or = rank == 2 && self.rest().starts_with("||");
            let operator = operators.iter().find(|operator| !is_or && self.rest().starts_with(**operator));
            let Some(operator) = operator else { return Some(left) };
            self.at += operator.len();
            left = Expr::Apply(operator, vec![left, self.binary(rank + 1)?]);
        }
    }

    fn unary(&mut self) -> Option<Expr<'t>> {
        for operator in ["!", "-"] {
            if self.take(operator) {
                return Some(Expr::Apply(if operator == "!" { "!" } else { "neg" }, vec![self.unary()?]));
            }
        }
        self.primary()
    }

    fn index(&mut self) -> Option<Option<Box<Expr<'t>>>> {
        if !self.take("[") {
            return Some(None);
        }
        let index = self.ternary()?;
        self.take("]").then_some(Some(Box::new(index)))
    }

    fn key_name(&mut self) -> &'t str {
        self.word(|c| c.is_ascii_alphanumeric() || c == '_' || c == '.')
    }

    fn primary(&mut self) -> Option<Expr<'t>> {
        if self.take("(") {
            let inner = self.ternary()?;
            return self.take(")").then_some(inner);
        }
        if self.take("$") {
            let key = self.key_name();
            let index = self.index()?;
            let default = if self.take("~") { Some(Box::new(self.unary()?)) } else { None };
            return Some(Expr::Key(key, index, default));
        }
        if self.take("\"") {
            let text = self.word(|c| c != '"');
            return self.take("\"").then_some(Expr::Text(text));
        }
        if self.take("?") {
            return Some(Expr::Unknown);
        }
        if self.take("@") {
            return Some(Expr::Variable("@"));
        }
        if self.rest().starts_with(|c: char| c.is_ascii_digit()) {
            let number = self.word(|c| c.is_ascii_alphanumeric() || c == '.');
            // `1e-06` continues after its sign.
            let number = if number.ends_with('e') && (self.rest().starts_with(['-', '+'])) {
                self.at += 1;
                let exponent = self.word(|c| c.is_ascii_digit());
                &self.text[self.at - exponent.len() - 1 - number.len()..self.at]
            } else {
                number
            };
            let int = number.parse().map(Expr::Int).ok();
            return int.or_else(|| number.parse().map(Expr::Real).ok());
        }
        let name = self.word(|c| c.is_ascii_alphanumeric() || c == '_');
        match name {
            "" => None,
            "i" | "j" | "k" => Some(Expr::Variable(name)),
            "has" | "is" | "len" => {
                self.take("(").then_some(())?;
                let key = self.key_name();
                self.take(")").then_some(Expr::AboutKey(name, key))
            }
            "there" | "dim" => {
                self.take("(").then_some(())?;
                let tensor = self.word(|c| !matches!(c, ',' | ';' | ')'));
                let mut parts = Vec::new();
                while self.take(",") {
                    parts.push(self.ternary()?);
                }
                let dim =
                    if self.take(";") { Some(self.word(|c| c.is_ascii_digit()).parse().ok()?) } else { None };
                self.take(")").then_some(Expr::Tensor(tensor, parts, dim))
            }
            "most" => {
                self.take("(").then_some(())?;
                let inner = self.ternary()?;
                self.take(")").then_some(Expr::Most(inner.into()))
            }
            "max" | "min" => {
                self.take("(").then_some(())?;
                let first = self.ternary()?;
                let second = self.take(",").then(|| self.ternary())??;
                self.take(")").then_some(Expr::Apply(name, vec![first, second]))
            }
            _ => Some(Expr::Field(name, self.index()?)),
        }
    }
}

/// Values of the loop variables `i`, `j`, `k` and of `@`.
#[derive(Debug, Clone, Copy, Default)]
pub struct Layers {
    /// By variable.
    pub loops: [i64; 3],
    /// The layer at which a field is read.
    pub at: i64,
}

/// Inputs of expressions.
pub struct Facts<'a> {
    /// Keys of the file.
    pub metadata: &'a Metadata,
    /// Value of `general.architecture`, with which most keys begin.
    pub architecture: &'a str,
    /// Tensors of the file.
    pub tensors: &'a HashMap<&'a str, Shape>,
    /// Formulas of the fields.
    pub fields: HashMap<&'a str, Expr<'a>>,
    /// Values of fields by layer. Formulas of fields have no loop variables.
    known: RefCell<HashMap<(&'a str, i64), Option<Scalar<'a>>>>,
}

impl<'a> Facts<'a> {
    /// Facts of a file.
    pub fn new(
        metadata: &'a Metadata,
        architecture: &'a str,
        tensors: &'a HashMap<&'a str, Shape>,
        fields: HashMap<&'a str, Expr<'a>>,
    ) -> Facts<'a> {
        Facts { metadata, architecture, tensors, fields, known: RefCell::default() }
    }

    /// The full name of a key: those that begin with a dot follow the architecture.
    pub fn key(&self, key: &str) -> String {
        if key.starts_with('.') { format!("{}{key}", self.architecture) } else { key.to_owned() }
    }

    /// The value of an expression as an integer.
    pub fn int(&self, expr: &Expr<'a>, layers: Layers) -> Option<i64> {
        match self.value(expr, layers, 0)? {
            Scalar::Int(value) => Some(value),
            _ => None,
        }
    }

    /// True if an expression has the value of a key, or of an element.
    pub fn equals(&self, expr: &Expr<'a>, layers: Layers, value: &Value, index: Option<usize>) -> bool {
        let (Some(own), Some(other)) = (self.value(expr, layers, 0), scalar(value, index)) else {
            return false;
        };
        match (own, other) {
            // Floats of a file are f32.
            (Scalar::Real(a), Scalar::Real(b)) => a as f32 == b as f32,
            (Scalar::Int(a), Scalar::Real(b)) => a as f32 == b as f32,
            (a, b) => a == b,
        }
    }

    /// The value of a condition.
    pub fn is_true(&self, expr: &Expr<'a>, layers: Layers) -> Option<bool> {
        self.value(expr, layers, 0).map(|value| value != Scalar::Int(0))
    }

    /// A tensor's name with its numbers in place.
    pub fn tensor_name(&self, pattern: &str, numbers: &[Expr<'a>], layers: Layers) -> Option<String> {
        let mut pieces = pattern.split("%d");
        let mut name = pieces.next()?.to_owned();
        for (piece, number) in pieces.zip(numbers) {
            name += &self.int(number, layers)?.to_string();
            name += piece;
        }
        Some(name)
    }

    fn value(&self, expr: &Expr<'a>, layers: Layers, depth: usize) -> Option<Scalar<'a>> {
        if depth > MAX_DEPTH {
            return None;
        }
        let of = |part: &Expr<'a>| self.value(part, layers, depth + 1);
        let int = |part: &Expr<'a>| match of(part)? {
            Scalar::Int(value) => Some(value),
            _ => None,
        };
        match expr {
            Expr::Unknown => None,
            Expr::Int(value) => Some(Scalar::Int(*value)),
            Expr::Real(value) => Some(Scalar::Real(*value)),
            Expr::Text(text) => Some(Scalar::Text(text)),
            Expr::Variable("@") => Some(Scalar::Int(layers.at)),
            Expr::Variable(name) => Some(Scalar::Int(layers.loops[place(name)])),
            Expr::Field(name, index) => {
                let at = index.as_ref().map_or(Some(layers.at), |index| int(index))?;
                if let Some(known) = self.known.borrow().get(&(*name, at)) {
                    return known.clone();
                }
                let value = self.value(self.fields.get(name)?, Layers { at, ..layers }, depth + 1);
                self.known.borrow_mut().insert((*name, at), value.clone());
                value
            }
            Expr::Key(key, index, default) => {
                let Some(value) = self.metadata.get(&self.key(key)) else {
                    return default.as_ref().and_then(|default| of(default));
                };
                let index = match index {
                    Some(index) => Some(usize::try_from(int(index)?).ok()?),
                    None => None,
                };
                scalar(value, index)
            }
            Expr::AboutKey(question, key) => {
                let value = self.metadata.get(&self.key(key));
                let list = value.and_then(Value::as_array);
                Some(Scalar::Int(match *question {
                    "has" => value.is_some().into(),
                    "is" => list.is_some().into(),
                    _ => list.map_or(0, Array::len) as i64,
                }))
            }
            Expr::Tensor(pattern, numbers, dim) => {
                let shape = self.tensors.get(self.tensor_name(pattern, numbers, layers)?.as_str());
                Some(Scalar::Int(match dim {
                    None => shape.is_some().into(),
                    Some(dim) => i64::try_from(shape?.dim(*dim)).ok()?,
                }))
            }
            Expr::Most(part) => {
                let n_layers = self.int(&Expr::Field("n_layer_all", None), layers)?.clamp(0, 1024);
                let each = |at| self.int(part, Layers { at, ..layers });
                (0..n_layers)
                    .map(each)
                    .try_fold(0, |most, value| Some(i64::max(most, value?)))
                    .map(Scalar::Int)
            }
            Expr::If(condition, then, other) => {
                of(if of(condition)? != Scalar::Int(0) { then } else { other })
            }
            Expr::Apply(operator, parts) => self.apply(operator, parts, &of),
        }
    }

    fn apply(
        &self,
        operator: &str,
        parts: &[Expr<'a>],
        of: &impl Fn(&Expr<'a>) -> Option<Scalar<'a>>,
    ) -> Option<Scalar<'a>> {
        let truth = |part: &Expr<'a>| of(part).map(|value| value != Scalar::Int(0));
        match (operator, parts) {
            ("!", [part]) => truth(part).map(|value| Scalar::Int((!value).into())),
            ("neg", [part]) => match of(part)? {
                Scalar::Int(value) => value.checked_neg().map(Scalar::Int),
                Scalar::Real(value) => Some(Scalar::Real(-value)),
                Scalar::Text(_) => None,
            },
            // Half of the answer can be enough.
            ("&&" | "||", [left, right]) => {
                let decides = operator == "||";
                match (truth(left), truth(right)) {
                    (Some(value), _) | (_, Some(value)) if value == decides => {
                        Some(Scalar::Int(decides.into()))
                    }
                    (Some(_), Some(_)) => Some(Scalar::Int((!decides).into())),
                    _ => None,
                }
            }
            (_, [left, right]) => binary(operator, &of(left)?, &of(right)?),
            _ => None,
        }
    }
}

/// The position of a loop variable in [`Layers::loops`].
pub fn place(variable: &str) -> usize {
    match variable {
        "i" => 0,
        "j" => 1,
        _ => 2,
    }
}

fn binary<'a>(operator: &str, left: &Scalar<'a>, right: &Scalar<'a>) -> Option<Scalar<'a>> {
    let as_real = |value: &Scalar<'_>| match value {
        Scalar::Int(value) => Some(*value as f64),
        Scalar::Real(value) => Some(*value),
        Scalar::Text(_) => None,
    };
    let is_equal = match (left, right) {
        (Scalar::Text(left), Scalar::Text(right)) => left == right,
        _ => as_real(left)? == as_real(right)?,
    };
    if matches!(operator, "==" | "!=") {
        return Some(Scalar::Int((is_equal == (operator == "==")).into()));
    }
    if let (Scalar::Int(left), Scalar::Int(right)) = (left, right) {
        let flag = |value: bool| Some(i64::from(value));
        return match operator {
            "+" => left.checked_add(*right),
            "-" => left.checked_sub(*right),
            "*" => left.checked_mul(*right),
            "/" => left.checked_div(*right),
            "%" => left.checked_rem(*right),
            "|" => Some(left | right),
            "<" => flag(left < right),
            ">" => flag(left > right),
            "<=" => flag(left <= right),
            ">=" => flag(left >= right),
            "max" => Some(*left.max(right)),
            "min" => Some(*left.min(right)),
            _ => None,
        }
        .map(Scalar::Int);
    }
    let (left, right) = (as_real(left)?, as_real(right)?);
    Some(match operator {
        "+" => Scalar::Real(left + right),
        "-" => Scalar::Real(left - right),
        "*" => Scalar::Real(left * right),
        "/" => Scalar::Real(left / right),
        "<" => Scalar::Int((left < right).into()),
        ">" => Scalar::Int((left > right).into()),
        "<=" => Scalar::Int((left <= right).into()),
        ">=" => Scalar::Int((left >= right).into()),
        _ => return None,
    })
}

/// The value of a key, or of one element if it is a list; a single value serves all layers.
fn scalar(value: &Value, index: Option<usize>) -> Option<Scalar<'_>> {
    Some(match value {
        Value::Bool(value) => Scalar::Int((*value).into()),
        Value::String(_) => Scalar::Text(value.as_str()?),
        Value::F32(value) => Scalar::Real((*value).into()),
        Value::F64(value) => Scalar::Real(*value),
        Value::I8(value) => Scalar::Int((*value).into()),
        Value::I16(value) => Scalar::Int((*value).into()),
        Value::I32(value) => Scalar::Int((*value).into()),
        Value::I64(value) => Scalar::Int(*value),
        Value::Array(list) => {
            let at = index?;
            match list {
                Array::U8(list) => Scalar::Int((*list.get(at)?).into()),
                Array::I8(list) => Scalar::Int((*list.get(at)?).into()),
                Array::U16(list) => Scalar::Int((*list.get(at)?).into()),
                Array::I16(list) => Scalar::Int((*list.get(at)?).into()),
                Array::U32(list) => Scalar::Int((*list.get(at)?).into()),
                Array::I32(list) => Scalar::Int((*list.get(at)?).into()),
                Array::I64(list) => Scalar::Int(*list.get(at)?),
                Array::F32(list) => Scalar::Real((*list.get(at)?).into()),
                Array::Bool(list) => Scalar::Int((*list.get(at)?).into()),
                Array::U64(list) => Scalar::Int(i64::try_from(*list.get(at)?).ok()?),
                _ => return None,
            }
        }
        value => Scalar::Int(i64::try_from(value.as_u64()?).ok()?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> Option<i64> {
        let mut metadata = Metadata::new();
        metadata.set("llama.block_count", 2u32);
        metadata.set("llama.heads", Array::U32(vec![3, 5]));
        let shape = Shape::new(&[4, 7]).ok()?;
        let tensors = HashMap::from([("blk.1.x.weight", shape)]);
        let fields = HashMap::from([
            ("n_layer_all", Expr::parse("$.block_count")?),
            ("n_head", Expr::parse("$.heads[@]~0")?),
        ]);
        let facts = Facts::new(&metadata, "llama", &tensors, fields);
        facts.int(&Expr::parse(text)?, Layers { loops: [1, 0, 0], at: 0 })
    }

    #[test]
    fn operators_follow_precedence() {
        assert_eq!(value("1+2*3-4/2"), Some(5));
        assert_eq!(value("(1+2)*3%4"), Some(1));
        assert_eq!(value("1+1==2&&3<2||1"), Some(1));
        assert_eq!(value("1|2"), Some(3));
        assert_eq!(value("-3+1"), Some(-2));
        assert_eq!(value("0?1:0?2:3"), Some(3));
        assert_eq!(value("max(2,5)+min(2,5)"), Some(7));
    }

    #[test]
    fn keys_fields_and_tensors_are_read() {
        assert_eq!(value("$.block_count*10"), Some(20));
        assert_eq!(value("$.missing~$.block_count"), Some(2));
        assert_eq!(value("n_head[i]+n_head[0]"), Some(8));
        assert_eq!(value("most(n_head[@])"), Some(5));
        assert_eq!(value("len(.heads)+has(.missing)+is(.block_count)"), Some(2));
        assert_eq!(value("there(blk.%d.x.weight,i)"), Some(1));
        assert_eq!(value("there(blk.%d.x.weight,i-1)"), Some(0));
        assert_eq!(value("dim(blk.%d.x.weight,i;1)"), Some(7));
    }

    #[test]
    fn unknown_values_propagate_unless_decided() {
        assert_eq!(value("?+1"), None);
        assert_eq!(value("$.missing"), None);
        assert_eq!(value("1/0"), None);
        assert_eq!(value("0&&?"), Some(0));
        assert_eq!(value("?||1"), Some(1));
        assert_eq!(value("1&&?"), None);
    }
}
