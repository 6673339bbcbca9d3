//! A pickle as data: a reader without imports and calls.
//!
//! A pickle is a program for a stack machine whose instructions import names and call them. This reader knows
//! the instructions and the names that `torch.save` writes for tensors, keeps calls as values, and refuses
//! everything else with its place:
//!
//! ```text
//! 80 02            protocol 2
//! c torch._utils\n_rebuild_tensor_v2\n     a name, which must be in [`GLOBALS`]
//! ( ... t          the items above the mark become a tuple
//! Q                a tuple ('storage', class, key, location, elements) becomes a storage
//! R                a name and a tuple become a call, which is not executed
//! .                the end: the value on top
//! ```
//!
//! Values are in an arena and refer to each other by number, like the memo, and there is no recursion:
//! copying a value into itself repeatedly costs a few numbers.
//!
//! Source: `_weights_only_unpickler.py` of torch 2.15 (which instructions and names), `pickletools.py` of
//! Python 3.11 (what they mean).

use std::{collections::HashMap, ops::Range};

use super::globals::{self, Global};
use crate::pickle_error::PickleError;

/// Maximum bytes of a pickle; that of a model of 200 layers has 1 MB.
pub(super) const MAX_PICKLE_BYTES: usize = 64 << 20;
/// Maximum bytes of a text.
const MAX_TEXT_BYTES: usize = 64 << 10;
/// Maximum number of values, stack entries and memo entries. A tensor takes some 25.
const MAX_VALUES: usize = 8 << 20;
/// Maximum bytes of an integer of any length: those of 64 bits and a sign.
const MAX_LONG_BYTES: usize = 9;

/// A value of the arena, by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Id(u32);

#[derive(Debug)]
pub(super) enum Value {
    /// `None`.
    None,
    Bool(bool),
    /// An integer of 64 bits.
    Int(i64),
    /// A float, whose value is never used.
    Float,
    /// A text, as its range of the pickle. It is valid UTF-8.
    Text(Range<u32>),
    Tuple(Box<[Id]>),
    List(Vec<Id>),
    /// A dictionary of either kind, in insertion order.
    Dict(Vec<(Id, Id)>),
    Global(Global),
    /// A storage: the tuple that names it.
    Storage(Id),
    /// A call that was not executed: the function and the tuple of its arguments.
    Call(Global, Id),
}

#[derive(Debug)]
pub(super) struct Pickle<'a> {
    bytes: &'a [u8],
    arena: Vec<Value>,
    pub top: Id,
    /// End of the pickle in the given bytes.
    pub end: usize,
}

/// Reads one pickle from the start of `bytes`; bytes after its end are ignored.
pub(super) fn read(bytes: &[u8]) -> Result<Pickle<'_>, PickleError> {
    let mut machine = Machine {
        bytes,
        at: 0,
        begin: 0,
        opcode: 0,
        arena: Vec::new(),
        n_items: 0,
        stack: Vec::new(),
        marks: Vec::new(),
        memo: HashMap::new(),
    };
    loop {
        machine.begin = machine.at;
        machine.opcode = machine.take(1)?[0];
        if machine.opcode == b'.' {
            let top = machine.pop()?;
            return Ok(Pickle { bytes, arena: machine.arena, top, end: machine.at });
        }
        machine.step()?;
        machine.check_limits()?;
    }
}

impl<'a> Pickle<'a> {
    pub fn value(&self, id: Id) -> &Value {
        // Numbers only come from this arena, which never shrinks.
        &self.arena[id.0 as usize]
    }

    pub fn n_values(&self) -> usize {
        self.arena.len()
    }

    /// Index of a value, for sets of values.
    pub fn place(&self, id: Id) -> usize {
        id.0 as usize
    }

    /// The text of a value, if it is one.
    pub fn text(&self, id: Id) -> Option<&'a str> {
        let Value::Text(range) = self.value(id) else { return None };
        // Checked when the value was made.
        std::str::from_utf8(&self.bytes[range.start as usize..range.end as usize]).ok()
    }

    /// The items of a tuple or a list.
    pub fn items(&self, id: Id) -> Option<&[Id]> {
        match self.value(id) {
            Value::Tuple(items) => Some(items),
            Value::List(items) => Some(items),
            _ => None,
        }
    }

    pub fn pairs(&self, id: Id) -> Option<&[(Id, Id)]> {
        match self.value(id) {
            Value::Dict(pairs) => Some(pairs),
            _ => None,
        }
    }

    pub fn storages(&self) -> impl Iterator<Item = Id> {
        self.arena.iter().filter_map(|value| match value {
            Value::Storage(tuple) => Some(*tuple),
            _ => None,
        })
    }

    /// The integer of a value, if it is one.
    pub fn int(&self, id: Id) -> Option<i64> {
        match self.value(id) {
            Value::Int(int) => Some(*int),
            _ => None,
        }
    }

    /// A count: an integer that is not negative.
    pub fn count(&self, id: Id) -> Option<u64> {
        u64::try_from(self.int(id)?).ok()
    }

    /// Counts of a tuple or a list.
    pub fn counts(&self, id: Id) -> Option<Vec<u64>> {
        self.items(id)?.iter().map(|item| self.count(*item)).collect()
    }
}

struct Machine<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Current instruction, and its position.
    opcode: u8,
    begin: usize,
    arena: Vec<Value>,
    /// Items of all tuples, lists and dictionaries ever made, counted because copies are possible.
    n_items: usize,
    stack: Vec<Id>,
    marks: Vec<usize>,
    memo: HashMap<u32, Id>,
}

impl<'a> Machine<'a> {
    /// Executes one instruction, whose byte was already consumed.
    fn step(&mut self) -> Result<(), PickleError> {
        let (at, opcode) = (self.begin as u64, self.opcode);
        match opcode {
            // PROTO: 4 and later have instructions that torch's own reader refuses as well.
            0x80 => {
                let version = self.take(1)?[0];
                if version != 2 {
                    return Err(PickleError::Protocol { at, version });
                }
            }
            b'c' => {
                let (module, name) = (self.line()?, self.line()?);
                let global = globals::find(module, name).ok_or_else(|| PickleError::Global {
                    at,
                    module: module.to_owned(),
                    name: name.to_owned(),
                })?;
                self.push(Value::Global(global));
            }
            // BINPUT, LONG_BINPUT: the value on top gets a number.
            b'q' | b'r' => {
                let number = self.number(opcode == b'r')?;
                let top = self.top()?;
                self.memo.insert(number, top);
            }
            // BINGET, LONG_BINGET.
            b'h' | b'j' => {
                let number = self.number(opcode == b'j')?;
                let id = self.memo.get(&number).ok_or(PickleError::Memo { at, number })?;
                self.stack.push(*id);
            }
            b'(' => self.marks.push(self.stack.len()),
            b')' => self.push(Value::Tuple(Box::default())),
            b']' => self.push(Value::List(Vec::new())),
            b'}' => self.push(Value::Dict(Vec::new())),
            b't' => {
                let items = self.above_mark()?;
                self.push(Value::Tuple(items.into()));
            }
            // TUPLE1, TUPLE2, TUPLE3.
            0x85..=0x87 => {
                let floor = self.marks.last().copied().unwrap_or(0);
                let n = usize::from(opcode - 0x84);
                let first = self.stack.len().checked_sub(n).filter(|first| *first >= floor);
                let first = first.ok_or_else(|| self.stack_error())?;
                let items = self.stack.split_off(first);
                self.push(Value::Tuple(items.into()));
            }
            b'Q' => {
                let name = self.pop()?;
                if !matches!(self.value(name), Value::Tuple(_)) {
                    return Err(self.kind("a tuple that names a storage"));
                }
                self.push(Value::Storage(name));
            }
            // REDUCE, NEWOBJ: a call.
            b'R' | 0x81 => {
                let (arguments, called) = (self.pop()?, self.pop()?);
                self.call(called, arguments)?;
            }
            // BUILD sets attributes. Only dictionaries have any: `_metadata`, versions of modules.
            b'b' => {
                self.pop()?;
                let top = self.top()?;
                if !matches!(self.value(top), Value::Dict(_)) {
                    return Err(self.kind("a dictionary to give attributes"));
                }
            }
            b's' => {
                let (value, key) = (self.pop()?, self.pop()?);
                self.fill(&[key, value])?;
            }
            b'u' => {
                let items = self.above_mark()?;
                self.fill(&items)?;
            }
            b'a' => {
                let item = self.pop()?;
                self.append(&[item])?;
            }
            b'e' => {
                let items = self.above_mark()?;
                self.append(&items)?;
            }
            _ => return self.literal(opcode),
        }
        Ok(())
    }

    /// Pushes a plain value.
    fn literal(&mut self, opcode: u8) -> Result<(), PickleError> {
        match opcode {
            // BINUNICODE, SHORT_BINSTRING.
            b'X' => {
                let n = self.u32()? as usize;
                self.text(n)?;
            }
            b'U' => {
                let n = usize::from(self.take(1)?[0]);
                self.text(n)?;
            }
            b'J' => {
                let int = self.u32()? as i32;
                self.push(Value::Int(int.into()));
            }
            b'K' => {
                let int = self.take(1)?[0];
                self.push(Value::Int(int.into()));
            }
            b'M' => {
                let bytes = self.take(2)?;
                self.push(Value::Int(u16::from_le_bytes([bytes[0], bytes[1]]).into()));
            }
            0x8a => self.long()?,
            b'G' => {
                self.take(8)?;
                self.push(Value::Float);
            }
            b'N' => self.push(Value::None),
            0x88 | 0x89 => self.push(Value::Bool(opcode == 0x88)),
            _ => return Err(PickleError::Opcode { at: self.begin as u64, opcode }),
        }
        Ok(())
    }

    /// Keeps a call, except those that only make plain values.
    fn call(&mut self, called: Id, arguments: Id) -> Result<(), PickleError> {
        let Value::Global(global) = *self.value(called) else {
            return Err(self.kind("a name to call"));
        };
        let Value::Tuple(items) = self.value(arguments) else {
            return Err(self.kind("a tuple of arguments"));
        };
        let value = match (global, &items[..]) {
            (Global::OrderedDict, []) => Value::Dict(Vec::new()),
            // The form of Python 2: a list of pairs.
            (Global::OrderedDict, [pairs]) => {
                Value::Dict(self.pairs(*pairs).ok_or_else(|| self.kind("a list of pairs"))?)
            }
            (Global::Size, [dims]) => match self.value(*dims) {
                Value::Tuple(dims) => Value::Tuple(dims.clone()),
                _ => return Err(self.kind("a tuple of dimensions")),
            },
            _ => Value::Call(global, arguments),
        };
        self.push(value);
        Ok(())
    }

    fn pairs(&self, list: Id) -> Option<Vec<(Id, Id)>> {
        let Value::List(items) = self.value(list) else { return None };
        let pair = |item: &Id| match self.value(*item) {
            Value::Tuple(pair) => <[Id; 2]>::try_from(&pair[..]).ok(),
            Value::List(pair) => <[Id; 2]>::try_from(&pair[..]).ok(),
            _ => None,
        };
        items.iter().map(|item| pair(item).map(|[key, value]| (key, value))).collect()
    }

    /// Adds keys and values to the dictionary on top of the stack.
    fn fill(&mut self, items: &[Id]) -> Result<(), PickleError> {
        let top = self.top()?;
        let (pairs, rest) = items.as_chunks::<2>();
        match &mut self.arena[top.0 as usize] {
            Value::Dict(dict) if rest.is_empty() => {
                dict.extend(pairs.iter().map(|[key, value]| (*key, *value)));
                Ok(())
            }
            _ => Err(self.kind("a dictionary for keys and values")),
        }
    }

    fn append(&mut self, items: &[Id]) -> Result<(), PickleError> {
        let top = self.top()?;
        match &mut self.arena[top.0 as usize] {
            Value::List(list) => {
                list.extend(items);
                Ok(())
            }
            _ => Err(self.kind("a list for items")),
        }
    }

    /// An integer of any length, little endian, two's complement.
    fn long(&mut self) -> Result<(), PickleError> {
        let n = usize::from(self.take(1)?[0]);
        let bytes = self.take(n)?;
        let fill = if bytes.last().is_some_and(|last| last & 0x80 != 0) { 0xff } else { 0 };
        let mut wide = [fill; 16];
        let int = (n <= MAX_LONG_BYTES).then(|| {
            wide[..n].copy_from_slice(bytes);
            i128::from_le_bytes(wide)
        });
        let int = int.and_then(|int| i64::try_from(int).ok());
        self.push(Value::Int(int.ok_or(PickleError::Long { at: self.begin as u64, bytes: n as u64 })?));
        Ok(())
    }

    fn text(&mut self, n: usize) -> Result<(), PickleError> {
        let at = self.begin as u64;
        if n > MAX_TEXT_BYTES {
            return Err(PickleError::Text { at, bytes: n as u64 });
        }
        let bytes = self.take(n)?;
        std::str::from_utf8(bytes).map_err(|_| PickleError::Text { at, bytes: n as u64 })?;
        // The limit on a pickle's bytes is checked after every instruction, so positions fit 32 bits.
        let end = self.at as u32;
        self.push(Value::Text(end - n as u32..end));
        Ok(())
    }

    /// Removes and returns the items above the last mark, and the mark.
    fn above_mark(&mut self) -> Result<Vec<Id>, PickleError> {
        let mark = self.marks.pop().ok_or(PickleError::Mark { at: self.begin as u64 })?;
        // Items below a mark cannot be popped before the mark.
        Ok(self.stack.split_off(mark))
    }

    fn value(&self, id: Id) -> &Value {
        &self.arena[id.0 as usize]
    }

    fn push(&mut self, value: Value) {
        self.n_items += match &value {
            Value::Tuple(items) => items.len(),
            Value::Dict(pairs) => pairs.len(),
            _ => 0,
        };
        // `MAX_VALUES` keeps the number of values below 2^32.
        self.stack.push(Id(self.arena.len() as u32));
        self.arena.push(value);
    }

    fn pop(&mut self) -> Result<Id, PickleError> {
        // Items below a mark belong to the code that set it.
        let floor = self.marks.last().copied().unwrap_or(0);
        if self.stack.len() <= floor {
            return Err(self.stack_error());
        }
        self.stack.pop().ok_or_else(|| self.stack_error())
    }

    fn top(&self) -> Result<Id, PickleError> {
        self.stack.last().copied().ok_or_else(|| self.stack_error())
    }

    fn stack_error(&self) -> PickleError {
        PickleError::Stack { at: self.begin as u64, opcode: self.opcode }
    }

    fn kind(&self, expected: &'static str) -> PickleError {
        PickleError::Kind { at: self.begin as u64, expected }
    }

    fn check_limits(&self) -> Result<(), PickleError> {
        let counts = [self.arena.len(), self.n_items, self.stack.len(), self.marks.len(), self.memo.len()];
        let values = counts.into_iter().max().unwrap_or(0);
        if values > MAX_VALUES || self.at > MAX_PICKLE_BYTES {
            return Err(PickleError::TooLarge { bytes: self.at as u64, values: values as u64 });
        }
        Ok(())
    }

    fn number(&mut self, long: bool) -> Result<u32, PickleError> {
        if long { self.u32() } else { Ok(self.take(1)?[0].into()) }
    }

    fn u32(&mut self) -> Result<u32, PickleError> {
        let bytes = self.take(4)?;
        Ok(u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    }

    fn take(&mut self, n: usize) -> Result<&'a [u8], PickleError> {
        let end = self.at.checked_add(n).filter(|end| *end <= self.bytes.len());
        let end = end.ok_or(PickleError::Cut { at: self.at as u64, needed: n as u64 })?;
        let bytes = &self.bytes[self.at..end];
        self.at = end;
        Ok(bytes)
    }

    /// A text up to the end of the line.
    fn line(&mut self) -> Result<&'a str, PickleError> {
        let at = self.at as u64;
        let rest = &self.bytes[self.at..];
        let rest = &rest[..rest.len().min(MAX_TEXT_BYTES)];
        let n = rest.iter().position(|byte| *byte == b'\n').ok_or(PickleError::Cut { at, needed: 1 })?;
        let bytes = self.take(n + 1)?;
        std::str::from_utf8(&bytes[..n]).map_err(|_| PickleError::Text { at, bytes: n as u64 })
    }
}
