//! Values of metadata as text.

use gguf_container::{Array, Value};

use crate::text::printable;

/// Items of a complete array in a line.
const LINE_ITEMS: usize = 20;

/// A value in at most `room` characters, about.
pub fn shown(value: &Value, room: usize) -> String {
    match value {
        Value::String(bytes) => shown_text(bytes, room),
        Value::Array(array) => shown_array(array, room),
        // With the point or the exponent that distinguishes a float from an integer.
        Value::F32(number) => format!("{number:?}"),
        Value::F64(number) => format!("{number:?}"),
        value => value.to_string(),
    }
}

fn shown_text(bytes: &[u8], room: usize) -> String {
    let text = printable(&String::from_utf8_lossy(bytes));
    let n_chars = text.chars().count();
    if n_chars <= room {
        return text;
    }
    let suffix = format!("... ({n_chars} characters)");
    let start: String = text.chars().take(room.saturating_sub(suffix.len())).collect();
    start + &suffix
}

fn shown_array(array: &Array, room: usize) -> String {
    /// As many items as fit into `room`.
    fn items<T, I>(items: I, room: usize, show: impl Fn(T) -> String) -> String
    where
        I: IntoIterator<Item = T, IntoIter: ExactSizeIterator>,
    {
        let items = items.into_iter();
        let len = items.len();
        let suffix = format!("... ({len} items)]");
        let (mut whole, mut cut, mut n_chars) = (String::from("["), None, 1);
        for (index, item) in items.enumerate() {
            let start = whole.len();
            whole += match index {
                0 => "",
                // A complete array takes lines that a pager can show.
                _ if room == usize::MAX && index.is_multiple_of(LINE_ITEMS) => ",\n    ",
                _ => ", ",
            };
            whole += &show(item);
            n_chars += whole[start..].chars().count();
            if cut.is_none() && n_chars + 2 + suffix.len() > room {
                cut = Some(start);
            }
            if n_chars + 1 > room {
                whole.truncate(cut.unwrap_or(start));
                whole += if whole.len() > 1 { ", " } else { "" };
                return whole + &suffix;
            }
        }
        whole + "]"
    }
    match array {
        Array::U8(v) => items(v, room, u8::to_string),
        Array::I8(v) => items(v, room, i8::to_string),
        Array::U16(v) => items(v, room, u16::to_string),
        Array::I16(v) => items(v, room, i16::to_string),
        Array::U32(v) => items(v, room, u32::to_string),
        Array::I32(v) => items(v, room, i32::to_string),
        Array::F32(v) => items(v, room, |number| format!("{number:?}")),
        Array::Bool(v) => items(v, room, bool::to_string),
        Array::String(v) => items(v, room, |text| format!("{:?}", String::from_utf8_lossy(text))),
        Array::Array(v) => items(v, room, |inner| shown_array(inner, room)),
        Array::U64(v) => items(v, room, u64::to_string),
        Array::I64(v) => items(v, room, i64::to_string),
        Array::F64(v) => items(v, room, |number| format!("{number:?}")),
        other => format!("({} items)", other.len()),
    }
}
