//! Reads metadata values.

use super::cursor::Cursor;
use crate::{Array, Error, Strings, Value};

/// Maximum depth of arrays: an array of arrays of numbers has two. The reference reads one level; the
/// specification has no limit.
pub const MAX_ARRAY_DEPTH: usize = 8;

/// Value of `key` at the cursor, beginning with its type id.
pub(super) fn read_value(cursor: &mut Cursor<'_>, key: &str) -> Result<Value, Error> {
    const WHAT: &str = "a metadata value";
    Ok(match cursor.number::<u32>("a value type")? {
        0 => Value::U8(cursor.number(WHAT)?),
        1 => Value::I8(cursor.number(WHAT)?),
        2 => Value::U16(cursor.number(WHAT)?),
        3 => Value::I16(cursor.number(WHAT)?),
        4 => Value::U32(cursor.number(WHAT)?),
        5 => Value::I32(cursor.number(WHAT)?),
        6 => Value::F32(cursor.number(WHAT)?),
        7 => Value::Bool(read_bools(cursor, 1, key)?[0]),
        8 => Value::String(cursor.string("a metadata string")?.to_vec()),
        9 => Value::Array(read_array(cursor, key, 1)?),
        10 => Value::U64(cursor.number(WHAT)?),
        11 => Value::I64(cursor.number(WHAT)?),
        12 => Value::F64(cursor.number(WHAT)?),
        id => return Err(Error::ValueType { key: key.to_owned(), id }),
    })
}

/// An array: type id of the items, count, items. `depth` is 1 for an outermost array.
fn read_array(cursor: &mut Cursor<'_>, key: &str, depth: usize) -> Result<Array, Error> {
    const WHAT: &str = "array length";
    if depth > MAX_ARRAY_DEPTH {
        return Err(Error::TooDeep { key: key.to_owned(), max: MAX_ARRAY_DEPTH });
    }
    let id: u32 = cursor.number("an array's item type")?;
    let count = cursor.count(WHAT)?;
    Ok(match id {
        0 => Array::U8(cursor.numbers(count, WHAT)?),
        1 => Array::I8(cursor.numbers(count, WHAT)?),
        2 => Array::U16(cursor.numbers(count, WHAT)?),
        3 => Array::I16(cursor.numbers(count, WHAT)?),
        4 => Array::U32(cursor.numbers(count, WHAT)?),
        5 => Array::I32(cursor.numbers(count, WHAT)?),
        6 => Array::F32(cursor.numbers(count, WHAT)?),
        7 => Array::Bool(read_bools(cursor, count, key)?),
        8 => {
            cursor.check_count(count, cursor.count_width(), WHAT)?;
            let mut items = Strings::with_capacity(count as usize);
            for _ in 0..count {
                items.push(cursor.string("an array's string")?);
            }
            Array::String(items)
        }
        9 => {
            cursor.check_count(count, 4 + cursor.count_width(), WHAT)?;
            let items = (0..count).map(|_| read_array(cursor, key, depth + 1));
            Array::Array(items.collect::<Result<_, Error>>()?)
        }
        10 => Array::U64(cursor.numbers(count, WHAT)?),
        11 => Array::I64(cursor.numbers(count, WHAT)?),
        12 => Array::F64(cursor.numbers(count, WHAT)?),
        id => return Err(Error::ValueType { key: key.to_owned(), id }),
    })
}

/// The next `count` bools. The reference treats any byte but 0 as true; the specification calls such a file
/// or its reader broken, so it is refused here.
fn read_bools(cursor: &mut Cursor<'_>, count: u64, key: &str) -> Result<Vec<bool>, Error> {
    let start = cursor.at();
    let bytes: Vec<u8> = cursor.numbers(count, "number of bools")?;
    if let Some(i) = bytes.iter().position(|&byte| byte > 1) {
        return Err(Error::BadBool { key: key.to_owned(), offset: start + i as u64, found: bytes[i] });
    }
    Ok(bytes.into_iter().map(|byte| byte == 1).collect())
}
